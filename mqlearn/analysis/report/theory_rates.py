"""What theory says without asymptotic constants: bounds of theta, and slopes, beside what runs measured."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mqlearn.algorithms.operators import is_bellman
from mqlearn.analysis import slopes
from mqlearn.analysis.cases import case_of
from mqlearn.analysis.report.markup import number
from mqlearn.analysis.report.subjects import Subject
from mqlearn.analysis.statistics.intervals import Estimate
from mqlearn.errors import SettingError
from mqlearn.theory.bounds import Bound, Slope
from mqlearn.theory.linear_features import LinearFeatures
from mqlearn.theory.slopes import slope_of

LARGEST = 300  # counted pairs: beyond, what theory computes from a model takes seconds a run
HEAD = "run", "metric", "measured", "bound at the end", "measured slope", "slope of theory"


def of(panel: str, members: Sequence[Subject], most: int) -> dict[str, Any] | None:
    """A table for the runs of a panel that a bound of theta or a slope speaks of; None if there is nothing to say.

    most: rows that it holds.
    """
    rows, said = [], {}
    for one in members:
        if one.mdp is None or one.cell is None or not is_bellman(one.cell.run_arguments["operator"]):
            continue
        if not one.run.curves["iteration"][-1]:
            continue
        if len(rows) == most:
            said.setdefault(f"The first {most} are told; not looked at", []).append(one.label)
            continue
        found, notes = _known(one)
        rows += found
        for note in notes:
            said.setdefault(note, []).append(one.label)
    if not rows and not said:
        return None
    caption = f"{panel}: bounds, slopes of theorems without constants, measured slopes over the last decade"
    told = [f"{note}: {'; '.join(labels)}." for note, labels in said.items()]
    return {"rows": rows, "caption": caption, "said": told if rows else [f"{panel}. {text}" for text in told]}


def _known(one: Subject) -> tuple[list[list[str]], list[str]]:
    """The row of a run, if there is one, and what must be said of it or of its absence."""
    assert one.cell is not None
    case, linear = case_of(one.cell), None
    if case.features is not None:
        if one.cell.mdp.counted.sum() > LARGEST:
            return [], ["No bound, the model is too large for this page; mqlearn theory tells"]
        try:
            linear = LinearFeatures(case)
        except SettingError as error:
            return [], [f"No bound, {error}"]
    metric, slope = slope_of(case, linear)
    bound, length, said = "–", None, []
    if linear is not None:
        found = linear.own_bounds(one.run.curves["iteration"][-1:])
        if found:  # of the same metric as the slope, if there is one
            metric, length, said = found[0].metric, linear.length, [f"Bounded with {found[0].assumes}"]
            bound = "; ".join(_bound(each, length) for each in found)
        else:
            said = [f"No bound, {linear.no_bound() or 'the step is longer than the theorem allows'}"]
    return ([] if metric is None else [_row(one, metric, bound, slope, length)]), said


def _bound(one: Bound, length: float) -> str:
    return f"{one.name} {number(math.sqrt(one.values[-1]) / length)}{' (vacuous)' * bool(one.vacuous[-1])}"


def _row(one: Subject, metric: str, bound: str, slope: Slope | None, length: float | None) -> list[str]:
    """length: of theta*, where the metric is bounded as a root mean square over seeds; else it is a mean over seeds."""
    seen = one.run.curves.get(metric)
    measured, fitted = None, slopes.measured_slope(one.run, metric)
    if seen is not None:
        last = seen[:, -1]
        measured = float(last.mean() if length is None else np.sqrt((last**2).mean()))
    theory = "–" if slope is None else f"{number(slope.exponent)} ({slope.words})"
    return [one.label, metric, number(measured), bound, _interval(fitted, one.run.settings["n_seeds"]), theory]


def _interval(found: Estimate | None, n_seeds: int) -> str:
    if found is None:
        return "–"
    text = number(float(found.value), 3)
    if not math.isnan(found.low):
        text += f" [{number(float(found.low), 3)}, {number(float(found.high), 3)}]"
    return text if found.n_finite == n_seeds else f"{text}, {found.n_finite} of {n_seeds} seeds"
