"""Averaging Q-learning (Lee and He 2020, "A unified switching system perspective"; from memory)."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from mqlearn.algorithms.stateful import Stateful
from mqlearn.algorithms.step_sizes import Polynomial, StepSize
from mqlearn.checks import choice, discounted, within


@dataclass(frozen=True)
class AveragingQ(Stateful):
    """From both old tables: A += alpha_k (r + g max B(y, .) - A) at the visited pair, and B += alpha_k d (A - B).

    B moves everywhere. One clock drives both tables. `measured`: "b" or "a"; which of them the source measures is
    from memory. Its slowest mode is 1 - sqrt(g), about half of Q-learning's 1 - g: hence its own step size,
    1/(1 + (1 - g)(k + 1)/2).

    Raises SettingError for values that are not admissible.
    """

    d: float = 1.0
    measured: Literal["a", "b"] = "b"

    def __post_init__(self) -> None:
        within("algorithm.d", self.d, 0.0)
        choice("algorithm.measured", self.measured, ("a", "b"))

    def own_step_size(self, discount: float) -> StepSize:
        discounted(discount, "step_size", "own", "choose step_size=polynomial, harmonic or constant")
        horizon = round(2 / (1 - discount), 9)  # 20 at 0.9, without the rounding error
        return Polynomial(1.0, horizon, horizon)

    def init(self, q0: np.ndarray) -> dict[str, Any]:
        return {"a": q0, "b": q0.copy()}

    def numbers(self, k: np.ndarray) -> dict[str, Any]:
        alpha = self.alpha(k)
        return {"alpha": alpha, "share": self.d * alpha}

    def step(self, z: Any, s: Any, c: Any) -> None:
        to = s.target(z.b)
        z.b[:] += c.share * (z.a - z.b)
        s.move(z.a, to, c.alpha)

    def estimate(self, z: Any) -> Any:
        return z.b if self.measured == "b" else z.a
