"""Tables of which every pair moves in every iteration."""

from typing import TYPE_CHECKING, Self

import numpy as np

from mqlearn.learners.initial import Initial, initial_values
from mqlearn.learners.learner import FourNumbersLearner
from mqlearn.learners.operators import BELLMAN, BoundOperator
from mqlearn.problems.mdp import FiniteMDP, table_of_pairs
from mqlearn.sampling.chains import copied, drop_lanes
from mqlearn.sampling.tables import digits_of_words, outcome_tables

if TYPE_CHECKING:
    from mqlearn import kernels


class SynchronousTable(FourNumbersLearner):
    """One table a seed; every iteration draws a successor of every pair (the paper's Algorithm 1)."""

    arrays: tuple[str, ...] = ("lanes", "q", "q_prev")

    def __init__(
        self,
        mdp: FiniteMDP,
        lanes: np.ndarray,
        seed: int,
        initial: Initial,
        mean_reward: bool,
        operator: BoundOperator = BELLMAN,
    ) -> None:
        self.mdp = mdp
        self.lanes = lanes
        self.seed = np.uint32(seed)
        self.model = synchronous_model(mdp, mean_reward)
        self.operator = operator
        self.q: np.ndarray = initial_values(len(mdp.pairs), initial, lanes, seed)
        self.q_prev: np.ndarray = self.q.copy()

    def rows(self, k: int, n: int) -> tuple[int, int]:
        return k, k + n

    def advance(self, k: int, n: int, weights: np.ndarray) -> None:
        from mqlearn import kernels

        stream = np.uint32(kernels.STREAMS["synchronous"])
        discount = self.mdp.discount
        place = k, self.lanes, self.seed, stream
        kernels.synchronous(self.q, self.q_prev, self.model, weights[:n], discount, *place, self.operator.compiled)

    def tables(self) -> np.ndarray:
        return table_of_pairs(self.mdp, self.q)

    def largest(self) -> np.ndarray:
        return np.abs(self.q).max(axis=1)

    def chain_state(self) -> None:
        return None

    def copy(self) -> Self:
        return copied(self)

    def keep(self, mask: np.ndarray) -> None:
        drop_lanes(self, mask)


def synchronous_model(mdp: FiniteMDP, mean_reward: bool) -> "kernels.AllPairs":
    """The model as `kernels.synchronous` reads it, over the learned pairs."""
    from mqlearn import kernels

    y, r, edges = outcome_tables(mdp, mean_reward)
    reuse, base = digits_of_words(mdp)
    return kernels.AllPairs(mdp.pair_offsets.astype(np.uint64), y, r, edges, reuse, np.uint32(base))
