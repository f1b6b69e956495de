"""How many seeds would settle a question, by simulation from what was observed."""

import functools
from collections.abc import Sequence

import numpy as np

from mqlearn.analysis.statistics.intervals import LEVEL, generator
from mqlearn.analysis.statistics.significance import RESAMPLES, smallest_p

POWER = 0.8
MOST = 1000
_TRIALS = 50  # at a time: their sums stay in the cache
_FIRST = 40  # sizes that are looked at before four times as many, and so on: most answers are small


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
    while True:
        size = min(size, most)
        usable = _attainable(size, level, paired, resamples)
        found = _found(samples, level, size, trials, usable)
        if found is not None or size == most:
            return found
        size *= 4


def _found(samples: Sequence[np.ndarray], level: float, most: int, trials: int, usable: np.ndarray) -> int | None:
    """The least usable number of seeds up to `most` with which a share POWER of the trials finds a difference.

    Only sizes that can still reach that share are followed. |mean| > critical * standard error, without roots and
    quotients: S^2 (n - 1)/critical^2 > n sum(x^2) - sum over samples of S_i^2, where the S are sums of n draws.
    """
    n = np.arange(1.0, most + 1)
    factor = (n - 1) / _critical(most, level) ** 2
    count, alive = np.zeros(most, np.int64), usable
    for start in range(0, trials, _TRIALS):
        (followed,) = np.nonzero(alive)
        if not len(followed):
            return None
        low, high = followed[0], followed[-1] + 1
        total, squares, own = 0.0, 0.0, 0.0
        for number, sample in enumerate(samples):
            drawn = _drawn(number, len(sample), trials)[start : start + _TRIALS, :high]
            sums = np.cumsum(sample[drawn], axis=1)[:, low:]
            total = total + sums
            squares = squares + np.cumsum((sample**2)[drawn], axis=1)[:, low:]
            own = own + sums**2
        shown = total**2 * factor[low:high] > n[low:high] * squares - own
        count[low:high] += np.count_nonzero(shown, axis=0)
        left = max(0, trials - start - _TRIALS)
        alive = alive & (count + left >= POWER * trials)
        (enough,) = np.nonzero(alive & (count >= POWER * trials))
        if len(enough):
            alive[enough[0] + 1 :] = False  # a smaller one is looked for
    (followed,) = np.nonzero(alive)
    return int(followed[0]) + 1 if len(followed) else None


@functools.lru_cache(maxsize=16)
def _drawn(number: int, n: int, trials: int) -> np.ndarray:
    """(trials, MOST): which seeds of a sample of n are drawn, the same ones for every question."""
    kind = np.uint8 if n <= 256 else np.int64
    random, rows = generator("power", number, n), min(20, trials)
    drawn = [random.integers(0, n, (min(rows, trials - start), MOST)).astype(kind) for start in range(0, trials, rows)]
    return np.concatenate(drawn)


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
