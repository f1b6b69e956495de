"""Advantage learning."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mqlearn.algorithms.operators.operator import Numbers, Operator
from mqlearn.checks import within


@dataclass(frozen=True)
class Advantage(Operator):
    """Advantage learning (Baird 1999; Bellemare et al. 2016, "Increasing the action gap"):

        r + g max_v Q(y, v) - a (max_v Q(x, v) - Q(x, u))

    Fixed point V* - (V* - Q*) / (1 - a): gaps between actions grow. No contraction is proven.

    a: in [0, 1). Raises SettingError.
    """

    a: float = 0.5
    fixed_point: ClassVar[str] = "V* - (V* - Q*) / (1 - a)"

    def __post_init__(self) -> None:
        within("operator.a", self.a, 0, 1, ends="[)")

    def numbers(self, discount: float) -> Numbers:
        return Numbers(ahead=discount, here=-self.a, own=self.a)

    def contraction(self, facts: Any) -> float | None:
        return None if self.a else facts.discount

    def warnings(self, facts: Any) -> list[str]:
        return [f"operator=advantage with a={self.a:g}: no contraction is proven for it"] if self.a else []

    def to_optimum(self, q: np.ndarray, v: np.ndarray, mean: float, discount: float) -> np.ndarray | None:
        return v[..., None] - (1 - self.a) * (v[..., None] - q)
