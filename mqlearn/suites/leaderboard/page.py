"""The leaderboard as one HTML page: each cell of rule and problem leads to its curve, its card and its command."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from markupsafe import Markup

from mqlearn.analysis import report
from mqlearn.analysis.report.markup import number, render
from mqlearn.suites.leaderboard import beside
from mqlearn.suites.leaderboard.board import by_setting
from mqlearn.suites.leaderboard.tables import (
    EXPONENTS,
    command,
    exponent,
    exponents,
    ranked,
    searched,
    setting,
    turned,
)

_STYLE = Path(report.__file__).with_name("style.css")
_WIDE, _HIGH = 300.0, 120.0  # of a curve, in pixels


def build(found: Mapping[str, Any]) -> str:
    """The page of a leaderboard; equal ones give equal bytes."""
    tuned, default = by_setting(found, "tuned"), {row["rule"]: row for row in by_setting(found, "default")}
    problems = {one["problem"]: one for one in found["problems"]}
    told, models = exponents(found["growth"])
    cards = [
        _card(found, row, default[row["rule"]], problems[name])
        for row in tuned
        for name in problems
        if "reason" not in row["problems"][name]
    ]
    return render(
        "leaderboard.html",
        found=found,
        rows=tuned,
        default=default,
        problems=list(problems.values()),
        cards=cards,
        anchor=anchor,
        ranked=ranked,
        between=_between,
        far_of=beside.far_of,
        setting=setting(found),
        beside=beside.words(found) if beside.told_of(found) else "",
        said=[*turned(found), *searched(found)],
        exponents=EXPONENTS,
        exponent=exponent,
        told=told,
        models=models,
        style=Markup(_STYLE.read_text(encoding="utf-8")),
    )


def anchor(rule: str, problem: str) -> str:
    """The id of a cell's card."""
    return "".join(c if c.isalnum() else "-" for c in f"{rule}--{problem}")


def _between(row: Mapping[str, Any]) -> str:
    """An interval; a dash where there is none."""
    ends = [number(row[end], 3) for end in ("low", "high")]
    return "–" if row["low"] is None else " to ".join(ends)


def _card(
    found: Mapping[str, Any], row: Mapping[str, Any], default: Mapping[str, Any], problem: Mapping[str, Any]
) -> dict[str, Any]:
    name = problem["problem"]
    tuned, plain = row["problems"][name], default["problems"][name]
    return {
        "id": anchor(row["rule"], name),
        "title": f"{row['rule']} on {name}",
        "kind": problem["kind"],
        "setting": " ".join(tuned["setting"]) or "the default of its source",
        "tuned": tuned,
        "default": plain,
        "curves": [_points(one["curve"]) for one in (tuned, plain) if "curve" in one],
        "command": command(problem, tuned, found["seeds"], found["config_dir"]),
    }


def _points(curve: list[float]) -> str:
    """A curve (log10 of the error over the initial one, from 1 to -6) as the points of an SVG polyline."""
    step = _WIDE / max(1, len(curve) - 1)
    return " ".join(
        f"{i * step:.1f},{min(_HIGH, max(0, (1 - value) / 7 * _HIGH)):.1f}" for i, value in enumerate(curve)
    )
