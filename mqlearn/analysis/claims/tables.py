"""Claims that were tested, as text for a terminal, plain data for JSON, and a Markdown table."""

import itertools
import json
import math
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np

from mqlearn.analysis.claims.answers import Stored
from mqlearn.analysis.claims.checks import FAILS, HOLDS, LEVEL, OPEN, ClaimCheck, conditions, holding_of
from mqlearn.analysis.claims.claim import ClaimAnswer
from mqlearn.analysis.claims.criteria import interval_within, percent
from mqlearn.analysis.comparison.columns import wrapped

LINES = 9  # of conditions in a cell of the table; beyond, they are told less finely
WORDS = {"reproduced": "reproduced", "not_reproduced": "not reproduced", "conditional": "conditional"}


def row(found: Stored) -> dict[str, Any]:
    """A claim as plain data: what it says, the verdict, the conditions, and every check with its evidence."""
    one, spec = found.answer, found.answer.claim.spec
    return {
        "claim": one.claim.name,
        "verdict": one.verdict,
        "holding": holding_of(one.checks)[0],
        "deciding": holding_of(one.checks)[1],
        "ours": bool(spec.get("ours")),
        "statement": " ".join(spec["statement"].split()),
        "place": spec["place"],
        "reading": one.reading,
        "conditions": one.conditions,
        "method": METHOD,
        "summary": brief(one.checks),
        "smoke": found.smoke,
        "data_digest": one.data_digest,
        "command": found.command,
        "versions": found.versions,
        "evidence": [
            {"conditions": check.conditions, "outcome": check.outcome}
            | check.evidence
            | ({"aside": True} if check.aside else {})
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
        word = {HOLDS: "hold" if len(group) > 1 else "holds", OPEN: "not shown", FAILS: "the other way"}[first.outcome]
        for kind, members in itertools.groupby(sorted(group, key=_kind), key=_kind):
            own = [check.evidence for check in members]
            unit = own[0].get("pooled", "seed")
            seeds = "" if kind.startswith("exact") else f", {_range([e['n_finite'] for e in own])} {unit}s"
            aside = " (beside the verdict)" if first.aside else ""
            lines.append(f"{about}{len(own)} {word}{aside}: {_numbers(kind, own)}{seeds}")
    return lines


def said(one: ClaimAnswer) -> str:
    """The verdict with the share of the checks that hold, where it is not all or none."""
    holding, total = holding_of(one.checks)
    return WORDS[one.verdict] + (f" ({holding} of {total} checks)" if one.verdict == "conditional" else "")


def place(one: ClaimAnswer) -> str:
    """Where the paper says it; a question of ours is marked."""
    return f"{'ours, on ' if one.claim.spec.get('ours') else ''}{one.claim.spec['place']}"


_KINDS = {
    "slope": "rate", "log_residual_ratio": "shape", "bound_at_T": "bound", "ratio_to_floor": "floor", "reason": "none",
    "measured_over_predicted": "predicted", "exact": "exact", "share_of_seeds": "ends",
    "measured_over_reported": "reported", "measured_exponent": "exponent", "exact_exponent": "exact exponent",
}  # fmt: skip


def _kind(check: ClaimCheck) -> str:
    return next((kind for name, kind in _KINDS.items() if name in check.evidence), "pair")


def _numbers(kind: str, own: Sequence[dict[str, Any]]) -> str:
    if kind == "rate":
        slopes, exponents = _range([e["slope"] for e in own]), _range([e["exponent"] for e in own])
        ends = _range([e[end] for e in own for end in ("low", "high")])
        return f"slope {slopes} (intervals within {ends}), of the theorem {exponents}"
    if kind == "shape":
        return f"log of residuals, power over exponential, {_range([e['log_residual_ratio'] for e in own])}"
    if kind == "bound":
        empty = sum(e["vacuous"] for e in own)
        least = _range([e["smallest_bound_over_initial_error"] for e in own])
        vacuous = f"; vacuous in {empty} of {len(own)}: the bound is {least} times the initial error at its least"
        return (
            f"error at most {_n(max(e['largest_error_over_bound'] for e in own))} of the bound{vacuous * bool(empty)}"
        )
    if kind == "predicted":
        ends = _range([e[end] for e in own for end in ("low", "high")])
        times = ", ".join(
            f"{name} {_range([e[f'{name}_efficiency'] for e in own])}" for name in ("predicted", "measured")
        )
        ratio = _range([e["measured_over_predicted"] for e in own])
        inside = f"{sum(map(interval_within, own))} of {len(own)} wholly within {percent(own[0]['tolerance'])}"
        return f"measured/predicted {ratio} (intervals within {ends}; {inside}); times the floor: {times}"
    if kind == "exponent":
        ends = _range([e[end] for e in own for end in ("low", "high")], 3)
        short = [f"{e['levels_used']} of {len(e['levels'])}" for e in own if e["levels_used"] < len(e["levels"])]
        lost = f"; through {', '.join(dict.fromkeys(short))} places, the others censored" if short else ""
        what = "difference of exponents" if "minus" in own[0] else "exponent"
        return f"{what} {_range([e['measured_exponent'] for e in own], 3)} (intervals within {ends}){lost}"
    if kind == "floor":
        ends = _range([e[end] for e in own for end in ("low", "high")])
        return (
            f"rms error {_range([e['ratio_to_floor'] for e in own])} times that of the floor (intervals within {ends})"
        )
    if kind == "exact":
        pairs = [f"{e['exact']:.8g} (reported {e['equals']:g})" for e in own]
        return f"{own[0]['value'].replace('_', ' ')} {', '.join(dict.fromkeys(pairs))}"
    if kind == "exact exponent":
        of = ", ".join(dict.fromkeys(e["value"].replace("_", " ") for e in own))
        return f"exponent of the {of} {_range([e['exact_exponent'] for e in own])}"
    if kind == "reported":
        ends = _range([e[end] for e in own for end in ("low", "high")], 3)
        against = _range([e["equals"] for e in own], 4)
        ratio = _range([e["measured_over_reported"] for e in own], 3)
        return f"measured, divided by {against}: {ratio} (intervals within {ends})"
    if kind == "ends":
        sides = " and ".join(f"{side} {own[0][side]:g}" for side in ("below", "above") if own[0][side] is not None)
        share, median = (_range([e[name] for e in own]) for name in ("share_of_seeds", "median_ratio"))
        return f"error at T over the initial one {sides} in a share {share} of the seeds (median {median})"
    if kind == "none":
        return own[0]["reason"]
    p = f"Holm's p {_range([e['p_corrected'] for e in own])}"
    if "ratio_of_spreads" in own[0]:
        return f"spread a/b {_range([e['ratio_of_spreads'] for e in own])}, {p}"
    if any(min(e["value_a"], e["value_b"]) < 0 for e in own):  # of which a ratio says nothing
        return f"{_of_both('mean', 'value', own)}, {_of_both('median', 'median', own)}, {p}"
    return f"mean a/b {_range([e['ratio'] for e in own])}{_heavy_tails(own)}, {p}"


def _of_both(word: str, name: str, own: Sequence[dict[str, Any]]) -> str:
    a, b = (_range([e[f"{name}_{side}"] for e in own], 3) for side in "ab")
    return f"{word} of a {a}, of b {b}"


def _heavy_tails(own: Sequence[dict[str, Any]]) -> str:
    """Where a few seeds make the means: the ratio of the medians, and how many seeds are on the other side."""
    ratios = [(e["margin"] * e["median_a"] / e["median_b"], e) for e in own if e.get("median_b")]
    moved = [(ratio, e) for ratio, e in ratios if e["ratio"] and not 0.5 <= abs(ratio / e["ratio"]) <= 2]
    if not moved:
        return ""
    text = f" (heavy tails in {len(moved)}: median a/b {_range([ratio for ratio, _ in moved])}"
    below = [e["pairs_with_a_below"] for _, e in moved if "pairs_with_a_below" in e]
    return text + (f", a below b in {_range(below)} pairs)" if below else ")")


def _range(values: Sequence[float], digits: int = 2) -> str:
    finite = [value for value in values if value is not None and math.isfinite(value)]
    if not finite:
        return "-"
    low, high = _n(min(finite), digits), _n(max(finite), digits)
    return low if low == high else f"{low} to {high}"


def _n(x: float, digits: int = 2) -> str:
    return str(x) if isinstance(x, int | np.integer) else f"{x:.{digits}g}"


def terminal(found: Sequence[Stored], *, width: int | None = None) -> str:
    """Verdicts first, then of each claim what was claimed, where it holds, and the evidence in short."""
    width = width or 120
    answers = [one.answer for one in found]
    longest = max(len(one.claim.name) for one in answers)
    lines = [f"{one.claim.name:{longest}}  {said(one)}" for one in answers]
    for one in answers:
        spec = one.claim.spec
        lines += ["", f"{one.claim.name}: {said(one)}", *wrapped(f"({place(one)})", width, "  ")]
        for text in (spec["statement"], f"Reading: {one.reading}"):
            lines += textwrap.wrap(" ".join(text.split()), width - 2, initial_indent="  ", subsequent_indent="  ")
        lines += [line for text in one.conditions for line in wrapped(f"- {text}", width, "  ")]
        lines += [line for text in brief(one.checks) for line in wrapped(f"= {text}", width, "  ")]
        lines.append(f"  data {one.data_digest[:16]}")
    lines += ["", *wrapped(LEGEND, width)]
    if any(one.smoke for one in found):
        lines.append("smoke=true: small settings, a trial of the tests. These verdicts say nothing of the paper.")
    return "\n".join(lines)


METHOD = (
    "pairs: difference of means a - margin b with its 95 % interval over seeds (t below 15 seeds, else BCa bootstrap), "
    "not corrected; p by the paired sign-flip test for common seeds, else by the permutation test; p_corrected by Holm "
    f"over all pairs of the claim; level {LEVEL:g}; seeds_needed: for a power of 0.8, if the difference is as "
    "observed. The sign-flip test supposes differences that are symmetric about 0 if nothing differs; medians are told "
    "beside the means. slopes: percentile bootstrap over seeds, all slopes of a check together at 95 % (Bonferroni). "
    "floors: root mean square error over seeds and pairs, times sqrt(T), over that of the least covariance, which is "
    "exact; bootstrap over seeds, likewise. shapes: log of the residual sum of squares of log error on log k, over "
    "that on k, interval likewise. A window named transient goes from half of the initial value to 10 times the mean "
    "over the second half of the run. "
    "reported: percentile bootstrap of the mean over seeds, over the reported value, likewise. "
    "exponents: least-squares slope of log mean error, or of log samples, over problems; percentile bootstrap over "
    "seeds, for all problems at once where they have the same seeds, likewise. "
    "predicted: normal interval over seeds of the error at the last iteration over the asymptotic one. "
    "digests: the first 16 digits of those of the runs"
)
LEGEND = (
    f"A check holds if the paired (common seeds) or unpaired permutation test of the means says so at level {LEVEL:g}, "
    "corrected by Holm over all pairs of its claim; the other way: the opposite is significant; not shown: neither. "
    "The paired test, sign-flip, supposes differences that are symmetric about 0 if nothing differs. reproduced: all "
    "hold; not reproduced: none; conditional: some, how many stands beside it. Checks beside the verdict do not decide "
    "it. The unit is the seed. --json FILE has every check."
)


def table(found: Sequence[Stored]) -> str:
    """A Markdown table: claim, place, verdict, conditions, evidence, digest of the data; then the readings."""
    answers = [one.answer for one in found]
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
            place(one),
            f"**{said(one)}**",
            "<br>".join(where),
            "<br>".join(brief(one.checks)),
            f"`{one.data_digest[:12]}`",
        )
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    commands = " and ".join(f"`{command}`" for command in dict.fromkeys(one.command for one in found))
    small = " Small settings: these verdicts say nothing of the paper." if any(one.smoke for one in found) else ""
    readings = [f"- `{one.claim.name}`: {one.reading}" for one in answers]
    return "\n".join([*lines, "", f"Made by {commands}.{small}", LEGEND, "", "How each was read:", "", *readings, ""])
