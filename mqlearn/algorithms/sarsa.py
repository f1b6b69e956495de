"""Sarsa and expected Sarsa: learning the values of the behaviour itself (Sutton, Barto 2018, 6.4 and 6.6)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mqlearn.algorithms.operators import BELLMAN, Boltzmann, Expected, Operator
from mqlearn.algorithms.q_learning import QLearning
from mqlearn.algorithms.stateful import Stateful
from mqlearn.algorithms.step_sizes import RescaledLinear
from mqlearn.errors import SettingError


def _operators(rule: Any, sampling: Any) -> tuple[Operator, Operator]:
    """Those of a behaviour at the start of a run and in the limit. Raises SettingError for one that has none."""
    name = type(rule).__name__
    if sampling.all_pairs or sampling.recorded or not hasattr(sampling, "behaviour"):
        expected = f"has no behaviour of its own, whose values {name} learns; use markovian"
        raise SettingError("sampling", sampling.name, expected)
    if sampling.adaptive:
        if sampling.cooling is not None:
            first, last, _ = sampling.cooling
            return Boltzmann(first), Boltzmann(last)
        first, last, span = sampling.exploration
        return (_expected(first), _expected(last)) if span > 0 else (Expected(1.0), BELLMAN)
    if not isinstance(sampling.behaviour, str):
        expected = f"must be uniform, epsilon_greedy or boltzmann with {name}, whose target is made of the behaviour"
        raise SettingError("sampling.behaviour", "a policy", expected)
    return Expected(1.0), Expected(1.0)


_APART = "errors are distances from Q of the best policy that explores as the run does, not from Q*"


def _expected(epsilon: float) -> Operator:
    return Expected(epsilon) if epsilon else BELLMAN


@dataclass(frozen=True)
class ExpectedSarsa(QLearning):
    """Q-learning whose operator has the run's own behaviour: r + g sum_v b(v) Q(y, v) for r + g max_v Q(y, v).

    b is the behaviour of the sampling: epsilon-greedy or uniform (`Expected`), or Boltzmann (`operators.Boltzmann`), at
    an epsilon or a temperature that stays. Errors are measured against the fixed point of that operator. A run raises
    SettingError for other behaviours.
    """

    def own_operator(self, sampling: Any) -> Operator:
        first, last = _operators(self, sampling)
        if first != last:
            expected = "must be one number with ExpectedSarsa, whose operator stays; use sarsa, or q_learning"
            name = "epsilon" if sampling.cooling is None else "temperature"
            raise SettingError(f"sampling.{name}", getattr(sampling, name), expected)
        return last

    def warnings(self, discount):
        return [_APART]


@dataclass(frozen=True)
class Sarsa(Stateful):
    """Sarsa: Q(x, u) += a (r + g Q(y, u') - Q(x, u)), u' the action that is taken next; r alone where y is terminal.

    A transition is learned from when the next action is known, in the iteration after it, with its own step size: the
    order of the source. The step size is ours. Its errors are measured against Q of the best policy of the last
    exploration rate, see `Expected`; Q* if that is 0. Under a Boltzmann behaviour: as with `ExpectedSarsa`, at the last
    temperature.
    """

    needs = ("consecutive", "unbroken")
    modes = ("asynchronous",)

    def own_operator(self, sampling: Any) -> Operator:
        return _operators(self, sampling)[1]

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
