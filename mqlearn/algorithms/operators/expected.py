"""The value under exploration."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mqlearn.algorithms.operators.operator import Operator
from mqlearn.checks import within


@dataclass(frozen=True)
class Expected(Operator):
    """The value of the epsilon-greedy policy in place of the max (expected Sarsa; Sutton, Barto 2018, 6.6):

        r + g ((1 - epsilon) max_v Q(y, v) + epsilon mean_v Q(y, v)),   the mean over the admissible actions

    Fixed point: Q of the best epsilon-greedy policy, below Q*; with epsilon 1 that of the uniform policy. It contracts
    by g; undiscounted by no number that is known. `algorithm=expected_sarsa` takes the epsilon of the run's behaviour.

    epsilon: in [0, 1]. Raises SettingError.
    """

    epsilon: float = 0.1
    with_features: ClassVar[bool] = True
    needs_discount: ClassVar[bool] = False  # its policies try all actions, and so end where some policy does
    fixed_point: ClassVar[str] = "Q of the best epsilon-greedy policy"

    def __post_init__(self) -> None:
        within("operator.epsilon", self.epsilon, 0.0, 1.0, ends="[]")

    def value(self, q, by):
        return (1 - self.epsilon) * q[by.argmax()] + self.epsilon * q.mean()

    def slopes(self, q):
        slopes = np.full(len(q), self.epsilon / len(q))
        slopes[q.argmax()] += 1 - self.epsilon
        return slopes

    def to_optimum(self, q, v, mean, discount):
        return None if self.epsilon else q
