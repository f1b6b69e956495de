"""Is rule a faster than rule b? One question, asked of pairs of finished runs, answered together.

The unit is the seed: what a run gives is one number a seed. Each pair is tested alone (`ask_all`), then all pairs are
corrected together (`decide`). Runs are read once, and pairs of as many seeds are tested by the same patterns at once.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mqlearn.analysis import axis as axes
from mqlearn.analysis.comparison import equality
from mqlearn.analysis.comparison.labels import Entry
from mqlearn.analysis.comparison.reading import Read, Reader
from mqlearn.analysis.comparison.seed_values import Question, SeedValues
from mqlearn.analysis.decisions.decision import DECIDED
from mqlearn.analysis.statistics import power, significance
from mqlearn.analysis.statistics.intervals import METHOD_NAMES, coverage_words, difference_intervals, method_for

_AT_ONCE = 2048  # pairs: their arrays stay small, and progress is told after as many


class Side(NamedTuple):
    """One run of a pair. value: mean of what was tested, a Kaplan-Meier median for times; n_finite of n_seeds seeds
    have not diverged; at: its own checkpoint, on the axis of the question."""

    label: str
    digest: str
    value: float
    n_finite: int
    n_seeds: int
    at: int


class Effect(NamedTuple):
    """a - b, or a / b for times, with its interval (NaN: none). kind and interval: in words."""

    value: float
    low: float
    high: float
    kind: str
    interval: str


class Evidence(NamedTuple):
    """What was tested and how. a (n,), b (m,): one number a seed, n = m where seeds are paired; pairing: why."""

    a: np.ndarray
    b: np.ndarray
    test: significance.Test
    p_t: float
    size: float
    size_kind: str
    paired: bool
    pairing: str


@dataclass(frozen=True, eq=False)
class Pair:
    """One pair, tested alone. group: what both runs share, as a text."""

    a: Side
    b: Side
    group: str
    question: Question
    metric: str
    at: int
    effect: Effect
    evidence: Evidence
    n_finite: int  # pairs with both seeds finite, or the smaller of the two counts
    deterministic: bool
    mixed: bool
    notes: tuple[str, ...]
    p_equal: float = math.nan  # of both one-sided tests of a margin the larger

    @property
    def n_used(self) -> int:
        """Pairs in the test, or seeds of both rules."""
        return len(self.evidence.a) if self.evidence.paired else len(self.evidence.a) + len(self.evidence.b)


@dataclass(frozen=True, eq=False)
class Verdict:
    """What a tested pair means within its family of comparisons."""

    tested: Pair
    verdict: str  # a_better | b_better | no_difference | impossible | equal
    reason: str
    p_corrected: float
    correction: str
    seeds_needed: int | None = None
    p_equal: float = math.nan  # corrected; of equality within the margin
    tuning: dict[str, Any] | None = None  # with tuned=true: of a and b, budget, best setting and sensitivity


def row(verdict: Verdict) -> dict[str, Any]:
    """A verdict as plain data: what --json writes, and all that reports and claims read."""
    tested, evidence, effect = verdict.tested, verdict.tested.evidence, verdict.tested.effect
    a, b, question = tested.a, tested.b, tested.question
    return {
        "a": a.label, "b": b.label, "group": tested.group, "summary": question.summary, "metric": tested.metric,
        "axis": question.axis, "at": tested.at, "at_a": a.at, "at_b": b.at, "epsilon": question.epsilon,
        "margin": question.margin, "verdict": verdict.verdict, "reason": verdict.reason, "p_equal": verdict.p_equal,
        "effect": effect.value, "effect_kind": effect.kind, "low": effect.low, "high": effect.high,
        "interval": effect.interval, "p": evidence.test.p, "p_corrected": verdict.p_corrected,
        "correction": verdict.correction, "p_smallest": evidence.test.smallest, "p_t": evidence.p_t,
        "test": evidence.test.method, "level": question.level, "effect_size": evidence.size,
        "effect_size_kind": evidence.size_kind, "paired": evidence.paired, "pairing": evidence.pairing,
        "n_finite": tested.n_finite, "n_used": tested.n_used, "n_finite_a": a.n_finite, "n_seeds_a": a.n_seeds,
        "n_finite_b": b.n_finite, "n_seeds_b": b.n_seeds, "value_a": a.value, "value_b": b.value,
        "diverged": question.diverged, "deterministic": tested.deterministic, "mixed": tested.mixed,
        "seeds_needed": verdict.seeds_needed, "digest_a": a.digest, "digest_b": b.digest, "notes": list(tested.notes),
        "tuning": verdict.tuning,
    }  # fmt: skip


def ask(a: Entry, b: Entry, question: Question, *, resamples: int = significance.RESAMPLES) -> Pair:
    """Test one pair; `decide` then says what it means. Raises SettingError if the runs cannot answer the question."""
    return ask_all([(a, b)], question, resamples=resamples)[0]


def ask_all(
    wanted: Sequence[tuple[Entry, Entry]],
    question: Question,
    *,
    resamples: int = significance.RESAMPLES,
    told: Callable[[int], Any] = int,
) -> list[Pair]:
    """Test some pairs, each alone. told: called with the number of pairs after some of them.

    Raises SettingError if the runs cannot answer the question.
    """
    reader = Reader(question)
    groups: dict[tuple[int, int, bool, bool], list[int]] = {}
    reads = [reader.read(a, b) for a, b in wanted]
    for number, read in enumerate(reads):
        groups.setdefault((len(read.x), len(read.y), read.paired, read.deterministic), []).append(number)
    found: dict[int, Pair] = {}
    for numbers in groups.values():
        for start in range(0, len(numbers), _AT_ONCE):
            part = numbers[start : start + _AT_ONCE]
            found |= zip(part, _tested(question, [reads[number] for number in part], resamples), strict=True)
            told(len(part))
    return [found[number] for number in range(len(wanted))]


def _tested(question: Question, reads: Sequence[Read], resamples: int) -> Iterable[Pair]:
    """The pairs of some that have as many seeds each, are paired or not, and depend on their seeds or not."""
    paired, deterministic = reads[0].paired, reads[0].deterministic
    x, y = np.array([read.x for read in reads]), np.array([read.y for read in reads])
    n, m = x.shape[1], y.shape[1]
    if paired and question.summary != "time":
        # Rules that are one and the same differ by rounding: that is no difference.
        y = np.where(np.abs(x - y) <= 1e-12 * np.array([read.scale for read in reads])[:, None], x, y)
    value = low = high = p_t = size = np.full(len(x), math.nan)
    tests = significance.Tests(value, math.nan, "none")
    if n and m:
        value, low, high, _ = difference_intervals(
            x, y, paired=paired, method=question.interval, level=1 - question.level
        )
    if n and m and not deterministic:
        if paired:
            tests = significance.sign_flips(x - y, resamples=resamples)
        else:
            tests = significance.permutations(x, y, resamples=resamples)
        p_t, size = significance.t_tests(x, y, paired=paired), significance.effect_sizes(x, y, paired=paired)
    p_equals = equality.p_equal(question, x, y, paired=paired, resamples=resamples)
    kind = "ratio of geometric mean times, a / b" if question.is_ratio else "difference of means, a - b"
    size_kind = "d_z, paired: mean(a - b)/sd(a - b)" if paired else "Hedges' g, unpaired: by the pooled sd"
    words = _interval_words(question, paired, n, m, deterministic)
    convert = math.exp if question.is_ratio else float
    same = (x == y).all(axis=1) if paired and n else np.zeros(len(x), bool)
    for i, read in enumerate(reads):
        ends = (math.nan, math.nan) if deterministic else (convert(low[i]), convert(high[i]))
        sides = [
            Side(entry.label, entry.run.digest, centre, int(values.finite.sum()), len(values.finite), at)
            for entry, values, at, centre in zip(
                read.entries,
                read.values,
                read.own,
                [values.centre for values in read.values] if question.is_ratio else (_mean(x[i]), _mean(y[i])),
                strict=True,
            )
        ]
        a, b = read.entries
        notes = _notes(question, read)
        notes += ["the same value in every seed, up to rounding"] * bool(same[i])
        if any(read.constant) and not deterministic:
            notes.append(f"{(a if read.constant[0] else b).label} is deterministic: its seed has no effect")
        yield Pair(
            *sides,
            group=a.block if a.block == b.block else f"mixed: {a.block} | {b.block}",
            question=question,
            metric=read.metric,
            at=read.at,
            effect=Effect(convert(value[i]), *ends, kind, words),
            evidence=Evidence(x[i], y[i], tests.test(i), float(p_t[i]), float(size[i]), size_kind, paired, read.why),
            n_finite=read.n_finite,
            deterministic=deterministic,
            mixed=a.block != b.block,
            notes=tuple(notes),
            p_equal=float(p_equals[i]),
        )


def decide(
    pairs: Sequence[Pair], *, resamples: int = significance.RESAMPLES, told: Callable[[int], Any] = int
) -> list[Verdict]:
    """Correct a family of tested pairs by Holm's method, and give each its verdict. told: as in `ask_all`.

    With a margin by Bonferroni's, for both what differs and what is equal: a pair that differs may be rightly found to,
    and then wrongly to be equal, so that it gives no level to others as Holm has it.

    `impossible`: even if every pair of the family reached its smallest p, this one would not reach the level.
    """
    with_margin = any(pair.question.margin is not None for pair in pairs)
    correct = significance.bonferroni if with_margin else significance.holm
    corrected = correct([pair.evidence.test.p for pair in pairs])
    at_best = correct([pair.evidence.test.smallest for pair in pairs])
    family = sum(not math.isnan(pair.evidence.test.p) for pair in pairs)
    verdicts = []
    for number, (pair, p, best) in enumerate(zip(pairs, corrected, at_best, strict=True), 1):
        verdicts.append(_decided(pair, float(p), float(best), family, resamples))
        if number % _AT_ONCE == 0 or number == len(pairs):
            told((number - 1) % _AT_ONCE + 1)
    return verdicts


def _decided(pair: Pair, p: float, best: float, family: int, resamples: int) -> Verdict:
    question, evidence, level = pair.question, pair.evidence, pair.question.level
    less = pair.effect.value < (1 if question.is_ratio else 0)
    better = "a_better" if less == question.less_is_better else "b_better"
    needed = None
    method = "Holm" if question.margin is None else "Bonferroni"
    p_equal = min(1.0, pair.p_equal * max(family, 1)) if pair.p_equal == pair.p_equal else math.nan
    equal = p_equal <= level
    within = f"equal within a factor of {question.margin:g}" if question.margin is not None else ""
    if pair.deterministic and not math.isnan(pair.effect.value):
        differs = bool(np.any(evidence.a[:1] != evidence.b[:1]))
        said = better if differs else "no_difference"
        exact = "the difference is exact and needs no test" if differs else "the values are equal"
        if within and not differs:
            said = "equal"
        reason = f"deterministic: every seed gives the same curve, the seed has no effect; {exact}"
    elif math.isnan(evidence.test.p):
        said, reason = "impossible", "there are no finite seeds to compare"
    elif p <= level:
        said, reason = better, f"corrected p at most {level:g}"
        reason += f", and {within}: the difference is less than the margin" * equal
    elif equal:
        said = "equal"
        reason = f"{within}: both one-sided tests have a corrected p of at most {level:g}"
    else:
        x, y = evidence.a, evidence.b
        needed = power.seeds_needed(x, y, paired=evidence.paired, level=level / family, resamples=resamples)
        said, reason = "no_difference", f"corrected p above {level:g}: no difference shown"
        if best > level:
            said, reason = "impossible", _impossible(pair, family, best, resamples)
    return Verdict(pair, said, reason, p, f"{method} over {family} comparison{'s' * (family != 1)}", needed, p_equal)


def resamples_for(family: int, level: float) -> int:
    """Random patterns that a test needs so that one in ten of the level is reachable after correction."""
    return max(significance.RESAMPLES, math.ceil(20 * family / level))


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else math.nan


def _impossible(pair: Pair, family: int, best: float, resamples: int) -> str:
    n, m, paired = len(pair.evidence.a), len(pair.evidence.b), pair.evidence.paired
    level, smallest = pair.question.level, pair.evidence.test.smallest
    seeds = f"{n} pair{'s' * (n != 1)} of seeds" if paired else f"{n} against {m} seeds"
    text = f"with {seeds} no outcome gives a p below {smallest:.3g}"
    if min(n, m) == 1:
        text = f"{'one seed' if n == m else seeds}: the spread between seeds is unknown, so no interval; {text}"
    if smallest <= level:
        text += f", which is {best:.3g} after correction for {family} comparisons (ask fewer with against=)"
    fewest = power.seeds_to_reach(level / family, paired=paired, resamples=resamples)
    each = "pairs" if paired else "seeds of each rule"
    return text if fewest is None else f"{text}; possible from {fewest} {each} on"


def _interval_words(question: Question, paired: bool, n: int, m: int, deterministic: bool) -> str:
    if deterministic or min(n, m) < (2 if paired else 1) or n + m < 4:
        why = "deterministic" if deterministic else "one seed" if min(n, m) == 1 else "too few seeds"
        return f"none ({why})"
    method, level = method_for(question.interval, min(n, m)), 1 - question.level
    name = "Welch's t" if method == "t" and not paired else METHOD_NAMES[method]
    unit = f"{n} pairs of seeds" if paired else f"{n} against {m} seeds"
    return f"{100 * level:g} % {name}, {unit}, not corrected{coverage_words(method, min(n, m), level)}"


def _notes(question: Question, read: Read) -> list[str]:
    """What must be said of a pair."""
    at, notes = read.at, []
    if question.axis == "iterations" and question.at is not None and at != question.at:
        notes.append(f"k = {at} is the last checkpoint up to {question.at} that both have")
    for entry, values, k in zip(read.entries, read.values, read.own, strict=True):
        notes += _notes_on(question, read, entry, values, k)
    a, b = read.entries
    versions = [entry.run.summary.get("numerics_version") for entry in (a, b)]
    if versions[0] != versions[1]:
        notes.append(f"numerics versions {versions[0]} and {versions[1]}")
    clocks = [entry.run.settings["sampling"].get("clock") for entry in (a, b)]
    if clocks[0] != clocks[1] and None not in clocks:
        notes.append(f"the k of step sizes: {a.label} has the {clocks[0]} clock, {b.label} the {clocks[1]} one")
    if a.block != b.block:
        notes.append(f"mixed, across blocks: a is from [{a.block}], b from [{b.block}]")
    return notes


def _notes_on(question: Question, read: Read, entry: Entry, values: SeedValues, k: int) -> list[str]:
    """What must be said of one run of a pair. k: its own checkpoint."""
    at, n, finite = read.at, len(values.finite), int(values.finite.sum())
    notes = [f"{entry.label}: {entry.note}"] * bool(entry.note)
    if DECIDED in entry.run.summary:
        notes.append(
            f"{entry.label}: how many seeds it has depends on what they showed, for which p makes no allowance"
        )
    if k != at:
        notes.append(f"{entry.label}: its last checkpoint up to {at} samples is at {k}")
    if finite < n:
        how = {"worst": "counted as the worst value", "censored": "counted by their last finite value"}
        if question.summary == "time":
            how = {"worst": "counted as never arriving", "censored": "censored there, and left out of the test"}
        treated = how.get(question.diverged, "left out")
        notes.append(f"{entry.label}: {finite} of {n} seeds finite, the others {treated}")
    if values.times is not None and (arrived := int(values.times.observed.sum())) < n:
        by = axes.words(question.axis, at)
        notes.append(f"{entry.label}: {arrived} of {n} seeds arrived by {by}; the others count there in the ratio")
    if entry.run.settings["algorithm"].get("averaged") and f"{read.metric}_average" in entry.run.curves:
        notes.append(f"{entry.label}: {read.metric} is of its last iterate; {read.metric}_average is of the mean")
    return notes
