"""How errors, or samples to an error, grow with a setting of the problem: a point a run, and the slope of each rule."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mqlearn.analysis.claims.exponents import summary_of
from mqlearn.analysis.figures import parts, style
from mqlearn.analysis.figures.error_curves import ROW_HEIGHT
from mqlearn.analysis.statistics import exponents
from mqlearn.analysis.statistics.exponents import LEAST, Exponent
from mqlearn.analysis.statistics.intervals import Band, Interval
from mqlearn.checks import choice, finite_number
from mqlearn.errors import SettingError
from mqlearn.learning.metric_kinds import kind_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from mqlearn.experiments.plan import PlannedCell
    from mqlearn.storage.runs import Run

_DEFAULTS = {
    "metric": "q_error", "over": "discount", "x": "horizon", "measure": "error", "at": 1, "epsilon": None,
    "relative": False, "guides": (), "facet": None, "count": "all",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Growth:
    """A rule on one panel.

    x: (P,) where its problems lie, as logarithms.   interval: of what was measured there, infinite where it is not
    known.   found: its slope.   n_seeds: the fewest of a run.
    """

    panel: str
    label: str
    family: str
    x: np.ndarray
    interval: Interval
    found: Exponent
    n_seeds: int


def completed(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a figure of this kind, checked. Raises SettingError."""
    one = {**_DEFAULTS, **{key: value for key, value in spec.items() if value is not None}}
    choice("figure.x", one["x"], ("horizon", "value"))
    choice("figure.measure", one["measure"], ("error", "samples", "mean_curve"))
    choice("figure.count", one["count"], ("all", "after_burn_in"))
    epsilon, at = finite_number(one["epsilon"]), finite_number(one["at"])
    if (one["measure"] == "error") != (one["epsilon"] is None) or (epsilon is not None and epsilon <= 0):
        expected = "must be a positive number with measure=samples or mean_curve, and null with error"
        raise SettingError("figure.epsilon", one["epsilon"], expected)
    if at is None or not 0 < at <= 1:
        raise SettingError("figure.at", one["at"], "must be a share of T in (0, 1]")
    return one


def check(cells: "Sequence[PlannedCell]", spec: Mapping[str, Any]) -> None:
    """Raise SettingError for keys that are not admissible, and where a rule has too few places for a slope."""
    _grouped(cells, completed(spec))


def _grouped(cells: "Sequence[PlannedCell]", spec: Mapping[str, Any]) -> dict[tuple[str, str], list[tuple[float, int]]]:
    """(panel, label) -> (x, number of the cell) of its problems, by x."""
    top = 1.0 if spec["x"] == "horizon" else math.inf
    groups: dict[tuple[str, str], list[tuple[float, int]]] = {}
    for number, one in enumerate(cells):
        level = finite_number(_setting(one.settings, spec["over"]))
        if level is None or not 0 < level < top:
            expected = f"must be a setting that is a number between 0 and {top:g} in each cell, not {level}"
            raise SettingError("figure.over", spec["over"], expected)
        x = math.log(level) if spec["x"] == "value" else -math.log1p(-level)
        panel = "" if spec["facet"] is None else str(_setting(one.settings, spec["facet"]))
        groups.setdefault((panel, one.label), []).append((x, number))
    for (panel, label), members in groups.items():
        members.sort()
        places = [x for x, _ in members]
        if len({*places}) < max(LEAST, len(places)):
            where = f"{label}{f' on {panel}' if panel else ''}"
            expected = f"must have at least {LEAST} values, each once, for the slope of {where}; it has {len(places)}"
            raise SettingError("figure.over", spec["over"], expected)
    return groups


def _setting(settings: Mapping[str, Any], name: str) -> Any:
    """A setting by its dotted name; None where there is none."""
    value: Any = settings
    for part in str(name).split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def from_runs(
    planned: "Sequence[PlannedCell]", finished: "Sequence[Run]", spec: Mapping[str, Any], band: Band
) -> "tuple[Figure, dict[str, np.ndarray]]":
    """The figure of an experiment's finished runs, one for each planned cell, and the numbers that it shows.

    spec: `over`, the dotted name of the setting along which problems differ; `x`, horizon for log 1/(1 - it) or value
    for log of it; `measure` error (of `metric` at `at` T), samples (median over seeds, to `epsilon`, times the initial
    mean if `relative`) or mean_curve (of the mean over seeds); `count` all samples or those after_burn_in; `facet`, the
    dotted name of a setting that has a panel for each value; `guides`, slopes to draw. band: of the mean error; samples
    have percentile intervals.
    """
    one = completed(spec)
    grown = []
    for (panel, label), members in _grouped(planned, one).items():
        runs = [finished[number] for _, number in members]
        x, n_seeds = np.array([x for x, _ in members]), [len(run.curves[one["metric"]]) for run in runs]
        summaries = [summary_of(one, one["metric"], run) for run in runs]
        together = len({run.settings["seed"] for run in runs}) == 1
        found = exponents.exponent(x, summaries, n_seeds, together=together)
        intervals = [exponents.interval(each, n) for each, n in zip(summaries, n_seeds, strict=True)]
        low, high = np.exp(np.array(intervals)).T
        points = Interval(np.exp(found.logs), low, high, np.where(np.isfinite(found.logs), min(n_seeds), 0))
        family = str(planned[members[0][1]].settings["algorithm"]["name"])
        grown.append(Growth(panel, label, family, x, points, found, min(n_seeds)))
    return draw(grown, one), data(grown)


def data(grown: Sequence[Growth]) -> dict[str, np.ndarray]:
    """The numbers that `draw` shows: ``panel | label | name`` with the names x (P,), band (3, P): what was measured,
    low, high, and exponent (3,), likewise."""
    numbers: dict[str, np.ndarray] = {}
    for one in grown:
        key = f"{one.panel} | {one.label} | "
        numbers[key + "x"] = np.exp(one.x)
        numbers[key + "band"] = np.stack(one.interval[:3])
        numbers[key + "exponent"] = np.array(one.found[:3])
    return numbers


def draw(grown: Sequence[Growth], spec: Mapping[str, Any]) -> "Figure":
    """A panel for each value of the facet: points with intervals, the slopes at the right edge and in the caption."""
    families = {one.label: one.family for one in grown}
    looks = style.looks(families)
    titles = list(dict.fromkeys(one.panel for one in grown))
    with style.context():
        for text in [*titles, *families]:
            style.check_text("curves", text)
        columns = min(len(titles), 1 if style.page().narrow else 2)
        figure, axes = parts.sheet(-(-len(titles) // columns), columns)
        for title, one in zip(titles, axes.flat, strict=False):
            _fill(one, [each for each in grown if each.panel == title], looks, spec)
            one.set_title(title)
        for one in axes[:, 0]:
            one.set_ylabel(_measured_words(spec))
        for one in axes.flat[len(titles) :]:
            one.set_visible(False)
        words = "points with their 95 % percentile intervals over seeds; at the right edge the least-squares slope"
        ends = {one.label: _number(one.found.value) for one in grown}
        has_band = any(one.n_seeds > 1 for one in grown)
        footer = parts.legend(figure, looks, style.groups(families), words, _notes(grown, spec), (), has_band)
        room = parts.END + 0.05 + parts.text_width(figure, {*ends.values()})
        parts.arrange(figure, axes, footer=footer, row_height=ROW_HEIGHT, right=room)
        for title, one in zip(titles, axes.flat, strict=False):
            here = [each for each in grown if each.panel == title and math.isfinite(each.found.value)]
            heights = {each.label: float(each.interval.mean[-1]) for each in here}
            parts.end_labels(one, heights, looks, {each.label: _number(each.found.value) for each in here})
    return figure


def _fill(axes: "Axes", grown: Sequence[Growth], looks: Mapping[str, style.Look], spec: Mapping[str, Any]) -> None:
    known = [one.interval.mean[np.isfinite(one.interval.mean)] for one in grown]
    x, y = np.exp(np.concatenate([one.x for one in grown])), np.concatenate(known)
    low, high = (float(y.min()), float(y.max())) if y.size else (0.1, 1.0)
    axes.set(xscale="log", yscale="log", xlim=(x.min() / 1.05, x.max()), ylim=(low / 1.5, high * 1.5))
    name = str(spec["over"]).replace("_", r"\_")
    axes.set_xlabel(rf"$1/(1-\mathrm{{{name}}})$" if spec["x"] == "horizon" else rf"$\mathrm{{{name}}}$")
    for one in grown:
        parts.curve(axes, looks[one.label], np.exp(one.x), one.interval, marks=len(one.x))
    for slope in spec["guides"]:
        place = math.sqrt(x.min() * x.max()), math.sqrt(low * high)
        ends = np.array([x.min(), x.max()])
        heights = place[1] * (ends / place[0]) ** float(slope)
        axes.plot(ends, heights, color=style.QUIET, linewidth=0.7, linestyle=(0, (1, 2)), zorder=1.5)


def _measured_words(spec: Mapping[str, Any]) -> str:
    if spec["measure"] == "error":
        return kind_of(spec["metric"]).axis
    of = " of the initial one" * bool(spec["relative"])
    since = " after the burn-in" * (spec["count"] != "all")
    return f"samples of each pair{since} until the\nmean error is at most {spec['epsilon']:.3g}{of}"


def _notes(grown: Sequence[Growth], spec: Mapping[str, Any]) -> list[str]:
    """The slopes with their intervals, the guides, and what is censored."""
    notes = []
    for title in dict.fromkeys(one.panel for one in grown):
        told = [
            f"{one.label} {_number(one.found.value)} [{_number(one.found.low)}, {_number(one.found.high)}]"
            for one in grown
            if one.panel == title
        ]
        notes.append(f"Slopes{f' on {title}' if title else ''}: {', '.join(told)}.")
    if spec["guides"]:
        notes.append(f"Dotted: slopes {', '.join(f'{float(slope):g}' for slope in spec['guides'])}.")
    short = [f"{one.label} {len(one.x) - one.found.used}" for one in grown if one.found.used < len(one.x)]
    if short:
        notes.append(f"Places that are censored, and in no slope: {', '.join(short)}; no slope without the last place.")
    return [*notes, *(spec.get("notes") or [])]


def _number(value: float) -> str:
    return f"{value:.2f}" if math.isfinite(value) else "-"
