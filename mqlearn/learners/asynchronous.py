"""Tables that learn from one transition an iteration: the visited pair moves, or all pairs move in rounds."""

import numpy as np

from mqlearn.learners.initial import Initial, initial_values
from mqlearn.learners.learner import FourNumbersLearner
from mqlearn.learners.operators import BELLMAN, BoundOperator
from mqlearn.learners.sources import FromSamples, OnChain
from mqlearn.problems.mdp import table_of_pairs
from mqlearn.sampling.chains import Chain, Samples


class _Tables(FourNumbersLearner):
    """Tables q (L, pairs) of the seeds of a chain. Abstract."""

    chain: Chain
    q: np.ndarray
    operator: BoundOperator

    def tables(self) -> np.ndarray:
        return table_of_pairs(self.chain.mdp, self.q)

    def largest(self) -> np.ndarray:
        return np.abs(self.q).max(axis=1)


class _VisitedPairTables(_Tables):
    """Tables of which the visited pair moves: the four numbers at that pair, Q_{k-1} the previous table. Abstract.

    last (L, 2): the pair at which Q_{k-1} differs from Q_k, and what it holds there.   counts (L, pairs): visits, for
    the local clock; with that of the state they stand at its first pair, by `firsts`.
    """

    arrays: tuple[str, ...] = ("q", "last", "counts")

    def _begin(self, initial: Initial, clock: str, operator: BoundOperator) -> None:
        self.local, self.operator = clock in ("local", "state"), operator
        mdp = self.chain.mdp
        self.firsts = mdp.pair_offsets[mdp.pairs[:, 0]].astype(np.uint64) if clock == "state" else None
        self.q = initial_values(len(self.chain.mdp.pairs), initial, self.chain.lanes, int(self.chain.seed))
        self.last = np.stack([np.zeros(len(self.q)), self.q[:, 0]], axis=1)
        self.counts: np.ndarray = np.zeros(self.q.shape, np.int64)

    def rows(self, k: int, n: int) -> tuple[int, int]:
        return (0, int(self.counts.max()) + n) if self.local else (k, k + n)


class AsynchronousTable(_VisitedPairTables, OnChain):
    """Tables of which the visited pair moves, on chains of their own."""

    def __init__(self, chain: Chain, initial: Initial, clock: str, operator: BoundOperator = BELLMAN) -> None:
        self.chain = chain
        self._begin(initial, clock, operator)

    def advance(self, k: int, n: int, weights: np.ndarray) -> None:
        from mqlearn import kernels

        c = self.chain
        tables = kernels.Tables(self.q, self.last, self.counts)
        kernels.asynchronous_table(
            tables, c.model, c.tables, c.walks, weights, self.local, c.mdp.discount, k, n, self.operator.compiled,
            self.firsts,
        )  # fmt: skip


class SharedTable(_VisitedPairTables, FromSamples):
    """`AsynchronousTable` from samples that rules share."""

    def __init__(self, samples: Samples, initial: Initial, clock: str, operator: BoundOperator = BELLMAN) -> None:
        FromSamples.__init__(self, samples)
        self._begin(initial, clock, operator)

    def advance(self, k: int, n: int, weights: np.ndarray) -> None:
        from mqlearn import kernels

        drawn = self.samples.block(k, n, self.places)
        tables = kernels.Tables(self.q, self.last, self.counts)
        kernels.table_from_samples(
            tables, self.chain.model, drawn, weights, self.local, self.chain.mdp.discount, self.operator.compiled,
            self.firsts,
        )  # fmt: skip
        self.k: int = k + n


class RoundsTable(_Tables, OnChain):
    """Tables that move in rounds, when every reachable pair has been visited (Azar et al. 2011, asynchronous)."""

    arrays: tuple[str, ...] = ("q", "q_prev", "sums", "counts", "rounds")

    def __init__(self, chain: Chain, initial: Initial, operator: BoundOperator = BELLMAN) -> None:
        self.chain, self.operator = chain, operator
        self.q = initial_values(len(chain.mdp.pairs), initial, chain.lanes, int(chain.seed))
        self.q_prev: np.ndarray = self.q.copy()
        self.sums = np.zeros((len(self.q), 2, self.q.shape[1]))
        self.counts: np.ndarray = np.zeros(self.q.shape, np.int64)
        x, u = chain.mdp.pairs.T
        self.wanted: np.ndarray = chain.mdp.counted[x, u]
        self.rounds = np.tile(np.array([0, self.wanted.sum()], np.int64), (len(self.q), 1))

    def rows(self, k: int, n: int) -> tuple[int, int]:
        return 0, int(self.rounds[:, 0].max()) + n // max(1, int(self.wanted.sum())) + 2

    def advance(self, k: int, n: int, weights: np.ndarray) -> None:
        from mqlearn import kernels

        c = self.chain
        tables = kernels.Rounds(self.q, self.q_prev, self.sums, self.counts, self.rounds)
        kernels.asynchronous_rounds(
            tables, self.wanted, c.model, c.tables, c.walks, weights, c.mdp.discount, k, n, self.operator.compiled
        )  # fmt: skip
