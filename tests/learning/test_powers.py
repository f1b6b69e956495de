"""Values, returns and successes of policies of many states, by powers of their chains, against ways of their own."""

import dataclasses

import numpy as np
import pytest
from random_mdps import random_mdp
from twins import success_within

import mqlearn as mq
from mqlearn import kernels
from mqlearn.learning.metrics import Measure
from mqlearn.learning.policy_values import PolicyValues, greedy_policies
from mqlearn.problems.mdp import FiniteMDP
from mqlearn.problems.solvers import optimal, policy_values_at_start
from mqlearn.sampling.evaluation import Evaluation

LAKE = mq.frozen_lake_blocks(4, "4x4", discount=0.95)  # 256 states: too many for elimination


def tables(mdp: FiniteMDP) -> np.ndarray:
    """Tables of policies that go to the goal, that tie everywhere, that never arrive, of blocks, and of noise."""
    rng = np.random.default_rng(3)
    q = np.zeros((6, mdp.n_states, mdp.n_actions))
    q[0] = optimal(mdp).q
    q[2, :, 0] = 1.0  # to the left, for ever
    q[3:5] = rng.integers(3, size=(2, *mdp.successors.shape[:2]))
    q[5] = np.repeat(rng.random((mdp.n_states // 4, mdp.n_actions)), 4, axis=0)  # four side by side
    return q


@pytest.mark.parametrize("success_rate", [1 / 3, 0.8, 1.0])
@pytest.mark.parametrize("slippery", [True, False])
def test_values_are_those_of_the_sparse_solver(success_rate, slippery):
    mdp = mq.frozen_lake_blocks(4, "4x4", discount=0.95, slippery=slippery, success_rate=success_rate)
    q = tables(mdp)
    found = PolicyValues(mdp).at_start(q)
    expected = policy_values_at_start(mdp, greedy_policies(mdp, q))
    assert found == pytest.approx(expected, rel=1e-12, abs=0)
    assert expected.max() > 1e-3 and found[2] == 0.0


@pytest.mark.parametrize("limit", [0, 1, 64, 100, 3000])
def test_successes_are_those_of_a_literal_loop_and_come_with_the_values_in_one_pass(limit):
    q, values = tables(LAKE), PolicyValues(LAKE)
    reached = np.stack([success_within(LAKE, policy, limit) for policy in greedy_policies(LAKE, q)])
    at_start, success = values.at_start_and_success(q, limit)
    assert success["success_probability"] == pytest.approx(reached @ LAKE.start, rel=1e-12, abs=1e-25)
    assert success["success_uniform"] == pytest.approx(reached[:, ~LAKE.terminal].mean(axis=1), rel=1e-12)
    alone = values.success(q, limit)
    for name, one in success.items():
        np.testing.assert_array_equal(one, alone[name])
    assert at_start == pytest.approx(values.at_start(q), rel=1e-13, abs=1e-25)


@pytest.mark.parametrize("rewards", [(1, 0, 0), (1, -0.5, -0.01), (2, 0, 0)])
def test_where_other_moves_are_paid_values_do_not_follow_from_successes(rewards):
    mdp = mq.frozen_lake_blocks(4, "4x4", discount=0.9, rewards=rewards)
    q = tables(mdp)
    values, success = PolicyValues(mdp).at_start_and_success(q, 50)
    assert values == pytest.approx(policy_values_at_start(mdp, greedy_policies(mdp, q)), rel=1e-12, abs=0)
    assert (success["success_uniform"] <= 1).all()


@pytest.mark.parametrize("limit", [0, 1, 200])
@pytest.mark.parametrize("costs", [(1, 0, 0), (1, -0.5, -0.01)])
def test_returns_one_by_one_have_the_bits_of_eight_at_a_time(limit, costs):
    lake = mq.frozen_lake_blocks(4, "4x4", discount=0.95, rewards=costs)
    graph = random_mdp(5, 150, 3, 4, 0.9, "mixed")
    for mdp in (lake, graph):
        values = PolicyValues(mdp)
        q = tables(mdp) if mdp is lake else np.random.default_rng(0).integers(3, size=(9, 150, 3)).astype(float)
        pairs = values.of_pairs(q)
        eight = kernels.expected_returns(pairs, values.expectations, limit)
        np.testing.assert_array_equal(kernels.returns_of_many(pairs, values.expectations, limit), eight)
        assert limit < 200 or np.abs(eight).max() > 0


def test_episodes_have_the_same_numbers_whether_what_they_draw_is_kept_or_not():
    q, lanes = tables(LAKE), np.arange(6, dtype=np.uint32)
    settings = {"evaluation": Evaluation(episodes=40, time_limit=150), "seed": 7}
    keeping, forgetting = (Measure(LAKE, optimal(LAKE), **settings, n_seeds=n) for n in (6, 0))
    for some in (q, q[::-1], q[[5, 5, 0, 0, 1, 1]]):  # shorter and longer episodes than before
        kept, anew = keeping.returns(some, lanes), forgetting.returns(some, lanes)
        for kind in ("return_uniform", "return_start"):
            np.testing.assert_array_equal(kept[kind], anew[kind])
            assert kept[kind].max() > 0
        fresh = keeping.returns(some, lanes, 3), forgetting.returns(some, lanes, 3)
        np.testing.assert_array_equal(fresh[0]["return_uniform"], fresh[1]["return_uniform"])
        assert (fresh[0]["return_uniform"] != kept["return_uniform"]).any()


def test_a_goal_that_does_not_end_is_reached_again_and_again():
    """A ring of 200 states, entered at its goal every 200 moves: V = g^198 / (1 - g^200) from the start."""
    n, discount = 200, 0.99
    transitions, rewards = np.zeros((n, 1, n)), np.zeros((n, 1, n))
    for x in range(n):
        transitions[x, 0, (x + 1) % n] = 1
        rewards[x, 0, (x + 1) % n] = float((x + 1) % n == n - 1)
    ring = mq.from_arrays(transitions, rewards, discount=discount, start=np.eye(n)[0])
    ring = dataclasses.replace(ring, goal=np.arange(n) == n - 1)
    result = mq.run(ring, mq.QLearning(), iterations=20, n_seeds=2)
    np.testing.assert_allclose(result.curves["policy_value"][:, -1], discount**198 / (1 - discount**200), rtol=1e-12)
    np.testing.assert_allclose(result.curves["value_gap"][:, -1], 0, atol=1e-12)
