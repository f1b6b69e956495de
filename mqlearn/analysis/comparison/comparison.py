"""Is rule a faster than rule b? One question, asked of pairs of finished runs, answered together.

The unit is the seed: what a run gives is one number a seed. Each pair is tested alone (`ask`), then all pairs are
corrected together (`decide`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mqlearn.analysis.comparison.labels import Entry
from mqlearn.analysis.comparison.seed_values import (
    Question,
    SeedValues,
    common_checkpoint,
    is_deterministic,
    metric_of,
    seed_values,
)
from mqlearn.analysis.statistics import power, significance
from mqlearn.analysis.statistics.intervals import (
    METHOD_NAMES,
    Estimate,
    coverage_words,
    difference_interval,
    method_for,
)
from mqlearn.experiments.settings import identity
from mqlearn.storage.runs import Run


class Side(NamedTuple):
    """One run of a pair. value: mean of what was tested, a Kaplan-Meier median for times; n_finite of n_seeds seeds
    have not diverged."""

    label: str
    digest: str
    value: float
    n_finite: int
    n_seeds: int


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

    @property
    def n_used(self) -> int:
        """Pairs in the test, or seeds of both rules."""
        return len(self.evidence.a) if self.evidence.paired else len(self.evidence.a) + len(self.evidence.b)


@dataclass(frozen=True, eq=False)
class Verdict:
    """What a tested pair means within its family of comparisons."""

    tested: Pair
    verdict: str  # a_better | b_better | no_difference | impossible
    reason: str
    p_corrected: float
    correction: str
    seeds_needed: int | None = None
    tuning: dict[str, Any] | None = None  # with tuned=true: of a and b, budget, best setting and sensitivity


def row(verdict: Verdict) -> dict[str, Any]:
    """A verdict as plain data: what --json writes, and all that reports and claims read."""
    tested, evidence, effect = verdict.tested, verdict.tested.evidence, verdict.tested.effect
    a, b, question = tested.a, tested.b, tested.question
    return {
        "a": a.label, "b": b.label, "group": tested.group, "summary": question.summary, "metric": tested.metric,
        "at": tested.at, "epsilon": question.epsilon, "verdict": verdict.verdict, "reason": verdict.reason,
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
    metric = metric_of(question, a.run, b.run)
    at = common_checkpoint(question, metric, a.run, b.run)
    paired, why = pairing(a.run, b.run)
    shared = min(run.settings["n_seeds"] for run in (a.run, b.run)) if paired else None
    of_a, of_b = seed_values(question, metric, at, a.run, b.run, shared)
    used = (of_a.used & of_b.used, of_a.used & of_b.used) if paired else (of_a.used, of_b.used)
    x, y = of_a.values[used[0]], of_b.values[used[1]]
    notes = _notes(question, at, a, b, of_a, of_b)
    if paired and question.summary != "time":
        # Rules that are one and the same differ by rounding: that is no difference.
        scale = max(float(np.abs(run.curves[metric][:, 0]).max()) for run in (a.run, b.run))
        y = np.where(np.abs(x - y) <= 1e-12 * scale, x, y)
    if paired and len(x) and not np.any(x - y):
        notes.append("the same value in every seed, up to rounding")
    constant = [is_deterministic(entry.run, metric) for entry in (a, b)]
    if any(constant) and not all(constant):
        notes.append(f"{(a if constant[0] else b).label} is deterministic: its seed has no effect")
    finite = [int(values.finite.sum()) for values in (of_a, of_b)]
    centres = (of_a.centre, of_b.centre) if question.is_ratio else (_mean(x), _mean(y))
    sides = [
        Side(entry.label, entry.run.digest, centre, n, len(values.finite))
        for entry, centre, n, values in zip((a, b), centres, finite, (of_a, of_b), strict=True)
    ]
    return Pair(
        *sides,
        group=a.block if a.block == b.block else f"mixed: {a.block} | {b.block}",
        question=question,
        metric=metric,
        at=at,
        effect=_effect(question, x, y, paired, all(constant)),
        evidence=_evidence(x, y, paired, why, all(constant), resamples),
        n_finite=int((of_a.finite & of_b.finite).sum()) if paired else min(finite),
        deterministic=all(constant),
        mixed=a.block != b.block,
        notes=tuple(notes),
    )


def _effect(question: Question, x: np.ndarray, y: np.ndarray, paired: bool, deterministic: bool) -> Effect:
    found = Estimate(math.nan, math.nan, math.nan, 0)
    if len(x) and len(y):
        found = difference_interval(x, y, paired=paired, method=question.interval, level=1 - question.level)
    value, low, high = (float(end) for end in found[:3])
    if deterministic:
        low = high = math.nan
    if question.is_ratio:
        value, low, high = math.exp(value), math.exp(low), math.exp(high)
    kind = "ratio of geometric mean times, a / b" if question.is_ratio else "difference of means, a - b"
    return Effect(value, low, high, kind, _interval_words(question, paired, len(x), len(y), deterministic))


def _evidence(x: np.ndarray, y: np.ndarray, paired: bool, why: str, deterministic: bool, resamples: int) -> Evidence:
    test, p_t, size = significance.Test(math.nan, math.nan, "none"), math.nan, math.nan
    if len(x) and len(y) and not deterministic:
        if paired:
            test = significance.sign_flip(x - y, resamples=resamples)
        else:
            test = significance.permutation(x, y, resamples=resamples)
        p_t, size = significance.t_test(x, y, paired=paired), significance.effect_size(x, y, paired=paired)
    kind = "d_z, paired: mean(a - b)/sd(a - b)" if paired else "Hedges' g, unpaired: by the pooled sd"
    return Evidence(x, y, test, p_t, size, kind, paired, why)


def decide(pairs: Sequence[Pair], *, resamples: int = significance.RESAMPLES) -> list[Verdict]:
    """Correct a family of tested pairs by Holm's method, and give each its verdict.

    `impossible`: even if every pair of the family reached its smallest p, this one would not reach the level.
    """
    corrected = significance.holm([pair.evidence.test.p for pair in pairs])
    at_best = significance.holm([pair.evidence.test.smallest for pair in pairs])
    family = sum(not math.isnan(pair.evidence.test.p) for pair in pairs)
    return [
        _decided(pair, float(p), float(best), family, resamples)
        for pair, p, best in zip(pairs, corrected, at_best, strict=True)
    ]


def _decided(pair: Pair, p: float, best: float, family: int, resamples: int) -> Verdict:
    question, evidence, level = pair.question, pair.evidence, pair.question.level
    less = pair.effect.value < (1 if question.is_ratio else 0)
    better = "a_better" if less == question.less_is_better else "b_better"
    needed = None
    if pair.deterministic and not math.isnan(pair.effect.value):
        differs = bool(np.any(evidence.a[:1] != evidence.b[:1]))
        said = better if differs else "no_difference"
        exact = "the difference is exact and needs no test" if differs else "the values are equal"
        reason = f"deterministic: every seed gives the same curve, the seed has no effect; {exact}"
    elif math.isnan(evidence.test.p):
        said, reason = "impossible", "there are no finite seeds to compare"
    elif p <= level:
        said, reason = better, f"corrected p at most {level:g}"
    else:
        x, y = evidence.a, evidence.b
        needed = power.seeds_needed(x, y, paired=evidence.paired, level=level / family, resamples=resamples)
        said, reason = "no_difference", f"corrected p above {level:g}: no difference shown"
        if best > level:
            said, reason = "impossible", _impossible(pair, family, best, resamples)
    return Verdict(pair, said, reason, p, f"Holm over {family} comparison{'s' * (family != 1)}", needed)


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


def pairing(a: Run, b: Run) -> tuple[bool, str]:
    """Whether seed i of both runs met the same random numbers, and why, by their records."""
    seeds, counts = [run.settings["seed"] for run in (a, b)], [run.settings["n_seeds"] for run in (a, b)]
    if _streams(a) != _streams(b):
        if _same_chain(a, b):
            text = f"common random numbers (seed={seeds[0]}): the chain of a seed is the same in both"
            what = "; replay draws from it" if "Replay" in (_target(a), _target(b)) else ""
            return True, text + what + _common_seeds(counts)
        if seeds[0] != seeds[1]:
            return False, f"independent seeds (seed={seeds[0]} and seed={seeds[1]})"
        if a.summary.get("numerics_version") != b.summary.get("numerics_version"):
            return False, "not paired: other numerics versions"
        return False, "not paired: other samples (the model or the sampling differs)"
    text = f"common random numbers (seed={seeds[0]}, the same samples)"
    if a.settings["sampling"].get("behaviour") == "epsilon_greedy":
        text = f"common random numbers (seed={seeds[0]}): the uniform numbers are common, the trajectories are not"
    return True, text + _common_seeds(counts)


def _common_seeds(counts: Sequence[int]) -> str:
    if counts[0] == counts[1]:
        return ""
    return f"; the first {min(counts)} seeds, which both have, of {counts[0]} and {counts[1]}"


# What the chain of a seed depends on; how the samples are used (a buffer, a clock, rounds) is not among it.
_CHAIN = ("behaviour", "start", "restart_probability", "time_limit")


def _same_chain(a: Run, b: Run) -> bool:
    """Whether every seed of both runs follows one trajectory, though the sampling of the runs differs.

    It does not if the behaviour sees what is learned, or if a buffer is filled before iteration 0 or seldom.
    """
    for run in (a, b):
        sampling = run.settings["sampling"]
        own_pace = sampling.get("warm_up", 0) == 0 and sampling.get("draws", 1) == 1
        if _target(run) not in ("Markovian", "Replay") or sampling.get("behaviour") == "epsilon_greedy" or not own_pace:
            return False
    return _streams(a, chain_only=True) == _streams(b, chain_only=True)


def _streams(run: Run, *, chain_only: bool = False) -> str:
    """What decides the random numbers of a seed, as a text; the sampling as its chain alone, if so asked."""
    settings = run.settings
    if chain_only:
        settings = {**settings, "sampling": {name: settings["sampling"].get(name) for name in _CHAIN}}
    return identity.streams_key(settings, run.summary.get("numerics_version"))


def _target(run: Run) -> str:
    return str(run.settings["sampling"].get("_target_")).rpartition(".")[2]


def _notes(question: Question, at: int, a: Entry, b: Entry, x: SeedValues, y: SeedValues) -> list[str]:
    notes = []
    if question.at is not None and at != question.at:
        notes.append(f"k = {at} is the last checkpoint up to {question.at} that both have")
    for entry, values in ((a, x), (b, y)):
        n, finite = len(values.finite), int(values.finite.sum())
        if finite < n:
            how = {"worst": "counted as the worst value", "censored": "counted by their last finite value"}
            if question.summary == "time":
                how = {"worst": "counted as never arriving", "censored": "censored there, and left out of the test"}
            treated = how.get(question.diverged, "left out")
            notes.append(f"{entry.label}: {finite} of {n} seeds finite, the others {treated}")
        if values.times is not None:
            arrived = int(values.times.observed.sum())
            if arrived < n:
                notes.append(
                    f"{entry.label}: {arrived} of {n} seeds arrived by k = {at}; the others count at {at} in the ratio"
                )
    versions = [entry.run.summary.get("numerics_version") for entry in (a, b)]
    if versions[0] != versions[1]:
        notes.append(f"numerics versions {versions[0]} and {versions[1]}")
    if a.block != b.block:
        notes.append(f"mixed, across blocks: a is from [{a.block}], b from [{b.block}]")
    return notes
