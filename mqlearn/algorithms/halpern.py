"""Halpern's iteration for Q, anchored at the initial table (after Halpern 1967; both sampled forms are ours)."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mqlearn.algorithms.rule import Rule
from mqlearn.algorithms.stateful import Stateful
from mqlearn.algorithms.step_sizes import Harmonic, StepSize


@dataclass(frozen=True)
class Halpern(Rule):
    """The difference of Q_{k+1} = be_{k+1} Q_0 + (1 - be_{k+1}) T_k Q_k and of the same at k, with one sample in both.

    Q_{k+1} = rho Q_k + (1 - be_{k+1}) T_k Q_k - rho (1 - be_k) T_k Q_{k-1}, rho = be_{k+1}/be_k, after the first step
    Q_1 = be_1 Q_0 + (1 - be_1) T_0 Q_0. be_k is the step size, its own 1/(k + 1); it must fall like 1/k. With
    be_k = 1/k and Q_1 = T_0 Q_0 this is SpeedyQ.
    """

    def update(self, k: np.ndarray, q: Any, q_prev: Any, target: Any, target_prev: Any) -> Any:
        be, be_next = self.step_size(k), self.step_size(k + 1)
        rho = be_next / be
        first = be_next * q + (1 - be_next) * target
        return np.where(k == 0, first, rho * q + (1 - be_next) * target - rho * (1 - be) * target_prev)


@dataclass(frozen=True)
class HalpernDirect(Stateful):
    """Q_{k+1} = be_k Q_0 + (1 - be_k) T_k Q_k, be_k the step size, its own 1/(k + 2).

    Never converges with single draws, since nothing averages their noise: only with minibatches that grow.
    """

    modes: ClassVar[tuple[str, ...]] = ("synchronous", "asynchronous")

    def own_step_size(self, discount: float) -> StepSize:
        return Harmonic(1.0)

    def init(self, q0: np.ndarray) -> dict[str, Any]:
        return {"q": q0, "start": q0.copy()}

    def step(self, z: Any, s: Any, c: Any) -> None:
        s.move(z.q, c.alpha * s.value(z.start) + (1 - c.alpha) * s.target(z.q), 1.0)

    def warnings(self, discount: float) -> list[str]:
        return ["never converges: nothing averages the noise of the draws; algorithm=halpern is the form that does"]
