"""Two-step Q-learning (Vijesh, Shreyas 2024, "Two-step Q-learning"; the equation is that of the authors' programs)."""

from dataclasses import dataclass

import numpy as np

from mqlearn.algorithms.stateful import Stateful
from mqlearn.algorithms.step_sizes import Polynomial
from mqlearn.checks import finite, within


@dataclass(frozen=True)
class TwoStep(Stateful):
    """Q(x, u) += a (r + g [max_v Q(y, v) + th (r' + g max_v Q(y', v))] - Q(x, u)), r' and y' of the next transition.

    th_k = weight horizon/(k + 1 + horizon) of the pair's iteration k: it falls to 0, where the rule is Q-learning.
    Where y is terminal the target is r. A transition is learned from in the iteration after it. The authors' programs
    learn from every second transition alone, so that their iteration takes two; here each is learned from.

    weight: th_0 nearly, of either sign.   horizon: above 0. Raises SettingError for values that are not admissible.
    """

    weight: float = 1.0
    horizon: float = 1000.0
    needs = ("consecutive", "unbroken")
    modes = ("asynchronous",)

    def __post_init__(self) -> None:
        finite("algorithm.weight", self.weight)
        within("algorithm.horizon", self.horizon, 0.0)

    def own_step_size(self, discount):
        return Polynomial(exponent=0.501, offset=2)

    def init(self, q0):
        # trace: 1 at the pair before.   held: its reward, max at its successor, step size (0: none waits), and th.
        return {
            "q": q0, "trace": np.zeros_like(q0), "nothing": np.zeros_like(q0), "ones": np.ones_like(q0),
            "held": np.zeros((1, 4)),
        }  # fmt: skip

    def numbers(self, k):
        return {"alpha": self.alpha(k), "theta": self.weight * self.horizon / (k + 1 + self.horizon)}

    def step(self, z, s, c):
        target = z.held[0, 0] + s.discount * (z.held[0, 1] + z.held[0, 3] * s.target(z.q))
        z.q[:] += z.held[0, 2] * z.trace * (target - z.q)
        z.trace[:] = 0.0
        s.add(z.trace, 1.0)
        reward = s.target(z.nothing)
        if s.best(z.ones) > 0:
            z.held[0, 0] = reward
            z.held[0, 1] = s.best(z.q)
            z.held[0, 2] = c.alpha
            z.held[0, 3] = c.theta
        else:
            z.held[0, 2] = 0.0
            s.move(z.q, reward, c.alpha)

    def warnings(self, discount):
        most = discount * (1 + abs(self.weight) * discount)
        if most < 1:
            return []
        if discount == 1:
            return [f"no contraction at any iteration, undiscounted: 1 + |th| is at first {most:.4g}"]
        first = self.horizon * (abs(self.weight) * discount**2 / (1 - discount) - 1)
        return [f"no contraction before iteration {first:.0f}: discount (1 + |th| discount) is at first {most:.4g}"]
