"""Zap Q-learning (Devraj and Meyn 2017, "Zap Q-learning"; the paper, 1.1): Newton-Raphson with an estimated gain."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mqlearn.algorithms.stateful import MODES, Stateful
from mqlearn.checks import check_int, within
from mqlearn.linear_solves import inverse, move_inverse, solve


@dataclass(frozen=True)
class Zap(Stateful):
    """A += gamma_k (A_k - A), then Q -= alpha_k A^-1 psi d, with the new A; A_k = psi (g psi(y, greedy) - psi)'.

    d = r + g max Q(y, .) - Q(x, u); psi is the unit vector of the visited pair, or its features. With synchronous
    sampling A_k = g P_k S - I is the mean matrix of all pairs, S the greedy choice, and psi d the vector of all d.

    A_0 = -start I and gamma_k = (k + shift)^-rho; the authors use 10 and rho = 0.85, alpha_k = 1/(k + 1). shift = 2
    keeps some weight on A_0: with shift = 1 the first A is A_1 alone, of rank one unless sampling is synchronous, where
    start = shift = 1 will do and A is never singular. With linear features nothing guarantees that A can be inverted:
    `ridge` moves each A_k by -ridge I. The state has n^2 numbers.

    With one transition a step A_k has rank one, and A^-1 follows it in n^2 operations (Sherman and Morrison). Rounding
    errors are removed by inverting A anew every `refactor` steps, in n^3, and where one update would lose digits; then
    tables are those of a linear solve in each step but for rounding. refactor = 0 is that solve, which every run had
    before there was a choice; synchronous sampling and a ridge, which move all of A, have it whatever is set.

    From a Q_0 that ties, such as 0, values that are equal in exact arithmetic differ by the rounding of a step. That
    decides which action is greedy, and so A_k: another right program may go another way from there, and part from this
    one by as much as the error itself. From random starts, q0=[low,high], the two agree.

    Raises SettingError for values that are not admissible.
    """

    rho: float = 0.85
    start: float = 10.0
    shift: float = 2.0
    ridge: float = 0.0
    refactor: int = 256
    rounds_ties = True

    def __post_init__(self) -> None:
        within("algorithm.rho", self.rho, 0.0, 1.0, ends="[]")
        within("algorithm.start", self.start, 0.0)
        within("algorithm.shift", self.shift, 1.0, ends="[)")
        within("algorithm.ridge", self.ridge, 0.0, ends="[)")
        check_int("algorithm.refactor", self.refactor, 0)

    @property
    def modes(self):
        return MODES if self.shift > 1 else ("synchronous",)

    @property
    def inverts(self) -> bool:
        """Whether A^-1 is kept where a sample is one transition."""
        return self.refactor > 0 and self.ridge == 0 and self.shift > 1

    def init(self, q0: np.ndarray) -> dict[str, Any]:
        state = {"q": q0, "delta": np.zeros_like(q0), "gain": -self.start * np.eye(len(q0))}
        if not self.inverts:
            return state
        # A = diag(scale) gain: its decay is that of `scale`, so that rows which are not visited keep their size.
        more = {"scale": np.ones_like(q0), "slope": np.zeros_like(q0), "inverse": -np.eye(len(q0)) / self.start}
        return {**state, **more}

    def numbers(self, k: np.ndarray) -> dict[str, Any]:
        gamma = (k + self.shift) ** -self.rho
        told = {"alpha": self.alpha(k), "gamma": gamma, "ridge": self.ridge}
        # At first A moves by much, and `scale` too: until then it is inverted in each step.
        return told | ({"anew": ((k + 1) % self.refactor == 0) | (gamma > 0.2)} if self.inverts else {})

    def step(self, z: Any, s: Any, c: Any) -> None:
        if self.inverts and s.single:
            d = s.target(z.q) - s.value(z.q)
            z.delta[:] = 0.0
            s.add(z.delta, 1.0)
            z.slope[:] = 0.0
            s.add_gradient(z.slope, 1.0, 1.0, z.q)
            s.add(z.slope, -1.0)
            z.scale[:] *= 1 - c.gamma
            _move_gain(z.gain, z.inverse, z.scale, z.delta, z.slope, c.gamma, c.anew)
            _add_along(z.q, z.inverse, z.scale, z.delta, -c.alpha * d)
            return
        z.gain[:] *= 1 - c.gamma
        s.add_jacobian(z.gain, z.q, c.gamma)
        if c.ridge > 0:
            for i in range(len(z.q)):
                z.gain[i, i] -= c.gamma * c.ridge
        z.delta[:] = 0.0
        s.add(z.delta, s.target(z.q) - s.value(z.q))
        z.q[:] -= c.alpha * solve(z.gain, z.delta)

    def without_effect(self) -> dict[str, str]:
        none = {"start": "shift is 1, so that gamma_0 is 1 and A_0 has no weight"} if self.shift == 1 else {}
        solved = "with a ridge each step solves a system, since all of A moves"
        return none | ({"refactor": solved} if self.ridge > 0 else {})

    def warnings(self, discount: float) -> list[str]:
        if not 0.5 < self.rho < 1:
            return [f"rho={self.rho:g}: the theory of two time scales wants rho in (1/2, 1)"]
        return []


def _move_gain(
    gain: np.ndarray, b: np.ndarray, scale: np.ndarray, psi: np.ndarray, slope: np.ndarray, gamma: float, anew: float
) -> None:
    """A += gamma psi slope', A = diag(scale) gain; b, the inverse of gain, follows, or is made anew."""
    n = np.uint64(psi.shape[0])
    u = np.zeros(psi.shape[0])
    for i in range(n):
        if psi[i] != 0.0:
            u[i] = psi[i] / scale[i]
            for j in range(n):
                gain[i, j] += gamma * u[i] * slope[j]
    if anew > 0.0 or not move_inverse(b, gamma, u, slope):
        for i in range(n):  # rows of size 1, which suits the pivots
            largest = 0.0
            for j in range(n):
                largest = max(largest, abs(gain[i, j]))
            if largest > 0.0:
                scale[i] *= largest
                for j in range(n):
                    gain[i, j] /= largest
        b[:] = inverse(gain)


def _add_along(q: np.ndarray, b: np.ndarray, scale: np.ndarray, psi: np.ndarray, change: float) -> None:
    """q += change A^-1 psi, by the columns in which psi is not 0."""
    n = np.uint64(psi.shape[0])
    for j in range(n):
        if psi[j] != 0.0:
            x = change * (psi[j] / scale[j])
            for i in range(n):
                q[i] += x * b[i, j]
