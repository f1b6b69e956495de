"""Which rule is better over problems: exact signed-rank tests, corrected by Holm for all pairs of rules.

A problem is a case: the test asks whether the differences of two rules' mean scores are symmetric about 0 over
problems (Wilcoxon 1945; for rules over many problems, Demsar 2006). All sign patterns are counted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from mqlearn.analysis.statistics.significance import holm

LEVEL = 0.05


@dataclass(frozen=True)
class PairTest:
    """Rule a against rule b over n problems that both ran on: `difference`, the centre of a - b of their areas
    (log10 of the error), their signed ranks' sum, p, and p corrected by Holm. `better` is the rule of the two that is
    better at 5 %, by the sum that p is of; None if neither is.
    """

    a: str
    b: str
    problems: int
    difference: float
    rank_sum: float
    p: float
    p_holm: float

    @property
    def better(self) -> str | None:
        return (self.a if self.rank_sum < 0 else self.b) if self.p_holm <= LEVEL else None


def signed_rank(differences: np.ndarray) -> float:
    """Exact two-sided p of Wilcoxon's signed-rank test of differences (n,); zeros are left out, equal sizes share.

    The statistic is the sum of the signed ranks; its distribution over all 2^n signs is found by adding one rank after
    the other. 1 if nothing differs.
    """
    d = differences[differences != 0]
    if not d.size:
        return 1.0
    doubled = _doubled_ranks(d)
    ways = np.zeros(doubled.sum() + 1)
    ways[0] = 1.0
    for rank in doubled:
        ways[rank:] = ways[rank:] + ways[: len(ways) - rank]
    ways /= ways.sum()
    positive, total = int(doubled[d > 0].sum()), int(doubled.sum())
    extreme = min(positive, total - positive)
    return float(min(1.0, 2 * ways[: extreme + 1].sum()))


def rank_sum(differences: np.ndarray) -> float:
    """The sum of the signed ranks of differences (n,), those of 0 left out: what `signed_rank` is the p of."""
    d = differences[differences != 0]
    return float((np.sign(d) * _doubled_ranks(d)).sum() / 2)


def _doubled_ranks(d: np.ndarray) -> np.ndarray:
    """Twice the ranks of |d| (n,), which are whole even where equal ones share."""
    size = np.abs(d)
    return (size[None] < size[:, None]).sum(1) * 2 + (size[None] == size[:, None]).sum(1) + 1


def compare(names: Sequence[str], means: np.ndarray) -> list[PairTest]:
    """The tests of all pairs of rules by their mean areas (R, P), in the order of the names in the alphabet."""
    row = {name: means[i] for i, name in enumerate(names)}
    pairs = list(combinations(sorted(names), 2))
    found = []
    for a, b in pairs:
        both = ~np.isnan(row[a] + row[b])
        found.append((row[a] - row[b])[both])
    p = [signed_rank(d) if len(d) > 1 else np.nan for d in found]
    return [
        PairTest(a, b, len(d), shift(d), rank_sum(d), one, corrected)
        for (a, b), d, one, corrected in zip(pairs, found, p, holm(p).tolist(), strict=True)
    ]


def shift(d: np.ndarray) -> float:
    """Hodges and Lehmann's estimate of the centre of differences (n,): the median of all means of two of them."""
    if not len(d):
        return float("nan")
    i, j = np.triu_indices(len(d))
    return float(np.median((d[i] + d[j]) / 2))


def smallest_p(problems: int, rules: int) -> float:
    """The least corrected p that so many problems can give for the first of all pairs of so many rules."""
    return min(1.0, 2.0 ** (1 - problems) * (rules * (rules - 1) // 2))
