"""Verdicts as text for a terminal: the answer first, then the pairs of each block, then how to read them."""

import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from mqlearn.analysis.comparison import verdict_table
from mqlearn.analysis.comparison.columns import wrapped
from mqlearn.analysis.comparison.comparison import Verdict, row
from mqlearn.analysis.comparison.seed_values import Question
from mqlearn.analysis.comparison.wording import asked, summary
from mqlearn.analysis.statistics.intervals import METHOD_NAMES, coverage_words, method_for


def terminal(
    verdicts: Sequence[Verdict],
    question: Question,
    *,
    heads: Mapping[str, str] | None = None,
    notes: Sequence[str] = (),
    lead: str = "",
    width: int | None = None,
) -> str:
    """The answer in the first lines, then all verdicts, block by block, each under its head, and how to read them.

    lead: what must be known before the answer is read, such as the axis.
    """
    heads, rows = dict(heads or {}), [row(verdict) for verdict in verdicts]
    lines = [line for text in [*lead.splitlines(), *summary(rows)] for line in wrapped(text, width)]
    lines += [""] * bool(lines)
    for block in [block for block in heads if block not in {one["group"] for one in rows}]:
        lines += [*wrapped(f"[{block}]", width), heads.pop(block), ""]
    left: list[str] = []
    for (block, at, metric), members in groupby(rows, verdict_table.block_of):
        own = list(members)
        lines += wrapped(f"[{block}]", width)
        if block in heads:
            lines += [heads.pop(block), ""]
        lines += wrapped(f"{asked(question, metric, at)}; pairs:", width)
        table, dropped = verdict_table.terminal(own, width)
        lines += [*table, *_remarks(own, width), ""]
        left += [name for name in dropped if name not in left]
    if left:
        lines += wrapped(f"Left out to fit {width} columns: {', '.join(left)}; --csv and --json have all.", width)
    for text in [*_legend(verdicts, question), *(f"note: {note}" for note in notes)]:
        for part in text.split("\n"):  # a command stays whole, to be copied
            lines += [part] if part.lstrip().startswith("mqlearn ") else wrapped(part, width)
    return "\n".join(lines)


def _remarks(rows: Sequence[Mapping[str, Any]], width: int | None) -> list[str]:
    """What must be said of some pairs, each remark once, with the pairs that it is about."""
    remarks: dict[str, list[str]] = {}
    labels = {one[side] for one in rows for side in "ab"}
    for one in rows:
        reason = [one["reason"]] if one["verdict"] in ("impossible", "equal") or one["deterministic"] else []
        for remark in [*one["notes"], *reason]:
            remarks.setdefault(remark, []).append(f"{one['a']} | {one['b']}")
    lines = []
    for remark, of in remarks.items():
        whole = len(of) == len(rows) or len(of) > 3 or remark.partition(":")[0] in labels
        lines += wrapped(f"* {remark}" + ("" if whole else f"  ({'; '.join(of)})"), width, "  ")
    return lines


def _legend(verdicts: Sequence[Verdict], question: Question) -> list[str]:
    """How the numbers are to be read: signs, intervals and their coverage, tests and what they assume."""
    if not verdicts:
        return []
    signs = {"return": "a - b positive: a has the greater return", "time": "a / b below 1: a arrives earlier"}
    sign = signs.get(question.summary, "a - b negative: a has less error")
    lines = [f"{verdicts[0].tested.effect.kind}; {sign}. Intervals are of a pair alone: {_interval_names(verdicts)}."]
    of = {(v.tested.evidence.paired, v.tested.evidence.test.method) for v in verdicts if not math.isnan(v.p_corrected)}
    if of:
        tests = [f"{'paired' if paired else 'unpaired'} {method}" for paired, method in sorted(of)]
        lines.append(f"p, two-sided: {'; '.join(tests)}. {_assumed(of)}")
        corrected = "p Holm" if question.margin is None else "p Bonferroni"
        unit = "The unit is the seed; evaluation episodes are not seeds."
        lines.append(f"Verdict at level {question.level:g} by {corrected}. {unit}")
    if question.margin is not None:
        lines.append(
            f"equal within margin: the mean of neither is {question.margin:g} times that of the other, by two "
            "one-sided tests on the same seeds, corrected as p is."
        )
    lines += [f"Pairs: {why}." for why in dict.fromkeys(v.tested.evidence.pairing for v in verdicts)]
    open_ = [v for v in verdicts if v.verdict in ("no_difference", "impossible") and not v.tested.deterministic]
    if of and open_:
        lines.append(
            "needed: so many seeds of each rule find the difference with probability 0.8 if it is as observed, "
            f"at Holm's strictest step: level {question.level:g} over the number of comparisons (?: unknown)."
        )
    if any(side.n_finite < side.n_seeds for v in verdicts for side in (v.tested.a, v.tested.b)):
        lines.append(f"Diverged seeds: diverged={question.diverged} (worst | censored | excluded).")
    return lines


def _interval_names(verdicts: Sequence[Verdict]) -> str:
    """The kinds of interval in use, each with how often it covers a mean at the fewest seeds that it is used for."""
    fewest: dict[str, int] = {}
    for v in verdicts:
        if not math.isnan(v.tested.effect.low):
            n = min(len(v.tested.evidence.a), len(v.tested.evidence.b))
            method = method_for(v.tested.question.interval, n)
            fewest[method] = min(n, fewest.get(method, n))
    question = verdicts[0].tested.question
    level = 1 - question.level
    texts = [
        f"{100 * level:g} % {METHOD_NAMES[method]}{coverage_words(method, n, level)}" for method, n in fewest.items()
    ]
    return "; ".join(texts) or "none"


def _assumed(tests: set[tuple[bool, str]]) -> str:
    """What the tests take for granted if there is no difference."""
    kinds = {paired for paired, _ in tests}
    texts = ["differences of a pair that are symmetric about 0 (sign-flip)"] * (True in kinds)
    texts += ["seeds of both runs that have one distribution (permutation)"] * (False in kinds)
    return f"If nothing differs they suppose {' and '.join(texts)}."
