import dataclasses

import numpy as np
import pytest

import mqlearn as mq
from mqlearn.theory import bounds


def test_theorem_3_on_the_lake_is_of_the_size_it_is_said_to_be():
    given = {"m": 2, "discount": 0.9, "n_pairs": 64, "delta": 0.1, "r_max": 1.0}
    far = bounds.theorem_3(np.array([10_000]), v_max=10.0, **given)[0]
    assert far == pytest.approx(143.58, abs=0.01)  # V = R/(1-g); the paper counts terminal states too, n = 16 4


@pytest.mark.parametrize("m", [1 / 0.9, 12.0])
def test_the_bound_of_the_shifted_rule_covers_its_recursion(m):
    g, v = 0.9, 2.0
    error, ends = m * 2 * v, []  # (k+m)|Q_k - Q*| without noise, from what the shifted rule telescopes to
    for k in range(1, 400):
        own = error / (k - 1 + m)
        error = own * (1 + g * (k - 1)) + 2 * v * (m - 1) + 2 * v * g
        ends.append(error / (k + m))
    bound = bounds.theorem_3_shifted(
        np.arange(1, 400), m=m, discount=g, v_max=v, r_max=-2 * g * v, n_pairs=5, delta=0.1
    )  # this r_max makes Dbar 0: no noise
    assert (bound >= np.array(ends) * (1 - 1e-12)).all() and bound[-1] < 1.3 * ends[-1]
    if m == 1 / g:
        assert bound[-1] == pytest.approx(ends[-1], rel=1e-6)


def test_the_bound_of_speedy_q_by_hand():
    value = bounds.speedy_q(np.array([100]), discount=0.5, r_max=1.0, n_pairs=5, delta=0.1)[0]
    assert value == pytest.approx(2 / 0.25 * (0.5 / 100 + np.sqrt(2 * np.log(100) / 100)))


KNOWN = bounds.Constants(discount=0.4, contraction=0.05, d_max=3.0, r_max=1.0, kappa=0.01, tau=7)


def test_the_constants_of_the_bias():
    assert KNOWN.g_max == 7.0
    assert KNOWN.eta_1 == pytest.approx(6 * (1.4 * 3 + 7)) and KNOWN.eta_2 == pytest.approx(42 * (1.4 * 3 + 7))


def test_theorem_1_covers_the_recursion_of_its_proof():
    alpha, beta, lam, phi, start = 0.02, 0.8, 0.9, 0.5, 2.0
    d, g, delta, tau, kappa = KNOWN.d_max, KNOWN.g_max, KNOWN.contraction, KNOWN.tau, KNOWN.kappa
    value, values = start**2, [start**2]
    for k in range(2000):
        b, moved = phi * beta * lam**k, beta * lam**k
        value = (1 - 2 * alpha * delta * (1 + b)) * value + 5 * moved * d**2 + 15 * alpha**2 * g**2
        value += 2 * alpha * b * d * g
        late = 4 * d * g * kappa + KNOWN.eta_1 * tau * beta * lam ** (k - tau) + KNOWN.eta_2 * tau * alpha
        early = KNOWN.eta_1 * tau * beta + KNOWN.eta_2 * tau * alpha
        value += 4 * alpha * (late if k > tau else early)
        values.append(value)
    steps = np.arange(len(values))
    bound = bounds.theorem_1(steps, KNOWN, alpha=alpha, beta=beta, lam=lam, phi=phi, start=start)
    assert np.isnan(bound[: tau + 2]).all() and (bound[tau + 2 :] >= np.array(values)[tau + 2 :]).all()
    assert bound[-1] < 1.2 * values[-1]


def test_theorem_1_never_promises_more_than_the_same_proof_without_momentum():
    rng = np.random.default_rng(5)
    steps = np.unique(np.geomspace(20, 10_000, 30).astype(int))
    for _ in range(100):
        lam, beta, phi, start = rng.uniform(0.1, 0.99), rng.uniform(0, 1), rng.uniform(0, 1), rng.uniform(0, 3)
        known = dataclasses.replace(KNOWN, contraction=rng.uniform(0.001, 0.5), tau=int(rng.integers(1, 18)))
        most = min((1 - lam), 1 / (1 + phi * beta)) / (2 * known.contraction)
        alpha = rng.uniform(0.01, 0.99) * most
        first = bounds.theorem_1(steps, known, alpha=alpha, beta=beta, lam=lam, phi=phi, start=start)
        assert (first >= bounds.vanilla(steps, known, alpha=alpha, start=start) * (1 - 1e-12)).all()


def test_theorem_1_refuses_a_step_outside_it():
    for alpha in (0.0, 1.01, 20):  # (1 - .9)/(2 .05) = 1
        with pytest.raises(mq.SettingError, match=r"in \(0, 1\)"):
            bounds.theorem_1(np.array([100]), KNOWN, alpha=alpha, beta=0.5, lam=0.9, phi=0.5, start=1.0)


def test_the_slope_of_the_mean_of_theta_is_that_of_theorem_2():
    """Without the bias of the samples, which alone does not fall at a fixed kappa."""
    rule = mq.MomentumQLinear(beta=0.5).with_step_size(mq.InverseSqrt(0.1))
    slope = bounds.slope_of_features(rule)
    unbiased = dataclasses.replace(KNOWN, kappa=0.0)
    near, far = bounds.theorem_2(np.array([10**14, 10**18]), unbiased, alpha=0.1, beta=0.5, lam=0.9)
    assert slope is not None and slope.exponent == pytest.approx(np.log(far / near) / 2 / np.log(1e4), abs=1e-4)
    assert bounds.slope_of_features(rule.with_step_size(mq.Constant(0.1))) is None
    assert bounds.slope_of_features(mq.SpeedyQ().with_step_size(mq.InverseSqrt(0.1))) is None


def test_a_step_that_the_proof_does_not_allow_has_no_bound():
    """2 alpha delta = 3: the factor is -2, whose odd powers would be bounds far below 0."""
    values = bounds.vanilla(np.array([10, 11]), KNOWN, alpha=30.0, start=1.0)
    assert np.isnan(values).all()


def test_theorem_2_by_hand():
    value = bounds.theorem_2(np.array([400]), KNOWN, alpha=0.1, beta=0.5, lam=0.9)[0]
    eta_1, eta_2 = 6 * 11.2, 42 * 11.2
    slow = (9 / 0.1 + 30 * 0.1 * 49 + 16 * 7 * 0.1 * eta_2) / (2 * 0.05 * 20) + 8 * 3 * 7 * 0.01 / 0.05
    fast = 5 * 0.5 * 9 / (2 * 0.1 * 0.05 * 0.01) + (3 * 7 * 0.5 * 0.9 + 4 * 7 * eta_1 * 0.5 * 0.9) / (0.05 * 0.1)
    assert value == pytest.approx(slow + fast / 400)


def test_the_bound_of_the_bias_by_loops():
    step = mq.InverseSqrt(0.2)
    found = bounds.bias(np.arange(60), KNOWN, step_size=step, beta=0.6, lam=0.9)
    for k, value in enumerate(found):
        if k <= 7:
            want = sum(KNOWN.eta_1 * 0.6 * 0.9**i + KNOWN.eta_2 * 0.2 / np.sqrt(i + 1) for i in range(k))
        else:
            push, a = 0.6 * 0.9 ** (k - 7), 0.2 / np.sqrt(k - 7 + 1)
            want = 4 * 3 * 7 * 0.01 + KNOWN.eta_1 * 7 * push + KNOWN.eta_2 * 7 * a
        assert value == pytest.approx(want)
