"""Return, error of theta and exact value over updates or samples, on linear axes: the figure of the linear rules.

A column of panels is a setting (step size and sampling), a row is a metric; the rivals of a setting share its panels.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from mqlearn.analysis import axis as axes_of
from mqlearn.analysis.figures import error_curves, exact_lines, parts, style
from mqlearn.analysis.figures.error_curves import Curve, Panel
from mqlearn.analysis.figures.exact_lines import Lines
from mqlearn.analysis.statistics.intervals import Band, Interval, mean_interval
from mqlearn.errors import SettingError
from mqlearn.experiments.settings import identity
from mqlearn.experiments.settings.override_commands import operator_text
from mqlearn.problems.mdp import FiniteMDP
from mqlearn.storage.runs import AXES, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from mqlearn.experiments.plan import PlannedCell
    from mqlearn.experiments.settings.cell import Cell
    from mqlearn.storage.runs import Run

ROWS = {  # metric: what its axis says
    "return_uniform": "total return of\ngreedy episodes",
    "theta_error": "relative error\n" + r"$\Vert\theta_k-\theta^{*}\Vert\,/\,\Vert\theta^{*}\Vert$",
    "policy_value": "exact value of the\ngreedy policy at start",
}
POINTS, FEW = "policy_value", 4  # at so few checkpoints it is points with intervals, side by side, and not a curve
COLUMNS, ROW_HEIGHT = 4, 1.3  # of panels; inches
# The settings that the reference lines depend on, beside those of the sampling chain.
_OF_CELL = ("env", "discount", "features", "theta0", "evaluation")


@dataclass(frozen=True, eq=False)
class Column:
    """A column of panels: its curves by metric, and the reference lines that all of them share."""

    title: str
    curves: Mapping[str, Sequence[Curve]]
    lines: Lines = field(default_factory=dict)


def data(settings: Sequence[Column], band: Band = "ci95", axis: str = "iterations") -> dict[str, np.ndarray]:
    """The numbers that `draw` shows, for digests and comparisons with a reference.

    Keys are ``title | metric | label | name`` with the names of `error_curves.data`, and
    ``title | metric | line | name`` (1,).
    """
    panels = [Panel(f"{one.title} | {metric}", one.curves.get(metric, ())) for one in settings for metric in ROWS]
    numbers = error_curves.data(panels, band, axis)
    for one in settings:
        for metric, lines in one.lines.items():
            numbers |= {f"{one.title} | {metric} | line | {name}": np.array([y]) for name, y in lines.items()}
    return numbers


def draw(
    settings: Sequence[Column], *, band: Band = "ci95", axis: str = "iterations", notes: Sequence[str] = ()
) -> "Figure":
    """Mean over the seeds with a named band, a column of panels a setting, each row on one scale.

    A mean is over the finite seeds; where a seed diverges the curve has a cross, the legend a dagger and a note the
    count. A metric that no run has is left out, with a note. Raises SettingError for an unknown band, a text that
    cannot be typeset, or when there is nothing to draw. `axis`: on which the curves' positions lie; `notes` are
    sentences of the caption.
    """
    rows = [metric for metric in ROWS if any(one.curves.get(metric) for one in settings)]
    curves = [curve for metric in rows for curve in _curves(metric, settings)]
    if not curves:
        raise SettingError("curves", "[]", f"at least one curve of {', '.join(ROWS)}")
    families = {curve.label: curve.family or curve.label for curve in curves}
    looks = style.looks(families)
    intervals = {id(curve): mean_interval(curve.values, band) for curve in curves}
    panels = [Panel(one.title, one.curves.get(rows[0], ())) for one in settings]
    lost, marked = error_curves.divergence(panels, axis)
    along = "updates $k$" if axis == "iterations" else axes_of.LABELS[axis]
    measured = [int(np.count_nonzero(intervals[id(curve)].n_finite)) for curve in _curves(POINTS, settings)]
    points = 0 < max(measured, default=0) <= FEW
    absent = ", ".join(metric for metric in ROWS if metric not in rows)
    notes = [*notes, *["Exact values are known at a few updates only: the rivals stand side by side there."] * points]
    notes = [*lost, " ".join([*notes, *[f"Not measured: {absent}."] * bool(absent)])]
    last = max(1, *(int(curve.position[-1]) for curve in curves))
    unit, name = next((u, n) for u, n in ((1e6, " (millions)"), (1e3, " (thousands)"), (1, "")) if last >= u)
    ticks = np.linspace(0, last / unit, 5)
    columns = min(len(settings), COLUMNS // 2 if style.page().narrow else COLUMNS)
    blocks = -(-len(settings) // columns)
    with style.context():
        for text in [one.title for one in settings] + list(looks):
            style.check_text("curves", text)
        figure, axes = parts.sheet(blocks * len(rows), columns)
        for one in axes.flat:
            one.set_visible(False)
        beyond = False
        for row, metric in enumerate(rows):
            ylim = _limits(metric, settings, intervals)
            for i, setting in enumerate(settings):
                one, first = axes[i // columns * len(rows) + row, i % columns], i % columns == 0
                one.set(visible=True, xlim=(-0.02 * ticks[-1], 1.1 * ticks[-1]), ylim=ylim, xticks=ticks)
                one.set_xticklabels([f"{tick:.3g}" for tick in ticks])
                one.tick_params(labelsize=style.page().size(8), labelbottom=metric == rows[-1], labelleft=first)
                one.set_xlabel(f"{along}{name}" if metric == rows[-1] else "", fontsize=style.page().size(9))
                one.set_ylabel(ROWS[metric] if first else "", fontsize=style.page().size(9))
                here = setting.curves.get(metric, ())
                _fill(one, here, points and metric == POINTS, looks, intervals, unit)
                beyond |= any(parts.leaves(one, intervals[id(curve)], curve.position >= 0) for curve in here)
                lines, before = setting.lines.get(metric, {}), settings[i - 1].lines.get(metric)
                _reference_lines(one, lines, named=first or lines != before)
        named = parts.band_name(band, [curve.n_seeds for curve in curves])
        has_band = any(np.any(interval.high > interval.low) for interval in intervals.values())
        notes += [parts.BEYOND] * beyond
        footer = parts.legend(figure, looks, style.groups(families), named, notes, marked, has_band)
        gap = 0.16 if blocks == 1 else 0.62
        parts.arrange(figure, axes, footer=footer, row_height=ROW_HEIGHT, right=0.06, row_gap=gap)
        texts = [f"({'abcdefgh'[i % 8]}) {one.title}" for i, one in enumerate(settings)]
        room = axes[0, 0].get_position().width * style.page().width
        size = min(9.5, max(6.0, 9.5 * room / (1.12 * parts.text_width(figure, texts, 9.5))))
        for i, text in enumerate(texts):
            axes[i // columns * len(rows), i % columns].set_title(text, fontsize=size, pad=5)
    return figure


def _curves(metric: str, settings: Sequence[Column]) -> list[Curve]:
    return [curve for one in settings for curve in one.curves.get(metric, ())]


def _limits(metric: str, settings: Sequence[Column], intervals: Mapping[int, Interval]) -> tuple[float, float]:
    """Common limits of a row, zero included; curves with diverged seeds count only if there are no others."""
    curves = _curves(metric, settings)
    steady = [curve for curve in curves if not curve.diverged] or curves
    y = np.concatenate([row for curve in steady for row in intervals[id(curve)][:3]])
    lines = [height for one in settings for height in one.lines.get(metric, {}).values()]
    y = np.concatenate([[0.0], lines, y[np.abs(y) < 1e100]])
    span = float(np.ptp(y)) or 1.0
    return y.min() - 0.04 * span, y.max() + 0.14 * span


def _fill(
    axes: "Axes",
    curves: Sequence[Curve],
    points: bool,
    looks: Mapping[str, style.Look],
    intervals: Mapping[int, Interval],
    unit: float,
) -> None:
    """Draw curves, or the few points of each with their intervals, side by side."""
    bottom, top = axes.get_ylim()
    far = 1e3 * (top - bottom)
    for i, curve in enumerate(curves):
        look, x = looks[curve.label], curve.position / unit
        mean, low, high, n_finite = intervals[id(curve)]
        mean, low, high = (np.clip(row, bottom - far, top + far) for row in (mean, low, high))  # out of sight
        if not points:
            steps: list[Any] = [step / unit for step in curve.diverged.values()]
            interval = Interval(mean, low, high, n_finite)
            parts.curve(axes, look, x, interval, diverged=steps, phase=(0.05 + 0.618 * i) % 1)
            continue
        x = x + (i - (len(curves) - 1) / 2) * 0.038 * x[-1]
        known = np.isfinite(low)
        axes.vlines(x[known], low[known], high[known], color=look.color, linewidth=1.1, zorder=3)
        axes.plot(x, mean, linestyle="none", zorder=4, **style.marker(look))
        fewer = (n_finite > 0) & (n_finite < curve.n_seeds)
        axes.plot(x[fewer], mean[fewer], "x", color=look.color, markersize=5.5, markeredgewidth=1.3, zorder=5)


def _reference_lines(axes: "Axes", lines: Mapping[str, float], *, named: bool) -> None:
    """Dotted lines; the names of lines that nearly coincide stand together above the upper one."""
    bottom, top = axes.get_ylim()
    together: list[str] = []
    for name in sorted(lines, key=lambda name: lines[name]):
        together.append(name)
        above = [height - lines[name] for other, height in lines.items() if other not in together]
        apart = not any(0 <= distance < 0.13 * (top - bottom) for distance in above)
        text = ", ".join(other for other in lines if other in together) if named and apart else ""
        parts.reference_line(axes, lines[name], text)
        together = [] if apart else together


def known(planned: "Sequence[PlannedCell]") -> dict[str, tuple[Lines, list[str]]]:
    """`exact_lines.lines` by what they depend on, computed once for each: before there are runs."""
    result: dict[str, tuple[Lines, list[str]]] = {}
    for one in planned:
        key = _key(one.cell)
        result[key] = result[key] if key in result else exact_lines.lines(one.cell)
    return result


def _key(cell: "Cell") -> str:
    settings = cell.settings
    chain = [cell.run_arguments["sampling"].all_pairs, *map(settings["sampling"].get, identity.CHAIN)]
    return json.dumps([chain, *(settings[name] for name in _OF_CELL)], sort_keys=True)


def from_runs(
    planned: "Sequence[PlannedCell]",
    finished: "Sequence[Run]",
    spec: Mapping[str, Any],
    band: Band,
    exact: Mapping[str, tuple[Lines, list[str]]] | None = None,
) -> "tuple[Figure, dict[str, np.ndarray]]":
    """The figure of an experiment's finished runs, one for each planned cell, and the numbers that it shows.

    exact: what `known` returns.
    """
    curves: dict[str, dict[str, list[Curve]]] = {}
    lines: dict[str, Lines] = {}
    exact = known(planned) if exact is None else exact
    axis, about = error_curves.axis_of([one.panel for one in planned], finished, spec)
    for one, run in zip(planned, finished, strict=True):
        settings = one.settings
        panel = curves.setdefault(one.panel, {metric: [] for metric in ROWS})
        for metric in [metric for metric in ROWS if metric in run.curves]:
            family = _family(settings["algorithm"]["name"], panel[metric])
            panel[metric].append(error_curves.curve_of(run, run.curves[metric], axis, label=one.label, family=family))
        new, _ = exact[_key(one.cell)]
        old = lines.get(one.panel, new)
        lines[one.panel] = {m: {n: y for n, y in old[m].items() if new.get(m, {}).get(n) == y} for m in old}
    captions = [_caption(one.cell) for one in planned]
    notes = ["; ".join(piece for piece in captions[0] if all(piece in other for other in captions)) + "."]
    notes += about
    notes += dict.fromkeys(note for _, found in exact.values() for note in found)
    columns = [Column(title, metrics, lines[title]) for title, metrics in curves.items()]
    return draw(columns, band=band, axis=axis, notes=notes), data(columns, band, axis)


def _family(algorithm: str, before: Sequence[Curve]) -> str:
    """The first curve of a rival stands alone, its other step sizes share a hue; MomentumQ is a ramp."""
    again = algorithm != "momentum_q" and any(curve.family == algorithm for curve in before)
    return f"{algorithm}, other steps" if again else algorithm


def _caption(cell: "Cell") -> list[str]:
    """What a reader must know of the cell, piece by piece."""
    settings, sampling, evaluation = cell.settings, cell.settings["sampling"], cell.run_arguments["evaluation"]
    env = _words(settings["env"], hidden=("map", "rewards", "slippery", "kwargs"))
    layout = getattr(cell.mdp, "layout", None)
    size = f"{len(layout)}x{len(layout[0])}" if layout else ""
    limit = f" of at most {evaluation.limit(cell.mdp)} moves" if isinstance(cell.mdp, FiniteMDP) else ""
    return [
        env if size in env else f"{size} {env}",
        f"discount {settings['discount']:g}",
        *([f"operator {operator}"] if (operator := operator_text(settings)) else []),
        f"{_words(settings['features'])} features",
        rf"$\theta_0=${settings['theta0']}",
        f"{settings['reward']} reward",
        f"{str(sampling.get('behaviour')).replace('_', ' ')} behaviour from {sampling.get('start')} states",
        f"$T=${settings['iterations']:,}",
        f"return: {evaluation.episodes or 150} greedy episodes{limit} from uniform states",
    ]


def _words(node: Mapping[str, Any], hidden: Sequence[str] = ()) -> str:
    named = [f"{key} {value}" for key, value in node.items() if key not in ("_target_", "name", *hidden) and value]
    text = f"{node['name']} ({', '.join(named)})" if named else str(node["name"])
    return text.replace("_", " ")


def summary(run: "Run") -> dict[str, Any]:
    """For the sidecar: mean over the finite seeds of each metric at T/4, T/2 and T (null where not measured).

    n_finite counts these seeds; area_under_return_uniform is the trapezoid sum over the updates 0 .. T, mean over the
    seeds that stay finite.
    """
    iteration, last = run.curves["iteration"], int(run.curves["iteration"][-1])
    places = {"T/4": last // 4, "T/2": last // 2, "T": last}
    columns = {name: int(np.flatnonzero(iteration == k)[0]) for name, k in places.items() if k in iteration}
    intervals = {m: mean_interval(run.curves[m]) for m in sorted(run.curves.keys() - set(AXES))}
    result: dict[str, Any] = {
        "mean": {m: {name: one.mean[c] for name, c in columns.items()} for m, one in intervals.items()},
        "n_finite": {m: {name: one.n_finite[c] for name, c in columns.items()} for m, one in intervals.items()},
    }
    if "return_uniform" in run.curves:
        areas = np.trapezoid(run.curves["return_uniform"], iteration, axis=1)
        result["area_under_return_uniform"] = mean_interval(areas[:, None]).mean[0]
    return plain(result, finite=True)
