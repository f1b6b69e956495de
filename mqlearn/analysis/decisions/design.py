"""Group-sequential sign-flip tests: how much of the error each look may spend, and what has crossed its bound by then.

One hypothesis is that the differences of a pair, one a seed, are symmetric about 0. At look j the statistic is their
sum over the seeds so far. Its bound is that of AdaStop (Mathieu et al. 2023): of the paths that the statistic takes
under sign patterns of the very same differences, those beyond it, and those that crossed at looks 1 to j - 1, are at
most the share of the error that is spent by look j. The observed path is one of them, each as likely as every other
under the hypothesis, so the chance that it ever crosses is at most the error, for any distribution, any ties, and
however strongly looks depend on each other.

By n seeds the share n/(n + HALF) of the error is spent (an alpha-spending function, Lan and DeMets 1983) whatever the
budget is: so a decision may go on with a larger one. Over pairs the tests are closed by Bonferroni (Marcus, Peritz,
Gabriel 1976), which is Holm's procedure for tests of one look; see `rejected`.
"""

import copy
import functools
from dataclasses import dataclass, field

import numpy as np

from mqlearn.analysis.statistics.intervals import generator

HALF = 15.0  # seeds by which half of the error is spent: chosen by scripts/decisions.py
STEP = 5  # seeds between looks, unless they are given
FIRST = 10  # of the first look, unless fewer could not reject
MOST_PAIRS = 66  # of one decision: all of 12 rules
_ENUMERATED = 14  # of the first seeds all sign patterns are among the paths; of the others random ones
_MOST_ENUMERATED = 17


def share(n: int) -> float:
    """The part of the error that is spent by n seeds."""
    return n / (n + HALF)


def can_reject(n: int, error: float, pairs: int) -> bool:
    """Whether n seeds can reject one of so many pairs at all: all differences of one sign have p = 2^(1 - n)."""
    return 2.0 ** (1 - min(n, 200)) <= error / pairs * share(n) and least_error(pairs) <= error


def least_error(pairs: int) -> float:
    """The least error that the paths can tell, with so many pairs."""
    return pairs * 2.0 ** (2 - _MOST_ENUMERATED)


def fewest(error: float, pairs: int) -> int:
    """The smallest number of seeds that can reject one of so many pairs."""
    return next(n for n in range(2, 100) if can_reject(n, error, pairs))


def usual_looks(error: float, pairs: int, most: int, start: int = 0) -> tuple[int, ...]:
    """Looks at 10, 15, 20, ... seeds beyond `start` and up to `most`; the first one is later if 10 cannot reject."""
    first = max(FIRST, fewest(error, pairs))
    later = range(first - first % STEP + STEP, most + STEP, STEP)
    return tuple(n for n in dict.fromkeys([first, *(min(n, most) for n in later)]) if start < n <= most)


def enumerated(error: float, pairs: int) -> int:
    """Of how many of the first seeds all sign patterns are among the paths."""
    return min(max(_ENUMERATED, fewest(error, pairs) + 1), _MOST_ENUMERATED)


@functools.lru_cache(maxsize=2)
def signs(bits: int, n: int) -> np.ndarray:
    """(2^bits, n) f8 of +1 and -1: all patterns of the first seeds, and for each of them a random one of the others.

    The first row has no minus: it is what was observed. The columns do not depend on n.
    """
    made = np.empty((2**bits, n), order="F")
    for column in range(n):
        made[:, column] = _signs_of(bits, column)
    return made


@functools.lru_cache(maxsize=512)
def _signs_of(bits: int, column: int) -> np.ndarray:
    """(2^bits,) int8: of one seed."""
    if column < bits:
        return (1 - 2 * (np.arange(2**bits) >> column & 1)).astype(np.int8)
    drawn = generator("decisions", bits, column).integers(0, 2, 2**bits, dtype=np.int8)
    drawn[0] = 1
    return 2 * drawn - 1


@dataclass
class Crossings:
    """Which paths of one hypothesis have crossed, at each of some levels (L,), as look follows look.

    one_sided: against a mean below 0 alone, else against any other.   bounds (L,): what the mean has to be beyond at
    the last look; infinite where no path may cross.   packed (L, 2^bits / 8): which paths have crossed, eight to a
    byte: of many pairs there are many. A look makes both anew, so that a shallow copy stays as it is.
    """

    levels: np.ndarray
    bits: int
    one_sided: bool = False
    packed: np.ndarray = field(init=False)
    bounds: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.packed = np.zeros((len(self.levels), -(-(2**self.bits) // 8)), np.uint8)
        self.bounds = np.full(len(self.levels), np.inf)

    @property
    def crossed(self) -> np.ndarray:
        """(L, 2^bits) bool: which paths have crossed; the first one is what was observed."""
        return np.unpackbits(self.packed, axis=1, count=2**self.bits).astype(bool)

    @property
    def observed(self) -> np.ndarray:
        """(L,): whether the observed path has crossed."""
        return self.packed[:, 0] >= 128  # its bit is the highest of the first byte

    def look(self, sums: np.ndarray, size: float, n: int, spent: float) -> np.ndarray:
        """(L,): whether the observed path has crossed by now.

        sums (2^bits,): of the n differences, under each pattern.   size: the sum of their absolute values.   spent: the
        part of the error that may be spent by this look.
        """
        values = (-sums if self.one_sided else np.abs(sums)) / (size or 1.0)
        values = np.round(values, 11)  # sums that differ by rounding are equal
        self.packed, self.bounds = self.packed.copy(), self.bounds.copy()
        for number, level in enumerate(self.levels):
            crossed = np.unpackbits(self.packed[number], count=len(values)).astype(bool)
            left = values[~crossed]
            may = int(len(values) * level * spent + 1e-9) - (len(values) - len(left))
            if may <= 0 or not len(left):
                self.bounds[number] = np.inf
                continue
            place = max(len(left) - may - 1, 0)  # of equal values all cross or none
            bound = np.partition(left, place)[place]
            self.packed[number] = np.packbits(crossed | (values > bound))
            self.bounds[number] = bound * size / n
        return self.observed

    def p(self, sums: np.ndarray) -> float:
        """The p of the last look alone: the share of patterns that lie as far out as what was observed."""
        values = -sums if self.one_sided else np.abs(sums)
        return float((values >= values[0] - 1e-11 * np.abs(values).max(initial=0.0)).mean())


def rejected(crossed: np.ndarray) -> np.ndarray:
    """(m, H): which hypotheses are rejected, of H for each of m pairs, of which one at most is true.

    crossed (m, H, m): whether a hypothesis has crossed at the levels error/1, ..., error/m. An intersection of i
    hypotheses, of i pairs, is rejected if one of them has crossed at error/i; a hypothesis, if all intersections that
    it is part of are. The worst of these for it has those that have not crossed: it is rejected if at each i it has
    crossed, or fewer than i - 1 other pairs have a hypothesis that has not.
    """
    lacks = ~crossed.all(axis=1)  # (m, i): a pair that has a hypothesis which has not crossed
    others = lacks.sum(axis=0) - lacks
    sizes = np.arange(1, crossed.shape[0] + 1)
    return (crossed | (others < sizes - 1)[:, None, :]).all(axis=2)


class Family:
    """The tests of some pairs, look after look. margins: whether equality is asked for too, see `look`."""

    def __init__(self, pairs: int, error: float, *, margins: bool) -> None:
        self.error, self.pairs, self.margins = error, pairs, margins
        self.bits = enumerated(error, pairs)
        levels = error / np.arange(1.0, pairs + 1)
        sides = (False, True, True) if margins else (False,)
        self.tests = [[Crossings(levels, self.bits, one_sided) for one_sided in sides] for _ in range(pairs)]
        self.p = np.full((pairs, len(sides)), np.nan)

    def look(self, n: int, differences: dict[int, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """(pairs,), (pairs,): which pairs are shown to differ, and which to be equal within the margin.

        differences: of the pairs that are looked at, by number, (n,): a - b; with margins (3, n), and then a and b
        each less what it is to be below, the other one with its margin. To be equal both must be shown to be below;
        that both tests have the whole level is right, since not equal means that one of the two is not below.
        """
        for number, d in differences.items():
            sums = signs(self.bits, n) @ np.atleast_2d(d).T
            for side, test in enumerate(self.tests[number]):
                test.look(sums[:, side], float(np.abs(np.atleast_2d(d)[side]).sum()), n, share(n))
                self.p[number, side] = test.p(sums[:, side])
        crossed = np.array([[test.observed for test in tests] for tests in self.tests])
        if not self.margins:
            return rejected(crossed)[:, 0], np.zeros(self.pairs, bool)
        both = np.stack([crossed[:, 0], crossed[:, 1] & crossed[:, 2]], axis=1)
        found = rejected(both)
        return found[:, 0], found[:, 1]

    def copy(self) -> "Family":
        """The same tests, which further looks at the first ones do not change."""
        made = copy.copy(self)
        made.tests, made.p = [[copy.copy(test) for test in tests] for tests in self.tests], self.p.copy()
        return made

    def bound(self, number: int) -> float:
        """What the mean difference of a pair had to be beyond at its last look, at the strictest level."""
        return float(self.tests[number][0].bounds[-1])
