"""What decides a check, beside the words that say it: all that outcomes depend on stands here and is in a reading.

`decide` takes the outcome from the evidence alone, so that stored evidence can be decided again. `reading` is what a
claim's yaml says of it and then, from the settings of its checks, every criterion.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from mqlearn.analysis.claims.checks import FAILS, HOLDS, OPEN, level_of_each
from mqlearn.analysis.claims.claim import Claim, along, n_pairs, n_pairs_at_most, narrowed

FALLEN = 0.5  # of the initial value: there a transient begins,
ABOVE_FLOOR = 10.0  # times the size of the neighbourhood: there it ends,
SETTLED = 0.5  # of all iterations: the size is the mean beyond,
FEWEST = 5  # and so many checkpoints it needs between


def decide(check: Mapping[str, Any], evidence: Mapping[str, Any]) -> str:
    """The outcome of a check from its evidence: holds, fails or open; open where there was nothing to judge."""
    return OPEN if "reason" in evidence else _DECIDE[check["test"]](check, evidence)


def reading(claim: Claim, places: Sequence[Mapping[str, str]]) -> str:
    """What the yaml says, then each criterion. places: the combinations of conditions under which it is tested."""
    checks = claim.spec["checks"]
    several = [check for check in checks if check["test"] not in _PAIRED]
    told = [" ".join(claim.spec["reading"].split()), *_sentences(checks, places)]
    if len(several) < len(checks):
        paired = [check for check in checks if check["test"] in _PAIRED]
        most = "at most " * any(check["test"] == "order" for check in paired)
        told.append(
            "Significant: by the sign-flip test of the means on common seeds, else by the permutation test, at level "
            f"{checks[0]['level']:g}, corrected by Holm over all pairs of the claim "
            f"({most}{n_pairs_at_most(checks, places)})."
        )
    return " ".join(told)


def words(check: Mapping[str, Any], places: Sequence[Mapping[str, str]]) -> str:
    """What decides a check, in a sentence or two."""
    name = f'"{check["quantity"]}"' if check["quantity"] is not None else f"The {check['test']} check"
    aside = ", beside the verdict," * bool(check["aside"])
    return f"{name}{aside} holds{_alone(check)} if {_WORDS[check['test']](check, narrowed(check, places))}."


def _sentences(checks: Sequence[Mapping[str, Any]], places: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """`words` of each check; of exponents in a row that differ in name, place and limits alone, one for all."""

    def but_for_limits(check: Mapping[str, Any]) -> Any:
        if check["test"] != "exponent" or check["quantity"] is None or check["aside"]:
            return id(check)
        return _exponent_words(check, narrowed(check, places), "")

    for _, group in itertools.groupby(checks, but_for_limits):
        first, *others = some = list(group)
        if others:
            limits = ", ".join(f'"{check["quantity"]}"{_alone(check)} {_between(check)}' for check in some)
            text = _exponent_words(first, narrowed(first, places), f"meets its limits ({limits})")
            yield f"Each of {len(some)} checks holds if {text}."
        else:
            yield words(first, places)


def _alone(check: Mapping[str, Any]) -> str:
    where = "; ".join(f"{name} {_levels(levels)}" for name, levels in check["in"].items())
    return f" (for {where} alone)" * bool(where)


def _levels(levels: Any) -> str:
    return ", ".join(map(str, levels)) if isinstance(levels, list) else str(levels)


# --- pairs --------------------------------------------------------------------------------------------------------


def pair_outcome(evidence: Mapping[str, Any]) -> str:
    """holds: significant as the claim expects; fails: significant the other way; open: neither."""
    if evidence["verdict"] == "no_difference":
        return OPEN
    return HOLDS if evidence["verdict"] == evidence["expected"] else FAILS


_MEASURES = {
    "error": "{}",
    "peak": "largest {} of the checkpoints k >= 1 up to there, over the initial one,",
    "overshoot": "excess over 1 of the largest {} of the checkpoints k >= 1 up to there, over the initial one,",
    "spread": "distance of the seeds' {} from their median",
}


def _pair_words(check: Mapping[str, Any], places: Sequence[Mapping[str, str]]) -> str:
    metric = check["metric"] or " or ".join(map(str, check["summary"]))
    better = "better" if check["expect"] == "a_better" else "worse"
    margin = f"{check['margin']:g} times (of a return: 1/{check['margin']:g} times) " if check["margin"] != 1 else ""
    rivals = "; ".join(dict.fromkeys(_rival(rival) for rival in check["b"]))
    sides = [_side(check, side) for side in ("a_in", "b_in")]
    between = f", {sides[0]} against {sides[1]}" if any(sides) else ""
    shares = ", ".join(f"{share:g} T" for share in check["at"])
    pooled = ""
    if check["pooled"] is not None:
        n = len({place[check["pooled"]] for place in places})
        pooled = f", over the {n} levels of {check['pooled']}, each with the mean over its seeds, which are the units"
    return (
        f"the mean {_MEASURES[check['measure']].format(metric)} is significantly {better} than {margin}that of {rivals}"
        f"{between}{pooled}, at the last checkpoint up to {shares} "
        f"({n_pairs(check, places)} pairs); fails if significantly the other way; else open"
    )


def _rival(rival: Any) -> str:
    if isinstance(rival, Mapping) and "best_of" in rival:
        of = ", ".join(rival["best_of"])
        return f"the one of {of} that is best on the first half of the seeds (tested on the second)"
    if isinstance(rival, Mapping):
        return "the same run at the start" if rival["itself"] == 0 else f"the same run at {rival['itself']:g} k"
    return "the same rule" if rival == "itself" else "its rival"


def _side(check: Mapping[str, Any], side: str) -> str:
    return ", ".join(f"{name} {level}" for name, level in check[side].items())


def _order_words(check: Mapping[str, Any], places: Sequence[Mapping[str, str]]) -> str:
    norm = {"sup": "sup norm", "norm": "Euclidean norm", "rms": "root mean square"}[str(check["norm"])]
    return (
        f"of two rules whose predicted errors ({norm}, for large k) differ by more than "
        f"{percent(check['apart'])} of the "
        f"smaller, the one with the smaller prediction has the significantly smaller mean error in that norm at T (of "
        f"{len(check['of'])} rules under {len(places)} conditions; no pair where optimal actions tie)"
    )


# --- single runs --------------------------------------------------------------------------------------------------


def rate_outcome(low: float, high: float, exponent: float, resolution: float) -> str:
    """holds: [low, high] lies below the exponent, or contains it and is narrow; fails: above; open: else, or none."""
    if low > exponent:
        return FAILS
    return HOLDS if high <= exponent or high - low <= resolution * abs(exponent) else OPEN


def _rate(check: Mapping[str, Any], evidence: Mapping[str, Any]) -> str:
    return rate_outcome(evidence["low"], evidence["high"], evidence["exponent"], check["resolution"])


def _rate_words(check: Mapping[str, Any], places: Sequence[Mapping[str, str]]) -> str:
    if check["exponent"] == "contraction":
        of, exponent = "k", "log(1 - 2 alpha delta)"
        width = f"{check['resolution']:g} times its size"
    else:
        of, exponent = "log k", f"{check['exponent']:g}"
        width = f"{check['resolution'] * abs(check['exponent']):g}"
    return (
        f"the interval of the slope of log mean {_power(check)} on {of}, {_window(check)}, lies below {exponent}, or "
        f"contains it and is at most {width} wide; fails if it lies above; else open ({_together(check, places)})"
    )


def _shape(_: Mapping[str, Any], evidence: Mapping[str, Any]) -> str:
    return HOLDS if evidence["low"] > 0 else FAILS if evidence["high"] < 0 else OPEN


def _shape_words(check: Mapping[str, Any], places: Sequence[Mapping[str, str]]) -> str:
    return (
        f"a straight line on k leaves a smaller sum of squares of log mean {_power(check)} than one on log k, "
        f"{_window(check)}: the interval of the logarithm of their ratio lies above 0; fails if it lies below 0; else "
        f"open ({_together(check, places)})"
    )


def _bound(check: Mapping[str, Any], evidence: Mapping[str, Any]) -> str:
    return HOLDS if evidence["share_of_seeds_above"] <= check["delta"] else FAILS


def _bound_words(check: Mapping[str, Any], places: Sequence[Mapping[str, str]]) -> str:
    which = "corrected" if check["corrected"] else "as printed"
    return (
        f"at most a share delta = {check['delta']:g} of the seeds is above the bound for that delta, {which}, at any "
        f"checkpoint T > m; else fails ({len(places) * len(check['of'])} runs)"
    )


def _floor(check: Mapping[str, Any], evidence: Mapping[str, Any]) -> str:
    return HOLDS if evidence["high"] < check["within"] else FAILS if evidence["low"] > check["within"] else OPEN


def _floor_words(check: Mapping[str, Any], places: Sequence[Mapping[str, str]]) -> str:
    return (
        f"the whole interval of the root mean square error at T, over that of the least covariance, lies below "
        f"{check['within']:g}; fails if it lies above; else open ({_together(check, places)})"
    )


def _exponent(check: Mapping[str, Any], evidence: Mapping[str, Any]) -> str:
    low, high = check["between"]
    return _whole_interval(evidence, -math.inf if low is None else low, math.inf if high is None else high)


def _whole_interval(evidence: Mapping[str, Any], low: float, high: float) -> str:
    """holds: the interval lies within [low, high]; fails: it lies wholly outside; open: else."""
    if low <= evidence["low"] and evidence["high"] <= high:
        return HOLDS
    return FAILS if evidence["high"] < low or evidence["low"] > high else OPEN


def _exact_exponent(check: Mapping[str, Any], evidence: Mapping[str, Any]) -> str:
    found = evidence["exact_exponent"]
    return _exponent(check, {"low": found, "high": found})


def _exact_exponent_words(check: Mapping[str, Any], places: Sequence[Mapping[str, str]]) -> str:
    rest, x = along(check, places)
    return (
        f"the slope of log {str(check['value']).replace('_', ' ')}, computed from the model without a run at "
        f"{len(x)} places, {_on(check)} {_between(check)}; else fails ({len(rest) * len(check['of'])} slopes)"
    )


def _on(check: Mapping[str, Any]) -> str:
    return f"on log 1/(1 - {check['over']})" if check["x"] == "horizon" else f"on log {check['over']}"


def _between(check: Mapping[str, Any]) -> str:
    low, high = check["between"]
    if None not in (low, high):
        return f"lies in [{low:g}, {high:g}]"
    return f"is at most {high:g}" if low is None else f"is at least {low:g}"


def _exponent_words(check: Mapping[str, Any], places: Sequence[Mapping[str, str]], limits: str | None = None) -> str:
    rest, x = along(check, places)
    name = check["metric"] or "error"
    epsilon = f"{check['epsilon'] or 0:g}" + " times its initial mean" * bool(check["relative"])
    of = {
        "error": f"log mean {name}, at the last checkpoint up to {check['at']:g} T,",
        "samples": f"log of the median over seeds of the samples to an {name} of {epsilon}",
        "mean_curve": f"log of the samples to a mean {name} of {epsilon}",
    }[check["measure"]]
    of += ", counted from the end of the burn-in," * (check["count"] != "all")
    less = f", less that of {check['minus']}," * bool(check["minus"])
    limits = _between(check) if limits is None else limits
    censored = "" if check["measure"] == "error" else ", a seed that never arrives counting as beyond all others"
    return (
        f"the whole interval of the slope of {of} {_on(check)}{less} {limits}; fails if it lies wholly "
        f"outside; else open, and open without that number at the last of the {len(x)} places "
        f"({_together(check, rest)}; seeds are resampled{censored})"
    )


def _predicted(check: Mapping[str, Any], evidence: Mapping[str, Any]) -> str:
    tolerance = float(check["tolerance"])
    if abs(evidence["measured_over_predicted"] - 1) <= tolerance:
        return HOLDS
    return FAILS if evidence["low"] > 1 + tolerance or evidence["high"] < 1 - tolerance else OPEN


def _predicted_words(check: Mapping[str, Any], places: Sequence[Mapping[str, str]]) -> str:
    norm = {"sup": "mean sup norm", "rms": "root mean square over pairs and seeds"}[str(check["norm"])]
    return (
        f"the measured error at T ({norm}) over the predicted one differs from 1 by at most "
        f"{percent(check['tolerance'])}, by the point estimate alone; fails if its interval lies wholly further away; "
        f"else open. How many intervals lie wholly within is counted and decides nothing ({_together(check, places)})"
    )


def interval_within(evidence: Mapping[str, Any]) -> bool:
    """Whether the whole interval of a `predicted` check is within its tolerance."""
    return max(abs(evidence["low"] - 1), abs(evidence["high"] - 1)) <= evidence["tolerance"]


# --- exact values, and where runs end -----------------------------------------------------------------------------


def _exact(_: Mapping[str, Any], evidence: Mapping[str, Any]) -> str:
    return HOLDS if abs(evidence["exact"] - evidence["equals"]) <= evidence["tolerance"] else FAILS


def _exact_words(check: Mapping[str, Any], places: Sequence[Mapping[str, str]]) -> str:
    return (
        f"{str(check['value']).replace('_', ' ')}, computed from the model without a run, differs from the reported "
        f"{_reported(check['equals'])} by at most {float(check['tolerance']):g}; else fails "
        f"({len(places) * len(check['of'])} values)"
    )


def _mean(check: Mapping[str, Any], evidence: Mapping[str, Any]) -> str:
    low, high = 1 - evidence["tolerance"], 1 + evidence["tolerance"]
    sides = {None: (low, high), "above": (high, math.inf), "below": (-math.inf, low)}
    return _whole_interval(evidence, *sides[check["side"]])


def _mean_words(check: Mapping[str, Any], places: Sequence[Mapping[str, str]]) -> str:
    tolerance = float(check["tolerance"])
    where = {
        None: f"within {percent(tolerance)} of 1",
        "above": f"above {1 + tolerance:g}",
        "below": f"below {1 - tolerance:g}",
    }[check["side"]]
    return (
        f"the interval of the mean {check['metric'] or 'error'} at T, divided by {_reported(check['equals'])}, "
        f"lies {where}; fails if it lies wholly outside; else open "
        f"({_together(check, places)})"
    )


def _reported(equals: Any) -> str:
    if not isinstance(equals, Mapping):
        return f"{equals:g}"
    ((factor, levels),) = equals.items()
    return ", ".join(f"{value:g} ({factor} {level})" for level, value in levels.items())


def _ends(_: Mapping[str, Any], evidence: Mapping[str, Any]) -> str:
    share = evidence["share_of_seeds"]
    return HOLDS if share == 1 else FAILS if share == 0 else OPEN


def _ends_words(check: Mapping[str, Any], places: Sequence[Mapping[str, str]]) -> str:
    sides = [f"{side} {float(check[side]):g}" for side in ("below", "above") if check[side] is not None]
    return (
        f"of every seed the {check['metric'] or 'error'} at T is {' and '.join(sides)} times the initial one (above "
        f"any, if it is not finite); fails if of none; else open ({len(places) * len(check['of'])} runs)"
    )


def _power(check: Mapping[str, Any]) -> str:
    return f"{check['metric'] or 'error'}^{check['power']:g}"


def _window(check: Mapping[str, Any]) -> str:
    if check["window"] != "transient":
        first, last = check["window"]
        return f"from {first:g} T to {last:g} T"
    return (
        f"over the transient (from the first checkpoint below {FALLEN:g} times the initial mean to the last before the "
        f"first below {ABOVE_FLOOR:g} times the mean beyond {SETTLED:g} T; open with fewer than {FEWEST} checkpoints "
        "between)"
    )


def _together(check: Mapping[str, Any], places: Sequence[Mapping[str, str]]) -> str:
    n, each = len(places) * len(check["of"]), percent(level_of_each(check, places))
    return f"each interval at {each}, all {n} together at {percent(1 - check['level'])}, Bonferroni"


def percent(share: float) -> str:
    """A share in per cent, as readings write it."""
    return f"{100 * share:.6g} %"


_PAIRED = ("pairs", "order")
_DECIDE: dict[str, Callable[[Mapping[str, Any], Mapping[str, Any]], str]] = {
    "pairs": lambda _, evidence: pair_outcome(evidence),
    "order": lambda _, evidence: pair_outcome(evidence),
    "rate": _rate,
    "shape": _shape,
    "bound": _bound,
    "floor": _floor,
    "predicted": _predicted,
    "exact": _exact,
    "ends": _ends,
    "reported": _mean,
    "exponent": _exponent,
    "exact_exponent": _exact_exponent,
}
_WORDS = {
    "pairs": _pair_words, "order": _order_words, "rate": _rate_words, "shape": _shape_words, "bound": _bound_words,
    "floor": _floor_words, "predicted": _predicted_words, "exact": _exact_words, "ends": _ends_words,
    "reported": _mean_words, "exponent": _exponent_words, "exact_exponent": _exact_exponent_words,
}  # fmt: skip
NUMBERS = {  # of the evidence, which tell the tests apart
    "pairs": ("verdict", "expected"),
    "order": ("verdict", "expected", "predicted_ratio"),
    "rate": ("slope", "low", "high", "exponent"),
    "shape": ("log_residual_ratio", "low", "high"),
    "bound": ("share_of_seeds_above",),
    "floor": ("ratio_to_floor", "low", "high"),
    "predicted": ("measured_over_predicted", "low", "high"),
    "exact": ("exact", "equals"),
    "ends": ("share_of_seeds",),
    "reported": ("measured_over_reported", "low", "high"),
    "exponent": ("measured_exponent", "low", "high"),
    "exact_exponent": ("exact_exponent",),
}
