"""By what the numbers of an iteration are looked up: the iteration, or the visits of its pair or of its state."""

from typing import Any

import numpy as np

from mqlearn.problems.mdp import FiniteMDP


class OnClock:
    """A learner from one transition an iteration that counts visits where `clock` is local or state. Abstract.

    counts: (L, pairs) int64, visits of each pair, or of its state, at the first pair of that: see `firsts` (pairs,)
    uint64. Without a count there are none.
    """

    mdp: FiniteMDP
    lanes: Any

    def begin_clock(self, clock: str) -> None:
        mdp, n = self.mdp, len(self.mdp.pairs)
        self.local = clock in ("local", "state")
        self.counts: np.ndarray = np.zeros((len(self.lanes), n if self.local else 0), np.int64)
        firsts = mdp.pair_offsets[mdp.pairs[:, 0]] if clock == "state" else np.arange(n)
        self.firsts: np.ndarray = firsts.astype(np.uint64)

    def rows(self, k: int, n: int) -> tuple[int, int]:
        return (0, int(self.counts.max(initial=0)) + n) if self.local else (k, k + n)

    def count(self, row: int, pair: int) -> int:
        """How often this pair, or its state, was visited before; now it is once more."""
        before = self.counts[row, self.firsts[pair]]
        self.counts[row, self.firsts[pair]] += 1
        return before

    @property
    def counting(self) -> tuple[np.ndarray, np.ndarray] | None:
        """As the compiled loops take it."""
        return (self.counts, self.firsts) if self.local else None
