"""Papers as text: the list, a page each, and the README of outputs/paper/field."""

from collections.abc import Mapping, Sequence
from typing import Any

from mqlearn.analysis.claims.answers import Stored
from mqlearn.analysis.claims.checks import holding_of
from mqlearn.analysis.claims.tables import WORDS, brief, said
from mqlearn.analysis.comparison.columns import wrapped
from mqlearn.analysis.papers.paper import MARKS, Paper
from mqlearn.analysis.papers.results import VERDICTS, Measured, row, verdict

_SHARE = (
    "The claims of a paper share the level 0.05 among them (Bonferroni). Within a claim all pairs are corrected "
    "together (Holm), and the intervals of each of its other checks hold together (Bonferroni). There is no correction "
    "over papers, and no statement about all of them together. g is the discount, k the iteration, T the last one, "
    "Q_0 the initial table; a/b is what the first rule of a comparison has on average, over what its rival has; a "
    "question of ours is a control that the paper leaves out, and decides no verdict."
)
Pair = tuple[Paper, Measured | None]


def listed(some: Sequence[Pair], width: int | None = None) -> str:
    """One line a paper, then what the words mean."""
    rows = [row(*one) for one in some]
    names = max((len(one["key"]) for one in rows), default=0)
    words = max((len(one["verdict"]) for one in rows), default=0)
    lines = []
    for (paper, _), one in zip(some, rows, strict=True):
        citation = paper.spec["citation"]
        own = [claim for claim in one["claims"] if not claim["ours"]]
        ours = [claim for claim in one["claims"] if claim["ours"]]
        counted = ", ".join(
            f"{sum(claim['verdict'] == 'reproduced' for claim in group)} of {len(group)} {what}"
            for group, what in ((own, "claims hold"), (ours, "of ours"))
            if group
        )
        who = f"{citation['authors']} {citation['year']}"
        told = f"{one['key']:{names}}  {one['verdict']:{words}}  {who}; {counted or 'no claim'}"
        lines += wrapped(told, width)
    used = [word for word in VERDICTS if any(one["verdict"] == word for one in rows)]
    legend = "; ".join(f"{word}: {VERDICTS[word]}" for word in used)
    return "\n".join(
        [
            *lines,
            "",
            *wrapped(f"{legend[:1].upper()}{legend[1:]}.", width),
            *wrapped("mqlearn papers KEY prints the page of one.", width),
        ]
    )


def page(paper: Paper, found: Measured | None, width: int | None = None) -> str:
    """Settings, unknowns and our choices, what is reported beside what is measured, the verdict, the commands."""
    lines = []
    for level, text in _content(paper, found):
        lines += ["", text.upper()] if level == "head" else wrapped(text, width, "  " * (level == "item"))
    return "\n".join([*lines, "", *wrapped(_SHARE, width)])


def markdown(some: Sequence[Pair]) -> str:
    """README.md of outputs/paper/field."""
    lines = [
        "# Papers of the field",
        "",
        "Made by `scripts/reproduce papers`, from the yamls in `conf/paper` and the files beside this page. "
        "What others report stands beside what is measured here, under their settings as far as they are known. "
        + _SHARE,
        "",
        "| paper | verdict | why | claims of its own that hold | questions of ours answered yes |",
        "|---|---|---|---|---|",
    ]
    for paper, found in some:
        one = row(paper, found)
        cells = [f"[{paper.key}](#{paper.key})", f"**{one['verdict']}**", verdict(paper, found)[1]]
        for ours in (False, True):
            group = [claim for claim in one["claims"] if claim["ours"] is ours]
            cells.append(
                f"{sum(claim['verdict'] == 'reproduced' for claim in group)} of {len(group)}" if group else "-"
            )
        lines.append(f"| {' | '.join(cells)} |")
    for paper, found in some:
        lines += ["", f"## {paper.key}", ""]
        for level, text in _content(paper, found):
            text = f"<{text}>" if text == paper.address else text
            lines += ["", f"**{text}**", ""] if level == "head" else [f"{'- ' * (level == 'item')}{text}"]
        for file in paper.pictures.values() if found is not None else ():
            lines += ["", f"![{file.removesuffix('.png')}]({file})"]
    return "\n".join(line.rstrip() for line in lines).replace("\n\n\n", "\n\n") + "\n"


def _content(paper: Paper, found: Measured | None) -> list[tuple[str, str]]:
    """(head | text | item, text) of a page."""
    spec, (word, why) = paper.spec, verdict(paper, found)
    told = [("text", paper.citation), *([("text", paper.address)] if paper.address else [])]
    told.append(("text", f"Verdict: {word} ({why})."))
    if spec["read"]:
        told.append(("text", "Read: " + "; ".join(f"{one['what']} ({_mark(one)})" for one in spec["read"]) + "."))
    known = [one for one in spec["settings"] if "choice" not in one]
    told += _group("Settings", [f"{one['setting']}: {one['value']} ({one['place']}; {_mark(one)})" for one in known])
    chosen = [
        f"{one['setting']}: {one['choice']}; why: {one['why']}"
        + ("" if one.get("essential", True) else " (no verdict depends on it)")
        for one in paper.unknown
    ]
    told += _group("Unknown, and what was chosen", chosen)
    told += _group(
        "Reported", [f"{one['quantity']}: {one['value']} ({one['place']}; {_mark(one)})" for one in spec["reported"]]
    )
    if found is not None:
        for one in found.claims:
            told += _claim(paper, one)
        told.append(("text", f"Its runs took {found.seconds:.0f} s together, each on one core."))
    commands = [f"mqlearn claims --paper {paper.key}"] * bool(spec["claims"])
    commands += [f"mqlearn figure {name}" for name in spec["experiments"]]
    return told + _group("Commands", [f"`{text}`" for text in commands])


def _claim(paper: Paper, one: Stored) -> list[tuple[str, str]]:
    answer = one.answer
    ours = answer.claim.name in paper.ours
    holding, total = holding_of(answer.checks)
    head = f"{'A question of ours' if ours else 'What it says, tested'}: {answer.claim.name}"
    told = [("head", head), ("text", " ".join(answer.claim.spec["statement"].split()))]
    told += [
        ("item", f"reported: {entry['quantity']}: {entry['value']} ({_mark(entry)})")
        for entry in paper.reports(answer.claim.name)
    ]
    told += [("item", f"measured: {text}") for text in brief(answer.checks)]
    told.append(
        (
            "item",
            f"{said(answer)}: {'; '.join(answer.conditions)}"
            if holding not in (0, total)
            else f"{WORDS[answer.verdict]} ({holding} of {total} checks hold)",
        )
    )
    told.append(("item", f"read as: {answer.reading}"))
    return told


def _group(head: str, items: Sequence[str]) -> list[tuple[str, str]]:
    return [("head", head), *(("item", text) for text in items)] if items else []


def _mark(entry: Mapping[str, Any]) -> str:
    return MARKS[str(entry["mark"])]
