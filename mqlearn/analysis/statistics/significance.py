"""Tests over seeds: permutation, t, Holm's correction, effect sizes, and the smallest attainable p-value."""

import functools
import itertools
import math
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from mqlearn.analysis.statistics.intervals import generator

RESAMPLES = 9999
EXACT_PAIRS = 20  # up to here all 2^n sign patterns are counted
EXACT_SPLITS = 200_000  # up to here all splits are: 10 against 10 seeds have 184756
_CHUNK = 1024  # patterns, or tests, at a time: their sums stay in the cache
_KEPT = 20_000  # patterns: more are drawn anew for each call


class Test(NamedTuple):
    """p, two-sided; smallest, the least p that this many seeds can give at all; method, in words."""

    p: float
    smallest: float
    method: str


class Tests(NamedTuple):
    """Tests of as many seeds each. p (T,); smallest and method as in `Test`, the same for all."""

    p: np.ndarray
    smallest: float
    method: str

    def test(self, number: int) -> Test:
        return Test(float(self.p[number]), self.smallest, self.method)


def sign_flip(d: np.ndarray, *, resamples: int = RESAMPLES, exact: int = EXACT_PAIRS) -> Test:
    """Paired permutation test that differences `d` (n,) are symmetric about 0, by their mean.

    p is the share of sign patterns whose |mean| is at least the observed one: all 2^n for n <= exact, else `resamples`
    random ones and the observed one itself. Common random numbers make pairs of seeds.
    """
    return sign_flips(np.asarray(d, dtype=np.float64)[None], resamples=resamples, exact=exact).test(0)


def sign_flips(d: np.ndarray, *, resamples: int = RESAMPLES, exact: int = EXACT_PAIRS) -> Tests:
    """`sign_flip` of each row of `d` (T, n), all by the same patterns."""
    n, largest = d.shape[1], np.abs(d).max(axis=1, initial=0.0)
    method = f"sign-flip permutation, {'exact' if n <= exact else f'{resamples} random patterns'}"
    p, varied = np.ones(len(d)), largest > 0
    d = d[varied] / largest[varied, None]
    bound = np.abs(d.sum(axis=1)) - 1e-12 * np.abs(d).sum(axis=1)  # sums that differ by rounding are equal
    if n <= exact:
        p[varied] = _share_of_all(d, bound)
    else:
        reached = np.zeros(len(d), np.int64)
        for signs in _signs(n, resamples):
            for part in _parts(len(d)):
                reached[part] += np.count_nonzero(np.abs(signs @ d[part].T) >= bound[part], axis=0)
        p[varied] = (reached + 1) / (resamples + 1)
    return Tests(p, smallest_p(n, paired=True, resamples=resamples, exact=exact), method)


def _share_of_all(d: np.ndarray, bound: np.ndarray) -> np.ndarray:
    """(T,): of all sign patterns of the rows of `d` (T, n), the share whose |sum| is at least `bound` (T,).

    Each is the sum of a pattern of the first half and one of the second, whose sums are sorted: 2^(n/2) work for 2^n
    patterns. Those with a minus at the first value mirror the others.
    """
    n, share = d.shape[1], np.ones(len(d))
    half = (n + 1) // 2
    for part in _parts(len(d)):
        firsts, seconds = _sums(d[part, :half])[:, : 2 ** (half - 1)], np.sort(_sums(d[part, half:]), axis=1)
        for number, (first, second) in enumerate(zip(firsts, seconds, strict=True), part.start):
            if bound[number] > 0:
                above = len(second) - np.searchsorted(second, bound[number] - first)
                below = np.searchsorted(second, -bound[number] - first, side="right")
                share[number] = (above.sum() + below.sum()) / (len(first) * len(second))
    return share


def _sums(d: np.ndarray) -> np.ndarray:
    """(T, 2^n): the sums of all sign patterns of the rows of `d` (T, n); those with a plus at the first value first."""
    sums = np.zeros((len(d), 1))
    for value in d.T[::-1, :, None]:
        sums = np.concatenate([value + sums, sums - value], axis=1)
    return sums


def _parts(n: int) -> Iterator[slice]:
    return (slice(start, min(start + _CHUNK, n)) for start in range(0, n, _CHUNK))


def permutation(a: np.ndarray, b: np.ndarray, *, resamples: int = RESAMPLES, exact: int = EXACT_SPLITS) -> Test:
    """Unpaired permutation test that a (n,) and b (m,) have one distribution, by the difference of their means.

    p is twice the smaller one-sided share of splits of the n + m values, at most 1: of all splits if there are at
    most `exact`, else of `resamples` random ones and the observed one itself.
    """
    a, b = (np.asarray(x, dtype=np.float64)[None] for x in (a, b))
    return permutations(a, b, resamples=resamples, exact=exact).test(0)


def permutations(a: np.ndarray, b: np.ndarray, *, resamples: int = RESAMPLES, exact: int = EXACT_SPLITS) -> Tests:
    """`permutation` of each row of a (T, n) with that of b (T, m), all by the same splits."""
    n, m = a.shape[1], b.shape[1]
    smallest = smallest_p(n, m, paired=False, resamples=resamples, exact=exact)
    all_splits = math.comb(n + m, n) <= exact
    method = f"permutation, {'exact' if all_splits else f'{resamples} random splits'}"
    pooled = np.concatenate([a, b], axis=1)
    largest = np.abs(pooled).max(axis=1, initial=0.0)
    p, varied = np.ones(len(a)), (largest > 0) & (n > 0) & (m > 0)
    pooled = pooled[varied] / largest[varied, None]
    slack, observed = 1e-12 * np.abs(pooled).sum(axis=1), pooled[:, :n].sum(axis=1)
    sides = np.zeros((2, len(pooled)), np.int64)
    for first in _splits(n, m, None if all_splits else resamples) if len(pooled) else ():
        for part in _parts(len(pooled)):
            sums = first @ pooled[part].T
            sides[0, part] += np.count_nonzero(sums >= (observed - slack)[part], axis=0)
            sides[1, part] += np.count_nonzero(sums <= (observed + slack)[part], axis=0)
    own, splits = (0, math.comb(n + m, n)) if all_splits else (1, resamples)
    p[varied] = np.minimum(1.0, 2 * (sides.min(axis=0) + own) / (splits + own))
    return Tests(p, smallest, method)


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


def _signs(n: int, resamples: int) -> Sequence[np.ndarray] | Iterator[np.ndarray]:
    """Random sign patterns in chunks (c, n), the same ones whatever the size of the chunks."""
    return _few_signs(n, resamples) if resamples <= _KEPT else _drawn_signs(n, resamples)


def _drawn_signs(n: int, resamples: int) -> Iterator[np.ndarray]:
    random = generator("signs", n, resamples)
    for part in _parts(resamples):
        yield random.choice([-1.0, 1.0], size=(part.stop - part.start, n))


@functools.lru_cache(maxsize=8)
def _few_signs(n: int, resamples: int) -> list[np.ndarray]:
    return [*_drawn_signs(n, resamples)]


def _splits(n: int, m: int, resamples: int | None) -> Sequence[np.ndarray] | Iterator[np.ndarray]:
    """Chunks (c, n + m): 1 for each of the n places that the first sample gets. Without `resamples`, all splits."""
    few = resamples is not None and resamples <= _KEPT
    return _few_splits(n, m, resamples) if few else _drawn_splits(n, m, resamples)


def _drawn_splits(n: int, m: int, resamples: int | None) -> Iterator[np.ndarray]:
    every = itertools.combinations(range(n + m), n)
    random = generator("splits", n, m, resamples)
    for part in _parts(math.comb(n + m, n) if resamples is None else resamples):
        size = part.stop - part.start
        if resamples is None:
            places = np.fromiter(itertools.chain.from_iterable(itertools.islice(every, size)), np.int16).reshape(-1, n)
        else:
            places = random.permuted(np.tile(np.arange(n + m, dtype=np.int16), (size, 1)), axis=1)[:, :n]
        first = np.zeros((size, n + m))
        np.put_along_axis(first, places.astype(np.intp), 1.0, axis=1)
        yield first


@functools.lru_cache(maxsize=4)
def _few_splits(n: int, m: int, resamples: int | None) -> list[np.ndarray]:
    return [*_drawn_splits(n, m, resamples)]


def t_test(a: np.ndarray, b: np.ndarray, *, paired: bool) -> float:
    """Two-sided p of Student's paired t, or of Welch's t; NaN where there is no spread or one seed."""
    return float(t_tests(a[None], b[None], paired=paired)[0])


def t_tests(a: np.ndarray, b: np.ndarray, *, paired: bool) -> np.ndarray:
    """(T,): `t_test` of each row of a (T, n) with that of b (T, m)."""
    from scipy import stats

    p = np.full(len(a), math.nan)
    if min(a.shape[1], b.shape[1]) < 2:
        return p
    varied = np.ptp(a - b, axis=1) > 0 if paired else (np.ptp(a, axis=1) > 0) | (np.ptp(b, axis=1) > 0)
    if varied.any():
        a, b = _scaled(a[varied], b[varied])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # nearly equal values: the p says it
            test: Any = stats.ttest_rel(a, b, axis=1) if paired else stats.ttest_ind(a, b, equal_var=False, axis=1)
        p[varied] = test.pvalue
    return p


def holm(p: Sequence[float]) -> np.ndarray:
    """Holm's corrected p-values (family-wise error rate) of the family `p` (m,); NaN is no member and stays."""
    values = np.asarray(p, dtype=np.float64)
    corrected = np.full(values.shape, np.nan)
    members = np.flatnonzero(~np.isnan(values))
    order = members[np.argsort(values[members], kind="stable")]
    steps = values[order] * np.arange(len(order), 0, -1)
    corrected[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return corrected


def bonferroni(p: Sequence[float]) -> np.ndarray:
    """Bonferroni's corrected p-values of the family `p` (m,); NaN is no member and stays."""
    values = np.asarray(p, dtype=np.float64)
    return np.minimum(values * np.count_nonzero(~np.isnan(values)), 1.0)


def effect_size(a: np.ndarray, b: np.ndarray, *, paired: bool) -> float:
    """Standardised difference, a minus b: paired, d_z = mean(d)/sd(d); unpaired, Hedges' g (pooled sd, corrected).

    0 if nothing differs, infinite if there is a difference and no spread, NaN with too few seeds.
    """
    return float(effect_sizes(a[None], b[None], paired=paired)[0])


def effect_sizes(a: np.ndarray, b: np.ndarray, *, paired: bool) -> np.ndarray:
    """(T,): `effect_size` of each row of a (T, n) with that of b (T, m)."""
    n, m = a.shape[1], b.shape[1]
    if (n if paired else n + m - 1) < 2 or min(n, m) < 1:
        return np.full(len(a), math.nan)
    a, b = _scaled(a, b)
    shift = (a - b).mean(axis=1) if paired else a.mean(axis=1) - b.mean(axis=1)
    if paired:
        scale, factor = (a - b).std(axis=1, ddof=1), 1.0
    else:
        squares = sum(((x - x.mean(axis=1, keepdims=True)) ** 2).sum(axis=1) for x in (a, b))
        scale, factor = np.sqrt(squares / (n + m - 2)), 1 - 3 / (4 * (n + m) - 9)
    without = np.where(shift == 0, 0.0, np.copysign(math.inf, shift))
    return np.where(scale == 0, without, factor * shift / np.where(scale == 0, 1.0, scale))


def _scaled(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows over one power of two for both, which is exact, so that squares neither overflow nor vanish."""
    exponent = np.frexp(np.maximum(np.abs(a).max(axis=1), np.abs(b).max(axis=1)))[1][:, None]
    return np.ldexp(a, -exponent), np.ldexp(b, -exponent)
