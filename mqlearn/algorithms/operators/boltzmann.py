"""The value under a Boltzmann behaviour."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mqlearn.algorithms.operators.operator import Operator
from mqlearn.checks import within


@dataclass(frozen=True)
class Boltzmann(Operator):
    """The value of the Boltzmann policy in place of the max:

        r + g sum_v p(v) Q(y, v),   p(v) proportional to exp(Q(y, v)/temperature), over the admissible actions

    It need not contract, and may have several fixed points (Asadi, Littman 2017): errors are measured against the one
    that Newton's steps reach from Q*, certified by its residual alone. `algorithm=expected_sarsa` takes the temperature
    of the run's behaviour.

    temperature: above 0; the smaller, the nearer to the max. Raises SettingError.
    """

    temperature: float = 1.0
    with_features: ClassVar[bool] = True
    fixed_point: ClassVar[str] = "Q of a policy that is Boltzmann in its own Q, one of possibly several"

    def __post_init__(self) -> None:
        within("operator.temperature", self.temperature, 0.0)

    def value(self, q: np.ndarray, by: np.ndarray) -> float:
        best = by[by.argmax()]
        total, weighted = 0.0, 0.0
        for i in range(len(q)):
            weight = np.exp((by[i] - best) / self.temperature)
            total += weight
            weighted += weight * q[i]
        return weighted / total

    def slopes(self, q: np.ndarray) -> np.ndarray:
        p = np.exp((q - q[q.argmax()]) / self.temperature)
        p /= p.sum()
        return p * (1 + (q - (p * q).sum()) / self.temperature)

    def contraction(self, facts):
        return None

    def to_optimum(self, q, v, mean, discount):
        return None
