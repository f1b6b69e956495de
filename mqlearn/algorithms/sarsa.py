"""Sarsa and expected Sarsa: learning the values of the behaviour itself (Sutton, Barto 2018, 6.4 and 6.6)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mqlearn.algorithms.operators import BELLMAN, Expected, Operator
from mqlearn.algorithms.q_learning import QLearning
from mqlearn.algorithms.stateful import Stateful
from mqlearn.algorithms.step_sizes import RescaledLinear
from mqlearn.errors import SettingError


def _rates(rule: Any, sampling: Any) -> tuple[float, float]:
    """The first and the last exploration rate of a behaviour, 1 of the uniform one. Raises SettingError."""
    name = type(rule).__name__
    if sampling.all_pairs or sampling.recorded or not hasattr(sampling, "behaviour"):
        expected = f"has no behaviour of its own, whose values {name} learns; use markovian"
        raise SettingError("sampling", sampling.name, expected)
    if sampling.adaptive:
        first, last, span = sampling.exploration
        return (first, last) if span > 0 else (1.0, 0.0)
    if not isinstance(sampling.behaviour, str):
        expected = f"must be uniform or epsilon_greedy with {name}, whose target is made of the behaviour"
        raise SettingError("sampling.behaviour", "a policy", expected)
    return 1.0, 1.0


_APART = "errors are distances from Q of the best policy that explores as the run does, not from Q*"


def _operator(epsilon: float) -> Operator:
    return Expected(epsilon) if epsilon else BELLMAN


@dataclass(frozen=True)
class ExpectedSarsa(QLearning):
    """Q-learning whose operator has the run's own behaviour: r + g sum_v b(v) Q(y, v) for r + g max_v Q(y, v).

    b is the epsilon-greedy or the uniform behaviour of the sampling, at an epsilon that stays: see `Expected`, against
    whose fixed point errors are measured. A run raises SettingError for other behaviours.
    """

    def own_operator(self, sampling: Any) -> Operator:
        first, last = _rates(self, sampling)
        if first != last:
            expected = "must be one number with ExpectedSarsa, whose operator stays; use sarsa, or q_learning"
            raise SettingError("sampling.epsilon", sampling.epsilon, expected)
        return _operator(last)

    def warnings(self, discount):
        return [_APART]


@dataclass(frozen=True)
class Sarsa(Stateful):
    """Sarsa: Q(x, u) += a (r + g Q(y, u') - Q(x, u)), u' the action that is taken next; r alone where y is terminal.

    A transition is learned from when the next action is known, in the iteration after it, with its own step size: the
    order of the source. The step size is ours. Its errors are measured against Q of the best policy of the last
    exploration rate, see `Expected`; Q* if that is 0.
    """

    needs = ("consecutive", "unbroken")
    modes = ("asynchronous",)

    def own_operator(self, sampling: Any) -> Operator:
        return _operator(_rates(self, sampling)[1])

    def own_step_size(self, discount):
        return RescaledLinear(discount)

    def warnings(self, discount):
        return [f"{_APART}, unless its exploration ends"]

    def init(self, q0):
        # trace: 1 at the pair before.   held: its reward and its step size, 0 if it waits for nothing.
        return {
            "q": q0, "trace": np.zeros_like(q0), "nothing": np.zeros_like(q0), "ones": np.ones_like(q0),
            "held": np.zeros((1, 2)),
        }  # fmt: skip

    def step(self, z, s, c):
        target = z.held[0, 0] + s.discount * s.value(z.q)
        z.q[:] += z.held[0, 1] * z.trace * (target - z.q)
        z.trace[:] = 0.0
        s.add(z.trace, 1.0)
        reward = s.target(z.nothing)
        if s.best(z.ones) > 0:
            z.held[0, 0] = reward
            z.held[0, 1] = c.alpha
        else:
            z.held[0, 1] = 0.0
            s.move(z.q, reward, c.alpha)
