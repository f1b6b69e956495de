"""Learning on a `Simulator`: linear features of a Box observation, stepped by Gymnasium itself.

What needs a model (errors against the optimum, theta*, exact policy values) is absent here, not zero.
"""

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mqlearn.encodings import BoxMap
from mqlearn.environments.simulator import Simulator
from mqlearn.errors import SettingError
from mqlearn.learners import Initial, Linear, copied, drop_lanes, initial_values, uniform_words
from mqlearn.sampling import Markovian, Replay

if TYPE_CHECKING:
    import gymnasium

_BLOCK = 1024  # iterations whose transitions are collected before a kernel learns from them
_WORD = 2.0**32


class SimulatedLearner:
    """Linear features on simulators, one a lane; the same kernel as on models, fed with recorded transitions.

    theta, v, sums: (L, d) as in `LinearLearner`.   Each transition is kept as the active features of its two
    observations: index (F,), value (F,), the action, the reward and whether the second one is terminal.
    """

    arrays = ("lanes", "theta", "v", "sums", "last_row", "last_value", "last_delta")

    def __init__(
        self,
        simulator: Simulator,
        sampling: Any,
        features: Any,
        linear: Linear,
        lanes: np.ndarray,
        seed: int,
        initial: Initial,
    ) -> None:
        self.simulator = simulator
        self.sampling = sampling
        self.features = features
        self.options = (linear.previous_gradient == "same_sample", linear.first_gradient == "zero")
        self.projection = linear.projection
        self.lanes = lanes
        self.seed = seed
        self.k = 0
        self.theta = initial_values(features.n_features, initial, lanes, seed)
        self.v, self.sums = np.zeros_like(self.theta), np.zeros_like(self.theta)
        # Seeded once: reseeding at every episode would repeat one episode for ever.
        seeds = uniform_words(1, lanes, seed, "simulator")[:, 0]
        self.walks = [_Walk(simulator.make(), features, int(word)) for word in seeds]
        width = self.walks[0].index.size
        self.last_row = np.zeros((len(lanes), width), np.uint32)
        self.last_value = np.zeros((len(lanes), width))
        self.last_delta = np.full((len(lanes), 2), [-1.0, 0.0])

    def rows(self, k: int, n: int) -> tuple[int, int]:
        return k, k + n

    def advance(self, k: int, n: int, weights: np.ndarray) -> None:
        step = 1 if self.sampling.adaptive else _BLOCK
        for i, lane in enumerate(self.lanes):
            for first in range(0, n, step):
                last = min(first + step, n)
                collected = [self._next(i, int(lane), k + j) for j in range(first, last)]
                self._learn(i, collected, weights[first:last])
        self.k = k + n

    def _next(self, i: int, lane: int, k: int) -> "_Transition":
        """The transition that iteration k of lane number i learns from."""
        explore, action, tie, drawn = _uniform(self.seed, lane, k)
        walk, sampling = self.walks[i], self.sampling
        replay = isinstance(sampling, Replay)
        if not replay or k % sampling.draws == 0:
            first, last, span = sampling.exploration
            epsilon = first + (last - first) * min(1.0, k / span)
            if not sampling.adaptive or explore < epsilon:
                u = int(action * self.simulator.n_actions)
            else:
                u = choose(self.estimates(i, walk.index, walk.value), tie)
            transition = walk.step(u, sampling.time_limit)
            if not replay:
                return transition
            walk.buffer.append(transition)
            if len(walk.buffer) > sampling.capacity:
                walk.buffer.pop(0)
        return walk.buffer[int(drawn * len(walk.buffer))]

    def _learn(self, i: int, collected: list["_Transition"], weights: np.ndarray) -> None:
        from mqlearn import kernels

        n, n_actions, width = len(collected), self.simulator.n_actions, self.last_row.shape[1]
        # Row 0: the pair of the previous gradient; then the visited pairs; then the actions at each next observation.
        active, values = np.zeros((1 + n, width), np.uint32), np.zeros((1 + n, width))
        active[0], values[0] = self.last_row[i], self.last_value[i]
        ahead = []
        for j, t in enumerate(collected):
            active[1 + j], values[1 + j] = t.index * n_actions + t.action, t.value
            if not t.terminal:
                ahead.append((t.next_index[None] * n_actions + np.arange(n_actions)[:, None], t.next_value))
        if ahead:
            active = np.concatenate([active, *(index.astype(np.uint32) for index, _ in ahead)])
            values = np.concatenate([values, *(np.tile(value, (n_actions, 1)) for _, value in ahead)])
        counts = [0] + [0 if t.terminal else n_actions for t in collected]
        offsets = (1 + n + np.concatenate([[0], np.cumsum(counts)])).astype(np.uint64)
        rewards = np.array([[0.0], *([t.reward] for t in collected)])
        successors = np.arange(1 + n, dtype=np.uint32)[:, None]
        model = (offsets, successors, rewards, np.zeros((1 + n, 1), np.uint32), np.uint64(1))
        self.last_delta[i, 0] = min(self.last_delta[i, 0], 0.0)
        state = (self.theta[i : i + 1], self.v[i : i + 1], self.sums[i : i + 1], self.last_delta[i : i + 1])
        fed = (model, kernels.RECORDED_CHAIN, (active, values), *kernels.recorded_lane(), weights, self.options)
        place = (self.simulator.discount, 0, self.lanes[i : i + 1], np.uint32(0), kernels.NO_STREAMS)
        if self.projection is None:
            kernels.asynchronous_linear(*state, *fed, *place)
        else:
            kernels.asynchronous_linear_dense(*state, *fed, self.projection, *place)
        if n:
            self.last_row[i], self.last_value[i] = active[n], values[n]
            self.last_delta[i, 0] = 0.0

    def estimates(self, i: int, index: np.ndarray, value: np.ndarray) -> np.ndarray:
        """(A,): the estimates of lane number i at the observation with these features."""
        return value @ self.theta[i].reshape(-1, self.simulator.n_actions)[index]

    @property
    def average(self) -> np.ndarray:
        """(L, d): mean of theta_1 .. theta_k; theta_0 at k = 0."""
        return self.sums / self.k if self.k else self.theta.copy()

    def largest(self) -> np.ndarray:
        return np.abs(self.theta).max(axis=1)

    def copy(self) -> "SimulatedLearner":
        other = copied(self)
        other.walks = [walk.copy() for walk in self.walks]
        return other

    def keep(self, mask: np.ndarray) -> None:
        drop_lanes(self, mask)
        self.walks = [walk for walk, kept in zip(self.walks, mask, strict=True) if kept]

    def returns(self, episodes: int, limit: int | None) -> dict[str, np.ndarray]:
        """Total undiscounted return of greedy episodes from the environment's own start, seeded apart from learning."""
        totals = np.zeros(len(self.lanes))
        for i, word in enumerate(uniform_words(1, self.lanes, self.seed, "evaluation_start")[:, 0]):
            walk = _Walk(self.simulator.make(), self.features, int(word))
            generator = np.random.default_rng(int(word))
            episode, moves = 0, 0
            while episode < episodes:
                u = choose(self.estimates(i, walk.index, walk.value), generator.random())
                totals[i] += walk.step(u, limit).reward
                moves += 1
                if walk.moves == 0:
                    episode += 1
        return {"return_start": totals}


@dataclass(frozen=True, eq=False)
class _Transition:
    index: np.ndarray
    value: np.ndarray
    action: int
    reward: float
    next_index: np.ndarray
    next_value: np.ndarray
    terminal: bool


class _Walk:
    """One environment and the features of where it is; a new episode follows the end of one at once."""

    def __init__(self, env: "gymnasium.Env", features: BoxMap, seed: int) -> None:
        self.env = env
        self.features = features
        self.buffer: list[_Transition] = []
        self.moves = 0
        observation, _ = env.reset(seed=seed)
        self.index, self.value = features(np.asarray(observation, dtype=np.float64))

    def step(self, action: int, limit: int | None) -> _Transition:
        start = int(getattr(self.env.action_space, "start", 0))
        observation, reward, terminated, truncated, _ = self.env.step(start + action)
        index, value = self.features(np.asarray(observation, dtype=np.float64))
        done = _Transition(self.index, self.value, action, float(reward), index, value, bool(terminated))
        self.moves += 1
        # A time limit, Gymnasium's or ours, ends the episode and is not a terminal state.
        if terminated or truncated or (limit is not None and self.moves >= limit):
            self.moves = 0
            observation, _ = self.env.reset()
            index, value = self.features(np.asarray(observation, dtype=np.float64))
        self.index, self.value = index, value
        return done

    def copy(self) -> "_Walk":
        other = copy.copy(self)
        other.env = copy.deepcopy(self.env)
        other.buffer = list(self.buffer)
        return other


def choose(estimates: np.ndarray, uniform: float) -> int:
    """A largest entry, uniform among equal ones."""
    best = np.flatnonzero(estimates == estimates.max())
    return int(best[int(uniform * len(best))])


def _uniform(seed: int, lane: int, k: int) -> tuple[float, float, float, float]:
    """Four uniform numbers in [0, 1) of iteration k."""
    from mqlearn import kernels

    words = kernels.philox_words(np.uint32(k & 0xFFFFFFFF), np.uint32(k >> 32), np.uint32(lane), np.uint32(seed))
    return words[0] / _WORD, words[1] / _WORD, words[2] / _WORD, words[3] / _WORD


def check(simulator: Simulator, sampling: Any, features: Any) -> None:
    """Refuse what needs a model or features. Raises SettingError."""
    reason = f"needs an exact model, and {simulator.name} has none"
    if not isinstance(sampling, Markovian | Replay):
        raise SettingError("sampling", sampling.name, f"{reason}; use markovian or replay")
    if not isinstance(features, BoxMap):
        raise SettingError("features", "tabular", f"{reason}; use tile_coding, rbf or fourier")
    for name, value, plain in (
        ("start", sampling.start, "start"),
        ("restart_probability", sampling.restart_probability, 0),
        ("clock", sampling.clock, "global"),
        ("update", sampling.update, "pair"),
        ("warm_up", getattr(sampling, "warm_up", 0), 0),
    ):
        if value != plain:
            raise SettingError(f"sampling.{name}", value, f"{reason}; only {plain} is possible there")
    if not isinstance(sampling.behaviour, str):
        raise SettingError("sampling.behaviour", "table", f"{reason}; use uniform or epsilon_greedy")
