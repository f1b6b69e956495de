"""What every learner can do, whatever it learns from.

A learner holds some seeds of a run: what is learned of each, and how it moves from iteration k to k + n. All have the
same few methods, so that the loop knows nothing about sampling or features:

rows(k, n): the range of the weights' rows that iterations k .. k + n - 1 read;
advance(k, n, weights): those iterations, with these rows;   tables(): (L, S, A) estimates of Q*, measured;
acting_tables(): (L, S, A), of which greedy actions are taken, None if of `tables()`;
average_tables(): (L, S, A), mean of the tables that iterations 0 .. k - 1 made, None if it is not asked for;
largest(): (L,) largest absolute parameter;   copy();   keep(mask): forget the other seeds;
left_out: after how many iterations the mean of the iterates begins; begin_average(): it begins now, see `advanced`;
chain_state(): states (L, 6) and visits (L, pairs) of their chains, or None;   lanes: (L,) uint32 the seed indices.
"""

from typing import Protocol, Self

import numpy as np


class Learner(Protocol):
    """The methods that the loop calls; see the module's docstring."""

    @property
    def lanes(self) -> np.ndarray: ...

    left_out: int

    def rows(self, k: int, n: int) -> tuple[int, int]: ...
    def advance(self, k: int, n: int, weights: np.ndarray) -> None: ...
    def tables(self) -> np.ndarray: ...
    def acting_tables(self) -> np.ndarray | None: ...
    def average_tables(self) -> np.ndarray | None: ...
    def begin_average(self) -> None: ...
    def largest(self) -> np.ndarray: ...
    def chain_state(self) -> tuple[np.ndarray, np.ndarray] | None: ...
    def copy(self) -> Self: ...
    def keep(self, mask: np.ndarray) -> None: ...


class FourNumbersLearner:
    """A learner that needs of its rule the four numbers alone. Abstract."""

    left_out = 0

    def acting_tables(self) -> None:
        return None

    def average_tables(self) -> np.ndarray | None:
        return None

    def begin_average(self) -> None:
        return None


def advanced(learner: Learner, k: int, n: int, weights: np.ndarray) -> None:
    """`advance`, in two pieces where the mean of the iterates begins between them."""
    done = learner.left_out - k
    if not learner.left_out or not 0 <= done < n:
        learner.advance(k, n, weights)
        return
    if done:
        learner.advance(k, done, weights)
    learner.begin_average()
    learner.advance(k + done, n - done, weights[done:])
