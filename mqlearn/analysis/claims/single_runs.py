"""Evidence of one run: the speed and the shape of its curve, the bound of Theorem 3, the floor of all rules."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from mqlearn.analysis.cases import case_of
from mqlearn.analysis.claims.checks import OPEN, ClaimCheck, Look, Seen, level_of_each, looked_at
from mqlearn.analysis.claims.criteria import ABOVE_FLOOR, FALLEN, FEWEST, SETTLED, decide
from mqlearn.analysis.comparison.seed_values import Question, metric_of
from mqlearn.analysis.statistics import survival
from mqlearn.analysis.statistics.intervals import Estimate, bootstrap_interval
from mqlearn.errors import SettingError


def rates(spec: Mapping[str, Any], places: Sequence[Mapping[str, str]], look: Look) -> list[ClaimCheck]:
    """Slopes of log mean error^power on log k, or on k if the claim is of a speed, on a window.

    window: shares of T, or "transient" (see `transient`).   exponent: the theorem's, on log k; "contraction":
    log(1 - 2 alpha delta) an iteration, of Theorem 1.   resolution: times its size, how wide an interval that contains
    it may be. The intervals of one check hold together (Bonferroni).
    """
    return _judged(spec, places, look, _speed)


def shapes(spec: Mapping[str, Any], places: Sequence[Mapping[str, str]], look: Look) -> list[ClaimCheck]:
    """Whether a curve falls exponentially rather than by a power of k, on a window as in `rates`.

    Both laws are straight lines of log mean error^power, on k and on log k, fitted by least squares; the interval is of
    the logarithm of the ratio of the residual sums, over resampled seeds, and those of a check hold together.
    """
    return _judged(spec, places, look, _shape)


def transient(iteration: np.ndarray, mean: np.ndarray) -> tuple[float, ...]:
    """(first, last) iteration at which `mean` (C,) falls towards its neighbourhood; empty if there is no such time.

    From the first checkpoint below half of the initial value, to the last before it first comes within ABOVE_FLOOR
    times the size of the neighbourhood, which is the mean over the second half of all iterations: what follows is
    noise about it. Fewer than FEWEST checkpoints between are none.
    """
    floor = float(mean[iteration >= SETTLED * iteration[-1]].mean())
    low, near = mean <= FALLEN * mean[0], mean <= ABOVE_FLOOR * floor
    first = int(low.argmax()) if low.any() else len(mean)
    last = int(near.argmax()) if near.any() else len(mean)
    return (float(iteration[first]), float(iteration[last - 1])) if last - first >= FEWEST else ()


class _OnWindow(NamedTuple):
    """curves (n_seeds, C) of error^power at `iteration` (C,), and the window in iterations, empty if there is none."""

    metric: str
    iteration: np.ndarray
    curves: np.ndarray
    window: tuple[float, ...]


# An estimate at a level, its name, and what else is evidence.
_Measured = tuple[Estimate, str, dict[str, Any]]
_Measure = Callable[[Mapping[str, Any], Seen, _OnWindow, float], _Measured]


def _judged(
    spec: Mapping[str, Any], places: Sequence[Mapping[str, str]], look: Look, measure: _Measure
) -> list[ClaimCheck]:
    """A check of each run on its window; open where it has none."""
    checks = []
    level = level_of_each(spec, places)
    for said, seen in looked_at(spec, places, look):
        on = _on_window(spec, seen)
        if not on.window:
            checks.append(_without_window(said, seen, on.metric))
            continue
        found, name, more = measure(spec, seen, on, level)
        evidence = {
            name: found.value, "low": found.low, "high": found.high, "level": level, **more,
            "window": list(on.window), "n_finite": found.n_finite, "metric": on.metric, "digests": [seen.run.digest],
        }  # fmt: skip
        checks.append(ClaimCheck(said, decide(spec, evidence), evidence))
    return checks


def _speed(spec: Mapping[str, Any], seen: Seen, on: _OnWindow, level: float) -> _Measured:
    if spec["exponent"] == "contraction":
        exponent = math.log1p(-2 * seen.cell.settings["step_size"]["alpha"] * contraction_of(seen.cell))
        # The slope on k by that on log of exp(k / T), which is what `rate` knows.
        end = seen.cell.settings["iterations"]
        found = _rate(np.exp(on.iteration / end), on.curves, tuple(math.exp(k / end) for k in on.window), level)
        found = found._replace(value=found.value / end, low=found.low / end, high=found.high / end)
        unit = "log E error^2 an iteration"
    else:
        exponent, found = float(spec["exponent"]), _rate(on.iteration, on.curves, on.window, level)
        unit = f"log mean {on.metric}^{spec['power']} on log k"
    return found, "slope", {"exponent": exponent, "unit": unit}


def _shape(spec: Mapping[str, Any], seen: Seen, on: _OnWindow, level: float) -> _Measured:
    found = survival.exponential_against_power(on.iteration, on.curves, on.window, level)
    return found, "log_residual_ratio", {}


def _without_window(said: dict[str, str], seen: Seen, metric: str) -> ClaimCheck:
    why = f"fewer than {FEWEST} checkpoints between {FALLEN:g} of the initial value and {ABOVE_FLOOR:g} times the floor"
    n_finite = int(np.isfinite(seen.run.curves[metric]).all(axis=1).sum())
    evidence = {"reason": why, "n_finite": n_finite, "metric": metric, "digests": [seen.run.digest]}
    return ClaimCheck(said, OPEN, evidence)


def _on_window(spec: Mapping[str, Any], seen: Seen) -> _OnWindow:
    metric = metric_of(Question(metric=spec["metric"]), seen.run)
    iteration, curves = seen.run.curves["iteration"], seen.run.curves[metric] ** spec["power"]
    if spec["window"] == "transient":
        finite = curves[np.isfinite(curves).all(axis=1)]
        window = transient(iteration, finite.mean(axis=0)) if len(finite) else ()
        return _OnWindow(metric, iteration, curves, window)
    end = seen.cell.settings["iterations"]
    return _OnWindow(metric, iteration, curves, tuple(share * end for share in spec["window"]))


def _rate(iteration: np.ndarray, curves: np.ndarray, window: Sequence[float], level: float) -> Estimate:
    return survival.rate(iteration, curves, (window[0], window[1]), level)


def contraction_of(cell: Any) -> float:
    """The delta of Assumption 2 for a cell. Raises SettingError where it is not known to hold."""
    from mqlearn.sampling.modes import stationary
    from mqlearn.theory.bounds import contraction

    settings = cell.settings
    if settings["features"].get("name") != "one_hot" or settings["sampling"].get("behaviour") != "uniform":
        raise SettingError("features", settings["features"].get("name"), "must be one_hot, under a uniform behaviour")
    mu = stationary(cell.run_arguments["sampling"], cell.mdp)
    assert mu is not None  # a uniform behaviour has a stationary chain
    return contraction(cell.mdp, mu)


def bounds(spec: Mapping[str, Any], places: Sequence[Mapping[str, str]], look: Look) -> list[ClaimCheck]:
    """Theorem 3 at every checkpoint T > m, and the share of the seeds that is ever above its bound."""
    from mqlearn.problems.solvers import optimal
    from mqlearn.theory.bounds import theorem_3

    checks = []
    for said, seen in looked_at(spec, places, look):
        mdp, iteration, error = seen.cell.mdp, seen.run.curves["iteration"], seen.run.curves["q_error"]
        # |Q_k| <= |Q*| + |Q_k - Q*|, at the checkpoints: never less than what was measured there.
        v_max = float(np.abs(optimal(mdp).q[mdp.counted]).max() + np.nanmax(error))
        constants = {
            "m": seen.cell.run_arguments["rule"].order, "discount": mdp.discount, "v_max": v_max,
            "r_max": case_of(seen.cell).largest_reward, "n_pairs": len(mdp.pairs), "delta": spec["delta"],
        }  # fmt: skip
        bound = theorem_3(iteration, **constants, corrected=bool(spec["corrected"]))
        start = float(np.nanmax(error[:, 0]))
        valid = np.isfinite(bound)
        above = ~(error[:, valid] <= bound[valid])
        share = float(above.any(axis=1).mean())
        evidence = {
            **constants, "share_of_seeds_above": share, "bound_at_T": float(bound[-1]),
            "largest_error_over_bound": float(np.nanmax(error[:, valid] / bound[valid])),
            # A bound that is never below the error before the first iteration says nothing of the rule.
            "smallest_bound_over_initial_error": float(np.nanmin(bound) / start),
            "vacuous": bool(np.nanmin(bound) >= start),
            "n_finite": int(np.isfinite(error).all(axis=1).sum()),
            "metric": "q_error", "digests": [seen.run.digest],
        }  # fmt: skip
        checks.append(ClaimCheck(said, decide(spec, evidence), evidence))
    return checks


def ends(spec: Mapping[str, Any], places: Sequence[Mapping[str, str]], look: Look) -> list[ClaimCheck]:
    """Where runs end: the share of seeds whose error at T, over the initial one, is `below` and `above` what is said.

    An error that is not finite is above all.
    """
    checks = []
    for said, seen in looked_at(spec, places, look):
        metric = metric_of(Question(metric=spec["metric"]), seen.run)
        curve = seen.run.curves[metric]
        ratio = np.where(np.isfinite(curve[:, -1]), curve[:, -1] / curve[:, 0], np.inf)
        low = -math.inf if spec["above"] is None else float(spec["above"])
        meets = ratio > low
        if spec["below"] is not None:
            meets &= ratio < float(spec["below"])
        evidence = {
            "share_of_seeds": float(meets.mean()), "median_ratio": float(np.median(ratio)),
            "smallest_ratio": float(ratio.min()), "largest_ratio": float(ratio.max()), "below": spec["below"],
            "above": spec["above"], "n_finite": int(np.isfinite(curve[:, -1]).sum()), "metric": metric,
            "digests": [seen.run.digest],
        }  # fmt: skip
        checks.append(ClaimCheck(said, decide(spec, evidence), evidence))
    return checks


def floors(spec: Mapping[str, Any], places: Sequence[Mapping[str, str]], look: Look) -> list[ClaimCheck]:
    """The root mean square error at T, over seeds and pairs, over that of the least covariance in the limit.

    sqrt(T) times the error is compared with the exact floor of `theory.asymptotic`, for synchronous sampling and rules
    of one sample a pair and iteration. The intervals of one check hold together (Bonferroni).
    """
    from mqlearn.theory.asymptotic import floor

    checks = []
    level = level_of_each(spec, places)
    for said, seen in looked_at(spec, places, look):
        least = floor(seen.cell.mdp, seen.cell.settings["reward"])
        squares = seen.run.curves["q_error_l2"][:, -1] ** 2
        found = bootstrap_interval(squares, level=level)
        scale = seen.cell.settings["iterations"] / (len(least.pairs) * least.floor_rms_sqrt_k**2)
        ratio, low, high = (math.sqrt(scale * max(end, 0.0)) for end in (found.value, found.low, found.high))
        evidence = {
            "ratio_to_floor": ratio, "low": low, "high": high, "level": level, "within": spec["within"],
            "floor_rms_sqrt_k": least.floor_rms_sqrt_k, "tied_states": least.tied_states,
            "n_finite": found.n_finite, "metric": "q_error_l2", "digests": [seen.run.digest],
        }  # fmt: skip
        checks.append(ClaimCheck(said, decide(spec, evidence), evidence))
    return checks
