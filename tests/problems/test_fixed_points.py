"""theta* against other ways to it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from policies_by_hand import anywhere, uniform
from random_mdps import mdps
from twins import success_within

from mqlearn.errors import SettingError
from mqlearn.problems.encodings import fourier, tile_coding
from mqlearn.problems.environments import frozen_lake, frozen_lake_blocks
from mqlearn.problems.feature_rows import Features
from mqlearn.problems.features import aggregation, from_matrix, one_hot
from mqlearn.problems.fixed_points import mean_gradient, stationary_distribution, theta_star
from mqlearn.problems.mdp import FiniteMDP, greedy
from mqlearn.problems.solvers import optimal

slow_machine = settings(deadline=None)
restarts = st.sampled_from([1e-3, 0.1, 1.0])


def corridor(rewards: tuple[float, float] = (0.0, 1.0), discount: float = 0.5) -> FiniteMDP:
    """States 0 -> 1 -> the terminal 2, two actions each that do the same; rewards of leaving 0 and 1."""
    successors = np.array([1, 2, 2])[:, None, None] + np.zeros((3, 2, 1), int)
    paid = np.array([*rewards, 0.0])[:, None, None] + np.zeros((3, 2, 1))
    end = np.array([False, False, True])
    start = np.array([1.0, 0.0, 0.0])
    return FiniteMDP(successors, np.ones((3, 2, 1)), paid, end, np.ones((3, 2), bool), start, discount, end, "corridor")


@slow_machine
@given(mdps(), restarts)
def test_with_a_column_for_each_pair_theta_star_is_the_optimum(mdp, restart):
    mu = stationary_distribution(mdp, uniform(mdp), start=anywhere(mdp), restart_probability=restart)
    point = theta_star(mdp, one_hot(mdp), mu)
    optimum = optimal(mdp)
    assert point.exists and point.used.all()
    assert point.n_roots == 1
    assert point.distance <= 1e-10 * max(1, np.abs(optimum.q).max())
    assert point.residual <= 1e-13 * max(1, np.abs(optimum.q).max())
    assert np.allclose(point.theta, optimum.q[tuple(mdp.pairs.T)], rtol=0, atol=1e-10)


@slow_machine
@given(mdps(discounts=(0.3, 0.9)), st.integers(0, 2**32 - 1))
def test_features_that_can_hold_the_optimum_find_it(mdp, seed):
    n = len(mdp.pairs)
    basis = np.linalg.qr(np.random.default_rng(seed).normal(size=(n, n)))[0]
    matrix = np.zeros((mdp.n_states, mdp.n_actions, n))
    matrix[tuple(mdp.pairs.T)] = basis
    mu = mdp.learned / n
    point = theta_star(mdp, from_matrix(mdp, matrix), mu)
    assert point.exists
    assert point.distance <= 1e-8


def test_aggregated_states_are_the_optimum_of_the_aggregated_model():
    lake = frozen_lake("8x8", discount=0.95, success_rate=0.8)
    mu = stationary_distribution(lake, uniform(lake), start=anywhere(lake))
    block = np.arange(64) // 8 // 2 * 4 + np.arange(64) % 8 // 2
    p, r = np.zeros((17, 4, 17)), np.zeros((17, 4, 17))  # state 16 is the end
    for x, u in lake.pairs.tolist():
        weight = mu[x, u] / mu[block == block[x], u].sum()
        for y, q, paid in zip(lake.successors[x, u], lake.probabilities[x, u], lake.rewards[x, u], strict=True):
            z = 16 if lake.terminal[y] else block[y]
            p[block[x], u, z] += weight * q
            r[block[x], u, z] += weight * q * paid
    p[16, :, 16] = 1
    mean = r.sum(2, keepdims=True) + np.zeros(p.shape)
    end = np.arange(17) == 16
    small = FiniteMDP(
        np.arange(17) + np.zeros(p.shape, int),
        np.where(end[:, None, None], np.eye(17)[16], p),
        np.where(end[:, None, None], 0, mean),
        end,
        np.ones((17, 4), bool),
        np.eye(17)[0],
        0.95,
        end,
        "blocks",
    )
    point = theta_star(lake, aggregation(lake, tile=2), mu)
    assert point.exists and point.n_roots == 1
    assert np.allclose(point.theta.reshape(16, 4), optimal(small).q[:16], rtol=0, atol=1e-12)


@slow_machine
@given(mdps(), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_the_mean_gradient_is_the_expectation_of_the_sampled_one(mdp, d, seed):
    rng = np.random.default_rng(seed)
    matrix, theta = rng.normal(size=(*mdp.learned.shape, d)), rng.normal(size=d)
    mu = rng.random(mdp.learned.shape) * mdp.learned
    expected = np.zeros(d)
    for (x, u, b), y in np.ndenumerate(mdp.successors):
        ahead = [matrix[y, v] @ theta for v in range(mdp.n_actions) if mdp.learned[y, v]]
        target = mdp.rewards[x, u, b] + mdp.discount * max(ahead, default=0.0)
        expected += mu[x, u] * mdp.probabilities[x, u, b] * (matrix[x, u] @ theta - target) * matrix[x, u]
    found = mean_gradient(mdp, from_matrix(mdp, matrix, norm="none"), mu, theta)
    assert np.allclose(found, expected, rtol=0, atol=1e-12)


def one_feature(next_state: tuple[float, float], reward: float) -> tuple[FiniteMDP, Features, np.ndarray]:
    """The corridor with one feature: 1 in state 0, the only one sampled, and `next_state` in state 1."""
    mdp = corridor((reward, 0.0))
    matrix = np.array([[1.0, 1.0], next_state, [0.0, 0.0]])[:, :, None]
    return mdp, from_matrix(mdp, matrix, norm="none"), np.array([[0.5, 0.5], [0, 0], [0, 0]])


def test_all_roots_are_counted():
    # gbar = theta + 1 - 2 |theta|
    mdp, features, mu = one_feature((4.0, -4.0), reward=-1.0)
    point = theta_star(mdp, features, mu, starts=10)
    assert point.exists and point.n_roots == 2
    assert min(abs(point.theta[0] - 1), abs(point.theta[0] + 1 / 3)) < 1e-14


@pytest.mark.parametrize(
    ("next_state", "reward", "least"),
    [
        ((4.0, -4.0), 1.0, 1.0),  # gbar = theta - 1 - 2 |theta| < 0, regular systems with solutions on the wrong side
        ((2.0, 2.0), 1.0, 1.0),  # gbar = -1, a singular system
    ],
)
def test_where_there_is_no_root_none_is_given(next_state, reward, least):
    mdp, features, mu = one_feature(next_state, reward)
    point = theta_star(mdp, features, mu)
    assert not point.exists
    assert point.n_roots == 0
    assert np.isnan(point.theta).all() and np.isnan(point.distance)
    assert least <= point.residual < np.inf


def test_shorter_steps_find_a_root_that_policy_iteration_circles():
    lake = frozen_lake_blocks(repeat=2, success_rate=0.8, discount=0.95)
    waves = fourier(lake, order=4)
    assert isinstance(waves, Features)
    mu = stationary_distribution(lake, uniform(lake), start=anywhere(lake))
    point = theta_star(lake, waves, mu, starts=2)
    assert point.exists
    assert np.abs(mean_gradient(lake, waves, mu, point.theta)).max() == point.residual < 1e-14


def test_columns_that_are_never_sampled_stay_and_are_seen_by_the_maximum():
    mdp = corridor()
    first_only = np.array([[1.0, 0], [1, 0], [1, 0]])
    mu = stationary_distribution(mdp, first_only, start=mdp.start)
    low, high = (theta_star(mdp, one_hot(mdp), mu, theta0=theta0) for theta0 in (0.5, 3.0))
    assert np.array_equal(low.used, [True, False, True, False])
    assert np.allclose(low.theta, [0.5, 0.5, 1.0, 0.5])
    assert np.allclose(high.theta, [1.5, 3.0, 1.0, 3.0])


def test_dependent_columns_end_where_learning_from_the_same_start_ends():
    lake = frozen_lake(discount=0.5)
    coded = tile_coding(lake, tilings=2, tiles=2)
    assert isinstance(coded, Features)
    mu = lake.learned / len(lake.pairs)
    theta = start = np.random.default_rng(0).uniform(-1, 1, coded.n_features)
    for _ in range(4000):
        theta = theta - 5.0 * mean_gradient(lake, coded, mu, theta)
    point = theta_star(lake, coded, mu, theta0=start)
    assert coded.rank() < point.used.sum() < coded.n_features
    assert point.exists and point.n_roots == 1
    assert np.allclose(point.theta, theta, rtol=0, atol=1e-9)


def test_the_second_figure_has_one_fixed_point_with_a_good_policy():
    lake = frozen_lake_blocks(repeat=16, success_rate=0.8, discount=0.99)
    features = aggregation(lake, tile=4)
    mu = stationary_distribution(lake, uniform(lake), start=anywhere(lake))
    point = theta_star(lake, features, mu)
    assert point.exists and point.n_roots == 1
    assert point.used.sum() == 3392
    assert point.residual < 1e-17
    reached = success_within(lake, greedy(lake, features.table(lake, point.theta)), 2048)
    assert 150 * anywhere(lake) @ reached == pytest.approx(148.5, abs=0.5)


def lake_with(**values: Any) -> Callable:
    lake = frozen_lake()
    given: dict[str, Any] = {"behaviour": uniform(lake), "start": lake.start} | values
    return lambda: stationary_distribution(lake, **given)


def theta_with(**values: Any) -> Callable:
    lake = frozen_lake()
    given: dict[str, Any] = {"features": one_hot(lake), "mu": lake.learned / lake.learned.sum()} | values
    return lambda: theta_star(lake, **given)


@pytest.mark.parametrize(
    ("call", "setting"),
    [
        (lake_with(start=np.ones(16)), "sampling.start"),
        (lake_with(start=np.ones(4) / 4), "sampling.start"),
        (lake_with(start=np.eye(16)[15]), "sampling.start"),
        (lake_with(behaviour=np.ones(16) / 16), "sampling.behaviour"),
        (lake_with(behaviour=np.ones((16, 4))), "policy[0]"),
        (lake_with(restart_probability=1.5), "sampling.restart_probability"),
        (lake_with(restart_probability=-0.1), "sampling.restart_probability"),
        (lake_with(restart_probability=1e-12), "sampling.restart_probability"),
        (lake_with(time_limit=0), "sampling.time_limit"),
        (lake_with(time_limit=2.5), "sampling.time_limit"),
        (theta_with(mu=np.ones((16, 4)) / 64), "mu"),
        (theta_with(mu=np.ones(16) / 16), "mu"),
        (theta_with(starts=0), "starts"),
    ],
)
def test_bad_settings_are_named(call, setting):
    with pytest.raises(SettingError) as caught:
        call()
    assert caught.value.setting == setting
