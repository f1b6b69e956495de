"""Double Q-learning (van Hasselt 2010, "Double Q-learning"; the paper, 1.1; the rule of 2010 from memory)."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from mqlearn.algorithms.stateful import Stateful
from mqlearn.algorithms.step_sizes import RescaledLinear, StepSize
from mqlearn.checks import choice, within

_OF_CLOCK = {"global": ("factor", "step_size"), "own": ("exponent",)}


@dataclass(frozen=True)
class DoubleQ(Stateful):
    """Two tables A and B, and a coin an iteration: heads A += a (r + g B(y, argmax A(y, .)) - A), tails exchanged.

    Measured and acting: (A + B)/2. With synchronous sampling the coin is one for the whole table.

    `clock` "global": a = min(1, factor alpha_k). Each table moves every second time, so factor 2 makes up for it:
    in the limit, double Q with a is Q-learning with a/2. `clock` "own": a = n^-exponent, n the times that this table
    has moved at this pair (2010: exponent 0.8, or 1); not with linear features.

    Raises SettingError for values that are not admissible.
    """

    clock: Literal["global", "own"] = "global"
    factor: float = 2.0
    exponent: float = 0.8
    draws_own = True

    def __post_init__(self) -> None:
        choice("algorithm.clock", self.clock, ("global", "own"))
        within("algorithm.factor", self.factor, 0.0)
        within("algorithm.exponent", self.exponent, 0.0, 1.0, ends="(]")

    @property
    def modes(self):
        return ("synchronous", "asynchronous") + (("linear",) if self.clock == "global" else ())

    def own_step_size(self, discount: float) -> StepSize:
        return RescaledLinear(discount)

    def init(self, q0: np.ndarray) -> dict[str, Any]:
        return {"a": q0, "b": q0.copy(), "moves_a": np.zeros_like(q0), "moves_b": np.zeros_like(q0)}

    def numbers(self, k: np.ndarray) -> dict[str, Any]:
        alpha = np.minimum(1.0, self.factor * self.alpha(k))
        return {"alpha": alpha, "own": self.clock == "own", "exponent": self.exponent}

    def step(self, z: Any, s: Any, c: Any) -> None:
        a, b, moves = (z.a, z.b, z.moves_a) if s.uniform[0] < 0.5 else (z.b, z.a, z.moves_b)
        if c.own:
            s.add(moves, 1.0)
            s.move(a, s.target(b, a), s.value(moves) ** -c.exponent)
        else:
            s.move(a, s.target(b, a), c.alpha)

    def estimate(self, z: Any) -> Any:
        return (z.a + z.b) / 2

    def without_effect(self) -> dict[str, str]:
        return dict.fromkeys(_OF_CLOCK["own" if self.clock == "global" else "global"], f"clock is {self.clock}")

    def warnings(self, discount: float) -> list[str]:
        if self.clock == "own" and self.exponent == 1:
            return ["step size 1/n: as slow as Q-learning with harmonic steps, 1/(1 - discount) times the iterations"]
        if self.clock == "global" and self.factor < 2:
            return [f"factor={self.factor:g}: in the limit Q-learning with {self.factor / 2:g} times the step size"]
        return []
