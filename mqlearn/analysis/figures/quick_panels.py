"""Some runs at a glance, for notebooks: a panel for each problem, a line for each run."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mqlearn.analysis import axis as axes_of
from mqlearn.analysis.comparison.labels import entries
from mqlearn.analysis.figures import quick, style
from mqlearn.analysis.statistics.intervals import mean_interval
from mqlearn.checks import choice
from mqlearn.errors import SettingError, nearest
from mqlearn.experiments.settings.override_commands import operator_name
from mqlearn.learning.metric_kinds import kind_of
from mqlearn.storage.runs import AXES, Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WIDTH, _HEIGHT, _MOST = 4.4, 3.4, 3  # inches of a panel; panels in a row


def plot(some: Sequence[Run], metric: str | None = None, axis: str | None = None) -> "Figure":
    """Mean and 95 % interval of each run; see `library.Runs.plot`. Raises SettingError."""
    if not some:
        raise SettingError("plot", [], "there is no run to draw")
    blocks: dict[str, list[Any]] = {}
    for entry in entries(some, by_point=False):
        blocks.setdefault(entry.block, []).append(entry)
    axis = axes_of.usual([[e.run for e in own] for own in blocks.values()]) if axis is None else axis
    choice("axis", axis, axes_of.KINDS)
    common = [name for name in some[0].curves if name not in AXES and all(name in run.curves for run in some)]
    metric = next(iter(common), None) if metric is None else metric
    if metric not in common:
        raise SettingError("metric", metric, f"must be one of {', '.join(common)}{nearest(str(metric), common)}")
    columns = min(_MOST, len(blocks))
    rows = -(-len(blocks) // columns)
    with style.context():
        figure = quick.shown()(figsize=(_WIDTH * columns, _HEIGHT * rows), layout="constrained")
        for number, (block, members) in enumerate(blocks.items(), 1):
            panel = figure.add_subplot(rows, columns, number)
            lowest = min(_line(panel, entry, metric, axis) for entry in members)
            kind = kind_of(metric, [operator_name(members[0].run.settings)])
            panel.set_xscale("symlog", linthresh=2)
            if kind.scale == "log" and lowest > 0:
                panel.set_yscale("log")
            panel.grid(True, color=style.GRID, linewidth=0.6)
            panel.set_xlabel(axes_of.LABELS[axis])
            panel.set_ylabel(kind.axis)
            problem = members[0].run.settings["env"]["name"] if len(blocks) > 1 else block
            panel.set_title(f"{problem}\nmean and 95 % interval of the mean", fontsize=8)
            panel.legend(fontsize=7)
    return figure


def _line(panel: Any, entry: Any, metric: str, axis: str) -> float:
    """Draw a run; its lowest mean."""
    values = entry.run.curves[metric]
    measured = np.isfinite(values).any(axis=0)
    x, (mean, low, high, _) = axes_of.positions(entry.run, axis)[measured], mean_interval(values[:, measured])
    (line,) = panel.plot(x, mean, label=entry.label, marker="o" if len(x) < 4 else "")
    panel.fill_between(x, low, high, alpha=0.2, linewidth=0, color=line.get_color())
    return float(mean.min(initial=np.inf))
