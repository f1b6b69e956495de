"""How an error, or the samples to an error, grow with a number that problems differ by. Arrays only; the unit is the
seed.

A summary of one problem is a function of how often each of its seeds counts, (B, n) -> (B,) logarithms: so one
bootstrap serves all of them, and rules on the same samples are resampled together.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from mqlearn.analysis.statistics.intervals import LEVEL, RESAMPLES, generator
from mqlearn.errors import SettingError

LEAST = 3  # distinct places that an exponent needs
Summary = Callable[[np.ndarray], np.ndarray]


class Exponent(NamedTuple):
    """value: the slope, infinite where the last place has no summary or fewer than three have one; low, high: its
    percentile interval over seeds, NaN without one.   logs: (P,) the summaries that it goes through, infinite where
    there is none.   used: how many are finite.
    """

    value: float
    low: float
    high: float
    logs: np.ndarray
    used: int


def log_mean(values: np.ndarray) -> Summary:
    """log of the mean of values (n,) over the seeds."""
    return lambda counts: _log(counts @ values / counts.sum(1))


def log_median(values: np.ndarray) -> Summary:
    """log of the median of values (n,), infinite where a seed never arrived, over the seeds."""
    return lambda counts: _log(medians(values[None], counts[:, None])[:, 0])


def log_arrival(position: np.ndarray, curves: np.ndarray, epsilon: float) -> Summary:
    """log of the place at which the mean of curves (n, C) over the seeds comes to `epsilon`, see `arrivals`."""
    return lambda counts: _log(arrivals(position, counts @ curves / counts.sum(1)[:, None], epsilon))


def _log(values: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):  # of 0 and of NaN: no summary
        logs = np.log(values)
    return np.where(np.isfinite(logs), logs, np.inf)


def arrivals(position: np.ndarray, curves: np.ndarray, epsilon: float) -> np.ndarray:
    """(n,): where each of curves (n, C) is first at most `epsilon`; infinite where it never is. position: (C,).

    Between the checkpoint before and that one both are taken as a straight line in logarithms. One that is there from
    the start on arrives at the first checkpoint above 0.
    """
    position, curves = np.asarray(position, np.float64), np.asarray(curves, np.float64)
    position, curves = position[position > 0], curves[:, position > 0]
    below = curves <= epsilon  # False for NaN
    place = below.argmax(1)
    before, rows = np.maximum(place - 1, 0), np.arange(len(curves))
    with np.errstate(divide="ignore", invalid="ignore"):
        high, low = np.log(curves[rows, before]), np.log(curves[rows, place])
        share = (high - np.log(epsilon)) / (high - low)
        between = np.log(position[before]) + share * np.log(position[place] / position[before])
    known = (place > 0) & np.isfinite(high) & np.isfinite(low)
    found = np.where(known, np.exp(between), position[place])
    return np.where(below.any(1), found, np.inf)


def exponent(
    x: np.ndarray,
    summaries: Sequence[Summary],
    n_seeds: Sequence[int],
    rival: Sequence[Summary] | None = None,
    *,
    together: bool,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
) -> Exponent:
    """Least-squares slope of the summaries (P of them) on x (P,), logarithms; of those of a rival, the difference.

    n_seeds: of each problem.   together: whether seed i means the same random numbers on all of them, so that seeds are
    resampled for all at once; a rival always shares those of its problem. Raises SettingError for fewer than three
    distinct places.
    """
    x = np.asarray(x, np.float64)
    if len({*x.tolist()}) < LEAST:
        raise SettingError(
            "over", f"{len({*x.tolist()})} different places", f"must be at least {LEAST} for an exponent"
        )
    ones = [np.ones((1, n)) for n in n_seeds]
    if together and len({*n_seeds}) == 1:
        drawn = [_counts("all", n_seeds[0], resamples)] * len(n_seeds)
    else:
        drawn = [_counts(place, n, resamples) for place, n in enumerate(n_seeds)]

    def slopes_of(counts: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        logs = _stacked(summaries, counts)
        found = slopes(x, logs)
        if rival is None:
            return found, logs
        other = slopes(x, _stacked(rival, counts))
        known = np.isfinite(found) & np.isfinite(other)
        # The one without a slope is beyond all: above, if it is the rule, below, if it is the rival; if both, anywhere.
        beyond = np.where(np.isfinite(other), np.inf, np.where(np.isfinite(found), -np.inf, np.nan))
        return np.where(known, found - np.where(known, other, 0), beyond), logs

    value, logs = slopes_of(ones)
    told = Exponent(float(value[0]), np.nan, np.nan, logs[0], int(np.isfinite(logs[0]).sum()))
    if not np.isfinite(told.value) or min(n_seeds) < 2:
        return told
    samples = slopes_of(drawn)[0]
    anywhere = np.isnan(samples)
    low, high = (_ends(np.where(anywhere, end, samples), level)[side] for side, end in enumerate((-np.inf, np.inf)))
    return told._replace(low=low, high=high)


def interval(summary: Summary, n: int, level: float = LEVEL, resamples: int = RESAMPLES) -> tuple[float, float]:
    """The percentile interval of one summary of n seeds, in logarithms; NaN for one seed, or without a summary."""
    if n < 2 or not np.isfinite(summary(np.ones((1, n)))).all():
        return np.nan, np.nan
    return _ends(summary(_counts("all", n, resamples)), level)


def _ends(samples: np.ndarray, level: float) -> tuple[float, float]:
    """Of the central part of samples, of which some may be infinite: those of samples, not between two."""
    low, high = (1 - level) / 2, (1 + level) / 2
    return float(np.quantile(samples, low, method="lower")), float(np.quantile(samples, high, method="higher"))


def _stacked(summaries: Sequence[Summary], counts: Sequence[np.ndarray]) -> np.ndarray:
    return np.stack([one(count) for one, count in zip(summaries, counts, strict=True)], axis=1)


def _counts(place: object, n: int, resamples: int) -> np.ndarray:
    """(B, n): how often each seed is drawn, in resamples of n seeds."""
    return generator("exponent", place, n).multinomial(n, np.full(n, 1 / n), size=resamples).astype(np.float64)


def slopes(x: np.ndarray, logs: np.ndarray) -> np.ndarray:
    """(B,): least-squares slopes on x (P,) of logs (B, P) that are finite.

    Infinite without the one of the largest x, whose slope would be that of the easy problems alone, and where fewer
    than three distinct places are left.
    """
    there = np.isfinite(logs)
    n = np.maximum(there.sum(1, keepdims=True), 1)
    away = np.where(there, x - np.where(there, x, 0).sum(1, keepdims=True) / n, 0)
    patterns, pattern_of = np.unique(there, axis=0, return_inverse=True)
    distinct = np.array([len({*x[row].tolist()}) for row in patterns])[pattern_of.ravel()]
    told = there[:, x.argmax()] & (distinct >= LEAST)
    square = np.where(told, (away**2).sum(1), 1)
    return np.where(told, (away * np.where(there, logs, 0)).sum(1) / square, np.inf)


def medians(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """(B, P): medians over the seeds of values (P, S), each counted `counts` (B, P, S) times; inf if beyond."""
    order = np.argsort(values, axis=1)
    ordered = np.take_along_axis(values, order, 1)
    after = np.cumsum(np.take_along_axis(counts, order[None], 2), 2)
    n = values.shape[1]
    middle = [(after >= place).argmax(2) for place in ((n + 1) // 2, n // 2 + 1)]  # the same one if n is odd
    rows = np.arange(len(values))
    return (ordered[rows, middle[0]] + ordered[rows, middle[1]]) / 2
