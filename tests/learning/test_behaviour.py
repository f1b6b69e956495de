"""Greedy and epsilon-greedy behaviour: ties, exploration, and a table that never saw a reward."""

import math

import numpy as np
import pytest
import twins
from kernel_cases import LAKE
from scipy.stats import chisquare
from twins import run

from mqlearn.algorithms import QLearning
from mqlearn.errors import SettingError
from mqlearn.learning.metrics import greedy_policies
from mqlearn.problems.environments import frozen_lake
from mqlearn.problems.features import one_hot
from mqlearn.sampling.modes import Markovian


@pytest.mark.parametrize("features", [None, one_hot], ids=["table", "one-hot"])
def test_greedy_behaviour_breaks_ties_at_random(features):
    mdp = frozen_lake("4x4", slippery=False)
    sampling = Markovian(behaviour="epsilon_greedy", epsilon=0.0, time_limit=1)
    learner = twins.learner(mdp, sampling, [0, 1], features=features and features(mdp))
    twins.advance(learner, QLearning(), 1000)
    assert not learner.tables().any()
    first = learner.chain.visits[:, :4]
    assert first.sum() == 2000
    for counts in first:
        assert chisquare(counts).pvalue > 0.001
    assert (first[0] != first[1]).any()


def test_ties_among_some_actions_exclude_the_others():
    mdp = frozen_lake("4x4", slippery=False)
    learner = twins.learner(mdp, Markovian(behaviour="epsilon_greedy", epsilon=0.0, time_limit=1), [0])
    learner.q[0, :4] = [0.0, 0.5, 0.0, 0.5]
    learner.advance(0, 400, np.tile([1.0, 0, 0, 0], (400, 1)))
    left, down, right, up = learner.chain.visits[0, :4]
    assert left == right == 0
    assert chisquare([down, up]).pvalue > 0.001


def test_exploration_falls_linearly_and_then_stays():
    """Share of the greedy action at the start tile, whose table is kept as it is."""
    sampling = Markovian(behaviour="epsilon_greedy", epsilon=(1.0, 0.2, 4000), time_limit=1)
    learner = twins.learner(LAKE, sampling, range(30))
    learner.q[:, 2] = 1.0
    shares = []
    for block in range(6):
        before = learner.chain.visits[:, 2].sum()
        learner.advance(1000 * block, 1000, np.tile([1.0, 0, 0, 0], (1000, 1)))
        shares.append((learner.chain.visits[:, 2].sum() - before) / 30_000)
    epsilon = np.array([0.9, 0.7, 0.5, 0.3, 0.2, 0.2])
    assert shares == pytest.approx(1 - epsilon * 3 / 4, abs=0.015)


def test_exploration_may_fall_like_one_over_the_logarithm():
    sampling = Markovian(behaviour="epsilon_greedy", epsilon="log", time_limit=1)
    learner = twins.learner(LAKE, sampling, range(200))
    learner.q[:, 2] = 1.0
    for first, n in ((0, 1), (1, 100), (101, 1000)):
        before = learner.chain.visits[:, 2].sum()
        learner.advance(first, n, np.tile([1.0, 0, 0, 0], (n, 1)))
        explored = np.mean([min(1.0, 1 / math.log(k + 2)) for k in range(first, first + n)])
        share = (learner.chain.visits[:, 2].sum() - before) / (200 * n)
        assert share == pytest.approx(1 - explored * 3 / 4, abs=4 * math.sqrt(0.25 / (200 * n)))
    with pytest.raises(SettingError, match="log or visits"):
        Markovian(behaviour="epsilon_greedy", epsilon="ln")


def test_exploration_may_fall_like_one_over_the_root_of_the_visits_of_a_state():
    sampling = Markovian(behaviour="epsilon_greedy", epsilon="visits", time_limit=1)  # always in the start
    learner = twins.learner(LAKE, sampling, range(200))
    learner.q[:, 2] = 1.0
    for first, n in ((0, 1), (1, 100), (101, 1000)):
        before = learner.chain.visits[:, 2].sum()
        learner.advance(first, n, np.tile([1.0, 0, 0, 0], (n, 1)))
        explored = np.mean([1 / math.sqrt(k + 1) for k in range(first, first + n)])
        share = (learner.chain.visits[:, 2].sum() - before) / (200 * n)
        assert share == pytest.approx(1 - explored * 3 / 4, abs=4 * math.sqrt(0.25 / (200 * n)))


def test_an_all_zero_table_is_not_evaluated_as_always_left():
    policies = greedy_policies(LAKE, np.zeros((1, 16, 4)))
    np.testing.assert_array_equal(policies[0][~LAKE.terminal], 0.25)
    np.testing.assert_array_equal(policies[0][LAKE.terminal], 0)


def test_a_table_that_never_saw_a_reward_says_so():
    result = run(
        frozen_lake("8x8"), QLearning(), iterations=2000, n_seeds=1, seed=1,
        sampling=Markovian(behaviour="epsilon_greedy", epsilon=0.0),
    )  # fmt: skip
    assert not result.q.any()
    (found,) = (found for found in result.findings if found.code == "no_reward_seen")
    assert found.numbers == {"goals": 0, "chain_steps": 2000, "pairs_visited": result.facts["pairs_visited"]}
    assert result.facts["goals"] == result.facts["rewards_seen"] == 0
    assert 0 < result.facts["pairs_visited"] < 1
    assert result.facts["exploration"] == 0
    assert "not the trajectory" in result.facts["common_random_numbers"]


def test_a_run_that_learned_something_has_no_such_warning():
    result = run(LAKE, QLearning(), iterations=20_000, n_seeds=2, sampling=Markovian(), n_checkpoints=3)
    assert result.warnings == ()
    assert result.facts["goals"] == result.facts["rewards_seen"] > 0
    assert result.facts["chain_steps"] == 40_000
    assert result.visits is not None and result.visits.sum() == 40_000
