"""A rule with state of its own: what it remembers, and how one sample moves that."""

from dataclasses import dataclass

import mqlearn as mq


@dataclass(frozen=True)
class MyStateful(mq.Stateful):
    """Q-learning towards a slow copy of its table.

    Q(x, u) moves by a_k towards r + discount max_v S(y, v); then S(x, u) moves by `share` towards Q(x, u).
    """

    share: float = 0.5  # on the command line: algorithm.share=0.1

    def own_step_size(self, discount):
        return mq.RescaledLinear(discount)

    def init(self, q0):
        return {"q": q0, "slow": q0.copy()}

    def numbers(self, k):
        return {"alpha": self.alpha(k), "share": self.share}

    def step(self, z, s, c):
        s.move(z.q, s.target(z.slow), c.alpha)
        s.move(z.slow, s.value(z.q), c.share)
