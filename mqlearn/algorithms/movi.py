"""Momentum value iteration, MoVI, sampled on tables (Vieillard et al. 2020; the sampled form from memory)."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from mqlearn.algorithms.stateful import Stateful
from mqlearn.algorithms.step_sizes import Constant, StepSize
from mqlearn.checks import check_bool, choice


@dataclass(frozen=True)
class MoVI(Stateful):
    """Q += alpha_k (r + g Q(y, argmax H(y, .)) - Q), then H = b H + (1 - b) Q with b = (k + 1)/(k + 2), everywhere.

    H, the mean of all Q_k, acts and is measured. alpha = 1 is the source's iteration: then Q keeps the noise of single
    draws for ever, and only H converges. `keep_start` false: b = k/(k + 1), which drops Q_0 from the mean. `measured`
    "q" measures Q instead; H still acts.

    Raises SettingError for values that are not admissible.
    """

    keep_start: bool = True
    measured: Literal["h", "q"] = "h"

    def __post_init__(self) -> None:
        check_bool("algorithm.keep_start", self.keep_start)
        choice("algorithm.measured", self.measured, ("h", "q"))

    def own_step_size(self, discount: float) -> StepSize:
        return Constant(1.0)

    def init(self, q0: np.ndarray) -> dict[str, Any]:
        return {"h": q0, "q": q0.copy()}

    def numbers(self, k: np.ndarray) -> dict[str, Any]:
        return {"alpha": self.alpha(k), "b": (k + 1) / (k + 2) if self.keep_start else k / (k + 1)}

    def step(self, z: Any, s: Any, c: Any) -> None:
        s.move(z.q, s.target(z.q, z.h), c.alpha)
        z.h[:] = c.b * z.h + (1 - c.b) * z.q

    def estimate(self, z: Any) -> Any:
        return z.h if self.measured == "h" else z.q

    def acting(self, z: Any) -> Any:
        return z.h

    def warnings(self, discount: float) -> list[str]:
        if self.measured == "q" and isinstance(self.step_size, Constant):
            return ["with a constant step size Q keeps the noise of single draws and never converges; H does"]
        return []
