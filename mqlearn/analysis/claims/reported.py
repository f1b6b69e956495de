"""Values that are reported: those that follow from the model alone, without a run, and means at the end of runs."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mqlearn.analysis.claims.checks import OPEN, ClaimCheck, Look, level_of_each, looked_at, quantity
from mqlearn.analysis.claims.claim import along
from mqlearn.analysis.claims.criteria import decide
from mqlearn.analysis.comparison.seed_values import Question, metric_of
from mqlearn.analysis.statistics.intervals import bootstrap_interval
from mqlearn.errors import SettingError, nearest


def values(spec: Mapping[str, Any], places: Sequence[Mapping[str, str]], look: Look) -> list[ClaimCheck]:
    """The value of each cell against what is reported.

    value: one of VALUES.   equals: the number, or by a condition's level: {discount: {0.8: 45, 0.99: 900}}.
    tolerance: the largest difference. Raises SettingError.
    """
    value, checks = _value(spec), []
    for said, seen in looked_at(spec, places, look):
        evidence = {
            "exact": value(seen.cell), "equals": _reported(spec["equals"], said), "value": str(spec["value"]),
            "tolerance": float(spec["tolerance"]), "digests": [],
        }  # fmt: skip
        checks.append(ClaimCheck(said, decide(spec, evidence), evidence))
    return checks


def exponents(spec: Mapping[str, Any], places: Sequence[Mapping[str, str]], look: Look) -> list[ClaimCheck]:
    """How a value that follows from the model grows along the condition `over`: its exponent, against `between`.

    value: one of VALUES, above 0.   x: log 1/(1 - level) (`horizon`) or log level (`value`). The exponent is the
    least-squares slope of its logarithm. Raises SettingError.
    """
    checks = []
    rest, x = along(spec, places)
    levels = sorted({place[spec["over"]] for place in places}, key=float)
    for here in rest:
        for label in map(str, spec["of"]):
            found = np.array([_value(spec)(look({**here, spec["over"]: level}, label).cell) for level in levels])
            slope = float(np.polyfit(x, np.log(found), 1)[0])
            evidence = {
                "exact_exponent": slope, "between": list(spec["between"]), "value": spec["value"],
                "over": spec["over"], "levels": levels, "of_levels": found.tolist(), "digests": [],
            }  # fmt: skip
            checks.append(ClaimCheck({**here, **quantity(spec), "rule": label}, decide(spec, evidence), evidence))
    return checks


def _value(spec: Mapping[str, Any]) -> Callable[[Any], float]:
    name = str(spec["value"])
    if name not in VALUES:
        raise SettingError("checks.value", name, f"must be one of {', '.join(VALUES)}{nearest(name, VALUES)}")
    return VALUES[name]


def means(spec: Mapping[str, Any], places: Sequence[Mapping[str, str]], look: Look) -> list[ClaimCheck]:
    """The mean over seeds of `metric` at the last iteration, over the reported one.

    equals: as for `values`, not 0.   tolerance: of the ratio, see `criteria`.   side: "above" or "below"
    for a mean that is to lie beyond the tolerance there, of a reported one above 0. Open where a seed has diverged. The
    intervals of one check hold together (Bonferroni). Raises SettingError.
    """
    if spec["side"] not in (None, "above", "below"):
        raise SettingError("checks.side", spec["side"], "must be above or below, or left out")
    checks, level = [], level_of_each(spec, places)
    for said, seen in looked_at(spec, places, look):
        metric, equals = metric_of(Question(metric=spec["metric"]), seen.run), _reported(spec["equals"], said)
        if equals == 0:
            raise SettingError("checks.equals", equals, "must not be 0: a mean is held against it as a ratio")
        if spec["side"] and equals < 0:
            raise SettingError("checks.equals", equals, "must be above 0 beside a side, as the mean is divided by it")
        last = seen.run.curves[metric][:, -1]
        found = bootstrap_interval(last, level=level)
        if found.n_finite < len(last):
            why = f"{len(last) - found.n_finite} of {len(last)} seeds are not finite"
            told = {"reason": why, "n_finite": found.n_finite, "metric": metric, "digests": [seen.run.digest]}
            checks.append(ClaimCheck(said, OPEN, told))
            continue
        low, high = sorted((found.low / equals, found.high / equals))
        evidence = {
            "measured_over_reported": found.value / equals, "low": low, "high": high,
            "level": level, "measured": found.value, "equals": equals, "tolerance": float(spec["tolerance"]),
            "n_finite": found.n_finite, "metric": metric, "digests": [seen.run.digest],
        }  # fmt: skip
        checks.append(ClaimCheck(said, decide(spec, evidence), evidence))
    return checks


def _reported(equals: Any, said: Mapping[str, str]) -> float:
    if not isinstance(equals, Mapping):
        return float(equals)
    try:
        ((factor, by_level),) = equals.items()
        return float({str(level): value for level, value in by_level.items()}[said[factor]])
    except (ValueError, KeyError, AttributeError):
        expected = "must be a number, or one by each level of a condition, as in {discount: {0.9: 1.5, 0.99: 2}}"
        raise SettingError("checks.equals", equals, expected) from None


def _largest_q(cell: Any) -> float:
    """The largest Q* over all pairs."""
    from mqlearn.problems.solvers import optimal

    return float(optimal(cell.mdp).q[cell.mdp.counted].max())


def _first_q(cell: Any) -> float:
    """Q* of the first counted pair."""
    from mqlearn.problems.solvers import optimal

    return float(optimal(cell.mdp).q[cell.mdp.counted][0])


def _critical_gain(cell: Any) -> float:
    """The c up to which sqrt(k) times the error of Q-learning with steps c/k is unbounded."""
    from mqlearn.sampling.modes import stationary
    from mqlearn.theory.asymptotic import critical_gain

    sampling = cell.run_arguments["sampling"]
    if sampling.all_pairs:
        return critical_gain(cell.mdp)
    visits = stationary(sampling, cell.mdp)
    if visits is None:
        raise SettingError("sampling", sampling.name, "depends on what is learned: a critical gain needs fixed visits")
    return critical_gain(cell.mdp, visits)


def _largest_variance(cell: Any) -> float:
    """The largest variance over the pairs of the least covariance of sqrt(k) (Q_k - Q*), under the cell's reward."""
    from mqlearn.theory.asymptotic import floor

    return float(np.diag(floor(cell.mdp, cell.settings["reward"]).floor).max())


def _variance(*, relative: bool, centred: bool = False) -> Callable[[Any], float]:
    """The largest asymptotic variance over the pairs with steps c/k, of Q-learning with c = 1/(1 - g), or relative
    Q-learning with the cell's kappa and c = 1/(1 - rho g), 1 - rho the spectral gap; centred: of Q less its mean."""

    def value(cell: Any) -> float:
        from mqlearn.theory.relative import relative_covariance, second_eigenvalue, up_to_a_constant

        mdp = cell.mdp
        gain = 1 / (1 - mdp.discount * (second_eigenvalue(mdp) if relative else 1.0))
        kappa = cell.run_arguments["operator"].kappa if relative else 0.0
        sigma = relative_covariance(mdp, gain, kappa, cell.settings["reward"])
        return float(np.diag(up_to_a_constant(sigma) if centred else sigma).max())

    return value


def _start_value(cell: Any) -> float:
    """V* where episodes start."""
    from mqlearn.problems.solvers import optimal

    return float(optimal(cell.mdp).start_value)


def _fixed_point_of_double(number: int, part: int) -> Callable[[Any], float]:
    """The value (part 0), or the probability of the first action, at a fixed point of double Q-learning's mean."""

    def value(cell: Any) -> float:
        from mqlearn.theory.double_mean import double_fixed_points

        found = double_fixed_points(cell.mdp)
        return found[number][part] if number < len(found) else float("nan")

    return value


def _fixed_points_of_double(cell: Any) -> float:
    """How many fixed points double Q-learning's mean has."""
    from mqlearn.theory.double_mean import double_fixed_points

    return float(len(double_fixed_points(cell.mdp)))


VALUES: dict[str, Callable[[Any], float]] = {
    "start_value": _start_value,
    "fixed_points_of_double": _fixed_points_of_double,
    **{
        f"{what}_of_double_{number + 1}": _fixed_point_of_double(number, part)
        for number in range(3)
        for part, what in enumerate(("value", "first_action"))
    },
    "largest_optimal_value": _largest_q,
    "first_optimal_value": _first_q,
    "critical_gain": _critical_gain,
    "largest_variance_of_the_floor": _largest_variance,
    "variance_of_q_learning": _variance(relative=False),
    "variance_of_relative_q_learning": _variance(relative=True),
    "variance_of_q_learning_up_to_a_constant": _variance(relative=False, centred=True),
    "variance_of_relative_q_learning_up_to_a_constant": _variance(relative=True, centred=True),
}
