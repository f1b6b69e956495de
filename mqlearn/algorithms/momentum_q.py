"""MomentumQ with tables (the paper: Algorithm 1)."""

import functools
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np

from mqlearn.algorithms.rule import Rule
from mqlearn.checks import finite_number
from mqlearn.errors import SettingError, nearest

T = TypeVar("T")


def _naming_algorithm_2(rule: type[T]) -> type[T]:
    """Let the rule answer settings of Algorithm 2, which it once took, with the name of the rule that takes them."""
    initialise = rule.__init__

    @functools.wraps(initialise)
    def answer(self: Any, *given: Any, **named: Any) -> None:
        for key in ("beta", "lam", "phi"):
            if key in named:
                expected = "belongs to Algorithm 2, mq.MomentumQLinear(beta=..., lam=..., phi=...)"
                raise SettingError(f"algorithm.{key}", named[key], expected)
        initialise(self, *given, **named)

    rule.__init__ = answer
    return rule


@_naming_algorithm_2
@dataclass(frozen=True)
class MomentumQ(Rule):
    """Nesterov's momentum b_k and Polyak's momentum c_k on top of Q-learning (the paper, 3.1), in the form of 4.2.

    b_k = 1/a - m - 2, c_k = a - b_k (1 - a), which with a = 1/(k+1) are the printed k-m-1 and (-k^2+(m+1)k+1)/(k+1).
    m: 2 unless given; the theorem wants m >= 1/discount.   shift: evaluates the step size at k + m, "auto" for m > 10,
    as the paper does (5.1), "on", "off". With linear features the paper's rule is `MomentumQLinear`.

    Raises SettingError for values that are not admissible.

    >>> rule = mq.MomentumQ(m=3)
    >>> rule.weights(1, 2).tolist(), rule.warnings(discount=0.2)
    ([[1.0, -0.5, -1.0, 1.5]], ['m=3 is below 1/discount=5: outside the theorem'])
    """

    m: float | None = None
    shift: Literal["auto", "on", "off"] | bool = "auto"

    def __post_init__(self) -> None:
        if self.m is not None and finite_number(self.m) is None:
            expected = "must be a finite number, or null for 2 (the theorem wants m >= 1/discount)"
            raise SettingError("algorithm.m", self.m, expected)
        if self.shift not in ("auto", "on", "off", True, False):
            hint = nearest(str(self.shift), ("auto", "on", "off"))
            raise SettingError("algorithm.shift", self.shift, f"must be auto, on or off{hint}")
        if self.shifted and self.order <= -1:
            raise SettingError("algorithm.m", self.m, "must be above -1 when the step size is shifted by m")

    @property
    def order(self) -> float:
        """The hyperparameter m."""
        return 2.0 if self.m is None else self.m

    @property
    def shifted(self) -> bool:
        """Whether the step size is evaluated at k + m."""
        return self.order > 10 if self.shift == "auto" else self.shift in ("on", True)

    def effective(self, discount: float) -> dict[str, Any]:
        return {"m": self.order, "shift": "on" if self.shifted else "off"}

    def warnings(self, discount: float) -> list[str]:
        if self.order < 1 / discount:
            return [f"m={self.order:g} is below 1/discount={1 / discount:.4g}: outside the theorem"]
        return []

    def update(self, k: np.ndarray, q: Any, q_prev: Any, target: Any, target_prev: Any) -> Any:
        m = self.order
        a = self.step_size(k + m if self.shifted else k)
        # a (1 + b) = 1 - (m + 1) a and b (1 - a) + c = a: written out, since b grows like k and would cost k eps.
        return (1 - a) * q + a * (q - q_prev) + (1 - (m + 1) * a) * target - (1 - (m + 2) * a) * target_prev
