"""Tests over seeds: permutation, t, Holm's correction, effect sizes, and what so many seeds can show at all."""

import functools
import itertools
import math
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mqlearn.analysis.statistics.intervals import generator

RESAMPLES = 9999
EXACT_PAIRS = 20  # up to here all 2^n sign patterns are enumerated, which takes 5 ms
EXACT_SPLITS = 200_000  # up to here all splits are: 10 against 10 seeds have 184756


class Test(NamedTuple):
    """p, two-sided; smallest, the least p that this many seeds can give at all; method, in words."""

    p: float
    smallest: float
    method: str


def sign_flip(d: np.ndarray, *, resamples: int = RESAMPLES, exact: int = EXACT_PAIRS) -> Test:
    """Paired permutation test that differences `d` (n,) are symmetric about 0, by their mean.

    p is the share of sign patterns whose |mean| is at least the observed one: all 2^n for n <= exact, else `resamples`
    random ones and the observed one itself. Common random numbers make pairs of seeds.
    """
    d = np.asarray(d, dtype=np.float64)
    n, largest = len(d), np.abs(d).max(initial=0.0)
    smallest = smallest_p(n, paired=True, resamples=resamples, exact=exact)
    method = f"sign-flip permutation, {'exact' if n <= exact else f'{resamples} random patterns'}"
    if largest == 0:
        return Test(1.0, smallest, method)
    d = d / largest
    bound = abs(d.sum()) - 1e-12 * np.abs(d).sum()  # sums that differ by rounding are equal
    if n <= exact:
        sums = d[:1]  # the patterns with a minus here mirror these
        for value in d[1:]:
            sums = np.concatenate([sums + value, sums - value])
        return Test(float(np.mean(np.abs(sums) >= bound)), smallest, method)
    reached = np.count_nonzero(np.abs(_signs(n, resamples) @ d) >= bound)
    return Test((reached + 1) / (resamples + 1), smallest, method)


def permutation(a: np.ndarray, b: np.ndarray, *, resamples: int = RESAMPLES, exact: int = EXACT_SPLITS) -> Test:
    """Unpaired permutation test that a (n,) and b (m,) have one distribution, by the difference of their means.

    p is twice the smaller one-sided share of splits of the n + m values, at most 1: of all splits if there are at
    most `exact`, else of `resamples` random ones and the observed one itself.
    """
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    n, m = len(a), len(b)
    pooled = np.concatenate([a, b])
    largest = np.abs(pooled).max(initial=0.0)
    smallest = smallest_p(n, m, paired=False, resamples=resamples, exact=exact)
    all_splits = math.comb(n + m, n) <= exact
    method = f"permutation, {'exact' if all_splits else f'{resamples} random splits'}"
    if largest == 0 or not n or not m:
        return Test(1.0, smallest, method)
    pooled = pooled / largest
    slack = 1e-12 * np.abs(pooled).sum()
    sums = pooled[_splits(n, m, None if all_splits else resamples)].sum(axis=1)
    observed, own = pooled[:n].sum(), 0 if all_splits else 1
    sides = [np.count_nonzero(sums >= observed - slack), np.count_nonzero(sums <= observed + slack)]
    return Test(min(1.0, 2 * (int(min(sides)) + own) / (len(sums) + own)), smallest, method)


def smallest_p(
    n: int, m: int | None = None, *, paired: bool, resamples: int = RESAMPLES, exact: int | None = None
) -> float:
    """The least two-sided p of `sign_flip` with n pairs, or of `permutation` with n against m seeds.

    2^(1-n), and 2/C(n+m, n): 0.25 for 3 pairs, 0.0625 for 5, 0.1 for 3 against 3. It counts the seeds, not their
    values.
    """
    if paired:
        all_patterns = n <= (EXACT_PAIRS if exact is None else exact)
        return min(1.0, 2.0 ** (1 - n)) if all_patterns else 1 / (resamples + 1)
    splits = math.comb(n + (n if m is None else m), n)
    return min(1.0, 2 / splits if splits <= (EXACT_SPLITS if exact is None else exact) else 2 / (resamples + 1))


@functools.lru_cache(maxsize=8)
def _signs(n: int, resamples: int) -> np.ndarray:
    return generator("signs", n, resamples).choice([-1.0, 1.0], size=(resamples, n))


@functools.lru_cache(maxsize=4)
def _splits(n: int, m: int, resamples: int | None) -> np.ndarray:
    """Rows of the n places that the first sample gets; without `resamples` all of them."""
    if resamples is None:
        chosen = itertools.chain.from_iterable(itertools.combinations(range(n + m), n))
        return np.fromiter(chosen, dtype=np.int16).reshape(-1, n)
    places = np.tile(np.arange(n + m, dtype=np.int16), (resamples, 1))
    return generator("splits", n, m, resamples).permuted(places, axis=1)[:, :n]


def t_test(a: np.ndarray, b: np.ndarray, *, paired: bool) -> float:
    """Two-sided p of Student's paired t, or of Welch's t; NaN where there is no spread or one seed."""
    from scipy import stats

    if min(len(a), len(b)) < 2 or (np.ptp(a - b) == 0 if paired else np.ptp(a) == np.ptp(b) == 0):
        return math.nan
    a, b = _scaled(a, b)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # nearly equal values: the p says it
        test: Any = stats.ttest_rel(a, b) if paired else stats.ttest_ind(a, b, equal_var=False)
    return float(test.pvalue)


def holm(p: Sequence[float]) -> np.ndarray:
    """Holm's corrected p-values (family-wise error rate) of the family `p` (m,); NaN is no member and stays."""
    values = np.asarray(p, dtype=np.float64)
    corrected = np.full(values.shape, np.nan)
    members = np.flatnonzero(~np.isnan(values))
    order = members[np.argsort(values[members], kind="stable")]
    steps = values[order] * np.arange(len(order), 0, -1)
    corrected[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return corrected


def effect_size(a: np.ndarray, b: np.ndarray, *, paired: bool) -> float:
    """Standardised difference, a minus b: paired, d_z = mean(d)/sd(d); unpaired, Hedges' g (pooled sd, corrected).

    0 if nothing differs, infinite if there is a difference and no spread, NaN with too few seeds.
    """
    n, m = len(a), len(b)
    if (n if paired else n + m - 1) < 2 or min(n, m) < 1:
        return math.nan
    a, b = _scaled(a, b)
    shift = (a - b).mean() if paired else a.mean() - b.mean()
    if paired:
        scale, factor = (a - b).std(ddof=1), 1.0
    else:
        squares = ((a - a.mean()) ** 2).sum() + ((b - b.mean()) ** 2).sum()
        scale, factor = math.sqrt(squares / (n + m - 2)), 1 - 3 / (4 * (n + m) - 9)
    if scale == 0:
        return 0.0 if shift == 0 else math.copysign(math.inf, shift)
    return float(factor * shift / scale)


def _scaled(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both over one power of two, which is exact, so that squares neither overflow nor vanish."""
    exponent = np.frexp(max(np.abs(a).max(), np.abs(b).max()))[1]
    return np.ldexp(a, -exponent), np.ldexp(b, -exponent)
