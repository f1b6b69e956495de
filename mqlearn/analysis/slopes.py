"""Rates of theorems whose constants are missing, beside the slopes that runs measured."""

from typing import Any

from mqlearn.analysis.statistics.survival import Estimate, rate
from mqlearn.errors import SettingError
from mqlearn.storage.runs import Run
from mqlearn.theory.case import Case
from mqlearn.theory.linear_features import LinearFeatures
from mqlearn.theory.slopes import slope_of


def measured_slope(run: Run, metric: str) -> Estimate | None:
    """Of the mean error over the finite seeds, over the last decade of iterations, with its interval; None without."""
    last = run.curves["iteration"][-1]
    if metric not in run.curves:
        return None
    try:
        found = rate(run.curves["iteration"], run.curves[metric], (last / 10, last))
    except SettingError:  # two checkpoints there, and an error above 0, are needed
        return None
    return found if found.n_finite else None


def row(case: Case, run: Run | None, linear: LinearFeatures | None) -> dict[str, Any] | None:
    """The slope of theory for a case beside the measured one of a run, for JSON; None where no theorem gives one."""
    metric, slope = slope_of(case, linear)
    if metric is None or slope is None:
        return None
    seen = None if run is None else measured_slope(run, metric)
    measured = None if run is None or seen is None else {**seen._asdict(), "seeds": len(run.curves[metric])}
    return {"metric": metric, **slope._asdict(), "measured": measured}
