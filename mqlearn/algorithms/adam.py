"""Adam on the temporal difference (Kingma and Ba 2015; with Q-learning, the paper, 1.1; from memory)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mqlearn.algorithms.stateful import Stateful
from mqlearn.algorithms.step_sizes import Constant, InverseSqrt, StepSize
from mqlearn.checks import within


@dataclass(frozen=True)
class Adam(Stateful):
    """E = psi (Q(x, u) - target), M = b1 M + (1 - b1) E, V = b2 V + (1 - b2) E^2, Q -= alpha_k M^/(sqrt(V^) + eps).

    M^ = M/(1 - b1^(k+1)) and V^ = V/(1 - b2^(k+1)) correct for their start at 0. The table is a vector of parameters,
    psi the unit vector of the visited pair: as with linear features, every entry has its moments and moves at every
    iteration.

    Raises SettingError for values that are not admissible.
    """

    b1: float = 0.9
    b2: float = 0.999
    eps: float = 1e-8

    def __post_init__(self) -> None:
        within("algorithm.b1", self.b1, 0.0, 1.0, ends="[)")
        within("algorithm.b2", self.b2, 0.0, 1.0, ends="[)")
        within("algorithm.eps", self.eps, 0.0)

    def own_step_size(self, discount: float) -> StepSize:
        return InverseSqrt(0.1)

    def init(self, q0: np.ndarray) -> dict[str, Any]:
        return {"q": q0, "first": np.zeros_like(q0), "second": np.zeros_like(q0), "gradient": np.zeros_like(q0)}

    def numbers(self, k: np.ndarray) -> dict[str, Any]:
        corrections = {"whole_1": 1 - self.b1 ** (k + 1), "whole_2": 1 - self.b2 ** (k + 1)}
        return {"alpha": self.alpha(k), "b1": self.b1, "b2": self.b2, "eps": self.eps, **corrections}

    def step(self, z: Any, s: Any, c: Any) -> None:
        z.gradient[:] = 0.0
        s.add(z.gradient, s.value(z.q) - s.target(z.q))
        z.first[:] = c.b1 * z.first + (1 - c.b1) * z.gradient
        z.second[:] = c.b2 * z.second + (1 - c.b2) * z.gradient * z.gradient
        z.q[:] -= c.alpha * (z.first / c.whole_1) / (np.sqrt(z.second / c.whole_2) + c.eps)

    def warnings(self, discount: float) -> list[str]:
        if isinstance(self.step_size, Constant):
            return ["a constant step size ends on a plateau: Adam's steps do not shrink with the gradient"]
        return []
