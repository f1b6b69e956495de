"""What a run is assembled of: seeds in parts, each with a learner for every rule; what measures and records them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mqlearn.algorithms.options import left_out
from mqlearn.algorithms.stateful import Stateful
from mqlearn.learners import can_share, shared_samples, start, with_state
from mqlearn.learning.diagnostics import Diagnosis, fixed_point
from mqlearn.learning.lockstep import RuleRun, SeedBatch
from mqlearn.learning.metrics import Measure
from mqlearn.learning.record import Recorder
from mqlearn.learning.run_warnings import before_run
from mqlearn.learning.setup import AnyRule, Setup
from mqlearn.paths import cores
from mqlearn.problems.environments.simulator import Simulator
from mqlearn.problems.mdp import FiniteMDP
from mqlearn.problems.solvers import optimal
from mqlearn.simulators.linear import SimulatedLearner
from mqlearn.simulators.measure import SimulationMeasure
from mqlearn.simulators.stateful import SimulatedStateful

_FEW_SEEDS = 16  # fewer synchronous seeds cost a worker as much time as these
_VECTOR = 8  # synchronous seeds are dealt to workers in whole vectors
_LONGEST = 1_000_000  # iterations of a block: its weights are kept in memory, 32 bytes an iteration
_REPORTS = 16  # of progress at least with tables, however few the checkpoints,
_SHORTEST = 1000  # unless so few iterations pass between them
_CHUNKS = 16  # of a block on chains; its samples are kept in memory, 8 bytes each,
_SAMPLED_SEEDS = 64  # for at most so many seeds a part
_SEEDS = 512  # of a part with tables: what is needed while they are advanced and measured is freed again


@dataclass(frozen=True)
class RunState:
    """parts: of the seeds.   courses: of the rules.   measure: (column, learner) -> metric -> (seeds,) values.
    facts: known before the run.   workers: threads.   block: iterations that are computed at a time."""

    parts: Sequence[SeedBatch]
    courses: Sequence[RuleRun]
    measure: Callable[[int, Any], dict[str, np.ndarray]]
    facts: dict[str, Any]
    workers: int
    block: int


def build_run(setup: Setup, rules: Sequence[AnyRule], *, deal: bool = True) -> RunState:
    """A run of these rules, before iteration 0. deal: False leaves out the seeds, which come in turn."""
    facts, findings = setup.operator.facts(), []
    if isinstance(setup.mdp, FiniteMDP):
        measure, (known, findings) = _exact_measure(setup)
        facts, optimal_q = facts | known, measure.fixed_point
    else:
        measure, optimal_q = SimulationMeasure(setup.evaluation, setup.iteration), None
    workers = _workers(setup)
    parts = _parts(setup, dict(enumerate(rules)), workers) if deal else []
    courses = [
        RuleRun(
            with_state(rule, setup.features, setup.linear),
            Recorder(setup.mdp, optimal_q, setup.iteration, setup.n_seeds),
            [*before_run(setup, rule), *findings],
        )
        for rule in rules
    ]
    return RunState(parts, courses, measure, facts, max(1, min(workers, len(parts))), _longest_block(setup))


def _exact_measure(setup: Setup) -> tuple[Measure, Diagnosis]:
    """Measures against the exact optimum, with features against theta* too, and what is known of that."""
    mdp, evaluation, point = setup.mdp, setup.evaluation, None
    assert isinstance(mdp, FiniteMDP)
    known: Diagnosis = {}, []
    if setup.features is not None:
        point, known = fixed_point(mdp, setup.features, setup.sampling, setup.theta0, setup.operator)
    quarters = (setup.iterations // 4, setup.iterations // 2, setup.iterations)
    exact = tuple(int(np.abs(setup.iteration - quarter).argmin()) for quarter in quarters)
    episodes, limit = evaluation if evaluation.episodes else None, evaluation.limit(mdp)
    place = setup.seed, setup.iteration, limit, setup.operator, setup.n_seeds
    return Measure(mdp, optimal(mdp), setup.metrics, episodes, exact, point, *place), known


def deal_more(setup: Setup, rules: Mapping[int, AnyRule], first: int) -> list[SeedBatch]:
    """Parts of the seeds from `first` on, up to n_seeds: of these rules, by their numbers."""
    return _parts(setup, rules, _workers(replace(setup, n_seeds=setup.n_seeds - first)), first)


def _parts(setup: Setup, rules: Mapping[int, AnyRule], workers: int, first: int = 0) -> list[SeedBatch]:
    """The seeds in parts, in each a learner for every rule, and the samples that the rules share."""
    mdp, sampling, features, linear, seed = setup.mdp, setup.sampling, setup.features, setup.linear, setup.seed
    if isinstance(mdp, Simulator):
        return [
            SeedBatch(None, {number: _simulated(setup, mdp, some, rule) for number, rule in rules.items()})
            for some in _deal(setup, workers, _SAMPLED_SEEDS, first)
        ]
    # Of one table alone the kernel that draws as it learns is quicker.
    plans = any(
        isinstance(rule, Stateful) and rule.plans for rule in rules.values()
    )  # which draw no samples themselves
    shared = can_share(sampling, features, linear) and (features is not None or len(rules) > 1 or plans)
    mean = setup.reward == "mean"
    parts = []
    for some in _deal(setup, workers, _SAMPLED_SEEDS if shared or features is not None else _SEEDS, first):
        samples = shared_samples(mdp, sampling, features, linear, seed, mean, some) if shared else None
        common = (mdp, sampling, features, linear, seed, setup.initial, mean, some, samples)
        learners: dict[int, Any] = {number: start(*common, rule, setup.operator) for number, rule in rules.items()}
        for number, rule in rules.items():
            learners[number].left_out = left_out(rule.burn_in, setup.iterations)
        parts.append(SeedBatch(samples, learners))
    return parts


def _simulated(setup: Setup, simulator: Simulator, lanes: np.ndarray, rule: AnyRule) -> SimulatedLearner:
    """A learner of some seeds on a simulator."""
    place = (simulator, setup.sampling, setup.features, setup.linear)
    settings = (*place, lanes, setup.seed, setup.theta0, setup.operator)
    return SimulatedStateful(rule, *settings) if isinstance(rule, Stateful) else SimulatedLearner(*settings)


def _workers(setup: Setup) -> int:
    """Threads."""
    if setup.n_workers is not None:
        return setup.n_workers
    if isinstance(setup.mdp, Simulator):
        return 1  # Gymnasium's steps are Python: threads would take turns, and lose time at every turn
    return max(1, min(cores(), setup.n_seeds // _FEW_SEEDS)) if setup.synchronous else cores()


def _deal(setup: Setup, workers: int, most: int, first: int = 0) -> list[np.ndarray]:
    """Seed indices (uint32) of each part, from `first` on: at most so many, and enough parts for the workers."""
    n_seeds, whole = setup.n_seeds - first, _VECTOR if setup.synchronous else 1
    n_parts = max(workers, -(-n_seeds // most))
    step = -(-n_seeds // (n_parts * whole)) * whole
    return [np.arange(first + i, first + min(i + step, n_seeds), dtype=np.uint32) for i in range(0, n_seeds, step)]


def _longest_block(setup: Setup) -> int:
    """Iterations that are computed at a time between checkpoints.

    After each block divergence is looked for, and progress told. That a seed has diverged must not depend on other
    seeds, on rules beside it, on workers or on whether anyone is told: neither may the length of blocks.
    """
    if isinstance(setup.mdp, Simulator):
        return max(1, setup.iterations)  # the ends of blocks show in the last bits
    from mqlearn.kernels import CHUNK

    if setup.features is None:
        most = _LONGEST if setup.synchronous else _CHUNKS * CHUNK  # samples may be shared
        return max(_SHORTEST, min(most, setup.iterations // _REPORTS))
    return _CHUNKS * CHUNK  # whole ones, of which the ends do not show
