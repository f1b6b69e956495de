"""SpeedyQ (Azar, Munos, Ghavamzadeh, Kappen 2011, "Speedy Q-learning", Algorithm 1)."""

from dataclasses import dataclass
from typing import Literal

from mqlearn.algorithms.rule import Rule
from mqlearn.checks import choice


@dataclass(frozen=True)
class SpeedyQ(Rule):
    """Q_{k+1} = Q_k + a (T_k Q_{k-1} - Q_k) + (1 - a)(T_k Q_k - T_k Q_{k-1}).

    `form` "azar" is the original; "printed" is the paper's equation (3.1), which has T_k Q_k in the second term and
    behaves differently (it overshoots the initial error at a high discount).

    Raises SettingError for values that are not admissible.
    """

    form: Literal["azar", "printed"] = "azar"

    def __post_init__(self) -> None:
        choice("algorithm.form", self.form, ("azar", "printed"))

    def update(self, k, q, q_prev, target, target_prev):
        a = self.step_size(k)
        learned = target if self.form == "printed" else target_prev
        return q + a * (learned - q) + (1 - a) * (target - target_prev)
