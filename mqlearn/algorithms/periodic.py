"""Periodic Q-learning, with a target table (Lee and He 2020, "Periodic Q-learning"; the step size from memory)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mqlearn.algorithms.stateful import Stateful
from mqlearn.algorithms.step_sizes import Harmonic, StepSize
from mqlearn.checks import check_int


@dataclass(frozen=True)
class Periodic(Stateful):
    """Q += alpha_t (r + g max F(y, .) - Q), F frozen for `period` iterations; then F = Q and t starts again at 0.

    Measured and acting: F. The step size runs on t; its own is 1/(4 + t). With 1/(t + 1) and synchronous sampling this
    is phased Q-learning.

    Raises SettingError for values that are not admissible.
    """

    period: int = 400

    def __post_init__(self) -> None:
        check_int("algorithm.period", self.period, 1)

    def own_step_size(self, discount: float) -> StepSize:
        return Harmonic(3.0)

    def init(self, q0: np.ndarray) -> dict[str, Any]:
        return {"frozen": q0, "q": q0.copy()}

    def numbers(self, k: np.ndarray) -> dict[str, Any]:
        return {"alpha": self.alpha(k % self.period), "ends": (k + 1) % self.period == 0}

    def step(self, z: Any, s: Any, c: Any) -> None:
        s.move(z.q, s.target(z.frozen), c.alpha)
        if c.ends:
            z.frozen[:] = z.q

    def warnings(self, discount: float) -> list[str]:
        return [f"periods of fixed length ({self.period}) never converge: the noise of one period stays, as a plateau"]
