"""The return that every run logs: exact where there is a model, measured the same way whatever is beside it."""

import gymnasium
import numpy as np
import pytest
from random_mdps import random_mdp
from twins import assert_same

import mqlearn as mq
from mqlearn.learning.metrics import Measure, greedy_policies
from mqlearn.problems.mdp import FiniteMDP
from mqlearn.problems.solvers import optimal
from mqlearn.sampling.evaluation import Evaluation

LAKE = mq.frozen_lake("4x4", rewards=(1, -0.5, -0.01))


def by_hand(mdp: FiniteMDP, policy: np.ndarray, limit: int) -> float:
    """The mass of each state after each move, times the mean reward of what is done there."""
    mass, total = mdp.start.copy(), 0.0
    for _ in range(limit):
        now, mass = mass, np.zeros(mdp.n_states)
        for x, u in mdp.pairs:
            taken = now[x] * policy[x, u]
            total += taken * mdp.mean_rewards[x, u]
            np.add.at(mass, mdp.successors[x, u], taken * mdp.probabilities[x, u])
    return float(total)


@pytest.mark.parametrize("limit", [1, 2, 30])
@pytest.mark.parametrize("seed", range(4))
def test_it_is_the_sum_of_rewards_along_the_distribution_of_states(seed, limit):
    mdp = random_mdp(seed, 9, 3, 3, 0.9, "mixed")
    q = np.random.default_rng(seed).integers(2, size=(4, 9, 3)).astype(float)  # with ties
    expected = [by_hand(mdp, policy, limit) for policy in greedy_policies(mdp, q)]
    assert Measure(mdp, optimal(mdp), limit=limit).expected_returns(q) == pytest.approx(expected, rel=1e-12, abs=1e-14)


def test_greedy_episodes_scatter_around_it():
    q = np.stack([optimal(LAKE).q] * 8)
    measure = Measure(LAKE, optimal(LAKE), None, Evaluation(episodes=2000, start="start", time_limit=40), limit=40)
    sampled = measure.returns(q, np.arange(8, dtype=np.uint32))["return_start"] / 2000
    exact = measure.expected_returns(q)[0]
    assert abs(sampled.mean() - exact) < 4 * sampled.std() / np.sqrt(8)
    assert sampled.std() < 0.05


@pytest.mark.parametrize("sampling", [mq.Synchronous(), mq.Markovian(), mq.IID()])
def test_every_run_logs_it_right_after_the_error_and_at_the_end(sampling):
    result = mq.run(LAKE, mq.QLearning(), iterations=2000, n_seeds=3, sampling=sampling)
    assert list(result.curves)[:2] == ["q_error", "expected_return"]
    curve = result.curves["expected_return"]
    assert 40 <= np.isfinite(curve[0]).sum() <= 43
    limit = Evaluation().limit(LAKE)
    assert result.q is not None
    assert curve[:, -1] == pytest.approx([by_hand(LAKE, one, limit) for one in greedy_policies(LAKE, result.q)])
    assert np.isfinite(curve[:, 0]).all()


def test_it_does_not_depend_on_workers_and_seeds_and_changes_no_other_number():
    runs = [mq.run(LAKE, mq.SpeedyQ(), iterations=500, n_seeds=n, n_workers=w) for n, w in ((20, 1), (20, 3), (5, 2))]
    assert_same(runs[0], runs[1])
    np.testing.assert_array_equal(runs[0].curves["expected_return"][:5], runs[2].curves["expected_return"])
    short = mq.run(LAKE, mq.SpeedyQ(), iterations=500, n_seeds=5, evaluation=Evaluation(time_limit=2))
    assert (short.curves["expected_return"] <= runs[2].curves["expected_return"] + 1)[:, -1].all()
    np.testing.assert_array_equal(short.curves["q_error"], runs[2].curves["q_error"])


@pytest.mark.parametrize(("repeat", "columns"), [(2, 3), (9, 1)])
def test_on_large_maps_it_is_measured_where_that_is_affordable(repeat, columns):
    mdp = mq.frozen_lake_blocks(repeat, discount=0.9)
    result = mq.run(mdp, mq.QLearning(), iterations=40, n_seeds=2, evaluation=Evaluation(time_limit=20))
    finite = np.isfinite(result.curves["expected_return"])
    assert finite.sum(axis=1).tolist() == [columns, columns]
    assert finite[:, -1].all()


def test_without_a_model_it_is_the_mean_of_greedy_episodes():
    env = mq.simulator(gymnasium.make("MountainCar-v0"))
    result = mq.run(
        env, mq.QLearning(), iterations=20, n_seeds=2, sampling=mq.Markovian(), features=mq.tile_coding(env),
        n_checkpoints=2, evaluation=Evaluation(episodes=3, time_limit=30),
    )  # fmt: skip
    assert next(iter(result.curves)) == "expected_return"
    np.testing.assert_array_equal(result.curves["expected_return"], result.curves["return_start"] / 3)
