"""What theory predicts for a cell, beside what a finished run measured: assumptions, asymptotic errors, bounds."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from mqlearn.algorithms import MomentumQ, NeSA, QLearning, Rule, SpeedyQ, Stateful, minibatch
from mqlearn.algorithms.operators import is_bellman
from mqlearn.algorithms.step_sizes import Harmonic, RescaledLinear
from mqlearn.analysis import slopes
from mqlearn.analysis.predictions_features import (
    Bound,
    LinearFeatures,
    largest_reward,
    last_step,
    memory_of,
    mixing_check,
    mixing_of,
)
from mqlearn.checks import discounted
from mqlearn.errors import SettingError
from mqlearn.experiments.settings.cell import Cell
from mqlearn.learning.initial import of_all_seeds
from mqlearn.problems.solvers import optimal
from mqlearn.storage.runs import Run
from mqlearn.theory import assumptions, bounds
from mqlearn.theory.assumptions import Check

if TYPE_CHECKING:
    from mqlearn.theory.asymptotic import Asymptotic
    from mqlearn.theory.moments import Moments

LEVEL = 0.95  # of an interval
DELTA = 0.1  # a bound of tables holds with probability 1 - DELTA
_SECONDS = 0.5  # of one core, for the exact moments
_FLOPS = 3e10  # a second
_OTHER = "another operator than Bellman's, of which alone theory speaks"


def predictions(cell: Cell, run: Run | None) -> dict[str, Any]:
    """All that `mqlearn theory` says, for JSON. Raises SettingError for a model that is too large, or an operator other
    than Bellman's, or a discount of 1."""
    if not is_bellman(cell.run_arguments["operator"]):
        raise SettingError("operator", cell.settings["operator"].get("name"), f"is {_OTHER}; use operator=bellman")
    discounted(cell.mdp.discount, "discount", 1, "theorems here are of discounted values; 0.999 has some")
    mdp, no_constants = cell.mdp, uncovered(cell)
    rule = rule_of(cell)
    linear = None if cell.run_arguments["features"] is None else LinearFeatures(cell, rule)
    memory, no_memory = None, None
    try:
        memory = memory_of(cell)
    except SettingError as error:  # the chain has no distribution that the memory could come close to
        no_memory = str(error)
    facts = {
        "environment": mdp.name,
        "discount": mdp.discount,
        "reward": cell.settings["reward"],
        "norm": f"sup and root mean square over {int(mdp.counted.sum())} pairs",
        "sampling": cell.run_arguments["sampling"].name,
        "independent": cell.run_arguments["sampling"].independent,
        "cell": cell.name,
        "digest": cell.digest,
        "measured": None if run is None else measured_at_the_end(run, int(mdp.counted.sum()), rule.averaged),
        "assumptions": [one._asdict() for one in _assumptions(cell, rule, run, linear)],
        "asymptotic": {} if no_constants else _asymptotic(cell, rule, run),
        "bounds": [one.row() for one in bounds_of(cell, rule, run, np.array([cell.settings["iterations"]]), linear)],
        "slope": slopes.row(cell, rule, run, linear),
        "slopes": bounds.SLOPES,
        "bias": None if linear is None else linear.bias(rule),
        "bias_reason": None if linear is None else linear.no_bias(rule),
        "replay_distance": memory,
        "replay_distance_reason": no_memory,
        "interval": None if no_constants else _interval(cell, rule, run),
    }
    if no_constants:
        facts["asymptotic_reason"] = no_constants
    return facts


def uncovered(cell: Cell) -> str | None:
    """Why asymptotic constants, intervals and bounds of tables do not speak of a cell; None where they do.

    They are of Bellman's operator on tables under synchronous sampling. Whether something is known of its rule too, is
    said with each of them.
    """
    given = cell.run_arguments
    if given["rule"].clip is not None:
        return "nothing is said of tables that are clipped (algorithm.clip)"
    if not is_bellman(given["operator"]):
        return f"operator={cell.settings['operator'].get('name')} is {_OTHER}"
    if cell.mdp.discount == 1:
        return "theorems here are of discounted values (discount=1)"
    if given["features"] is not None or not given["sampling"].all_pairs:
        return "the constants are of tables under synchronous sampling"
    return None


def rule_of(cell: Cell) -> Rule | Stateful:
    """The rule with its step size, at the discount of the cell."""
    rule = cell.run_arguments["rule"].with_step_size(cell.run_arguments["step_size"])
    return rule.at(cell.mdp.discount) if isinstance(rule, Stateful) else rule


def schedule_of(cell: Cell, rule: Rule | Stateful) -> Check:
    """Which theorem covers a rule of tables with its step size, if any."""
    synchronous = cell.run_arguments["sampling"].all_pairs
    return assumptions.schedule(rule, cell.mdp.discount, synchronous, None)


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


# --- assumptions --------------------------------------------------------------------------------------------------


def _assumptions(cell: Cell, rule: Rule | Stateful, run: Run | None, linear: LinearFeatures | None) -> list[Check]:
    synchronous = cell.run_arguments["sampling"].all_pairs
    if linear is not None:
        return [
            *linear.checks(last_step(cell)),
            assumptions.schedule(rule, cell.mdp.discount, synchronous, linear.contraction),
        ]
    error = None if run is None or "q_error" not in run.curves else float(np.max(run.curves["q_error"]))
    largest = float(np.abs(optimal(cell.mdp).q[cell.mdp.counted]).max())
    checks = [assumptions.bounded_tables(error, largest, every=False)]
    if not synchronous:
        checks = [mixing_check(mixing_of(cell), last_step(cell)), *checks]
    return [*checks, schedule_of(cell, rule)]


# --- tables -------------------------------------------------------------------------------------------------------


def _asymptotic(cell: Cell, rule: Rule | Stateful, run: Run | None) -> dict[str, dict[str, Any]]:
    """The rule of the cell by its name, then the others that the paper compares, with as many draws an iteration."""
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
        row = by_limit.get(limit) or asymptotic_row(cell, one)
        by_limit[limit] = row
        rows[label] = {"step_size": str(one.step_size), **row}
    if run is not None:
        measured = measured_at_the_end(run, int(cell.mdp.counted.sum()), rule.averaged)
        root = math.sqrt(run.curves["iteration"][-1])
        for kind in ("rms", "sup"):
            if kind in measured:
                rows[name][f"measured_{kind}_sqrt_k"] = measured[kind] * root
                rows[name][f"measured_{kind}_efficiency"] = measured[kind] * root / rows[name][f"floor_{kind}_sqrt_k"]
    rows[name] |= _exact(cell, rule)
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


def asymptotic(cell: Cell, rule: Rule | Stateful) -> "Asymptotic":
    """The prediction for a rule on the model of a cell."""
    from mqlearn.theory.named_rules import predicted

    return predicted(cell.mdp, rule, cell.settings["reward"])


def asymptotic_row(cell: Cell, rule: Rule | Stateful) -> dict[str, Any]:
    """The numbers of `asymptotic`; NaN and a reason where there is no prediction.

    rms: of a pair, in the mean over pairs.   max: standard deviation of the worst pair.   sup and norm: the expected
    sup and Euclidean norm, which a mean over seeds estimates.
    """
    return row_of(asymptotic(cell, rule))


def row_of(found: "Asymptotic") -> dict[str, Any]:
    from mqlearn.theory.sup import expected_sup_and_norm

    (sup, norm), (least, least_norm) = expected_sup_and_norm(found.sigma), expected_sup_and_norm(found.floor)
    return {
        "rms_sqrt_k": found.rms_sqrt_k,
        "max_sqrt_k": found.max_sqrt_k,
        "sup_sqrt_k": sup.value,
        "sup_standard_error": sup.standard_error,
        "norm_sqrt_k": norm,
        "floor_rms_sqrt_k": found.floor_rms_sqrt_k,
        "floor_max_sqrt_k": found.floor_max_sqrt_k,
        "floor_sup_sqrt_k": least.value,
        "floor_norm_sqrt_k": least_norm,
        "rms_efficiency": found.rms_sqrt_k / found.floor_rms_sqrt_k if found.floor_rms_sqrt_k else math.nan,
        "sup_efficiency": sup.value / least.value if least.value else math.nan,
        "tied_states": found.tied_states,
        "approximate": found.approximate,
        "reason": found.reason,
    }


def _exact(cell: Cell, rule: Rule | Stateful) -> dict[str, Any]:
    """The exact root mean square error at some k, as far as a second of computing goes; of four-number rules alone."""
    if not isinstance(rule, Rule) or rule.averaged or not cell.settings["iterations"]:
        return {}
    last = min(int(cell.settings["iterations"]), _affordable(cell))
    found = exact_moments(cell, rule, np.unique(np.geomspace(1, last, 40).astype(int)))
    if found is None or not np.isfinite(found.rms[-1]):  # of a step that lets errors grow
        return {}
    return {"exact": {"iteration": found.iteration.tolist(), "rms": found.rms.tolist()}}


def _affordable(cell: Cell, seconds: float = _SECONDS) -> int:
    """Iterations of the exact moments that are computed in about so many seconds."""
    counted = cell.mdp.counted
    a_step = 6e-5 + 18 * float(counted.sum()) * float(counted.any(1).sum()) ** 2 / _FLOPS
    return max(int(seconds / a_step), 1)


def exact_moments(cell: Cell, rule: Rule, iteration: np.ndarray, seconds: float = _SECONDS) -> "Moments | None":
    """The exact moments of the error at the first of these numbers of iterations (C,), as many as are affordable.

    None where there are none, or the initial table is no constant.
    """
    from mqlearn.theory.moments import moments

    q0 = cell.run_arguments["q0"]
    some = iteration[iteration <= _affordable(cell, seconds)]
    if not isinstance(q0, int | float) or not len(some):
        return None
    return moments(cell.mdp, rule, some, cell.settings["reward"], rule.batch, q0=float(q0))


def bounds_of(
    cell: Cell, rule: Rule | Stateful, run: Run | None, iteration: np.ndarray, linear: LinearFeatures | None
) -> list[Bound]:
    """After some iterations (C,): of the sup error of tables, or of E |theta - theta*|^2 with linear features."""
    return table_bounds(cell, rule, run, iteration) if linear is None else linear.bounds(rule, iteration)


def table_bounds(cell: Cell, rule: Rule | Stateful, run: Run | None, iteration: np.ndarray) -> list[Bound]:
    """Of the sup error after some iterations (C,), with probability 1 - DELTA; V from the checkpoints of a run, or not.

    There is none where no theorem with known constants covers the cell.
    """
    mdp = cell.mdp
    if uncovered(cell) or not iteration[-1] or rule.batch > 1 or rule.averaged:
        return []
    r_max = largest_reward(cell)
    largest = float(np.abs(optimal(mdp).q[mdp.counted]).max())
    known = {"discount": mdp.discount, "r_max": r_max, "n_pairs": len(mdp.pairs), "delta": DELTA}
    v, origin = r_max / (1 - mdp.discount), "V = R/(1-g) a priori, which is not certain"
    if run is not None and "q_error" in run.curves:
        v, origin = largest + float(np.nanmax(run.curves["q_error"])), "V over the checkpoints of the run"
    if isinstance(rule, SpeedyQ) and isinstance(rule.step_size, Harmonic):
        return [Bound("SpeedyQ", bounds.speedy_q(iteration, **known), 2 * v, "|Q_0| <= R/(1-g)")]
    if not isinstance(rule, MomentumQ):
        return []
    given = {**known, "m": rule.order, "v_max": v}
    if rule.shifted:
        return [Bound("Theorem 3, shifted", bounds.theorem_3_shifted(iteration, **given), 2 * v, origin)]
    names = {"Theorem 3, printed": False, "Theorem 3, corrected": True}
    return [
        Bound(name, bounds.theorem_3(iteration, **given, corrected=corrected), 2 * v, origin)
        for name, corrected in names.items()
    ]
