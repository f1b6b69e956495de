"""Q-AMSGrad with momentum restart (Weng, Xiong, Liang, Zhang 2020; the rule from memory)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mqlearn.algorithms.stateful import Stateful
from mqlearn.algorithms.step_sizes import InverseSqrt, StepSize
from mqlearn.checks import check_int, within


@dataclass(frozen=True)
class AMSGrad(Stateful):
    """M = b1_k M + (1 - b1_k) E, V = b2 V + (1 - b2) E^2, W = max(W, V), Q -= alpha_k M/sqrt(W), nothing where W = 0.

    E = psi (Q(x, u) - target), b1_k = b1 decay^k; every `restart` iterations M starts again at 0 (null: never). Every
    entry moves at every iteration, as in Adam. The source's is linear with a projection, which linear.projection sets.
    W settles early, so that this is a stochastic gradient with steps alpha_k; these are in units of the values: take
    0.01 times their scale. `algorithm.averaged=true` measures the mean of the iterates too.

    Raises SettingError for values that are not admissible.
    """

    b1: float = 0.9
    b2: float = 0.999
    decay: float = 1.0
    restart: int | None = 100

    def __post_init__(self) -> None:
        within("algorithm.b1", self.b1, 0.0, 1.0, ends="[)")
        within("algorithm.b2", self.b2, 0.0, 1.0, ends="[)")
        within("algorithm.decay", self.decay, 0.0, 1.0, ends="[]")
        check_int("algorithm.restart", self.restart, 1, null="no restart")

    def without_effect(self) -> dict[str, str]:
        if self.b1 == 0:
            return dict.fromkeys(("decay", "restart"), "b1 is 0")
        return {"restart": "decay is 0"} if self.decay == 0 else {}

    def own_step_size(self, discount: float) -> StepSize:
        return InverseSqrt(0.01)

    def init(self, q0: np.ndarray) -> dict[str, Any]:
        return {"q": q0, **{name: np.zeros_like(q0) for name in ("first", "second", "largest", "gradient")}}

    def numbers(self, k: np.ndarray) -> dict[str, Any]:
        restarts = k < 0 if self.restart is None else k % self.restart == 0
        return {"alpha": self.alpha(k), "b1": self.b1 * self.decay**k, "b2": self.b2, "restarts": restarts}

    def step(self, z: Any, s: Any, c: Any) -> None:
        if c.restarts:
            z.first[:] = 0.0
        z.gradient[:] = 0.0
        s.add(z.gradient, s.value(z.q) - s.target(z.q))
        z.first[:] = c.b1 * z.first + (1 - c.b1) * z.gradient
        z.second[:] = c.b2 * z.second + (1 - c.b2) * z.gradient * z.gradient
        z.largest[:] = np.maximum(z.largest, z.second)
        z.q[:] -= c.alpha * z.first / np.sqrt(np.where(z.largest > 0.0, z.largest, 1.0))  # where 0, so is `first`
