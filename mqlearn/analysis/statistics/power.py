"""How many seeds would settle a question, by simulation from what was observed."""

import numpy as np

from mqlearn.analysis.statistics.intervals import LEVEL, generator
from mqlearn.analysis.statistics.significance import RESAMPLES, smallest_p

POWER = 0.8
MOST = 1000
_TRIALS = 20  # at a time: their arrays stay in the cache


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
    from scipy.special import stdtrit

    if min(len(a), len(b)) < 2:
        return None
    samples = [a - b] if paired else [a, -b]
    largest = max(np.abs(sample).max() for sample in samples)
    if largest == 0 or sum(sample.mean() for sample in samples) == 0:
        return None
    n = np.arange(1, most + 1)
    critical = stdtrit(np.maximum(n - 1, 1).astype(np.float64), 1 - level / 2)
    drawing = [generator("power", number, len(sample)) for number, sample in enumerate(samples)]
    found = np.zeros(most, np.int64)
    for start in range(0, trials, _TRIALS):
        shift, variance = 0.0, 0.0
        for random, sample in zip(drawing, samples, strict=True):
            drawn = (sample / largest)[random.integers(0, len(sample), (min(_TRIALS, trials - start), most))]
            mean = np.cumsum(drawn, axis=1) / n
            shift += mean
            variance += np.maximum(np.cumsum(drawn**2, axis=1) / n - mean**2, 0) / np.maximum(n - 1, 1)
        found += np.count_nonzero(np.abs(shift) > critical * np.sqrt(variance), axis=0)
    enough = n[(found >= POWER * trials) & (n > 1)].tolist()
    return next((size for size in enough if smallest_p(size, paired=paired, resamples=resamples) <= level), None)


def seeds_to_reach(level: float, *, paired: bool, resamples: int = RESAMPLES) -> int | None:
    """The fewest seeds of each rule with which the permutation test can reach `level` at all; None beyond 1000."""
    return next((n for n in range(1, MOST + 1) if smallest_p(n, paired=paired, resamples=resamples) <= level), None)
