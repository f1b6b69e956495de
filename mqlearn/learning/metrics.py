"""What is measured at a checkpoint: errors against the exact optimum, exact policy values, greedy episodes."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from mqlearn.checks import differ
from mqlearn.errors import SettingError, user_code
from mqlearn.learners.operators import BELLMAN, BoundOperator
from mqlearn.learning.metric_kinds import BUILT_IN
from mqlearn.learning.policy_values import SMALL, PolicyValues
from mqlearn.learning.policy_values import greedy_policies as greedy_policies
from mqlearn.problems.mdp import FiniteMDP
from mqlearn.problems.solvers import Optimum, optimal
from mqlearn.sampling.chains import stream_at
from mqlearn.sampling.evaluation import Evaluation
from mqlearn.sampling.tables import alias_table, transition_model

if TYPE_CHECKING:
    from mqlearn import kernels

Metric = Callable[[np.ndarray, FiniteMDP], np.ndarray]

_KEPT = 2**26  # bytes of random words that episodes of one kind may keep
_CACHED = 2**15  # entries of tables that are worked on at a time
_RETURNS = (
    40  # checkpoints at which the exact return of a policy of few states is affordable, where its value is at all
)
_LARGE = 4096  # states: beyond, that return takes a tenth of a second, and is measured at the end alone


def recorded(
    mdp: Any, features: Any, evaluation: Evaluation, more: Mapping[str, Metric] | None = None, averaged: bool = False
) -> list[str]:
    """Names of the metrics that a run can record; theta_error is absent still where no theta* is found.

    evaluation: with its number of episodes.   averaged: whether the rule is.
    """
    starts = {"both": ("uniform", "start")}.get(evaluation.start, (evaluation.start,))
    if not isinstance(mdp, FiniteMDP):
        return ["expected_return", "return_start"] if evaluation.episodes else []
    names = ["q_error", "expected_return", "q_error_l2", "bellman_error", "policy_value", "value_gap"]
    names += [f"{name}_average" for name in names if name != "expected_return"] if averaged else []
    names += [] if features is None else ["theta_error", "theta_error_average"]
    if evaluation.episodes:
        names += [f"return_{start}" for start in starts]
        names += ["success_probability", "success_uniform"] if mdp.goal.any() else []
    return [*names, *(more or {})]


def v_error_l2(q: np.ndarray, mdp: FiniteMDP) -> np.ndarray:
    """Euclidean norm of max_u Q(x, u) - V*(x) over the states that count: (n_seeds,), of tables q (n_seeds, S, A).

    No run has it unless asked: `metrics={v_error_l2: mqlearn.v_error_l2}`. Kamanchi, Diddigi, Bhatnagar 2019 use it.

    >>> mdp = mq.two_state()
    >>> bool(mq.v_error_l2(mq.optimal(mdp).q[None], mdp)[0] < 1e-9)
    True
    """
    states = np.unique(mdp.pairs[:, 0])
    allowed = np.where(mdp.counted, 0.0, -np.inf)[states]
    learned = (q[:, states] + allowed).max(axis=2)
    optimum = (optimal(mdp).q[states] + allowed).max(axis=1)
    return np.sqrt(((learned - optimum) ** 2).sum(axis=1))


class Measure:
    """Measures learners at checkpoints: errors of their tables, and what is greedy of the tables that act.

    expected_return: the exact expected undiscounted return of the greedy policy from the start distribution, within
    the step limit; at 40 checkpoints, on more than 128 states at `exact`, on more than 4096 at the end.
    Over the counted pairs: q_error, sup norm of Q_k - Q*; q_error_l2, its Euclidean norm; bellman_error, sup norm of
    T Q_k - Q_k, T with exact expectations; of an `operator` other than Bellman's, T is that operator, and its fixed
    point stands for Q* in both. At the start (mean over the start distribution): policy_value, the exact
    discounted value of the greedy policy, which chooses uniformly among equal best actions; value_gap, the optimal
    value minus that. theta_error: ||theta_k - theta*||/||theta*|| over the columns that are sampled, theta* in `point`,
    a `FixedPoint`; theta_error_average: of the mean of theta_1, ..., theta_k. q_error_average and so on: of the mean of
    Q_1, ..., Q_k, for rules that are averaged. return_uniform, return_start: total
    return of the greedy episodes. success_probability, success_uniform: exact probability of a goal within the step
    limit, from the start and from uniform non-terminal states; absent where there is no goal. On more than 128 states
    bellman_error and the exact values are measured at the columns `exact` only, and these probabilities there in any
    case. More metrics:
    functions of (tables (n, S, A), mdp) that return (n,); one with `of_behaviour = True` has (visits (n, pairs), mdp).
    """

    def __init__(
        self,
        mdp: FiniteMDP,
        optimum: Optimum,
        more: Mapping[str, Metric] | None = None,
        evaluation: Evaluation | None = None,
        exact: tuple[int, ...] = (),
        point: Any = None,
        seed: int = 0,
        iteration: Sequence[int] | np.ndarray = (),
        limit: int = 0,
        operator: BoundOperator = BELLMAN,
        n_seeds: int = 0,
    ) -> None:
        self.mdp = mdp
        self.optimum = optimum
        self.more = dict(more or {})
        self.evaluation = evaluation
        self.exact = exact
        self.point = point
        self.seed = np.uint32(seed)
        self.iteration = iteration
        self.limit = limit
        self.operator, self.fixed_point = operator, operator.fixed_point(mdp)
        self.policies = PolicyValues(mdp)
        self.n_seeds = n_seeds
        self._first: dict[bytes, tuple[np.ndarray, dict[str, np.ndarray]]] = {}  # tables and returns, by seeds
        self.returned_at = _columns_of_returns(mdp, len(iteration), exact) if limit else set()
        self._model: Any = None if evaluation is None else transition_model(mdp, mean_reward=False)
        for name in self.more:
            if name in BUILT_IN:
                raise SettingError("metrics", name, "is the name of a built-in metric")

    def __call__(self, column: int, learner: Any) -> dict[str, np.ndarray]:
        """Metric name -> (lanes,) at checkpoint number `column`."""
        q, acting = learner.tables(), learner.acting_tables()
        acting = q if acting is None else acting
        errors = self.errors(q)
        measured = {"q_error": errors["q_error"]}
        if column in self.returned_at:
            measured["expected_return"] = self.expected_returns(acting)
        measured |= errors
        success: dict[str, np.ndarray] = {}
        if self.mdp.n_states <= SMALL or column in self.exact:
            if self.evaluation is not None and column in self.exact and self.mdp.goal.any():
                values, success = self.policies.at_start_and_success(acting, self.evaluation.limit(self.mdp))
            else:
                values = self.policies.at_start(acting)
            measured |= {"policy_value": values, "value_gap": self.optimum.start_value - values}
            measured["bellman_error"] = self.residuals(q)
        if (average := learner.average_tables()) is not None:
            measured |= {f"{name}_average": values for name, values in self._of_average(column, average).items()}
        if self.point is not None:
            used = self.point.used  # the other columns are never sampled and stay at theta_0
            star = self.point.theta[used]
            for name, theta in (("theta_error", learner.theta), ("theta_error_average", learner.average)):
                if theta is None:
                    continue
                difference = np.ascontiguousarray(theta[:, used] - star)
                measured[name] = np.sqrt((difference**2).sum(axis=1) / ((star**2).sum() or 1.0))
        if self.evaluation is not None:
            measured |= self._returns_at(column, acting, learner.lanes, self.evaluation.place(self.iteration[column]))
        measured |= success
        for name, metric in self.more.items():
            of = self._visits(name, learner) if getattr(metric, "of_behaviour", False) else q
            with user_code(f"metrics.{name}", getattr(metric, "__name__", name)):
                measured[name] = np.asarray(metric(of, self.mdp), dtype=np.float64)
                again = metric(of, self.mdp) if column == 0 else measured[name]
            if differ(measured[name], again):
                expected = "gives other numbers when it is called again: it must follow from the tables and the model"
                raise SettingError("metrics", name, expected)
            if measured[name].shape != (len(q),):
                raise SettingError("metrics", name, f"must return an array of shape ({len(q)},), one value a seed")
        return measured

    @staticmethod
    def _visits(name: str, learner: Any) -> np.ndarray:
        """(n, pairs): how often the chain of each seed was at each learned pair by now."""
        state = learner.chain_state()
        if state is None:
            raise SettingError("metrics", name, "is of a behaviour, and synchronous sampling has none; use markovian")
        return state[1]

    def _of_average(self, column: int, q: np.ndarray) -> dict[str, np.ndarray]:
        """What is measured of the mean of the iterates."""
        measured = self.errors(q)
        if self.mdp.n_states <= SMALL or column in self.exact:
            values, measured["bellman_error"] = self.exact_values(q)
            measured |= {"policy_value": values, "value_gap": self.optimum.start_value - values}
        return measured

    def errors(self, q: np.ndarray) -> dict[str, np.ndarray]:
        """Errors of tables q (n, S, A)."""
        counted, tables = np.flatnonzero(self.mdp.counted), q.reshape(len(q), -1)
        fixed_point = self.fixed_point.take(counted)
        largest, euclidean = np.empty(len(q)), np.empty(len(q))
        together = max(1, _CACHED // tables.shape[1])
        for i in range(0, len(q), together):
            # Seeds as contiguous rows, each summed alone: otherwise the order of a sum depends on how many there are.
            error = np.abs(tables[i : i + together].take(counted, axis=1) - fixed_point)
            with np.errstate(over="ignore"):  # a diverging table is about to be recorded as such
                largest[i : i + together] = error.max(axis=1)
                euclidean[i : i + together] = np.sqrt((error**2).sum(axis=1))
        return {"q_error": largest, "q_error_l2": euclidean}

    def exact_values(self, q: np.ndarray, acting: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """For tables q (n, S, A): values at the start of their greedy policies (n,), and Bellman errors (n,).

        acting: tables (n, S, A) that are greedy in place of q.
        """
        return self.policies.at_start(q if acting is None else acting), self.residuals(q)

    def residuals(self, q: np.ndarray) -> np.ndarray:
        """(n,): sup norm of T q - q for tables q (n, S, A)."""
        from mqlearn import kernels

        if not self.operator.plain:
            return self.operator.residuals(q)
        return kernels.bellman_errors(self.policies.of_pairs(q), self.policies.expectations)

    def expected_returns(self, q: np.ndarray) -> np.ndarray:
        """(n,): exact expected undiscounted return of the greedy policies within the step limit."""
        return self.policies.returns(q, self.limit)

    def _returns_at(self, column: int, q: np.ndarray, lanes: np.ndarray, k: int | None) -> dict[str, np.ndarray]:
        """`returns`; rules that begin alike, as where all ties and an episode is long to play, are measured once."""
        if column > 0:
            return self.returns(q, lanes, k)
        before = self._first.get(lanes.tobytes())
        if before is None or not np.array_equal(before[0], q):
            before = self._first[lanes.tobytes()] = q, self.returns(q, lanes, k)
        return before[1]

    def returns(self, q: np.ndarray, lanes: np.ndarray, k: int | None = None) -> dict[str, np.ndarray]:
        """Total undiscounted return of `evaluation.episodes` greedy episodes, for tables q (n, S, A).

        k: with the numbers of this checkpoint; None: with those that all checkpoints have.
        """
        from mqlearn import kernels

        values = self.policies.of_pairs(q)
        measured = {}
        for kind, (episodes, kept) in self._episodes.items():
            drawn = kept if k is None else kernels.Drawn(kept.words[:0], kept.known[:0])
            stream = stream_at(f"evaluation_{kind}", k)
            measured[f"return_{kind}"], _ = kernels.greedy_returns(
                values, self._model, episodes, lanes, self.seed, stream, drawn
            )
        return measured

    @cached_property
    def _episodes(self) -> "dict[str, tuple[kernels.Episodes, kernels.Drawn]]":
        """Greedy episodes by where they start, and room for what all checkpoints and rules draw alike."""
        from mqlearn import kernels

        evaluation, open_states = self.evaluation, ~self.mdp.terminal
        assert evaluation is not None and evaluation.episodes is not None
        number, limit = evaluation.episodes, evaluation.limit(self.mdp)
        n_seeds = self.n_seeds if 4 * self.n_seeds * number * (limit + 1) <= _KEPT else 0
        found = {}
        for kind, distribution in {"uniform": open_states / open_states.sum(), "start": self.mdp.start}.items():
            if evaluation.start in (kind, "both"):
                starts = np.flatnonzero(distribution > 0)
                tables = starts, *alias_table(distribution[starts]), self.mdp.goal.astype(np.uint8)
                words = np.empty((n_seeds, number, limit + 1), np.uint32)
                drawn = kernels.Drawn(words, np.zeros((n_seeds, number), np.int64))
                found[kind] = kernels.Episodes(*tables, number, limit), drawn
        return found

    def success(self, q: np.ndarray) -> dict[str, np.ndarray]:
        """Exact probability of a goal within the step limit under the greedy policies of q (n, S, A)."""
        assert self.evaluation is not None
        return self.policies.success(q, self.evaluation.limit(self.mdp))


def _columns_of_returns(mdp: FiniteMDP, n_checkpoints: int, exact: tuple[int, ...]) -> set[int]:
    """The numbers of the checkpoints at which `expected_return` is measured."""
    if mdp.n_states > _LARGE:
        return {n_checkpoints - 1}
    some = np.linspace(0, n_checkpoints - 1, min(_RETURNS, n_checkpoints)) if mdp.n_states <= SMALL else []
    return {*np.rint(some).astype(int).tolist(), *exact}
