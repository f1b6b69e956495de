"""The verdict, first on the page: a sentence, a matrix for each block of comparable runs, and all numbers.

Verdicts are plain dicts with a, b, group, summary, verdict (a_better | b_better | no_difference | impossible), effect,
low, high, p, p_corrected, paired and n_finite, as `mqlearn compare --json` writes them; other keys are not needed.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from mqlearn.analysis import axis as axes
from mqlearn.analysis.comparison.wording import unbeaten
from mqlearn.analysis.report.markup import number, render
from mqlearn.errors import SettingError

KINDS = ("a_better", "b_better", "no_difference", "impossible")
_NEEDED = ("a", "b", "group", "verdict")
_SIGN = {"a_better": "▲", "b_better": "▼", "no_difference": "=", "impossible": "∅"}
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


def words(one: Mapping[str, Any]) -> str:
    """A verdict as a sentence's end."""
    return {
        "a_better": f"{one['a']} is better",
        "b_better": f"{one['b']} is better",
        "no_difference": "no difference shown",
        "impossible": "impossible with this many seeds",
    }[one["verdict"]]


def of(verdicts: Sequence[Mapping[str, Any]], reason: str = "") -> Markup:
    """The section. `reason`: why there are no verdicts, or only some."""
    if not verdicts:
        first, *rest = (reason or "No comparison was asked.").split("\n")
        return render("verdicts.html", headline=first, more=[line.strip() for line in rest], blocks=[])
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for one in verdicts:
        groups.setdefault(str(one["group"]), []).append(one)
    count = {kind: sum(one["verdict"] == kind for one in verdicts) for kind in KINDS}
    shown = count["a_better"] + count["b_better"]
    total = len(verdicts)
    headline = f"{shown} of {total} {'comparison shows' if total == 1 else 'comparisons show'} a difference"
    rest = [f"{count['no_difference']} show none"] * bool(count["no_difference"])
    rest += [f"{count['impossible']} impossible with this many seeds"] * bool(count["impossible"])
    said = [line.strip() for line in reason.split("\n") if line.strip()]
    blocks = [_block(name, members) for name, members in groups.items()]
    return render("verdicts.html", headline="; ".join([headline, *rest]) + ".", more=said, blocks=blocks)


def _block(name: str, members: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    labels = list(dict.fromkeys(str(label) for one in members for label in (one["a"], one["b"])))
    known = {(str(one["a"]), str(one["b"])): one["verdict"] for one in members}
    known |= {(b, a): _TURNED.get(kind, kind) for (a, b), kind in known.items() if (b, a) not in known}
    wins = {a: sum(known.get((a, b)) == "a_better" for b in labels) for a in labels}
    losses = {a: sum(known.get((a, b)) == "b_better" for b in labels) for a in labels}
    ranked = sorted(labels, key=lambda a: (losses[a] - wins[a], labels.index(a)))
    first, best = unbeaten(members)
    beats = f" {'is' if len(first) == 1 else 'are'} better than {best} {'rival' if best == 1 else 'rivals'}"
    beats += f"{' each' if len(first) > 1 else ''} and worse than none."
    return {
        "name": name,
        "first": _listed(first) if first else "",
        "beats": beats,
        "matrix": _matrix(ranked, known) if 2 < len(labels) <= _LARGE else None,
        "reasons": _reasons(members),
        "head": _HEAD,
        "rows": [_row(one) for one in members],
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


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


_SAID = {
    "a_better": "better",
    "b_better": "worse",
    "no_difference": "no difference shown",
    "impossible": "impossible",
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


_HEAD = ("a against b", "verdict", "effect [interval]", "p", "p corrected", "seeds", "finite", "seeds needed")
_VERDICT = Markup('<b class="{}" aria-hidden="true">{} </b>{}')


def _row(one: Mapping[str, Any]) -> list[Any]:
    interval = one.get("low") is not None and one.get("high") is not None
    effect = number(one.get("effect"))
    effect += f" [{number(one['low'])}, {number(one['high'])}]" if interval else ""
    seeds, needed = one.get("n_finite"), one.get("seeds_needed")
    return [
        f"{one['a']} against {one['b']}",
        _VERDICT.format(one["verdict"], _SIGN[one["verdict"]], words(one)),
        effect,
        number(one.get("p"), 3),
        number(one.get("p_corrected"), 3),
        "–" if one.get("paired") is None else "paired" if one["paired"] else "unpaired",
        " of ".join(map(str, seeds)) if isinstance(seeds, list) else number(seeds),
        "–" if needed is None else number(needed),
    ]


def _caption(first: Mapping[str, Any]) -> str:
    keys = ("effect_kind", "interval", "test", "correction")
    about = [str(first[key]).replace("_", " ") for key in keys if first.get(key)]
    where = "" if first.get("at") is None else axes.words(first.get("axis", "iterations"), number(first["at"]))
    return f"Summary: {first.get('summary', 'error')}{where and f' at {where}'}." + (
        f" {'; '.join(about)}." if about else ""
    )
