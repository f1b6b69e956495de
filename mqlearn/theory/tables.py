"""What theorems say of a case with tables: assumptions, asymptotic errors, exact moments, bounds of the sup error."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from mqlearn.algorithms import MomentumQ, Rule, SpeedyQ
from mqlearn.algorithms.operators import is_bellman, name_of
from mqlearn.algorithms.step_sizes import Harmonic
from mqlearn.problems.solvers import optimal
from mqlearn.theory import assumptions, bounds
from mqlearn.theory.assumptions import Check
from mqlearn.theory.bounds import Bound
from mqlearn.theory.case import Case, mixing_check, mixing_of

if TYPE_CHECKING:
    from mqlearn.theory.asymptotic import Asymptotic
    from mqlearn.theory.moments import Moments

DELTA = 0.1  # a bound holds with probability 1 - DELTA
SECONDS = 0.5  # of one core, for the exact moments
_FLOPS = 3e10  # a second
NOT_BELLMAN = "another operator than Bellman's, of which alone theory speaks"


def uncovered(case: Case) -> str | None:
    """Why asymptotic constants, intervals and bounds of tables do not speak of a case; None where they do.

    They are of Bellman's operator on tables under synchronous sampling. Whether something is known of its rule too, is
    said with each of them.
    """
    if case.rule.clip is not None:
        return "nothing is said of tables that are clipped (algorithm.clip)"
    if not is_bellman(case.operator):
        return f"operator={name_of(case.operator)} is {NOT_BELLMAN}"
    if case.mdp.discount == 1:
        return "theorems here are of discounted values (discount=1)"
    if case.features is not None or not case.sampling.all_pairs:
        return "the constants are of tables under synchronous sampling"
    return None


def schedule(case: Case) -> Check:
    """Which theorem covers the rule with its step size, if any."""
    return assumptions.schedule(case.rule, case.mdp.discount, case.sampling.all_pairs, None)


def checks(case: Case, largest_error: float | None) -> list[Check]:
    """The assumptions; largest_error: sup |Q_k - Q*| as far as it was measured."""
    found = [assumptions.bounded_tables(largest_error, _largest(case), every=False)]
    if not case.sampling.all_pairs:
        found = [mixing_check(mixing_of(case.mdp, case.sampling), case.last_step), *found]
    return [*found, schedule(case)]


def asymptotic(case: Case) -> "Asymptotic":
    """What sqrt(k) (Q_k - Q*) tends to. Raises SettingError for a model that is too large."""
    from mqlearn.theory.named_rules import predicted

    return predicted(case.mdp, case.rule, case.reward)


def constants(found: "Asymptotic") -> dict[str, Any]:
    """The numbers of `asymptotic`; NaN and a reason where there is no prediction.

    rms: of a pair, in the mean over pairs.   max: standard deviation of the worst pair.   sup and norm: the expected
    sup and Euclidean norm, which a mean over seeds estimates.
    """
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


def asymptotic_row(case: Case) -> dict[str, Any]:
    """`constants` of `asymptotic`."""
    return constants(asymptotic(case))


def affordable(case: Case, seconds: float = SECONDS) -> int:
    """Iterations of the exact moments that are computed in about so many seconds."""
    counted = case.mdp.counted
    a_step = 6e-5 + 18 * float(counted.sum()) * float(counted.any(1).sum()) ** 2 / _FLOPS
    return max(int(seconds / a_step), 1)


def exact_moments(case: Case, iteration: np.ndarray, seconds: float = SECONDS) -> "Moments | None":
    """The exact moments of the error at the first of these numbers of iterations (C,), as many as are affordable.

    None where there are none, or the initial table is no constant.
    """
    from mqlearn.theory.moments import moments

    some = iteration[iteration <= affordable(case, seconds)]
    if not isinstance(case.rule, Rule) or not isinstance(case.q0, int | float) or not len(some):
        return None
    return moments(case.mdp, case.rule, some, case.reward, case.rule.batch, q0=float(case.q0))


def table_bounds(case: Case, iteration: np.ndarray, largest_error: float | None) -> list[Bound]:
    """Of the sup error after some iterations (C,), with probability 1 - DELTA.

    largest_error: sup |Q_k - Q*| over the checkpoints of a run, for V; None takes V a priori. There is no bound where
    no theorem with known constants covers the case.
    """
    mdp, rule = case.mdp, case.rule
    if uncovered(case) or not iteration[-1] or rule.batch > 1 or rule.averaged:
        return []
    r_max = case.largest_reward
    known = {"discount": mdp.discount, "r_max": r_max, "n_pairs": len(mdp.pairs), "delta": DELTA}
    v, origin = r_max / (1 - mdp.discount), "V = R/(1-g) a priori, which is not certain"
    if largest_error is not None:
        v, origin = _largest(case) + largest_error, "V over the checkpoints of the run"
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


def _largest(case: Case) -> float:
    """max |Q*| over the counted pairs."""
    return float(np.abs(optimal(case.mdp).q[case.mdp.counted]).max())
