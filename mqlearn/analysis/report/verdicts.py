"""The verdict, first on the page: a sentence, a matrix for each block of comparable runs, and all numbers.

Verdicts are plain dicts with a, b, group, summary, verdict (a_better | b_better | no_difference | impossible), effect,
low, high, p, p_corrected, paired and n_finite, as `mqlearn compare --json` writes them; other keys are not needed.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from mqlearn.analysis.report.markup import Markup, details, join, number, section, table, tag
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
    """The section. Without verdicts it says why there are none."""
    if not verdicts:
        first, *rest = (reason or "No comparison was asked.").split("\n")
        more = tag("ul", [tag("li", line.strip()) for line in rest]) if rest else None
        return section("verdict", "Verdict", tag("p", first, class_="headline"), more)
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for one in verdicts:
        groups.setdefault(str(one["group"]), []).append(one)
    count = {kind: sum(one["verdict"] == kind for one in verdicts) for kind in KINDS}
    shown = count["a_better"] + count["b_better"]
    total = len(verdicts)
    headline = f"{shown} of {total} {'comparison shows' if total == 1 else 'comparisons show'} a difference"
    rest = [f"{count['no_difference']} show none"] * bool(count["no_difference"])
    rest += [f"{count['impossible']} impossible with this many seeds"] * bool(count["impossible"])
    blocks = [_block(name, members) for name, members in groups.items()]
    return section("verdict", "Verdict", tag("p", "; ".join([headline, *rest]) + ".", class_="headline"), blocks)


def _block(name: str, members: Sequence[Mapping[str, Any]]) -> Markup:
    labels = list(dict.fromkeys(str(label) for one in members for label in (one["a"], one["b"])))
    known = {(str(one["a"]), str(one["b"])): one["verdict"] for one in members}
    known |= {(b, a): _TURNED.get(kind, kind) for (a, b), kind in known.items() if (b, a) not in known}
    wins = {a: sum(known.get((a, b)) == "a_better" for b in labels) for a in labels}
    losses = {a: sum(known.get((a, b)) == "b_better" for b in labels) for a in labels}
    ranked = sorted(labels, key=lambda a: (losses[a] - wins[a], labels.index(a)))
    parts: list[Any] = [tag("h3", name)]
    unbeaten = [a for a in ranked if wins[a] and not losses[a]]
    if unbeaten:
        best = max(wins[a] for a in unbeaten)
        first = [a for a in unbeaten if wins[a] == best]
        text = f" {'is' if len(first) == 1 else 'are'} better than {best} {'rival' if best == 1 else 'rivals'}"
        each = " each" if len(first) > 1 else ""
        parts.append(tag("p", tag("strong", _listed(first)), f"{text}{each} and worse than none."))
    if 2 < len(labels) <= _LARGE:
        parts.append(_matrix(ranked, known))
    several = details(f"All {len(members)} comparisons with effects and p values", _table(members))
    parts += [_reasons(members), several if len(members) > 3 else _table(members)]
    return tag("div", parts, class_="block")


def _reasons(members: Sequence[Mapping[str, Any]]) -> Markup:
    """Each reason that is given, once, with the number of comparisons."""
    count: dict[tuple[str, str], int] = {}
    for one in members:
        if one.get("reason"):
            key = ("better" if one["verdict"].endswith("better") else one["verdict"], str(one["reason"]))
            count[key] = count.get(key, 0) + 1
    lines = [
        tag("li", f"{kind.replace('_', ' ')}, {n} comparison{'s' * (n != 1)}: {reason}")
        for (kind, reason), n in sorted(count.items(), key=lambda item: -item[1])
    ]
    return tag("ul", lines, class_="quiet")


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _matrix(labels: Sequence[str], known: Mapping[tuple[str, str], str]) -> Markup:
    said = {
        "a_better": "better",
        "b_better": "worse",
        "no_difference": "no difference shown",
        "impossible": "impossible",
    }

    def cell(a: str, b: str) -> Markup:
        kind = known.get((a, b))
        if kind is None:
            return tag("td", tag("span", "·" if a != b else "", aria_hidden="true"))
        sign = tag("span", _SIGN[kind], aria_hidden="true")
        return tag("td", sign, tag("span", said[kind], class_="spoken"), class_=kind, title=f"{a}: {said[kind]} ({b})")

    numbers = [tag("th", tag("abbr", i, title=label), scope="col") for i, label in enumerate(labels, 1)]
    head = tag("thead", tag("tr", tag("th", "row against column", scope="col"), numbers))
    body = [
        tag("tr", tag("th", tag("span", f"{i}", class_="rank"), f" {a}", scope="row"), [cell(a, b) for b in labels])
        for i, a in enumerate(labels, 1)
    ]
    key = [tag("span", tag("b", _SIGN[kind], class_=kind), f" {said[kind]}") for kind in KINDS]
    box = tag("div", tag("table", head, tag("tbody", body), class_="matrix"), class_="scroll", tabindex=0, role="group")
    return join([box, tag("p", key, class_="key")])


def _table(members: Sequence[Mapping[str, Any]]) -> Markup:
    def row(one: Mapping[str, Any]) -> list[Any]:
        sign = tag("b", f"{_SIGN[one['verdict']]} ", class_=one["verdict"], aria_hidden="true")
        interval = one.get("low") is not None and one.get("high") is not None
        effect = number(one.get("effect"))
        effect += f" [{number(one['low'])}, {number(one['high'])}]" if interval else ""
        paired = "–" if one.get("paired") is None else "paired" if one["paired"] else "unpaired"
        seeds = one.get("n_finite")
        needed = one.get("seeds_needed")
        return [
            f"{one['a']} against {one['b']}",
            [sign, words(one)],
            effect,
            number(one.get("p"), 3),
            number(one.get("p_corrected"), 3),
            paired,
            " of ".join(map(str, seeds)) if isinstance(seeds, list) else number(seeds),
            "–" if needed is None else number(needed),
        ]

    first = members[0]
    about = [
        str(first[key]).replace("_", " ") for key in ("effect_kind", "interval", "test", "correction") if first.get(key)
    ]
    kind = first.get("summary", "error")
    caption = f"Summary: {kind}." + (f" {'; '.join(about)}." if about else "")
    head = ("a against b", "verdict", "effect [interval]", "p", "p corrected", "seeds", "finite", "seeds needed")
    return table(head, map(row, members), caption=caption, class_="numbers")
