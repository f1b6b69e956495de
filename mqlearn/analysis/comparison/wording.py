"""Verdicts, as plain data (`comparison.row`), in words: the answer in short, and the question that was asked."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from mqlearn.analysis import axis as axes
from mqlearn.analysis.comparison.seed_values import Question
from mqlearn.analysis.statistics import power
from mqlearn.analysis.statistics.significance import RESAMPLES

_FEW = 6  # pairs, each of which has a sentence of its own at the prompt


def summary(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The answer in short: how many comparisons, what they show, and in each block the rules that none beats."""
    if not rows:
        return []
    lines = [f"{counted(rows)} {_families(rows)}", *remedies(rows)]
    for block, members in groupby(rows, lambda one: one["group"]):
        found = "".join(unbeaten_words(list(members)))
        lines.append(f"[{block}] {found or 'no rule is shown to be better than another'}")
    return lines if len(lines) <= 12 else [*lines[:12], f"and {len(lines) - 12} blocks more, below"]


def remedies(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """What would make impossible comparisons possible: how many seeds, or which fewer pairs to ask; each once."""
    lines: dict[str, None] = {}
    families: dict[str, list[Mapping[str, Any]]] = {}
    for one in rows:
        families.setdefault("across blocks" if one["mixed"] else one["group"], []).append(one)
    for family in families.values():
        hopeless = [one for one in family if one["verdict"] == "impossible" and one["p_smallest"] is not None]
        if hopeless and (said := _remedy(family, min(hopeless, key=lambda one: one["n_used"]))):
            lines[said] = None
    return [*lines]


def _remedy(family: Sequence[Mapping[str, Any]], worst: Mapping[str, Any]) -> str:
    """For the comparison of a family that has the fewest seeds; empty where its seeds are none that are finite."""
    tested = sum(not math.isnan(_number(one["p_corrected"])) for one in family)
    level, smallest, paired = worst["level"], worst["p_smallest"], worst["paired"]
    if not tested or math.isnan(smallest):
        return ""
    asked_of_one = len({label for one in family for label in (one["a"], one["b"])}) - 1

    def fewest(comparisons: int) -> int | None:
        resamples = max(RESAMPLES, math.ceil(20 * comparisons / level))
        return power.seeds_to_reach(level / comparisons, paired=paired, resamples=resamples)

    most = math.floor(level / smallest + 1e-9)
    have = worst["n_used"] if paired else min(worst["n_seeds_a"], worst["n_seeds_b"])
    plural = "s" * (tested != 1)
    parts = [f"n_seeds={n} or more (now {have}) for {tested} comparison{plural}"] if (n := fewest(tested)) else []
    if 1 < asked_of_one < tested:
        if asked_of_one <= most:
            parts.append(f"against=LABEL with the seeds that there are, which asks {asked_of_one}")
        elif (n := fewest(asked_of_one)) is not None:
            parts.append(f"against=LABEL, which asks {asked_of_one}, with n_seeds={n} or more")
    if 1 <= most < tested:
        parts.append(f"a selection of {most} comparison{'s' * (most != 1)} at most")
    return f"Possible with {', or '.join(parts)}." if parts else ""


def sentences(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The verdicts for the prompt: a sentence for each pair where they are few, else the answer in short."""
    if len(rows) > _FEW:
        return summary([{**one, "p_corrected": _number(one["p_corrected"])} for one in rows])
    several = len({one["group"] for one in rows}) > 1
    return [(f"[{one['group']}] " if several else "") + _sentence(one) for one in rows]


def _sentence(one: Mapping[str, Any]) -> str:
    """One verdict: who is better, by how much, on how many seeds; or what the seeds cannot say."""
    a, b = ("b", "a") if one["verdict"] == "b_better" else ("a", "b")
    said = {
        "no_difference": f"No difference is shown between {one['a']} and {one['b']}",
        "impossible": f"{one['a']} against {one['b']} cannot be decided",
        "equal": f"{one['a']} and {one['b']} are equal within a factor of {one['margin'] or math.nan:g}",
    }.get(one["verdict"], f"{one[a]} is better than {one[b]}")
    values = " against ".join(f"{_number(one[f'value_{side}']):.4g}" for side in (a, b))
    place = axes.words(one["axis"], one["at"])
    what = f"time to {one['metric']} <= {one['epsilon']:g}" if one["epsilon"] else f"{one['metric']} at {place}"
    what = f"area under {one['metric']} up to {place}" if one["summary"] == "area" else what
    p = _number(one["p_corrected"])
    p = _number(one["p_equal"]) if one["verdict"] == "equal" else p
    told = [f"{what}: {values}"] + [f"p {p:.3g}"] * (p == p)
    paired = f"{one['n_used']} paired seeds" if one["paired"] else f"{one['n_finite_a']} and {one['n_finite_b']} seeds"
    more = ""
    if one["deterministic"]:
        more = " The seed has no effect: the values are exact."
    elif one["verdict"] == "impossible":
        more = f" {one['reason'][:1].upper()}{one['reason'][1:]}."
    elif one["verdict"] == "no_difference" and one["seeds_needed"]:
        more = f" If it is as large as observed, about {one['seeds_needed']} seeds show it."
    return f"{said} ({', '.join([*told, paired])}).{more}"


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def counted(rows: Sequence[Mapping[str, Any]]) -> str:
    """How many comparisons there are, and what they show."""
    count = Counter(one["verdict"] for one in rows)
    shown, total = count["a_better"] + count["b_better"], len(rows)
    parts = [f"{shown} of {total} comparison{'s' * (total != 1)} show{'s' * (total == 1)} a difference"]
    parts += [f"{count['equal']} show equality within the margin"] * bool(count["equal"])
    parts += [f"{count['no_difference']} show none"] * bool(count["no_difference"])
    parts += [f"{count['impossible']} impossible with so many seeds"] * bool(count["impossible"])
    return f"{'; '.join(parts)}."


def unbeaten_words(members: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """Of one block's verdicts: which rules are better than most others and worse than none, and what is said of them.

    Empty texts if no rule is shown to be better than another.
    """
    first, wins = unbeaten(members)
    if not first:
        return "", ""
    listed = first[0] if len(first) == 1 else f"{', '.join(first[:-1])} and {first[-1]}"
    verb, each = ("is", "") if len(first) == 1 else ("are", " each")
    return listed, f" {verb} better than {wins} {'rival' if wins == 1 else 'rivals'}{each} and worse than none"


def unbeaten(members: Sequence[Mapping[str, Any]]) -> tuple[list[str], int]:
    """The rules that are worse than none and better than most, and than how many; of one block's verdicts."""
    labels = list(dict.fromkeys(str(label) for one in members for label in (one["a"], one["b"])))
    better = {"a_better": ("a", "b"), "b_better": ("b", "a")}
    pairs = {tuple(str(one[side]) for side in better[one["verdict"]]) for one in members if one["verdict"] in better}
    wins = Counter(winner for winner, _ in pairs)
    losers = {loser for _, loser in pairs}
    most = max((wins[label] for label in labels if label not in losers), default=0)
    return ([label for label in labels if label not in losers and wins[label] == most], most) if most else ([], 0)


def _families(rows: Sequence[Mapping[str, Any]]) -> str:
    """Over what p is corrected, in words."""
    tested = [one for one in rows if not math.isnan(one["p_corrected"])]
    if not tested:
        return "Nothing needed a test."
    method = tested[0]["correction"].partition(" over ")[0]
    sizes = {one["group"]: one["correction"].partition(" over ")[2] for one in tested if not one["mixed"]}
    count = Counter(sizes.values())
    texts = [f"the {size} of {'the' if n == 1 else 'each'} block" for size, n in count.items()]
    texts += [f"the {one['correction'].partition(' over ')[2]} across blocks" for one in tested if one["mixed"]][:1]
    return f"Level {tested[0]['level']:g}, corrected by {method} over {' and '.join(texts)}."


def asked(question: Question, metric: str, at: int) -> str:
    """The question in words."""
    where = axes.words(question.axis, at)
    if question.summary == "time":
        unit = " in samples" if question.axis == "samples" else ""
        return f"time{unit} to {metric} <= {question.epsilon:g} (first checkpoint, within {where}), less is better"
    if question.summary == "area":
        return f"area under {metric} up to {where}, divided by its length, less is better"
    return f"{metric} at {where}, {'less' if question.less_is_better else 'more'} is better"
