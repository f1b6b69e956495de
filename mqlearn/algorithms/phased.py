"""Phased Q-learning (Kearns and Singh 1999; from memory)."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mqlearn.algorithms.stateful import Stateful
from mqlearn.checks import check_int


@dataclass(frozen=True)
class Phased(Stateful):
    """In phase l every pair is drawn N_l times, and Q_{l+1} is the mean of the N_l targets r + g max Q_l(y, .).

    Measured and acting: the last finished table. `draws`: N_l of all phases (the source); null for phases that grow,
    N_l = ceil(first g^-2l), so that bias and noise fall together. There is no step size in it.

    Raises SettingError for values that are not admissible.
    """

    draws: int | None = None
    first: int = 10
    modes: ClassVar[tuple[str, ...]] = ("synchronous",)
    needs_discount = True  # phases would not grow

    def __post_init__(self) -> None:
        check_int("algorithm.draws", self.draws, 1, null="phases that grow")
        check_int("algorithm.first", self.first, 1)

    def init(self, q0: np.ndarray) -> dict[str, Any]:
        return {"q": q0, "total": np.zeros_like(q0)}

    def numbers(self, k: np.ndarray) -> dict[str, Any]:
        if self.draws is not None:
            return {"draws": self.draws, "ends": (k + 1) % self.draws == 0}
        sizes, last = [], 0
        while last <= k.max(initial=0):
            sizes.append(math.ceil(self.first * self.discount ** (-2 * len(sizes))))
            last += sizes[-1]
        phase = np.searchsorted(np.cumsum(sizes), k, side="right")
        return {"draws": np.array(sizes)[phase], "ends": np.cumsum(sizes)[phase] == k + 1}

    def step(self, z: Any, s: Any, c: Any) -> None:
        s.add(z.total, s.target(z.q))
        if c.ends:
            z.q[:] = z.total / c.draws
            z.total[:] = 0.0

    def without_effect(self) -> dict[str, str]:
        return {} if self.draws is None else {"first": "draws gives the length of all phases"}

    def warnings(self, discount: float) -> list[str]:
        if self.draws is not None:
            plateau = 1 / ((1 - discount) * math.sqrt(self.draws))
            return [f"phases of fixed length never converge: a plateau of order 1/((1-g) sqrt N) = {plateau:.3g} stays"]
        return []
