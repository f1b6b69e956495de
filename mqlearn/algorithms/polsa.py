"""PolSA, Polyak stochastic approximation (Devraj, Busic, Meyn 2019, eq. 4; the rule as it is generally known)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mqlearn.algorithms.stateful import Stateful
from mqlearn.checks import within
from mqlearn.linear_solves import times


@dataclass(frozen=True)
class PolSA(Stateful):
    """Matrix momentum: D <- (I + zeta A) D + zeta alpha_k psi d, Q += D, with the new A and D.

    A += gamma_k (A_k - A), A_0 = -I, gamma_k = (k + 1)^-rho; A_k and psi d as in Zap Q-learning, whose covariance this
    has in the limit without a solve: a step is one product, O(n^2). NeSA is this rule with A_k D in place of A D. It
    overshoots as NeSA does, shorter with a larger zeta; zeta = 1 is admissible with synchronous sampling, where I + A
    has a radius of at most the discount. With zeta = 1 rounding decides which of tied actions is greedy, as in Zap.

    Raises SettingError for values that are not admissible.
    """

    zeta: float = 0.1
    rho: float = 0.85
    acts = False  # its source learns from a behaviour that does not depend on what is learned

    def __post_init__(self) -> None:
        within("algorithm.zeta", self.zeta, 0.0)
        within("algorithm.rho", self.rho, 0.0, 1.0, ends="[]")

    @property
    def rounds_ties(self):  # with zeta = 1 the step is that of Newton's method, with its cancellations
        return self.zeta == 1

    def init(self, q0: np.ndarray) -> dict[str, Any]:
        return {"q": q0, "change": np.zeros_like(q0), "delta": np.zeros_like(q0), "gain": -np.eye(len(q0))}

    def numbers(self, k: np.ndarray) -> dict[str, Any]:
        return {"alpha": self.alpha(k), "gamma": (k + 1) ** -self.rho, "zeta": self.zeta}

    def step(self, z: Any, s: Any, c: Any) -> None:
        z.gain[:] *= 1 - c.gamma
        s.add_jacobian(z.gain, z.q, c.gamma)
        z.delta[:] = 0.0
        s.add(z.delta, c.zeta * c.alpha * (s.target(z.q) - s.value(z.q)))
        z.delta[:] += c.zeta * times(z.gain, z.change)
        z.change[:] += z.delta
        z.q[:] += z.change

    def warnings(self, discount: float) -> list[str]:
        if self.zeta > 1:
            return [f"zeta={self.zeta:g} is above 1: I + zeta A may have a radius above 1"]
        return []
