"""Relative Q-learning."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from mqlearn.algorithms.operators.operator import Numbers, Operator
from mqlearn.checks import finite
from mqlearn.errors import SettingError


@dataclass(frozen=True)
class Relative(Operator):
    """Relative Q-learning (Devraj, Meyn 2022, "Q-learning with uniformly bounded variance"):

        r + g max_v Q(y, v) - kappa <mu, Q>,   mu uniform over the learned pairs

    Fixed point H*, Q* = H* + kappa <mu, H*> / (1 - g). It contracts in the span seminorm only. Constants are
    multiplied by g - kappa, which has to lie between -1 and 1. A terminal state, whose value is held at 0, would give
    it another fixed point: it is refused.

    kappa: between g - 1 and g + 1. Raises SettingError.
    """

    kappa: float = 0.5
    scalar: ClassVar[str] = "mean"
    fixed_point: ClassVar[str] = "Q* - kappa <mu, Q*> / (1 - g + kappa)"

    def __post_init__(self) -> None:
        finite("operator.kappa", self.kappa)

    def numbers(self, discount: float) -> Numbers:
        return Numbers(ahead=discount, common=-self.kappa)

    def on(self, facts: Any) -> Self:
        g = facts.discount
        if facts.terminal:
            expected = "has no such fixed point where states are terminal (their values are held at 0)"
            raise SettingError("operator", "relative", f"{expected}; use an environment that goes on, or bellman")
        if not -1 < g - self.kappa < 1:
            expected = f"must lie between discount - 1 and discount + 1, here {g - 1:.4g} and {g + 1:.4g}"
            raise SettingError("operator.kappa", self.kappa, expected)
        return self

    def contraction(self, facts: Any) -> float | None:
        return None

    def to_optimum(self, q: np.ndarray, v: np.ndarray, mean: float, discount: float) -> np.ndarray | None:
        return q + self.kappa * mean / (1 - discount)
