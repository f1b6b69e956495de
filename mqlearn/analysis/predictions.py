"""What theory predicts for a cell, beside what a finished run measured: assumptions, asymptotic errors, bounds."""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from mqlearn.algorithms import MomentumQ, NeSA, QLearning, Rule, SpeedyQ, Stateful, minibatch
from mqlearn.algorithms.operators import is_bellman
from mqlearn.algorithms.step_sizes import Harmonic, RescaledLinear
from mqlearn.analysis import slopes
from mqlearn.analysis.cases import case_of, largest_error
from mqlearn.analysis.measured_samples import bias_of, memory_of
from mqlearn.checks import discounted
from mqlearn.errors import SettingError
from mqlearn.experiments.settings.cell import Cell
from mqlearn.learners.initial import of_all_seeds
from mqlearn.problems.solvers import optimal
from mqlearn.storage.runs import Run
from mqlearn.theory import bounds, tables
from mqlearn.theory.bounds import Bound
from mqlearn.theory.case import Case
from mqlearn.theory.linear_features import LinearFeatures

LEVEL = 0.95  # of an interval


def predictions(cell: Cell, run: Run | None) -> dict[str, Any]:
    """All that `mqlearn theory` says, for JSON. Raises SettingError for a model that is too large, or an operator other
    than Bellman's, or a discount of 1."""
    if not is_bellman(cell.run_arguments["operator"]):
        name = cell.settings["operator"].get("name")
        raise SettingError("operator", name, f"is {tables.NOT_BELLMAN}; use operator=bellman")
    discounted(cell.mdp.discount, "discount", 1, "theorems here are of discounted values; 0.999 has some")
    mdp, case = cell.mdp, case_of(cell)
    no_constants = tables.uncovered(case)
    linear = None if case.features is None else LinearFeatures(case)
    memory, no_memory = None, None
    try:
        memory = memory_of(cell)
    except SettingError as error:  # the chain has no distribution that the memory could come close to
        no_memory = str(error)
    last = np.array([case.iterations])
    error = None if run is None or "q_error" not in run.curves else float(np.max(run.curves["q_error"]))
    checks = tables.checks(case, error) if linear is None else linear.checks()
    facts = {
        "environment": mdp.name,
        "discount": mdp.discount,
        "reward": case.reward,
        "norm": f"sup and root mean square over {int(mdp.counted.sum())} pairs",
        "sampling": case.sampling.name,
        "independent": case.sampling.independent,
        "cell": cell.name,
        "digest": cell.digest,
        "measured": None if run is None else measured_at_the_end(run, int(mdp.counted.sum()), case.rule.averaged),
        "assumptions": [one._asdict() for one in checks],
        "asymptotic": {} if no_constants else _asymptotic(cell, case, run),
        "bounds": [one.row() for one in bounds_of(case, run, last, linear)],
        "slope": slopes.row(case, run, linear),
        "slopes": bounds.SLOPES,
        "bias": None if linear is None else bias_of(cell, linear),
        "bias_reason": None if linear is None else linear.no_bias(),
        "replay_distance": memory,
        "replay_distance_reason": no_memory,
        "interval": None if no_constants else _interval(cell, case.rule, run),
    }
    if no_constants:
        facts["asymptotic_reason"] = no_constants
    return facts


def bounds_of(case: Case, run: Run | None, iteration: np.ndarray, linear: LinearFeatures | None) -> list[Bound]:
    """After some iterations (C,): of the sup error of tables, or of E |theta - theta*|^2 with linear features."""
    if linear is not None:
        return linear.bounds(iteration)
    return tables.table_bounds(case, iteration, largest_error(run))


def measured_at_the_end(run: Run, n_pairs: int, averaged: bool = False) -> dict[str, Any]:
    """The last checkpoint: mean sup error and root mean square error over seeds and pairs; `averaged`: of the mean.

    Without them where seeds diverged.
    """
    k, of = int(run.curves["iteration"][-1]), "_average" if averaged else ""
    sup, euclidean = run.curves.get(f"q_error{of}"), run.curves.get(f"q_error_l2{of}")
    found = {"iteration": k, "folder": str(run.folder), "diverged": len(run.diverged)}
    if sup is not None and np.isfinite(sup[:, -1]).all():
        found["sup"] = float(sup[:, -1].mean())
    if euclidean is not None and np.isfinite(euclidean[:, -1]).all():
        found["rms"] = float(np.sqrt((euclidean[:, -1] ** 2).mean() / n_pairs))
    return found


def _asymptotic(cell: Cell, case: Case, run: Run | None) -> dict[str, dict[str, Any]]:
    """The rule of the cell by its name, then the others that the paper compares, with as many draws an iteration."""
    rule = case.rule
    name = str(cell.settings["algorithm"].get("name") or type(rule).__name__)
    harmonic = Harmonic()
    rules = {
        name: rule,
        "q_learning, rescaled_linear": QLearning().with_step_size(RescaledLinear(cell.mdp.discount)),
        "speedy_q, harmonic": SpeedyQ().with_step_size(harmonic),
        "momentum_q, harmonic": MomentumQ().with_step_size(harmonic),
        "nesa, harmonic": NeSA().with_step_size(harmonic),
    }
    by_limit: dict[Any, dict[str, Any]] = {}  # SpeedyQ and MomentumQ have one
    rows = {}
    for label, one in rules.items():
        one = one if one is rule else minibatch(one, rule.batch)
        limit = _limit(one)
        row = by_limit.get(limit) or tables.asymptotic_row(replace(case, rule=one))
        by_limit[limit] = row
        rows[label] = {"step_size": str(one.step_size), **row}
    if run is not None:
        measured = measured_at_the_end(run, int(cell.mdp.counted.sum()), rule.averaged)
        root = math.sqrt(run.curves["iteration"][-1])
        for kind in ("rms", "sup"):
            if kind in measured:
                rows[name][f"measured_{kind}_sqrt_k"] = measured[kind] * root
                rows[name][f"measured_{kind}_efficiency"] = measured[kind] * root / rows[name][f"floor_{kind}_sqrt_k"]
    rows[name] |= _exact(case)
    return rows


def _interval(cell: Cell, rule: Rule | Stateful, run: Run | None) -> dict[str, Any] | None:
    """Of each entry of Q* at 95 %, from the first seed of a finished run alone, and how often such intervals cover,
    measured; `reason` where there is none."""
    from mqlearn.analysis.coverage import measured_coverage
    from mqlearn.theory.interval import from_checkpoints
    from mqlearn.theory.limits import slow_limit_of

    try:
        if not isinstance(rule, Rule) or not rule.averaged:
            expected = "must be true, with a step like k^-w, 1/2 < w < 1: the interval is of the mean of the iterates"
            raise SettingError("algorithm.averaged", rule.averaged, expected)
        if rule.burn_in:
            expected = "must be 0: the interval is made of the mean of all iterates"
            raise SettingError("algorithm.burn_in", rule.burn_in, expected)
        slow_limit_of(rule)
        if run is None or "mean_path" not in run.tables:
            return {"reason": "no finished run of this digest has the path of its mean"}
        low, high = from_checkpoints(run.curves["iteration"], run.tables["mean_path"], LEVEL)
        given = {"seed": cell.settings["seed"], "q0": of_all_seeds(cell.run_arguments["q0"])}
        mean_reward = cell.settings["reward"] == "mean"
        coverage = measured_coverage(cell.mdp, rule, run.curves["iteration"], LEVEL, mean_reward=mean_reward, **given)
    except SettingError as error:
        return {"reason": str(error)}
    star, counted = optimal(cell.mdp).q, cell.mdp.counted
    pairs = np.argwhere(counted)
    return {
        "level": LEVEL, "iteration": int(run.curves["iteration"][-1]), "seeds": 1, "pairs": pairs.tolist(),
        "low": low[counted].tolist(), "high": high[counted].tolist(), "q_star": star[counted].tolist(),
        "covered": float(((low <= star) & (star <= high))[counted].mean()), "coverage": coverage.mean,
        "coverage_least": coverage.least, "coverage_seeds": coverage.n_seeds, "reason": None,
    }  # fmt: skip


def _limit(rule: Rule | Stateful) -> Any:
    """What the prediction depends on: rounded, or the rule itself where that is another."""
    from mqlearn.theory.limits import limit_of

    if not isinstance(rule, Rule) or rule.averaged:
        return rule, rule.step_size, rule.averaged, rule.burn_in
    try:
        return tuple(round(number, 7) for number in limit_of(rule))
    except SettingError:
        return rule, rule.step_size


def _exact(case: Case) -> dict[str, Any]:
    """The exact root mean square error at some k, as far as a second of computing goes; of four-number rules alone."""
    if not isinstance(case.rule, Rule) or case.rule.averaged or not case.iterations:
        return {}
    last = min(case.iterations, tables.affordable(case))
    found = tables.exact_moments(case, np.unique(np.geomspace(1, last, 40).astype(int)))
    if found is None or not np.isfinite(found.rms[-1]):  # of a step that lets errors grow
        return {}
    return {"exact": {"iteration": found.iteration.tolist(), "rms": found.rms.tolist()}}
