"""Scores of many rules on many problems as a few numbers each, with intervals by bootstrap over seeds.

The seeds of a problem are drawn again within it, the same ones for all rules: they learned from common samples, so
that differences between rules are paired. Areas are log10 of an error (see `mqlearn.suites.scores`), and
what is below is computed of their differences from the baseline. NaN is a problem that a rule did not run on.
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from mqlearn.analysis.statistics.intervals import generator

RESAMPLES = 1000
FEW = 300  # resamples of the many pairs of rules
LEVEL = 0.95


@dataclass(frozen=True, eq=False)
class Resampled:
    """counts (B, P, S): how often each seed of each problem is drawn; each row has S draws a problem."""

    counts: np.ndarray

    @classmethod
    def of(cls, n_problems: int, n_seeds: int, resamples: int = RESAMPLES) -> "Resampled":
        draws = generator("leaderboard", n_problems, n_seeds, resamples)
        even = np.full(n_seeds, 1 / n_seeds)
        return cls(draws.multinomial(n_seeds, even, size=(resamples, n_problems)).astype(np.float64))

    def of_problems(self, some: np.ndarray, resamples: int = RESAMPLES) -> "Resampled":
        """The draws of some problems (P,) bool, so many of them at most."""
        return Resampled(self.counts[:resamples, some])


def interval(samples: np.ndarray) -> tuple[float, float]:
    """The central 95 % of bootstrap samples (B,)."""
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(samples, (tail, 1 - tail))
    return float(low), float(high)


def interquartile_mean(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(B,): of values (n,), each counted `weights` (B, n) times, the mean without a quarter at each end.

    Of N values counted floor(N/4) are cut at each end, as `statistics.intervals.centre_of` and rliable have it.
    """
    order = np.argsort(values, kind="stable")
    values, weights = values[order], weights[:, order]
    after = np.cumsum(weights, 1)
    total = after[:, -1:]
    cut = np.floor(total / 4)
    kept = np.minimum(after, total - cut) - np.maximum(after - weights, cut)
    return np.maximum(kept, 0) @ values / (total - 2 * cut)[:, 0]


def centre(area: np.ndarray, base: np.ndarray) -> float:
    """Interquartile mean of area - base (P, S) over all problems and seeds that are there; NaN if none is."""
    difference = (area - base).ravel()
    difference = difference[~np.isnan(difference)]
    return float(interquartile_mean(difference, np.ones((1, difference.size)))[0]) if difference.size else np.nan


def relative(area: np.ndarray, base: np.ndarray, seeds: Resampled) -> tuple[float, float, float]:
    """Interquartile mean over problems and seeds of area - base (P, S), with its interval; NaN if there is nothing."""
    ran = ~np.isnan(area + base).any(1)
    if not ran.any():
        return np.nan, np.nan, np.nan
    difference = (area - base)[ran].ravel()
    counts = seeds.counts[:, ran].reshape(len(seeds.counts), -1)
    return centre(area, base), *interval(interquartile_mean(difference, counts))


def improvement(areas: np.ndarray, seeds: Resampled) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(R, R) each: probability that the row is better than the column on a seed of a problem, low and high.

    areas (R, P, S). The mean over the problems that both ran on; equal areas count a half. NaN without such a problem.
    """
    n, flat = len(areas), seeds.counts.reshape(len(seeds.counts), -1)
    point, low, high = (np.full((n, n), np.nan) for _ in range(3))
    ran = ~np.isnan(areas)
    for i, j in combinations(range(n), 2):
        both = np.logical_and(ran[i], ran[j])
        if not both.any():
            continue
        a, b = areas[i], areas[j]
        wins = np.where(both, np.less(a, b) + 0.5 * np.equal(a, b), 0.0).ravel()
        point[i, j] = wins.sum() / both.sum()
        low[i, j], high[i, j] = interval(flat @ wins / both.sum())
        point[j, i], low[j, i], high[j, i] = 1 - point[i, j], 1 - high[i, j], 1 - low[i, j]
    return point, low, high


def crossed_improvement(areas: np.ndarray) -> np.ndarray:
    """(R, R): probability that a seed of the row is better than any seed of the column, on the same problem.

    areas (R, P, S). As rliable's probability of improvement: all S^2 pairs of seeds of a problem (Mann and Whitney's U
    over S^2), the mean over the problems that both ran on. `improvement` pairs each seed with itself alone, which met
    the same samples.
    """
    n = len(areas)
    found, ran = np.full((n, n), np.nan), np.isfinite(areas.sum(2))
    for i, j in combinations(range(n), 2):
        both = ran[i] & ran[j]
        if both.any():
            a, b = areas[i, both, :, None], areas[j, both, None, :]
            found[i, j] = (np.less(a, b) + 0.5 * np.equal(a, b)).mean()
            found[j, i] = 1 - found[i, j]
    return found


def ranks(means: np.ndarray) -> np.ndarray:
    """(R, P): ranks of mean areas (R, P) on each problem, 1 for the least; equal ones share, NaN stays."""
    below = (means[None] < means[:, None]).sum(1)
    equal = (means[None] == means[:, None]).sum(1)
    return np.where(np.isnan(means), np.nan, below + (equal + 1) / 2)


def common(areas: np.ndarray) -> np.ndarray:
    """(P,) bool: problems that all rules ran on, of areas (R, P, S); rules that missed more than half do not count."""
    ran = np.isfinite(areas.sum(2))
    counted = ran[2 * ran.sum(1) >= ran.shape[1]]
    return counted.all(0) if len(counted) else np.zeros(ran.shape[1], bool)


def mean_ranks(areas: np.ndarray, seeds: Resampled) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(R,) each: the mean rank over the common problems of areas (R, P, S), low and high by bootstrap over seeds.

    NaN for a rule that missed one of them, and without any.
    """
    shared, n = common(areas), len(areas)
    point, low, high = (np.full(n, np.nan) for _ in range(3))
    rows = np.flatnonzero(~np.isnan(areas[:, shared]).any((1, 2)))
    if not shared.any() or not rows.size:
        return point, low, high
    own = areas[rows][:, shared]
    point[rows] = ranks(own.mean(2)).mean(1)
    drawn = np.stack([ranks(means).mean(1) for means in np.einsum("bps,rps->brp", seeds.counts[:, shared], own)])
    ends = [interval(column) for column in drawn.T]
    low[rows], high[rows] = np.transpose(ends)
    return point, low, high


def pairwise(areas: np.ndarray, seeds: Resampled) -> list[tuple[int, int, int, float, float, float]]:
    """Each pair of rules (i, j), how many problems both ran on, and `relative` of i to j on these."""
    drawn = Resampled(seeds.counts[:FEW])
    ran = np.isfinite(areas.sum(2))
    return [
        (i, j, int((ran[i] & ran[j]).sum()), *relative(areas[i], areas[j], drawn))
        for i, j in combinations(range(len(areas)), 2)
        if (ran[i] & ran[j]).any()
    ]


def profile(area: np.ndarray, base: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """(L,): share of the problems and seeds on which area - base is at most a level; what did not run never is.

    Problems that the baseline did not run on are left out.
    """
    there = ~np.isnan(base).any(1)
    difference = (area - base)[there].ravel()
    return (difference[None] <= levels[:, None]).mean(1)
