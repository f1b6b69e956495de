"""Verdicts as text for a terminal, rows for JSON and CSV, and a LaTeX table."""

import csv as csv_module
import io
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from mqlearn.analysis.comparison.columns import aligned, wrapped
from mqlearn.analysis.comparison.comparison import Verdict, row
from mqlearn.analysis.comparison.seed_values import Question, common_checkpoint, gone_by, metric_of, summarise
from mqlearn.analysis.statistics.intervals import (
    CENTRES,
    FEW,
    METHOD_NAMES,
    bootstrap_interval,
    coverage_words,
    method_for,
)

WORDS = {
    "a_better": "a better",
    "b_better": "b better",
    "no_difference": "no difference shown",
    "impossible": "impossible",
}
# What a narrow terminal leaves out, first to last; all of it is in --csv and --json.
_DROP = ("p", "needed", "mean a", "median a", "mean b", "median b", "interval")
_DROP_RUNS = ("interquartile mean", "median")


def terminal(
    verdicts: Sequence[Verdict],
    question: Question,
    *,
    heads: Mapping[str, str] | None = None,
    notes: Sequence[str] = (),
    width: int | None = None,
) -> str:
    """The answer in the first lines, then all verdicts, block by block, each under its head, and how to read them."""
    heads = dict(heads or {})
    lines = [line for text in summary(verdicts, question) for line in wrapped(text, width)]
    lines += [""] * bool(lines)
    for block in [block for block in heads if block not in {v.tested.group for v in verdicts}]:
        lines += [*wrapped(f"[{block}]", width), heads.pop(block), ""]
    left: list[str] = []
    for (block, at, metric), members in groupby(verdicts, lambda v: (v.tested.group, v.tested.at, v.tested.metric)):
        own = list(members)
        lines += wrapped(f"[{block}]", width)
        if block in heads:
            lines += [heads.pop(block), ""]
        lines += [f"{asked(question, metric, at)}; pairs:"]
        table, dropped = aligned(
            [_HEADER[question.is_ratio], *(_cells(v, question) for v in own)], width, _DROP, ("a", "b")
        )
        lines += [*table, *_remarks(own, width), ""]
        left += [name for name in dropped if name not in left]
    if left:
        lines += wrapped(f"Left out to fit {width} columns: {', '.join(left)}; --csv and --json have all.", width)
    for text in [*_legend(verdicts, question), *(f"note: {note}" for note in notes)]:
        lines += [line for part in text.split("\n") for line in wrapped(part, width)]
    return "\n".join(lines)


def _remarks(verdicts: Sequence[Verdict], width: int | None) -> list[str]:
    """What must be said of some pairs, each remark once, with the pairs that it is about."""
    remarks: dict[str, list[str]] = {}
    labels = {side.label for v in verdicts for side in (v.tested.a, v.tested.b)}
    for v in verdicts:
        reason = [v.reason] if v.verdict == "impossible" or v.tested.deterministic else []
        for remark in [*v.tested.notes, *reason]:
            remarks.setdefault(remark, []).append(f"{v.tested.a.label} | {v.tested.b.label}")
    lines = []
    for remark, of in remarks.items():
        whole = len(of) == len(verdicts) or len(of) > 3 or remark.partition(":")[0] in labels
        lines += wrapped(f"* {remark}" + ("" if whole else f"  ({'; '.join(of)})"), width, "  ")
    return lines


def summary(verdicts: Sequence[Verdict], question: Question) -> list[str]:
    """The answer in short: how many comparisons, what they show, and in each block the rules that none beats."""
    if not verdicts:
        return []
    count = Counter(v.verdict for v in verdicts)
    shown, total = count["a_better"] + count["b_better"], len(verdicts)
    parts = [f"{shown} of {total} comparison{'s' * (total != 1)} show{'s' * (total == 1)} a difference"]
    parts += [f"{count['no_difference']} show none"] * bool(count["no_difference"])
    parts += [f"{count['impossible']} impossible with so many seeds"] * bool(count["impossible"])
    lines = [f"{'; '.join(parts)}. {_families(verdicts)}"]
    rows = [row(v) for v in verdicts]
    for block, members in groupby(rows, lambda one: one["group"]):
        lines.append(f"[{block}] {unbeaten_words(list(members))}")
    return lines if len(lines) <= 12 else [*lines[:12], f"and {len(lines) - 12} blocks more, below"]


def unbeaten_words(members: Sequence[Mapping[str, Any]]) -> str:
    """Of one block's verdicts as plain data: which rule is better than most others, and worse than none."""
    first, wins = unbeaten(members)
    if not first:
        return "no rule is shown to be better than another"
    listed = first[0] if len(first) == 1 else f"{', '.join(first[:-1])} and {first[-1]}"
    verb, each = ("is", "") if len(first) == 1 else ("are", " each")
    return f"{listed} {verb} better than {wins} {'rival' if wins == 1 else 'rivals'}{each} and worse than none"


def unbeaten(members: Sequence[Mapping[str, Any]]) -> tuple[list[str], int]:
    """The rules that are worse than none and better than most, and than how many; of one block's verdicts."""
    labels = list(dict.fromkeys(str(label) for one in members for label in (one["a"], one["b"])))
    better = {"a_better": ("a", "b"), "b_better": ("b", "a")}
    pairs = {tuple(str(one[side]) for side in better[one["verdict"]]) for one in members if one["verdict"] in better}
    wins = {label: sum(winner == label for winner, _ in pairs) for label in labels}
    losers = {loser for _, loser in pairs}
    most = max((wins[label] for label in labels if label not in losers), default=0)
    return ([label for label in labels if label not in losers and wins[label] == most], most) if most else ([], 0)


def _families(verdicts: Sequence[Verdict]) -> str:
    """Over what p is corrected, in words."""
    tested = [v for v in verdicts if not math.isnan(v.p_corrected)]
    if not tested:
        return "Nothing needed a test."
    level = tested[0].tested.question.level
    sizes = {v.tested.group: v.correction.removeprefix("Holm over ") for v in tested if not v.tested.mixed}
    texts = [f"the {size} of {'the' if list(sizes.values()).count(size) == 1 else 'each'} block" for size in
             dict.fromkeys(sizes.values())]  # fmt: skip
    texts += [f"the {v.correction.removeprefix('Holm over ')} across blocks" for v in tested if v.tested.mixed][:1]
    return f"Level {level:g}, corrected by Holm over {' and '.join(texts)}."


def asked(question: Question, metric: str, at: int) -> str:
    """The question in words."""
    if question.summary == "time":
        return f"time to {metric} <= {question.epsilon:g} (first checkpoint, within k = {at}), less is better"
    if question.summary == "area":
        return f"area under {metric} up to k = {at}, divided by its length, less is better"
    return f"{metric} at k = {at}, {'less' if question.less_is_better else 'more'} is better"


def runs(entries: Sequence[Any], question: Question, width: int | None = None) -> dict[str, str]:
    """Block -> mean, median and interquartile mean of every run, with intervals over its finite seeds.

    For times: how many seeds arrived, and the Kaplan-Meier median.
    """
    heads = {}
    for block, members in groupby(entries, lambda entry: entry.block):
        own = list(members)
        metric = metric_of(question, *(entry.run for entry in own))
        at = common_checkpoint(question, metric, *(entry.run for entry in own))
        if question.is_ratio:
            table = [["run", "arrived", "median time", "finite seeds"]]
            table += [_times_of(entry, question, metric, at) for entry in own]
            shown = "median by Kaplan-Meier"
        else:
            table = [["run", "mean", "median", "interquartile mean", "finite seeds"]]
            table += [_centres_of(entry, question, metric, at) for entry in own]
            shown = f"with {_interval_kinds(question)} over finite seeds"
        lines, left = aligned(table, width, _DROP_RUNS, ("run",))
        told = f" (left out to fit: {', '.join(left)})" if left else ""
        heads[block] = "\n".join([*wrapped(f"{asked(question, metric, at)}; runs, {shown}{told}:", width), *lines])
    return heads


def _interval_kinds(question: Question) -> str:
    level = f"{100 * (1 - question.level):g} %"
    if question.interval == "auto":
        return f"{level} intervals, of means by t below {FEW} seeds, else BCa bootstrap,"
    if question.interval == "t":
        return f"{level} intervals, of means by t, else BCa bootstrap,"
    return f"{level} {METHOD_NAMES[question.interval]} intervals"


def _times_of(entry: Any, question: Question, metric: str, at: int) -> list[str]:
    from mqlearn.analysis.statistics.survival import Times, median_time, times_to

    iteration, curves, gone = entry.run.curves["iteration"], entry.run.curves[metric], gone_by(entry.run, at)
    upto = iteration <= at
    times = times_to(iteration[upto], curves[:, upto], question.epsilon or 0)
    times = Times(np.where(gone, at, times.time), times.observed & ~gone)
    arrived = f"{times.observed.sum()} of {len(gone)}"
    return [entry.label, arrived, _n(median_time(times)), f"{len(gone) - gone.sum()} of {len(gone)}"]


def _centres_of(entry: Any, question: Question, metric: str, at: int) -> list[str]:
    gone = gone_by(entry.run, at)
    values = summarise(question, entry.run.curves["iteration"], entry.run.curves[metric], at)
    values = np.where(gone, math.nan, values)
    cells = [entry.label]
    for centre in CENTRES:
        method = question.interval if centre == "mean" or question.interval == "percentile" else "bca"
        found = bootstrap_interval(values, centre, method, 1 - question.level)
        interval = "no interval" if math.isnan(found.low) else f"[{_n(found.low)}, {_n(found.high)}]"
        cells.append(f"{_n(found.value)} {interval}")
    return [*cells, f"{len(gone) - gone.sum()} of {len(gone)}"]


def csv(rows: Sequence[dict[str, Any]]) -> str:
    """The rows with a header; nested entries as JSON, what is not finite as an empty cell."""
    import json

    from mqlearn.storage.runs import plain

    out = io.StringIO()
    if rows:
        names = list(dict.fromkeys(name for one in rows for name in one))
        writer = csv_module.DictWriter(out, names, lineterminator="\n")
        writer.writeheader()
        for one in plain(list(rows), finite=True):
            writer.writerow({k: json.dumps(v) if isinstance(v, list | dict) else v for k, v in one.items()})
    return out.getvalue()


def latex(verdicts: Sequence[Verdict]) -> str:
    """A tabular for each block (package booktabs), its caption as a comment above it."""
    lines = []
    for (block, at, metric), members in groupby(verdicts, lambda v: (v.tested.group, v.tested.at, v.tested.metric)):
        own = list(members)
        first, question = own[0], own[0].tested.question
        effect = r"$a/b$" if question.is_ratio else r"$a-b$"
        level = f"{100 * (1 - question.level):g}\\,\\%"
        kind = f"{first.tested.effect.kind}; {first.correction}"
        lines += [f"% {_escaped(block)}; {question.summary}, {_escaped(metric)} at k = {at}; {kind}"]
        lines += [r"\begin{tabular}{llrrrl}", r"\toprule"]
        lines += [f"$a$ & $b$ & {effect} [{level}] & $p$ (Holm) & seeds & verdict \\\\", r"\midrule"]
        for v in own:
            found = v.tested.effect
            interval = "" if math.isnan(found.low) else f" $[{_tex(found.low)}, {_tex(found.high)}]$"
            p = "--" if math.isnan(v.p_corrected) else f"${_tex(v.p_corrected)}$"
            sides = [_escaped(side.label) for side in (v.tested.a, v.tested.b)]
            cells = [*sides, f"${_tex(found.value)}${interval}", p, _seeds(v), WORDS[v.verdict]]
            lines.append(" & ".join(cells) + r" \\")
        lines += [r"\bottomrule", r"\end{tabular}", ""]
    return "\n".join(lines)


_HEADER = (
    ["a", "b", "mean a", "mean b", "a - b", "interval", "p", "p Holm", "finite seeds", "needed", "verdict"],
    ["a", "b", "median a", "median b", "a / b", "interval", "p", "p Holm", "finite seeds", "needed", "verdict"],
)


def _cells(v: Verdict, question: Question) -> list[str]:
    tested, effect = v.tested, v.tested.effect
    interval = "none" if math.isnan(effect.low) else f"[{_n(effect.low)}, {_n(effect.high)}]"
    decided = v.verdict in ("a_better", "b_better") or tested.deterministic
    needed = "-" if decided else str(v.seeds_needed or _unknown(v))
    p = [f"{x:.2g}" if not math.isnan(x) else "-" for x in (tested.evidence.test.p, v.p_corrected)]
    numbers = [_n(tested.a.value), _n(tested.b.value), _n(effect.value), interval]
    return [tested.a.label, tested.b.label, *numbers, *p, _seeds(v), needed, WORDS[v.verdict]]


def _unknown(v: Verdict) -> str:
    evidence, none = v.tested.evidence, 1 if v.tested.question.is_ratio else 0
    return ">1000" if min(len(evidence.a), len(evidence.b)) > 1 and v.tested.effect.value != none else "?"


def _seeds(v: Verdict) -> str:
    """Finite seeds of how many; pairs where they are common."""
    a, b = v.tested.a, v.tested.b
    if v.tested.evidence.paired:
        return f"{v.tested.n_finite} of {a.n_seeds} pairs"
    return f"{a.n_finite} of {a.n_seeds} | {b.n_finite} of {b.n_seeds}"


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
        lines.append(
            f"Verdict at level {question.level:g} by p Holm. The unit is the seed; evaluation episodes are not seeds."
        )
    lines += [f"Pairs: {why}." for why in dict.fromkeys(v.tested.evidence.pairing for v in verdicts)]
    open_ = [v for v in verdicts if v.verdict in ("no_difference", "impossible") and not v.tested.deterministic]
    if of and open_:
        lines.append(
            "needed: seeds of each rule with which the difference, if it is as observed, is found with probability 0.8 "
            f"at Holm's strictest step, level {question.level:g} over the number of comparisons (?: unknown)."
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


def _n(x: float) -> str:
    if math.isnan(x):
        return "-"
    return "not reached" if math.isinf(x) else f"{x:.4g}"


def _tex(x: float) -> str:
    mantissa, _, exponent = f"{x:.3g}".partition("e")
    return f"{mantissa} \\cdot 10^{{{int(exponent)}}}" if exponent else mantissa


def _escaped(text: str) -> str:
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    line = " ".join(text.split())  # a new line would end a comment
    return "".join(special.get(c) or (f"\\{c}" if c in "&%$#_{}" else c) for c in line)
