"""One metric of one run at a glance, for notebooks."""

import functools
from collections.abc import Mapping
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from mqlearn.analysis.axis import KINDS, LABELS
from mqlearn.analysis.figures import style
from mqlearn.analysis.statistics.intervals import mean_interval
from mqlearn.checks import choice
from mqlearn.errors import SettingError, nearest
from mqlearn.learning.metric_kinds import kind_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_INCHES = (6.0, 3.6)


def plot(
    positions: Mapping[str, np.ndarray],
    curves: Mapping[str, np.ndarray],
    metric: str | None,
    axis: str,
    title: str = "",
    operator: str = "",
) -> "Figure":
    """Mean and 95 % interval over the seeds against iterations or samples; errors on logarithmic axes.

    positions: axis -> (C,) the checkpoints on it.   curves: metric -> (n_seeds, C), NaN where it was not measured. The
    figure draws itself in a notebook.   operator: its name, "" for Bellman's. Raises SettingError for a metric or an
    axis that there is not.
    """
    choice("axis", axis, KINDS)
    metric = next(iter(curves)) if metric is None else metric
    if metric not in curves:
        raise SettingError("metric", metric, f"must be one of {', '.join(curves)}{nearest(metric, curves)}")
    values = curves[metric]
    kind, measured = kind_of(metric, [operator]), np.isfinite(values).any(axis=0)
    x, (mean, low, high, n_finite) = positions[axis][measured], mean_interval(values[:, measured])
    with style.context():
        figure = shown()(figsize=_INCHES, layout="constrained")
        axes = figure.add_subplot()
        axes.fill_between(x, low, high, alpha=0.25, linewidth=0)
        axes.plot(x, mean, marker="o" if len(x) < 4 else "")
        if x[0] == 0:
            axes.set_xscale("symlog", linthresh=max(2, x[x > 0].min(initial=x[-1])))
        else:
            axes.set_xscale("log")
        if kind.scale == "log" and (mean > 0).all():
            axes.set_yscale("log")
        axes.grid(True, color=style.GRID, linewidth=0.6)
        axes.set_xlabel(LABELS[axis])
        seeds = f"{n_finite.min()} to {len(values)}" if n_finite.min() < len(values) else f"{len(values)}"
        axes.set_ylabel(kind.axis)
        axes.set_title(f"{title or metric}\nmean and 95 % interval of the mean, {seeds} seeds", fontsize=8)
    return figure


@functools.cache
def shown() -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    class Shown(Figure):
        """A figure that a notebook shows without any back-end."""

        def _repr_png_(self) -> bytes:
            buffer = BytesIO()
            with style.context():
                FigureCanvasAgg(self)
                self.savefig(buffer, format="png", dpi=120)
            return buffer.getvalue()

    return Shown
