"""Zap Q-learning (Devraj and Meyn 2017, "Zap Q-learning"; the paper, 1.1): Newton-Raphson with an estimated gain."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mqlearn.algorithms.stateful import MODES, Stateful
from mqlearn.checks import within
from mqlearn.linear_solves import solve


@dataclass(frozen=True)
class Zap(Stateful):
    """A += gamma_k (A_k - A), then Q -= alpha_k A^-1 psi d, with the new A; A_k = psi (g psi(y, greedy) - psi)'.

    d = r + g max Q(y, .) - Q(x, u); psi is the unit vector of the visited pair, or its features. With synchronous
    sampling A_k = g P_k S - I is the mean matrix of all pairs, S the greedy choice, and psi d the vector of all d.

    A_0 = -start I and gamma_k = (k + shift)^-rho; the authors use 10 and rho = 0.85, alpha_k = 1/(k + 1). shift = 2
    keeps some weight on A_0: with shift = 1 the first A is A_1 alone, of rank one unless sampling is synchronous, where
    start = shift = 1 will do and A is never singular. With linear features nothing guarantees that A can be inverted:
    `ridge` moves each A_k by -ridge I. The state has n^2 numbers, and a step is a linear solve.

    From a Q_0 that ties, such as 0, values that are equal in exact arithmetic differ by the rounding of the solve. That
    decides which action is greedy, and so A_k: another right program may go another way from there, and part from this
    one by as much as the error itself. From random starts, q0=[low,high], the two agree.

    Raises SettingError for values that are not admissible.
    """

    rho: float = 0.85
    start: float = 10.0
    shift: float = 2.0
    ridge: float = 0.0
    rounds_ties = True

    def __post_init__(self) -> None:
        within("algorithm.rho", self.rho, 0.0, 1.0, ends="[]")
        within("algorithm.start", self.start, 0.0)
        within("algorithm.shift", self.shift, 1.0, ends="[)")
        within("algorithm.ridge", self.ridge, 0.0, ends="[)")

    @property
    def modes(self):
        return MODES if self.shift > 1 else ("synchronous",)

    def init(self, q0: np.ndarray) -> dict[str, Any]:
        return {"q": q0, "delta": np.zeros_like(q0), "gain": -self.start * np.eye(len(q0))}

    def numbers(self, k: np.ndarray) -> dict[str, Any]:
        return {"alpha": self.alpha(k), "gamma": (k + self.shift) ** -self.rho, "ridge": self.ridge}

    def step(self, z: Any, s: Any, c: Any) -> None:
        z.gain[:] *= 1 - c.gamma
        s.add_jacobian(z.gain, z.q, c.gamma)
        if c.ridge > 0:
            for i in range(len(z.q)):
                z.gain[i, i] -= c.gamma * c.ridge
        z.delta[:] = 0.0
        s.add(z.delta, s.target(z.q) - s.value(z.q))
        z.q[:] -= c.alpha * solve(z.gain, z.delta)

    def without_effect(self) -> dict[str, str]:
        return {"start": "shift is 1, so that gamma_0 is 1 and A_0 has no weight"} if self.shift == 1 else {}

    def warnings(self, discount: float) -> list[str]:
        if not 0.5 < self.rho < 1:
            return [f"rho={self.rho:g}: the theory of two time scales wants rho in (1/2, 1)"]
        return []
