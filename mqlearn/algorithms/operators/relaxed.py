"""Successive over-relaxation."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mqlearn.algorithms.operators.operator import Numbers, Operator
from mqlearn.checks import within


@dataclass(frozen=True)
class Relaxed(Operator):
    """Successive over-relaxation (Kamanchi, Diddigi, Bhatnagar 2020, "Successive over-relaxation Q-learning"):

        w (r + g max_v Q(y, v)) + (1 - w) max_v Q(x, v)

    Fixed point w Q* + (1 - w) V*(x): values and greedy actions are right, Q* is not. It contracts by 1 - w + w g up to
    w* = 1 / (1 - g min P(x | x, u)).

    w: relaxation, above 0; beyond w* the rule may diverge. Raises SettingError.
    """

    w: float = 0.9
    with_features: ClassVar[bool] = True
    fixed_point: ClassVar[str] = "w Q* + (1 - w) V*"

    def __post_init__(self) -> None:
        within("operator.w", self.w, 0)

    def numbers(self, discount: float) -> Numbers:
        return Numbers(self.w, self.w * discount, 1 - self.w)

    def largest_w(self, facts: Any) -> float:
        """w*, up to which it is known to contract."""
        return 1 / (1 - facts.discount * facts.stay)

    def limits(self, facts: Any) -> dict[str, Any]:
        return {"largest_w": self.largest_w(facts)}

    def contraction(self, facts: Any) -> float | None:
        return 1 - self.w + self.w * facts.discount if self.w <= self.largest_w(facts) else None

    def warnings(self, facts: Any) -> list[str]:
        if self.w <= self.largest_w(facts):
            return []
        limit = f"w* = {self.largest_w(facts):.6g} = 1/(1 - discount min P(x|x,u)), where min P is {facts.stay:.4g}"
        return [f"operator.w={self.w:g} is above {limit}: the operator may not contract, and the rule may diverge"]

    def to_optimum(self, q: np.ndarray, v: np.ndarray, mean: float, discount: float) -> np.ndarray | None:
        return (q - (1 - self.w) * v[..., None]) / self.w
