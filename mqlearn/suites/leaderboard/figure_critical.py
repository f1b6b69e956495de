"""The critical-difference diagram of a leaderboard (Demsar 2006): mean ranks over problems, by Friedman and Nemenyi.

Ranks are of tuned rules over the problems that all of them ran on, as the leaderboard has them. Friedman's test asks
whether any rule differs; Nemenyi's critical difference is what two mean ranks must lie apart to differ, for all pairs
together. Rules under one bar do not. Problems are the cases, as for the signed-rank tests of the board.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mqlearn.analysis.figures import style
from mqlearn.errors import SettingError
from mqlearn.suites.leaderboard.aggregate import ranks
from mqlearn.suites.leaderboard.board import by_setting
from mqlearn.suites.leaderboard.over_problems import LEVEL

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Critical(NamedTuple):
    """names: in the order of their mean ranks (R,).   p: of Friedman's test over so many problems.   difference: the
    critical one.   groups: first and last rule of each bar, by number."""

    names: tuple[str, ...]
    ranks: np.ndarray
    problems: int
    p: float
    difference: float
    groups: tuple[tuple[int, int], ...]


def critical_difference(rules: int, problems: int, level: float = LEVEL) -> float:
    """Nemenyi's: q sqrt(R (R + 1)/(6 P)), q the studentized range of R values over sqrt 2."""
    from scipy import stats

    q = float(stats.studentized_range.isf(level, rules, math.inf)) / math.sqrt(2)
    return q * math.sqrt(rules * (rules + 1) / (6 * problems))


def critical(found: Mapping[str, Any]) -> Critical:
    """What is drawn of a leaderboard. Raises SettingError for fewer than three rules or two problems in common."""
    from scipy import stats

    rows = [row for row in by_setting(found, "tuned") if row["rank"] is not None]
    own = [row["problems"] for row in rows]
    problems = [one["problem"] for one in found["problems"] if all("area" in cells[one["problem"]] for cells in own)]
    if len(rows) < 3 or len(problems) < 2:
        few = f"needs three rules and two problems that all ran on: there are {len(rows)} and {len(problems)}"
        raise SettingError("--critical", found["suite"], few)
    areas = np.array([[cells[problem]["area"] for problem in problems] for cells in own])
    p = float(stats.friedmanchisquare(*areas).pvalue) if np.ptp(areas, axis=0).any() else 1.0
    mean = ranks(areas).mean(1)
    order = np.argsort(mean, kind="stable")
    names = [f"{rows[i]['rule']} (yours)" if rows[i]["own"] else rows[i]["rule"] for i in order]
    difference = critical_difference(len(rows), len(problems))
    return Critical(tuple(names), mean[order], len(problems), p, difference, _groups(mean[order], difference))


def _groups(mean: np.ndarray, difference: float) -> tuple[tuple[int, int], ...]:
    """The longest runs of mean ranks (R,), in order, that lie no further apart than the critical difference."""
    last = np.searchsorted(mean, mean + difference + 1e-9, side="right") - 1
    before = np.concatenate([[-1], last[:-1]])
    return tuple((i, int(j)) for i, (j, b) in enumerate(zip(last, before, strict=True)) if j > i and j > b)


def draw(found: Mapping[str, Any]) -> "Figure":
    """Mean ranks on a line, the rules at its sides, and a bar over those that do not differ."""
    from matplotlib.figure import Figure

    one = critical(found)
    half, bars = -(-len(one.names) // 2), len(one.groups)
    top = 1.6 + 0.55 * bars  # of the names, in rows below the axis
    with style.context():
        height = 0.21 * (half + top + 3.2)
        figure = Figure(figsize=(style.page().width, height), layout="constrained")
        axes = figure.subplots()
        n = len(one.names)
        width = max(n - 1, 1)
        axes.set(xlim=(1 - 0.34 * width, n + 0.34 * width), ylim=(half + top, -2.4))
        axes.axis("off")
        _scale(axes, n, one.difference)
        for number, (first, last) in enumerate(one.groups):
            y, pad = 0.9 + 0.55 * number, 0.006 * width
            ends = [one.ranks[first] - pad, one.ranks[last] + pad]
            axes.plot(ends, [y, y], color=style.INK, linewidth=2.6, solid_capstyle="butt")
        _names(axes, one, half, top)
        said = f"p {one.p:.2g}" if one.p >= 1e-4 else "p < 1e-4"
        none = " No rule is shown to differ." if one.p > LEVEL else ""
        axes.set_title(
            f"Suite {found['suite']}: mean ranks over {one.problems} problems; Friedman {said}; bars: apart by less "
            f"than\nthe critical difference {one.difference:.2f} (Nemenyi, {100 * LEVEL:.0f} %).{none}",
            fontsize=8,
        )
    return figure


def _scale(axes: "Axes", n: int, difference: float) -> None:
    axes.plot([1, n], [0, 0], color=style.INK, linewidth=0.9)
    for rank in range(1, n + 1):
        axes.plot([rank, rank], [-0.25, 0], color=style.INK, linewidth=0.9)
        axes.text(rank, -0.35, str(rank), ha="center", va="bottom", fontsize=6.5)
    end = 1 + min(difference, n - 1)
    axes.plot([1, end], [-1.6, -1.6], color=style.INK, linewidth=1.2, marker="|", markersize=5)
    axes.text(end + 0.01 * n, -1.6, "  critical difference", ha="left", va="center", fontsize=6.5)


def _names(axes: "Axes", one: Critical, half: int, top: float) -> None:
    """The better half at the left, the best one first, and the others at the right, the worst one first."""
    n = len(one.names)
    far = 0.02 * max(n - 1, 1)
    places: Sequence[int] = [*range(half), *range(n - 1, half - 1, -1)]
    for number, i in enumerate(places):
        left = number < half
        y = top + (number if left else number - half)
        side = 1 - far if left else n + far
        rank = float(one.ranks[i])
        axes.plot([rank, rank, side], [0, y, y], color=style.QUIET, linewidth=0.7)
        text = f"{one.names[i]}  {rank:.1f}" if left else f"{rank:.1f}  {one.names[i]}"
        axes.text(side - far if left else side + far, y, text, ha="right" if left else "left", va="center", fontsize=7)
