"""What theory predicts, as lines beside measured curves: the floor, the asymptotic error, the bounds of theorems.

`figure.lines` of an experiment names them. Lines have a value at each checkpoint of their curve, and so follow the axis
on which that is drawn.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mqlearn.algorithms import Rule
from mqlearn.algorithms.operators import is_bellman
from mqlearn.analysis.cases import case_of, largest_error
from mqlearn.analysis.figures.style import QUIET, Look
from mqlearn.checks import choice
from mqlearn.errors import SettingError
from mqlearn.theory import tables
from mqlearn.theory.bounds import Slope
from mqlearn.theory.case import Case
from mqlearn.theory.linear_features import LinearFeatures
from mqlearn.theory.slopes import slope_of
from mqlearn.theory.sup import expected_norms

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from mqlearn.experiments.settings.cell import Cell
    from mqlearn.storage.runs import Run

KINDS = ("floor", "predicted", "bound")
_THETA = ("theta_error", "theta_error_average")
_NORMS = {"q_error": "sup", "q_error_l2": "norm", "q_error_average": "sup", "q_error_l2_average": "norm"}
_ABOUT = {
    "sup": r"the error that theory predicts, E$\,\max|N(0,\Sigma)|/\sqrt{k}$ for large $k$",
    "norm": r"the error that theory predicts, E$\,\|N(0,\Sigma)\|/\sqrt{k}$ for large $k$, a mean of norms as the "
    "curve is, and so below the root mean square of tables",
}
_EXACT = (
    "; before, that of a normal error with the exact mean and mean square of the rule while the best actions are "
    r"chosen, spread as $\Sigma$ is"
)
_FLOOR = "Grey: the floor, the least error that any rule can have for large $k$"
_SECONDS = 2.0  # of exact moments, for a line
_NEAR = 0.02  # of the asymptotic error, where the exact one may go on as it
_DASHES = {"predicted": (0, (1, 1.4)), "approximate": (0, (5, 2.5)), "bound": (0, (7, 2, 1, 2)), "slope": (0, (9, 4))}


@dataclass(frozen=True, eq=False)
class Line:
    """name: for the data of the figure.

    kind: one of KINDS, or "approximate", a prediction for shared ties, or "slope", a rate without its constants.

    values (C,): at the checkpoints of the curve; none where there is only something to say.   note: for the caption.
    """

    kind: str
    name: str
    values: np.ndarray
    note: str


def wanted(spec: Mapping[str, Any]) -> list[str]:
    """`figure.lines` of an experiment, checked. Raises SettingError."""
    asked = spec.get("lines") or []
    asked = [asked] if isinstance(asked, str) else asked
    for one in asked:
        choice("figure.lines", one, KINDS)
    if asked and spec.get("metric") not in (*_NORMS, *_THETA):
        expected = (
            f"are of the error of a table or of theta; figure.metric must be one of {', '.join([*_NORMS, *_THETA])}"
        )
        raise SettingError("figure.lines", asked, expected)
    return list(asked)


def of(cell: "Cell", run: "Run", spec: Mapping[str, Any], label: str) -> list[Line]:
    """The lines that a figure asks for beside the curve of a run. Raises SettingError."""
    asked, iteration = wanted(spec), run.curves["iteration"]
    if not asked:
        return []
    case = case_of(cell)
    rule, reason = case.rule, tables.uncovered(case)
    if reason is not None or spec["metric"] in _THETA:
        only = _of_chains(case, run, spec["metric"], label) if "bound" in asked else []
        rest = {"floor", "predicted"} & {*asked} and any(line.values.size for line in only)
        none = "no floor and no prediction" if rest else "no lines of theory"
        silent = bool(rest or not only)
        return [*only, *[_said(f"{label}: {none}; {reason or 'floor and prediction are of tables'}")] * silent]
    norm = _NORMS[spec["metric"]]
    found: list[Line] = []
    if {"floor", "predicted"} & {*asked}:
        asymptotic = tables.asymptotic(case)
        row = tables.constants(asymptotic)
        if "floor" in asked:
            found.append(Line("floor", "floor", _falling(row[f"floor_{norm}_sqrt_k"], iteration), _FLOOR))
        if "predicted" in asked:
            mean = spec["metric"].endswith("_average")
            if mean != rule.averaged:
                found.append(_said(_OTHER))
            elif row["reason"] is not None:
                found.append(_said(f"{label}: nothing is predicted; {row['reason'].rpartition(chr(39) + ': ')[2]}"))
            else:
                exact = _exact(case, asymptotic.sigma, iteration) if norm == "norm" else np.empty(0)
                found.append(_predicted(case, row, norm, iteration, exact))
    if "bound" in asked and norm == "sup":
        found += _bounds(case, run, iteration)
        if not any(line.kind == "bound" for line in found):
            found += _slope(slope_of(case, None), run, spec["metric"])
    return found


_OTHER = "Of an averaged rule theory predicts the mean of the iterates"


def _said(note: str) -> Line:
    return Line("", "", np.empty(0), note)


def _falling(constant: float, iteration: np.ndarray) -> np.ndarray:
    """(C,): constant/sqrt(k); NaN at k = 0."""
    return np.where(iteration > 0, constant / np.sqrt(np.maximum(iteration, 1)), np.nan)


def _exact(case: Case, sigma: np.ndarray, iteration: np.ndarray) -> np.ndarray:
    """Expected Euclidean norms at the first of the checkpoints (C,), as many as the moments are affordable at.

    The moments know the mean and the mean square of each pair, but not how pairs move together: this is taken from the
    asymptotic covariance (n, n), scaled to the variance of all pairs.
    """
    if not isinstance(case.rule, Rule) or case.rule.averaged:
        return np.empty(0)
    found = tables.exact_moments(case, iteration, _SECONDS)
    if found is None:
        return np.empty(0)
    total = np.trace(sigma)
    with np.errstate(over="ignore", invalid="ignore"):  # of a transient that overflows
        variance = np.maximum((found.second - found.mean**2).sum(1), 0.0)
        return expected_norms(sigma, found.mean, variance / total if total else np.zeros(len(variance)))


def _predicted(case: Case, row: Mapping[str, Any], norm: str, iteration: np.ndarray, exact: np.ndarray) -> Line:
    """The asymptotic line, with exact values at its first checkpoints where there are some."""
    values, n = _falling(row[f"{norm}_sqrt_k"], iteration), len(exact)
    if n and abs(values[n - 1] / exact[-1] - 1) > _NEAR:
        values[n:] = np.nan  # the transient is not over where the moments end
    values[:n] = exact
    about = _ABOUT[norm] + _EXACT * bool(n)
    if row["approximate"]:
        tied = f"optimal actions tie in {row['tied_states']} of the states of {case.mdp.name}, which share equally"
        return Line("approximate", "predicted, approximate", values, f"Dashed: {about}; approximate, as {tied}")
    return Line("predicted", "predicted", values, f"Dotted: {about}")


def _bounds(case: Case, run: "Run", iteration: np.ndarray) -> list[Line]:
    """As corrected: the bound as printed lies on it."""
    found = []
    for one in tables.table_bounds(case, iteration, largest_error(run)):
        if "printed" not in one.name:
            values = np.where(iteration > 0, one.values, np.nan)
            found.append(Line("bound", one.name, values, "Dash-dotted: bounds of theorems"))
            if one.vacuous[-1]:
                found.append(_said(_vacuous(f"{one.name}, on {case.mdp.name}")))
    return found


def _of_chains(case: Case, run: "Run", metric: str, label: str) -> list[Line]:
    """Where there are no constants of tables: bounds of theta, else a slope, else why there is none."""
    if not is_bellman(case.operator):
        return []
    if case.features is None:
        return _slope(slope_of(case, None), run, metric)
    if metric not in _THETA:
        return [_said(f"{label}: no lines of theory; theorems bound theta here: figure.metric={_THETA[0]}")]
    try:
        linear = LinearFeatures(case)
    except SettingError as error:
        return [_said(f"{label}: no bound; {error}")]
    iteration, found = run.curves["iteration"], []
    for one in linear.own_bounds(np.maximum(iteration, 1)):
        if one.metric != metric:
            continue
        values = np.where(iteration > 0, np.sqrt(one.values) / linear.length, np.nan)
        found.append(Line("bound", one.name, values, f"Dash-dotted: bounds of theorems; {label}: {one.assumes}"))
        if one.vacuous[-1]:
            found.append(_said(_vacuous(f"{one.name}, on {case.mdp.name}")))
    if found:
        return found
    reason = linear.no_bound()
    if reason is not None:
        found = _slope(slope_of(case, linear), run, metric)
    return [*found, _said(f"{label}: no bound; {reason or f'no theorem covers its schedule in {metric}'}")]


def _slope(known: tuple[str, Slope] | tuple[None, None], run: "Run", metric: str) -> list[Line]:
    """A line of the slope through the last point of the curve, the mean over finite seeds, if it is of this metric."""
    of, slope = known
    if slope is None or of != metric:
        return []
    iteration, last = run.curves["iteration"], run.curves[metric][:, -1]
    last = last[np.isfinite(last)]
    if not len(last) or not iteration[-1]:
        return []
    values = last.mean() * np.maximum(iteration / iteration[-1], 1 / iteration[-1]) ** slope.exponent
    note = f"Long dashes: slope {slope.exponent:g} through the last point, a rate without constants ({slope.words})"
    return [Line("slope", f"slope {slope.exponent:g}", np.where(iteration > 0, values, np.nan), note)]


def _vacuous(where: str) -> str:
    return f"Vacuous, no less at the end than what is known beforehand: {where}"


# --- on a figure --------------------------------------------------------------------------------------------------


def draw(axes: "Axes", x: np.ndarray, lines: Sequence[Line], look: Look) -> None:
    """The lines beside a curve with checkpoints at x (C,)."""
    for line in lines:
        if not line.values.size:
            continue
        grey = line.kind == "floor"
        style = {"color": QUIET, "linewidth": 1.0} if grey else {"color": look.color, "linewidth": 0.8}
        axes.plot(x, line.values, linestyle=_DASHES.get(line.kind, "-"), zorder=1.6, **style)


def ends(lines: Sequence[Line]) -> list[float]:
    """Where the lines end: what the axis must show."""
    return [float(line.values[-1]) for line in lines if line.values.size]


def notes(lines: Sequence[Line]) -> list[str]:
    """What the caption says of all lines of a figure, each once."""
    return list(dict.fromkeys(f"{line.note}." for line in lines))
