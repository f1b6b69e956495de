"""Q-learning (Watkins 1989; the paper, 2.2): a running mean of sampled targets."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mqlearn.algorithms.rule import Rule


@dataclass(frozen=True)
class QLearning(Rule):
    """Q_{k+1} = (1 - a) Q_k + a T_k Q_k.

    The four numbers of iteration k are (1 - a, 0, a, 0), with a the step size alpha_k.

    >>> mq.QLearning().weights(0, 2).tolist()
    [[0.0, 0.0, 1.0, 0.0], [0.5, 0.0, 0.5, 0.0]]
    """

    def update(self, k: np.ndarray, q: Any, q_prev: Any, target: Any, target_prev: Any) -> Any:
        a = self.step_size(k)
        return (1 - a) * q + a * target
