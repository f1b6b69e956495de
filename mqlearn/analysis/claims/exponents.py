"""How an error, or the samples to an error, grow along a condition whose levels are numbers: the exponent of a rule.

The condition is 1/(1 - discount), the number of states, or whatever a claim gives levels that are numbers.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mqlearn.algorithms.options import left_out
from mqlearn.analysis import axis as axes
from mqlearn.analysis.claims.checks import OPEN, ClaimCheck, Look, Seen, level_of_each, quantity
from mqlearn.analysis.claims.claim import along
from mqlearn.analysis.claims.criteria import decide
from mqlearn.analysis.comparison.seed_values import Question, metric_of
from mqlearn.analysis.statistics import exponents
from mqlearn.analysis.statistics.exponents import Exponent, Summary
from mqlearn.errors import SettingError
from mqlearn.storage.runs import Run


def exponent_checks(spec: Mapping[str, Any], places: Sequence[Mapping[str, str]], look: Look) -> list[ClaimCheck]:
    """Slopes along the condition `over`, of a rule, or of a rule less that of `minus`, held against `between`.

    of: log mean error at `at` T, or log samples to an error `epsilon` (times the initial mean of each run, if
    `relative`), in the median over seeds, or of the mean curve; with `count` after_burn_in the samples are counted
    from the end of `algorithm.burn_in`. x: log 1/(1 - level) (`horizon`) or log level
    (`value`). The intervals of one check hold together (Bonferroni). Open where the last level has no such number.
    """
    checks = []
    rest, x = along(spec, places)
    levels = sorted({place[spec["over"]] for place in places}, key=float)
    each = level_of_each(spec, rest)
    for here in rest:
        for label in map(str, spec["of"]):
            seen = [look({**here, spec["over"]: level}, label) for level in levels]
            other = (
                [look({**here, spec["over"]: level}, str(spec["minus"])) for level in levels] if spec["minus"] else []
            )
            said = {**here, **quantity(spec), "rule": label, **({"rival": str(spec["minus"])} if other else {})}
            checks.append(_check(spec, said, x, levels, seen, other, each))
    return checks


def _check(
    spec: Mapping[str, Any],
    said: dict[str, str],
    x: np.ndarray,
    levels: Sequence[str],
    seen: Sequence[Seen],
    other: Sequence[Seen],
    each: float,
) -> ClaimCheck:
    runs = [one.run for one in seen]
    metric = metric_of(Question(metric=spec["metric"]), *runs, *(one.run for one in other))
    found = of_runs(spec, metric, x, runs, [one.run for one in other], each)
    evidence: dict[str, Any] = {
        "measured_exponent": found.value, "low": found.low, "high": found.high, "level": each,
        "between": list(spec["between"]), "over": spec["over"], "levels": list(levels),
        "of_levels": [math.exp(log) if math.isfinite(log) else None for log in found.logs.tolist()],
        **({"minus": spec["minus"]} if other else {}),
        "levels_used": found.used, "n_finite": min(_n_finite(run, metric) for run in runs), "metric": metric,
        "digests": [one.run.digest for one in (*seen, *other)],
    }  # fmt: skip
    if not math.isfinite(found.value):
        for name in ("measured_exponent", "low", "high"):
            del evidence[name]
        evidence["reason"] = f"{_WORDS[spec['measure']]} is not known at {spec['over']} {levels[-1]}, or at two others"
        return ClaimCheck(said, OPEN, evidence)
    return ClaimCheck(said, decide(spec, evidence), evidence)


_WORDS = {
    "error": "the mean error",
    "samples": "the median of the samples",
    "mean_curve": "the sample of the mean curve",
}


def of_runs(
    spec: Mapping[str, Any], metric: str, x: np.ndarray, runs: Sequence[Run], rivals: Sequence[Run], level: float
) -> Exponent:
    """The exponent of some runs, one for each entry of x (P,), or less that of as many rivals."""
    n_seeds = [len(run.curves[metric]) for run in runs]
    if rivals and n_seeds != [len(run.curves[metric]) for run in rivals]:
        raise SettingError("minus", spec["minus"], "must have as many seeds as the rule that it is held against")
    summaries = [summary_of(spec, metric, run) for run in runs]
    less = [summary_of(spec, metric, run) for run in rivals] or None
    together = len({run.settings["seed"] for run in runs}) == 1
    return exponents.exponent(x, summaries, n_seeds, less, together=together, level=level)


def summary_of(spec: Mapping[str, Any], metric: str, run: Run) -> Summary:
    """What `measure` asks of a run."""
    curves = run.curves[metric]
    if spec["measure"] == "error":
        iteration = run.curves["iteration"]
        column = int(np.flatnonzero(iteration <= spec["at"] * iteration[-1])[-1])
        return exponents.log_mean(curves[:, column])
    position, epsilon = axes.positions(run, "samples"), float(spec["epsilon"])
    if spec["count"] == "after_burn_in":  # the last of the iterates that the mean leaves out is at 0
        last = int(run.curves["iteration"][-1])
        position = position - position[-1] * left_out(run.settings["algorithm"].get("burn_in", 0.0), last) / last
    if spec["relative"]:
        epsilon *= float(curves[:, 0].mean())
    if spec["measure"] == "samples":
        return exponents.log_median(exponents.arrivals(position, curves, epsilon))
    return exponents.log_arrival(position, curves, epsilon)


def _n_finite(run: Run, metric: str) -> int:
    return int(np.isfinite(run.curves[metric]).all(axis=1).sum())
