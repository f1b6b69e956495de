"""What was measured for a paper: its claims as they were tested, in a file beside its picture, and its verdict."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mqlearn.analysis.claims import answers, tables
from mqlearn.analysis.claims.answers import Stored
from mqlearn.analysis.claims.checks import FAILS, HOLDS
from mqlearn.analysis.papers.paper import READ, Paper
from mqlearn.errors import SettingError
from mqlearn.paths import committed

VERDICTS = {
    "reproduced": "all that was tested of what it reports holds",
    "conditional": "some of what it reports holds, under the conditions that are named",
    "not reproduced": "nothing of what it reports holds",
    "undecided": "the runs do not decide",
    "under our settings": "settings or numbers are unknown; ours took their place",
    "not testable": "nothing of it can be tested here",
    "not run": "nothing has been run here yet",
}
FIELD = "field"  # folder within outputs/paper


@dataclass(frozen=True)
class Measured:
    """claims: tested ones, as stored.   seconds: what their runs took together, each on one core."""

    claims: tuple[Stored, ...]
    seconds: float


def name_of(key: str) -> str:
    """The file of a paper below outputs/paper."""
    return f"{FIELD}/{key}.json"


def measured(paper: Paper, config_dir: str | None = None) -> Measured | None:
    """What is stored of a paper, decided again by the criteria of today; None where nothing is.

    Raises SettingError for a file that is none, or where an outcome would be another.
    """
    path = committed(name_of(paper.key))
    if path is None:
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        rows, seconds = {row["claim"]: row for row in content["claims"]}, float(content["seconds"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise SettingError("paper", paper.key, f"{path} cannot be read: {error}") from None
    names = [name for name in paper.spec["claims"] if name in rows]
    try:
        claims = tuple(answers.of_rows(path, [rows[name] for name in names], config_dir))
    except SettingError as error:  # it is no file that was named by a flag
        again = f"`mqlearn papers {paper.key} --store` makes it anew"
        raise SettingError("paper", paper.key, f"{path} {error.admissible}; {again}") from None
    return Measured(claims, seconds)


def text_of(paper: Paper, found: Sequence[Stored], seconds: float) -> str:
    """The file of a paper."""
    head = json.dumps({"key": paper.key, "seconds": round(seconds, 3)})
    return head.removesuffix("}") + ', "claims": ' + tables.json_text([tables.row(one) for one in found]) + "}\n"


def verdict(paper: Paper, found: Measured | None) -> tuple[str, str]:
    """(verdict, the reason beside it). Only what was read, and no question of ours, decides."""
    if paper.spec["not_testable"]:
        return "not testable", " ".join(str(paper.spec["not_testable"]).split())
    tested = {one.answer.claim.name: one.answer for one in found.claims} if found else {}
    own = deciding(paper)
    lacking = [name for name in own if name not in tested]
    if not tested:
        return "not run", f"`mqlearn papers {paper.key} --store` runs it"
    if lacking:
        return "not run", f"{', '.join(lacking)} not yet; `mqlearn papers {paper.key} --store` runs it"
    checks = [check for name in own for check in tested[name].checks if not check.aside]
    holding = sum(check.outcome == HOLDS for check in checks)
    opposite = sum(check.outcome == FAILS for check in checks)
    counted = f"{holding} of {len(checks)} checks hold" + f", {opposite} the other way" * bool(opposite)
    if not own or paper.essential:
        unknown = ", ".join(one["setting"] for one in paper.essential)
        why = f"unknown: {unknown}" if unknown else "no number or ordering of its own was read"
        return "under our settings", why + f"; {counted}" * bool(checks)
    if holding == len(checks):
        return "reproduced", counted
    if holding:
        return "conditional", counted
    if opposite:
        return "not reproduced", counted
    return "undecided", f"{counted}; {_power(checks)}"


def deciding(paper: Paper) -> list[str]:
    """The claims that decide: what they test was read, not remembered, and the paper says it."""
    own = [name for name in paper.spec["claims"] if name not in paper.ours]
    return [name for name in own if any(str(one["mark"]) in READ for one in paper.reports(name))]


def _power(checks: Sequence[Any]) -> str:
    needed = [check.evidence["seeds_needed"] for check in checks if check.evidence.get("seeds_needed")]
    if not needed:
        return "how many seeds would show it is not known"
    return f"a power of 0.8 takes {min(needed)} to {max(needed)} seeds, if the differences are as observed"


def row(paper: Paper, found: Measured | None) -> dict[str, Any]:
    """A paper as plain data, for --json."""
    tested = {one.answer.claim.name: one.answer for one in found.claims} if found else {}
    claims = [
        {
            "name": name,
            "ours": name in paper.ours,
            "verdict": tested[name].verdict if name in tested else "not_run",
        }
        for name in paper.spec["claims"]
    ]
    return {
        "key": paper.key, "citation": paper.citation, "year": paper.spec["citation"]["year"],
        "experiments": list(paper.spec["experiments"]), "claims": claims, "verdict": verdict(paper, found)[0],
        "unknown": len(paper.unknown), "seconds": found.seconds if found else None,
    }  # fmt: skip


def difference(old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> str | None:
    """The first thing in which rows of claims differ: an outcome, or a number beyond its eight stored digits."""
    for before, after in zip(old, new, strict=True):
        if len(before["evidence"]) != len(after["evidence"]):
            return (
                f"{before['claim']}: {len(before['evidence'])} checks were stored, {len(after['evidence'])} were made"
            )
        for one, other in zip(before["evidence"], after["evidence"], strict=True):
            for name, value in one.items():
                now = other.get(name)
                near = isinstance(value, float | int) and isinstance(now, float | int)
                same = abs(value - now) <= _TOLERANCE * max(abs(value), abs(now)) if near else value == now
                if name != "digests" and not same:
                    return f"{before['claim']}, {one['conditions']}: {name} {value} was stored, {now} was found"
    return None


_TOLERANCE = 2e-8  # stored numbers have eight digits


def folder_of(root: Path) -> Path:
    """Where papers are stored below an outputs folder."""
    return root / "paper" / FIELD
