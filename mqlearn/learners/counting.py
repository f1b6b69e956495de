"""Learners of certainty equivalence: they count samples, and plan on the counts when they are measured."""

from typing import Any, Self

import numpy as np

from mqlearn.learners.initial import Initial, initial_values
from mqlearn.learners.learner import FourNumbersLearner
from mqlearn.learners.sources import FromSamples
from mqlearn.learners.stateful_sweeps import sweep_model
from mqlearn.problems.mdp import FiniteMDP, table_of_pairs
from mqlearn.problems.solvers import ConvergenceError
from mqlearn.sampling.chains import copied, drop_lanes
from mqlearn.sampling.tables import transition_model

_ACCURATE = 1e-6  # of the largest value: what Q* too must be known to


class _Plans(FourNumbersLearner):
    """Counts (L, pairs, B) of the outcomes of each pair, and the plan q (L, pairs) on them. Abstract.

    q0: (L, pairs).   policy: (L, states), the pairs that the last plan takes, where the next one begins.   bounds: (L,)
    the largest certified error of any plan so far.
    """

    arrays: tuple[str, ...] = ("counts", "q", "q0", "policy", "bounds")
    k = 0

    def _begin(self, mdp: FiniteMDP, model: Any, lanes: np.ndarray, seed: int, initial: Initial) -> None:
        self._mdp, self._model, self._planned = mdp, model, -1
        n = len(mdp.pairs)
        self.q0: np.ndarray = initial_values(n, initial, lanes, seed)
        self.q: np.ndarray = self.q0.copy()
        self.counts: np.ndarray = np.zeros((len(lanes), n, model.successors.shape[1]), np.int64)
        self.policy: np.ndarray = np.tile(np.minimum(mdp.pair_offsets[:-1], n - 1).astype(np.int64), (len(lanes), 1))
        self.bounds = np.zeros(len(lanes))

    def rows(self, k: int, n: int) -> tuple[int, int]:
        return k, k + n

    def tables(self) -> np.ndarray:
        if self._planned != self.k:
            from mqlearn import kernels

            errors = kernels.plans(self.q, self.policy, self.counts, self.q0, self._model, self._mdp.discount)
            scale = max(float(np.abs(self.q).max()), float(np.abs(self._model.rewards).max()))
            if not (errors <= _ACCURATE * scale).all():
                raise ConvergenceError(f"a plan on {self._mdp.name} is wrong by as much as {errors.max():.3g}")
            self.bounds: np.ndarray = np.maximum(self.bounds, errors)
            self._planned = self.k
        return table_of_pairs(self._mdp, self.q)

    def largest(self) -> np.ndarray:
        return np.abs(self.q).max(axis=1)


class SynchronousPlans(_Plans):
    """Every iteration draws all pairs, with the words of `learners.SynchronousTable`."""

    def __init__(self, mdp: FiniteMDP, lanes: np.ndarray, seed: int, initial: Initial, mean_reward: bool) -> None:
        self.lanes, self.seed = lanes, np.uint32(seed)
        self._sweeps = sweep_model(mdp, mean_reward)
        self._begin(mdp, transition_model(mdp, mean_reward), lanes, seed, initial)

    def advance(self, k: int, n: int, weights: np.ndarray) -> None:
        from mqlearn import kernels

        stream = np.uint32(kernels.STREAMS["synchronous"])
        kernels.count_sweeps(self.counts, self._sweeps, n, k, self.lanes, self.seed, stream)
        self.k: int = k + n

    def chain_state(self) -> None:
        return None

    def copy(self) -> Self:
        return copied(self)

    def keep(self, mask: np.ndarray) -> None:
        self.lanes: np.ndarray = self.lanes[mask]
        drop_lanes(self, mask)


class SampledPlans(FromSamples, _Plans):
    """From samples that other learners may share, `chains.Samples` or `recorded.RecordedSamples`.

    drawn: (L, capacity) of a buffer, what was drawn of it, see `kernels.first_draws`.
    """

    arrays: tuple[str, ...] = (*_Plans.arrays, "drawn")

    def __init__(self, samples: Any, sampling: Any, initial: Initial) -> None:
        FromSamples.__init__(self, samples)
        self._sampling, chain = sampling, samples.chain
        self._begin(chain.mdp, chain.model, chain.lanes, int(chain.seed), initial)
        self.drawn: np.ndarray = np.zeros((len(chain.lanes), sampling.capacity), np.int64)

    def advance(self, k: int, n: int, weights: np.ndarray) -> None:
        from mqlearn import kernels

        counted = self._counted(k, n)
        kernels.count_samples(self.counts, self.samples.block(k, n, self.places), counted, self._model.shift)
        self.k: int = k + n

    def _counted(self, k: int, n: int) -> np.ndarray:
        """(L, n) uint8: whether the samples of iterations k .. k + n - 1 are other ones than all before."""
        counted, sampling = np.ones((len(self.places), n), np.uint8), self._sampling
        if sampling.capacity:
            from mqlearn import kernels

            first, stream = np.int64(sampling.warm_up), np.uint32(kernels.STREAMS["choices"])
            place = first, sampling.draws, k, self.lanes, self.chain.seed, stream
            kernels.first_draws(self.drawn, *place, counted)
        elif sampling.recorded:
            counted[:, max(0, len(sampling) - k) :] = 0
        return counted
