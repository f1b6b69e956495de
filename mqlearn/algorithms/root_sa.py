"""Root-SA, recursive variance reduction (Mou, Khamaru, Wainwright, Bartlett, Jordan 2022; from memory)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mqlearn.algorithms.rule import Rule
from mqlearn.checks import within


@dataclass(frozen=True)
class RootSA(Rule):
    """V_k = f_k(Q_k) + (1 - a)(V_{k-1} - f_k(Q_{k-1})) and Q_{k+1} = Q_k + eta V_k, with f_k(Q) = T_k Q - Q.

    Since eta V_{k-1} = Q_k - Q_{k-1}, this is four numbers, and V needs no memory. eta in (0, 1]; eta = 1 is
    `SpeedyQPrinted`. Without the source's burn-in, which averages f at Q_0 first: a later start is the offset of
    the harmonic step.

    Raises SettingError for values that are not admissible.
    """

    eta: float = 0.1

    def __post_init__(self) -> None:
        within("algorithm.eta", self.eta, 0.0, 1.0, ends="(]")

    def update(self, k: np.ndarray, q: Any, q_prev: Any, target: Any, target_prev: Any) -> Any:
        a = self.step_size(k)
        f, f_prev = target - q, target_prev - q_prev
        return q + self.eta * f + (1 - a) * ((q - q_prev) - self.eta * f_prev)
