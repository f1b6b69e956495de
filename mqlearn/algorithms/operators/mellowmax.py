"""Smoothed maxima: log mean exp and log sum exp."""

from dataclasses import dataclass
from typing import ClassVar

from mqlearn.algorithms.operators.operator import Operator
from mqlearn.checks import within


@dataclass(frozen=True)
class Mellowmax(Operator):
    """log mean exp in place of the max (Asadi, Littman 2017, "An alternative softmax operator"):

        r + g log(mean_v exp(omega Q(y, v))) / omega,   the mean over the admissible actions

    Its fixed point lies below Q*, by at most log(A)/omega g/(1-g).

    omega: above 0; the larger, the nearer to the max. Raises SettingError.
    """

    omega: float = 10.0
    functional: ClassVar[str] = "mellowmax"
    with_features: ClassVar[bool] = True
    fixed_point: ClassVar[str] = "the smoothed Q, below Q*"

    def __post_init__(self) -> None:
        within("operator.omega", self.omega, 0)

    @property
    def parameter(self) -> float:
        return self.omega

    def to_optimum(self, q, v, mean, discount):
        return None


@dataclass(frozen=True)
class Soft(Mellowmax):
    """log sum exp in place of the max (soft Q-learning): as `Mellowmax` without the mean, and above Q*.

    omega: above 0; the larger, the nearer to the max. Raises SettingError.
    """

    functional: ClassVar[str] = "soft"
    fixed_point: ClassVar[str] = "the smoothed Q, above Q*"
