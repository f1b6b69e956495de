"""The figure of a leaderboard: performance profiles of the first rules, and a heat map of rule by problem."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mqlearn.analysis.figures import style
from mqlearn.errors import SettingError
from mqlearn.suites.leaderboard.board import PROFILE, by_setting
from mqlearn.suites.leaderboard.tables import clock

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_KINDS = ("png", "pdf", "svg")
_PROFILES = 8  # rules that have a profile: more cannot be told apart
_FACTOR = 100.0  # of the error either way, at which the colours end


def save(found: Mapping[str, Any], path: Path, flag: str = "--figure") -> None:
    """Draw a leaderboard into a file; for the flag --critical its critical-difference diagram.

    Raises SettingError for a file that is no png, pdf or svg.
    """
    from mqlearn.suites.leaderboard import figure_critical

    kind = kind_of(path, flag)
    made = figure_critical.draw(found) if flag == "--critical" else draw(found)
    digest = hashlib.sha256(json.dumps(found["rules"], sort_keys=True).encode()).hexdigest()
    record = {"suite": found["suite"], "command": found.get("command", ""), "data_digest": digest}
    style.save(made, path.with_suffix(""), record, (kind,))


def kind_of(path: Path, flag: str = "--figure") -> str:
    """png, pdf or svg, by the name of a file. Raises SettingError for another."""
    kind = path.suffix.removeprefix(".")
    if kind not in _KINDS:
        raise SettingError(flag, path.name, f"must end in .{', .'.join(_KINDS)}")
    return kind


def draw(found: Mapping[str, Any]) -> "Figure":
    """Profiles above, the heat map of tuned rules below."""
    from matplotlib.figure import Figure

    rows = [row for row in by_setting(found, "tuned") if row["score"] is not None]
    with style.context():
        map_height = 0.5 + 0.21 * len(rows) + 1.1
        figure = Figure(figsize=(style.page().width, 2.9 + map_height), layout="constrained")
        above, below = figure.subplots(2, 1, height_ratios=(2.6, map_height))
        _profiles(above, found, rows)
        _heat_map(figure, below, found, rows)
    return figure


def _profiles(axes: "Axes", found: Mapping[str, Any], rows: list[dict[str, Any]]) -> None:
    first = rows[:_PROFILES]
    baseline = [row for row in rows[_PROFILES:] if row["rule"] == found["baseline"]]
    shown = [*first, *baseline, *[row for row in rows[_PROFILES:] if row["own"] and row not in baseline]]
    looks = style.looks({row["rule"]: row["rule"] for row in shown}, ramps=())
    for row in shown:
        look = looks[row["rule"]]
        label = f"{row['rule']} (yours)" if row["own"] else row["rule"]
        axes.plot(
            10.0**PROFILE, row["profile"], color=look.color, label=label, linewidth=1.2, marker=look.marker,
            markevery=(3, 10), markersize=3.5, markerfacecolor=look.color if look.filled else "white",
            linestyle=(0, look.dashes) if look.dashes else "-",
        )  # fmt: skip
    low = min(np.searchsorted(row["profile"], 0.1) for row in shown)
    axes.set(xscale="log", xlim=(10.0 ** PROFILE[max(0, low - 2)], 10.0 ** PROFILE[-1]), ylim=(0, 1.02))
    axes.set_xlabel(f"error over that of tuned {found['baseline']} (geometric mean over log samples)")
    axes.set_ylabel("share of seeds and problems")
    n = len(found["problems"])
    axes.set_title(f"Suite {found['suite']}{clock(found)}: at most that error, on {n} problem{'s' * (n != 1)}")
    axes.grid(True, color=style.GRID, linewidth=0.6)
    axes.legend(loc="lower right", fontsize=7.5, handlelength=3, ncols=1 + (len(shown) > 6))


def _heat_map(figure: "Figure", axes: "Axes", found: Mapping[str, Any], rows: list[dict[str, Any]]) -> None:
    from matplotlib.colors import LogNorm

    problems = [one["problem"] for one in found["problems"]]
    table = np.array([[row["problems"][name].get("score") or np.nan for name in problems] for row in rows], float)
    axes.set_facecolor(style.GRID)
    shown = np.ma.masked_invalid(table)
    norm = LogNorm(1 / _FACTOR, _FACTOR, clip=False)
    mesh = axes.pcolormesh(shown, norm=norm, cmap="RdBu_r", edgecolors="white", linewidth=0.4)
    for i, j in np.ndindex(table.shape):
        value = float(table[i, j])
        if np.isnan(value):
            axes.text(j + 0.5, i + 0.5, "–", ha="center", va="center", fontsize=5.5, color=style.QUIET)
            continue
        mark = "†" if rows[i]["problems"][problems[j]]["at_end"] else ""
        dark = value > _FACTOR**0.55 or value < _FACTOR**-0.55
        axes.text(
            j + 0.5, i + 0.5, _label(value) + mark, ha="center", va="center", fontsize=5,
            color="white" if dark else style.INK,
        )  # fmt: skip
    names = [f"{row['rule']} (yours)" if row["own"] else row["rule"] for row in rows]
    axes.set_yticks(np.arange(len(rows)) + 0.5, names, fontsize=7)
    axes.set_xticks(
        np.arange(len(problems)) + 0.5, problems, fontsize=7, rotation=55, ha="right", rotation_mode="anchor"
    )
    axes.set(xlim=(0, len(problems)), ylim=(len(rows), 0))
    axes.tick_params(length=0)
    axes.grid(False)
    axes.set_title(
        f"Mean error over that of tuned {found['baseline']}, each rule tuned (†: at an end of what was tried)",
        fontsize=9,
    )
    bar = figure.colorbar(mesh, ax=axes, extend="both", fraction=0.025, pad=0.01)
    bar.ax.tick_params(labelsize=6.5)


def _label(value: float) -> str:
    """At most four signs: 0.31, 12, 3e5, <1e-9."""
    if 0.01 <= value < 0.1:
        return f"{value:.2f}".lstrip("0")
    if 0.1 <= value < 1000:
        return f"{value:.2g}" if value < 10 else f"{value:.0f}"
    mantissa, exponent = f"{value:.0e}".split("e")
    return f"{mantissa}e{int(exponent)}"
