"""The loop: checkpoints -> blocks -> advance -> metrics -> curves. No rule or sampler has a loop of its own."""

import math
import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from mqlearn.algorithms.rule import Rule
from mqlearn.algorithms.stateful import Stateful
from mqlearn.algorithms.step_sizes import StepSize, total
from mqlearn.checks import choice, finite_number, whole
from mqlearn.errors import SettingError
from mqlearn.learning.advice import foreseen, grown, without_effect
from mqlearn.learning.bar import Bar
from mqlearn.learning.chains import Samples
from mqlearn.learning.initial import Initial
from mqlearn.learning.learners import Linear, can_share, shared_samples, start, with_state
from mqlearn.learning.lockstep import Course, Part, advance, learners_of
from mqlearn.learning.metrics import Evaluation, Measure, Metric, SimulationMeasure
from mqlearn.learning.record import Ended, Recorder, Result
from mqlearn.learning.sampling import Sampling, Synchronous, stationary
from mqlearn.learning.simulation import SimulatedLearner, seen_by_simulators
from mqlearn.learning.simulation import check as check_simulation
from mqlearn.learning.stateful.check import check, check_on
from mqlearn.problems.environments.simulator import Simulator
from mqlearn.problems.features import Features
from mqlearn.problems.mdp import FiniteMDP
from mqlearn.problems.solvers import optimal

# Raised by hand whenever the same settings give other numbers; part of every digest.
NUMERICS_VERSION = 1

_EPISODES, _SIMULATED_EPISODES = 150, 10  # of an evaluation, unless set; Gymnasium's own steps are slow
_FEW_LANES = 16  # fewer synchronous seeds cost a worker as much time as these
_LANE_STEP = 8  # synchronous seeds are dealt to workers in whole vectors
_LONGEST = 1_000_000  # iterations of a block: its weights are kept in memory, 32 bytes an iteration
_REPORTS = 16  # of progress at least with tables, however few the checkpoints,
_SHORTEST = 1000  # unless so few iterations pass between them
_CHUNKS = 16  # of a block on chains; its samples are kept in memory, 8 bytes each,
_LANES = 64  # for at most so many seeds a thread
_TABLES = 512  # seeds that are advanced and measured at a time with tables: what they need meanwhile is freed again
_STARTS = 3  # of the search for theta*
_fixed_points: dict[tuple, Any] = {}

Progress = Callable[[int, float], None] | bool


def run(
    mdp: FiniteMDP | Simulator,
    rule: Rule | Stateful,
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
    uniform values.   metrics: name -> function of (tables (n, S, A), mdp) that returns (n,).   progress: True for a bar
    (tqdm), or a function called with (k, mean q_error) at every checkpoint, and with a model on long ways between them
    with the error of the last one.
    Raises SettingError for a value that is not admissible.
    """
    return run_together(
        mdp, [rule], iterations=iterations, n_seeds=n_seeds, seed=seed, step_size=step_size, sampling=sampling,
        features=features, linear=linear, evaluation=evaluation, checkpoints=checkpoints, n_checkpoints=n_checkpoints,
        n_workers=n_workers, reward=reward, q0=q0, theta0=theta0, metrics=metrics, progress=progress,
    )[0]  # fmt: skip


def run_together(
    mdp: FiniteMDP | Simulator,
    rules: Iterable[Rule | Stateful],
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
) -> list[Result]:
    """`run` for several rules: the results of each alone, in the order of the rules.

    On a behaviour that does not depend on what is learned, without a projection, their samples are drawn once for all,
    which saves time. `step_size` replaces that of every rule, None leaves each its own;
    `progress` receives the error of the first. Raises SettingError for a value that is not admissible.
    """
    if isinstance(rules, Rule | Stateful) or not isinstance(rules, Iterable):
        raise SettingError("rules", rules, "must be a list of rules")
    rules = list(rules)
    if not rules:
        return []
    for name, given, fits, expected in (
        ("env", mdp, isinstance(mdp, FiniteMDP | Simulator), "an environment, such as mq.frozen_lake()"),
        *(("algorithm", rule, isinstance(rule, Rule | Stateful), "a rule, such as mq.QLearning()") for rule in rules),
        ("step_size", step_size, step_size is None or callable(step_size), "a step size, such as mq.Constant(0.1)"),
        ("sampling", sampling, isinstance(sampling, Sampling | None), "a sampling mode, such as mq.Markovian()"),
        ("linear", linear, isinstance(linear, Linear | None), "mq.Linear(...)"),
        ("evaluation", evaluation, isinstance(evaluation, Evaluation | None), "mq.Evaluation(...)"),
        ("metrics", metrics, isinstance(metrics, Mapping | None), "a mapping from names to functions"),
        (
            "progress",
            progress,
            isinstance(progress, bool | None) or callable(progress),
            "True, or a function (k, error)",
        ),
    ):
        if not fits:
            raise SettingError(name, given, f"must be {expected}")
    q0, theta0 = checked_initial("q0", q0), checked_initial("theta0", theta0)
    whole("iterations", iterations, 0)
    whole("n_seeds", n_seeds, 1)
    whole("seed", seed, 0, 2**32 - 1)
    whole("n_checkpoints", n_checkpoints, 1)
    whole("n_workers", n_workers, 1, null="one thread a core")
    if isinstance(progress, bool):
        progress = Bar(iterations) if progress else None
    sampling = Synchronous() if sampling is None else sampling
    linear = Linear() if linear is None else linear
    rules = [rule if step_size is None else rule.with_step_size(step_size) for rule in rules]
    rules = [rule.at(mdp.discount) if isinstance(rule, Stateful) else rule for rule in rules]
    for rule in rules:
        check(rule, mdp.discount)
        check_on(mdp, with_state(rule, features, linear), sampling, features, linear, n_seeds)
    synchronous = isinstance(sampling, Synchronous)
    reward = resolve_reward(reward, synchronous)
    check_together(mdp, sampling, features, reward, metrics)
    iteration = checkpoint_iterations(iterations, checkpoints, n_checkpoints, quarters=not synchronous)
    workers = n_workers or len(os.sched_getaffinity(0))
    if synchronous and n_workers is None:
        workers = max(1, min(workers, n_seeds // _FEW_LANES))
    if isinstance(mdp, Simulator) and n_workers is None:
        workers = 1  # Gymnasium's steps are Python: threads would take turns, and lose time at every turn
    shared = isinstance(mdp, FiniteMDP) and can_share(sampling, features, linear)
    shared &= features is not None or len(rules) > 1  # a table draws as it learns: for one alone that is quicker
    n_parts = max(workers, -(-n_seeds // (_LANES if shared or features is not None else _TABLES)))
    lanes = _deal(n_seeds, n_parts, _LANE_STEP if synchronous else 1)
    evaluation = resolve_evaluation(evaluation, default_episodes(mdp, sampling))
    shared_warnings: list[str] = []
    shared_facts: dict[str, Any] = {}
    optimal_q = None
    if isinstance(mdp, Simulator):
        measure = SimulationMeasure(evaluation, iteration)
        sources: list[Samples | None] = [None] * len(lanes)
        learners = [
            [SimulatedLearner(mdp, sampling, features, linear, some, seed, theta0) for some in lanes] for _ in rules
        ]
    else:
        optimum = optimal(mdp)
        optimal_q = optimum.q
        shared_warnings += mdp.notes
        shared_warnings += evaluation.warnings(mdp)
        point = None
        if features is not None:
            shared_warnings += features.warnings()
            shared_facts, point = fixed_point(mdp, features, sampling, theta0, shared_warnings)
        quarters = (iterations // 4, iterations // 2, iterations)
        exact = tuple(int(np.abs(iteration - point).argmin()) for point in quarters)
        episodes = evaluation if evaluation.episodes else None
        limit = evaluation.limit(mdp)
        measure = Measure(mdp, optimum, metrics, episodes, exact, point, seed, iteration, limit)
        initial, mean = q0 if features is None else theta0, reward == "mean"
        drawn = (mdp, sampling, features, linear, seed, mean)
        sources = [shared_samples(*drawn, some) if shared else None for some in lanes]
        common = (mdp, sampling, features, linear, seed, initial, mean)
        learners = [
            [start(*common, some, source, rule) for some, source in zip(lanes, sources, strict=True)] for rule in rules
        ]
    shared_warnings += without_effect(mdp, sampling, features, linear, evaluation, q0, theta0)
    courses = [
        Course(
            with_state(rule, features, linear),
            Recorder(mdp, optimal_q, iteration, n_seeds),
            foreseen(mdp, rule, sampling, iterations) + shared_warnings,
        )
        for rule in rules
    ]
    by_part = zip(sources, zip(*learners, strict=True), strict=True)
    parts = [Part(source, dict(enumerate(own))) for source, own in by_part]
    for number, course in enumerate(courses):
        for learner in learners_of(parts, number):  # compiles, where that has not been done: not learning time
            learner.advance(0, 0, course.rule.weights(*learner.rows(0, 0)))
    longest = _longest_block(mdp, sampling, features, iterations)
    with ThreadPoolExecutor(min(workers, len(parts))) as pool:
        for column, k in enumerate(iteration.tolist()):
            previous = int(iteration[column - 1]) if column else 0
            for first in range(previous, k, longest):
                advance(pool, parts, courses, first, min(longest, k - first))
                if progress is not None and first + longest < k:
                    progress(first + longest, courses[0].recorder.mean_error(column - 1) if column else math.nan)
            for number, course in enumerate(courses):
                left = learners_of(parts, number)
                course.recorder.record(column, left, list(pool.map(partial(measure, column), left)))
            if progress is not None:
                progress(k, courses[0].recorder.mean_error(column))
    results = []
    for number, course in enumerate(courses):
        left = learners_of(parts, number)
        rule = rules[number]
        facts = shared_facts | _seen(mdp, left, course.recorder.ended, iterations, sampling, course.warnings)
        if isinstance(rule, Rule) and isinstance(mdp, FiniteMDP) and features is None:
            facts |= _horizon(rule, mdp, sampling, iterations, course.warnings)
        if "q_error" in course.recorder.curves:
            course.warnings += grown(course.recorder.curves["q_error"])
        each = rule.samples_per_iteration * rule.batch  # transitions that an iteration learns from, at each pair
        each *= len(mdp.pairs) if synchronous and isinstance(mdp, FiniteMDP) else 1
        results.append(course.recorder.result(each, left, course.seconds, facts, tuple(course.warnings), reward))
    return results


def _longest_block(mdp: FiniteMDP | Simulator, sampling: Sampling, features: Any, iterations: int) -> int:
    """Iterations that are computed at a time between checkpoints.

    After each block divergence is looked for, and progress told. That a seed has diverged must not depend on other
    seeds, on rules beside it, on workers or on whether anyone is told: neither may the length of blocks.
    """
    if isinstance(mdp, Simulator):
        return max(1, iterations)  # the ends of blocks show in the last bits
    from mqlearn.learning.kernels import CHUNK

    if features is None:
        most = _LONGEST if isinstance(sampling, Synchronous) else _CHUNKS * CHUNK  # samples may be shared
        return max(_SHORTEST, min(most, iterations // _REPORTS))
    return _CHUNKS * CHUNK  # whole ones, of which the ends do not show


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


def default_episodes(mdp: Any, sampling: Any) -> int:
    """Greedy episodes of an evaluation, unless set."""
    if not isinstance(mdp, FiniteMDP):
        return _SIMULATED_EPISODES
    return 0 if isinstance(sampling, Synchronous) else _EPISODES


def resolve_evaluation(evaluation: Evaluation | None, episodes: int) -> Evaluation:
    """The evaluation with its default number of episodes."""
    evaluation = Evaluation() if evaluation is None else evaluation
    return replace(evaluation, episodes=episodes) if evaluation.episodes is None else evaluation


def resolve_reward(reward: str, synchronous: bool) -> str:
    """mean or sampled. Raises SettingError."""
    if choice("reward", reward, ("auto", "mean", "sampled")) == "auto":
        return "mean" if synchronous else "sampled"
    return reward


def fixed_point(
    mdp: FiniteMDP, features: Any, sampling: Any, theta0: Initial, warnings: list[str]
) -> tuple[dict[str, Any], Any]:
    """theta* of the very chain that is sampled, and what the summary says of it; None where there is none."""
    from mqlearn.problems.fixed_points import theta_star

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
        return facts, None
    paid = (mdp.probabilities > 0) & (mdp.rewards != 0)
    if not point.theta[point.used].any() or not paid[mu > 0].any():
        reason = "theta* is 0, as no reward is in reach of the chain that is sampled"
        warnings.append(f"{reason}: theta_error, a distance relative to its length, is absent")
        return facts, None
    return facts, point


def checkpoint_iterations(iterations: int, spacing: str, n: int, *, quarters: bool = False) -> np.ndarray:
    """Increasing iterations (at most n, int64) from 0 to `iterations`: evenly spaced, or evenly in the logarithm.

    With `quarters`, T/4 and T/2 are among them.
    """
    if choice("checkpoints", spacing, ("log", "linear")) == "linear":
        points = np.linspace(0, iterations, max(n, 2))
    else:
        points = np.concatenate([[0.0], np.geomspace(1, max(iterations, 1), n - 1) if n > 2 else [iterations]])
    if quarters:
        points = np.concatenate([points, [iterations // 4, iterations // 2]])
    points = np.unique(np.rint(points).astype(np.int64))
    points = points[points <= iterations]
    return points[-1:] if n == 1 else points


def _seen(
    mdp: Any, learners: list[Any], ended: list[Ended], iterations: int, sampling: Any, warnings: list[str]
) -> dict[str, Any]:
    """What the chains of all seeds have seen, of diverged ones until then, and a warning when that taught nothing."""
    states = [*(learner.chain_state() for learner in learners), *(gone.chain_state for gone in ended)]
    chains = [state for state in states if state is not None]
    if not chains:
        every = [*learners, *(gone.learner for gone in ended)]
        return seen_by_simulators([one for one in every if isinstance(one, SimulatedLearner)], iterations, sampling)
    _, _, steps, episodes, goals, rewards = np.concatenate([states for states, _ in chains]).sum(axis=0).tolist()
    visited = np.concatenate([visits for _, visits in chains]) > 0
    facts = {
        "chain_steps": steps,
        "episodes": episodes,
        "goals": goals,
        "rewards_seen": rewards,
        "pairs_visited": float(visited[:, mdp.counted[*mdp.pairs.T]].mean()),
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


def _deal(n_seeds: int, n_parts: int, whole: int) -> list[np.ndarray]:
    """Seed indices of each part, in multiples of `whole`."""
    step = -(-n_seeds // (n_parts * whole)) * whole
    return [np.arange(i, min(i + step, n_seeds), dtype=np.uint32) for i in range(0, n_seeds, step)]
