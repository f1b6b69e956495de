"""Greedy and epsilon-greedy behaviour: ties, exploration, and a table that never saw a reward."""

import math
from typing import Any

import numpy as np
import pytest
import twins
from kernel_cases import LAKE
from scipy.special import softmax
from scipy.stats import chisquare
from stateful_rules import UNCOMPILED
from twins import run

from mqlearn.algorithms import DoubleQ, QLearning
from mqlearn.algorithms.step_sizes import Constant
from mqlearn.errors import SettingError
from mqlearn.learning.asked_metrics import reward_a_step
from mqlearn.learning.metrics import greedy_policies
from mqlearn.problems.environments import frozen_lake
from mqlearn.problems.features import one_hot
from mqlearn.sampling.modes import Markovian, Replay


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


@pytest.mark.parametrize("power", [0.5, 0.7, 1])
def test_exploration_may_fall_like_a_power_of_the_visits_of_a_state(power):
    # Always in the start.
    sampling = Markovian(behaviour="epsilon_greedy", epsilon="visits", power=power, time_limit=1)
    learner = twins.learner(LAKE, sampling, range(200))
    learner.q[:, 2] = 1.0
    for first, n in ((0, 1), (1, 100), (101, 1000)):
        before = learner.chain.visits[:, 2].sum()
        learner.advance(first, n, np.tile([1.0, 0, 0, 0], (n, 1)))
        explored = np.mean([(k + 1) ** -power for k in range(first, first + n)])
        share = (learner.chain.visits[:, 2].sum() - before) / (200 * n)
        assert share == pytest.approx(1 - explored * 3 / 4, abs=4 * math.sqrt(0.25 / (200 * n)))


def test_a_boltzmann_behaviour_takes_actions_as_often_as_their_exponentials_say():
    """At a table that stays, the temperature falling from 0.5 to 0.25; no value is too large."""
    sampling = Markovian(behaviour="boltzmann", temperature=(0.5, 0.25, 1), time_limit=1)  # always in the start
    for shift, table in ((0.0, [0.1, 0.4, -0.2, 0.3]), (5e5, [0.0, 0.25, 0.5, 0.0]), (-5e5, [0.0, 0.25, 0.5, 0.0])):
        learner = twins.learner(LAKE, sampling, range(20))
        learner.q[:, :4] = shift + np.array(table)
        learner.advance(1, 2000, np.tile([1.0, 0, 0, 0], (2000, 1)))
        expected = 40_000 * softmax(np.array(table) / 0.25)
        assert chisquare(learner.chain.visits[:, :4].sum(axis=0), expected).pvalue > 0.001
    cold = twins.learner(LAKE, Markovian(behaviour="boltzmann", temperature=1e-300, time_limit=1), [0])
    cold.q[:, 1] = 1e-3
    cold.advance(0, 200, np.tile([1.0, 0, 0, 0], (200, 1)))
    assert cold.chain.visits[0, :4].tolist() == [0, 200, 0, 0]
    # As a float, 1 + (1e-17 - 1) is 0: actions that tie are still taken alike.
    fallen = twins.learner(LAKE, Markovian(behaviour="boltzmann", temperature=(1, 1e-17, 1), time_limit=1), [0])
    fallen.advance(1, 400, np.tile([1.0, 0, 0, 0], (400, 1)))
    assert chisquare(fallen.chain.visits[0, :4]).pvalue > 0.001


def test_rules_with_state_act_by_boltzmann_as_four_numbers_do():
    settings: Any = {"iterations": 300, "n_seeds": 3, "q0": (0, 0.2), "step_size": Constant(0.2)}
    hot = {"behaviour": "boltzmann", "temperature": (1.0, 0.05, 200)}
    for features in (None, one_hot(LAKE)):
        for sampling in (Markovian(clock="global", **hot), Replay(clock="global", capacity=40, draws=2, **hot)):
            one, other = (
                run(LAKE, rule, sampling=sampling, features=features, **settings)
                for rule in (QLearning(), UNCOMPILED[0])
            )
            np.testing.assert_array_equal(one.visits, other.visits)
            np.testing.assert_allclose(one.q, other.q, rtol=1e-12, atol=1e-14)
            assert one.facts["temperature"] == 0.05 and "exploration" not in one.facts
    compiled, plain = (
        run(LAKE, rule, sampling=Markovian(**hot), metrics={"paid": reward_a_step}, **settings)
        for rule in (DoubleQ(), Slowly())
    )
    twins.assert_same(compiled, plain)
    uniform = Markovian(behaviour="epsilon_greedy", epsilon=1.0)
    assert (compiled.visits != run(LAKE, DoubleQ(), sampling=uniform, **settings).visits).any()


class Slowly(DoubleQ):
    compiled = False


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
