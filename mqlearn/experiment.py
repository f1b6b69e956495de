"""The loop: checkpoints -> blocks -> advance -> metrics -> curves. No rule or sampler has a loop of its own."""

import math
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from mqlearn.algorithms.base import Rule, check_rule
from mqlearn.environments.simulator import Simulator
from mqlearn.errors import SettingError
from mqlearn.features import Features
from mqlearn.learners import Initial, Learner, Linear, start
from mqlearn.mdp import FiniteMDP, finite_number, table_of_pairs
from mqlearn.metrics import Evaluation, Measure, Metric, SimulationMeasure
from mqlearn.sampling import Sampling, Synchronous, stationary
from mqlearn.simulation import SimulatedLearner, seen_by_simulators
from mqlearn.simulation import check as check_simulation
from mqlearn.solvers import optimal
from mqlearn.step_sizes import StepSize, total

# Raised by hand whenever the same settings give other numbers; part of every digest.
NUMERICS_VERSION = 1

DIVERGED = 1e100  # a parameter beyond this, or not finite, is divergence
_EPISODES, _SIMULATED_EPISODES = 150, 10  # of an evaluation, unless set; Gymnasium's own steps are slow
_FEW_LANES = 16  # fewer synchronous seeds cost a worker as much time as these
_LANE_STEP = 4  # synchronous seeds are dealt to workers in whole vectors
_ERROR_TABLES, _ERROR_TABLES_LARGE = 20, 5
_LARGE = 10_000  # pairs: beyond, fewer error tables are kept

_LONGEST = 1_000_000  # iterations of a block: its weights are kept in memory, 32 bytes an iteration
_REPORTS = 16  # of progress at least, however few the checkpoints
_STARTS = 3  # of the search for theta*
_fixed_points: dict[tuple, Any] = {}

Progress = Callable[[int, float], None]


@dataclass(frozen=True)
class Result:
    """What a run measured.

    iteration: (C,) int64 checkpoints, the last is `iterations`.   curves: metric -> (n_seeds, C), NaN after a seed
    has diverged and where a metric was not measured.   q: (n_seeds, S, A) last finite tables, None without a model.
    theta, theta_average: (n_seeds, d) with features, else None.   error_iteration, error_tables: up to 20 checkpoints
    (5 for large tables) and the seed-mean of |Q_k - Q*| there (E, S, A).   visits: (S, A) of all chains, None for
    synchronous sampling.   diverged: seed index -> first iteration k at which a parameter was not finite or beyond
    1e100.   seconds: of the learning loop, without metrics.   facts: what else the summary records.   warnings: for
    people.   reward: as resolved.
    """

    iteration: np.ndarray
    curves: dict[str, np.ndarray]
    q: np.ndarray | None
    theta: np.ndarray | None
    theta_average: np.ndarray | None
    error_iteration: np.ndarray
    error_tables: np.ndarray | None
    visits: np.ndarray | None
    diverged: dict[int, int]
    seconds: float
    facts: dict[str, Any]
    warnings: tuple[str, ...]
    reward: str

    @property
    def status(self) -> str:
        """finished, or diverged when at least one seed did."""
        return "diverged" if self.diverged else "finished"


def run(
    mdp: FiniteMDP | Simulator,
    rule: Rule,
    *,
    iterations: int,
    n_seeds: int = 20,
    seed: int = 0,
    step_size: StepSize | None = None,
    sampling: Sampling | None = None,
    features: Any = None,
    linear: Linear | None = None,
    evaluation: Evaluation | None = None,
    checkpoints: str = "log",
    n_checkpoints: int = 200,
    n_workers: int | None = None,
    reward: str = "auto",
    q0: Initial = 0.0,
    theta0: Initial = 0.0,
    metrics: Mapping[str, Metric] | None = None,
    progress: Progress | None = None,
) -> Result:
    """Run a rule on all seeds and measure it against the exact optimum.

    The curves are the same bits for any `n_workers` and on every repeat; seed i of a run does not depend on
    `n_seeds`, and runs with different `seed` share no random stream.

    iterations: T >= 0.   step_size: alpha_k, by default the rule's own (harmonic).   sampling: Synchronous (default),
    Markovian, Replay or IID.   features: `Features` of the MDP, or a `BoxMap` of a simulator; None for tables.
    checkpoints: "log" or "linear", `n_checkpoints` of them at most; T/4 and T/2 are added with one sample an iteration.
    n_workers: threads, by default one a core, or fewer.   reward: "mean" R(x, u) or "sampled" r(x, u, y) in the
    target; "auto" is mean for synchronous sampling, else sampled.   q0, theta0: a constant or a range (low, high) of
    uniform values.   metrics: name -> function of (tables (n, S, A), mdp) that returns (n,).   progress: called with
    (k, mean q_error) at every checkpoint, and for tables on long ways between them with the error of the last one.
    Raises SettingError for a value that is not admissible.
    """
    for name, given, fits, expected in (
        ("env", mdp, isinstance(mdp, FiniteMDP | Simulator), "an environment, such as mq.frozen_lake()"),
        ("algorithm", rule, isinstance(rule, Rule), "a rule, such as mq.QLearning()"),
        ("step_size", step_size, step_size is None or callable(step_size), "a step size, such as mq.Constant(0.1)"),
        ("sampling", sampling, isinstance(sampling, Sampling | None), "a sampling mode, such as mq.Markovian()"),
        ("linear", linear, isinstance(linear, Linear | None), "mq.Linear(...)"),
        ("evaluation", evaluation, isinstance(evaluation, Evaluation | None), "mq.Evaluation(...)"),
        ("metrics", metrics, isinstance(metrics, Mapping | None), "a mapping from names to functions"),
    ):
        if not fits:
            raise SettingError(name, given, f"must be {expected}")
    q0, theta0 = checked_initial("q0", q0), checked_initial("theta0", theta0)
    _whole("iterations", iterations, 0)
    _whole("n_seeds", n_seeds, 1)
    _whole("seed", seed, 0, 2**32 - 1)
    _whole("n_checkpoints", n_checkpoints, 1)
    if n_workers is not None:
        _whole("n_workers", n_workers, 1)
    sampling = Synchronous() if sampling is None else sampling
    linear = Linear() if linear is None else linear
    rule = rule if step_size is None else rule.with_step_size(step_size)
    check_rule(rule)
    synchronous = isinstance(sampling, Synchronous)
    reward = resolve_reward(reward, synchronous)
    check_together(mdp, sampling, features, reward, metrics)
    iteration = checkpoint_iterations(iterations, checkpoints, n_checkpoints, quarters=not synchronous)
    workers = n_workers or len(os.sched_getaffinity(0))
    if synchronous and n_workers is None:
        workers = max(1, min(workers, n_seeds // _FEW_LANES))
    if isinstance(mdp, Simulator) and n_workers is None:
        workers = 1  # Gymnasium's steps are Python: threads would take turns, and lose time at every turn
    lanes = _deal(n_seeds, workers, _LANE_STEP if synchronous else 1)
    warnings = rule.warnings(mdp.discount)
    facts: dict[str, Any] = {}
    learners: list[Any]
    if isinstance(mdp, Simulator):
        measure = SimulationMeasure(resolve_evaluation(evaluation, _SIMULATED_EPISODES))
        learners = [SimulatedLearner(mdp, sampling, features, linear, some, seed, theta0) for some in lanes]
        optimal_q = None
    else:
        optimum = optimal(mdp)
        optimal_q = optimum.q
        evaluation = resolve_evaluation(evaluation, 0 if synchronous else _EPISODES)
        warnings += evaluation.warnings(mdp)
        point = None
        if features is not None:
            warnings += features.warnings()
            facts, point = fixed_point(mdp, features, sampling, theta0, warnings)
        quarters = (iterations // 4, iterations // 2, iterations)
        exact = tuple(int(np.abs(iteration - point).argmin()) for point in quarters)
        episodes = evaluation if evaluation.episodes else None
        measure = Measure(mdp, optimum, metrics, episodes, exact, point, seed)
        initial = q0 if features is None else theta0
        learners = [start(mdp, sampling, features, linear, some, seed, initial, reward == "mean") for some in lanes]
    for learner in learners:  # compiles, where that has not been done: not learning time
        learner.advance(0, 0, rule.weights(*learner.rows(0, 0)))
    recorder = _Recorder(mdp, optimal_q, iteration, n_seeds)
    longest = max(1, iterations)
    if features is None:  # with features the ends of blocks show in the last bits
        longest = _LONGEST if progress is None else min(_LONGEST, max(1, iterations // _REPORTS))
    seconds = 0.0
    with ThreadPoolExecutor(len(learners)) as pool:
        for column, k in enumerate(iteration.tolist()):
            previous = int(iteration[column - 1]) if column else 0
            for first in range(previous, k, longest):
                started = time.perf_counter()
                n = min(longest, k - first)
                ranges = [learner.rows(first, n) for learner in learners]
                row = min((row for row, _ in ranges), default=0)
                weights = rule.weights(row, max((stop for _, stop in ranges), default=0))
                for gone in pool.map(partial(_advance, k=first, n=n, weights=weights), learners):
                    recorder.ended += gone
                seconds += time.perf_counter() - started
                learners = [learner for learner in learners if learner.lanes.size]
                if progress is not None and first + n < k:
                    progress(first + n, recorder.mean_error(column - 1) if column else math.nan)
            measured = pool.map(partial(measure, column), learners)
            recorder.record(column, learners, list(measured))
            if progress is not None:
                progress(k, recorder.mean_error(column))
    facts |= _seen(learners, iterations, sampling, warnings)
    if isinstance(mdp, FiniteMDP) and features is None:
        facts |= _horizon(rule, mdp, sampling, iterations, warnings)
    return recorder.result(learners, seconds, facts, tuple(warnings), reward)


def checked_initial(name: str, value: Any) -> Initial:
    """A number, or a range of numbers (low, high). Raises SettingError for anything else."""
    ends = [finite_number(end) for end in (value if isinstance(value, list | tuple) else [value])]
    low, high = (ends[0], ends[-1]) if 1 <= len(ends) <= 2 else (None, None)
    if low is None or high is None or low > high:
        raise SettingError(name, value, "must be a number, or [low, high] for uniform initial values")
    return tuple(value) if isinstance(value, list | tuple) else value


def check_together(
    mdp: FiniteMDP | Simulator, sampling: Sampling, features: Any, reward: str, metrics: Mapping[str, Metric] | None
) -> None:
    """Refuse parts that are sound alone but cannot make a run together. Raises SettingError."""
    if isinstance(mdp, Simulator):
        check_simulation(mdp, sampling, features, reward, metrics)
    elif isinstance(sampling, Synchronous):
        if features is not None:
            raise SettingError("sampling", sampling.name, "works with tables only; use markovian, replay or iid")
    else:
        sampling.policy(mdp)
        if not isinstance(features, Features | None) or (features and len(features.active) != len(mdp.pairs)):
            given, n = getattr(features, "name", features), len(mdp.pairs)
            raise SettingError("features", given, f"must be features of the {n} learned pairs of {mdp.name}, or None")


def resolve_evaluation(evaluation: Evaluation | None, episodes: int) -> Evaluation:
    """The evaluation with its default number of episodes."""
    evaluation = Evaluation() if evaluation is None else evaluation
    return replace(evaluation, episodes=episodes) if evaluation.episodes is None else evaluation


def resolve_reward(reward: str, synchronous: bool) -> str:
    """mean or sampled. Raises SettingError."""
    if reward not in ("auto", "mean", "sampled"):
        raise SettingError("reward", reward, "must be auto, mean or sampled")
    if reward == "auto":
        return "mean" if synchronous else "sampled"
    return reward


def fixed_point(
    mdp: FiniteMDP, features: Any, sampling: Any, theta0: Initial, warnings: list[str]
) -> tuple[dict[str, Any], Any]:
    """theta* of the very chain that is sampled, and what the summary says of it; None where there is none."""
    from mqlearn.fixed_points import theta_star

    mu = stationary(sampling, mdp)
    if mu is None:
        warnings.append("epsilon-greedy behaviour has no stationary chain: theta_error is absent")
        return {}, None
    held = 0.0 if isinstance(theta0, tuple) else theta0
    key = (mdp.digest(), features.digest(), mu.tobytes(), held)
    if key not in _fixed_points:  # the rules of a comparison share it
        _fixed_points[key] = theta_star(mdp, features, mu, starts=_STARTS, theta0=held)
    point = _fixed_points[key]
    facts = {
        "theta_star": {
            "residual": point.residual,
            "n_roots": point.n_roots,
            "starts": _STARTS,
            "distance_to_q_star": point.distance,
            "exists": point.exists,
        }
    }
    if not point.exists:
        warnings.append(f"no theta* was found (residual {point.residual:.3g}): theta_error is absent")
    return facts, point if point.exists else None


def checkpoint_iterations(iterations: int, spacing: str, n: int, *, quarters: bool = False) -> np.ndarray:
    """Increasing iterations (at most n, int64) from 0 to `iterations`: evenly spaced, or evenly in the logarithm.

    With `quarters`, T/4 and T/2 are among them.
    """
    if spacing == "linear":
        points = np.linspace(0, iterations, max(n, 2))
    elif spacing == "log":
        points = np.concatenate([[0.0], np.geomspace(1, max(iterations, 1), n - 1) if n > 2 else [iterations]])
    else:
        raise SettingError("checkpoints", spacing, "must be log or linear")
    if quarters:
        points = np.concatenate([points, [iterations // 4, iterations // 2]])
    points = np.unique(np.rint(points).astype(np.int64))
    points = points[points <= iterations]
    return points[-1:] if n == 1 else points


@dataclass
class _Ended:
    """A lane that diverged: the first iteration beyond the bound, and the learner just before it."""

    lane: int
    step: int
    learner: Learner


def _advance(learner: Learner, k: int, n: int, weights: np.ndarray) -> list[_Ended]:
    """Advance, and take out the lanes that diverged; their step is found by replaying the block."""
    before = learner.copy()
    learner.advance(k, n, weights)
    diverged = ~(learner.largest() <= DIVERGED)
    ended = []
    for lane in np.flatnonzero(diverged):
        first = before.copy()
        first.keep(np.arange(before.lanes.size) == lane)
        sound, bad, last = 0, n, first
        while bad - sound > 1:
            middle = (sound + bad) // 2
            trial = first.copy()
            trial.advance(k, middle, weights)
            if trial.largest()[0] <= DIVERGED:
                sound, last = middle, trial
            else:
                bad = middle
        ended.append(_Ended(int(before.lanes[lane]), k + bad, last))
    if ended:
        learner.keep(~diverged)
    return ended


@dataclass
class _Recorder:
    """Curves that start as NaN, tables that stay when a seed diverges."""

    mdp: FiniteMDP | Simulator
    optimal_q: np.ndarray | None
    iteration: np.ndarray
    n_seeds: int
    curves: dict[str, np.ndarray] = field(default_factory=dict)
    ended: list[_Ended] = field(default_factory=list)
    error_tables: list[np.ndarray] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.optimal_q is None:
            self.error_columns = np.empty(0, int)
            return
        most = _ERROR_TABLES if self.optimal_q.size <= _LARGE else _ERROR_TABLES_LARGE
        kept = np.linspace(0, len(self.iteration) - 1, min(most, len(self.iteration)))
        self.error_columns = np.unique(np.rint(kept).astype(int))

    def record(self, column: int, learners: list[Learner], measured: list[dict[str, np.ndarray]]) -> None:
        for learner, metrics in zip(learners, measured, strict=True):
            for name, values in metrics.items():
                curve = self.curves.setdefault(name, np.full((self.n_seeds, len(self.iteration)), np.nan))
                curve[learner.lanes, column] = values
        if self.optimal_q is not None and column in self.error_columns:
            total, n = np.zeros(self.optimal_q.shape), 0
            for learner in learners:
                for table in learner.tables():  # one after the other, however the seeds are dealt to workers
                    total += np.abs(table - self.optimal_q)
                    n += 1
            self.error_tables.append(total / n if n else np.full(total.shape, np.nan))

    def mean_error(self, column: int) -> float:
        """Mean q_error over the seeds that are still finite."""
        values = self.curves["q_error"][:, column] if "q_error" in self.curves else np.empty(0)
        values = values[np.isfinite(values)]
        return float(values.mean()) if values.size else float("nan")

    def result(
        self,
        learners: list[Learner],
        seconds: float,
        facts: dict[str, Any],
        warnings: tuple[str, ...],
        reward: str,
    ) -> Result:
        last: list[Any] = [*learners, *(gone.learner for gone in self.ended)]

        def gather(name: str) -> np.ndarray | None:
            parts = {int(lane): row for one in last for lane, row in zip(one.lanes, _part(one, name), strict=True)}
            return np.stack([parts[lane] for lane in range(self.n_seeds)])

        linear = hasattr(last[0], "theta")
        chains = [learner.chain for learner in last if hasattr(learner, "chain")]
        visits = None
        if chains and isinstance(self.mdp, FiniteMDP):
            visits = table_of_pairs(self.mdp, np.sum([chain.visits.sum(axis=0) for chain in chains], axis=0))
        return Result(
            iteration=self.iteration,
            curves=self.curves,
            q=gather("tables") if self.optimal_q is not None else None,
            theta=gather("theta") if linear else None,
            theta_average=gather("average") if linear else None,
            error_iteration=self.iteration[self.error_columns],
            error_tables=np.stack(self.error_tables) if self.error_tables else None,
            visits=visits,
            diverged={gone.lane: gone.step for gone in sorted(self.ended, key=lambda gone: gone.lane)},
            seconds=seconds,
            facts=facts,
            warnings=warnings,
            reward=reward,
        )


def _part(learner: Any, name: str) -> np.ndarray:
    return learner.tables() if name == "tables" else getattr(learner, name)


def _seen(learners: list[Any], iterations: int, sampling: Any, warnings: list[str]) -> dict[str, Any]:
    """What the chains have seen, over all seeds that did not diverge, and a warning when that taught nothing."""
    chains = [learner.chain for learner in learners if hasattr(learner, "chain")]
    if not chains:
        return seen_by_simulators([one for one in learners if isinstance(one, SimulatedLearner)], iterations, sampling)
    _, _, steps, episodes, goals, rewards = np.concatenate([chain.states for chain in chains]).sum(axis=0).tolist()
    visited = np.concatenate([chain.visits for chain in chains]) > 0
    x, u = chains[0].mdp.pairs.T
    facts = {
        "chain_steps": steps,
        "episodes": episodes,
        "goals": goals,
        "rewards_seen": rewards,
        "pairs_visited": float(visited[:, chains[0].mdp.counted[x, u]].mean()),
        "common_random_numbers": "uniforms, not the trajectory" if sampling.adaptive else "samples",
    }
    if sampling.adaptive:
        first, last, span = sampling.exploration
        facts["exploration"] = first + (last - first) * min(1.0, iterations / span)
    if iterations and not rewards:
        facts["outcome"] = "no reward seen"
        warnings.append(
            f"no seed ever saw a reward: goal reached {goals} times in {steps} steps, "
            f"{facts['pairs_visited']:.1%} of the pairs visited; nothing was learned about it"
        )
    return facts


def _horizon(rule: Rule, mdp: FiniteMDP, sampling: Sampling, iterations: int, warnings: list[str]) -> dict[str, Any]:
    """The whole steps that a pair is worth of step sizes, and a warning if plain Q-learning ends on their plateau."""
    pairs = 1 if isinstance(sampling, Synchronous) else len(mdp.pairs)

    def horizon(steps: int) -> float:
        if getattr(sampling, "clock", "global") == "local":
            return total(rule.step_size, steps // pairs)
        return total(rule.step_size, steps) / pairs

    reached, wanted = horizon(iterations), 1 / (1 - mdp.discount)
    vanilla = not rule.weights(0, 3)[:, [1, 3]].any()
    if vanilla and pairs == 1 and reached < wanted / 5 and reached < 1.15 * horizon(iterations // 2):
        warnings.append(
            f"the step sizes sum to {reached:.3g} only, and hardly grow any more, while values add up over "
            f"1/(1 - discount) = {wanted:.3g} steps: expect a plateau, which is the schedule's"
        )
    return {"effective_horizon": reached}


def _deal(n_seeds: int, n_workers: int, whole: int) -> list[np.ndarray]:
    """Seed indices for each worker, in multiples of `whole`."""
    step = -(-n_seeds // (n_workers * whole)) * whole
    return [np.arange(i, min(i + step, n_seeds), dtype=np.uint32) for i in range(0, n_seeds, step)]


def _whole(name: str, value: object, low: int, high: int | None = None) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < low or (high and value > high):
        bound = f"at least {low}" if high is None else f"from {low} to {high}"
        raise SettingError(name, value, f"must be a whole number, {bound}")
