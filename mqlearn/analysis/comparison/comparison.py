"""Is rule a faster than rule b? One question, asked of pairs of finished runs, answered together.

The unit is the seed: what a run gives is one number a seed. Each pair is tested alone (`ask`), then all pairs are
corrected together (`decide`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mqlearn.analysis.comparison.labels import Entry
from mqlearn.analysis.comparison.samples import (
    Question,
    Sample,
    common_checkpoint,
    is_deterministic,
    metric_of,
    samples,
)
from mqlearn.analysis.statistics import power, significance
from mqlearn.analysis.statistics.intervals import Estimate, difference_interval
from mqlearn.experiments.settings import identity
from mqlearn.storage.runs import Run


@dataclass
class Verdict:
    """The answer for one pair. Differences are a - b, ratios a / b; low and high are NaN if there is no interval."""

    a: str
    b: str
    group: str
    summary: str
    metric: str
    at: int
    epsilon: float | None
    verdict: str  # a_better | b_better | no_difference | impossible
    reason: str
    effect: float
    effect_kind: str
    low: float
    high: float
    interval: str
    p: float
    p_corrected: float
    correction: str
    p_smallest: float
    p_t: float
    test: str
    level: float
    effect_size: float
    effect_size_kind: str
    paired: bool
    pairing: str
    n_finite: int  # pairs with both seeds finite, or the smaller of the two counts
    n_used: int  # pairs in the test, or seeds of both rules
    n_finite_a: int
    n_seeds_a: int
    n_finite_b: int
    n_seeds_b: int
    value_a: float
    value_b: float
    diverged: str
    deterministic: bool
    mixed: bool
    seeds_needed: int | None
    digest_a: str
    digest_b: str
    notes: list[str] = field(default_factory=list)
    tuning: dict[str, Any] | None = None  # with tuned=true: of a and b, budget, best setting and sensitivity
    tested: tuple[np.ndarray, np.ndarray] = (np.empty(0), np.empty(0))  # what entered the test, (n,) and (m,)


def ask(a: Entry, b: Entry, question: Question, *, resamples: int = significance.RESAMPLES) -> Verdict:
    """Test one pair; `decide` then says what it means. Raises SettingError if the runs cannot answer the question."""
    metric = metric_of(question, a.run, b.run)
    at = common_checkpoint(question, metric, a.run, b.run)
    paired, why = pairing(a.run, b.run)
    shared = min(run.settings["n_seeds"] for run in (a.run, b.run)) if paired else None
    x, y = samples(question, metric, at, a.run, b.run, shared)
    used = (x.used & y.used, x.used & y.used) if paired else (x.used, y.used)
    p, q = x.values[used[0]], y.values[used[1]]
    notes = _notes(question, at, a, b, x, y)
    if paired and question.summary != "time":
        # Rules that are one and the same differ by rounding: that is no difference.
        scale = max(float(np.abs(run.curves[metric][:, 0]).max()) for run in (a.run, b.run))
        rounding = np.abs(p - q) <= 1e-12 * scale
        q = np.where(rounding, p, q)
    if paired and len(p) and not np.any(p - q):
        notes.append("the same value in every seed, up to rounding")
    constant = [is_deterministic(entry.run, metric) for entry in (a, b)]
    deterministic, some = all(constant), bool(len(p) and len(q))
    if any(constant) and not deterministic:
        notes.append(f"{(a if constant[0] else b).label} is deterministic: its seed has no effect")
    effect, test = Estimate(math.nan, math.nan, math.nan, 0), significance.Test(math.nan, math.nan, "none")
    size, p_t = math.nan, math.nan
    if some:
        level = 1 - question.level
        effect = difference_interval(p, q, paired=paired, method=question.interval, level=level)
    if some and deterministic:
        effect = effect._replace(low=math.nan, high=math.nan)
    elif some:
        if paired:
            test = significance.sign_flip(p - q, resamples=resamples)
        else:
            test = significance.permutation(p, q, resamples=resamples)
        size, p_t = significance.effect_size(p, q, paired=paired), significance.t_test(p, q, paired=paired)
    if question.is_ratio:
        effect = Estimate(math.exp(effect.value), math.exp(effect.low), math.exp(effect.high), effect.n_finite)
    counts = [int(sample.finite.sum()) for sample in (x, y)]
    centres = (x.centre, y.centre) if question.is_ratio else (_mean(p), _mean(q))
    return Verdict(
        a=a.label, b=b.label, group=a.block if a.block == b.block else f"mixed: {a.block} | {b.block}",
        summary=question.summary, metric=metric, at=at, epsilon=question.epsilon, verdict="", reason="",
        effect=float(effect.value), low=float(effect.low), high=float(effect.high),
        effect_kind="ratio of geometric mean times, a / b" if question.is_ratio else "difference of means, a - b",
        interval=_interval_words(question, paired, len(p), len(q), deterministic),
        p=test.p, p_corrected=math.nan, correction="", p_smallest=test.smallest, p_t=p_t, test=test.method,
        level=question.level, effect_size=size,
        effect_size_kind="d_z, paired: mean(a - b)/sd(a - b)" if paired else "Hedges' g, unpaired: by the pooled sd",
        paired=paired, pairing=why, n_finite=int((x.finite & y.finite).sum()) if paired else min(counts),
        n_used=len(p) if paired else len(p) + len(q), n_finite_a=counts[0], n_seeds_a=len(x.finite),
        n_finite_b=counts[1], n_seeds_b=len(y.finite), value_a=centres[0], value_b=centres[1],
        diverged=question.diverged, deterministic=deterministic, mixed=a.block != b.block, seeds_needed=None,
        digest_a=a.run.digest, digest_b=b.run.digest, notes=notes, tested=(p, q),
    )  # fmt: skip


def decide(verdicts: Sequence[Verdict], *, resamples: int = significance.RESAMPLES) -> list[Verdict]:
    """Correct a family of answers by Holm's method, and give each its verdict; they are changed in place.

    `impossible`: even if every pair of the family reached its smallest p, this one would not reach the level.
    """
    corrected = significance.holm([v.p for v in verdicts])
    at_best = significance.holm([v.p_smallest for v in verdicts])
    family = sum(not math.isnan(v.p) for v in verdicts)
    for v, p, best in zip(verdicts, corrected, at_best, strict=True):
        v.p_corrected, v.correction = float(p), f"Holm over {family} comparison{'s' * (family != 1)}"
        less = v.effect < (1 if v.summary == "time" else 0)
        better = "a_better" if less == (v.summary != "return") else "b_better"
        if v.deterministic and not math.isnan(v.effect):
            differs = np.any(v.tested[0][:1] != v.tested[1][:1])
            v.verdict = better if differs else "no_difference"
            exact = "the difference is exact and needs no test" if differs else "the values are equal"
            v.reason = f"deterministic: every seed gives the same curve, the seed has no effect; {exact}"
        elif math.isnan(v.p):
            v.verdict, v.reason = "impossible", "there are no finite seeds to compare"
        elif p <= v.level:
            v.verdict, v.reason = better, f"corrected p at most {v.level:g}"
        else:
            v.seeds_needed = power.seeds_needed(*v.tested, paired=v.paired, level=v.level / family, resamples=resamples)
            v.verdict, v.reason = "no_difference", f"corrected p above {v.level:g}: no difference shown"
            if best > v.level:
                v.verdict, v.reason = "impossible", _impossible(v, family, float(best), resamples)
    return list(verdicts)


def resamples_for(family: int, level: float) -> int:
    """Random patterns that a test needs so that one in ten of the level is reachable after correction."""
    return max(significance.RESAMPLES, math.ceil(20 * family / level))


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else math.nan


def _impossible(v: Verdict, family: int, best: float, resamples: int) -> str:
    n, m = map(len, v.tested)
    seeds = f"{n} pair{'s' * (n != 1)} of seeds" if v.paired else f"{n} against {m} seeds"
    text = f"with {seeds} no outcome gives a p below {v.p_smallest:.3g}"
    if min(n, m) == 1:
        text = f"{'one seed' if n == m else seeds}: the spread between seeds is unknown, so no interval; {text}"
    if v.p_smallest <= v.level:
        text += f", which is {best:.3g} after correction for {family} comparisons (ask fewer with against=)"
    fewest = power.seeds_to_reach(v.level / family, paired=v.paired, resamples=resamples)
    each = "pairs" if v.paired else "seeds of each rule"
    return text if fewest is None else f"{text}; possible from {fewest} {each} on"


def _interval_words(question: Question, paired: bool, n: int, m: int, deterministic: bool) -> str:
    if deterministic or min(n, m) < (2 if paired else 1) or n + m < 4:
        why = "deterministic" if deterministic else "one seed" if min(n, m) == 1 else "too few seeds"
        return f"none ({why})"
    kinds = {"bca": "BCa bootstrap", "percentile": "percentile bootstrap", "t": "t" if paired else "Welch t"}
    unit = f"{n} pairs of seeds" if paired else f"{n} against {m} seeds"
    return f"{100 * (1 - question.level):g} % {kinds[question.interval]}, {unit}, not corrected"


def pairing(a: Run, b: Run) -> tuple[bool, str]:
    """Whether seed i of both runs met the same random numbers, and why, by their records."""
    seeds, counts = [run.settings["seed"] for run in (a, b)], [run.settings["n_seeds"] for run in (a, b)]
    if len({identity.streams_key(run.settings, run.summary.get("numerics_version")) for run in (a, b)}) > 1:
        if seeds[0] != seeds[1]:
            return False, f"independent seeds (seed={seeds[0]} and seed={seeds[1]})"
        if a.summary.get("numerics_version") != b.summary.get("numerics_version"):
            return False, "not paired: other numerics versions"
        return False, "not paired: other samples (the model or the sampling differs)"
    text = f"common random numbers (seed={seeds[0]}, the same samples)"
    if a.settings["sampling"].get("behaviour") == "epsilon_greedy":
        text = f"common random numbers (seed={seeds[0]}): the uniform numbers are common, the trajectories are not"
    if counts[0] != counts[1]:
        text += f"; the first {min(counts)} seeds, which both have, of {counts[0]} and {counts[1]}"
    return True, text


def _notes(question: Question, at: int, a: Entry, b: Entry, x: Sample, y: Sample) -> list[str]:
    notes = []
    if question.at is not None and at != question.at:
        notes.append(f"k = {at} is the last checkpoint up to {question.at} that both have")
    for entry, sample in ((a, x), (b, y)):
        n, finite = len(sample.finite), int(sample.finite.sum())
        if finite < n:
            how = {"worst": "counted as the worst value", "censored": "counted by their last finite value"}
            if question.summary == "time":
                how = {"worst": "counted as never arriving", "censored": "censored there, and left out of the test"}
            treated = how.get(question.diverged, "left out")
            notes.append(f"{entry.label}: {finite} of {n} seeds finite, the others {treated}")
        if sample.times is not None:
            arrived = int(sample.times.observed.sum())
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
