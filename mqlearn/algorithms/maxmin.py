"""Maxmin Q-learning (Lan, Pan, Fyshe, White 2020, "Maxmin Q-learning: controlling the estimation bias")."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mqlearn.algorithms.stateful import Stateful
from mqlearn.algorithms.step_sizes import RescaledLinear, StepSize
from mqlearn.checks import check_int, within

_MOST = 8  # tables, the paper's most


@dataclass(frozen=True)
class Maxmin(Stateful):
    """N tables, one of which, at random, moves: Q_i += a (r + g max_v min_j Q_j(y, v) - Q_i).

    Measured and acting: min_j Q_j. One is Q-learning; the more tables, the lower the estimate of the max. With
    synchronous sampling the choice of the table is one for all pairs.

    a = min(1, factor alpha_k), k the iteration; `factor` null stands for N, so that each table moves as far as
    Q-learning's does; the paper has 1, with a constant step of .01, and draws each table's start from N(0, .01). `n`:
    N, from 1 to 8.

    Raises SettingError for values that are not admissible.
    """

    n: int = 2
    factor: float | None = None
    draws_own = True
    modes: ClassVar[tuple[str, ...]] = ("synchronous", "asynchronous")

    def __post_init__(self) -> None:
        check_int("algorithm.n", self.n, 1, _MOST)
        if self.factor is not None:
            within("algorithm.factor", self.factor, 0.0)

    def own_step_size(self, discount: float) -> StepSize:
        return RescaledLinear(discount)

    def effective(self, discount: float) -> dict[str, Any]:
        return {"factor": float(self.n) if self.factor is None else self.factor}

    def init(self, q0: np.ndarray) -> dict[str, Any]:
        tables = {f"q{j}": q0.copy() for j in range(_MOST)}
        return {"least": q0, **tables}

    def numbers(self, k: np.ndarray) -> dict[str, Any]:
        factor = self.effective(self.discount)["factor"]
        return {"alpha": np.minimum(1.0, factor * self.alpha(k)), "n": self.n}

    def step(self, z: Any, s: Any, c: Any) -> None:
        target = s.target(z.least)
        j = s.uniform[0] * c.n
        if j < 1:
            s.move(z.q0, target, c.alpha)
        elif j < 2:
            s.move(z.q1, target, c.alpha)
        elif j < 3:
            s.move(z.q2, target, c.alpha)
        elif j < 4:
            s.move(z.q3, target, c.alpha)
        elif j < 5:
            s.move(z.q4, target, c.alpha)
        elif j < 6:
            s.move(z.q5, target, c.alpha)
        elif j < 7:
            s.move(z.q6, target, c.alpha)
        else:
            s.move(z.q7, target, c.alpha)
        least = s.value(z.q0)
        if c.n > 1:
            least = np.minimum(least, s.value(z.q1))
        if c.n > 2:
            least = np.minimum(least, s.value(z.q2))
        if c.n > 3:
            least = np.minimum(least, s.value(z.q3))
        if c.n > 4:
            least = np.minimum(least, s.value(z.q4))
        if c.n > 5:
            least = np.minimum(least, s.value(z.q5))
        if c.n > 6:
            least = np.minimum(least, s.value(z.q6))
        if c.n > 7:
            least = np.minimum(least, s.value(z.q7))
        s.add(z.least, least - s.value(z.least))

    def warnings(self, discount: float) -> list[str]:
        factor = self.effective(discount)["factor"]
        if factor < self.n:
            return [
                f"factor={factor:g}: each of {self.n} tables moves {factor / self.n:.3g} times as far as Q-learning's"
            ]
        return []
