"""R-contamination."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mqlearn.algorithms.operators.operator import Numbers, Operator
from mqlearn.checks import within


@dataclass(frozen=True)
class Robust(Operator):
    """R-contamination (Wang, Zou 2021, "Online robust reinforcement learning with model uncertainty"):

        r + g (1 - R) max_v Q(y, v) + g R min_x V(x)

    Fixed point: Q* of the kernel (1 - R) P + R e_z, z the state of least V.

    radius: R, in [0, 1).   terminals: whether z may be a terminal state, of value 0. Raises SettingError.
    """

    radius: float = 0.1
    terminals: bool = True
    scalar: ClassVar[str] = "least"
    fixed_point: ClassVar[str] = "Q* of the contaminated kernel"

    def __post_init__(self) -> None:
        within("operator.radius", self.radius, 0, 1, ends="[)")

    @property
    def counts_terminals(self) -> bool:
        return self.terminals

    def numbers(self, discount: float) -> Numbers:
        return Numbers(ahead=discount * (1 - self.radius), common=discount * self.radius)

    def warnings(self, facts: Any) -> list[str]:
        if not (self.radius and self.terminals and facts.terminal and facts.no_costs):
            return []
        shorter = f"discount {facts.discount * (1 - self.radius):.6g} = {facts.discount:g} (1 - {self.radius:g})"
        return [
            f"operator=robust is Bellman's with {shorter} here: no reward is negative, and the least value is 0, that "
            "of a terminal state (operator.terminals=false leaves these out)"
        ]

    def to_optimum(self, q: np.ndarray, v: np.ndarray, mean: float, discount: float) -> np.ndarray | None:
        return None if self.radius else q
