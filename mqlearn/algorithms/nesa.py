"""NeSA, Nesterov stochastic approximation (Devraj, Busic, Meyn 2019, eq. 5, the rule as it is generally known)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mqlearn.algorithms.rule import Rule
from mqlearn.checks import finite_number
from mqlearn.errors import SettingError


@dataclass(frozen=True)
class NeSA(Rule):
    """With f(Q) = T_k Q - Q: Q_{k+1} = Q_k + (Q_k - Q_{k-1}) + zeta (f(Q_k) - f(Q_{k-1})) + zeta a f(Q_k).

    zeta > 0; the paper uses 0.1.

    Raises SettingError for values that are not admissible.
    """

    zeta: float = 0.1

    def __post_init__(self) -> None:
        zeta = finite_number(self.zeta)
        if zeta is None or zeta <= 0:
            raise SettingError("algorithm.zeta", self.zeta, "must be a positive number")

    def update(self, k: np.ndarray, q: Any, q_prev: Any, target: Any, target_prev: Any) -> Any:
        a = self.step_size(k)
        f, f_prev = target - q, target_prev - q_prev
        return q + (q - q_prev) + self.zeta * (f - f_prev) + self.zeta * a * f
