"""Environments that can only be stepped, Gymnasium's and small own ones, and short runs on them."""

from functools import cache
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

import mqlearn as mq
from mqlearn.problems.encodings import BoxMap, tile_coding
from mqlearn.problems.environments import simulator

ONE = np.zeros(1, np.uint32)


class Line(gymnasium.Env):
    """Points 0, 1/8, ..., 1: action 3 goes up, 4 goes down, 0 is a wall and 1 a terminal state; every step pays 1."""

    observation_space, action_space = Box(0.0, 1.0, (1,), np.float32), Discrete(2, start=3)

    def __init__(self, first: int = 4) -> None:
        self.first = self.x = first

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = self.first
        return np.array([self.x / 8], np.float32), {}

    def step(self, action):
        assert action in (3, 4)
        self.x = max(0, self.x + (1 if action == 3 else -1))
        return np.array([self.x / 8], np.float32), 1.0, self.x == 8, False, {}


class Broken(Line):
    """An environment whose third observation is no number."""

    def reset(self, *, seed=None, options=None):
        self.moves = 0
        return super().reset(seed=seed)

    def step(self, action):
        self.moves += 1
        observation, *more = super().step(action)
        return (observation * np.nan if self.moves == 3 else observation), *more


@cache
def box(name: str, **more: Any) -> Any:
    return simulator(name, discount=0.99, **more)


def box_map(made: Any) -> BoxMap:
    assert isinstance(made, BoxMap)
    return made


@cache
def coded(name: str, tiles: int = 4) -> BoxMap:
    return box_map(tile_coding(box(name), tiles=tiles))


def momentum(beta: float = 0.8, lam: float = 0.999, step: float = 0.2) -> mq.Rule:
    return mq.MomentumQLinear(beta=beta, lam=lam).with_step_size(mq.Constant(step))


def run(env: Any, features: Any, rule: mq.Rule | None = None, **more: Any) -> mq.Result:
    options = {
        "sampling": mq.Markovian(behaviour="epsilon_greedy"),
        "iterations": 600,
        "n_seeds": 2,
        "n_checkpoints": 2,
        "evaluation": mq.Evaluation(episodes=0),
    }
    return mq.run(env, rule or momentum(), features=features, **options | more)


def theta(result: mq.Result) -> np.ndarray:
    assert result.theta is not None
    return result.theta
