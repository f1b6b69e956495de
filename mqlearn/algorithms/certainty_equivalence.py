"""Certainty equivalence: count what samples led to, and plan on the counts as if they were the model.

Its sample complexity with a generative model is that of Azar, Munos, Kappen 2013 and of Agarwal, Kakade, Yang 2020
("model-based", "plug-in"; both from memory): minimax optimal, which plain Q-learning is not (Li et al. 2024).
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mqlearn.algorithms.stateful import Stateful


@dataclass(frozen=True)
class CertaintyEquivalence(Stateful):
    """Q = r + g P max Q, with P the shares of the outcomes and r the mean rewards that were seen of each pair.

    Measured is the exact fixed point of the counts so far, computed at checkpoints; between them it only counts. A pair
    that was never sampled keeps its Q_0. Under replay a transition counts once, however often it is drawn from the
    buffer, and so do recorded ones that are passed through again; those of a bootstrap count as often as they are
    drawn. It has no step size. It is the reference of how far any rule is from using its samples fully, with tables of
    at most 5,000 pairs; its time grows with the number of checkpoints.

    A run raises SettingError with features, with an operator other than Bellman's, with minibatches and means, under a
    behaviour that sees what is learned, and undiscounted.

    >>> lake = mq.frozen_lake("4x4")
    >>> both = mq.run_together(lake, [mq.CertaintyEquivalence(), mq.QLearning()], iterations=2000, n_seeds=5)
    >>> plan, learned = (result.curves["q_error"][:, -1].mean() for result in both)
    >>> bool(plan < learned)
    True
    """

    plans = True
    acts = False
    needs_discount = True  # in the model of few samples some policy may earn without end
    modes: ClassVar[tuple[str, ...]] = ("synchronous", "asynchronous")

    def numbers(self, k: np.ndarray) -> dict[str, Any]:
        return {}
