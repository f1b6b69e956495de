"""Residual-gradient Q-learning with two samples (Baird 1995, "Residual algorithms"; from memory)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mqlearn.algorithms.stateful import Stateful
from mqlearn.algorithms.step_sizes import RescaledLinear, StepSize
from mqlearn.checks import within


@dataclass(frozen=True)
class Residual(Stateful):
    """Q(x, u) += a d and Q(y', v*) -= w a g d, with d = r + g max Q(y, .) - Q(x, u) and v* greedy at y'.

    y and y' are independent given (x, u), the reward is that of y, and nothing is written where y' is terminal; all
    from the old table. w = 1 is the gradient of the mean squared Bellman error, w = 0 is Q-learning, in between are
    Baird's mixtures. An iteration takes two transitions a pair. With another operator than Bellman's the second change
    is along the derivative of its target at y', Q -= w a d dT/dQ.

    Raises SettingError for values that are not admissible.
    """

    w: float = 1.0

    def __post_init__(self) -> None:
        within("algorithm.w", self.w, 0.0, 1.0, ends="[]")

    @property
    def samples_per_iteration(self):
        return 2

    def own_step_size(self, discount: float) -> StepSize:
        return RescaledLinear(discount)

    def init(self, q0: np.ndarray) -> dict[str, Any]:
        return {"q": q0}

    def numbers(self, k: np.ndarray) -> dict[str, Any]:
        return {"alpha": self.alpha(k), "w": self.w}

    def step(self, z: Any, s: Any, c: Any) -> None:
        d = s.target(z.q) - s.value(z.q)
        s.again.add_gradient(z.q, -c.w * c.alpha, d)
        s.add(z.q, c.alpha * d)

    def warnings(self, discount: float) -> list[str]:
        if self.w > 0:
            return [
                f"w={self.w:g}: with the maximum the objective is not convex, and its mean matrix (I-gP)'(I-gP) has "
                "the squared condition of Q-learning's: no global guarantee, and slow"
            ]
        return []
