"""Claims that were tested, as text for a terminal, plain data for JSON, and a Markdown table."""

import itertools
import json
import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mqlearn.analysis.claims.checks import FAILS, HOLDS, LEVEL, OPEN, ClaimCheck, conditions
from mqlearn.analysis.claims.claim import ClaimAnswer

LINES = 9  # of conditions in a cell of the table; beyond, they are told less finely
WORDS = {"reproduced": "reproduced", "not_reproduced": "not reproduced", "conditional": "conditional"}


def row(one: ClaimAnswer, command: str, versions: Mapping[str, str], *, smoke: bool) -> dict[str, Any]:
    """A claim as plain data: what it says, the verdict, the conditions, and every check with its evidence."""
    spec = one.claim.spec
    return {
        "claim": one.claim.name,
        "verdict": one.verdict,
        "statement": " ".join(spec["statement"].split()),
        "place": spec["place"],
        "reading": " ".join(spec["reading"].split()),
        "conditions": one.conditions,
        "method": METHOD,
        "summary": brief(one.checks),
        "smoke": smoke,
        "data_digest": one.data_digest,
        "command": command,
        "versions": dict(versions),
        "evidence": [
            {"conditions": check.conditions, "outcome": check.outcome}
            | check.evidence
            | {"digests": [digest[:16] for digest in check.evidence["digests"]]}
            for check in one.checks
        ],
    }


def json_text(rows: Sequence[dict[str, Any]]) -> str:
    """The rows as JSON, every check on a line of its own, with eight digits."""
    from mqlearn.storage.runs import plain

    def rounded(check: dict[str, Any]) -> dict[str, Any]:
        return {name: float(f"{x:.8g}") if isinstance(x, float) else x for name, x in check.items()}

    def text(node: Any, indent: int | None = None) -> str:
        return json.dumps(plain(node, finite=True), indent=indent, ensure_ascii=False, allow_nan=False)

    whole = []
    for one in rows:
        head = text({name: value for name, value in one.items() if name != "evidence"}, 1)
        whole.append(
            head.removesuffix("\n}")
            + ',\n "evidence": [\n'
            + ",\n".join(map(text, map(rounded, one["evidence"])))
            + "\n ]\n}"
        )
    return "[\n" + ",\n".join(whole) + "\n]\n"


def brief(checks: Sequence[ClaimCheck]) -> list[str]:
    """The evidence in a few lines: for each quantity and outcome how many, how large, how sure, how many seeds."""
    lines = []
    groups = [
        [check for check in checks if check.conditions.get("quantity", "") == quantity and check.outcome == outcome]
        for quantity in dict.fromkeys(check.conditions.get("quantity", "") for check in checks)
        for outcome in (HOLDS, OPEN, FAILS)
    ]
    for group in filter(None, groups):
        first = group[0]
        about = f"{first.conditions['quantity']}: " if "quantity" in first.conditions else ""
        word = {HOLDS: "hold", OPEN: "not shown", FAILS: "the other way"}[first.outcome]
        for kind, members in itertools.groupby(sorted(group, key=_kind), key=_kind):
            own = [check.evidence for check in members]
            seeds = _range([e["n_finite"] for e in own])
            lines.append(f"{about}{len(own)} {word}: {_numbers(kind, own)}, {seeds} seeds")
    return lines


def _kind(check: ClaimCheck) -> str:
    return "rate" if "slope" in check.evidence else "bound" if "bound_at_T" in check.evidence else "pair"


def _numbers(kind: str, own: Sequence[dict[str, Any]]) -> str:
    if kind == "rate":
        slopes, exponents = _range([e["slope"] for e in own]), _range([e["exponent"] for e in own])
        ends = _range([e[end] for e in own for end in ("low", "high")])
        return f"slope {slopes} (intervals within {ends}), of the theorem {exponents}"
    if kind == "bound":
        return f"error at most {_n(max(e['largest_error_over_bound'] for e in own))} of the bound"
    ratio = "ratio_of_spreads" if "ratio_of_spreads" in own[0] else "ratio"
    name = "spread a/b" if ratio == "ratio_of_spreads" else "mean a/b"
    return f"{name} {_range([e[ratio] for e in own])}, Holm's p {_range([e['p_corrected'] for e in own])}"


def _range(values: Sequence[float]) -> str:
    finite = [value for value in values if value is not None and math.isfinite(value)]
    if not finite:
        return "-"
    low, high = _n(min(finite)), _n(max(finite))
    return low if low == high else f"{low} to {high}"


def _n(x: float) -> str:
    return str(x) if isinstance(x, int | np.integer) else f"{x:.2g}"


def terminal(answers: Sequence[ClaimAnswer], *, smoke: bool) -> str:
    """Verdict first, then what was claimed, where it holds, and the evidence in short."""
    width = max(len(one.claim.name) for one in answers)
    lines = [f"{one.claim.name:{width}}  {WORDS[one.verdict]}" for one in answers]
    for one in answers:
        lines += ["", f"{one.claim.name}: {WORDS[one.verdict]}", f"  ({one.claim.spec['place']})"]
        lines += textwrap.wrap(
            " ".join(one.claim.spec["statement"].split()), 118, initial_indent="  ", subsequent_indent="  "
        )
        lines += textwrap.wrap(
            "Reading: " + " ".join(one.claim.spec["reading"].split()), 118, initial_indent="  ", subsequent_indent="  "
        )
        lines += [f"  - {text}" for text in one.conditions]
        lines += [f"  = {text}" for text in brief(one.checks)]
        lines.append(f"  data {one.data_digest[:16]}")
    lines += ["", LEGEND]
    if smoke:
        lines.append("smoke=true: small settings, a trial of the tests. These verdicts say nothing of the paper.")
    return "\n".join(lines)


METHOD = (
    "pairs: difference of means a - margin b with its 95 % BCa bootstrap interval over seeds, not corrected; p by the "
    "paired sign-flip test for common seeds, else by the permutation test; p_corrected by Holm over all pairs of the "
    f"claim; level {LEVEL:g}; seeds_needed: for a power of 0.8, if the difference is as observed. slopes: percentile "
    "bootstrap over seeds, all slopes of a check together at 95 % (Bonferroni). digests: the first 16 digits of those "
    "of the runs"
)
LEGEND = (
    f"A check holds if the paired (common seeds) or unpaired permutation test of the means says so at level {LEVEL:g}, "
    "corrected by Holm\nover all pairs of its claim; the other way: the opposite is significant; not shown: neither. "
    "reproduced: all hold; not\nreproduced: none; conditional: some. The unit is the seed. --json FILE has every check."
)


def table(answers: Sequence[ClaimAnswer], command: str, *, smoke: bool) -> str:
    """A Markdown table: claim, place, verdict, conditions, evidence, digest of the data."""
    lines = [
        "| claim | place in the paper | verdict | where | evidence | data |",
        "|---|---|---|---|---|---|",
    ]
    for one in answers:
        statement = " ".join(one.claim.spec["statement"].split())
        told = [conditions(one.checks, one.claim.spec.get("by", ()), depth=depth) for depth in (3, 2, 1)]
        where = next((lines for lines in told if len(lines) <= LINES), told[-1])
        cells = (
            f"`{one.claim.name}`: {statement}",
            one.claim.spec["place"],
            f"**{WORDS[one.verdict]}**",
            "<br>".join(where),
            "<br>".join(brief(one.checks)),
            f"`{one.data_digest[:12]}`",
        )
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    said = f"Made by `{command}`." + (" Small settings: these verdicts say nothing of the paper." if smoke else "")
    return "\n".join([*lines, "", said, " ".join(LEGEND.split()), ""])
