"""Smoothed maxima: log mean exp and log sum exp."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mqlearn.algorithms.operators.operator import Operator
from mqlearn.checks import within


@dataclass(frozen=True)
class Mellowmax(Operator):
    """log mean exp in place of the max (Asadi, Littman 2017, "An alternative softmax operator"):

        r + g log(mean_v exp(omega Q(y, v))) / omega,   the mean over the admissible actions

    Its fixed point lies below Q*, by at most log(A)/omega g/(1-g).

    omega: above 0; the larger, the nearer to the max. Raises SettingError.
    """

    omega: float = 10.0
    averages: ClassVar[bool] = True  # over the actions, or adds up
    with_features: ClassVar[bool] = True
    fixed_point: ClassVar[str] = "the smoothed Q, below Q*"

    def __post_init__(self) -> None:
        within("operator.omega", self.omega, 0)

    def value(self, q: np.ndarray, by: np.ndarray) -> float:
        # Chosen by p, the softmax of `by`: <p, q> and the entropy of p, that is V(by) + <p, q - by> (Geist, Scherrer,
        # Pietquin 2019, "A theory of regularized Markov decision processes"). It never exceeds V(q).
        best = by[by.argmax()]
        total, beyond = 0.0, 0.0  # beyond: <p, q - by> total
        for i in range(len(q)):
            weight = np.exp(self.omega * (by[i] - best))
            total += weight
            beyond += weight * (q[i] - by[i])
        beyond /= total
        if self.averages:
            total /= len(q)
        return best + np.log(total) / self.omega + beyond

    def slopes(self, q: np.ndarray) -> np.ndarray:
        best = q[q.argmax()]
        weights, total = np.empty(len(q)), 0.0
        for i in range(len(q)):
            weights[i] = np.exp(self.omega * (q[i] - best))
            total += weights[i]
        return weights / total

    def to_optimum(self, q: np.ndarray, v: np.ndarray, mean: float, discount: float) -> np.ndarray | None:
        return None


@dataclass(frozen=True)
class Soft(Mellowmax):
    """log sum exp in place of the max (soft Q-learning): as `Mellowmax` without the mean, and above Q*.

    omega: above 0; the larger, the nearer to the max. Raises SettingError.
    """

    averages: ClassVar[bool] = False
    fixed_point: ClassVar[str] = "the smoothed Q, above Q*"
