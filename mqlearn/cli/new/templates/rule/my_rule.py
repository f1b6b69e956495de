"""A rule of four numbers: its equation, written once."""

from dataclasses import dataclass

import mqlearn as mq


@dataclass(frozen=True)
class MyRule(mq.Rule):
    """Q-learning plus a share of the last move.

    Q_{k+1} = (1 - a_k) Q_k + a_k T_k Q_k + beta (Q_k - Q_{k-1})
    """

    beta: float = 0.1  # on the command line: algorithm.beta=0.2

    def own_step_size(self, discount):
        return mq.RescaledLinear(discount)

    def update(self, k, q, q_prev, target, target_prev):
        a = self.step_size(k)
        return (1 - a) * q + a * target + self.beta * (q - q_prev)
