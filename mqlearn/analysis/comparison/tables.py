"""Verdicts as text for a terminal, rows for JSON and CSV, and a LaTeX table."""

import csv as csv_module
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from itertools import groupby
from typing import Any

import numpy as np

from mqlearn.analysis.comparison.comparison import Verdict
from mqlearn.analysis.comparison.samples import Question

WORDS = {
    "a_better": "a better",
    "b_better": "b better",
    "no_difference": "no difference shown",
    "impossible": "impossible",
}


def row(verdict: Verdict) -> dict[str, Any]:
    """A verdict as plain data, the numbers that were tested left out."""
    return {field.name: getattr(verdict, field.name) for field in fields(verdict) if field.name != "tested"}


def terminal(
    verdicts: Sequence[Verdict],
    question: Question,
    *,
    heads: Mapping[str, str] | None = None,
    notes: Sequence[str] = (),
) -> str:
    """All verdicts, block by block, each under its head, with what is needed to read them."""
    heads = dict(heads or {})
    lines = []
    for block in [block for block in heads if block not in {v.group for v in verdicts}]:
        lines += [f"[{block}]", heads.pop(block), ""]
    for (block, at, metric), members in groupby(verdicts, lambda v: (v.group, v.at, v.metric)):
        own = list(members)
        lines += [f"[{block}]"]
        if block in heads:
            lines += [heads.pop(block), ""]
        lines += [f"{asked(question, metric, at)}; pairs:"]
        lines += _aligned([_HEADER[question.is_ratio], *(_cells(v, question) for v in own)])
        remarks: dict[str, list[str]] = {}
        for v in own:
            for remark in [*v.notes, *([v.reason] if v.verdict == "impossible" or v.deterministic else [])]:
                remarks.setdefault(remark, []).append(f"{v.a} | {v.b}")
        for remark, of in remarks.items():
            whole = (
                len(of) == len(own) or len(of) > 3 or remark.partition(":")[0] in {e for v in own for e in (v.a, v.b)}
            )
            lines.append(f"  * {remark}" + ("" if whole else f"  ({'; '.join(of)})"))
        lines.append("")
    lines += _legend(verdicts, question)
    lines += [f"note: {note}" for note in notes]
    return "\n".join(lines)


def asked(question: Question, metric: str, at: int) -> str:
    """The question in words."""
    if question.summary == "time":
        return f"time to {metric} <= {question.epsilon:g} (first checkpoint, within k = {at}), less is better"
    if question.summary == "area":
        return f"area under {metric} up to k = {at}, divided by its length, less is better"
    return f"{metric} at k = {at}, {'less' if question.less_is_better else 'more'} is better"


def runs(entries: Sequence[Any], question: Question) -> dict[str, str]:
    """Block -> mean, median and interquartile mean of every run, with bootstrap intervals over its finite seeds.

    For times: how many seeds arrived, and the Kaplan-Meier median.
    """
    from mqlearn.analysis.comparison.samples import common_checkpoint, gone_by, metric_of, summarise
    from mqlearn.analysis.statistics.intervals import CENTRES, bootstrap_interval
    from mqlearn.analysis.statistics.survival import Times, median_time, times_to

    method = "bca" if question.interval == "t" else question.interval
    kind = "BCa" if method == "bca" else "percentile"
    heads = {}
    for block, members in groupby(entries, lambda entry: entry.block):
        own = list(members)
        metric = metric_of(question, *(entry.run for entry in own))
        at = common_checkpoint(question, metric, *(entry.run for entry in own))
        table = [["run", "mean", "median", "interquartile mean", "finite seeds"]]
        shown = f"with {100 * (1 - question.level):g} % {kind} bootstrap intervals over finite seeds"
        if question.is_ratio:
            table, shown = [["run", "arrived", "median time", "finite seeds"]], "median by Kaplan-Meier"
        for entry in own:
            run = entry.run
            iteration, curves, gone = run.curves["iteration"], run.curves[metric], gone_by(run, at)
            n_finite = f"{len(gone) - gone.sum()} of {len(gone)}"
            if question.is_ratio:
                upto = iteration <= at
                times = times_to(iteration[upto], curves[:, upto], question.epsilon or 0)
                times = Times(np.where(gone, at, times.time), times.observed & ~gone)
                table.append([entry.label, f"{times.observed.sum()} of {len(gone)}", _n(median_time(times)), n_finite])
                continue
            values = np.where(gone, math.nan, summarise(question, iteration, curves, at))
            cells = [entry.label]
            for centre in CENTRES:
                found = bootstrap_interval(values, centre, method, 1 - question.level)
                interval = "no interval" if math.isnan(found.low) else f"[{_n(found.low)}, {_n(found.high)}]"
                cells.append(f"{_n(found.value)} {interval}")
            table.append([*cells, n_finite])
        heads[block] = "\n".join([f"{asked(question, metric, at)}; runs, {shown}:", *_aligned(table)])
    return heads


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
    for (block, at, metric), members in groupby(verdicts, lambda v: (v.group, v.at, v.metric)):
        own = list(members)
        effect = r"$a/b$" if own[0].summary == "time" else r"$a-b$"
        level = f"{100 * (1 - own[0].level):g}\\,\\%"
        kind = f"{own[0].effect_kind}; {own[0].correction}"
        lines += [f"% {_escaped(block)}; {own[0].summary}, {_escaped(metric)} at k = {at}; {kind}"]
        lines += [r"\begin{tabular}{llrrrl}", r"\toprule"]
        lines += [f"$a$ & $b$ & {effect} [{level}] & $p$ (Holm) & seeds & verdict \\\\", r"\midrule"]
        for v in own:
            interval = "" if math.isnan(v.low) else f" $[{_tex(v.low)}, {_tex(v.high)}]$"
            p = "--" if math.isnan(v.p_corrected) else f"${_tex(v.p_corrected)}$"
            cells = [_escaped(v.a), _escaped(v.b), f"${_tex(v.effect)}${interval}", p, _seeds(v), WORDS[v.verdict]]
            lines.append(" & ".join(cells) + r" \\")
        lines += [r"\bottomrule", r"\end{tabular}", ""]
    return "\n".join(lines)


_HEADER = (
    ["a", "b", "mean a", "mean b", "a - b", "interval", "p", "p Holm", "finite seeds", "needed", "verdict"],
    ["a", "b", "median a", "median b", "a / b", "interval", "p", "p Holm", "finite seeds", "needed", "verdict"],
)


def _cells(v: Verdict, question: Question) -> list[str]:
    interval = "none" if math.isnan(v.low) else f"[{_n(v.low)}, {_n(v.high)}]"
    needed = "-" if v.verdict in ("a_better", "b_better") or v.deterministic else str(v.seeds_needed or _unknown(v))
    p = [f"{x:.2g}" if not math.isnan(x) else "-" for x in (v.p, v.p_corrected)]
    numbers = [_n(v.value_a), _n(v.value_b), _n(v.effect), interval]
    return [v.a, v.b, *numbers, *p, _seeds(v), needed, WORDS[v.verdict]]


def _unknown(v: Verdict) -> str:
    a, b = v.tested
    return ">1000" if min(len(a), len(b)) > 1 and v.effect != (1 if v.summary == "time" else 0) else "?"


def _seeds(v: Verdict) -> str:
    """Finite seeds of how many; pairs where they are common."""
    if v.paired:
        return f"{v.n_finite} of {v.n_seeds_a} pairs"
    return f"{v.n_finite_a} of {v.n_seeds_a} | {v.n_finite_b} of {v.n_seeds_b}"


def _legend(verdicts: Sequence[Verdict], question: Question) -> list[str]:
    if not verdicts:
        return []
    level, first = f"{100 * (1 - question.level):g} %", verdicts[0]
    sign = (
        "a / b below 1: a arrives earlier"
        if question.is_ratio
        else (
            "a - b negative: a has less error"
            if question.less_is_better
            else "a - b positive: a has the greater return"
        )
    )
    kind = {"bca": "BCa bootstrap", "percentile": "percentile bootstrap", "t": "Student's t"}[question.interval]
    tests = sorted({f"{'paired' if v.paired else 'unpaired'} {v.test}" for v in verdicts if not math.isnan(v.p)})
    lines = [f"{first.effect_kind}; {sign}. Interval: {level} {kind} over seeds, for this pair alone."]
    if tests:
        lines.append(
            f"p, two-sided: {'; '.join(tests)}. p Holm: corrected over the {_family(first)} asked, all blocks."
        )
        lines.append(
            f"Verdict at level {question.level:g} by p Holm. The unit is the seed; evaluation episodes are not seeds."
        )
    lines += [f"Pairs: {why}." for why in dict.fromkeys(v.pairing for v in verdicts)]
    if tests and any(v.verdict in ("no_difference", "impossible") and not v.deterministic for v in verdicts):
        lines.append(
            "needed: seeds of each rule with which the difference, if it is as observed, is found with probability 0.8 "
            f"at level {question.level:g}/{_family(first).split()[0]}, Holm's strictest step (?: unknown)."
        )
    if any(v.n_finite_a < v.n_seeds_a or v.n_finite_b < v.n_seeds_b for v in verdicts):
        lines.append(f"Diverged seeds: diverged={question.diverged} (worst | censored | excluded).")
    return lines


def _family(verdict: Verdict) -> str:
    return verdict.correction.removeprefix("Holm over ")


def _aligned(table: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return ["  " + "  ".join(c.ljust(w) for c, w in zip(cells, widths, strict=True)).rstrip() for cells in table]


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
