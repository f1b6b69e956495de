"""MomentumQ (the paper: Algorithm 1, tabular; Algorithm 2, linear features)."""

import math
from dataclasses import dataclass
from typing import Literal

from mqlearn.algorithms.rule import Rule
from mqlearn.checks import choice, finite_number
from mqlearn.errors import SettingError


@dataclass(frozen=True)
class MomentumQ(Rule):
    """Nesterov's momentum b_k and Polyak's momentum c_k on top of Q-learning (the paper, 3.1), in the form of 4.2.

    Algorithm 1 (`beta` None): b_k = 1/a - m - 2, c_k = a - b_k (1 - a), which with a = 1/(k+1) are the printed
    k-m-1 and (-k^2+(m+1)k+1)/(k+1). `m` is 2 unless given; the theorem wants m >= 1/discount. `shift` evaluates the
    step size at k + m: "auto" for m > 10, as the paper does (5.1), "on", "off".

    Algorithm 2 (`beta` in [0, 1)): b_k = phi beta lam^k, c_k = (1 - phi) beta lam^k.
    """

    m: float | None = None
    shift: Literal["auto", "on", "off"] | bool = "auto"
    beta: float | None = None
    lam: float = 0.999
    phi: float = 0.5

    def __post_init__(self) -> None:
        if self.m is not None and finite_number(self.m) is None:
            expected = "must be a finite number, or null for 2 (the theorem wants m >= 1/discount)"
            raise SettingError("algorithm.m", self.m, expected)
        if not isinstance(self.shift, bool):  # yaml reads on and off as truth values
            choice("algorithm.shift", self.shift, ("auto", "on", "off"))
        if self.shifted and self.order <= -1:
            raise SettingError("algorithm.m", self.m, "must be above -1 when the step size is shifted by m")
        if self.beta is not None and self.m is not None:
            raise SettingError("algorithm.m", self.m, "belongs to Algorithm 1, beta to Algorithm 2; give one of them")
        if self.beta is not None and not 0 <= _number(self.beta) < 1:
            raise SettingError("algorithm.beta", self.beta, "must lie in [0, 1), or be null for Algorithm 1")
        if not 0 <= _number(self.lam) < 1:
            raise SettingError("algorithm.lam", self.lam, "must lie in [0, 1)")
        if not 0 <= _number(self.phi) <= 1:
            raise SettingError("algorithm.phi", self.phi, "must lie in [0, 1] (1 Nesterov only, 0 heavy ball only)")

    @property
    def order(self) -> float:
        """The hyperparameter m of Algorithm 1."""
        return 2.0 if self.m is None else self.m

    @property
    def shifted(self) -> bool:
        """Whether Algorithm 1 evaluates its step size at k + m."""
        return self.order > 10 if self.shift == "auto" else self.shift in ("on", True)

    def warnings(self, discount: float) -> list[str]:
        if self.beta is None and self.order < 1 / discount:
            return [f"m={self.order:g} is below 1/discount={1 / discount:.4g}: outside the theorem"]
        return []

    def update(self, k, q, q_prev, target, target_prev):
        if self.beta is not None:
            a = self.step_size(k)
            b = self.phi * self.beta * self.lam**k
            c = (1 - self.phi) * self.beta * self.lam**k
            return (1 - a) * q + (b * (1 - a) + c) * (q - q_prev) + a * ((1 + b) * target - b * target_prev)
        m = self.order
        a = self.step_size(k + m if self.shifted else k)
        # a (1 + b) = 1 - (m + 1) a and b (1 - a) + c = a: written out, since b grows like k and would cost k eps.
        return (1 - a) * q + a * (q - q_prev) + (1 - (m + 1) * a) * target - (1 - (m + 2) * a) * target_prev


def _number(value: object) -> float:
    """The value as a float; what is no finite number is nan, which lies in no range."""
    number = finite_number(value)
    return math.nan if number is None else number
