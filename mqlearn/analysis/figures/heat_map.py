"""Many runs in one picture: a row a run, its mean over the seeds as a colour at every checkpoint, best runs on top."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mqlearn.analysis import axis as axes_of
from mqlearn.analysis.figures import parts, style
from mqlearn.analysis.figures.error_curves import Curve, Panel
from mqlearn.analysis.statistics.intervals import mean_interval
from mqlearn.errors import SettingError
from mqlearn.learning.metric_kinds import kind_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROW = 0.135  # inches
MOST = 150  # rows of a figure
_NARROW = 44  # characters of a row's name


def draw(
    panels: Sequence[Panel], *, metric: str, axis: str = "iterations", operators: Collection[str] = ()
) -> "Figure":
    """One map of colours a panel, all on one scale, with the number of finite seeds where seeds diverged.

    Raises SettingError if there is no curve, or a text that cannot be typeset.
    """
    kind = kind_of(metric, operators)
    means = {id(curve): mean_interval(curve.values).mean for panel in panels for curve in panel.curves}
    if not means:
        raise SettingError("curves", "[]", "at least one curve")
    with style.context():
        from matplotlib.colors import LogNorm, Normalize

        for text in [panel.title for panel in panels] + [one.label for panel in panels for one in panel.curves]:
            style.check_text("curves", text)
        known = np.concatenate(list(means.values()))
        known = known[np.isfinite(known) & ((known > 0) | (kind.scale == "linear"))]
        low, high = (float(known.min()), float(known.max())) if known.size else (0.1, 1.0)
        low = low if kind.scale == "linear" else max(low, high * 1e-12)
        norm = (LogNorm if kind.scale == "log" else Normalize)(low, high if high > low else low + abs(low) + 1e-300)
        figure, axes = parts.sheet(len(panels), 1)
        heights = [max(len(panel.curves), 2) * ROW for panel in panels]
        total = sum(heights) + 0.62 * len(panels) + 1.3
        figure.set_size_inches(style.page().width, total)
        top = total
        for panel, one, height in zip(panels, axes[:, 0], heights, strict=True):
            top -= 0.35 + height
            one.set_position((0.40, top / total, 0.57, height / total))
            top -= 0.27
            mesh = _fill(one, panel, means, norm, kind.more_is_better)
            one.set_title(panel.title)
        axes[-1, 0].set_xlabel(axes_of.LABELS[axis])
        bar = figure.add_axes((0.40, 0.77 / total, 0.57, 0.1 / total))
        figure.colorbar(mesh, cax=bar, orientation="horizontal", label=kind.axis)
    return figure


def _fill(axes: "Axes", panel: Panel, means: dict[int, np.ndarray], norm: Any, more_is_better: bool) -> Any:
    """Draw the rows of a panel, best last mean first; grey where no seed is finite."""

    def last(mean: np.ndarray) -> float:
        finite = mean[np.isfinite(mean)]
        value = float(finite[-1]) if finite.size and np.isfinite(mean[-1]) else np.inf
        return -value if more_is_better and np.isfinite(value) else value

    curves = sorted(panel.curves, key=lambda curve: last(means[id(curve)]))
    k = np.unique(np.concatenate([curve.position[curve.position > 0] for curve in curves]))
    k = k if k.size else np.array([1])
    table = np.full((len(curves), len(k)), np.nan)
    for row, curve in zip(table, curves, strict=True):
        # Between its own checkpoints a run keeps the value of the last one.
        place = np.searchsorted(curve.position, k, side="right") - 1
        inside = (place >= 0) & (k <= curve.position[-1])
        row[inside] = means[id(curve)][place[inside]]
    edges = np.sqrt(np.concatenate([[k[0]], k]) * np.concatenate([k, [k[-1]]]))
    edges[0], edges[-1] = k[0] * 0.95, k[-1] * 1.05
    axes.set_facecolor(style.GRID)
    axes.grid(False)
    shown = np.ma.masked_invalid(table)
    mesh = axes.pcolormesh(edges, np.arange(len(curves) + 1), shown, norm=norm, cmap="viridis_r", rasterized=True)
    axes.set(xscale="log", xlim=(edges[0], edges[-1]), ylim=(len(curves), 0))
    axes.set_yticks(np.arange(len(curves)) + 0.5, [_name(curve) for curve in curves], fontsize=6)
    axes.tick_params(axis="y", length=0)
    return mesh


def _name(curve: Curve) -> str:
    """The label of a run, cut if it is long, and its finite seeds where some diverged."""
    lost = "" if curve.n_finite() == curve.n_seeds else f" ({curve.n_finite()} of {curve.n_seeds} seeds)"
    short = curve.label if len(curve.label) <= _NARROW or "$" in curve.label else f"{curve.label[: _NARROW - 1]}…"
    return short + lost
