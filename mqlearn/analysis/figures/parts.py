"""Parts that figures are put together from: the sheet, curves with bands, end labels, the shared legend.

All are to be called within `style.context`.
"""

import textwrap
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mqlearn.analysis.figures.style import DPI, GRID, QUIET, Look, dash, handle, marker, page
from mqlearn.analysis.statistics.intervals import Band, Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

END = 0.28  # inches from the axes to the text of an end label


def sheet(rows: int, columns: int) -> "tuple[Figure, np.ndarray]":
    """An empty figure of full width and its axes (rows, columns), to be placed by `arrange`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(page().width, page().width))
    FigureCanvasAgg(figure)
    axes: np.ndarray = np.empty((rows, columns), dtype=object)
    for place in np.ndindex(rows, columns):
        one = axes[place] = figure.add_axes((0, 0, 1, 1), label=str(place))
        one.grid(True, which="major", color=GRID, linewidth=0.6)
    return figure, axes


def arrange(
    figure: "Figure",
    axes: np.ndarray,
    *,
    footer: float,
    row_height: float,
    right: float = 0.1,
    row_gap: float = 0.7,
) -> None:
    """Place `axes` (rows, columns) above the legend and set the height of the figure; measures in inches.

    `footer` is the height of the legend, `right` the room to the right of each column (end labels). Tick
    labels and axis labels get the room on the left that they need.
    """
    rows, columns = axes.shape
    full = page().width
    bottom = footer + 0.52
    height = bottom + rows * row_height + (rows - 1) * row_gap + 0.32
    figure.set_size_inches(full, height)
    left = [0.6] * columns
    for _ in range(2):  # once to have tick labels of the final size, once for the room that they take
        width = (full - sum(left) - columns * right) / columns
        for (row, column), one in np.ndenumerate(axes):
            x = sum(left[: column + 1]) + column * (width + right)
            y = bottom + (rows - 1 - row) * (row_height + row_gap)
            one.set_position((x / full, y / height, width / full, row_height / height))
        left = [max(_overhang(one) for one in column) + 0.08 for column in axes.T]


def _overhang(axes: "Axes") -> float:
    """What the vertical axis takes to the left of the frame, in inches."""
    box = axes.yaxis.get_tightbbox() if axes.get_visible() else None
    return 0.0 if box is None else (axes.get_window_extent().x0 - box.x0) / DPI


def curve(
    axes: "Axes",
    look: Look,
    x: np.ndarray,
    interval: Interval,
    *,
    diverged: Collection[int] = (),
    phase: float = 0.0,
    marks: int = 5,
) -> bool:
    """Draw mean, band, sparse markers, and a cross at the first and the last step of `diverged`.

    The limits of logarithmic axes must have been set. Checkpoints without a finite seed are left out. `marks`
    markers lie evenly on the axis as it is scaled; `phase` in [0,1) staggers those of different curves.
    Values that a logarithmic axis cannot show (zero and below) lie on its lower edge, marked by a caret;
    returns whether there were any.
    """
    have = interval.n_finite > 0
    x, mean, low, high = x[have], interval.mean[have], interval.low[have], interval.high[have]
    if not x.size:
        return False
    logarithmic = axes.get_yscale() == "log"
    bottom, top = axes.get_ylim()
    below = logarithmic & (mean <= 0)
    if logarithmic:  # nothing is moved that could be seen: what lies out of sight stays out of sight
        mean, low, high = (np.clip(row, bottom, 1e3 * top) for row in (mean, low, high))
    band = np.isfinite(low)
    if band.any():
        axes.fill_between(x[band], low[band], high[band], color=look.color, alpha=0.13, linewidth=0, zorder=1)
    z = 3.0 if look.dashes else 2.0  # dashed lines on top: where two curves coincide both stay visible
    axes.plot(x, mean, color=look.color, linewidth=1.15, zorder=z, **dash(look))
    at = _nearest(np.log(x) if axes.get_xscale() == "log" else x, marks, phase)
    axes.plot(x[at], mean[at], linestyle="none", zorder=4, **marker(look))
    if diverged:
        lost = np.maximum(np.searchsorted(x, [min(diverged), max(diverged)], side="right") - 1, 0)
        axes.plot(x[lost], mean[lost], "x", color=look.color, markersize=5.5, markeredgewidth=1.3, zorder=5)
    if below.any():
        edge = np.flatnonzero(below)[:1]
        axes.plot(x[edge], mean[edge], color=look.color, marker=7, markersize=4, clip_on=False, zorder=5)
    return bool(below.any())


BEYOND = "A band that is cut off by an edge of its panel goes on beyond it."


def leaves(axes: "Axes", interval: Interval, drawn: np.ndarray) -> bool:
    """Whether a band with a width, where it is drawn (C,), reaches beyond the limits of the axes."""
    bottom, top = axes.get_ylim()
    wide = drawn & (interval.high > interval.low)  # false where there is none
    return bool(((interval.low[wide] < bottom) | (interval.high[wide] > top)).any())


def _nearest(position: np.ndarray, marks: int, phase: float) -> np.ndarray:
    """Indices of the points nearest to `marks` evenly spread places; `position` (C,) increases."""
    if len(position) <= marks:
        return np.arange(len(position))
    places = position[0] + (np.arange(marks) + phase) / marks * (position[-1] - position[0])
    return np.unique(np.abs(position[:, None] - places).argmin(axis=0))


def reference_line(axes: "Axes", y: float, text: str) -> None:
    """A dotted horizontal line with its name above the right end."""
    axes.axhline(y, color=QUIET, linewidth=0.7, linestyle=(0, (1, 2)), zorder=1.5)
    axes.annotate(
        text, (1, y), (-2, 1.5), xycoords=("axes fraction", "data"), textcoords="offset points",
        fontsize=page().size(7.5), color=QUIET, ha="right", va="bottom",
    )  # fmt: skip


def end_labels(axes: "Axes", ends: Mapping[str, float], entries: Mapping[str, Look], texts: Mapping[str, str]) -> None:
    """Name the curves in the right margin in the order of their last values `ends`, without overlaps.

    To be called when the axes have their place and limits; `texts` are short names.
    """
    box = axes.get_window_extent()
    inch = DPI / box.width, DPI / box.height
    labels = sorted(ends, key=lambda label: ends[label])
    to_axes = axes.transData + axes.transAxes.inverted()
    y = np.array([to_axes.transform((axes.get_xlim()[1], ends[label]))[1] for label in labels]).clip(0, 1)
    for label, start, place in zip(labels, y, _spread(y, page().size(0.132) * inch[1]), strict=True):
        look = entries[label]
        common: dict[str, Any] = {"transform": axes.transAxes, "clip_on": False, "color": look.color}
        axes.plot(1 + np.array([0.03, 0.13]) * inch[0], [start, place], linewidth=0.6, **common)
        axes.plot([1 + 0.2 * inch[0]], [place], **common, **marker(look))
        axes.text(
            1 + END * inch[0],
            place,
            texts[label],
            transform=axes.transAxes,
            fontsize=page().size(8),
            va="center_baseline",
        )


def _spread(places: np.ndarray, step: float) -> np.ndarray:
    """The places in [0,1] nearest to the increasing `places` and `step` apart: isotonic regression, by pools of
    neighbours that would cross (Barlow, Bartholomew, Bremner, Brunk 1972, "Statistical inference under order
    restrictions")."""
    n = len(places)
    step = min(step, 1 / max(n - 1, 1))
    pools: list[tuple[float, int]] = []  # mean and number
    for place in places - step * np.arange(n):
        mean, size = float(place), 1
        while pools and pools[-1][0] >= mean:
            other, many = pools.pop()
            mean, size = (mean * size + other * many) / (size + many), size + many
        pools.append((mean, size))
    merged = np.repeat([mean for mean, _ in pools], [size for _, size in pools])
    return merged.clip(0, 1 - (n - 1) * step) + step * np.arange(n)


def text_width(figure: "Figure", texts: Collection[str], size: float = 8) -> float:
    """Width of the widest of `texts`, in inches."""
    widest = 0.0
    for text in texts:
        artist = figure.text(0, 0, text, fontsize=page().size(size))
        widest = max(widest, artist.get_window_extent().width / DPI)
        artist.remove()
    return widest


def band_name(kind: Band, seeds: Collection[int]) -> str:
    """What lines and bands are: kind, level and number of seeds. `seeds` has an entry a curve."""
    few, many = min(seeds), max(seeds)
    if many == 1:
        return "one seed; no band: an interval between runs needs at least two seeds"
    count = f"{many} seeds" if few == many else f"{few} to {many} seeds"
    if kind == "ci95":
        return f"mean over {count} and its 95 % confidence interval (Student’s t)"
    return f"mean over {count} ± one standard deviation between seeds"


def legend(
    figure: "Figure",
    entries: Mapping[str, Look],
    columns: Sequence[Sequence[str]],
    band: str,
    notes: Sequence[str],
    marked: Collection[str] = (),
    has_band: bool = True,
) -> float:
    """Draw the shared legend at the foot: the curves by group († at those `marked`), `band`, notes.

    Returns its height in inches.
    """
    from matplotlib.legend import Legend
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    full = page().width

    def row(handles: list[Any], texts: list[str], y: float, columns: int, length: float) -> Legend:
        return figure.legend(
            handles, texts, ncols=columns, handlelength=length, handletextpad=0.6, labelspacing=0.3,
            columnspacing=1.6, borderpad=0, borderaxespad=0,
            loc="lower center", bbox_to_anchor=(full / 2, y), bbox_transform=figure.dpi_scale_trans,
        )  # fmt: skip

    y = 0.07
    for line in reversed(
        [line for note in notes for line in textwrap.wrap(note, round(125 * full / (7.2 * page().size(1))))]
    ):
        figure.text(
            full / 2,
            y,
            line,
            transform=figure.dpi_scale_trans,
            fontsize=page().size(8),
            color=QUIET,
            ha="center",
            va="bottom",
        )
        y += 0.14
    swatch = (
        Patch(facecolor=QUIET, alpha=0.25 * has_band, linewidth=0),
        Line2D([], [], color=QUIET, linewidth=1.2),
    )
    told = textwrap.fill(band, round(130 * full / (7.2 * page().size(1)))) if page().narrow else band
    box = row([swatch], [told], y + 0.02 * bool(notes), 1, 2.6)
    y += box.get_window_extent().height / DPI + 0.07
    for rows in range(1, len(entries) + 1):
        packed = _pack(columns, rows)
        cells = [label for column in packed for label in column + [""] * (rows - len(column))]
        handles = [handle(entries[label]) if label else Line2D([], [], linestyle="none") for label in cells]
        texts = [f"{label} †" if label in marked else label for label in cells]
        box = row(handles, texts, y, len(packed), 3.1)
        extent = box.get_window_extent()
        if extent.width / DPI < full - 0.1 or rows == len(entries):
            return y + extent.height / DPI
        box.remove()
    return y


def _pack(groups: Sequence[Sequence[str]], rows: int) -> list[list[str]]:
    """Columns of at most `rows` labels, in order; a group that does not fit into one starts the next."""
    columns: list[list[str]] = [[]]
    for group in groups:
        if columns[-1] and len(columns[-1]) + len(group) > rows:
            columns.append([])
        for label in group:
            if len(columns[-1]) == rows:
                columns.append([])
            columns[-1].append(label)
    return columns
