"""The verdict, first on the page: a sentence, a matrix for each block of comparable runs, and all numbers.

Verdicts are plain dicts with a, b, group, summary, verdict (a_better | b_better | no_difference | impossible | equal),
effect, low, high, p, p_corrected, paired and n_finite, as `mqlearn compare --json` writes them; others are not needed.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from mqlearn.analysis import axis as axes
from mqlearn.analysis.comparison import verdict_table
from mqlearn.analysis.comparison.wording import counted, unbeaten_words
from mqlearn.analysis.report.markup import number, render
from mqlearn.errors import SettingError

KINDS = tuple(verdict_table.WORDS)
_NEEDED = ("a", "b", "group", "verdict")
_SIGN = {"a_better": "▲", "b_better": "▼", "no_difference": "=", "impossible": "∅", "equal": "≈"}
_TURNED = {"a_better": "b_better", "b_better": "a_better"}
_LARGE = 14  # rules: beyond, a matrix is not read any more


def check(verdicts: Any, source: str) -> list[dict[str, Any]]:
    """The verdicts of a file. Raises SettingError if they are not what `mqlearn compare --json` writes."""
    problem = "must hold a list of verdicts, as `mqlearn compare --json FILE` writes it"
    if not isinstance(verdicts, list):
        raise SettingError("--verdicts", source, problem)
    for one in verdicts:
        if not isinstance(one, dict) or any(key not in one for key in _NEEDED) or one["verdict"] not in KINDS:
            raise SettingError("--verdicts", source, problem)
    return verdicts


def of(verdicts: Sequence[Mapping[str, Any]], reason: str = "") -> Markup:
    """The section. `reason`: why there are no verdicts, or only some."""
    said = [line.strip() for line in reason.split("\n") if line.strip()]
    if not verdicts:
        first, *rest = said or ["No comparison was asked."]
        return render("verdicts.html", headline=first, more=rest, blocks=[])
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for one in verdicts:
        groups.setdefault(str(one["group"]), []).append(one)
    blocks = [_block(name, members) for name, members in groups.items()]
    return render("verdicts.html", headline=counted(verdicts), more=said, blocks=blocks)


def _block(name: str, members: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    labels = list(dict.fromkeys(str(label) for one in members for label in (one["a"], one["b"])))
    known = {(str(one["a"]), str(one["b"])): one["verdict"] for one in members}
    known |= {(b, a): _TURNED.get(kind, kind) for (a, b), kind in known.items() if (b, a) not in known}
    wins = Counter(a for (a, _), kind in known.items() if kind == "a_better")
    losses = Counter(a for (a, _), kind in known.items() if kind == "b_better")
    ranked = sorted(labels, key=lambda a: (losses[a] - wins[a], labels.index(a)))
    first, beats = unbeaten_words(members)
    return {
        "name": name,
        "first": first,
        "beats": f"{beats}.",
        "matrix": _matrix(ranked, known) if 2 < len(labels) <= _LARGE else None,
        "reasons": _reasons(members),
        "head": verdict_table.head(members),
        "rows": verdict_table.cells(members, _STYLE),
        "caption": _caption(members[0]),
    }


def _reasons(members: Sequence[Mapping[str, Any]]) -> list[str]:
    """Each reason that is given, once, with the number of comparisons."""
    count: dict[tuple[str, str], int] = {}
    for one in members:
        if one.get("reason"):
            key = ("better" if one["verdict"].endswith("better") else one["verdict"], str(one["reason"]))
            count[key] = count.get(key, 0) + 1
    return [
        f"{kind.replace('_', ' ')}, {n} comparison{'s' * (n != 1)}: {reason}"
        for (kind, reason), n in sorted(count.items(), key=lambda item: -item[1])
    ]


_SAID = {
    "a_better": "better",
    "b_better": "worse",
    "no_difference": "no difference shown",
    "impossible": "impossible",
    "equal": "equal within margin",
}


def _matrix(labels: Sequence[str], known: Mapping[tuple[str, str], str]) -> dict[str, Any]:
    """Each rule in a row against each in a column."""

    def cell(a: str, b: str) -> dict[str, str]:
        kind = known.get((a, b))
        if kind is None:
            return {"kind": "", "sign": "·" if a != b else ""}
        return {"kind": kind, "sign": _SIGN[kind], "said": _SAID[kind], "title": f"{a}: {_SAID[kind]} ({b})"}

    rows = [{"label": a, "cells": [cell(a, b) for b in labels]} for a in labels]
    return {"labels": labels, "rows": rows, "key": [(kind, _SIGN[kind], _SAID[kind]) for kind in KINDS]}


_VERDICT = Markup('<b class="{}" aria-hidden="true">{} </b>{}')
_STYLE = verdict_table.Style(
    str, number, none="–", verdict=lambda kind, words: _VERDICT.format(kind, _SIGN[kind], words)
)


def _caption(first: Mapping[str, Any]) -> str:
    keys = ("effect_kind", "interval", "test", "correction")
    about = [str(first[key]).replace("_", " ") for key in keys if first.get(key)]
    where = "" if first.get("at") is None else axes.words(first.get("axis", "iterations"), number(first["at"]))
    return f"Summary: {first.get('summary', 'error')}{where and f' at {where}'}." + (
        f" {'; '.join(about)}." if about else ""
    )
