"""MomentumQ with linear features (the paper: Algorithm 2)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mqlearn.algorithms.rule import Rule
from mqlearn.checks import finite_number
from mqlearn.errors import SettingError


@dataclass(frozen=True)
class MomentumQLinear(Rule):
    """Nesterov's and Polyak's momentum that vanish geometrically: b_k = phi beta lam^k, c_k = (1 - phi) beta lam^k.

    beta: in [0, 1), the momentum at k = 0.   lam: in [0, 1), its decay.   phi: in [0, 1], Nesterov's share of it: the
    paper gives b_k + c_k alone, so the share is ours. The rule takes tables too.

    Raises SettingError for values that are not admissible.
    """

    beta: float
    lam: float = 0.999
    phi: float = 0.5

    def __post_init__(self) -> None:
        for name, value in (("beta", self.beta), ("lam", self.lam)):
            number = finite_number(value)
            if number is None or not 0 <= number < 1:
                raise SettingError(f"algorithm.{name}", value, "must lie in [0, 1)")
        number = finite_number(self.phi)
        if number is None or not 0 <= number <= 1:
            expected = "must lie in [0, 1] (1 Nesterov only, 0 heavy ball only)"
            raise SettingError("algorithm.phi", self.phi, expected)

    def without_effect(self) -> dict[str, str]:
        return {} if self.beta else dict.fromkeys(("lam", "phi"), "beta is 0")

    def update(self, k: np.ndarray, q: Any, q_prev: Any, target: Any, target_prev: Any) -> Any:
        a = self.step_size(k)
        decay = self.lam**k  # a power takes as long as all the rest
        b = self.phi * self.beta * decay
        c = (1 - self.phi) * self.beta * decay
        return (1 - a) * q + (b * (1 - a) + c) * (q - q_prev) + a * ((1 + b) * target - b * target_prev)
