"""Checks that compare two runs: of two rules, of one rule under two conditions, or of a run with itself earlier."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mqlearn.analysis.claims.checks import ClaimCheck, Look, Seen, quantity
from mqlearn.analysis.claims.claim import places_of
from mqlearn.analysis.claims.criteria import pair_outcome
from mqlearn.analysis.comparison import comparison
from mqlearn.analysis.comparison.labels import Entry
from mqlearn.analysis.comparison.pairing import of_seeds
from mqlearn.analysis.comparison.seed_values import Question, horizon, metric_of
from mqlearn.analysis.statistics.intervals import generator
from mqlearn.errors import SettingError, nearest
from mqlearn.storage.runs import Run

MEASURES = ("error", "peak", "overshoot", "spread")
_POOLED = ("pooled_digests", "pooled")  # of a run whose seeds are problems: the runs, and the condition
ITSELF = "itself"  # as a rival: the same rule under the conditions b_in


@dataclass(frozen=True)
class Wanted:
    """One pair to test: conditions, both entries, the question, and what the claim expects (a_better | b_better)."""

    conditions: dict[str, str]
    a: Entry
    b: Entry
    question: Question
    expect: str
    margin: float = 1.0  # b is multiplied by it
    aside: bool = False
    extra: Callable[[comparison.Pair], dict[str, Any]] | None = None


def wanted_pairs(spec: Mapping[str, Any], places: Sequence[Mapping[str, str]], look: Look) -> list[Wanted]:
    """The pairs of a `pairs` check, at each of `places` (conditions), each a and b, summary and share of T.

    pooled: the condition whose levels are the units of the test, in place of seeds: a set of problems, each with the
    mean over its seeds. What differs between problems is then part of the spread, and the verdict is on the set.
    """
    if spec["pooled"] is not None:
        look = _pooling(look, spec["pooled"], list(dict.fromkeys(place[spec["pooled"]] for place in places)))
    made = []
    for here in places_of(spec, places):
        for a_label, rival in itertools.product(spec["a"], spec["b"]):
            for summary, share in itertools.product(spec["summary"], spec["at"]):
                made.append(_wanted(spec, here, str(a_label), rival, str(summary), float(share), look))
    return made


def _wanted(
    spec: Mapping[str, Any], here: dict[str, str], a_label: str, rival: Any, summary: str, share: float, look: Look
) -> Wanted:
    a_in, b_in = (dict(spec[f"{side}_in"]) for side in "ab")
    a = look(here | a_in, a_label)
    at = round(share * a.cell.settings["iterations"])
    metric = metric_of(Question(summary=summary, metric=spec["metric"]), a.run)
    question = Question(summary=summary, metric=metric, at=at, level=spec["level"])
    first = a.run
    if isinstance(rival, Mapping) and "best_of" in rival:
        candidates = [look(here | b_in, label) for label in rival["best_of"]]
        first, second, b_label = _tuned(first, candidates, question, at)
    elif isinstance(rival, Mapping):
        second, b_label = frozen(first, metric, round(rival["itself"] * at)), _rival_words(rival)
    else:
        b_label = a_label if rival == ITSELF else str(rival)
        second = look(here | b_in, b_label).run
    measure, margin = spec["measure"], float(spec["margin"])
    margin = margin if question.less_is_better else 1 / margin
    said = {**here, **quantity(spec), "rule": a_label}
    said |= {} if rival == ITSELF else {"rival": _rival_words(rival)}
    # The checkpoint that is looked at, as the tables of runs name it: of 1000 iterations it may be 955.
    said |= {"measured by": metric, "k": str(horizon(question, metric, first, second))}
    return Wanted(
        said,
        Entry(measured(first, metric, measure), a_label, _words(here | a_in)),
        Entry(measured(second, metric, measure, margin), b_label, _words(here | b_in)),
        question,
        spec["expect"],
        margin,
        bool(spec["aside"]),
        spreads if measure == "spread" else medians,
    )


def _pooling(look: Look, factor: str, levels: Sequence[str]) -> Look:
    """Looks at a run whose seeds are problems."""

    def pooled(place: Mapping[str, str], label: str) -> Seen:
        every = [look({**place, factor: level}, label) for level in levels]
        runs = [one.run for one in every]
        curves = {
            name: np.array([run.curves[name].mean(axis=0) for run in runs])
            for name, values in runs[0].curves.items()
            if values.ndim == 2 and all(name in run.curves and len(run.curves[name].T) == len(values.T) for run in runs)
        }
        curves["iteration"] = runs[0].curves["iteration"]
        if any(not np.array_equal(run.curves["iteration"], curves["iteration"]) for run in runs):
            raise SettingError("checks.pooled", factor, "must have the same checkpoints at all of its levels")
        own = runs[0].settings | {"n_seeds": len(runs)}
        # What has diverged is a seed of one problem: as the mean of its problem it is not finite.
        made = _view(Run(runs[0].folder, runs[0].summary | {"diverged": {}}), curves, own)
        made.__dict__.update(pooled_digests=[run.digest for run in runs], pooled=factor)
        return Seen(made, every[0].cell, label)

    return pooled


def _words(place: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {level}" for name, level in place.items())


def decide(wanted: Sequence[Wanted]) -> list[ClaimCheck]:
    """All pairs of a claim tested, corrected together by Holm's method. Raises SettingError for too few seeds."""
    if not wanted:
        return []
    resamples = comparison.resamples_for(len(wanted), wanted[0].question.level)  # one level a claim
    asked = [comparison.ask(one.a, one.b, one.question, resamples=resamples) for one in wanted]
    checks = []
    for one, decided in zip(wanted, comparison.decide(asked, resamples=resamples), strict=True):
        found = comparison.row(decided)
        if decided.verdict == "impossible":
            n_seeds = one.a.run.settings["n_seeds"]
            raise SettingError("n_seeds", n_seeds, f"are too few to test {len(wanted)} pairs: {decided.reason}")
        evidence = {name: found[name] for name in _KEPT} | (one.extra(decided.tested) if one.extra else {})
        ratio = one.margin * found["value_a"] / found["value_b"] if found["value_b"] else math.nan
        evidence |= {"expected": one.expect, "ratio": ratio, "margin": one.margin}
        evidence |= {"notes": found["notes"]} if found["notes"] else {}
        pooled = [digest for side in (one.a, one.b) for digest in side.run.__dict__.get("pooled_digests", ())]
        evidence |= {"pooled": one.a.run.__dict__["pooled"]} if pooled else {}
        evidence |= {"digests": list(dict.fromkeys(pooled or [found["digest_a"], found["digest_b"]]))}
        checks.append(ClaimCheck(one.conditions, pair_outcome(evidence), evidence, one.aside))
    return checks


_KEPT = (
    "a", "b", "metric", "at", "verdict", "value_a", "value_b", "effect", "low", "high", "p", "p_corrected", "paired",
    "n_finite", "n_finite_a", "n_finite_b", "seeds_needed", "test",
)  # fmt: skip


def _rival_words(rival: Any) -> str:
    if not isinstance(rival, Mapping):
        return str(rival)
    if "best_of" in rival:
        return f"best of {', '.join(rival['best_of'])}"
    return "its initial error" if rival["itself"] == 0 else f"itself at {rival['itself']:g} k"


def measured(run: Run, metric: str, measure: str, margin: float = 1.0) -> Run:
    """The run with `metric` (n, C) replaced, times `margin`.

    error: as it is.   peak: the largest error of the checkpoints 1 to k, over the initial one.   overshoot: what
    of the peak is above 1.   spread: distance of a seed from the median of the finite seeds. Raises SettingError.
    """
    curve = run.curves[metric]
    if measure not in MEASURES:
        raise SettingError("measure", measure, f"must be one of {', '.join(MEASURES)}{nearest(measure, MEASURES)}")
    if measure in ("peak", "overshoot"):
        later = np.maximum.accumulate(curve[:, 1:], axis=1)
        curve = np.concatenate([curve[:, :1], later], axis=1) / curve[:, :1]
        curve = curve if measure == "peak" else np.maximum(curve - 1, 0)
    elif measure == "spread":
        curve = np.abs(curve - np.array([np.median(c[np.isfinite(c)]) if np.isfinite(c).any() else 0 for c in curve.T]))
    return _view(run, {"iteration": run.curves["iteration"], metric: margin * curve})


def frozen(run: Run, metric: str, at: int) -> Run:
    """The run as if its curve had stayed where it was at the last checkpoint up to `at`."""
    iteration = run.curves["iteration"]
    place = np.flatnonzero(iteration <= at)[-1]
    curve = np.broadcast_to(run.curves[metric][:, place, None], run.curves[metric].shape)
    return _view(run, {"iteration": iteration, metric: curve})


def half(run: Run, *, second: bool) -> Run:
    """The run with its first or its second half of the seeds."""
    n = run.settings["n_seeds"]
    part = of_seeds(run, n // 2, n) if second else of_seeds(run, 0, n // 2)
    part.__dict__.update({name: value for name, value in run.__dict__.items() if name in _POOLED})
    return part


def _view(run: Run, curves: dict[str, np.ndarray], settings: Mapping[str, Any] | None = None) -> Run:
    made = Run(run.folder, run.summary)
    # What the cached properties would read from disk, and of a set of problems what its runs and its units are.
    kept = {name: value for name, value in run.__dict__.items() if name in _POOLED}
    made.__dict__.update(curves=curves, settings=run.settings if settings is None else settings, **kept)
    return made


def _tuned(run: Run, candidates: Sequence[Seen], question: Question, at: int) -> tuple[Run, Run, str]:
    """The run and the candidate with the best mean on the first half of the seeds, both on the second half."""
    metric = question.metric or ""

    def mean(one: Seen) -> float:
        iteration = one.run.curves["iteration"]
        values = half(one.run, second=False).curves[metric][:, np.flatnonzero(iteration <= at)[-1]]
        mean = values.mean() if question.less_is_better else -values.mean()
        return float(mean) if math.isfinite(mean) else math.inf

    best = min(candidates, key=mean)
    return half(run, second=True), half(best.run, second=True), f"{best.label} (chosen on the other half of the seeds)"


def medians(found: comparison.Pair) -> dict[str, Any]:
    """What a few seeds cannot move: medians of a and of margin b, and in how many of the pairs a is the smaller one."""
    a, b = found.evidence.a, found.evidence.b
    told: dict[str, Any] = {"median_a": float(np.median(a)), "median_b": float(np.median(b))} if len(a) * len(b) else {}
    return told | ({"pairs_with_a_below": int((a < b).sum())} if found.evidence.paired else {})


def spreads(found: comparison.Pair) -> dict[str, Any]:
    """Root mean square of what was tested, deviations from the median, a over b, with its paired bootstrap interval."""
    squares = np.column_stack((found.evidence.a, found.evidence.b)) ** 2
    drawn = generator("spreads", len(squares)).multinomial(len(squares), np.full(len(squares), 1 / len(squares)), 9999)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.sqrt((drawn @ squares[:, 0]) / (drawn @ squares[:, 1]))
        value = float(np.sqrt(squares[:, 0].sum() / squares[:, 1].sum()))
    low, high = np.quantile(ratios, [0.025, 0.975])
    return {"ratio_of_spreads": value, "ratio_low": float(low), "ratio_high": float(high)}
