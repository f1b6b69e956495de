"""Error against iterations or samples on logarithmic axes, one panel a map: the figure of the tabular rules."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mqlearn.analysis import axis as axes_of
from mqlearn.analysis.figures import parts, style, theory_lines
from mqlearn.analysis.statistics.intervals import Band, Interval, mean_interval
from mqlearn.checks import choice
from mqlearn.errors import SettingError
from mqlearn.experiments.settings.override_commands import operator_name
from mqlearn.learning.metric_kinds import kind_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from mqlearn.experiments.plan import PlannedCell
    from mqlearn.storage.runs import Run

ROW_HEIGHT = 2.75  # inches
SCALES = ("common", "own")  # of the panels


@dataclass(frozen=True, eq=False)
class Curve:
    """One rule on one map.

    position (C,) increasing, the checkpoints on the figure's axis; values (n_seeds, C), NaN where absent or after
    divergence; diverged: seed -> where on the axis. family: the algorithm (same family, same hue), by default the
    label; short: the name at the curve's end; lines: what theory predicts at the checkpoints.
    """

    label: str
    position: np.ndarray
    values: np.ndarray
    diverged: Mapping[int, int] = field(default_factory=dict)
    family: str = ""
    short: str = ""
    lines: Sequence[theory_lines.Line] = ()

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or self.values.shape[1] != len(self.position) or not self.values.size:
            shape = f"values of shape {self.values.shape} at {len(self.position)} checkpoints"
            raise SettingError("curves", f"{self.label}: {shape}", "an array (n_seeds, checkpoints)")

    @property
    def n_seeds(self) -> int:
        return len(self.values)

    def n_finite(self) -> int:
        """Seeds that are finite to the end."""
        counts = np.isfinite(self.values).sum(axis=0)
        last = int(counts[counts > 0][-1]) if counts.any() else 0
        return min(last, self.n_seeds - len(self.diverged))


@dataclass(frozen=True, eq=False)
class Panel:
    """One map: its title and its curves; the same label means the same rule in every panel."""

    title: str
    curves: Sequence[Curve]

    def __post_init__(self) -> None:
        _check_unique("curves", [curve.label for curve in self.curves])


def _check_unique(setting: str, names: Sequence[str]) -> None:
    for i, name in enumerate(names):
        if name in names[:i]:
            raise SettingError(setting, name, "a name that is given once")


def data(panels: Sequence[Panel], band: Band = "ci95", axis: str = "iterations") -> dict[str, np.ndarray]:
    """The numbers that `draw` shows, for digests and comparisons with a reference.

    Keys are ``title | label | name`` with the names iteration (or samples) (C,), band (3, C): mean, low, high,
    n_finite (C,), and ``line NAME`` (C,) for each line of theory.
    """
    _check_unique("panels", [panel.title for panel in panels])
    numbers: dict[str, np.ndarray] = {}
    for panel in panels:
        for curve in panel.curves:
            interval = mean_interval(curve.values, band)
            key = f"{panel.title} | {curve.label} | "
            numbers[key + axes_of.COLUMNS[axis]] = np.asarray(curve.position)
            numbers[key + "band"] = np.stack(interval[:3])
            numbers[key + "n_finite"] = interval.n_finite
            numbers |= {f"{key}line {line.name}": line.values for line in curve.lines if line.values.size}
    return numbers


def draw(
    panels: Sequence[Panel],
    *,
    band: Band = "ci95",
    axis: str = "iterations",
    metric: str = "q_error",
    scales: str = "common",
    guides: Mapping[str, float] | None = None,
    notes: Sequence[str] = (),
    operators: Collection[str] = (),
) -> "Figure":
    """Mean over the seeds with a named band, one panel a map, with one legend.

    axis: on which the curves' positions lie.   metric: what the values are; it brings the label and the scale of its
    axis.   scales: common to all panels, or own ones.   guides: heights of dotted lines by their names.
    notes: sentences of the caption.   operators: see `kind_of`.

    Iteration 0, which has no place on a logarithmic axis, is the dotted line "start" (a tick of each curve at
    the left edge if they do not start from the same error). A mean is over the finite seeds; where a seed
    diverges the curve has a cross, the legend a dagger and a note the count. Raises SettingError for an
    unknown band, a text that cannot be typeset, or when there is no curve.
    """
    curves = [curve for panel in panels for curve in panel.curves]
    if not curves:
        raise SettingError("curves", "[]", "at least one curve")
    kind = kind_of(metric, operators)
    families = {curve.label: curve.family or curve.label for curve in curves}
    looks = style.looks(families)
    intervals = {id(curve): mean_interval(curve.values, band) for curve in curves}
    with style.context():
        for text in [panel.title for panel in panels] + [t for c in curves for t in (c.label, c.short)]:
            style.check_text("curves", text)
        columns = min(len(panels), 1 if style.page().narrow else 2)
        figure, axes = parts.sheet(-(-len(panels) // columns), columns)
        shared = choice("figure.scales", scales, SCALES) == "common"
        zero = beyond = False
        for i, (panel, one) in enumerate(zip(panels, axes.flat, strict=False)):
            shown = curves if shared else panel.curves
            xlim, ylim = _limits(shown, intervals, kind.scale, axis, [*(guides or {}).values()])
            one.set(xscale="log", yscale=kind.scale, xlim=xlim, ylim=ylim, xlabel=axes_of.LABELS[axis])
            one.set_title(f"({'abcdefgh'[i % 8]})  {panel.title}" if len(panels) > 1 else panel.title)
            zero |= _fill(one, panel, looks, intervals)
            for name, height in (guides or {}).items():
                parts.reference_line(one, float(height), name)
            beyond |= any(parts.leaves(one, intervals[id(curve)], curve.position > 0) for curve in panel.curves)
        for one in axes[:, 0]:
            one.set_ylabel(kind.axis)
        for one in axes.flat[len(panels) :]:
            one.set_visible(False)
        lost, marked = divergence(panels, axis)
        notes = [*lost, *notes, *theory_lines.notes([line for curve in curves for line in curve.lines])]
        if zero:
            notes.append("A caret on the lower edge: zero from there on, or below the axis.")
        if beyond:
            notes.append(parts.BEYOND)
        named = parts.band_name(band, [curve.n_seeds for curve in curves])
        has_band = any(np.any(interval.high > interval.low) for interval in intervals.values())
        if not has_band and any(curve.n_seeds > 1 for curve in curves):
            named += "; the seeds agree"
        footer = parts.legend(figure, looks, style.groups(families), named, notes, marked, has_band)
        room = parts.END + 0.05 + parts.text_width(figure, {curve.short for curve in curves})
        parts.arrange(figure, axes, footer=footer, row_height=ROW_HEIGHT, right=room)
        for panel, one in zip(panels, axes.flat, strict=False):
            _name_ends(one, panel, looks, intervals)
    return figure


def _limits(
    curves: Sequence[Curve], intervals: Mapping[int, Interval], scale: str, axis: str, guides: Sequence[float]
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Limits of the axis and of the metric; curves with diverged seeds count only if there are no others.

    Of a linear scale, 0 included. Of a logarithmic one nothing beyond 10^-200 and 10^200, since tick marks further out
    must be numbers too.
    """
    steady = [curve for curve in curves if not curve.diverged] or curves
    x = np.concatenate([curve.position for curve in curves])
    shown = [np.stack([intervals[id(c)].mean, intervals[id(c)].high]) for c in steady]
    y = np.concatenate([*(rows.ravel() for rows in shown), *(theory_lines.ends(c.lines) for c in steady), guides])
    first = float(x[x > 0].min(initial=x.max(initial=1))) if axis == "samples" else 1.0
    xlim = (first, max(10.0 * first, x.max()))
    if scale == "linear":
        y = np.concatenate([[0.0], y[np.abs(y) < 1e100]])
        span = float(np.ptp(y)) or 1.0
        return xlim, (float(y.min()) - 0.04 * span, float(y.max()) + 0.08 * span)
    y = y[np.isfinite(y) & (y > 0)]
    low, high = np.log10([y.min(), y.max()]).clip(-200, 200) if y.size else (-3.0, 0.0)
    margin = max(0.04 * (high - low), 0.3 - 0.5 * (high - low))
    return xlim, (10.0 ** (low - margin), 10.0 ** (high + margin))


def _fill(axes: "Axes", panel: Panel, looks: Mapping[str, style.Look], intervals: Mapping[int, Interval]) -> bool:
    """Draw the curves of a panel and their common start; returns whether a curve reaches zero."""
    zero = False
    starts: dict[str, float] = {}
    for i, curve in enumerate(panel.curves):
        look, interval = looks[curve.label], intervals[id(curve)]
        later = curve.position > 0
        if not later[0] and (interval.mean[0] > 0 or axes.get_yscale() == "linear"):
            starts[curve.label] = float(interval.mean[0])
        zero |= parts.curve(
            axes,
            look,
            curve.position[later],
            Interval(*(row[later] for row in interval)),
            diverged=list(curve.diverged.values()),
            phase=(0.05 + 0.618 * i) % 1,  # the golden section keeps the marks of any few curves apart
        )
        theory_lines.draw(axes, curve.position, curve.lines, look)
    if len(set(starts.values())) == 1:
        parts.reference_line(axes, next(iter(starts.values())), "start")
    else:
        for label, value in starts.items():
            axes.plot([axes.get_xlim()[0]], [value], "_", color=looks[label].color, markersize=7, clip_on=False)
    return zero


def _name_ends(axes: "Axes", panel: Panel, looks: Mapping[str, style.Look], intervals: Mapping[int, Interval]) -> None:
    """Name the curves that reach the right edge."""
    edge = axes.get_xlim()[1]
    ends = {
        curve.label: float(intervals[id(curve)].mean[-1])
        for curve in panel.curves
        if curve.position[-1] == edge and intervals[id(curve)].n_finite[-1] > 0
    }
    parts.end_labels(axes, ends, looks, {curve.label: curve.short for curve in panel.curves})


def divergence(panels: Sequence[Panel], axis: str = "iterations") -> tuple[list[str], set[str]]:
    """A note for each label with seeds that do not stay finite, and these labels."""
    found: dict[str, list[str]] = {}
    for panel in panels:
        for curve in panel.curves:
            if curve.n_finite() < curve.n_seeds:
                text = f"{curve.n_finite()} of {curve.n_seeds} seeds finite on {panel.title}"
                if curve.diverged:
                    text += f" (first lost at {axes_of.words(axis, min(curve.diverged.values()))})"
                found.setdefault(curve.label, []).append(text)
    return [f"† {label}: {', '.join(texts)}." for label, texts in found.items()], set(found)


def from_runs(
    planned: "Sequence[PlannedCell]", finished: "Sequence[Run]", spec: Mapping[str, Any], band: Band
) -> "tuple[Figure, dict[str, np.ndarray]]":
    """The figure of an experiment's finished runs, one for each planned cell, and the numbers that it shows.

    spec: `metric` of all curves, `metric_of` those that show another one, `axis`, `scales`, `guides`, `short` names,
    `notes`.
    """
    own, short = spec.get("metric_of") or {}, spec.get("short") or {}
    axis, notes = axis_of([one.panel for one in planned], finished, spec)
    panels: dict[str, list[Curve]] = {}
    for one, run in zip(planned, finished, strict=True):
        metric = own.get(one.label, spec["metric"])
        family = str(one.settings["algorithm"]["name"])
        curve = curve_of(run, run.curves[metric], axis, label=one.label, family=family, short=short.get(one.label, ""))
        curve = replace(curve, lines=theory_lines.of(one.cell, run, {**spec, "metric": metric}, one.label))
        panels.setdefault(one.panel, []).append(curve)
    ordered = [Panel(title, curves) for title, curves in panels.items()]
    operators = {operator_name(one.settings) for one in planned}
    words = {
        "scales": spec.get("scales", SCALES[0]),
        "guides": spec.get("guides"),
        "notes": [*notes, *(spec.get("notes") or [])],
        "operators": operators,
    }
    return draw(ordered, band=band, axis=axis, metric=spec["metric"], **words), data(ordered, band, axis)


def curve_of(run: "Run", values: np.ndarray, axis: str, **names: Any) -> Curve:
    """A curve (n_seeds, C) of a run, on an axis; names: label, family and short."""
    ends = axes_of.ends(run, axis)
    lost = {seed: round(float(ends[seed])) for seed in run.diverged}
    return Curve(position=axes_of.positions(run, axis), values=values, diverged=lost, **names)


def axis_of(panels: Sequence[str], finished: "Sequence[Run]", spec: Mapping[str, Any]) -> tuple[str, list[str]]:
    """The axis of a figure, that of its yaml or the usual one of its panels, and what must be said of it.

    panels: the title of each run's panel. Raises SettingError for an axis that there is not.
    """
    if spec.get("axis") is not None:
        return choice("figure.axis", spec["axis"], axes_of.KINDS), []
    rivals: dict[str, list[Run]] = {}
    for title, run in zip(panels, finished, strict=True):
        rivals.setdefault(title, []).append(run)
    axis = axes_of.usual(rivals.values())
    return axis, [f"In samples, since {axes_of.WHY}."] * (axis == "samples")
