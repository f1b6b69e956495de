"""Rules of four numbers as rules with state of their own: for minibatches, and for averages of tables."""

from typing import Any, ClassVar

import numpy as np

from mqlearn.algorithms.rule import Rule
from mqlearn.algorithms.stateful import Stateful


class FourNumbers(Stateful):
    """p Q_k + q Q_{k-1} + s T_k Q_k + t T_k Q_{k-1} for tables, of any rule of the family."""

    modes: ClassVar[tuple[str, ...]] = ("synchronous", "asynchronous")

    def __init__(self, rule: Rule) -> None:
        self.rule, self.step_size = rule, rule.step_size

    def init(self, q0: np.ndarray) -> dict[str, Any]:
        return {"q": q0, "last": q0.copy()}

    def numbers(self, k: np.ndarray) -> dict[str, Any]:
        return dict(zip("pqst", [self.rule.update(k, *unit) + 0 * k for unit in np.eye(4)], strict=True))

    def step(self, z: Any, s: Any, c: Any) -> None:
        change = (c.p - 1) * s.value(z.q) + c.q * s.value(z.last) + c.s * s.target(z.q) + c.t * s.target(z.last)
        s.follow(z.last, z.q)
        s.add(z.q, change)

    def warnings(self, discount: float) -> list[str]:
        return self.rule.warnings(discount)


class FourNumbersLinear(FourNumbers):
    """theta_{k+1} = theta_k + v_{k+1}, v_{k+1} = beta_k v_k - s_k g_k - t_k g_{k-1}, beta = -(q + t), for features.

    same_sample, zero_first: how g_{k-1} and g_{-1} are read, see `mqlearn.Linear`.
    """

    modes: ClassVar[tuple[str, ...]] = ("linear",)

    def __init__(self, rule: Rule, same_sample: bool, zero_first: bool) -> None:
        super().__init__(rule)
        self.same_sample, self.zero_first = same_sample, zero_first

    def init(self, q0: np.ndarray) -> dict[str, Any]:
        zero = np.zeros_like(q0)
        return {"theta": q0, "v": zero, "g": zero.copy(), "before": zero.copy()}

    def numbers(self, k: np.ndarray) -> dict[str, Any]:
        made: dict[str, Any] = super().numbers(k)
        return {"beta": -(made["q"] + made["t"]), "s": made["s"], "t": made["t"], "first": k == 0}

    def step(self, z: Any, s: Any, c: Any) -> None:
        if self.same_sample:
            z.before[:] = z.theta - z.v
            z.g[:] = 0.0
            s.add(z.g, s.value(z.before) - s.target(z.before))
        z.v[:] = c.beta * z.v - c.t * z.g
        z.before[:] = 0.0
        s.add(z.before, s.value(z.theta) - s.target(z.theta))
        if c.first and not self.zero_first and not self.same_sample:
            z.v[:] -= c.t * z.before
        z.v[:] -= c.s * z.before
        z.g[:] = z.before
        z.theta[:] += z.v
