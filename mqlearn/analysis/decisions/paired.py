"""One number a seed of both rules of a pair, and the differences that are tested of them."""

import math
from dataclasses import dataclass

import numpy as np

from mqlearn.analysis.comparison import seed_values
from mqlearn.analysis.comparison.seed_values import Question, SeedValues
from mqlearn.storage.runs import AXES, Run


@dataclass(frozen=True, eq=False)
class Paired:
    """x, y (n,): of a and b, 0 where a seed does not count.   used (n,): the seeds that count.

    late (2, n): times, of a and b, of seeds that had not arrived.   identical: whether both have the same curves, bit
    for bit, in every seed.   ratio: whether x and y are logarithms, of which a margin is a factor.
    """

    x: np.ndarray
    y: np.ndarray
    used: np.ndarray
    late: np.ndarray
    identical: bool
    ratio: bool

    @property
    def difference(self) -> np.ndarray:
        """(n,): a - b."""
        return self.x - self.y

    @property
    def skewness(self) -> float:
        """Of the differences that count: the mean of their cubes in standard deviations; 0 where they do not spread."""
        d = self.difference[self.used]
        away = d - d.mean() if len(d) else d
        spread = float(np.sqrt((away**2).mean())) if len(d) else 0.0
        return float(((away / spread) ** 3).mean()) if spread > 1e-12 * float(np.abs(d).max(initial=0)) else 0.0

    def tested(self, margin: float | None) -> np.ndarray:
        """(n,): a - b; with a margin (3, n), and then a and b each less what it is to be below to be equal.

        Of times that are not known, as of seeds that had not arrived, nothing follows for equality: such a seed counts
        against it, as much as any seed of the pair speaks.
        """
        if margin is None:
            return self.difference
        if not self.ratio:  # both can be below 0 only if both means are above 0
            return np.array([self.difference, self.x - margin * self.y, self.y - margin * self.x])
        sides = np.array([self.difference, -self.difference]) - math.log(margin) * self.used
        largest = np.abs(sides).max(axis=1, initial=0.0)
        return np.array([self.difference, *np.where(self.late & self.used, largest[:, None], sides)])


def paired(question: Question, metric: str, a: Run, b: Run) -> Paired:
    """What two runs with the same seeds answer. A pair of seeds of which one does not count has no difference."""
    assert question.at is not None
    first, second = seed_values.seed_values(question, metric, question.at, a, b)
    used = first.used & second.used
    x, y = np.where(used, first.values, 0.0), np.where(used, second.values, 0.0)
    if not question.is_ratio:  # rules that are one and the same may differ by rounding
        scale = max(float(np.abs(run.curves[metric][:, 0]).max()) for run in (a, b))
        y = np.where(np.abs(x - y) <= 1e-12 * scale, x, y)
    late = np.array([_late(first), _late(second)])
    return Paired(x, y, used, late, _identical(a, b), question.is_ratio)


def _late(values: SeedValues) -> np.ndarray:
    """(n,): whether a seed had not arrived."""
    return np.zeros(len(values.values), bool) if values.times is None else ~values.times.observed


def _identical(a: Run, b: Run) -> bool:
    """Whether all curves of both are the same, bit for bit."""
    names = {*a.curves, *b.curves} - {*AXES}
    return {*a.curves} == {*b.curves} and all(a.curves[name].tobytes() == b.curves[name].tobytes() for name in names)
