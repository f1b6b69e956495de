"""The compiled loops along a chain, on a table, against their plain twins."""

import numpy as np
import pytest
import twins
from kernel_cases import CHAINS, LAKE, MIXED, N, Numbers, assert_same_chain, relative

from mqlearn.algorithms import MomentumQ, MomentumQLinear, NeSA, QLearning, SpeedyQ
from mqlearn.algorithms.step_sizes import Constant, Polynomial
from mqlearn.learning.loop import run, run_together
from mqlearn.sampling.modes import Markovian, Replay


@pytest.mark.parametrize("name", CHAINS)
def test_the_visited_pair_moves_as_in_the_dense_twin(name):
    mdp, sampling = CHAINS[name]
    rule, seed, lanes = MomentumQLinear(beta=0.5, lam=0.9999).with_step_size(Constant(0.1)), 5, [0, 9]
    learner = twins.learner(mdp, sampling, lanes, seed=seed, initial=(0.4, 0.6))
    twins.advance(learner, rule, 1, 4000, 0, N - 4001)
    chain = twins.ChainTwin(mdp, sampling, lanes[1], seed, N)
    q = twins.table_twin(mdp, chain, rule, twins.initial_values(len(mdp.pairs), 0.4, 0.6, seed, lanes[1]))
    np.testing.assert_allclose(learner.q[1], q, rtol=1e-11, atol=1e-13)
    assert_same_chain(learner, 1, chain)


@pytest.mark.parametrize(
    "rule",
    [
        QLearning(),
        SpeedyQ(),
        SpeedyQ("printed"),
        NeSA(),
        MomentumQ(m=10),
        MomentumQ(m=20),
        MomentumQLinear(beta=0.9),
        Numbers(),
    ],
    ids=repr,
)
@pytest.mark.parametrize("clock", ["global", "local"])
def test_every_rule_moves_the_visited_pair(rule, clock):
    mdp, sampling = LAKE, Markovian(clock=clock)
    learner = twins.advance(twins.learner(mdp, sampling, [3], initial=(0.0, 1.0)), rule, 300, 900)
    start = twins.initial_values(len(mdp.pairs), 0.0, 1.0, 0, 3)
    q = twins.table_twin(mdp, twins.ChainTwin(mdp, sampling, 3, 0, 1200), rule, start)
    assert relative(learner.q[0], q) < 1e-11


@pytest.mark.parametrize("behaviour", ["uniform", "epsilon_greedy"])
def test_the_clock_of_a_state_counts_all_its_visits(behaviour):
    """Against a loop of three lines, with N/(n + 1) (Bedaywi et al. 2024); shared samples are the same."""
    sampling = Markovian(clock="state", behaviour=behaviour)
    rule = QLearning().with_step_size(Polynomial(exponent=1.0, scale=0.9))
    learner = twins.advance(twins.learner(MIXED, sampling, [3]), rule, 300, 900)
    chain, q, n = twins.ChainTwin(MIXED, sampling, 3, 0, 1200), np.zeros(len(MIXED.pairs)), np.zeros(MIXED.n_states)
    for k in range(1200):
        pair, y, reward = twins.outcome_of(MIXED, chain.next(k, q), False)
        n[x := MIXED.pairs[pair, 0]] += 1
        q[pair] += 0.9 / n[x] * (reward + MIXED.discount * twins.value(MIXED, q, y) - q[pair])
    np.testing.assert_allclose(learner.q[0], q, rtol=1e-11, atol=1e-14)
    assert_same_chain(learner, 0, chain)
    settings = {"iterations": 500, "n_seeds": 2, "sampling": sampling}
    alone, together = run(MIXED, rule, **settings), run_together(MIXED, [rule, SpeedyQ()], **settings)[0]
    np.testing.assert_array_equal(alone.q, together.q)
    assert alone.facts["clock"] == "state"


def test_the_visited_pair_moves_with_the_mean_reward_where_asked():
    learner = twins.advance(twins.learner(LAKE, Markovian(), [0], mean_reward=True), SpeedyQ(), 1000)
    chain = twins.ChainTwin(LAKE, Markovian(), 0, 0, 1000)
    q = twins.table_twin(LAKE, chain, SpeedyQ(), np.zeros(len(LAKE.pairs)), mean_reward=True)
    assert np.abs(q).max() > 0
    np.testing.assert_allclose(learner.q[0], q, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("rule", [SpeedyQ(), MomentumQ(m=2), QLearning()], ids=repr)
@pytest.mark.parametrize("sampling", [
    Markovian(start="uniform", update="rounds"),
    Markovian(behaviour="epsilon_greedy", epsilon=0.5, start="uniform", update="rounds"),
    Replay(capacity=300, draws=2, start="uniform", update="rounds"),
], ids=["uniform", "epsilon-greedy", "replay"])  # fmt: skip
def test_rounds_move_all_pairs_when_each_was_visited(rule, sampling):
    learner = twins.learner(LAKE, sampling, [0, 4], seed=2, initial=(0.0, 0.1))
    twins.advance(learner, rule, 1, 2500, N - 2501)
    chain = twins.ChainTwin(LAKE, sampling, 4, 2, N)
    q, n_rounds = twins.rounds_twin(LAKE, chain, rule, twins.initial_values(len(LAKE.pairs), 0.0, 0.1, 2, 4))
    assert n_rounds > 5
    assert learner.rounds[1, 0] == n_rounds
    np.testing.assert_allclose(learner.q[1], q, rtol=1e-11, atol=1e-14)
    assert_same_chain(learner, 1, chain)
