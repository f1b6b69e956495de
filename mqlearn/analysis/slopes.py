"""Rates of theorems whose constants are missing, beside the slopes that runs measured."""

from typing import Any

from mqlearn.algorithms import Rule, Stateful
from mqlearn.algorithms.operators import is_bellman
from mqlearn.analysis.predictions_features import LinearFeatures
from mqlearn.analysis.statistics.survival import Estimate, rate
from mqlearn.errors import SettingError
from mqlearn.experiments.settings.cell import Cell
from mqlearn.storage.runs import Run
from mqlearn.theory import bounds


def slope_of(
    cell: Cell, rule: Rule | Stateful, linear: LinearFeatures | None
) -> tuple[str, bounds.Slope] | tuple[None, None]:
    """The rate that a theorem gives without its constants, and the curve that it is of."""
    sampling = cell.run_arguments["sampling"]
    if not is_bellman(cell.run_arguments["operator"]) or cell.mdp.discount == 1:
        return None, None
    if sampling.capacity or sampling.recorded:  # theorems are of a trajectory, or of independent samples
        return None, None
    if linear is not None:
        metric, slope = "theta_error_average", linear.slope(rule)
    else:
        together = sampling.all_pairs
        metric, slope = "q_error", bounds.slope_of_tables(rule, together, together or sampling.clock == "local")
    return (None, None) if slope is None else (metric, slope)


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


def row(cell: Cell, rule: Rule | Stateful, run: Run | None, linear: LinearFeatures | None) -> dict[str, Any] | None:
    """The slope of theory for a cell beside the measured one of a run, for JSON; None where no theorem gives one."""
    metric, slope = slope_of(cell, rule, linear)
    if metric is None or slope is None:
        return None
    seen = None if run is None else measured_slope(run, metric)
    measured = None if run is None or seen is None else {**seen._asdict(), "seeds": len(run.curves[metric])}
    return {"metric": metric, **slope._asdict(), "measured": measured}
