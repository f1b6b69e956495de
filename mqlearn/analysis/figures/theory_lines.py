"""What theory predicts, as lines beside measured curves: the floor, the asymptotic error, the bounds of theorems.

`figure.lines` of an experiment names them. Lines have a value at each checkpoint of their curve, and so follow the axis
on which that is drawn.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mqlearn.algorithms import Rule
from mqlearn.analysis import predictions
from mqlearn.analysis.figures.style import QUIET, Look
from mqlearn.checks import choice
from mqlearn.errors import SettingError
from mqlearn.theory.sup import expected_norms

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from mqlearn.experiments.settings.cell import Cell
    from mqlearn.storage.runs import Run

KINDS = ("floor", "predicted", "bound")
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
_DASHES = {"predicted": (0, (1, 1.4)), "approximate": (0, (5, 2.5)), "bound": (0, (7, 2, 1, 2))}


@dataclass(frozen=True, eq=False)
class Line:
    """kind: one of KINDS, or "approximate", a prediction for shared ties.   name: for the data of the figure.

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
    if asked and spec.get("metric") not in _NORMS:
        expected = f"are of the error of a table; figure.metric must be one of {', '.join(_NORMS)}"
        raise SettingError("figure.lines", asked, expected)
    return list(asked)


def of(cell: "Cell", run: "Run", spec: Mapping[str, Any], label: str) -> list[Line]:
    """The lines that a figure asks for beside the curve of a run. Raises SettingError."""
    asked, iteration = wanted(spec), run.curves["iteration"]
    if not asked:
        return []
    reason = predictions.uncovered(cell)
    if reason is not None:
        return [_said(f"{label}: no lines of theory; {reason}")]
    rule, norm = predictions.rule_of(cell), _NORMS[spec["metric"]]
    found: list[Line] = []
    if {"floor", "predicted"} & {*asked}:
        asymptotic = predictions.asymptotic(cell, rule)
        row = predictions.row_of(asymptotic)
        if "floor" in asked:
            found.append(Line("floor", "floor", _falling(row[f"floor_{norm}_sqrt_k"], iteration), _FLOOR))
        if "predicted" in asked:
            mean = spec["metric"].endswith("_average")
            if mean != rule.averaged:
                found.append(_said(_OTHER))
            elif row["reason"] is not None:
                found.append(_said(f"{label}: nothing is predicted; {row['reason'].rpartition(chr(39) + ': ')[2]}"))
            else:
                exact = _exact(cell, rule, asymptotic.sigma, iteration) if norm == "norm" else np.empty(0)
                found.append(_predicted(cell, row, norm, iteration, exact))
    if "bound" in asked and norm == "sup":
        found += _bounds(cell, rule, run, iteration)
    return found


_OTHER = "Of an averaged rule theory predicts the mean of the iterates"


def _said(note: str) -> Line:
    return Line("", "", np.empty(0), note)


def _falling(constant: float, iteration: np.ndarray) -> np.ndarray:
    """(C,): constant/sqrt(k); NaN at k = 0."""
    return np.where(iteration > 0, constant / np.sqrt(np.maximum(iteration, 1)), np.nan)


def _exact(cell: "Cell", rule: Any, sigma: np.ndarray, iteration: np.ndarray) -> np.ndarray:
    """Expected Euclidean norms at the first of the checkpoints (C,), as many as the moments are affordable at.

    The moments know the mean and the mean square of each pair, but not how pairs move together: this is taken from the
    asymptotic covariance (n, n), scaled to the variance of all pairs.
    """
    if not isinstance(rule, Rule) or rule.averaged:
        return np.empty(0)
    found = predictions.exact_moments(cell, rule, iteration, _SECONDS)
    if found is None:
        return np.empty(0)
    total = np.trace(sigma)
    with np.errstate(over="ignore", invalid="ignore"):  # of a transient that overflows
        variance = np.maximum((found.second - found.mean**2).sum(1), 0.0)
        return expected_norms(sigma, found.mean, variance / total if total else np.zeros(len(variance)))


def _predicted(cell: "Cell", row: Mapping[str, Any], norm: str, iteration: np.ndarray, exact: np.ndarray) -> Line:
    """The asymptotic line, with exact values at its first checkpoints where there are some."""
    values, n = _falling(row[f"{norm}_sqrt_k"], iteration), len(exact)
    if n and abs(values[n - 1] / exact[-1] - 1) > _NEAR:
        values[n:] = np.nan  # the transient is not over where the moments end
    values[:n] = exact
    about = _ABOUT[norm] + _EXACT * bool(n)
    if row["approximate"]:
        tied = f"optimal actions tie in {row['tied_states']} of the states of {cell.mdp.name}, which share equally"
        return Line("approximate", "predicted, approximate", values, f"Dashed: {about}; approximate, as {tied}")
    return Line("predicted", "predicted", values, f"Dotted: {about}")


def _bounds(cell: "Cell", rule: Any, run: "Run", iteration: np.ndarray) -> list[Line]:
    """As corrected: the bound as printed lies on it."""
    found = []
    for one in predictions.table_bounds(cell, rule, run, iteration):
        if "printed" not in one.name:
            values = np.where(iteration > 0, one.values, np.nan)
            found.append(Line("bound", one.name, values, "Dash-dotted: bounds of theorems"))
            if one.vacuous[-1]:
                where = f"{one.name}, on {cell.mdp.name}"
                found.append(_said(f"Vacuous, no less at the end than what is known beforehand: {where}"))
    return found


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
