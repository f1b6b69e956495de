"""What the plain form of a rule needs of a model: the pairs of its states, their features, and the operator."""

from functools import cached_property
from typing import Any

import numpy as np

from mqlearn.algorithms.operators import BELLMAN, Numbers, Operator


class ModelPairs:
    """What the verbs need of a model. offsets (S + 1,): the pairs of state x are offsets[x] .. offsets[x + 1] - 1.

    features: Phi (pairs, d) of linear features, or its active entries (columns (pairs, F), values (pairs, F)); None
    for tables.   operator: of the targets.
    """

    def __init__(
        self, offsets: np.ndarray, discount: float, features: Any = None, operator: Operator = BELLMAN
    ) -> None:
        self.offsets: np.ndarray = np.asarray(offsets).astype(np.int64)
        self.discount = discount
        self.operator = operator
        if isinstance(features, np.ndarray):
            entries = [(np.flatnonzero(row), row[np.flatnonzero(row)]) for row in features]
        else:
            entries = [] if features is None else list(zip(*features, strict=True))
        self._entries = [list(zip(j.tolist(), x.tolist(), strict=True)) for j, x in entries]
        self.tabular: bool = features is None

    @cached_property
    def numbers(self) -> Numbers:
        """The five numbers of the operator."""
        return self.operator.numbers(self.discount)

    @cached_property
    def states(self) -> np.ndarray:
        """The state of each pair."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    def entries(self, pair: int) -> list[tuple[int, float]]:
        """The features of a pair: columns and values; of a table, its own entry."""
        return [(pair, 1.0)] if self.tabular else self._entries[pair]

    def value(self, q: np.ndarray, pair: int) -> float:
        (j, x), *others = self.entries(pair)
        total = float(q[j]) * x
        for j, x in others:
            total += x * float(q[j])
        return total

    def add(self, q: np.ndarray, pair: int, change: float) -> None:
        for j, x in self.entries(pair):
            q[j] += change * x

    def greedy(self, by: np.ndarray, y: int) -> int:
        """The first greedy pair of state y, -1 if y is terminal."""
        first, end = self.offsets[y], self.offsets[y + 1]
        if self.tabular:
            return int(first + np.argmax(by[first:end])) if end > first else -1
        return max(range(first, end), key=lambda pair: self.value(by, pair), default=-1)

    def state_value(self, q: np.ndarray, by: np.ndarray, y: int) -> float:
        """V of state y, chosen by `by`; 0 if y is terminal."""
        if self.offsets[y] == self.offsets[y + 1]:
            return 0.0
        own = self.values_of(q, y)
        return float(self.operator.value(own, own if by is q else self.values_of(by, y)))

    def target(self, q: np.ndarray, by: np.ndarray, pair: int, reward: float, y: int) -> float:
        """The operator's target of a transition."""
        five, ahead = self.numbers, self.state_value(q, by, y)
        here = self.state_value(q, by, int(self.states[pair])) if five.here else 0.0
        own = self.value(q, pair) if five.own else 0.0
        return five.target(reward, ahead, here, own, self.scalar(q, by))

    def scalar(self, q: np.ndarray, by: np.ndarray) -> float:
        """s."""
        if self.operator.scalar == "none":
            return 0.0
        if self.operator.scalar == "mean":
            return float(np.mean(q))
        return min(self.state_value(q, by, x) for x in self.counting)

    @cached_property
    def counting(self) -> list[int]:
        """The states of which s may be the least V."""
        states = range(len(self.offsets) - 1)
        return [x for x in states if self.operator.counts_terminals or self.offsets[x] < self.offsets[x + 1]]

    def values_of(self, q: np.ndarray, x: int) -> np.ndarray:
        """The values of the pairs of a state."""
        first, end = self.offsets[x], self.offsets[x + 1]
        return q[first:end] if self.tabular else np.array([self.value(q, pair) for pair in range(first, end)])

    def target_slopes(self, q: np.ndarray, pair: int, y: int) -> np.ndarray:
        """(pairs,): the derivative of the operator's target of a transition in the values of all pairs."""
        five, slopes = self.numbers, np.zeros(self.offsets[-1])
        for x, factor in ((y, five.ahead), (int(self.states[pair]), five.here)):
            if factor and self.offsets[x] < self.offsets[x + 1]:
                slopes[self.offsets[x] : self.offsets[x + 1]] += factor * self.slopes_of(q, x)
        slopes[pair] += five.own
        return slopes + self.common_slopes(q)

    def slopes_of(self, q: np.ndarray, x: int) -> np.ndarray:
        """dV of a state that is not terminal in the values of its pairs."""
        return self.operator.slopes(self.values_of(q, x))

    def common_slopes(self, q: np.ndarray) -> np.ndarray:
        """(pairs,): the derivative of common s; of the least V, at the first state that has it."""
        slopes = np.zeros(self.offsets[-1])
        if self.operator.scalar == "mean":
            slopes[:] = self.numbers.common / len(slopes)
        if self.operator.scalar == "least":
            z = min(self.counting, key=lambda x: self.state_value(q, q, x))
            if self.offsets[z] < self.offsets[z + 1]:
                slopes[self.offsets[z] : self.offsets[z + 1]] = self.numbers.common * self.slopes_of(q, z)
        return slopes

    def add_slopes_jacobian(self, matrix: np.ndarray, q: np.ndarray, pair: int, y: int, weight: float) -> None:
        """matrix += weight psi(pair) (the target's derivative - psi(pair))' of one transition."""
        slopes = self.target_slopes(q, pair, y)
        slopes[pair] -= 1
        for j in np.flatnonzero(slopes).tolist():
            self.add_jacobian(matrix, pair, j, weight * slopes[j], 0.0)

    def add_jacobian(self, matrix: np.ndarray, pair: int, ahead: int, weight: float, own: float) -> None:
        """matrix += psi(pair) (weight psi(ahead) - own psi(pair))'; ahead -1: a terminal state."""
        for i, x in self.entries(pair):
            if ahead >= 0:
                for j, other in self.entries(ahead):
                    matrix[i, j] += weight * x * other
            for j, other in self.entries(pair):
                matrix[i, j] -= own * x * other
