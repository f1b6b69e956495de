"""Learners under operators, and rules with and without state, that are compared with literal loops."""

from typing import Any

import numpy as np
import operators_by_hand as by_hand
import twins

import mqlearn as mq
from mqlearn.algorithms.rule import Rule
from mqlearn.algorithms.stateful import Stateful
from mqlearn.learners import Linear, shared_samples, start
from mqlearn.learners.operators import on_problem
from mqlearn.problems.features import from_matrix

N, LANES = 60, np.array([0, 5], np.uint32)
OPERATORS = list(by_hand.TABLE)
PLACES: dict[str, Any] = {
    "markovian": mq.Markovian(restart_probability=0.1, clock="global"),
    "local clock": mq.Markovian(restart_probability=0.1, clock="local"),
    "epsilon-greedy": mq.Markovian(behaviour="epsilon_greedy", epsilon=0.4, restart_probability=0.1, clock="global"),
    "replay": mq.Replay(warm_up=20, draws=2, capacity=15, restart_probability=0.1, clock="global"),
    "iid": mq.IID(restart_probability=0.1, clock="global"),
}


class Numbers(Rule):
    """Four numbers that change with k, none of them 0."""

    def update(self, k, q, q_prev, target, target_prev):
        a = 0.3 + 0.4 / (k + 1)
        return (1.2 - a) * q - 0.1 * q_prev + 0.8 * a * target + (0.2 * a - 0.1) * target_prev


class Plain(Stateful):
    """Q-learning, as a rule with state."""

    def init(self, q0):
        return {"q": q0}

    def step(self, z, s, c):
        s.move(z.q, s.target(z.q), c.alpha)


def learner(name: str, sampling: Any, rule: Any, *, features=None, linear=None, shared=False) -> Any:
    mdp, operator = by_hand.model(name), by_hand.TABLE[name][0]
    common = (mdp, sampling, features, linear or Linear(), 7)
    samples = shared_samples(*common, False, LANES) if shared else None
    made = start(*common, (-0.5, 0.5), False, LANES, samples, rule, on_problem(operator, mdp, features))
    weights = rule.weights(*made.rows(0, N))
    if samples is not None:
        samples.draw(N)
    made.advance(0, N, weights)
    return made


def start_of(n: int, lane: int) -> np.ndarray:
    return twins.initial_values(n, -0.5, 0.5, 7, lane)


def some_features(mdp) -> Any:
    """Four of them, of which every pair has all."""
    return from_matrix(mdp, np.random.default_rng(0).uniform(-1, 1, (mdp.n_states, mdp.n_actions, 4)))


def close(found: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
