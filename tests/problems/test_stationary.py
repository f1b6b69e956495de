"""The distribution of the samples against chains written out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from policies_by_hand import anywhere, moves, random_policy, uniform
from random_mdps import mdps

import mqlearn as mq
from mqlearn.errors import SettingError
from mqlearn.problems import fixed_points, sweeps
from mqlearn.problems.environments import frozen_lake
from mqlearn.problems.fixed_points import stationary_distribution
from mqlearn.problems.mdp import FiniteMDP

slow_machine = settings(deadline=None)
restarts = st.sampled_from([1e-3, 0.1, 1.0])


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
