"""Rules with state of their own and operators: every verb against literal loops (operators_by_hand)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import operators_by_hand as by_hand
import pytest
import twins
from operator_cases import LANES, OPERATORS, PLACES, N, Plain, close, learner, some_features, start_of

import mqlearn as mq
from mqlearn.algorithms.rule import replaced
from mqlearn.algorithms.stateful import Stateful
from mqlearn.learners import Linear, start, with_state
from mqlearn.learners.operators import on_problem


@dataclass(frozen=True)
class TwoTables(Stateful):
    """Two tables: a chooses for the target of b; b moves to a's target and some of a's value there."""

    compiled: bool = True  # type: ignore  # a setting here, a constant of the class elsewhere

    def init(self, q0):
        return {"a": q0, "b": 0.5 * q0}

    def step(self, z, s, c):
        s.move(z.a, s.target(z.b, z.a), c.alpha)
        s.move(z.b, s.target(z.a) + 0.1 * s.best(z.a), c.alpha)


def goal_of_b(mdp, name: str, a, pair: int, y: int, r: float) -> float:
    """What table b moves to."""
    edges = mdp.pair_offsets
    v = by_hand.TABLE[name][1].v(a[edges[y] : edges[y + 1]].tolist()) if edges[y] < edges[y + 1] else 0.0
    return by_hand.target(mdp, name, a, pair, y, r) + 0.1 * v


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("compiled", [True, False])
def test_verbs_of_one_transition_are_the_literal_loop(name, compiled):
    mdp, rule = by_hand.model(name), TwoTables(compiled).at(0.9)
    sampling = PLACES["markovian"]
    made = learner(name, sampling, rule)
    for row, lane in enumerate(LANES.tolist()):
        chain, a = twins.ChainTwin(mdp, sampling, lane, 7, N), start_of(len(mdp.pairs), lane)
        b = 0.5 * a
        for k in range(N):
            pair, y, r = twins.outcome_of(mdp, chain.next(k, a), False)
            alpha = 1 / (k + 1)
            a[pair] += alpha * (by_hand.target(mdp, name, b, pair, y, r, by=a) - a[pair])
            b[pair] += alpha * (goal_of_b(mdp, name, a, pair, y, r) - b[pair])
        close(made.state["a"][row], a)
        close(made.state["b"][row], b)


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("compiled", [True, False])
def test_verbs_of_all_pairs_are_the_literal_loop(name, compiled):
    mdp, n = by_hand.model(name), 12
    rule = TwoTables(compiled).at(0.9)
    made: Any = start(
        mdp, mq.Synchronous(), None, Linear(), 7, (-0.5, 0.5), False, LANES[:1], None, rule,
        on_problem(by_hand.TABLE[name][0], mdp),
    )  # fmt: skip
    made.advance(0, n, rule.weights(0, n))
    outcomes = twins.synchronous_outcomes(mdp, 7, LANES[:1], n)[..., 0]
    x, u = mdp.pairs.T
    a = start_of(len(x), 0)
    b = 0.5 * a
    for k in range(n):
        alpha, ahead = 1 / (k + 1), mdp.successors[x, u, outcomes[k]]
        paid, pairs = mdp.rewards[x, u, outcomes[k]], range(len(x))
        to = np.array([by_hand.target(mdp, name, b, j, ahead[j], paid[j], by=a) for j in pairs])
        a = a + alpha * (to - a)
        b = b + alpha * (np.array([goal_of_b(mdp, name, a, j, ahead[j], paid[j]) for j in pairs]) - b)
    close(made.state["a"][0], a)
    close(made.state["b"][0], b)


@pytest.mark.parametrize("name", by_hand.LINEAR)
@pytest.mark.parametrize("compiled", [True, False])
def test_verbs_with_linear_features_are_the_literal_loop(name, compiled):
    mdp, rule = by_hand.model(name), TwoTables(compiled).at(0.9)
    sampling = PLACES["markovian"]
    features = some_features(mdp)
    phi = features.matrix().toarray()
    made = learner(name, sampling, rule, features=features)
    chain, a = twins.ChainTwin(mdp, sampling, 0, 7, N), start_of(4, 0)
    b = 0.5 * a
    for k in range(N):
        pair, y, r = twins.outcome_of(mdp, chain.next(k, phi @ a), False)
        alpha = 1 / (k + 1)
        to = by_hand.target(mdp, name, phi @ b, pair, y, r, by=phi @ a)
        a = a + alpha * (to - phi[pair] @ a) * phi[pair]
        b = b + alpha * (goal_of_b(mdp, name, phi @ a, pair, y, r) - phi[pair] @ b) * phi[pair]
    close(made.state["a"][0], a)


@pytest.mark.parametrize("name", [name for name in OPERATORS if name != "bellman"])
@pytest.mark.parametrize("place", ["synchronous", "markovian"])
def test_the_mean_of_a_minibatch_is_the_same_compiled_and_plain(name, place):
    """Of three draws at a time: the compiled form adds them in the order of the plain one."""
    rule = mq.minibatch(mq.SpeedyQ(), 3)
    sampling, made = PLACES.get(place, mq.Synchronous()), []
    for compiled in (True, False):
        own = replaced(with_state(rule, None, Linear()), compiled=compiled).at(0.9)
        mdp = by_hand.model(name)
        one: Any = start(
            mdp, sampling, None, Linear(), 7, (-0.5, 0.5), False, LANES, None, own,
            on_problem(by_hand.TABLE[name][0], mdp),
        )  # fmt: skip
        one.advance(0, 20, own.weights(0, 20))
        made.append(one.state["q"])
    close(*made)


@pytest.mark.parametrize("name", [name for name in OPERATORS if name not in ("bellman", "relative")])
@pytest.mark.parametrize("place", ["synchronous", "epsilon-greedy", "replay"])
def test_q_learning_with_state_is_that_of_four_numbers(name, place):
    """With Bellman's operator, whose loops are others, rules are compared in `algorithms/test_stateful_rules.py`."""
    settings: dict[str, Any] = {
        "operator": by_hand.TABLE[name][0], "iterations": 200, "n_seeds": 3, "seed": 5, "n_checkpoints": 6,
        "sampling": PLACES.get(place), "q0": (0, 0.1), "n_workers": 1,
    }  # fmt: skip
    four, own = (mq.run(by_hand.model(name), rule, **settings) for rule in (mq.QLearning(), Plain()))
    close(own.q, four.q)  # type: ignore  # tables: there are no features
    close(own.curves["q_error"], four.curves["q_error"])
