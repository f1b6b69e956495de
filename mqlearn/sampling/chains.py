"""Sampling chains of seeds, and blocks of samples drawn from them, which rules share."""

import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from mqlearn.problems.mdp import FiniteMDP
from mqlearn.sampling.tables import chain_tables, transition_model

if TYPE_CHECKING:
    from mqlearn import kernels


def copied(learner: Any) -> Any:
    """A copy that shares nothing but what never changes; `arrays` names the arrays whose first axis is the seed."""
    other = copy.copy(learner)
    for name in learner.arrays:
        setattr(other, name, getattr(learner, name).copy())
    return other


def drop_lanes(learner: Any, mask: np.ndarray) -> None:
    """Keep the seeds of the mask (L,) in the arrays that `arrays` names."""
    for name in learner.arrays:
        setattr(learner, name, np.ascontiguousarray(getattr(learner, name)[mask]))


class Chain:
    """The sampling chains of L seeds, whose indices are `lanes` (L,) uint32, and what they have seen.

    states (L, 6): state, moves of this episode, steps, episodes ended, goals entered, transitions with a reward.
    buffers (L, capacity) uint64: transitions to replay.   visits (L, pairs): of each pair by the chain.
    """

    arrays: tuple[str, ...] = ("lanes", "states", "buffers", "visits")

    def __init__(self, mdp: FiniteMDP, sampling: Any, lanes: np.ndarray, seed: int, mean_reward: bool) -> None:
        from mqlearn import kernels

        self.mdp = mdp
        self.lanes = lanes
        self.seed = np.uint32(seed)
        mode = kernels.IID if sampling.independent else kernels.REPLAY if sampling.capacity else kernels.MARKOVIAN
        self.model = transition_model(mdp, mean_reward)
        self.tables = chain_tables(sampling, mdp, mode)
        self.streams = _streams("chain", "choices", "ties")
        self.states: np.ndarray = np.zeros((len(lanes), 6), np.int64)
        self.buffers: np.ndarray = np.zeros((len(lanes), max(1, sampling.capacity)), np.uint64)
        self.visits: np.ndarray = np.zeros((len(lanes), len(mdp.pairs)), np.int32)
        starts, keep, alias = self.tables.starts, self.tables.keep, self.tables.alias
        index, coin = uniform_words(2, lanes, seed, "warm_up_choices").astype(np.uint64).T
        drawn = (index * np.uint64(len(starts)) >> np.uint64(32)).astype(np.int64)
        self.states[:, 0] = np.where(coin < keep[drawn], starts[drawn], starts[alias[drawn]])
        if sampling.warm_up:
            # Every step of the warm-up is one of the chain, and what it draws from the buffer is not used.
            behaviour = kernels.UNIFORM if sampling.adaptive else self.tables.behaviour
            tables = self.tables._replace(period=1, behaviour=behaviour)
            walks = self.walks._replace(streams=_streams("warm_up", "warm_up_choices", "ties"))
            for k in range(0, sampling.warm_up, kernels.CHUNK):
                out = np.empty((len(lanes), min(kernels.CHUNK, sampling.warm_up - k)), np.uint64)
                kernels.samples(self.model, tables, walks, k, out)

    @property
    def walks(self) -> "kernels.Walks":
        """The chains as the kernels move them."""
        from mqlearn import kernels

        return kernels.Walks(self.states, self.buffers, self.visits, self.lanes, self.seed, self.streams)


class Samples:
    """The samples of chains, drawn a block of iterations at a time, once for all rules that learn from them.

    The behaviour must be non-adaptive. Samples are drawn for all seeds, also for those that no rule needs any more.
    """

    def __init__(self, chain: Chain) -> None:
        self.chain = chain
        self.first = self.k = 0  # what was drawn last: iterations first .. k - 1
        self._before = (chain.states, chain.visits)
        self._drawn = np.empty((len(chain.lanes), 0), np.uint64)

    def draw(self, n: int) -> None:
        """The next n iterations; the ones before are forgotten."""
        from mqlearn import kernels

        c = self.chain
        self._before = (c.states.copy(), c.visits.copy())
        self.first, self.k = self.k, self.k + n
        self._drawn = np.empty((len(c.lanes), n), np.uint64)
        kernels.samples(c.model, c.tables, c.walks, self.first, self._drawn)

    def block(self, k: int, n: int, rows: np.ndarray) -> np.ndarray:
        """(len(rows), n) samples of iterations k .. k + n - 1 of these seeds: of the last block, or of the next one."""
        if k == self.k:
            self.draw(n)
        begin = k - self.first
        if begin < 0 or begin + n > self._drawn.shape[1]:
            last = self.first + self._drawn.shape[1] - 1
            raise ValueError(f"iterations {k} .. {k + n - 1} were asked for, {self.first} .. {last} are there")
        if len(rows) == len(self._drawn) and n == self._drawn.shape[1]:
            return self._drawn
        return np.ascontiguousarray(self._drawn[rows, begin : begin + n])

    def forget(self) -> None:
        """Free the memory of the last block."""
        self._drawn = np.empty((len(self.chain.lanes), 0), np.uint64)

    def chain_state(self, k: int, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """`states` and `visits` of these seeds' chains before iteration k, in the last block or at its end."""
        from mqlearn import kernels

        c = self.chain
        if k == self.k:
            return c.states[rows], c.visits[rows]
        # Moved anew from the start of the block; where they go does not depend on what a buffer holds.
        states, visits = (part[rows] for part in self._before)
        buffers, out = np.zeros((len(rows), 1), np.uint64), np.empty((len(rows), k - self.first), np.uint64)
        walks = kernels.Walks(states, buffers, visits, c.lanes[rows], c.seed, c.streams)
        kernels.samples(c.model, c.tables, walks, self.first, out)
        return states, visits


def _streams(*names: str) -> "kernels.ChainStreams":
    from mqlearn import kernels

    return kernels.ChainStreams(*(np.uint32(kernels.STREAMS[name]) for name in names))


def stream_at(stream: str, k: int | None) -> np.uint32:
    """The number of a named stream, or of the one that replaces it at checkpoint k: each k below 2^24 has its own."""
    from mqlearn import kernels

    return np.uint32(kernels.STREAMS[stream] + (0 if k is None else (k + 1) % 2**24 << 8))


def uniform_words(n: int, lanes: np.ndarray, seed: int, stream: str, at: int | None = None) -> np.ndarray:
    """(L, n) uniform 32-bit words of a named stream (`stream_at`), at k = 2^40, which no iteration reaches."""
    from mqlearn import kernels

    blocks = -(-n // 4)
    counters, own = np.repeat(np.arange(blocks, dtype=np.uint64), len(lanes)), np.tile(lanes.astype(np.uint64), blocks)
    words = np.empty((4, blocks * len(lanes)), np.uint32)
    place = np.uint32(seed), stream_at(stream, at)
    kernels.philox_counters(counters, np.uint32(0), 1 << 40, own, *place, words)
    words = words.reshape(4, blocks, len(lanes)).swapaxes(0, 1).reshape(-1, len(lanes))
    return np.ascontiguousarray(words[:n].T)  # other layouts would compile the kernels anew
