"""The verbs of a sample as plain Python: what the compiled form of a rule has to agree with, bit for bit.

Orders of addition are part of the meaning: active features from the first, draws of a minibatch from the first, pairs
from the first.
"""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np

from mqlearn.algorithms.operators import Operator, is_bellman, name_of
from mqlearn.algorithms.stateful import Stateful
from mqlearn.errors import SettingError
from mqlearn.stateful.pairs import ModelPairs

ADD_BEST = "writes by s.add_best where Bellman's target has its greedy action; s.add_gradient is of any operator"


def not_for(operator: Operator, reason: str) -> SettingError:
    """A rule that has no meaning with an operator."""
    return SettingError("operator", name_of(operator), f"is not for this rule, which {reason}; use bellman")


class Transition:
    """One transition (pair, r, y): verbs that give numbers. With a minibatch, reward and y are arrays (N,)."""

    single = True

    def __init__(
        self, pairs: ModelPairs, pair: int, reward: Any, y: Any, uniform: Any = None, again: Any = None
    ) -> None:
        self._pairs, self._pair = pairs, pair
        self._reward, self._y = np.atleast_1d(reward).tolist(), np.atleast_1d(y).tolist()
        self.discount, self.uniform, self.again = pairs.discount, uniform, again

    def value(self, q: np.ndarray) -> float:
        return self._pairs.value(q, self._pair)

    def best(self, q: np.ndarray, by: np.ndarray | None = None) -> float:
        return _mean([self._pairs.state_value(q, q if by is None else by, y) for y in self._y])

    def target(self, q: np.ndarray, by: np.ndarray | None = None) -> float:
        drawn = zip(self._reward, self._y, strict=True)
        return _mean([self._pairs.target(q, q if by is None else by, self._pair, r, y) for r, y in drawn])

    def add(self, q: np.ndarray, change: float) -> None:
        self._pairs.add(q, self._pair, change)

    def move(self, q: np.ndarray, to: float, share: float) -> None:
        self.add(q, share * (to - self.value(q)))

    def add_best(self, q: np.ndarray, change: float, by: np.ndarray | None = None) -> None:
        _only_bellman(self._pairs)
        greedy = [self._pairs.greedy(q if by is None else by, y) for y in self._y]
        for pair in greedy:
            if pair >= 0:
                self._pairs.add(q, pair, change / len(greedy))

    def add_gradient(self, q: np.ndarray, weight: float, change: float, by: np.ndarray | None = None) -> None:
        by = q if by is None else by
        if is_bellman(self._pairs.operator):
            self.add_best(q, weight * self.discount * change, by)
            return
        total = np.sum([self._pairs.target_slopes(by, self._pair, y) for y in self._y], axis=0)
        share = weight * change / len(self._y)
        for pair in np.flatnonzero(total).tolist():
            self._pairs.add(q, pair, share * total[pair])

    def follow(self, later: np.ndarray, q: np.ndarray) -> None:
        later[:] = q

    def add_jacobian(self, matrix: np.ndarray, q: np.ndarray, weight: float) -> None:
        share = weight / len(self._y)
        if not is_bellman(self._pairs.operator):
            for y in self._y:
                self._pairs.add_slopes_jacobian(matrix, q, self._pair, y, share)
            return
        for y in self._y:
            self._pairs.add_jacobian(matrix, self._pair, self._pairs.greedy(q, y), share * self.discount, share)


class NoSecond:
    """In the place of `again` where a second successor cannot be drawn: any verb of it raises SettingError."""

    def __init__(self, rule: str) -> None:
        self._rule = rule

    def __getattr__(self, name: str) -> NoReturn:
        expected = "reads s.again, a second successor, which an environment without a model cannot draw"
        raise SettingError("algorithm", self._rule, expected)


class Sweep:
    """One transition of every pair, (rewards (n,), y (n,)): verbs that give arrays over the pairs.

    With a minibatch, rewards and y are arrays (N, n).
    """

    single = False

    def __init__(self, pairs: ModelPairs, rewards: Any, y: Any, uniform: Any = None, again: Any = None) -> None:
        self._pairs = pairs
        self._rewards, self._y = np.atleast_2d(rewards), np.atleast_2d(y).astype(np.int64)
        self.discount, self.uniform, self.again = pairs.discount, uniform, again

    def _greedy(self, by: np.ndarray) -> np.ndarray:
        """(N, n): the greedy pairs of the successors, -1 where one is terminal."""
        return np.array([self._pairs.greedy(by, y) for y in range(len(self._pairs.offsets) - 1)])[self._y]

    def _values(self, q: np.ndarray, by: np.ndarray | None) -> np.ndarray:
        """(S,): V of all states."""
        by = q if by is None else by
        return np.array([self._pairs.state_value(q, by, x) for x in range(len(self._pairs.offsets) - 1)])

    def value(self, q: np.ndarray) -> np.ndarray:
        return q.copy()

    def best(self, q: np.ndarray, by: np.ndarray | None = None) -> np.ndarray:
        return _mean(list(self._values(q, by)[self._y]))

    def target(self, q: np.ndarray, by: np.ndarray | None = None) -> np.ndarray:
        five, v = self._pairs.numbers, self._values(q, by)
        made = five.target(self._rewards, v[self._y], 0.0, 0.0, 0.0)
        if any(five[2:]):  # the rest is the same for all draws
            s = self._pairs.scalar(q, q if by is None else by)
            made = made + five.target(0.0, 0.0, v[self._pairs.states], q, s)
        return _mean(list(made))

    def add(self, q: np.ndarray, change: Any) -> None:
        q += change

    def move(self, q: np.ndarray, to: Any, share: Any) -> None:
        q += share * (to - q)

    def add_best(self, q: np.ndarray, change: Any, by: np.ndarray | None = None) -> None:
        _only_bellman(self._pairs)
        greedy = self._greedy(q if by is None else by)
        share = np.broadcast_to(change, len(q)) / len(greedy)
        for pair, ahead in enumerate(greedy.T.tolist()):
            for j in ahead:
                if j >= 0:
                    q[j] += share[pair]

    def add_gradient(self, q: np.ndarray, weight: Any, change: Any, by: np.ndarray | None = None) -> None:
        by = q if by is None else by
        if is_bellman(self._pairs.operator):
            self.add_best(q, weight * self.discount * change, by)
            return
        share, old = np.broadcast_to(weight * change, len(q)) / len(self._y), by.copy()
        for pair, ahead in enumerate(self._y.T.tolist()):
            for y in ahead:
                q += share[pair] * self._pairs.target_slopes(old, pair, y)

    def follow(self, later: np.ndarray, q: np.ndarray) -> None:
        later[:] = q

    def add_jacobian(self, matrix: np.ndarray, q: np.ndarray, weight: float) -> None:
        share = weight / len(self._y)
        if not is_bellman(self._pairs.operator):
            for pair, ahead in enumerate(self._y.T.tolist()):
                for y in ahead:
                    self._pairs.add_slopes_jacobian(matrix, q, pair, y, share)
            return
        greedy = self._greedy(q)
        for pair, ahead in enumerate(greedy.T.tolist()):
            for j in ahead:
                self._pairs.add_jacobian(matrix, pair, j, share * self.discount, share)


def _only_bellman(pairs: ModelPairs) -> None:
    if not is_bellman(pairs.operator):
        raise not_for(pairs.operator, ADD_BEST)


def _mean(draws: list[Any]) -> Any:
    total = draws[0]
    for draw in draws[1:]:
        total = total + draw
    return total / len(draws) if len(draws) > 1 else total


def state_of(rule: Any, q0: np.ndarray) -> SimpleNamespace:
    """The state of one seed, as `step` and `estimate` read it: z.NAME."""
    return SimpleNamespace(**{name: np.array(value, dtype=np.float64) for name, value in rule.init(q0.copy()).items()})


def measured(rule: Any, state: Mapping[str, np.ndarray]) -> list[str]:
    """The names of the arrays of a state that `estimate` reads: what a projection keeps in its ball."""
    if type(rule).estimate is Stateful.estimate:
        return [next(iter(state))]
    names: list[str] = []

    class Read:
        def __getattr__(self, name: str) -> np.ndarray:
            names.append(name)
            return state[name]

    rule.estimate(Read())
    return list(dict.fromkeys(names))


def project(theta: np.ndarray, radius: float) -> None:
    """theta onto the ball of this radius, in place."""
    norm = 0.0
    for x in theta.tolist():
        norm += x * x
    if norm > radius * radius:
        theta *= radius / np.sqrt(norm)
