import numpy as np
import pytest
from hypothesis import given, settings

import mqlearn as mq
from mqlearn.problems.fixed_points import mean_gradient, stationary_distribution, theta_star
from mqlearn.theory import assumptions, mixing
from tests.random_mdps import mdps


def uniform(mdp):
    return mdp.learned / np.maximum(mdp.learned.sum(1, keepdims=True), 1)


def everywhere(mdp):
    return ~mdp.terminal / (~mdp.terminal).sum()


def found_on(mdp, features):
    mu = stationary_distribution(mdp, uniform(mdp), start=everywhere(mdp), restart_probability=0.1)
    root = theta_star(mdp, features, mu)
    return mu, root, assumptions.monotone(mdp, features, mu, root)


@given(mdp=mdps(discounts=(0.3, 0.9)))
@settings(max_examples=15, deadline=None)
def test_assumption_2_is_bounded_from_both_sides(mdp):
    features = mq.one_hot(mdp)
    mu, root, found = found_on(mdp, features)
    assert found is not None and found.low <= found.high + 1e-10  # a ratio at a small distance rounds
    away = found.worst - root.theta
    gradient = mean_gradient(mdp, features, mu, found.worst)
    assert away @ gradient / (away @ away) == pytest.approx(found.high, rel=1e-4, abs=1e-8)
    rng = np.random.default_rng(0)
    for scale in (0.01, 1, 100):
        for _ in range(20):
            away = scale * rng.normal(size=features.n_features)
            ratio = away @ mean_gradient(mdp, features, mu, root.theta + away) / (away @ away)
            assert ratio >= found.low - 1e-9


def test_assumption_2_of_one_state_is_known_by_hand():
    loop = mq.from_arrays(np.ones((1, 1, 1)), np.ones((1, 1)), discount=0.7)
    mu = np.ones((1, 1))
    root = theta_star(loop, mq.one_hot(loop), mu)
    found = assumptions.monotone(loop, mq.one_hot(loop), mu, root)
    assert found is not None and found.low == pytest.approx(0.3) == pytest.approx(found.high)
    check = assumptions.unique_root(loop, mq.one_hot(loop), root, found)
    assert check.verdict == "holds" and check.value == pytest.approx(0.3)


@pytest.mark.parametrize(("discount", "verdict"), [(0.4, "holds"), (0.6, "not checkable"), (0.9, "fails")])
def test_assumption_2_on_the_lake_holds_at_a_low_discount_only(discount, verdict):
    mdp = mq.frozen_lake(discount=discount)
    features = mq.one_hot(mdp)
    mu = stationary_distribution(mdp, uniform(mdp), start=everywhere(mdp))
    root = theta_star(mdp, features, mu)
    found = assumptions.monotone(mdp, features, mu, root)
    assert assumptions.unique_root(mdp, features, root, found).verdict == verdict


def test_dependent_columns_fail_assumption_1():
    mdp = mq.garnet_fixed(4, 2, 2)
    fine = assumptions.independent_features(mq.one_hot(mdp))
    assert (fine.verdict, fine.value) == ("holds", 1.0)
    column = np.arange(8.0).reshape(4, 2, 1)
    twice = assumptions.independent_features(mq.from_matrix(mdp, np.concatenate([column, 2 * column], 2), norm="max"))
    assert twice.verdict == "fails" and "rank 1 of 2" in twice.reason
    long = assumptions.independent_features(mq.from_matrix(mdp, column, norm="none"))
    assert (long.verdict, long.value) == ("fails", 7.0)


def test_mixing_of_two_states_by_hand():
    moves = np.array([[0.7, 0.3], [0.1, 0.9]])  # mu = (1/4, 3/4), d(k) = 3/4 .6^k
    found = mixing.mixing(moves)
    np.testing.assert_allclose(found.distance, 0.75 * 0.6 ** np.arange(len(found.distance)), rtol=1e-9)
    assert 0.6 <= found.rho < 0.65 and 0.75 <= found.sigma < 1
    assert found.sigma * found.rho ** found.tau(0.01) <= 0.01 < found.sigma * found.rho ** (found.tau(0.01) - 1)


@given(mdp=mdps())
@settings(max_examples=15, deadline=None)
def test_sigma_and_rho_hold_at_every_step(mdp):
    start = everywhere(mdp)
    moves = mixing.chain(mdp, uniform(mdp), start, 0.1)
    found = mixing.mixing(moves)
    assert found.certified and 0 < found.rho < 1
    mu = stationary_distribution(mdp, uniform(mdp), start=start, restart_probability=0.1).sum(1)[~mdp.terminal]
    power = np.eye(len(moves))
    for k in range(3 * len(found.distance) + 20):
        assert np.abs(power - mu).sum(1).max() / 2 <= found.sigma * found.rho**k + 1e-9
        power = power @ moves


def test_a_periodic_chain_fails_assumption_4():
    check = assumptions.ergodic_chain(mixing.mixing(np.array([[0.0, 1.0], [1.0, 0.0]])), 0.01)
    assert check.verdict == "fails" and check.value is None
    assert assumptions.ergodic_chain(mixing.mixing(np.array([[0.7, 0.3], [0.1, 0.9]])), 0.01).verdict == "holds"


def test_the_domain_must_hold_theta_star():
    theta = np.array([3.0, 4.0])
    assert assumptions.bounded_domain(theta, None, 1.0)[1:3] == ("not checkable", 10.0)
    assert assumptions.bounded_domain(theta, 6.0, 1.0)[1:3] == ("holds", 12.0)
    assert "G_max 25," in assumptions.bounded_domain(theta, 6.0, 1.0).reason
    assert assumptions.bounded_domain(theta, 4.0, 1.0).verdict == "fails"


def test_assumption_5_takes_a_measured_run():
    assert assumptions.bounded_tables(None, 2.0, False).verdict == "not checkable"
    assert assumptions.bounded_tables(3.0, 2.0, True)[1:3] == ("holds", 5.0)
    assert assumptions.bounded_tables(3.0, 2.0, False)[1:3] == ("not checkable", 5.0)
    assert assumptions.bounded_tables(np.inf, 2.0, True).verdict == "fails"


@pytest.mark.parametrize(
    ("rule", "synchronous", "delta", "name", "verdict"),
    [
        (mq.MomentumQ(2), True, None, "Theorem 3", "holds"),
        (mq.MomentumQ(1), True, None, "Theorem 3", "fails"),
        (mq.MomentumQ(50), True, None, "Theorem 3", "fails"),
        (mq.MomentumQ(2), False, None, "Theorem 3", "fails"),
        (mq.MomentumQ(2).with_step_size(mq.Polynomial()), True, None, "Theorem 3", "fails"),
        (mq.MomentumQLinear(0.8, 0.99).with_step_size(mq.Constant(0.05)), False, 0.05, "Theorem 1", "holds"),
        (mq.MomentumQLinear(0.8, 0.99).with_step_size(mq.Constant(0.2)), False, 0.05, "Theorem 1", "fails"),
        (mq.MomentumQLinear(0.8, 0.99).with_step_size(mq.Constant(0.2)), False, None, "Theorem 1", "not checkable"),
        (mq.MomentumQLinear(0.8, 0.99).with_step_size(mq.InverseSqrt(0.2)), False, None, "Theorem 2", "holds"),
        (mq.MomentumQLinear(0.8, 0.99).with_step_size(mq.InverseSqrt(0.2, h=9)), False, None, "schedule", "fails"),
        (mq.SpeedyQ(), True, None, "schedule", "fails"),
    ],
)
def test_which_theorem_covers_a_schedule(rule, synchronous, delta, name, verdict):
    assert assumptions.schedule(rule, 0.9, synchronous, delta)[:2] == (name, verdict)
