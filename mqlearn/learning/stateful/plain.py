"""The verbs of a sample as plain Python: what the compiled form of a rule has to agree with."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Pairs:
    """What the verbs need of a model. offsets (S + 1,): the pairs of state x are offsets[x] .. offsets[x + 1] - 1.

    features: Phi (pairs, d) of linear features, None for tables.
    """

    offsets: np.ndarray
    discount: float
    features: np.ndarray | None = None

    def values(self, table: np.ndarray) -> np.ndarray:
        """(pairs,) values of a table, or of a parameter."""
        return table if self.features is None else self.features @ table

    def greedy(self, table: np.ndarray, y: int) -> int:
        """The first greedy pair of state y, -1 if y is terminal."""
        first, end = self.offsets[y], self.offsets[y + 1]
        return int(first + np.argmax(self.values(table)[first:end])) if end > first else -1


class Transition:
    """One transition (pair, r, y): verbs that give numbers."""

    def __init__(self, pairs: Pairs, pair: int, reward: float, y: int, uniform: Any = None, again: Any = None) -> None:
        self._pairs, self._pair, self._reward, self._y = pairs, pair, reward, y
        self.discount, self.uniform, self.again = pairs.discount, uniform, again

    def value(self, q: np.ndarray) -> float:
        return float(self._pairs.values(q)[self._pair])

    def best(self, q: np.ndarray, by: np.ndarray | None = None) -> float:
        greedy = self._pairs.greedy(q if by is None else by, self._y)
        return 0.0 if greedy < 0 else float(self._pairs.values(q)[greedy])

    def target(self, q: np.ndarray, by: np.ndarray | None = None) -> float:
        return self._reward + self.discount * self.best(q, by)

    def _psi(self, pair: int, size: int) -> np.ndarray:
        if self._pairs.features is not None:
            return self._pairs.features[pair]
        unit = np.zeros(size)
        unit[pair] = 1.0
        return unit

    def add(self, q: np.ndarray, change: float) -> None:
        q += change * self._psi(self._pair, len(q))

    def move(self, q: np.ndarray, to: float, share: float) -> None:
        self.add(q, share * (to - self.value(q)))

    def add_best(self, q: np.ndarray, change: float, by: np.ndarray | None = None) -> None:
        greedy = self._pairs.greedy(q if by is None else by, self._y)
        if greedy >= 0:
            q += change * self._psi(greedy, len(q))

    def follow(self, later: np.ndarray, q: np.ndarray) -> None:
        later[:] = q

    def add_jacobian(self, matrix: np.ndarray, q: np.ndarray, weight: float) -> None:
        psi = self._psi(self._pair, len(q))
        greedy = self._pairs.greedy(q, self._y)
        ahead = self.discount * self._psi(greedy, len(q)) if greedy >= 0 else 0.0
        matrix += weight * np.outer(psi, ahead - psi)


class Sweep:
    """One transition of every pair, (rewards (n,), y (n,)): verbs that give arrays over the pairs."""

    def __init__(
        self, pairs: Pairs, rewards: np.ndarray, y: np.ndarray, uniform: Any = None, again: Any = None
    ) -> None:
        self._pairs, self._rewards, self._y = pairs, rewards, y
        self.discount, self.uniform, self.again = pairs.discount, uniform, again

    def _greedy(self, by: np.ndarray) -> np.ndarray:
        return np.array([self._pairs.greedy(by, y) for y in range(len(self._pairs.offsets) - 1)])[self._y]

    def value(self, q: np.ndarray) -> np.ndarray:
        return q.copy()

    def best(self, q: np.ndarray, by: np.ndarray | None = None) -> np.ndarray:
        greedy = self._greedy(q if by is None else by)
        return np.where(greedy < 0, 0.0, q[greedy])

    def target(self, q: np.ndarray, by: np.ndarray | None = None) -> np.ndarray:
        return self._rewards + self.discount * self.best(q, by)

    def add(self, q: np.ndarray, change: Any) -> None:
        q += change

    def move(self, q: np.ndarray, to: Any, share: Any) -> None:
        q += share * (to - q)

    def add_best(self, q: np.ndarray, change: Any, by: np.ndarray | None = None) -> None:
        greedy = self._greedy(q if by is None else by)
        change = np.broadcast_to(change, len(q))
        np.add.at(q, greedy[greedy >= 0], change[greedy >= 0])

    def follow(self, later: np.ndarray, q: np.ndarray) -> None:
        later[:] = q

    def add_jacobian(self, matrix: np.ndarray, q: np.ndarray, weight: float) -> None:
        n = len(q)
        greedy = self._greedy(q)
        matrix[np.arange(n), np.arange(n)] -= weight
        open_ = greedy >= 0
        matrix[np.flatnonzero(open_), greedy[open_]] += weight * self.discount


def state_of(rule: Any, q0: np.ndarray) -> SimpleNamespace:
    """The state of one seed, as `step` and `estimate` read it: z.NAME."""
    return SimpleNamespace(**{name: np.array(value, dtype=np.float64) for name, value in rule.init(q0.copy()).items()})
