"""Rules of four numbers with operators: every kernel against literal loops (operators_by_hand)."""

from typing import Any

import numpy as np
import operators_by_hand as by_hand
import pytest
import twins
from operator_cases import LANES, OPERATORS, PLACES, N, Numbers, close, learner, some_features, start_of

import mqlearn as mq
from mqlearn.learners import Linear, start
from mqlearn.learners.operators import on_problem


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("rule", [Numbers(), mq.SpeedyQ(), mq.QLearning()], ids=lambda rule: type(rule).__name__)
def test_all_pairs_at_once_are_the_literal_loop(name, rule):
    mdp, n = by_hand.model(name), 20
    made: Any = start(
        mdp, mq.Synchronous(), None, Linear(), 7, (-0.5, 0.5), False, LANES, None, rule,
        on_problem(by_hand.TABLE[name][0], mdp),
    )  # fmt: skip
    made.advance(0, n, rule.weights(0, n))
    outcomes = twins.synchronous_outcomes(mdp, 7, LANES, n)
    x, u = mdp.pairs.T
    for row, lane in enumerate(LANES):
        q = q_prev = start_of(len(x), int(lane))
        for k, (p, old, s, t) in enumerate(rule.weights(0, n)):
            new = np.empty_like(q)
            for pair, b in enumerate(outcomes[k, :, row]):
                y, r = mdp.successors[x[pair], u[pair], b], mdp.rewards[x[pair], u[pair], b]
                now, before = (by_hand.target(mdp, name, table, pair, y, r) for table in (q, q_prev))
                new[pair] = p * q[pair] + old * q_prev[pair] + s * now + t * before
            q, q_prev = new, q
        close(made.q[row], q)


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("place", [*PLACES, "shared samples"])
def test_the_visited_pair_is_the_literal_loop(name, place):
    mdp, rule, shared = by_hand.model(name), Numbers(), place == "shared samples"
    sampling = PLACES["markovian" if shared else place]
    made = learner(name, sampling, rule, shared=shared)
    for row, lane in enumerate(LANES.tolist()):
        chain, q = twins.ChainTwin(mdp, sampling, lane, 7, N), start_of(len(mdp.pairs), lane)
        q_prev, count = q.copy(), np.zeros(len(q), int)
        for k in range(N):
            pair, y, r = twins.outcome_of(mdp, chain.next(k, q), False)
            p, old, s, t = rule.weights(0, N)[count[pair] if sampling.clock == "local" else k]
            now, before = (by_hand.target(mdp, name, table, pair, y, r) for table in (q, q_prev))
            new = q.copy()
            new[pair] = p * q[pair] + old * q_prev[pair] + s * now + t * before
            q, q_prev = new, q
            count[pair] += 1
        close(made.q[row], q)


@pytest.mark.parametrize("name", ["relaxed", "relative", "robust", "mellowmax"])
def test_rounds_are_the_literal_loop(name):
    mdp, rule, n = by_hand.model(name), Numbers(), 1500
    sampling = mq.IID(restart_probability=0.1, update="rounds")
    made: Any = start(
        mdp, sampling, None, Linear(), 7, (-0.5, 0.5), False, LANES[:1], None, rule,
        on_problem(by_hand.TABLE[name][0], mdp),
    )  # fmt: skip
    made.advance(0, n, rule.weights(*made.rows(0, n)))
    chain, q = twins.ChainTwin(mdp, sampling, 0, 7, n), start_of(len(mdp.pairs), 0)
    q_prev, seen, rounds = q.copy(), {}, 0
    wanted = set(np.flatnonzero(mdp.counted[*mdp.pairs.T]).tolist())
    for k in range(n):
        pair, y, r = twins.outcome_of(mdp, chain.next(k, q), False)
        seen.setdefault(pair, []).append([by_hand.target(mdp, name, table, pair, y, r) for table in (q, q_prev)])
        if wanted <= seen.keys():
            p, old, s, t = rule.weights(rounds, rounds + 1)[0]
            new = q.copy()
            for j, both in seen.items():
                now, before = np.mean(both, axis=0)
                new[j] = p * q[j] + old * q_prev[j] + s * now + t * before
            q, q_prev, seen, rounds = new, q, {}, rounds + 1
    assert rounds > 1
    close(made.q[0], q)


@pytest.mark.parametrize("name", by_hand.LINEAR)
@pytest.mark.parametrize("linear", [Linear(), Linear("same_sample"), Linear(projection=0.8)])
@pytest.mark.parametrize("place", ["markovian", "epsilon-greedy"])
def test_linear_features_are_the_literal_loop(name, linear, place):
    mdp, rule, sampling = by_hand.model(name), Numbers(), PLACES[place]
    features = some_features(mdp)
    phi = features.matrix().toarray()
    made = learner(name, sampling, rule, features=features, linear=linear)
    for row, lane in enumerate(LANES.tolist()):
        chain, theta = twins.ChainTwin(mdp, sampling, lane, 7, N), start_of(4, lane)
        change, g_prev = 0 * theta, None
        for k, (_, old, s, t) in enumerate(rule.weights(0, N)):
            pair, y, r = twins.outcome_of(mdp, chain.next(k, phi @ theta), False)

            def gradient(at, pair=pair, y=y, r=r):
                return (phi[pair] @ at - by_hand.target(mdp, name, phi @ at, pair, y, r)) * phi[pair]

            g = gradient(theta)
            before = gradient(theta - change) if linear.previous_gradient == "same_sample" else g_prev
            before = g if before is None else before
            change = -(old + t) * change - s * g - t * before
            new = theta + change
            if linear.projection is not None and np.linalg.norm(new) > linear.projection:
                new *= linear.projection / np.linalg.norm(new)
                change = new - theta
            theta, g_prev = new, g
        close(made.theta[row], theta)
