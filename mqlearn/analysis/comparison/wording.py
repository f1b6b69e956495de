"""Verdicts in words: the answer in short, the question that was asked, and how numbers are written."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from mqlearn.analysis import axis as axes
from mqlearn.analysis.comparison.comparison import Verdict, row
from mqlearn.analysis.comparison.seed_values import Question

WORDS = {
    "a_better": "a better",
    "b_better": "b better",
    "no_difference": "no difference shown",
    "impossible": "impossible",
}


def summary(verdicts: Sequence[Verdict]) -> list[str]:
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
    where = axes.words(question.axis, at)
    if question.summary == "time":
        unit = " in samples" if question.axis == "samples" else ""
        return f"time{unit} to {metric} <= {question.epsilon:g} (first checkpoint, within {where}), less is better"
    if question.summary == "area":
        return f"area under {metric} up to {where}, divided by its length, less is better"
    return f"{metric} at {where}, {'less' if question.less_is_better else 'more'} is better"


def seeds(v: Verdict) -> str:
    """Finite seeds of how many; pairs where they are common."""
    a, b = v.tested.a, v.tested.b
    if v.tested.evidence.paired:
        return f"{v.tested.n_finite} of {a.n_seeds} pairs"
    return f"{a.n_finite} of {a.n_seeds} | {b.n_finite} of {b.n_seeds}"


def number(x: float) -> str:
    """A number of a table."""
    if math.isnan(x):
        return "-"
    return "not reached" if math.isinf(x) else f"{x:.4g}"
