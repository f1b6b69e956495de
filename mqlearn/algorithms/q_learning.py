"""Q-learning (Watkins 1989; the paper, 2.2): a running mean of sampled targets."""

from dataclasses import dataclass

from mqlearn.algorithms.rule import Rule


@dataclass(frozen=True)
class QLearning(Rule):
    """Q_{k+1} = (1 - a) Q_k + a T_k Q_k."""

    def update(self, k, q, q_prev, target, target_prev):
        a = self.step_size(k)
        return (1 - a) * q + a * target
