"""What a run leaves: the curves of its seeds, and the last finite parameters of each."""

import importlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from mqlearn.finding import Finding, each_once
from mqlearn.learners import Learner
from mqlearn.problems.environments.simulator import Simulator
from mqlearn.problems.mdp import FiniteMDP, table_of_pairs

_ERROR_TABLES, _ERROR_TABLES_LARGE = 20, 5
LEARNED_TABLES = ("q", "acting", "theta", "theta_average", "theta_acting", "mean_path", "visits")
ERROR_TABLES = "error_tables"  # the distance of tables to the fixed point
_FIRST = ("q_error", "expected_return")  # what every run promises
_PLOTS = "mqlearn.analysis.figures.quick"  # by name, at the first picture: a run needs nothing of what draws
_FILES = "mqlearn.analysis.result_files"  # likewise what writes files
_THEORY = "mqlearn.analysis.theory_text"  # and what knows theorems
_LARGE = 10_000  # pairs: beyond, fewer error tables are kept


def table_of_curves(iteration: np.ndarray, curves: Mapping[str, np.ndarray]) -> Any:
    """A pandas table of curves (n_seeds, C): seed, iteration and a column for each metric, seed after seed."""
    import pandas

    n_seeds = len(next(iter(curves.values()), []))
    seeds = {"seed": np.repeat(np.arange(n_seeds), len(iteration)), "iteration": np.tile(iteration, n_seeds)}
    return pandas.DataFrame(seeds | {name: curve.ravel() for name, curve in curves.items()})


def _has_a_place(function: Any) -> bool:
    """Whether a function is found by its module and name."""
    name = getattr(function, "__qualname__", "")
    return getattr(sys.modules.get(getattr(function, "__module__", "")), name, None) is function


@dataclass(frozen=True, eq=False)
class Origin:
    """Of what a result was made.

    mdp, rule: the objects, the rule with its step size and at the discount.   setup: the `learning.setup.Setup`.
    record: of a result that was read, what its file says of all of them, which are None then but for the model.
    arrays: of that file, what settings cannot say: features, and where learning started.
    """

    mdp: Any
    rule: Any = None
    setup: Any = None
    record: Mapping[str, Any] | None = None
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        """For pickle and copies: without metrics that have no name by which another process would find them."""
        if self.setup is None:
            return vars(self)
        found = {name: function for name, function in self.setup.metrics.items() if _has_a_place(function)}
        same = len(found) == len(self.setup.metrics)
        return {**vars(self), "setup": self.setup if same else replace(self.setup, metrics=found)}


@dataclass(frozen=True, repr=False)
class Result:
    """What a run measured.

    iteration: (C,) int64 checkpoints, the last is `iterations`.   samples: (C,) int64 transitions that a seed has
    learned from until then: a synchronous iteration is one for each pair, one that is replayed counts once more.
    curves: metric -> (n_seeds, C), NaN after a seed has diverged and where a metric was not measured.
    q: (n_seeds, S, A) last finite tables, None without a model.   acting: (n_seeds, S, A) the tables of which the
    greedy actions are taken, None where those are `q`.   theta, theta_average: (n_seeds, d) with features, else None.
    theta_acting: (n_seeds, d) as `acting`.   error_iteration, error_tables: up to 20 checkpoints (5 for large tables)
    and the seed-mean there (E, S, A) of the distance to the fixed point of the operator, |Q_k - Q*| for Bellman's.
    mean_path: (C, S, A) of the first seed, the mean of the iterates at each checkpoint, None unless the rule is
    averaged, for large tables, and where this seed diverged.   visits: (S, A) of all chains, None for synchronous
    sampling.   diverged: seed index -> first iteration k at which a parameter was not finite or beyond
    1e100.   seconds: of the learning loop, without metrics; drawing samples that rules share counts for each of them.
    facts: what else the summary records.   findings: what a user should know beside the numbers, each with a code, a
    sentence and the numbers in it; warnings: their sentences.   reward: as resolved.   origin: of what it was made.

    >>> result = mq.run(mq.two_state(), mq.MomentumQ(m=1), iterations=10, n_seeds=2)
    >>> [found.code for found in result.findings], result.warnings
    (['rule'], ('m=1 is below 1/discount=1.053: outside the theorem',))
    """

    iteration: np.ndarray
    samples: np.ndarray
    curves: dict[str, np.ndarray]
    q: np.ndarray | None
    acting: np.ndarray | None
    theta: np.ndarray | None
    theta_average: np.ndarray | None
    theta_acting: np.ndarray | None
    error_iteration: np.ndarray
    error_tables: np.ndarray | None
    mean_path: np.ndarray | None
    visits: np.ndarray | None
    diverged: dict[int, int]
    seconds: float
    facts: dict[str, Any]
    findings: tuple[Finding, ...]
    reward: str
    origin: Origin | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        n_seeds = len(next(iter(self.curves.values()), []))
        gone = f" ({len(self.diverged)} of them)" if self.diverged else ""
        last = [f"{name} {curve[:, -1].mean():.4g}" for name, curve in list(self.curves.items())[:2]]
        return f"Result({self.status}{gone}, {n_seeds} seeds, k = 0 to {self.iteration[-1]}, {', '.join(last)})"

    def frame(self) -> Any:
        """A pandas table with a row for each seed and checkpoint: seed, iteration and a column for each metric."""
        return table_of_curves(self.iteration, self.curves)

    def plot(self, metric: str | None = None, axis: str = "iterations") -> Any:
        """A Matplotlib figure: mean and 95 % interval of a metric, by default the first, against iterations or samples.

        Raises SettingError for a metric or an axis that there is not.
        """
        drawn_by = importlib.import_module(_PLOTS)
        operator = self.facts.get("operator", {}).get("name", "")
        positions = {"iterations": self.iteration, "samples": self.samples}
        return drawn_by.plot(positions, self.curves, metric, axis, operator=operator)

    def theory(self) -> Any:
        """What theorems say of this run, beside what it measured: a dict as `mqlearn theory --json` writes it.

        At the prompt it prints what `mqlearn theory` prints: assumptions, asymptotic constants, bounds, exact errors.
        Raises SettingError for a simulator, another operator than Bellman's, and where a file that was read does not
        hold the rule.

        >>> result = mq.run(mq.two_state(), mq.QLearning(), iterations=100, n_seeds=5)
        >>> result.theory()["measured"]["iteration"]
        100
        """
        return importlib.import_module(_THEORY).of_result(self)

    def save(self, path: str | Path) -> Path:
        """Write all of it, with model and settings, to one .npz file, which `mq.read` reads again, bit for bit.

        path: of the file, as it is called.   Returns it as a Path. Of a rule or a function of your own its name and a
        digest of its text are in the file, not its code. Raises SettingError for a path that cannot be written to.
        """
        return importlib.import_module(_FILES).save(self, path)

    @property
    def warnings(self) -> tuple[str, ...]:
        """The sentences of the findings."""
        return tuple(found.text for found in self.findings)

    @property
    def status(self) -> str:
        """finished, or diverged when at least one seed did."""
        return "diverged" if self.diverged else "finished"


@dataclass
class Ended:
    """A seed that diverged: the first iteration beyond the bound, the learner before it, its `chain_state` there."""

    lane: int
    step: int
    learner: Learner
    chain_state: tuple[np.ndarray, np.ndarray] | None


@dataclass
class Recorder:
    """Curves that start as NaN, tables that stay when a seed diverges.

    optimal_q: (S, A), the fixed point of the operator, which errors are measured against; None without a model.
    """

    mdp: FiniteMDP | Simulator
    optimal_q: np.ndarray | None
    iteration: np.ndarray
    n_seeds: int
    curves: dict[str, np.ndarray] = field(default_factory=dict)
    ended: list[Ended] = field(default_factory=list)
    error_sums: dict[int, tuple[np.ndarray, int]] = field(default_factory=dict)  # by column, over how many seeds
    mean_path: list[np.ndarray] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.optimal_q is None:
            self.error_columns = np.empty(0, int)
            return
        most = _ERROR_TABLES if self.optimal_q.size <= _LARGE else _ERROR_TABLES_LARGE
        kept = np.linspace(0, len(self.iteration) - 1, min(most, len(self.iteration)))
        self.error_columns: np.ndarray = np.unique(np.rint(kept).astype(int))

    def record(self, column: int, learners: list[Learner], measured: list[dict[str, np.ndarray]]) -> None:
        for learner, metrics in zip(learners, measured, strict=True):
            for name, values in metrics.items():
                if name not in self.curves:
                    self.curves[name] = np.full((self.n_seeds, len(self.iteration)), np.nan)
                self.curves[name][learner.lanes, column] = values
        if self.optimal_q is not None and self.optimal_q.size <= _LARGE and learners:
            means = learners[0].average_tables() if learners[0].lanes[0] == 0 else None
            if means is not None:
                self.mean_path.append(means[0])
        if self.optimal_q is not None and column in self.error_columns:
            total, n = self.error_sums.get(column, (np.zeros(self.optimal_q.shape), 0))
            for learner in learners:
                for table in learner.tables():  # one after the other, however the seeds are dealt to workers
                    total += np.abs(table - self.optimal_q)
                    n += 1
            self.error_sums[column] = total, n

    def more(self, n_seeds: int) -> None:
        """Make room for seeds up to n_seeds."""
        for name, curve in [*self.curves.items()] if n_seeds > self.n_seeds else []:
            added = np.full((n_seeds - len(curve), curve.shape[1]), np.nan)
            self.curves[name] = np.concatenate([curve, added])
        self.n_seeds = n_seeds

    def mean_error(self, column: int) -> float:
        """Mean q_error over the seeds that are still finite."""
        values = self.curves["q_error"][:, column] if "q_error" in self.curves else np.empty(0)
        values = values[np.isfinite(values)]
        return float(values.mean()) if values.size else float("nan")

    def result(
        self,
        samples_each: int,
        learners: list[Learner],
        seconds: float,
        facts: dict[str, Any],
        findings: Sequence[Finding],
        reward: str,
        origin: Origin | None = None,
    ) -> Result:
        """What was recorded, of learners that have come to the end and of those that diverged."""
        last: list[Any] = [*learners, *(gone.learner for gone in self.ended)]

        def gather(name: str) -> np.ndarray | None:
            every = None
            for learner in last:  # one after the other: what they make is not kept beside the whole
                part = _part(learner, name)
                if part is None:
                    return None
                every = np.empty((self.n_seeds, *part.shape[1:])) if every is None else every
                every[learner.lanes] = part
            return every

        sums = self.error_sums.values()
        means = [total / n if n else np.full(total.shape, np.nan) for total, n in sums]
        measured = gather("tables") if self.optimal_q is not None else None
        theta = gather("theta")
        acting = None if measured is None or theta is not None else gather("acting_tables")
        seen = [part[1].sum(axis=0) for part in (gone.chain_state for gone in self.ended) if part is not None]
        seen += [part[1].sum(axis=0) for part in (learner.chain_state() for learner in learners) if part is not None]
        return Result(
            iteration=self.iteration,
            samples=self.iteration * samples_each,
            curves={name: self.curves[name] for name in sorted(self.curves, key=lambda one: one not in _FIRST)},
            q=measured,
            acting=_unless_equal(acting, measured),
            theta=theta,
            theta_average=gather("average"),
            theta_acting=_unless_equal(gather("theta_acting"), theta),
            error_iteration=self.iteration[self.error_columns],
            error_tables=np.stack(means) if means else None,
            mean_path=np.stack(self.mean_path) if len(self.mean_path) == len(self.iteration) else None,
            visits=table_of_pairs(self.mdp, np.sum(seen, axis=0)) if seen and isinstance(self.mdp, FiniteMDP) else None,
            diverged={gone.lane: gone.step for gone in sorted(self.ended, key=lambda gone: gone.lane)},
            seconds=seconds,
            facts=facts,
            findings=tuple(each_once(findings)),
            reward=reward,
            origin=origin,
        )


def _part(learner: Any, name: str) -> Any:
    part = getattr(learner, name, None)
    return part() if callable(part) else part


def _unless_equal(acting: np.ndarray | None, measured: np.ndarray | None) -> np.ndarray | None:
    """What acts, None where it is what is measured: that is stored once."""
    same = acting is None or (measured is not None and np.array_equal(acting, measured))
    return None if same else acting
