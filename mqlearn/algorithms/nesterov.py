"""Accelerated Q-learning: Nesterov's value iteration (Goyal, Grand-Clement 2019), sampled; that form is ours."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from mqlearn.algorithms.stateful import Stateful
from mqlearn.algorithms.step_sizes import RescaledLinear, StepSize
from mqlearn.checks import within


def _momentum(discount: float) -> float:
    """b, by the source."""
    return (1 - math.sqrt(1 - discount * discount)) / discount


@dataclass(frozen=True)
class Nesterov(Stateful):
    """H = Q_k + b (Q_k - Q_{k-1}), then Q_{k+1} = H + a alpha_k (T_k H - H), with b = (1 - sqrt(1 - g^2))/g.

    All entries move by the momentum, the visited pair by its target. `a` null: 1 - b, the gain of Q-learning, so that
    the error in the limit is Q-learning's too; the exact method has a = 1/(1 + g). Not one of the rules of four
    numbers: the maximum is that of H.

    Raises SettingError for values that are not admissible.
    """

    a: float | None = None
    needs_discount = True  # b is 1 without one

    def __post_init__(self) -> None:
        if self.a is not None:
            within("algorithm.a", self.a, 0.0)

    def own_step_size(self, discount: float) -> StepSize:
        return RescaledLinear(discount)

    def init(self, q0: np.ndarray) -> dict[str, Any]:
        return {"q": q0, "previous": q0.copy(), "h": q0.copy()}

    def effective(self, discount: float) -> dict[str, Any]:
        return {"a": 1 - _momentum(discount) if self.a is None else self.a}

    def numbers(self, k: np.ndarray) -> dict[str, Any]:
        return {"share": self.effective(self.discount)["a"] * self.alpha(k), "b": _momentum(self.discount)}

    def step(self, z: Any, s: Any, c: Any) -> None:
        z.h[:] = z.q + c.b * (z.q - z.previous)
        z.previous[:] = z.q
        z.q[:] = z.h
        s.move(z.q, s.target(z.h), c.share)

    def warnings(self, discount: float) -> list[str]:
        return ["no theorem covers the sampled form, and the exact one may diverge, since the maximum is not linear"]
