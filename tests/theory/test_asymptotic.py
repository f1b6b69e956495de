import numpy as np
import pytest
from hypothesis import given, settings

import mqlearn as mq
from mqlearn.problems.mdp import greedy
from mqlearn.theory import asymptotic, named_rules
from mqlearn.theory.asymptotic import covariance, floor
from mqlearn.theory.limits import Limit, limit_of
from tests.random_mdps import mdps
from tests.theory import covariances_by_hand as by_hand
from tests.theory.rules import RootSA


def rescaled(g, share=1.0):
    return mq.QLearning().with_step_size(mq.Polynomial(exponent=1, scale=share / (1 - g)))


def equal(value, digits):
    """Equal to a number that is given to four decimals."""
    return value == pytest.approx(digits, rel=1e-4, abs=0.51e-4)


GARNET = {  # discount: floor, Q-learning, SpeedyQ, NeSA .1, NeSA .5, recomputed apart in plain NumPy
    0.8: (0.3189, 0.4240, 0.4212, 0.3226, 0.3439),
    0.9: (0.5583, 0.7540, 0.9657, 0.5692, 0.6357),
    0.99: (5.3847, 5.7437, 15.6052, 5.5586, 6.6966),
}


@pytest.mark.parametrize("reward", ["mean", "sampled"])  # R(x, u) does not depend on y here
@pytest.mark.parametrize("g", GARNET)
def test_the_constants_of_the_fixed_garnet(g, reward):
    mdp, (least, q, speedy, nesa1, nesa5) = mq.garnet_fixed(8, 2, 3, discount=g), GARNET[g]

    def constant(rule):
        found = covariance(mdp, rule, reward)
        assert found.tied_states == 0 and not found.approximate and found.reward == reward
        return found.rms_sqrt_k

    assert equal(floor(mdp, reward).rms_sqrt_k, least)
    assert equal(constant(rescaled(g)), q)
    assert equal(constant(mq.QLearning().with_step_size(mq.RescaledLinear(g))), q)
    for rule in (mq.SpeedyQ(), mq.SpeedyQ("printed"), mq.MomentumQ(2), mq.MomentumQ(50), RootSA(1)):
        assert equal(constant(rule), speedy)
    for eta, digits in ((0.1, nesa1), (0.5, nesa5)):
        assert equal(constant(mq.NeSA(eta)), digits) and equal(constant(RootSA(eta)), digits)


LAKE = {  # reward, discount: largest pair and root mean square of floor, Q-learning, SpeedyQ, NeSA .1
    ("sampled", 0.9): ((0.5446, 0.2432), (0.8359, 0.3821), (0.7611, 0.4032), (0.5503, 0.2475)),
    ("sampled", 0.99): ((0.5152, 0.4264), (2.7474, 1.6865), (2.1561, 1.4094), (0.5263, 0.4383)),
    ("mean", 0.9): ((0.4783, 0.2248), (0.7304, 0.3490), (0.7082, 0.3766), (0.4837, 0.2289)),
    ("mean", 0.99): ((0.9985, 0.6676), (3.6382, 2.0210), (3.5001, 2.3064), (1.0132, 0.6883)),
}


@pytest.mark.parametrize(("reward", "g"), LAKE)
def test_the_constants_of_the_lake_under_one_optimal_policy(reward, g):
    mdp = mq.frozen_lake(discount=g)
    policy = greedy(mdp, mq.optimal(mdp).q)  # one state has two optimal actions
    for rule, (largest, rms) in zip((None, rescaled(g), mq.SpeedyQ(), mq.NeSA(0.1)), LAKE[reward, g], strict=True):
        found = covariance(mdp, rule or mq.SpeedyQ(), reward, policy=policy)
        assert found.tied_states == 1 and found.approximate and len(found.pairs) == 44
        got = (found.max_sqrt_k, found.rms_sqrt_k) if rule else (found.floor_max_sqrt_k, found.floor_rms_sqrt_k)
        assert equal(got[0], largest) and equal(got[1], rms)


def test_actions_that_tie_share_equally():
    mdp = mq.frozen_lake(discount=0.9)
    first = covariance(mdp, mq.SpeedyQ(), policy=greedy(mdp, mq.optimal(mdp).q))
    shared = covariance(mdp, mq.SpeedyQ())
    assert shared.approximate and 0.9 < shared.rms_sqrt_k / first.rms_sqrt_k < 0.999  # sharing takes the mean of two


@pytest.mark.parametrize(
    ("q", "t", "c", "digits"),
    [
        (0, -0.5, 8, 0.7915),
        (0.2, 0.4, 16, 0.8526),
        (-0.3, -0.6, 1.6, 0.6743),
        (-0.6, 0.2, 6, 0.8620),
        (-0.5, 0, 5, 0.7540),
    ],
)
def test_the_constants_of_the_general_family(q, t, c, digits):
    assert equal(covariance(mq.garnet_fixed(8, 2, 3, discount=0.9), Limit(q, t, c)).rms_sqrt_k, digits)


@given(mdp=mdps(discounts=(0.3, 0.9)))
@settings(max_examples=25, deadline=None)
def test_covariances_equal_those_of_loops_and_kronecker_products(mdp):
    policy = greedy(mdp, mq.optimal(mdp).q)
    for reward, batch, (q, t, c) in (
        ("mean", 1, (0, -1, 1)),
        ("sampled", 3, (0.2, 0.4, 16)),
        ("sampled", 1, (0, 0, 12)),
    ):
        pairs, d, star, ahead = by_hand.noise_and_policy(mdp, mq.optimal(mdp).v, policy, reward == "sampled")
        found = covariance(mdp, Limit(q, t, c), reward, batch, policy)
        assert found.pairs.tolist() == [list(pair) for pair in pairs] and found.reason is None
        scale = d.max() / (1 - mdp.discount) ** 2 * c * c
        want = by_hand.sigma(d, star, ahead, mdp.discount, q, t, c, batch)
        np.testing.assert_allclose(found.sigma, want, rtol=1e-8, atol=1e-10 * scale)
        m = np.linalg.inv(np.eye(len(d)) - mdp.discount * star)
        np.testing.assert_allclose(found.floor, m @ np.diag(d) @ m.T / batch, rtol=1e-9, atol=1e-12 * scale)
        gap = np.linalg.eigvalsh(found.sigma - found.floor).min()
        assert gap >= -1e-9 * max(scale, 1e-300)  # no rule has less, in any direction


def test_the_lag_of_many_states_is_solved_for_by_sparse_products(monkeypatch):
    """As of large models, on small ones: where episodes end, and where they do not."""
    monkeypatch.setattr(asymptotic, "_FEW", 0)
    for mdp in (mq.frozen_lake(["SFF", "FHG"], discount=0.9), mq.garnet_fixed(6, 2, 3, discount=0.9)):
        policy = greedy(mdp, mq.optimal(mdp).q)
        _, d, star, ahead = by_hand.noise_and_policy(mdp, mq.optimal(mdp).v, policy, False)
        for q, t, c in ((0, -1, 1), (0.2, 0.4, 16)):
            found = covariance(mdp, Limit(q, t, c), "mean", 1, policy)
            want = by_hand.sigma(d, star, ahead, mdp.discount, q, t, c, 1)
            np.testing.assert_allclose(found.sigma, want, rtol=1e-8, atol=1e-10 * np.abs(want).max())


def test_constant_momentum_buys_nothing_and_batches_only_the_feedback():
    mdp = mq.garnet_fixed(8, 2, 3, discount=0.9)
    heavy_ball, plain = covariance(mdp, Limit(-0.5, 0, 5)), covariance(mdp, Limit(0, 0, 10))
    np.testing.assert_allclose(heavy_ball.sigma, plain.sigma, rtol=1e-9)
    least = floor(mdp).rms_sqrt_k
    speedy = [covariance(mdp, mq.SpeedyQ(), batch=n).rms_sqrt_k * np.sqrt(n) for n in (1, 10, 1000)]
    assert speedy[0] > speedy[1] > speedy[2] > least and speedy[2] == pytest.approx(least, rel=2e-3)
    q = [covariance(mdp, rescaled(0.9), batch=n).rms_sqrt_k * np.sqrt(n) for n in (1, 10)]
    assert q[0] == pytest.approx(q[1], rel=1e-12)


def test_the_newton_line_has_its_closed_form():
    mdp = mq.garnet_fixed(8, 2, 3, discount=0.9)
    best = covariance(mdp, Limit(-0.7, -0.3, 0.3)).rms_sqrt_k
    for c in (0.2, 0.29, 0.31, 0.6):
        assert covariance(mdp, Limit(-0.7, -0.3, c)).rms_sqrt_k > best  # c = zeta is best


# --- rules by name ------------------------------------------------------------------------------------------------


def test_the_constants_of_rules_by_name():
    mdp = mq.garnet_fixed(8, 2, 3, discount=0.9)
    speedy, least = covariance(mdp, mq.SpeedyQ()).rms_sqrt_k, floor(mdp).rms_sqrt_k
    table_a, table_b = named_rules.averaging_q(mdp, 20.0)
    assert table_a.rms_sqrt_k == pytest.approx(0.918, abs=6e-4) and table_b.rms_sqrt_k == pytest.approx(0.768, abs=6e-4)
    assert named_rules.double_q(mdp, 20.0).rms_sqrt_k == pytest.approx(covariance(mdp, rescaled(0.9)).rms_sqrt_k)
    assert "critical" in str(named_rules.double_q(mdp, 10.0).reason)  # the plain rescaled step
    assert named_rules.movi(mdp).rms_sqrt_k == pytest.approx(speedy)
    assert named_rules.zap(mdp).rms_sqrt_k == named_rules.polsa(mdp).rms_sqrt_k == pytest.approx(least)
    assert named_rules.variance_reduced(mdp).rms_sqrt_k == pytest.approx(least * np.sqrt(4 / 3))


def test_averaging_reaches_the_floor_but_doubles_the_variance_of_a_rule_of_order_one_over_k():
    mdp = mq.garnet_fixed(8, 2, 3, discount=0.9)
    slow = named_rules.averaged(mdp, mq.QLearning().with_step_size(mq.Polynomial(0.6)))
    assert slow.rms_sqrt_k == pytest.approx(floor(mdp).rms_sqrt_k)
    for rule in (mq.SpeedyQ(), mq.NeSA(0.1), RootSA(0.5)):
        np.testing.assert_allclose(named_rules.averaged(mdp, rule).sigma, 2 * covariance(mdp, rule).sigma, rtol=1e-6)
    assert named_rules.averaged(mdp, mq.SpeedyQ()).rms_sqrt_k == pytest.approx(1.366, abs=6e-4)
    assert "mean of the iterates" in str(
        named_rules.averaged(mdp, mq.QLearning().with_step_size(mq.Constant(0.1))).reason
    )


@pytest.mark.parametrize("limit", [(0, 0, 12.0), (-0.3, -0.6, 1.6)])
def test_the_mean_of_the_iterates_equals_a_recursion_of_two_tables(limit):
    mdp = mq.garnet_fixed(5, 2, 3, discount=0.8)
    policy = greedy(mdp, mq.optimal(mdp).q)
    _, d, star, ahead = by_hand.noise_and_policy(mdp, mq.optimal(mdp).v, policy, False)
    q, t, c = limit
    n, g = len(d), mdp.discount
    h = -(q * np.eye(n) + t * g * star)
    gain = np.linalg.inv(np.eye(n) - h)
    drift = -c * gain @ (np.eye(n) - g * star)
    z = by_hand.sigma(d, star, ahead, g, q, t, c)
    shaped = -((np.eye(n) / 2 + drift) @ z + z @ (np.eye(n) / 2 + drift).T)  # G Vs G'
    block = np.eye(2 * n) / 2 + np.block([[drift, np.zeros((n, n))], [np.eye(n), -np.eye(n)]])
    noise = np.zeros((2 * n, 2 * n))
    noise[:n, :n] = shaped
    want = by_hand.lyapunov(block, noise)[n:, n:]

    class General(mq.Rule):
        def update(self, k, q, q_prev, target, target_prev):
            a = 1 / (k + 1)
            s = c * a - t
            return (1 - limit[0] - s - t) * q + limit[0] * q_prev + s * target + t * target_prev

    np.testing.assert_allclose(named_rules.averaged(mdp, General()).sigma, want, rtol=1e-6, atol=1e-9)


def test_averaging_q_equals_a_kronecker_solve_and_says_its_critical_step():
    mdp = mq.garnet_fixed(5, 2, 3, discount=0.8)
    _, d, star, _ = by_hand.noise_and_policy(mdp, mq.optimal(mdp).v, greedy(mdp, mq.optimal(mdp).q), False)
    n, c, share = len(d), 15.0, 0.7
    one = np.eye(n)
    drift = c * np.block([[-one, 0.8 * star], [share * one, -share * one]])
    want = by_hand.lyapunov(np.eye(2 * n) / 2 + drift, np.diag(np.concatenate([c * c * d, np.zeros(n)])))
    a, b = named_rules.averaging_q(mdp, c, share)
    np.testing.assert_allclose(a.sigma, want[:n, :n], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(b.sigma, want[n:, n:], rtol=1e-9, atol=1e-12)
    assert "critical" in str(named_rules.averaging_q(mdp, 3.0)[0].reason)


# --- limits and reasons -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "limit"),
    [
        (mq.QLearning(), (0, 0, 1)),
        (rescaled(0.99), (0, 0, 100)),
        (mq.QLearning().with_step_size(mq.RescaledLinear(0.9999)), (0, 0, 1e4)),
        (mq.SpeedyQ(), (0, -1, 1)),
        (mq.SpeedyQ("printed"), (0, -1, 1)),
        (mq.MomentumQ(100), (0, -1, 1)),
        (mq.MomentumQ(5, shift="off"), (0, -1, 1)),
        (mq.NeSA(0.3), (-0.7, -0.3, 0.3)),
        (RootSA(0.25), (-0.75, -0.25, 0.25)),
        (mq.MomentumQLinear(0.8, lam=0.999), (0, 0, 1)),
    ],
)
def test_limits_are_measured_from_the_weights(rule, limit):
    assert limit_of(rule) == pytest.approx(limit, rel=1e-7, abs=1e-9)


def test_rules_without_a_limit_say_why():
    def reason(rule):
        with pytest.raises(mq.SettingError) as error:
            limit_of(rule)
        return str(error.value)

    assert "k^-0.6, not like c/k" in reason(mq.QLearning().with_step_size(mq.Polynomial(0.6)))
    assert "does not fall" in reason(mq.QLearning().with_step_size(mq.Constant(0.1)))
    assert "k^-0.5" in reason(mq.SpeedyQ().with_step_size(mq.InverseSqrt(0.1)))

    class Wandering(mq.Rule):  # its momentum falls like k^-.5 only
        def update(self, k, q, q_prev, target, target_prev):
            a, b = 1 / (k + 1), (k + 1) ** -0.5
            return (1 - a) * q + b * (q - q_prev) + a * target

    assert "does not settle" in reason(Wandering())


def test_a_step_below_the_critical_constant_predicts_nothing_but_the_floor():
    mdp = mq.garnet_fixed(8, 2, 3, discount=0.9)
    found = covariance(mdp, mq.QLearning())
    assert np.isnan(found.sigma).all() and np.isnan(found.rms_sqrt_k) and equal(found.floor_rms_sqrt_k, 0.5583)
    assert "c > 5 " in str(found.reason) and "k^-0.1" in str(found.reason)  # P* has the eigenvalue 1: 1/(2(1-g)) = 5
    assert "critical" in str(covariance(mdp, rescaled(0.9, share=0.5)).reason)  # at it, too
    assert covariance(mdp, rescaled(0.9, share=0.51)).reason is None
    assert "below 1" in str(covariance(mdp, Limit(0.5, -0.6, 5)).reason)
    lake = mq.frozen_lake(discount=0.99)
    assert covariance(lake, rescaled(0.99, share=0.3)).reason is None  # less than 1/2 is enough where episodes end


def test_wrong_arguments_are_refused():
    mdp = mq.garnet_fixed(8, 2, 3)
    for call, word in (
        (lambda: covariance(mdp, mq.SpeedyQ(), "men"), "reward"),
        (lambda: covariance(mdp, mq.SpeedyQ(), batch=0), "batch"),
        (lambda: covariance(mdp, mq.SpeedyQ(), policy=np.zeros(8)), "policy"),
    ):
        with pytest.raises(mq.SettingError, match=word):
            call()


def test_without_noise_nothing_is_left():
    mdp = mq.deep_sea(4, discount=0.9)
    found = covariance(mdp, mq.SpeedyQ())
    assert found.rms_sqrt_k == found.floor_max_sqrt_k == 0
