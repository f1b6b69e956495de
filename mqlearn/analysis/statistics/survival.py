"""When a curve arrives, how much error it has on the way, and how fast it falls. Arrays only; the unit is the seed."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mqlearn.analysis.statistics.intervals import LEVEL, RESAMPLES, Estimate, Method, difference_interval, generator
from mqlearn.errors import SettingError


class Times(NamedTuple):
    """time (n_seeds,) f8 in iterations; observed (n_seeds,): False where the seed was still on its way then."""

    time: np.ndarray
    observed: np.ndarray


def times_to(iteration: np.ndarray, curves: np.ndarray, epsilon: float) -> Times:
    """First checkpoint at which each of `curves` (n_seeds, C) is at most `epsilon`; `iteration` is (C,).

    A seed that never arrives is censored at the last checkpoint, one that diverges before it arrives at its last
    finite one. Times are known up to the distance of checkpoints. Raises SettingError unless 0 < epsilon < infinity.
    """
    if not 0 < epsilon < math.inf:
        raise SettingError("epsilon", epsilon, "must be a positive number")
    iteration, curves = np.asarray(iteration), np.asarray(curves, dtype=np.float64)
    below = curves <= epsilon  # False for nan
    observed = np.asarray(below.any(axis=1))
    finite = np.isfinite(curves)
    last = np.where(finite.any(axis=1), curves.shape[1] - 1 - finite[:, ::-1].argmax(axis=1), 0)
    return Times(iteration[np.where(observed, below.argmax(axis=1), last)].astype(np.float64), observed)


def kaplan_meier(times: Times) -> tuple[np.ndarray, np.ndarray]:
    """Distinct times (J,) and the share of seeds still on their way after them (J,), by the Kaplan-Meier estimate."""
    from scipy import stats

    data = stats.CensoredData(uncensored=times.time[times.observed], right=times.time[~times.observed])
    survival = stats.ecdf(data).sf
    return survival.quantiles, survival.probabilities


def median_time(times: Times) -> float:
    """The Kaplan-Meier median: first time by which half of the seeds have arrived; infinite if none is reached."""
    if len(times.time) == 0:
        return math.nan
    time, left = kaplan_meier(times)
    arrived = np.flatnonzero(left <= 0.5 + 1e-12)
    return float(time[arrived[0]]) if len(arrived) else math.inf


def log_times(times: Times, horizon: float) -> np.ndarray:
    """log of min(time, horizon), (n_seeds,); time 0 counts as 1. Seeds that have not arrived count at the horizon."""
    restricted = np.where(times.observed, np.minimum(times.time, horizon), horizon)
    return np.log(np.maximum(restricted, 1.0))


def ratio_of_times(
    a: Times, b: Times, horizon: float, *, paired: bool, method: Method = "auto", level: float = LEVEL
) -> Estimate:
    """Geometric mean time of a over that of b, with its interval; below 1: a arrives earlier.

    Times are restricted to `horizon`: where seeds of the slower rule have not arrived, the ratio errs towards 1.
    """
    logs = (log_times(times, horizon) for times in (a, b))
    value, low, high, n = difference_interval(*logs, paired=paired, method=method, level=level)
    return Estimate(math.exp(value), math.exp(low), math.exp(high), n)


def area(iteration: np.ndarray, curves: np.ndarray, upto: float | None = None) -> np.ndarray:
    """Area under each of `curves` (n_seeds, C) from the first checkpoint to `upto`, over its length: (n_seeds,).

    The mean error per iteration, by trapezia. NaN where a value in the range is not finite. Raises SettingError if
    `upto` is not within the checkpoints.
    """
    iteration, curves = np.asarray(iteration, dtype=np.float64), np.asarray(curves, dtype=np.float64)
    end = iteration[-1] if upto is None else float(upto)
    if not iteration[0] < end <= iteration[-1]:
        expected = f"must lie above the first checkpoint, {iteration[0]:g}, and be at most the last, {iteration[-1]:g}"
        raise SettingError("at", upto, expected)
    inside = iteration < end
    at_end = np.array([np.interp(end, iteration, curve) for curve in curves])
    k = np.append(iteration[inside], end)
    values = np.column_stack([curves[:, inside], at_end])
    return np.trapezoid(values, k, axis=1) / (end - iteration[0])


def rate(
    iteration: np.ndarray,
    curves: np.ndarray,
    window: tuple[float, float],
    level: float = LEVEL,
    resamples: int = RESAMPLES,
) -> Estimate:
    """Exponent r of error ~ k^r on `window` = (first, last) iteration, with its percentile interval over seeds.

    The least-squares slope of log(mean error over seeds) on log k, over the checkpoints in the window, with k > 0;
    whole seeds are resampled. Seeds that are not finite in the window are left out, and not counted in n_finite. One
    seed: no interval. Raises SettingError for a window with fewer than two such checkpoints, or a mean error of 0.
    """
    iteration, curves = np.asarray(iteration, dtype=np.float64), np.asarray(curves, dtype=np.float64)
    inside = (iteration >= window[0]) & (iteration <= window[1]) & (iteration > 0)
    if inside.sum() < 2:
        expected = f"must hold two checkpoints; they go from {iteration[0]:g} to {iteration[-1]:g}"
        raise SettingError("window", window, expected)
    used = curves[:, inside]
    used = used[np.isfinite(used).all(axis=1)]
    n = len(used)
    if n == 0:
        return Estimate(math.nan, math.nan, math.nan, 0)
    if (used.mean(axis=0) <= 0).any():
        raise SettingError("window", window, "holds an error of 0, which has no logarithm")
    x = np.log(iteration[inside])
    weights = (x - x.mean()) / ((x - x.mean()) ** 2).sum()
    slope = float(np.log(used.mean(axis=0)) @ weights)
    if n == 1:
        return Estimate(slope, math.nan, math.nan, 1)
    chosen = generator("rate", n).multinomial(n, np.full(n, 1 / n), size=resamples)
    with np.errstate(divide="ignore"):  # a resample of seeds that are all 0 somewhere
        slopes = np.log(chosen @ used / n) @ weights
    low, high = np.quantile(slopes, [(1 - level) / 2, (1 + level) / 2])
    return Estimate(slope, float(low), float(high), n)


def exponential_against_power(
    iteration: np.ndarray,
    curves: np.ndarray,
    window: Sequence[float],
    level: float = LEVEL,
    resamples: int = RESAMPLES,
) -> Estimate:
    """Which law the mean of `curves` (n_seeds, C) follows on `window` = (first, last): c exp(-r k), or c k^-r.

    log of the residual sum of squares of log mean on log k, over that on k, with its percentile interval over resampled
    seeds: above 0 the exponential fits better, below 0 the power. Seeds that are not finite in the window are left out,
    and not counted in n_finite. Raises SettingError for a window with fewer than three checkpoints, or a mean of 0.
    """
    iteration, curves = np.asarray(iteration, dtype=np.float64), np.asarray(curves, dtype=np.float64)
    inside = (iteration >= window[0]) & (iteration <= window[1]) & (iteration > 0)
    used = curves[:, inside]
    used = used[np.isfinite(used).all(axis=1)]
    n = len(used)
    if inside.sum() < 3:
        raise SettingError("window", tuple(window), "must hold three checkpoints, to tell two laws apart")
    if n == 0:
        return Estimate(math.nan, math.nan, math.nan, 0)
    if (used.mean(axis=0) <= 0).any():
        raise SettingError("window", tuple(window), "holds an error of 0, which has no logarithm")
    k = iteration[inside]

    def log_ratio(means: np.ndarray) -> np.ndarray:
        return np.log(_residual(np.log(k), np.log(means)) / _residual(k, np.log(means)))

    value = float(log_ratio(used.mean(axis=0)[None])[0])
    if n == 1:
        return Estimate(value, math.nan, math.nan, 1)
    chosen = generator("shape", n).multinomial(n, np.full(n, 1 / n), size=resamples)
    with np.errstate(divide="ignore", invalid="ignore"):  # a resample of seeds that are all 0 somewhere
        ratios = log_ratio(chosen @ used / n)
    low, high = np.nanquantile(ratios, [(1 - level) / 2, (1 + level) / 2])
    return Estimate(value, float(low), float(high), n)


def _residual(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Residual sums of squares of the rows of y (m, C) on x (C,), by straight lines; never 0."""
    x, y = x - x.mean(), y - y.mean(axis=1, keepdims=True)
    slope = y @ x / (x**2).sum()
    return np.maximum(((y - slope[:, None] * x) ** 2).sum(axis=1), 1e-300)
