"""Sample size for a given power: how many seeds a comparison needs, by simulation from what was observed."""

import functools
from collections.abc import Sequence

import numpy as np

from mqlearn.analysis.statistics.intervals import LEVEL, generator
from mqlearn.analysis.statistics.significance import RESAMPLES, smallest_p

POWER = 0.8
MOST = 1000
_DRAWS = 20_000  # at a time: their sums stay in the cache
_FIRST, _THEN = 40, 5  # sizes that are looked at before five times as many, and so on: most answers are small


def seeds_needed(
    a: np.ndarray,
    b: np.ndarray,
    *,
    paired: bool,
    level: float = 1 - LEVEL,
    most: int = MOST,
    trials: int = 1000,
    resamples: int = RESAMPLES,
) -> int | None:
    """Seeds of each rule with which the difference is found in 80 of 100 experiments, if it is as observed.

    Experiments are drawn with replacement from the observed pairs, or from a (n,) and b (m,) apart, and tested by a t
    test at `level` (paired, or Welch's statistic at n - 1 degrees of freedom, which is cautious), with at least as
    many seeds as the permutation test needs to reach `level` at all. None if it is more than `most`, or if there are
    fewer than two seeds, whose spread is unknown, or no difference at all.
    """
    if min(len(a), len(b)) < 2:
        return None
    samples = [a - b] if paired else [a, -b]
    largest = max(np.abs(sample).max() for sample in samples)
    if largest == 0 or sum(sample.mean() for sample in samples) == 0:
        return None
    samples, size = [sample / largest for sample in samples], _FIRST
    attainable = np.flatnonzero(_attainable(most, level, paired, resamples))
    if not len(attainable):
        return None
    least = int(attainable[0]) + 1
    if _share(samples, level, least, trials) >= POWER:  # as for most differences that are clear
        return least
    while True:
        size = min(size, most)
        usable = _attainable(size, level, paired, resamples)
        found = _found(samples, level, size, trials, usable)
        if found is not None or size == most:
            return found
        size *= _THEN


def _share(samples: Sequence[np.ndarray], level: float, n: int, trials: int) -> float:
    """The share of trials that find a difference with n seeds; see `_found`."""
    total, squares, own = 0.0, 0.0, 0.0
    for number, sample in enumerate(samples):
        times = _times(number, len(sample), trials, n)
        sums = times @ sample
        total, squares, own = total + sums, squares + times @ (sample * sample), own + sums * sums
    return np.count_nonzero(total * total * (n - 1) / _critical(n, level)[-1] ** 2 > n * squares - own) / trials


def _found(samples: Sequence[np.ndarray], level: float, most: int, trials: int, usable: np.ndarray) -> int | None:
    """The least usable number of seeds up to `most` with which a share POWER of the trials finds a difference.

    Only sizes that can still reach that share are followed. |mean| > critical * standard error, without roots and
    quotients: S^2 (n - 1)/critical^2 > n sum(x^2) - sum over samples of S_i^2, where the S are sums of n draws.
    """
    n = np.arange(1.0, most + 1)
    factor = (n - 1) / _critical(most, level) ** 2
    count, alive, rows = np.zeros(most, np.int64), usable, max(1, _DRAWS // most)
    drawn = [_drawn(number, len(sample), trials, most) for number, sample in enumerate(samples)]
    for start in range(0, trials, rows):
        (followed,) = np.nonzero(alive)
        if not len(followed):
            return None
        low, high = followed[0], followed[-1] + 1
        total, squares, own = 0.0, 0.0, 0.0
        for sample, seeds in zip(samples, drawn, strict=True):
            x = sample.take(seeds[start : start + rows, :high])
            sums = np.cumsum(x, axis=1)[:, low:]
            total = total + sums
            squares = squares + np.cumsum(x * x, axis=1)[:, low:]
            own = own + sums * sums
        shown = total * total * factor[low:high] > n[low:high] * squares - own
        count[low:high] += np.count_nonzero(shown, axis=0)
        left = max(0, trials - start - rows)
        alive = alive & (count + left >= POWER * trials)
        (enough,) = np.nonzero(alive & (count >= POWER * trials))
        if len(enough):
            alive[enough[0] + 1 :] = False  # a smaller one is looked for
    (followed,) = np.nonzero(alive)
    return int(followed[0]) + 1 if len(followed) else None


@functools.lru_cache(maxsize=16)
def _drawn(number: int, n: int, trials: int, most: int) -> np.ndarray:
    """(trials, most): which seeds of a sample of n are drawn, the same ones for every question."""
    if most < MOST:
        return np.ascontiguousarray(_drawn(number, n, trials, MOST)[:, :most])
    random = generator("power", number, n)
    return np.concatenate([
        random.integers(0, n, (min(20, trials - start), most)) for start in range(0, trials, 20)
    ])  # fmt: skip


@functools.lru_cache(maxsize=16)
def _times(number: int, n: int, trials: int, most: int) -> np.ndarray:
    """(trials, n): how often each seed of a sample is among the first draws, as many as `most`."""
    drawn = _drawn(number, n, trials, most)
    return np.stack([np.count_nonzero(drawn == seed, axis=1) for seed in range(n)], axis=1).astype(np.float64)


@functools.lru_cache(maxsize=16)
def _critical(most: int, level: float) -> np.ndarray:
    from scipy.special import stdtrit

    return stdtrit(np.maximum(np.arange(most), 1).astype(np.float64), 1 - level / 2)


@functools.lru_cache(maxsize=16)
def _attainable(most: int, level: float, paired: bool, resamples: int) -> np.ndarray:
    """(most,): whether the permutation test can reach `level` with 1, 2, ... seeds of each rule; not with one."""
    sizes = range(1, most + 1)
    return np.array([n > 1 and smallest_p(n, paired=paired, resamples=resamples) <= level for n in sizes])


@functools.lru_cache(maxsize=64)
def seeds_to_reach(level: float, *, paired: bool, resamples: int = RESAMPLES) -> int | None:
    """The fewest seeds of each rule with which the permutation test can reach `level` at all; None beyond 1000."""
    return next((n for n in range(1, MOST + 1) if smallest_p(n, paired=paired, resamples=resamples) <= level), None)
