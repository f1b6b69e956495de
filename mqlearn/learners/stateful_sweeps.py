"""The learner of rules with state of their own of which every iteration samples all pairs."""

import copy
from typing import Any, Self

import numpy as np

from mqlearn.algorithms.stateful import Stateful
from mqlearn.learners.initial import Initial
from mqlearn.learners.operators import BELLMAN, BoundOperator
from mqlearn.learners.stateful import StatefulLearner
from mqlearn.problems.mdp import FiniteMDP
from mqlearn.sampling.tables import digits_of_words, outcome_tables
from mqlearn.stateful.module import compiled_step
from mqlearn.stateful.reference import Sweep

_COUNTERS = 64  # of random words that are made at a time


class SynchronousStateful(StatefulLearner):
    """Every iteration samples all pairs, with the words of `learners.SynchronousTable`."""

    def __init__(
        self,
        rule: Stateful,
        mdp: FiniteMDP,
        lanes: np.ndarray,
        seed: int,
        initial: Initial,
        mean_reward: bool,
        operator: BoundOperator = BELLMAN,
    ) -> None:
        super().__init__(rule, mdp, None, lanes, seed, initial, operator)
        self.lanes = lanes
        self.model: Any = sweep_model(mdp, mean_reward)
        made = rule, "synchronous", self.layout, "sweeps", operator.operator
        self.compiled = compiled_step(*made) if rule.compiled else None

    def chain_state(self) -> None:
        return None

    def advance(self, k: int, n: int, weights: np.ndarray) -> None:
        self.k: int = k + n
        if self.compiled is not None:
            place = self.mdp.discount, k, n, self.lanes, self.seed, self.operator.compiled
            self.compiled(self.z, self.others, self.model, weights[:n], *place)
            return
        for row, lane in enumerate(self.lanes.tolist()):
            z = self.of_seed(row)
            for i, c in enumerate(self._numbers(weights[:n])):
                self.rule.step(z, self._sample(k + i, lane), c)
                self._clip(z)
                self._sum(row)

    def _sample(self, k: int, lane: int) -> Sweep:
        y, r = self._draw(k, lane, "synchronous", 0)
        drawn = [(y, r), *(self._draw(k, lane, "batch", draw) for draw in range(1, self.rule.batch))]
        rewards = np.stack([r for _, r in drawn])
        second = np.stack([self._draw(k, lane, "again", draw)[0] for draw in range(self.rule.batch)])
        again = Sweep(self.pairs, rewards, second)
        return Sweep(self.pairs, rewards, np.stack([y for y, _ in drawn]), self._uniform(k, lane), again)

    def _draw(self, k: int, lane: int, stream: str, draw: int) -> tuple[np.ndarray, np.ndarray]:
        """Successors and rewards (n,) of draw number `draw` of a stream."""
        from mqlearn import kernels

        each = len(self.model.counters) // self.model.steps
        y, r = np.empty(len(self.mdp.pairs), np.uint32), np.empty(len(self.mdp.pairs))
        kernels.sweep_once(
            self.model, draw * each, k, np.uint32(lane), self.seed, np.uint32(kernels.STREAMS[stream]), y, r
        )
        return y, r

    def copy(self) -> Self:
        other = copy.copy(self)
        self._copy_state(other)
        return other

    def keep(self, mask: np.ndarray) -> None:
        self.lanes = self.lanes[mask]
        self._keep_state(mask)


def sweep_model(mdp: FiniteMDP, mean_reward: bool) -> Any:
    """The model as `kernels.sweep` reads it, over the learned pairs."""
    from mqlearn import kernels
    from mqlearn.kernels.successors import DIGITS

    y, r, edges = outcome_tables(mdp, mean_reward)
    reuse, base = digits_of_words(mdp)
    reuse = max(1, reuse)
    each = -(-len(y) // (4 * reuse))
    steps = max(1, _COUNTERS // each)
    powers = np.zeros(DIGITS, np.uint32)
    powers[:reuse] = [pow(base, digit, 2**32) for digit in range(reuse)]
    n_pairs = np.diff(mdp.pair_offsets)
    fours = np.flatnonzero(n_pairs) if set(n_pairs.tolist()) <= {0, 4} else np.zeros(0)
    return kernels.SweepModel(
        mdp.pair_offsets.astype(np.uint64),
        *(np.ascontiguousarray(part.T) for part in (y, r, edges)),
        fours=fours.astype(np.uint64),
        reuse=np.uint64(reuse),
        powers=powers,
        room=len(y) if reuse == 1 else (4 * each - 1) * reuse + DIGITS,
        counters=np.tile(np.arange(each, dtype=np.uint64), steps),
        ahead=np.repeat(np.arange(steps, dtype=np.uint64), each),
        steps=steps,
        alike=bool((r == r[:, :1]).all()),
    )
