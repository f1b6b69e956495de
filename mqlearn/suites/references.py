"""What a leaderboard holds rules against beside their rivals: certainty equivalence on the same seeds, and CPU time."""

import datetime
import platform
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from mqlearn.errors import SettingError
from mqlearn.suites.definition import BASELINE, Problem

_PLANNED = 1000  # pairs, beyond which an exact plan for each seed takes minutes
_SEEDS = 8  # a whole vector of synchronous ones
_LEAST = 0.02  # seconds of CPU that are measured at least,
_REPEATS = 3  # the least of so many
_MOST = 400_000  # iterations that are measured at most


def certainty(problem: Problem) -> list[float] | None:
    """The last errors of certainty equivalence on the reporting seeds (n_seeds,); None where it does not plan, or where
    nothing is random, so that it is exact."""
    from mqlearn.algorithms import CertaintyEquivalence
    from mqlearn.learning.loop import run
    from mqlearn.problems.structure import deterministic, reward_depends_on

    mdp = problem.cell.mdp
    exact = deterministic(mdp) and reward_depends_on(mdp) != "chance"
    if exact or problem.pairs > _PLANNED or problem.cell.run_arguments["features"] is not None:
        return None
    rule, seeds = CertaintyEquivalence(), problem.seeds
    length = {"iterations": problem.iterations(rule), "seed": seeds.reporting_seed, "n_seeds": seeds.reporting}
    try:
        found = run(mdp, rule, **{**_arguments(problem), **length, "n_checkpoints": 2})
    except SettingError:
        return None
    return [float(error) for error in found.curves[problem.metric][:, -1]]


def costs(problem: Problem, rules: Mapping[str, Any]) -> dict[str, Any]:
    """CPU time of a sample of each rule with its step size over that of the baseline, which is among them, by name.

    of: those ratios.   machine, date: where and when they were measured.   Rules that cannot be run are left out.
    """
    seconds = {name: cpu_of_a_sample(problem, rule) for name, rule in rules.items()}
    base = seconds[BASELINE]
    of = {name: float(f"{own / base:.4g}") for name, own in seconds.items() if own and base}
    return {"of": of, "machine": _machine(), "date": datetime.datetime.now(datetime.UTC).date().isoformat()}


def cpu_of_a_sample(problem: Problem, rule: Any) -> float | None:
    """CPU seconds of a transition of a seed, drawing it and learning from it; None where the rule cannot be run."""
    from mqlearn.learning.lockstep import advance
    from mqlearn.learning.loop import compile_all
    from mqlearn.learning.run_state import build_run
    from mqlearn.learning.setup import validated

    length = {"iterations": 4 * _REPEATS * _MOST, "seed": problem.seeds.tuning_seed, "n_seeds": _SEEDS}
    try:
        setup = validated(problem.cell.mdp, **{**_arguments(problem), **length, "n_workers": 1, "n_checkpoints": 2})
        setup = setup.of_rule(rule)
        made = build_run(setup, [setup.ready(rule)])
    except SettingError:
        return None
    compile_all(made)
    done, n, taken = 0, 64, list[float]()
    with ThreadPoolExecutor(1) as pool:
        while len(taken) < _REPEATS:
            before = time.process_time()
            advance(pool, made.parts, made.courses, done, n)
            spent, done = time.process_time() - before, done + n
            if spent >= _LEAST or n >= _MOST:
                taken.append(spent)
            else:
                n = min(2 * n, _MOST)
            if made.courses[0].recorder.ended:  # some of its seeds have diverged, and cost nothing any more
                return None
    return min(taken) / (n * _SEEDS * problem.samples_each(rule))


def merged(facts: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Facts with the costs of further rules, `more` as from `costs`."""
    known = facts.get("cost") or {"of": {}}
    return {**facts, "cost": {**more, "of": {**known["of"], **more["of"]}}}


def _arguments(problem: Problem) -> dict[str, Any]:
    return {key: one for key, one in problem.cell.run_arguments.items() if key not in ("rule", "step_size")}


def _machine() -> str:
    """The processor by its name, where it is told."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()
