"""The loop: checkpoints -> blocks -> advance -> metrics -> curves. No rule or sampler has a loop of its own."""

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from operator import methodcaller
from typing import Any

import numpy as np

from mqlearn.algorithms.base import Rule, check_rule
from mqlearn.chains import Samples
from mqlearn.environments.simulator import Simulator
from mqlearn.errors import SettingError
from mqlearn.features import Features
from mqlearn.learners import Initial, Learner, Linear, shared_samples, start
from mqlearn.mdp import FiniteMDP, finite_number
from mqlearn.metrics import Evaluation, Measure, Metric, SimulationMeasure
from mqlearn.recording import Ended, Recorder, Result, visits_of
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
_LONGEST = 1_000_000  # iterations of a block: its weights are kept in memory, 32 bytes an iteration
_DRAWN = 2**22  # samples that are drawn for a block, of all seeds, 8 bytes each
_REPORTS = 16  # of progress at least, however few the checkpoints
_STARTS = 3  # of the search for theta*
_fixed_points: dict[tuple, Any] = {}

Progress = Callable[[int, float], None]


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
    return _run(
        mdp, [rule], iterations=iterations, n_seeds=n_seeds, seed=seed, step_size=step_size, sampling=sampling,
        features=features, linear=linear, evaluation=evaluation, checkpoints=checkpoints, n_checkpoints=n_checkpoints,
        n_workers=n_workers, reward=reward, q0=q0, theta0=theta0, metrics=metrics, progress=progress,
    )[0]  # fmt: skip


def run_together(mdp: FiniteMDP | Simulator, rules: Sequence[Rule], **settings: Any) -> list[Result]:
    """`run` for each of several rules, with the same settings: the same results, in less time.

    With linear features the rules learn from the same samples anyway; together they draw them once. A progress is told
    of the first rule's error. Raises SettingError as `run` does, TypeError for settings that it does not have.
    """
    if not rules:
        return []
    return _run(mdp, rules, **{**(run.__kwdefaults__ or {}), **settings})


def _run(
    mdp: FiniteMDP | Simulator,
    rules: Sequence[Rule],
    *,
    iterations: int,
    n_seeds: int,
    seed: int,
    step_size: StepSize | None,
    sampling: Sampling | None,
    features: Any,
    linear: Linear | None,
    evaluation: Evaluation | None,
    checkpoints: str,
    n_checkpoints: int,
    n_workers: int | None,
    reward: str,
    q0: Initial,
    theta0: Initial,
    metrics: Mapping[str, Metric] | None,
    progress: Progress | None,
) -> list[Result]:
    for name, given, fits, expected in (
        ("env", mdp, isinstance(mdp, FiniteMDP | Simulator), "an environment, such as mq.frozen_lake()"),
        *(("algorithm", rule, isinstance(rule, Rule), "a rule, such as mq.QLearning()") for rule in rules),
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
    rules = [rule if step_size is None else rule.with_step_size(step_size) for rule in rules]
    for rule in rules:
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
    shared_warnings: list[str] = []
    shared_facts: dict[str, Any] = {}
    optimal_q = None
    if isinstance(mdp, Simulator):
        measure = SimulationMeasure(resolve_evaluation(evaluation, _SIMULATED_EPISODES))
        sources: list[Samples | None] = []
        learners = [
            [SimulatedLearner(mdp, sampling, features, linear, some, seed, theta0) for some in lanes] for _ in rules
        ]
    else:
        optimum = optimal(mdp)
        optimal_q = optimum.q
        evaluation = resolve_evaluation(evaluation, 0 if synchronous else _EPISODES)
        shared_warnings += evaluation.warnings(mdp)
        point = None
        if features is not None:
            shared_warnings += features.warnings()
            shared_facts, point = fixed_point(mdp, features, sampling, theta0, shared_warnings)
        quarters = (iterations // 4, iterations // 2, iterations)
        exact = tuple(int(np.abs(iteration - point).argmin()) for point in quarters)
        episodes = evaluation if evaluation.episodes else None
        measure = Measure(mdp, optimum, metrics, episodes, exact, point, seed)
        initial, mean = q0 if features is None else theta0, reward == "mean"
        sources = [shared_samples(mdp, sampling, features, linear, seed, mean, some) for some in lanes]
        common = (mdp, sampling, features, linear, seed, initial, mean)
        learners = [[start(*common, some, source) for some, source in zip(lanes, sources, strict=True)] for _ in rules]
    courses = [
        _Course(rule, own, Recorder(mdp, optimal_q, iteration, n_seeds), rule.warnings(mdp.discount) + shared_warnings)
        for rule, own in zip(rules, learners, strict=True)
    ]
    drawn = [source for source in sources if source is not None]
    longest = _longest_block(mdp, features, iterations, n_seeds, progress is not None)
    with ThreadPoolExecutor(len(lanes)) as pool:
        for column, k in enumerate(iteration.tolist()):
            previous = int(iteration[column - 1]) if column else 0
            for first in range(previous, k, longest):
                n = min(longest, k - first)
                started = time.perf_counter()
                if any(course.learners for course in courses):
                    list(pool.map(methodcaller("draw", n), drawn))
                drawing = time.perf_counter() - started
                for course in courses:
                    course.advance(pool, first, n, drawing)
                if progress is not None and first + n < k:
                    progress(first + n, courses[0].recorder.mean_error(column - 1) if column else math.nan)
            for course in courses:
                measured = list(pool.map(partial(measure, column), course.learners))
                course.recorder.record(column, course.learners, measured)
            if progress is not None:
                progress(k, courses[0].recorder.mean_error(column))
    results = []
    for course in courses:
        facts = shared_facts | _seen(course.learners, iterations, sampling, course.warnings)
        if isinstance(mdp, FiniteMDP) and features is None:
            facts |= _horizon(course.rule, mdp, sampling, iterations, course.warnings)
        results.append(course.recorder.result(course.learners, course.seconds, facts, tuple(course.warnings), reward))
    return results


class _Course:
    """One rule on its way: its learners, the curves so far, and the seconds it has learned."""

    def __init__(self, rule: Rule, learners: list[Any], recorder: Recorder, warnings: list[str]) -> None:
        self.rule = rule
        self.learners = learners
        self.recorder = recorder
        self.warnings = warnings
        self.seconds = 0.0
        for learner in learners:  # compiles, where that has not been done: not learning time
            learner.advance(0, 0, rule.weights(*learner.rows(0, 0)))

    def advance(self, pool: ThreadPoolExecutor, k: int, n: int, drawing: float) -> None:
        """Iterations k .. k + n - 1.   drawing: seconds that their samples took; they count for every rule."""
        started = time.perf_counter()
        ranges = [learner.rows(k, n) for learner in self.learners]
        row = min((row for row, _ in ranges), default=0)
        weights = self.rule.weights(row, max((stop for _, stop in ranges), default=0))
        for gone in pool.map(partial(_advance, k=k, n=n, weights=weights), self.learners):
            self.recorder.ended += gone
        self.learners = [learner for learner in self.learners if learner.lanes.size]
        self.seconds += drawing + time.perf_counter() - started


def _longest_block(mdp: FiniteMDP | Simulator, features: Any, iterations: int, n_seeds: int, reports: bool) -> int:
    """Iterations between checkpoints that are computed, and so reported, at a time."""
    if isinstance(mdp, Simulator):
        return max(1, iterations)  # the ends of blocks show in the last bits
    from mqlearn.kernels import CHUNK

    reported = max(1, iterations // _REPORTS) if reports else iterations
    if features is None:
        return max(1, min(_LONGEST, reported))
    return max(1, min(_DRAWN // n_seeds, reported) // CHUNK) * CHUNK  # only of others than whole chunks the ends show


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


def _advance(learner: Learner, k: int, n: int, weights: np.ndarray) -> list[Ended]:
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
        ended.append(Ended(int(before.lanes[lane]), k + bad, last, visits_of(last)))
    if ended:
        learner.keep(~diverged)
    return ended


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
