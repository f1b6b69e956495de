"""Clipped values."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from mqlearn.algorithms.operators.operator import Operator
from mqlearn.checks import within
from mqlearn.errors import SettingError


@dataclass(frozen=True)
class Truncated(Operator):
    """V clipped to [-bound, bound]:  r + g clip(max_v Q(y, v)).

    Fixed point Q* if bound >= max |V*| over the states that can be reached in one step, since only the values of
    successors are clipped. The default, R/(1-g) with R the largest |r|, always suffices; 1/(1 - g) does so for
    |r| <= 1 only.

    bound: above 0, None for the default, which needs an exact model. Raises SettingError.
    """

    bound: float | None = None
    with_features: ClassVar[bool] = True
    fixed_point: ClassVar[str] = "Q* if no V* of a successor is clipped"

    def __post_init__(self) -> None:
        if self.bound is not None:
            within("operator.bound", self.bound, 0)

    def value(self, q: np.ndarray, by: np.ndarray) -> float:
        return min(max(q[by.argmax()], -self.bound), self.bound)  # pyright: ignore[reportOptionalOperand] it is filled in

    def slopes(self, q: np.ndarray) -> np.ndarray:
        greedy = q.argmax()
        slopes = np.zeros(len(q))
        slopes[greedy] = 1.0 if abs(q[greedy]) <= self.bound else 0.0
        return slopes

    @property
    def limit(self) -> float:
        """The bound of an operator that is ready for a problem."""
        assert self.bound is not None, "a run fills it in"
        return float(self.bound)

    def on(self, facts: Any) -> Self:
        if self.bound is not None:
            return self
        if facts.largest_reward is None:
            raise SettingError("operator.bound", None, "follows from the rewards of an exact model: give a number here")
        return replace(self, bound=facts.largest_reward / (1 - facts.discount) or 1.0)

    def suffices(self, facts: Any) -> bool:
        """Whether no V* of a state that can be reached in one step is clipped, up to rounding."""
        return self.limit >= facts.largest_value * (1 - 1e-12)

    def warnings(self, facts: Any) -> list[str]:
        if facts.largest_value is None:
            return [f"operator.bound={self.limit:g}: without a model it is not known whether it suffices"]
        if self.suffices(facts):
            return []
        largest = f"{facts.largest_value:.6g}, the largest |V*| that can be reached in one step"
        short = f"operator.bound={self.limit:g} is below {largest}"
        return [f"{short}: the fixed point may not be Q*, and its greedy actions may not be optimal"]

    def to_optimum(self, q: np.ndarray, v: np.ndarray, mean: float, discount: float) -> np.ndarray | None:
        return q if np.abs(v).max(initial=0.0) <= self.limit * (1 + 1e-12) else None
