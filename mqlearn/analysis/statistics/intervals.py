"""Statistics over seeds. The unit is the seed: evaluation episodes of one trained table are not seeds."""

import hashlib
import warnings
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np

from mqlearn.checks import choice
from mqlearn.errors import SettingError, nearest
from mqlearn.storage.summary import BANDS as BANDS  # part of this module's interface, as are the next ones
from mqlearn.storage.summary import LEVEL, Interval
from mqlearn.storage.summary import Band as Band
from mqlearn.storage.summary import mean_interval as mean_interval

# --- intervals by resampling seeds --------------------------------------------------------------------------------

Centre = Literal["mean", "median", "iqm"]
CENTRES: tuple[Centre, ...] = ("mean", "median", "iqm")
Method = Literal["auto", "bca", "percentile", "t"]
METHODS: tuple[Method, ...] = ("auto", "bca", "percentile", "t")
METHOD_NAMES = {"bca": "BCa bootstrap", "percentile": "percentile bootstrap", "t": "Student's t"}
FEW = 15  # seeds: below, the bootstrap covers too little, and "auto" is t
RESAMPLES = 9999
_COLUMNS = 32
# Method -> seeds -> how often a 95 % interval of a mean covers it: of normal data, and of lognormal data with sigma 1
# (skewness 6.2), from 3000 samples each. A test draws them anew.
COVERAGE: dict[str, dict[int, tuple[float, float]]] = {
    "t": {3: (0.95, 0.84), 5: (0.95, 0.81), 10: (0.95, 0.84), 15: (0.95, 0.86), 20: (0.95, 0.86), 30: (0.95, 0.88),
          50: (0.95, 0.89), 100: (0.95, 0.92)},
    "bca": {3: (0.71, 0.63), 5: (0.84, 0.74), 10: (0.90, 0.83), 15: (0.91, 0.86), 20: (0.93, 0.86), 30: (0.93, 0.89),
            50: (0.94, 0.89), 100: (0.94, 0.92)},
    "percentile": {3: (0.75, 0.65), 5: (0.83, 0.73), 10: (0.91, 0.82), 15: (0.92, 0.84), 20: (0.93, 0.85),
                   30: (0.94, 0.88), 50: (0.94, 0.90), 100: (0.94, 0.91)},
}  # fmt: skip


class Estimate(NamedTuple):
    """A value with its interval, floats or arrays (C,); low and high are NaN where there is no interval."""

    value: Any
    low: Any
    high: Any
    n_finite: Any


def generator(*words: object) -> np.random.Generator:
    """A counter-based generator whose stream is a function of some words alone: the same question, the same answer."""
    code = hashlib.sha256("\n".join(map(str, words)).encode()).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(code[:16], "little")))


def method_for(method: Method, n: int) -> Method:
    """What "auto" stands for with n seeds (the smaller number, of two samples): t below FEW, BCa from there on."""
    return method if method != "auto" else "t" if n < FEW else "bca"


def coverage_words(method: str, n: int, level: float = LEVEL) -> str:
    """How often the interval of a mean covers it with about n seeds, in words; empty where that is not known."""
    known = [size for size in COVERAGE[method] if size <= n]
    if not known or abs(level - LEVEL) > 1e-12:
        return ""
    normal, skewed = COVERAGE[method][max(known)]
    return f" (with {max(known)} seeds it covers {normal:.2f} of the time on normal, {skewed:.2f} on lognormal data)"


def centre_of(x: np.ndarray, centre: Centre, axis: int = 0) -> np.ndarray:
    """Mean, median or interquartile mean (floor(n/4) values cut off at each end) along an axis."""
    if centre == "mean":
        return np.mean(x, axis=axis)
    if centre == "median":
        return np.median(x, axis=axis)
    choice("centre", centre, CENTRES)
    from scipy.stats import trim_mean

    return trim_mean(x, 0.25, axis=axis)


def bootstrap_interval(
    x: np.ndarray, centre: Centre = "mean", method: Method = "auto", level: float = LEVEL, resamples: int = RESAMPLES
) -> Estimate:
    """Mean, median or interquartile mean over the seeds of `x` (n_seeds,) or (n_seeds, C), with an interval.

    For ``percentile`` and ``bca`` (bias-corrected and accelerated, Efron 1987; percentile where it is undefined) whole
    seeds are resampled, the same ones in all columns; ``t`` is Student's interval, of the mean only; ``auto`` is t for
    a mean of less than FEW finite values, where the bootstrap covers too seldom, else bca (see COVERAGE). Only finite
    values count, n_finite says how many. One finite value: no interval (NaN). All equal: an interval of length 0.

    Raises SettingError for another centre or method.
    """
    x = np.asarray(x, dtype=np.float64)
    columns = x[:, None] if x.ndim == 1 else x
    if columns.ndim != 2 or len(columns) == 0:
        raise SettingError("x", f"array of shape {x.shape}", "(n_seeds,) or (n_seeds, columns), at least one seed")
    if method not in METHODS or (method == "t" and centre != "mean"):
        expected = f"must be auto, bca or percentile, or t for a mean{nearest(str(method), METHODS)}"
        raise SettingError("interval", method, expected)
    value, low, high = (np.full(columns.shape[1], np.nan) for _ in range(3))
    finite = np.isfinite(columns)
    patterns, pattern_of = np.unique(finite, axis=1, return_inverse=True)
    for number, used in enumerate(patterns.T):
        if used.any():
            place = pattern_of.ravel() == number
            some = np.asfortranarray(columns[used][:, place])
            exponent = np.frexp(np.abs(some).max(axis=0))[1]
            scaled = np.ldexp(some, -exponent)  # so that products neither overflow nor vanish: exact
            kind = method_for(method, int(used.sum())) if centre == "mean" or method != "auto" else "bca"
            ends = _ends((scaled,), lambda y, axis=0: centre_of(y, centre, axis), kind, level, resamples)
            parts = (centre_of(scaled, centre), *ends)
            value[place], low[place], high[place] = (np.ldexp(part, exponent) for part in parts)
    n_finite = finite.sum(axis=0)
    if x.ndim == 1:
        return Estimate(float(value[0]), float(low[0]), float(high[0]), int(n_finite[0]))
    return Estimate(value, low, high, n_finite)


def difference_interval(
    a: np.ndarray, b: np.ndarray, *, paired: bool, method: Method = "auto", level: float = LEVEL
) -> Estimate:
    """Mean of a minus mean of b with its interval; a (n,), b (m,) finite. Paired: of the differences, n = m.

    Unpaired, the seeds of a and b are resampled apart; ``t`` is then Welch's interval. n_finite is n, or n + m.
    """
    value, low, high, n = difference_intervals(a[None], b[None], paired=paired, method=method, level=level)
    return Estimate(float(value[0]), float(low[0]), float(high[0]), n)


def difference_intervals(
    a: np.ndarray, b: np.ndarray, *, paired: bool, method: Method = "auto", level: float = LEVEL
) -> Estimate:
    """`difference_interval` of each row of a (T, n) with that of b (T, m), all by the same resamples: arrays (T,)."""
    if paired:
        return Estimate(*bootstrap_interval((a - b).T, "mean", method, level)[:3], a.shape[1])
    exponent = np.frexp(np.maximum(np.abs(a).max(axis=1), np.abs(b).max(axis=1)))[1]
    a, b = (np.ldexp(x, -exponent[:, None]).T for x in (a, b))

    def statistic(x: np.ndarray, y: np.ndarray, axis: int = 0) -> np.ndarray:
        return np.mean(x, axis=axis) - np.mean(y, axis=axis)

    low, high = _ends((a, b), statistic, method_for(method, min(len(a), len(b))), level, RESAMPLES)
    return Estimate(*(np.ldexp(end, exponent) for end in (statistic(a, b), low, high)), len(a) + len(b))


def _ends(
    samples: tuple[np.ndarray, ...], statistic: Callable, method: Method, level: float, resamples: int
) -> tuple[np.ndarray, np.ndarray]:
    """Ends of an interval of a statistic of samples (n, C), each (C,)."""
    from scipy import stats

    value = statistic(*samples)
    if min(map(len, samples)) < 2:
        return np.full_like(value, np.nan), np.full_like(value, np.nan)
    spread = np.max([np.ptp(sample, axis=0) for sample in samples], axis=0) > 0
    low, high = value.copy(), value.copy()
    if not spread.any():
        return low, high
    varied = tuple(np.asfortranarray(sample[:, spread]) for sample in samples)
    if method == "t":
        errors = [sample.var(axis=0, ddof=1) / len(sample) for sample in varied]
        freedom = sum(errors) ** 2 / sum(e**2 / (len(s) - 1) for e, s in zip(errors, samples, strict=True))
        half = stats.t.ppf((1 + level) / 2, freedom) * np.sqrt(sum(errors))
        low[spread], high[spread] = value[spread] - half, value[spread] + half
        return low, high
    if varied[0].shape[1] > _COLUMNS:  # at a time: the resamples of more are beyond the cache
        parts = [slice(start, start + _COLUMNS) for start in range(0, varied[0].shape[1], _COLUMNS)]
        found = [_ends(tuple(s[:, part] for s in varied), statistic, method, level, resamples) for part in parts]
        low[spread], high[spread] = np.concatenate(found, axis=1)
        return low, high

    def whole(*y: np.ndarray, axis: int) -> np.ndarray:
        """The statistic of seeds that lie side by side: then the sums of a column do not depend on the others."""
        return statistic(*map(np.ascontiguousarray, y), axis=axis)

    arguments = {"n_resamples": resamples, "axis": 0, "confidence_level": level, "vectorized": True, "batch": 500}
    kinds = ("BCa", "percentile") if method == "bca" else ("percentile",)
    ends: list[np.ndarray] = []
    for kind in kinds:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # a degenerate BCa is NaN, and replaced below
            found = stats.bootstrap(varied, whole, method=kind, rng=generator("bootstrap"), **arguments)
        interval = found.confidence_interval
        ends = [np.where(np.isfinite(old), old, new) for old, new in zip(ends or interval, interval, strict=True)]
        if np.isfinite(ends).all():
            break
    low[spread], high[spread] = ends
    return low, high


def simultaneous_band(x: np.ndarray, level: float = LEVEL, resamples: int = RESAMPLES) -> Interval:
    """Mean curve of `x` (n_seeds, C) with a band that holds the whole true curve with probability `level`.

    Bootstrap sup-t: mean -+ c s / sqrt(n), c the quantile over resampled seeds of max_j |t*_j|, each t*_j studentised
    by its own resample (Montiel Olea and Plagborg-Moller 2019, section 3). Seeds that are not finite throughout are
    left out and not counted in n_finite; with fewer than three, and in columns without spread, there is no band
    (low = high = NaN) or a point.
    """
    x = np.asarray(x, dtype=np.float64)
    used = np.isfinite(x).all(axis=1)
    n = int(used.sum())
    count = np.full(x.shape[1], n)
    if n < 3:
        mean = x[used].mean(axis=0) if n else np.full(x.shape[1], np.nan)
        return Interval(mean, np.full_like(mean, np.nan), np.full_like(mean, np.nan), count)
    mean, spread = x[used].mean(axis=0), x[used].std(axis=0, ddof=1)
    varied = spread > 1e-14 * np.abs(x[used]).max(axis=0)  # what is less is rounding
    scaled = (x[used] - mean)[:, varied] / spread[varied]
    drawn = generator("sup-t", n).integers(0, n, (resamples, n))
    largest = np.zeros(resamples)
    for start in range(0, resamples, 500):
        sample = scaled[drawn[start : start + 500]]
        deviation = sample.std(axis=1, ddof=1)
        shift = np.abs(sample.mean(axis=1))
        # A resample without spread, one seed n times, says nothing of its error.
        t = np.divide(shift, deviation, out=np.full_like(shift, np.inf), where=deviation > 1e-12)
        largest[start : start + 500] = t.max(axis=1, initial=0.0)
    half = np.where(varied, np.quantile(largest, level, method="higher") * spread, 0.0)
    return Interval(mean, mean - half, mean + half, count)
