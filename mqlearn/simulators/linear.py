"""Learning on a `Simulator`: linear features of a Box observation, stepped by Gymnasium itself.

What needs a model (errors against the optimum, theta*, exact policy values) is absent here, not zero.
"""

import copy
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mqlearn.errors import user_code
from mqlearn.learners import Linear
from mqlearn.learners.initial import Initial, initial_values
from mqlearn.learners.operators import BELLMAN, BoundOperator
from mqlearn.problems.encodings import BoxMap
from mqlearn.problems.environments.simulator import Simulator
from mqlearn.sampling.chains import copied, drop_lanes, stream_at, uniform_words
from mqlearn.sampling.protocol import Line, exploration_rate

if TYPE_CHECKING:
    import gymnasium

_BLOCK = 4096  # iterations for which momentum is planned, and random words are made, at a time
_MOST_VALUES = 2**20  # of features that are held at a time
_LIMIT = 1000  # moves of an evaluation episode, where neither Gymnasium nor a setting has a limit
NO_PLAN = np.zeros((0, 10))


class SimulatedLearner:
    """Linear features on simulators, one a lane: Gymnasium's steps between calls of `kernels.simulated_linear`.

    parameters: (L, 3, d), theta, v = theta_k - theta_{k-1} and theta_1 + ... + theta_k.   last: (L, 2) as in
    `LinearLearner`.   active, values: (L, 3 A, F), the features that the kernel looks at.

    A behaviour that does not depend on what is learned is stepped for a whole block, then learned from in one call;
    any other costs a call a step, which learns and returns the greedy action where the walk now is.
    """

    arrays: tuple[str, ...] = ("lanes", "parameters", "last", "active", "values")
    left_out = 0

    def __init__(
        self,
        simulator: Simulator,
        sampling: Any,
        features: Any,
        linear: Linear,
        lanes: np.ndarray,
        seed: int,
        initial: Initial,
        operator: BoundOperator = BELLMAN,
    ) -> None:
        self.simulator = simulator
        self.operator = operator
        self.sampling = sampling
        self.features: BoxMap = features
        self.same_sample: bool = linear.previous_gradient == "same_sample"
        self.options: tuple[bool, bool] = (self.same_sample, linear.first_gradient == "zero")
        self.radius: float = np.inf if linear.projection is None else float(linear.projection)
        self.lanes = lanes
        self.seed = seed
        self.k = 0
        self.parameters: np.ndarray = np.zeros((len(lanes), 3, features.n_features))
        self.parameters[:, 0] = initial_values(features.n_features, initial, lanes, seed)
        self.last: np.ndarray = np.tile([-1.0, 0.0], (len(lanes), 1))
        self.encoder = (features.grid, 0 if features.tiling is None else features.tiling[0])
        # Seeded once: reseeding at every episode would repeat one episode for ever.
        seeds = uniform_words(1, lanes, seed, "simulator")[:, 0].tolist()
        capacity = sampling.capacity
        n_axes, width = len(features.low), features(features.low)[0].size
        with user_code("env.id", simulator.name):
            self.walks = [_Walk(simulator.make(), n_axes, word, sampling.time_limit, capacity) for word in seeds]
        shape = (len(lanes), 3 * features.n_actions, width)
        self.active, self.values = np.zeros(shape, np.uint32), np.zeros(shape)
        self.block: int = _BLOCK if sampling.adaptive else min(_BLOCK, max(1, _MOST_VALUES // width))

    def rows(self, k: int, n: int) -> tuple[int, int]:
        return k, k + n

    def advance(self, k: int, n: int, weights: np.ndarray) -> None:
        with user_code("env.id", self.simulator.name):
            for i in range(len(self.lanes)):
                for first in range(0, n, self.block):
                    self._advance(i, k + first, weights[first : min(first + self.block, n)])
        self.k: int = k + n

    def _advance(self, i: int, k: int, weights: np.ndarray) -> None:
        from mqlearn import kernels

        n, lane, sampling, walk = len(weights), self.lanes[i], self.sampling, self.walks[i]
        adaptive, draws = sampling.adaptive, sampling.draws if sampling.capacity else 0
        place = (np.uint32(self.seed), np.uint32(kernels.STREAMS["simulator"]))
        explore, action, _, drawn = kernels.lane_words(k, n, lane, *place).astype(np.int64)
        actions = action * self.features.n_actions >> 32
        if adaptive:
            epsilon = exploration_rate(sampling.exploration, np.arange(k, k + n))
            actions = np.where(explore < epsilon * 2.0**32, actions, -1)
        transitions = np.empty((n, walk.width))
        learn = self._learning(i, k, weights, transitions)
        greedy = learn(0, 0, k)
        for j, (u, word) in enumerate(zip(actions.tolist(), drawn.tolist(), strict=True)):
            u = greedy if u < 0 else u
            if not draws:
                walk.step(u, transitions[j])
            else:
                if (k + j) % draws == 0:
                    walk.remember(u)
                transitions[j] = walk.recall(word)
            if adaptive:
                greedy = learn(j, j + 1, k + j + 1)
        if not adaptive:
            learn(0, n, k + n)

    def _learning(self, i: int, k: int, weights: np.ndarray, transitions: np.ndarray) -> Callable[[int, int, int], int]:
        """(first, stop, k) -> the greedy action where walk number i now is, after iterations first .. stop - 1 of the
        block that begins at iteration k, from their transitions."""
        from mqlearn import kernels

        n = len(weights)
        plan = kernels.momentum_plan(weights, self.same_sample, n if self.radius == np.inf else 1) if n else NO_PLAN
        return self._kernel(i, plan, transitions, self.walks[i].place, "ties", temperature=self.sampling.cooling)

    def _kernel(
        self,
        i: int,
        plan: np.ndarray,
        transitions: np.ndarray,
        place: np.ndarray,
        stream: str,
        at: int | None = None,
        temperature: Line | None = None,
    ) -> Callable[[int, int, int], int]:
        """(first, stop, k) -> `kernels.simulated_linear` of lane number i, with the greedy action at `place`."""
        from mqlearn import kernels

        features, n_axes = self.features, place.shape[1]
        tail = (self.lanes[i], np.uint32(self.seed), stream_at(stream, at), self.operator.compiled, temperature)
        settings = (self.simulator.discount, self.options, self.radius)
        rows, recorded = (self.active[i], self.values[i]), (plan, transitions, place)
        state = (self.parameters[i], self.last[i], rows, recorded, self.encoder)
        index, value = _writable(*features.many(np.zeros((2, n_axes))))
        if features.tiling is not None:
            call = partial(kernels.simulated_linear, *state, index, value)
            return lambda first, stop, k: call(first, stop, *settings, k, *tail)

        def encoded(first: int, stop: int, k: int) -> int:
            points = transitions[first:stop, : 2 * n_axes].reshape(-1, n_axes)
            index, value = _writable(*features.many(np.concatenate([points, place])))
            return kernels.simulated_linear(*state, index, value, first, stop, *settings, k, *tail)

        return encoded

    @property
    def theta(self) -> np.ndarray:
        """(L, d)."""
        return self.parameters[:, 0]

    @property
    def average(self) -> np.ndarray:
        """(L, d): mean of theta_1 .. theta_k; theta_0 at k = 0."""
        return self.parameters[:, 2] / self.k if self.k else self.theta.copy()

    def largest(self) -> np.ndarray:
        return np.abs(self.theta).max(axis=1)

    def copy(self) -> "SimulatedLearner":
        other = copied(self)
        other.walks = [walk.copy() for walk in self.walks]
        return other

    def keep(self, mask: np.ndarray) -> None:
        drop_lanes(self, mask)
        self.walks = [walk for walk, kept in zip(self.walks, mask, strict=True) if kept]

    def chain_state(self) -> None:
        return None

    def seen(self) -> np.ndarray:
        """Steps, episodes ended, and those of them that ended in a terminal state, over all lanes."""
        return np.sum([(walk.steps, walk.episodes, walk.terminated) for walk in self.walks], axis=0)

    def returns(self, episodes: int, limit: int | None, k: int | None = None) -> dict[str, np.ndarray]:
        """Total undiscounted return of greedy episodes from the environment's own start, seeded apart from learning.

        An episode's randomness depends on its number, its lane and the checkpoint k alone; None: all have the same.
        """
        totals = np.zeros(len(self.lanes))
        seeds = uniform_words(max(1, episodes), self.lanes, self.seed, "evaluation_start", k).tolist()
        place, apart = np.zeros((1, len(self.features.low))), copied(self)
        for i in range(len(self.lanes)) if episodes else ():
            env = self.simulator.make()
            moves_allowed = limit or _own_limit(env)
            choose = apart._kernel(i, NO_PLAN, np.zeros((0, self.walks[i].width)), place, "evaluation_start", k)
            first_action = int(env.action_space.start)  # type: ignore[attr-defined]  # Discrete: checked before
            for episode in range(episodes):
                place[0] = env.reset(seed=seeds[i][episode])[0]
                moves, over = 0, False
                while not over:
                    u = choose(0, 0, (episode << 32) + moves)
                    place[0], reward, terminated, truncated, _ = env.step(first_action + u)
                    totals[i] += float(reward)
                    moves += 1
                    over = terminated or truncated or moves == moves_allowed
        return {"return_start": totals} if episodes else {}


class _Walk:
    """One environment and where it is; a new episode follows the end of one at once.

    place: (1, K) observation.   A transition is a row (2 K + 3,): observation, next one, action, reward, whether the
    next one is terminal.   ring: the last `capacity` of them.   steps, episodes, terminated: counts.
    """

    def __init__(self, env: "gymnasium.Env", n_axes: int, seed: int, limit: int | None, capacity: int) -> None:
        self.env = env
        self.n_axes = n_axes
        self.width = 2 * n_axes + 3
        self.limit = limit
        self.first_action = int(env.action_space.start)  # type: ignore[attr-defined]  # Discrete: checked before
        self.ring = np.empty((capacity, self.width))
        self.moves = self.steps = self.episodes = self.terminated = 0
        self.place = np.empty((1, n_axes))
        self.place[0] = env.reset(seed=seed)[0]

    def step(self, action: int, row: np.ndarray) -> None:
        """One step, whose transition is written into `row`."""
        n = self.n_axes
        observation, reward, terminated, truncated, _ = self.env.step(self.first_action + action)
        row[:n] = self.place[0]
        row[n : 2 * n] = observation
        row[2 * n] = action
        row[2 * n + 1] = reward
        row[2 * n + 2] = terminated
        self.steps += 1
        self.moves += 1
        # A time limit, Gymnasium's or ours, ends the episode and is not a terminal state.
        if terminated or truncated or self.moves == self.limit:
            self.episodes += 1
            self.terminated += bool(terminated)
            self.moves = 0
            observation, _ = self.env.reset()
        self.place[0] = observation

    def remember(self, action: int) -> None:
        """One step, whose transition takes the place of the oldest one."""
        self.step(action, self.ring[self.steps % len(self.ring)])

    def recall(self, word: int) -> np.ndarray:
        """A remembered transition, uniformly by a 32-bit word."""
        age = word * min(self.steps, len(self.ring)) >> 32
        return self.ring[(self.steps - 1 - age) % len(self.ring)]

    def copy(self) -> "_Walk":
        other = copy.copy(self)
        other.env = copy.deepcopy(self.env)
        other.place = self.place.copy()
        other.ring = np.empty_like(self.ring)
        other.ring[: self.steps] = self.ring[: self.steps]
        return other


def _writable(index: np.ndarray, value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.array(index, np.int64, order="C"), np.array(value, np.float64, order="C")  # what can be written to


def _own_limit(env: "gymnasium.Env") -> int:
    return (env.spec.max_episode_steps if env.spec else None) or _LIMIT
