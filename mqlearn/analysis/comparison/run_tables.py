"""Single runs as tables: the centres of their seeds, or their times, each with how many seeds are in it."""

import math
from collections.abc import Mapping, Sequence
from itertools import groupby

import numpy as np

from mqlearn.analysis import axis as axes
from mqlearn.analysis.comparison.columns import aligned, wrapped
from mqlearn.analysis.comparison.labels import Entry
from mqlearn.analysis.comparison.seed_values import Question, gone_by, horizon, metric_of, summary_of
from mqlearn.analysis.comparison.verdict_table import Row, escaped, number, tex
from mqlearn.analysis.comparison.wording import asked, unbeaten
from mqlearn.analysis.statistics.intervals import CENTRES, FEW, METHOD_NAMES, bootstrap_interval
from mqlearn.analysis.statistics.survival import Times, median_time, times_to

# What a narrow terminal leaves out, first to last.
_DROP = ("interquartile mean", "median")


def runs(entries: Sequence[Entry], question: Question, width: int | None = None) -> dict[str, str]:
    """Block -> mean, median and interquartile mean of every run, with intervals over its finite seeds.

    For times: how many seeds arrived, and the Kaplan-Meier median.
    """
    heads = {}
    for block, members in groupby(entries, lambda entry: entry.block):
        own = list(members)
        metric = metric_of(question, *(entry.run for entry in own))
        at = horizon(question, metric, *(entry.run for entry in own))
        if question.is_ratio:
            table = [["run", "arrived", "median time", "finite seeds"]]
            table += [_times_of(entry, question, metric, at) for entry in own]
            shown = "median by Kaplan-Meier"
        else:
            table = [["run", "mean", "median", "interquartile mean", "finite seeds"]]
            table += _centres_of(own, question, metric, at)
            shown = f"with {_interval_kinds(question)} over finite seeds"
        lines, left = aligned(table, width, _DROP, ("run",))
        told = f" (left out to fit: {', '.join(left)})" if left else ""
        heads[block] = "\n".join([*wrapped(f"{asked(question, metric, at)}; runs, {shown}{told}:", width), *lines])
    return heads


def latex(entries: Sequence[Entry], question: Question, verdicts: Sequence[Row]) -> str:
    """A tabular (package booktabs) with a row for each rule and a column for each block: means with their intervals.

    Bold: better than most rivals of the block and worse than none, by the verdicts. A dagger: seeds that are not
    finite.
    Empty for times, whose medians the tables of pairs have, and without entries.
    """
    if question.is_ratio or not entries:
        return ""
    blocks = {block: list(own) for block, own in groupby(entries, lambda entry: entry.block)}
    labels = list(dict.fromkeys(entry.label for entry in entries))
    cells = {(block, label): "--" for block in blocks for label in labels}
    for block, own in blocks.items():
        metric = metric_of(question, *(entry.run for entry in own))
        at = horizon(question, metric, *(entry.run for entry in own))
        best, _ = unbeaten([one for one in verdicts if one["group"] == block and not one["mixed"]])
        for entry in own:
            gone = gone_by(entry.run, at, question.axis)
            values = np.where(gone, math.nan, summary_of(question, metric, at, entry.run))[:, None]
            found = bootstrap_interval(values, "mean", question.interval, 1 - question.level)
            value, low, high = (tex(float(row[0]), 3) for row in (found.value, found.low, found.high))
            text = rf"\mathbf{{{value}}}" if entry.label in best else value
            text += "" if math.isnan(found.low[0]) else f" \\; [{low}, {high}]"
            cells[block, entry.label] = f"${text}$" + r"$^{\dagger}$" * (not np.isfinite(values).all())
    lines = [f"% columns: {escaped('; '.join(blocks))}"]
    told = f"{_asked_of(question, blocks)}: means with {_interval_kinds(question)} over finite seeds"
    lines += [f"% {escaped(told)}"]
    bold = "% bold: better than most rivals of its column and worse than none, by the tests below"
    lines += [f"{bold}; dagger: not all seeds finite"]
    lines += [rf"\begin{{tabular}}{{l{'r' * len(blocks)}}}", r"\toprule"]
    names = [escaped(block.split(",")[0]) for block in blocks]
    lines += [f"rule & {' & '.join(names)} \\\\", r"\midrule"]
    lines += [f"{' & '.join([escaped(label), *(cells[block, label] for block in blocks)])} \\\\" for label in labels]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", "", ""])


def _asked_of(question: Question, blocks: Mapping[str, Sequence[Entry]]) -> str:
    """The question, of each block, in words."""
    told = {}
    for own in blocks.values():
        metric = metric_of(question, *(entry.run for entry in own))
        told[asked(question, metric, horizon(question, metric, *(entry.run for entry in own)))] = None
    return "; ".join(told)


def _interval_kinds(question: Question) -> str:
    level = f"{100 * (1 - question.level):g} %"
    if question.interval == "auto":
        return f"{level} intervals, of means by t below {FEW} seeds, else BCa bootstrap,"
    if question.interval == "t":
        return f"{level} intervals, of means by t, else BCa bootstrap,"
    return f"{level} {METHOD_NAMES[question.interval]} intervals"


def _times_of(entry: Entry, question: Question, metric: str, at: int) -> list[str]:
    position, curves = axes.positions(entry.run, question.axis), entry.run.curves[metric]
    upto, gone = position <= at, gone_by(entry.run, at, question.axis)
    times = times_to(position[upto], curves[:, upto], question.epsilon or 0)
    times = Times(np.where(gone, at, times.time), times.observed & ~gone)
    arrived = f"{times.observed.sum()} of {len(gone)}"
    return [entry.label, arrived, number(median_time(times)), f"{len(gone) - gone.sum()} of {len(gone)}"]


def _centres_of(entries: Sequence[Entry], question: Question, metric: str, at: int) -> list[list[str]]:
    """A row for each run; runs of as many seeds at once, by the same resamples."""
    gone = [gone_by(entry.run, at, question.axis) for entry in entries]
    values = [
        np.where(own, math.nan, summary_of(question, metric, at, entry.run))
        for own, entry in zip(gone, entries, strict=True)
    ]
    alike: dict[int, list[int]] = {}
    for i, own in enumerate(values):
        alike.setdefault(len(own), []).append(i)
    rows = [[entry.label] for entry in entries]
    for numbers in alike.values():
        columns = np.column_stack([values[i] for i in numbers])
        for centre in CENTRES:
            method = question.interval if centre == "mean" or question.interval == "percentile" else "bca"
            found = bootstrap_interval(columns, centre, method, 1 - question.level)
            for i, value, low, high in zip(numbers, found.value, found.low, found.high, strict=True):
                rows[i].append(f"{number(value)} {_interval(low, high)}")
    return [[*row, f"{np.isfinite(own).sum()} of {len(own)}"] for row, own in zip(rows, values, strict=True)]


def _interval(low: float, high: float) -> str:
    if math.isnan(low):
        return "no interval"
    return "no spread: all seeds alike" if low == high else f"[{number(low)}, {number(high)}]"
