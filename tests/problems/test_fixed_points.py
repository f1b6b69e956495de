"""The distribution of the samples against chains written out, and theta* against other ways to it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_mdps import mdps
from twins import success_within

import mqlearn as mq
from mqlearn.errors import SettingError
from mqlearn.problems import fixed_points, sweeps
from mqlearn.problems.encodings import fourier, tile_coding
from mqlearn.problems.environments import frozen_lake, frozen_lake_blocks
from mqlearn.problems.feature_rows import Features
from mqlearn.problems.features import aggregation, from_matrix, one_hot
from mqlearn.problems.fixed_points import mean_gradient, stationary_distribution, theta_star
from mqlearn.problems.mdp import FiniteMDP, greedy
from mqlearn.problems.solvers import optimal

slow_machine = settings(deadline=None)
restarts = st.sampled_from([1e-3, 0.1, 1.0])


def uniform(mdp: FiniteMDP) -> np.ndarray:
    """(S, A): the uniform policy."""
    return mdp.learned / np.maximum(mdp.learned.sum(1, keepdims=True), 1)


def anywhere(mdp: FiniteMDP) -> np.ndarray:
    """(S,): uniform over the states that are not terminal."""
    return ~mdp.terminal / np.count_nonzero(~mdp.terminal)


def random_policy(mdp: FiniteMDP, seed: int) -> np.ndarray:
    share = np.random.default_rng(seed).random(mdp.learned.shape) * mdp.learned
    return share / np.maximum(share.sum(1, keepdims=True), 1e-300)


def moves(mdp: FiniteMDP, behaviour: np.ndarray) -> np.ndarray:
    """(S, S) transition matrix of a policy, with empty rows at terminal states."""
    p = np.zeros((mdp.n_states, mdp.n_states))
    for (x, u, b), y in np.ndenumerate(mdp.successors):
        if mdp.learned[x, u]:
            p[x, y] += behaviour[x, u] * mdp.probabilities[x, u, b]
    return p


@slow_machine
@given(mdps(), restarts, st.integers(0, 2**32 - 1))
def test_the_distribution_is_stationary_for_the_chain_with_restarts(mdp, restart, seed):
    behaviour = random_policy(mdp, seed)
    mu = stationary_distribution(mdp, behaviour, start=mdp.start, restart_probability=restart)
    chain = moves(mdp, behaviour)
    goes_on = (1 - restart) * chain * ~mdp.terminal
    chain = goes_on + np.outer(chain.sum(1) - goes_on.sum(1), mdp.start)
    states = mu.sum(1)
    assert np.allclose(states @ chain, states, rtol=0, atol=1e-12)
    assert mu.sum() == pytest.approx(1, abs=1e-14)
    assert np.allclose(mu, states[:, None] * behaviour, rtol=1e-14)
    assert np.array_equal(mu > 0, (behaviour > 0) & (states > 0)[:, None])
    assert np.all(mu[~mdp.learned] == 0)


@slow_machine
@given(mdps(), st.integers(1, 6), st.sampled_from([0.0, 0.3]), st.integers(0, 2**32 - 1))
def test_a_time_limit_is_that_of_the_chain_of_states_and_clocks(mdp, limit, restart, seed):
    behaviour = random_policy(mdp, seed)
    mu = stationary_distribution(mdp, behaviour, start=mdp.start, restart_probability=restart, time_limit=limit)
    n, chain = mdp.n_states, moves(mdp, behaviour)
    goes_on = (1 - restart) * chain * ~mdp.terminal
    clock = np.zeros((limit, n, limit, n))
    for t in range(limit):
        stays = goes_on if t + 1 < limit else 0 * goes_on
        clock[t, :, min(t + 1, limit - 1)] += stays
        clock[t, :, 0] += np.outer(chain.sum(1) - stays.sum(1), mdp.start)
    present = np.zeros(limit * n)
    present[:n] = mdp.start
    mean = np.zeros(limit * n)
    for _ in range(2000):
        mean += present / 2000
        present = present @ clock.reshape(limit * n, limit * n)
    assert np.allclose(mu.sum(1), mean.reshape(limit, n).sum(0), rtol=0, atol=limit / 1000)


def test_a_long_time_limit_is_none():
    lake = frozen_lake()
    without = stationary_distribution(lake, uniform(lake), start=anywhere(lake))
    within = stationary_distribution(lake, uniform(lake), start=anywhere(lake), time_limit=100_000)
    assert np.allclose(without, within, rtol=1e-12, atol=0)


def test_a_walk_visits_the_pairs_in_these_shares():
    lake, limit, restart, steps = frozen_lake(), 9, 0.05, 100_000
    mu = stationary_distribution(
        lake, uniform(lake), start=anywhere(lake), restart_probability=restart, time_limit=limit
    )
    rng = np.random.default_rng(0)
    starts = rng.choice(16, size=steps, p=anywhere(lake)).tolist()
    actions, outcomes = rng.integers(4, size=steps).tolist(), rng.integers(3, size=steps).tolist()
    stops = (rng.random(steps) < restart).tolist()
    successors, terminal = lake.successors.tolist(), lake.terminal.tolist()
    visits = np.zeros((16, 4))
    x, moved = starts[0], 0
    for k in range(steps):
        visits[x, actions[k]] += 1
        x, moved = successors[x][actions[k]][outcomes[k]], moved + 1
        if terminal[x] or stops[k] or moved == limit:
            x, moved = starts[k], 0
    spread = np.sqrt(mu * 5 / steps)  # successive visits of a pair are correlated: 5 times the variance
    assert np.all(np.abs(visits / steps - mu) <= 5 * spread)


def corridor(rewards: tuple[float, float] = (0.0, 1.0), discount: float = 0.5) -> FiniteMDP:
    """States 0 -> 1 -> the terminal 2, two actions each that do the same; rewards of leaving 0 and 1."""
    successors = np.array([1, 2, 2])[:, None, None] + np.zeros((3, 2, 1), int)
    paid = np.array([*rewards, 0.0])[:, None, None] + np.zeros((3, 2, 1))
    end = np.array([False, False, True])
    start = np.array([1.0, 0.0, 0.0])
    return FiniteMDP(successors, np.ones((3, 2, 1)), paid, end, np.ones((3, 2), bool), start, discount, end, "corridor")


def trap() -> FiniteMDP:
    """State 0 goes to the terminal 1 by its first action, for ever to the state 2 by its second."""
    return FiniteMDP(
        np.array([[[1], [2]], [[1], [1]], [[2], [2]]]),
        np.ones((3, 2, 1)),
        np.zeros((3, 2, 1)),
        np.array([False, True, False]),
        np.ones((3, 2), bool),
        np.array([1.0, 0, 0]),
        0.5,
        np.array([False, True, False]),
        "trap",
    )


def test_episodes_that_may_never_end_are_refused_unless_something_ends_them():
    mdp = trap()
    with pytest.raises(SettingError, match=r"state 2 never ends.*sampling\.time_limit"):
        stationary_distribution(mdp, uniform(mdp), start=mdp.start)
    avoids = np.array([[1.0, 0.0], [0.5, 0.5], [0.5, 0.5]])
    assert stationary_distribution(mdp, avoids, start=mdp.start)[0, 0] == 1
    restarted = stationary_distribution(mdp, uniform(mdp), start=mdp.start, restart_probability=0.5)
    assert np.allclose(restarted.sum(1), [2 / 3, 0, 1 / 3])  # a visit of 0, then with 1/4 two of 2
    limited = stationary_distribution(mdp, uniform(mdp), start=mdp.start, time_limit=3)
    assert np.allclose(limited.sum(1), [0.5, 0, 0.5])  # a visit of 0, then with 1/2 two of 2


def test_on_large_random_graphs_products_find_what_a_dense_solve_finds(monkeypatch):
    """Without LU, which fills up: pi (I - P + 1 1') = 1', P the chain with its restarts. 1e-4 asks for GMRES."""
    mdp = mq.garnet(1300, n_successors=4)
    assert sweeps.fills_up(mdp)
    monkeypatch.setattr(fixed_points, "_visits", None)
    moves = np.zeros((mdp.n_states, mdp.n_states))
    np.add.at(moves, (np.arange(mdp.n_states)[:, None, None], mdp.successors), mdp.probabilities / mdp.n_actions)
    for restart in (0, 1e-4):
        mu = stationary_distribution(mdp, uniform(mdp), start=mdp.start, restart_probability=restart)
        chain = (1 - restart) * moves + restart * mdp.start
        pi = np.linalg.solve(np.eye(mdp.n_states) - chain.T + 1, np.ones(mdp.n_states))
        np.testing.assert_allclose(mu.sum(1), pi, rtol=0, atol=1e-12 * pi.max())
        assert np.ptp(mu, axis=1).max() <= 1e-15


def test_a_chain_without_episodes_has_the_distribution_that_it_spends_its_time_in():
    """Against the eigenvector of the transposed matrix, and against a long walk; periodic chains have one, too."""
    for mdp in (mq.garnet_fixed(8, 2, 3, discount=0.9), mq.river_swim(discount=0.9), mq.forest(discount=0.9)):
        behaviour = random_policy(mdp, 5)
        mu = stationary_distribution(mdp, behaviour, start=mdp.start)
        values, vectors = np.linalg.eig(moves(mdp, behaviour).T)
        share = np.real(vectors[:, np.argmin(np.abs(values - 1))])
        np.testing.assert_allclose(mu.sum(1), share / share.sum(), rtol=0, atol=1e-12)
        np.testing.assert_allclose(mu, mu.sum(1)[:, None] * behaviour, rtol=0, atol=1e-15)
    there_and_back = mq.from_arrays(np.eye(2)[::-1, None], np.zeros((2, 1)), discount=0.5)
    mu = stationary_distribution(there_and_back, np.ones((2, 1)), start=np.array([1.0, 0.0]))
    assert mu.ravel().tolist() == [0.5, 0.5]
    samples = mq.run(mdp, mq.QLearning(), iterations=200_000, n_seeds=4, sampling=mq.Markovian())
    assert samples.visits is not None
    walked = samples.visits / samples.visits.sum()
    mu = stationary_distribution(mdp, uniform(mdp), start=mdp.start)
    assert np.abs(walked - mu).sum() / 2 < 0.01


@pytest.mark.parametrize("n", [20, 40, 300])
def test_shares_far_below_the_rounding_of_the_others_are_right(n):
    """A walk with steps up of probability .6 and down of .2: by detailed balance each share is three times the last."""
    p = np.zeros((n, 1, n))
    for x in range(n):
        p[x, 0, min(x + 1, n - 1)] += 0.6
        p[x, 0, max(x - 1, 0)] += 0.2
        p[x, 0, x] += 0.2
    mu = stationary_distribution(
        mq.from_arrays(p, np.zeros((n, 1)), discount=0.5), np.ones((n, 1)), start=np.eye(n)[0]
    ).ravel()
    balanced = 1 / 3.0 ** np.arange(n)[::-1]
    np.testing.assert_allclose(mu, balanced / balanced.sum(), rtol=1e-12)


def test_episodes_of_any_length_have_shares():
    """A lock that goes on with .1 and falls back with .9, over 59 states; and a chain that nearly never goes back."""
    lock = mq.combination_lock(60, discount=0.9)
    behaviour = np.where(lock.learned, [0.9, 0.1], 0.0)
    mu = stationary_distribution(lock, behaviour, start=lock.start)
    states, chain = mu.sum(1), moves(lock, behaviour)
    chain = chain * ~lock.terminal + np.outer(chain[:, lock.terminal].sum(1), lock.start)
    np.testing.assert_allclose(states @ chain, states, rtol=1e-12, atol=0)
    rare = mq.strens_chain(slip=0.0)
    mu = stationary_distribution(rare, np.tile([1.0, 1e-17], (5, 1)), start=rare.start)
    assert mu[4, 0] == pytest.approx(1) and mu[0, 0] == pytest.approx(1e-17, rel=1e-6)


def test_a_chain_that_leaves_states_for_good_is_refused():
    one_way = mq.from_arrays(np.array([[[0.5, 0.5, 0]], [[0, 0, 1]], [[0, 1, 0]]]), np.zeros((3, 1)), discount=0.5)
    with pytest.raises(SettingError, match="state 1 never ends, nor comes to state 0"):
        stationary_distribution(one_way, np.ones((3, 1)), start=np.eye(3)[0])
    assert stationary_distribution(one_way, np.ones((3, 1)), start=np.eye(3)[1]).ravel().tolist() == [0, 0.5, 0.5]


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
