"""Rules with state of their own on simulators, by the plain form of their step: Gymnasium's steps are Python too."""

import copy
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np

from mqlearn.algorithms.stateful import Stateful
from mqlearn.errors import user_code
from mqlearn.learners.stateful import own_uniforms
from mqlearn.simulators.linear import NO_PLAN, SimulatedLearner
from mqlearn.stateful.pairs import ModelPairs
from mqlearn.stateful.reference import NoSecond, Transition, measured, project, state_of

_NEXT, _TERMINAL = 1, 2  # states of the model of one transition: see `_samples`


class SimulatedStateful(SimulatedLearner):
    """`SimulatedLearner` of a rule with state. parameters: (L, 3, d), [:, 0] acts.   states: z of each seed."""

    def __init__(self, rule: Stateful, *settings: Any) -> None:
        """settings: of `SimulatedLearner`."""
        super().__init__(*settings)
        self.rule = rule
        self.states = [state_of(rule, theta) for theta in self.parameters[:, 0]]
        self.kept: list[str] = measured(rule, vars(self.states[0])) if self.radius < np.inf else []

    def _learning(self, i: int, k: int, weights: np.ndarray, transitions: np.ndarray) -> Callable[[int, int, int], int]:
        z, names = self.states[i], self.rule.number_names
        numbers = [SimpleNamespace(**dict(zip(names, row, strict=True))) for row in weights.tolist()]
        greedy = self._greedy(i, "ties")

        def learn(first: int, stop: int, now: int) -> int:
            samples = self._samples(k + first, self.lanes[i], transitions[first:stop])
            with user_code("algorithm", type(self.rule).__name__):
                for sample, c in zip(samples, numbers[first:stop], strict=True):
                    self.rule.step(z, sample, c)
                    for name in self.kept:
                        project(getattr(z, name), self.radius)
            return greedy(now)

        return learn

    def _greedy(self, i: int, stream: str) -> Callable[[int], int]:
        """k -> the greedy action of the parameters that act, where walk number i is."""
        walk = self.walks[i]
        nothing, temperature = np.zeros((0, walk.width)), self.sampling.cooling
        call = self._kernel(i, NO_PLAN, nothing, walk.place, stream, temperature=temperature)

        def greedy(k: int) -> int:
            self.parameters[i, 0] = self.rule.acting(self.states[i])
            return call(0, 0, k)

        return greedy

    def _samples(self, k: int, lane: np.uint32, transitions: np.ndarray) -> Iterator[Transition]:
        """What iterations k, k + 1, ... learn from.

        Each is a transition of a small model: one pair in the state before, a pair for each action in the next one; a
        pair for each action in both, where the operator may look at V of the state before.
        """
        n, n_axes, n_actions = len(transitions), len(self.features.low), self.features.n_actions
        points = transitions[:, : 2 * n_axes]
        sound: Any = np.isfinite(points).all(1)  # (n,)
        index, value = self.features.many(np.nan_to_num(points).reshape(2 * n, n_axes))
        plain, actions = self.operator.plain, np.arange(n_actions)
        offsets = np.cumsum([0, 1 if plain else n_actions, n_actions, 0])
        for j, (*_, u, reward, terminal) in enumerate(transitions.tolist()):
            before = np.array([int(u)]) if plain else actions
            here, after = index[2 * j] * n_actions + before[:, None], index[2 * j + 1] * n_actions + actions[:, None]
            columns = np.concatenate([here, after])
            values = np.concatenate([np.tile(value[2 * j], (len(here), 1)), np.tile(value[2 * j + 1], (n_actions, 1))])
            pairs = ModelPairs(offsets, self.simulator.discount, (columns, values), self.operator.operator)
            reward = reward if sound[j] else np.nan  # nothing can be learned from what is no number
            uniform = own_uniforms(self.rule, k + j, int(lane), np.uint32(self.seed))
            y = _TERMINAL if terminal else _NEXT
            yield Transition(pairs, 0 if plain else int(u), reward, y, uniform, NoSecond(type(self.rule).__name__))

    @property
    def theta(self) -> np.ndarray:
        """(L, d): the parameters that are measured."""
        return np.stack([self.rule.estimate(z) for z in self.states])

    @property
    def average(self) -> None:
        """Of the iterates: not kept."""
        return None

    def largest(self) -> np.ndarray:
        return np.array([max(np.abs(array).max() for array in vars(z).values()) for z in self.states])

    def copy(self) -> "SimulatedStateful":
        other: Any = super().copy()
        other.states = copy.deepcopy(self.states)
        return other

    def keep(self, mask: np.ndarray) -> None:
        super().keep(mask)
        self.states = [z for z, kept in zip(self.states, mask, strict=True) if kept]

    def returns(self, episodes: int, limit: int | None, k: int | None = None) -> dict[str, np.ndarray]:
        for i, z in enumerate(self.states):
            self.parameters[i, 0] = self.rule.acting(z)
        return super().returns(episodes, limit, k)
