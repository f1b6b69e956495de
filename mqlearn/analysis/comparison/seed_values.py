"""One number a seed: what a finished run answers to a question, and what becomes of seeds that have diverged."""

import math
from dataclasses import dataclass

import numpy as np

from mqlearn.analysis import axis as axes
from mqlearn.analysis.axis import Axis
from mqlearn.analysis.statistics import survival
from mqlearn.analysis.statistics.intervals import LEVEL, METHODS, Method
from mqlearn.checks import choice
from mqlearn.errors import SettingError, nearest
from mqlearn.learning.metric_kinds import BUILT_IN, MORE_IS_BETTER
from mqlearn.storage.runs import AXES, Run

SUMMARIES = ("error", "area", "time", "return")
TREATMENTS = ("worst", "censored", "excluded")


@dataclass(frozen=True)
class Question:
    """What is asked of every pair.

    summary: "error" at `at`; "area", mean error up to `at`; "time", first checkpoint with an error of at most
    `epsilon`, up to `at`; "return" at `at`, where more is better.   metric: of the curve, None is theta_error for
    linear features and q_error otherwise, for a return return_uniform, return_start or policy_value, the first that
    both have.   axis: iterations or samples, the unit of `at` and of times; areas are means along it.   at: None is as
    far as all go that are compared. In iterations it is the last checkpoint up to there that both have, in samples the
    last one up to there that each has.   level: of the tests, family-wise.
    interval: auto (t below 15 seeds, else bca), bca, percentile or t, at 1 - level, not corrected.   diverged: how a
    seed that has diverged by then enters; "worst": as the worst finite value of the pair, or the initial one if that is
    worse, a time as never arrived; "censored": as its last finite value, a time as censored there and left out of the
    test; "excluded": not.   margin: a factor above 1, within which two rules are equal; None: no verdict says that.
    """

    summary: str = "error"
    metric: str | None = None
    at: int | None = None
    epsilon: float | None = None
    diverged: str = "worst"
    level: float = round(1 - LEVEL, 12)
    interval: Method = "auto"
    axis: Axis = "iterations"
    margin: float | None = None

    def __post_init__(self) -> None:
        choices = (("summary", SUMMARIES), ("diverged", TREATMENTS), ("interval", METHODS), ("axis", axes.KINDS))
        for name, options in choices:
            choice(name, getattr(self, name), options)
        if not 0 < self.level < 1:
            raise SettingError("level", self.level, "must be a number strictly between 0 and 1")
        if self.at is not None and self.at < 0:
            raise SettingError("at", self.at, "must be a whole number, at least 0")
        if self.epsilon is not None and not 0 < self.epsilon < math.inf:
            raise SettingError("epsilon", self.epsilon, "must be a positive number")
        if self.summary != "time" and self.epsilon is not None:
            raise SettingError("epsilon", self.epsilon, "is a setting of summary=time alone")
        if self.margin is not None and not 1 < self.margin < math.inf:
            raise SettingError("margin", self.margin, "must be a factor above 1, such as 1.1")
        if self.summary == "time" and self.epsilon is None:
            expected = "must be given for summary=time: the error that counts as arrived, for example epsilon=0.05"
            raise SettingError("epsilon", None, expected)
        if self.metric in BUILT_IN and self.less_is_better is (self.metric in MORE_IS_BETTER):
            expected = "is better the more of it: ask with summary=return"
            if self.summary == "return":
                expected = "is better the less of it: ask with summary=error, area or time"
            raise SettingError("metric", self.metric, expected)

    @property
    def less_is_better(self) -> bool:
        return self.summary != "return"

    @property
    def is_ratio(self) -> bool:
        """Whether the effect is a ratio a / b, and no difference a - b."""
        return self.summary == "time"


@dataclass(frozen=True, eq=False)
class SeedValues:
    """Of one run: values (n,) f8, as treated; finite (n,): not diverged, and measured; used (n,): in the test.

    centre: mean of the used values; for times the Kaplan-Meier median. For times `values` are logarithms.
    """

    values: np.ndarray
    finite: np.ndarray
    used: np.ndarray
    centre: float
    times: survival.Times | None = None


def metric_of(question: Question, *compared: Run) -> str:
    """The metric that a question means for these runs. Raises SettingError if one of them lacks it."""
    has = set.intersection(*({*run.curves} - set(AXES) for run in compared))
    linear = all("theta_error" in run.curves for run in compared)
    wishes = ("theta_error", "q_error") if linear else ("q_error",)
    if question.summary == "return":
        wishes = ("return_uniform", "return_start", "policy_value")
    name = question.metric or next((wish for wish in wishes if wish in has), wishes[0])
    if name not in has:
        lacking = next((run for run in compared if name not in run.curves), compared[0])
        expected = f"is not measured in {lacking.name}; common to the runs are {', '.join(sorted(has))}"
        raise SettingError("metric", name, expected + nearest(name, has))
    return name


def horizon(question: Question, metric: str, *compared: Run) -> int:
    """Up to where runs are compared, on the axis of the question: `at`, or the end of the shortest run.

    In iterations it is the last one up to there at which all of them have measured; of times and in samples the place
    itself. Raises SettingError if `at` is beyond the end of a run, or before a run's first checkpoint.
    """
    last = [int(axes.positions(run, question.axis)[-1]) for run in compared]
    end, shortest = min(zip(last, compared, strict=True), key=lambda one: one[0])
    if question.at is not None and question.at > end:
        expected = f"must be at most {end}, the last of the {question.axis} of {shortest.name}"
        raise SettingError("at", question.at, expected)
    at = end if question.at is None else question.at
    if question.summary == "time" or question.axis == "samples":
        for run in compared:
            _last_measured(question, metric, at, run)
        return at
    measured = [measured_at(run, metric, question.axis).tolist() for run in compared]
    common = set.intersection(*map(set, measured))
    below = [k for k in common if k <= at]
    if not common:
        first = dict(zip((run.name for run in compared), measured, strict=True))
        ks = "; ".join(f"{name} at {_few(own)}" for name, own in [*first.items()][:3])
        expected = f"there is no checkpoint that the runs have in common: {metric} was measured in {ks}"
        raise SettingError("at", at, f"{expected}; runs have the same ones with equal iterations and checkpoints")
    if not below:
        raise SettingError("at", at, f"is before the first checkpoint that the runs have in common, {min(common)}")
    return max(below)


def _few(iterations: list[int]) -> str:
    """k = 0, 5, ..., 100"""
    shown = iterations if len(iterations) < 5 else [*iterations[:2], "...", iterations[-1]]
    return f"k = {', '.join(map(str, shown))}"


def checkpoint(question: Question, metric: str, at: int, run: Run) -> int:
    """The last checkpoint up to `at` at which a run has measured, on the axis; of times `at` itself.

    Raises SettingError if there is none.
    """
    last = _last_measured(question, metric, at, run)
    return at if question.summary == "time" else last


def _last_measured(question: Question, metric: str, at: int, run: Run) -> int:
    measured = measured_at(run, metric, question.axis)
    if not (measured <= at).any():
        expected = f"is before the first checkpoint of {run.name}, {axes.words(question.axis, measured[0])}"
        raise SettingError("at", at, expected)
    return int(measured[measured <= at][-1])


def measured_at(run: Run, metric: str, axis: str = "iterations") -> np.ndarray:
    """The checkpoints at which a metric was measured: some seed is finite there, or all have diverged by then."""
    position = axes.positions(run, axis)
    return position[np.isfinite(run.curves[metric]).any(axis=0) | (axes.ends(run, axis).max() <= position)]


def gone_by(run: Run, at: int, axis: str = "iterations") -> np.ndarray:
    """(n_seeds,): whether a seed has diverged by `at` on an axis."""
    return axes.ends(run, axis) <= at


def is_deterministic(run: Run, metric: str) -> bool:
    """Whether all seeds, two at least, have the same curves: what is learned and the metric do not depend on them."""
    learned = [name for name in run.curves if name not in AXES and not name.startswith("return_")]
    curves = [run.curves[name] for name in {*learned, metric}]
    return len(curves[0]) > 1 and all(
        np.array_equal(c, np.broadcast_to(c[:1], c.shape), equal_nan=True) for c in curves
    )


def summarise(question: Question, position: np.ndarray, curves: np.ndarray, at: int) -> np.ndarray:
    """(n,) from curves (n, C): the value at the last checkpoint up to `at`, the mean up to there, or the log time.

    position: (C,) the checkpoints on the axis of the question.
    """
    upto = position <= at
    if question.summary == "time":
        return survival.log_times(survival.times_to(position[upto], curves[:, upto], question.epsilon or 0), at)
    if question.summary == "area" and at > position[0]:
        measured = upto & np.isfinite(curves).any(axis=0)
        if measured.sum() > 1:
            return survival.area(position[measured], curves[:, measured])
    return curves[:, np.flatnonzero(upto)[-1]].astype(np.float64)


def summary_of(question: Question, metric: str, at: int, run: Run) -> np.ndarray:
    """(n_seeds,): `summarise` for a whole run, at its own last checkpoint up to `at`."""
    own = checkpoint(question, metric, at, run)
    return summarise(question, axes.positions(run, question.axis), run.curves[metric], own)


def mean_of(question: Question, metric: str, at: int, run: Run) -> float:
    """The mean over the seeds of one run, less being better: turned for a return, infinite if a seed has diverged."""
    values = np.where(gone_by(run, at, question.axis), math.nan, summary_of(question, metric, at, run))
    mean = float(values.mean()) if question.less_is_better else -float(values.mean())
    return mean if math.isfinite(mean) else math.inf


def seed_values(
    question: Question, metric: str, at: int, a: Run, b: Run, n: int | None = None
) -> tuple[SeedValues, SeedValues]:
    """The numbers of both runs up to `at`, of the first n seeds, with diverged seeds treated as asked."""
    courses = [
        (axes.positions(run, question.axis), run.curves[metric][:n], gone_by(run, at, question.axis)[:n])
        for run in (a, b)
    ]
    if question.summary == "time":
        x, y = (_times(question, *course, at) for course in courses)
        return x, y
    own = [checkpoint(question, metric, at, run) for run in (a, b)]
    found = [summarise(question, position, curve, k) for (position, curve, _), k in zip(courses, own, strict=True)]
    finite = [np.isfinite(values) & ~gone for values, (_, _, gone) in zip(found, courses, strict=True)]
    pooled = np.concatenate([values[ok] for values, ok in zip(found, finite, strict=True)])
    known = np.concatenate([pooled, *(curve[np.isfinite(curve[:, 0]), 0] for _, curve, _ in courses)])
    worst = math.nan if not len(known) else known.max() if question.less_is_better else known.min()
    made = []
    for (position, curve, _), values, ok in zip(courses, found, finite, strict=True):
        treated = np.where(ok, values, np.nan)
        for seed in np.flatnonzero(~ok):
            if question.diverged == "worst":
                treated[seed] = worst
            elif question.diverged == "censored":
                treated[seed] = _last_finite(question, position, curve[seed : seed + 1], at)
        used = np.isfinite(treated) & (len(pooled) > 0)  # never a test of nothing but stand-ins
        made.append(SeedValues(treated, ok, used, float(treated[used].mean()) if used.any() else math.nan))
    return made[0], made[1]


def _last_finite(question: Question, position: np.ndarray, curve: np.ndarray, at: int) -> float:
    """What the curve (1, C) of a seed that diverged gives at its last finite checkpoint up to `at`."""
    last = np.flatnonzero(np.isfinite(curve[0]) & (position <= at))
    return float(summarise(question, position, curve, int(position[last[-1]]))[0]) if len(last) else math.nan


def _times(question: Question, position: np.ndarray, curves: np.ndarray, gone: np.ndarray, at: int) -> SeedValues:
    upto = position <= at
    times = survival.times_to(position[upto], curves[:, upto], question.epsilon or 0)
    if question.diverged == "worst":
        times = survival.Times(np.where(gone, at, times.time), times.observed & ~gone)
        used = np.ones(len(gone), bool)
        counted = times
    else:
        used = ~gone | (times.observed & (question.diverged == "censored"))
        counted = times if question.diverged == "censored" else survival.Times(times.time[used], times.observed[used])
    return SeedValues(survival.log_times(times, at), ~gone, used, survival.median_time(counted), times)
