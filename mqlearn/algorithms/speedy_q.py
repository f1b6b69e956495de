"""SpeedyQ (Azar, Munos, Ghavamzadeh, Kappen 2011, "Speedy Q-learning", Algorithm 1), and as the paper prints it."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from mqlearn.algorithms.rule import Rule
from mqlearn.checks import choice


@dataclass(frozen=True)
class SpeedyQPrinted(Rule):
    """SpeedyQ as the paper prints it (3.1): Q_{k+1} = Q_k + a (T_k Q_k - Q_k) + (1 - a)(T_k Q_k - T_k Q_{k-1}).

    It has T_k Q_k in the second term where Azar's has T_k Q_{k-1}, and overshoots the initial error at a high discount.
    It is root-SA with eta = 1.
    """

    def update(self, k: np.ndarray, q: Any, q_prev: Any, target: Any, target_prev: Any) -> Any:
        a = self.step_size(k)
        return q + a * (target - q) + (1 - a) * (target - target_prev)


@dataclass(frozen=True)
class SpeedyQ(Rule):
    """Q_{k+1} = Q_k + a (T_k Q_{k-1} - Q_k) + (1 - a)(T_k Q_k - T_k Q_{k-1}).

    `form` "azar" is this, the original; "printed" is another equation, that of `SpeedyQPrinted`.

    Raises SettingError for values that are not admissible.
    """

    form: Literal["azar", "printed"] = "azar"

    def __post_init__(self) -> None:
        choice("algorithm.form", self.form, ("azar", "printed"))

    def update(self, k: np.ndarray, q: Any, q_prev: Any, target: Any, target_prev: Any) -> Any:
        if self.form == "printed":
            return SpeedyQPrinted().with_step_size(self.step_size).update(k, q, q_prev, target, target_prev)
        a = self.step_size(k)
        return q + a * (target_prev - q) + (1 - a) * (target - target_prev)
