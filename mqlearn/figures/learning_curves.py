"""Return, error of theta and exact value over the updates, on linear axes: the figure of the linear rules.

A column of panels is a setting (step size and sampling), a row is a metric, and all rivals of a setting share a panel.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from mqlearn.errors import SettingError
from mqlearn.figures import error_curves, parts, style
from mqlearn.figures.error_curves import Curve
from mqlearn.fixed_points import mean_gradient, theta_star
from mqlearn.mdp import FiniteMDP
from mqlearn.sampling import Synchronous, stationary
from mqlearn.solvers import _chain, optimal, policy_values_at_start
from mqlearn.statistics import Band, Interval, mean_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from mqlearn.config import Cell
    from mqlearn.plans import Planned
    from mqlearn.runs import Run

ROWS = {  # metric: what its axis says
    "return_uniform": "return, greedy episodes\nfrom uniform starts",
    "theta_error": "relative error\n" + r"$\Vert\theta_k-\theta^*\Vert\,/\,\Vert\theta^*\Vert$",
    "policy_value": "exact value of the\ngreedy policy at start",
}
POINTS = "policy_value"  # measured at T/4, T/2 and T only: markers, side by side
ROW_HEIGHT, COLUMNS = 1.3, 4
Q_STAR, THETA_STAR, RANDOM = "$Q^*$", r"$\theta^*$", "random actions"
_TIE = 1e-9  # actions this near to the best are equal: rounding must not choose between them
_CHAIN = ("name", "behaviour", "start", "restart_probability", "time_limit")  # what theta* depends on


@dataclass(frozen=True, eq=False)
class Setting:
    """A column of panels: metric -> curves, and metric -> name -> height of its reference lines."""

    title: str
    curves: Mapping[str, Sequence[Curve]]
    references: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def panel(self, metric: str) -> error_curves.Panel:
        return error_curves.Panel(f"{self.title} | {metric}", self.curves.get(metric, ()))


def data(settings: Sequence[Setting], band: Band = "ci95") -> dict[str, np.ndarray]:
    """The numbers that `draw` shows, for digests and comparisons with a reference.

    Keys are ``title | metric | label | name`` with the names of `error_curves.data`, and
    ``title | metric | reference | name`` for the lines (1,).
    """
    numbers = error_curves.data([setting.panel(metric) for setting in settings for metric in ROWS], band)
    for setting in settings:
        for metric, lines in setting.references.items():
            for name, value in lines.items():
                numbers[f"{setting.title} | {metric} | reference | {name}"] = np.array([value])
    return numbers


def draw(settings: Sequence[Setting], *, band: Band = "ci95", notes: Sequence[str] = ()) -> "Figure":
    """Mean over the seeds with a named band, a column of panels a setting, each row on one scale.

    A mean is over the finite seeds; where a seed diverges the curve has a cross, the legend a dagger and a note the
    count. A metric that no run has is left out, with a note. Raises SettingError for an unknown band, a text that
    cannot be typeset, or when there is nothing to draw.
    """
    rows = {metric: [setting.panel(metric) for setting in settings] for metric in ROWS}
    rows = {metric: panels for metric, panels in rows.items() if any(panel.curves for panel in panels)}
    curves = {id(curve): curve for panels in rows.values() for panel in panels for curve in panel.curves}
    if not curves:
        raise SettingError("curves", "[]", f"at least one curve of {', '.join(ROWS)}")
    looks = style.looks({curve.label: curve.family or curve.label for curve in curves.values()})
    intervals = {key: mean_interval(curve.values, band) for key, curve in curves.items()}
    last = max(int(curve.iteration[-1]) for curve in curves.values())
    unit = 1e6 if last >= 1e5 else 1.0
    notes, marked = list(notes), set()
    with style.context():
        for text in [setting.title for setting in settings] + list(looks):
            style.check_text("curves", text)
        columns = min(len(settings), COLUMNS)
        blocks = -(-len(settings) // columns)
        figure, axes = parts.sheet(blocks * len(rows), columns)
        for number, (metric, panels) in enumerate(rows.items()):
            limits = _limits(metric, panels, settings, intervals)
            for i, panel in enumerate(panels):
                one = axes[i // columns * len(rows) + number, i % columns]
                one.set(xlim=(-0.02 * last / unit, 1.06 * last / unit), ylim=limits)
                _fill(one, panel, metric == POINTS, looks, intervals, unit)
                one.tick_params(labelsize=8, labelbottom=number == len(rows) - 1, labelleft=i % columns == 0)
            for one in axes[number :: len(rows), 0]:
                one.set_ylabel(ROWS[metric], fontsize=8.6)
            lines = [setting.references.get(metric, {}) for setting in settings]
            for i, here in enumerate(lines):
                known = i % columns and here.items() <= lines[i - 1].items()
                _reference_lines(axes[i // columns * len(rows) + number, i % columns], here, named=not known)
        for one in axes[len(rows) - 1 :: len(rows)].flat:
            one.set_xlabel("updates $k$ (millions)" if unit > 1 else "updates $k$", fontsize=9)
        for i in range(len(settings), blocks * columns):
            for one in axes[i // columns * len(rows) :, i % columns]:
                one.set_visible(False)
        lost, marked = _divergence(settings)
        named = parts.band_name(band, [curve.n_seeds for curve in curves.values()])
        families = {curve.label: curve.family for curve in curves.values()}
        footer = parts.legend(figure, looks, style.groups(families), named, [*lost, *notes], marked)
        gap = 0.16 if blocks == 1 else 0.62
        parts.arrange(figure, axes, footer=footer, row_height=ROW_HEIGHT, right=0.04, row_gap=gap)
        _titles(figure, axes, settings, len(rows))
    return figure


def _limits(
    metric: str, panels: Sequence[error_curves.Panel], settings: Sequence[Setting], intervals: Mapping[int, Interval]
) -> tuple[float, float]:
    """Common limits of a row, zero included; curves with diverged seeds count only if there are no others."""
    curves = [curve for panel in panels for curve in panel.curves]
    steady = [curve for curve in curves if not curve.diverged] or curves
    y = np.concatenate([np.concatenate(intervals[id(curve)][:3]) for curve in steady])
    lines = [value for setting in settings for value in setting.references.get(metric, {}).values()]
    y = np.concatenate([[0.0], y[np.isfinite(y) & (np.abs(y) < 1e100)], lines])
    low, high = y.min(), y.max() if y.max() > y.min() else y.min() + 1
    return low - 0.04 * (high - low), high + 0.14 * (high - low)


def _fill(
    axes: "Axes",
    panel: error_curves.Panel,
    points: bool,
    looks: Mapping[str, style.Look],
    intervals: Mapping[int, Interval],
    unit: float,
) -> None:
    """Draw the curves of a panel, or the few points of each, side by side with their intervals."""
    for i, curve in enumerate(panel.curves):
        look, interval, x = looks[curve.label], intervals[id(curve)], curve.iteration / unit
        if not points:
            lost = [step / unit for step in curve.diverged.values()]
            parts.curve(axes, look, x, interval, diverged=lost, phase=(0.05 + 0.618 * i) % 1)
            continue
        have = interval.n_finite > 0
        place = x[have] + (i - (len(panel.curves) - 1) / 2) * 0.038 * x[-1]
        mean, low, high = (row[have] for row in interval[:3])
        axes.vlines(place, low, high, color=look.color, linewidth=1.1, zorder=3)
        axes.plot(place, mean, linestyle="none", zorder=4, **style.marker(look))
        fewer = interval.n_finite[have] < curve.n_seeds
        axes.plot(place[fewer], mean[fewer], "x", color=look.color, markersize=5.5, markeredgewidth=1.3, zorder=5)


def _reference_lines(axes: "Axes", lines: Mapping[str, float], *, named: bool) -> None:
    """Dotted lines; the names of lines that nearly coincide stand together above the upper one."""
    bottom, top = axes.get_ylim()
    names: list[str] = []
    ordered = sorted(lines, key=lambda name: lines[name])
    for name, above in zip(ordered, [*ordered[1:], None], strict=True):
        names.append(name)
        apart = above is None or lines[above] - lines[name] > 0.13 * (top - bottom)
        parts.reference_line(axes, lines[name], ", ".join(n for n in lines if n in names) if named and apart else "")
        if apart:
            names = []


def _titles(figure: "Figure", axes: np.ndarray, settings: Sequence[Setting], rows: int) -> None:
    """The title of each column, in the largest type in which all fit."""
    columns = axes.shape[1]
    texts = [f"({'abcdefgh'[i % 8]}) {setting.title}" for i, setting in enumerate(settings)]
    room = axes[0, 0].get_position().width * style.WIDTH
    size = min(9.5, max(6.0, 9.5 * room / (1.06 * parts.text_width(figure, texts, 9.5))))
    for i, text in enumerate(texts):
        axes[i // columns * rows, i % columns].set_title(text, fontsize=size, pad=5)


def _divergence(settings: Sequence[Setting]) -> tuple[list[str], set[str]]:
    """A note for each label with seeds that do not stay finite, and these labels."""
    first = [next(iter(setting.curves.values()), ()) for setting in settings]
    return error_curves._divergence(
        [error_curves.Panel(setting.title, curves) for setting, curves in zip(settings, first, strict=True)]
    )


def references(cell: "Cell") -> dict[str, dict[str, float]]:
    """Metric -> name -> height of the reference lines: exact expectations, nothing is simulated.

    return_uniform: of the greedy policies of Q* and of theta*, and of uniformly random actions, within the step limit
    from uniform non-terminal states.   policy_value: the optimal value at the start. Best actions are chosen uniformly
    among equal ones. Empty without a model; without theta* its line is left out.
    """
    mdp, arguments = cell.mdp, cell.run_arguments
    if not isinstance(mdp, FiniteMDP):
        return {}
    optimum, evaluation = optimal(mdp), arguments["evaluation"]
    tables = {Q_STAR: optimum.q}
    theta = _theta_star(cell)
    if theta is not None:
        tables[THETA_STAR] = arguments["features"].table(mdp, theta)
    tables[RANDOM] = np.zeros_like(optimum.q)
    episodes = 150 if evaluation.episodes is None else evaluation.episodes
    limit = evaluation.limit(mdp)
    returns = {name: episodes * _return_within(mdp, _greedy(mdp, q), limit) for name, q in tables.items()}
    value = float(policy_values_at_start(mdp, _greedy(mdp, optimum.q)[None])[0])
    return {"return_uniform": returns, "policy_value": {"optimal": value}}


def _theta_star(cell: "Cell") -> np.ndarray | None:
    """theta* of the very chain that is sampled, None where there is none."""
    mdp, sampling, features = cell.mdp, cell.run_arguments["sampling"], cell.run_arguments["features"]
    if features is None or isinstance(sampling, Synchronous):
        return None
    mu = stationary(sampling, mdp)
    point = None if mu is None else theta_star(mdp, features, mu)
    return point.theta if point is not None and point.exists else None


def _greedy(mdp: FiniteMDP, q: np.ndarray) -> np.ndarray:
    """(S, A): uniform over the actions that are best up to rounding."""
    allowed = np.where(mdp.learned, q, -np.inf)
    best = allowed.max(axis=1, keepdims=True)
    chosen = mdp.learned & (allowed >= best - _TIE * np.abs(best))
    return chosen / np.maximum(chosen.sum(axis=1, keepdims=True), 1)


def _return_within(mdp: FiniteMDP, policy: np.ndarray, limit: int) -> float:
    """Expected undiscounted return of an episode of at most `limit` moves from a uniform non-terminal state."""
    p, r = _chain(mdp, policy)
    p.eliminate_zeros()
    v = np.zeros(mdp.n_states)
    for _ in range(limit):
        v = r + p @ v
    return float(v[~mdp.terminal].mean())


def breaks_assumption_2(cell: "Cell") -> bool:
    """Whether a theta with (theta - theta*)' gbar(theta) < 0 was found, which Assumption 2 of the paper excludes.

    Tried is theta* plus much of one table: in every state one action is worth 1 and the others (sqrt(A)-1)/(A-1). For
    one-hot features and uniform actions that is enough when the discount is above about 2/(sqrt(A)+1) (2/3 for A = 4):
    max_v takes the 1, the behaviour seldom does.
    """
    theta = _theta_star(cell)
    if theta is None:
        return False
    mdp, features, n = cell.mdp, cell.run_arguments["features"], cell.mdp.n_actions
    mu = stationary(cell.run_arguments["sampling"], mdp)
    x, u = mdp.pairs.T
    table = np.where(u == mdp.admissible.argmax(axis=1)[x], 1.0, (np.sqrt(n) - 1) / max(n - 1, 1))
    phi = features.matrix()
    step = 1e6 * (1 + np.abs(theta).max()) * (phi.T @ table) / np.maximum(phi.T @ np.ones(len(x)), 1)
    return bool(step @ mean_gradient(mdp, features, mu, theta + step) < 0)


def from_runs(
    planned: "Sequence[Planned]", finished: "Sequence[Run]", spec: Mapping[str, Any], band: Band
) -> "tuple[Figure, dict[str, np.ndarray]]":
    """The figure of an experiment's finished runs, one for each planned cell, and the numbers that it shows."""
    panels: dict[str, dict[str, list[Curve]]] = {}
    lines: dict[str, dict[str, dict[str, float]]] = {}
    known: dict[str, dict[str, dict[str, float]]] = {}
