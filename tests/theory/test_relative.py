"""Relative Q-learning's covariance: the equation by Kronecker products, Q-learning's theory, and what a run does."""

import numpy as np
import pytest

import mqlearn as mq
from mqlearn.errors import SettingError
from mqlearn.problems.mdp import greedy
from mqlearn.theory.asymptotic import covariance
from mqlearn.theory.relative import relative_covariance, second_eigenvalue, up_to_a_constant
from tests.theory import covariances_by_hand as by_hand


@pytest.mark.parametrize(("kappa", "gain"), [(0.0, 12.0), (1.0, 2.0), (-0.05, 14.0)])
def test_the_covariance_is_that_of_the_equation_written_out(kappa, gain):
    mdp = mq.river_swim(discount=0.9)
    optimum = mq.optimal(mdp)
    pairs, d, star, _ = by_hand.noise_and_policy(mdp, optimum.v, greedy(mdp, optimum.q), sampled=True)
    n = len(pairs)
    b = np.eye(n) / 2 - gain * (np.eye(n) - 0.9 * star + kappa * np.full((n, n), 1 / n))
    expected = by_hand.lyapunov(b, gain**2 * np.diag(d))
    found = relative_covariance(mdp, gain, kappa, "sampled")
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 * np.abs(expected).max())


def test_without_kappa_it_is_that_of_q_learning():
    mdp = mq.garnet_fixed(8, 2, 3, discount=0.9)
    steps = mq.QLearning().with_step_size(mq.Polynomial(exponent=1, scale=7))
    np.testing.assert_allclose(relative_covariance(mdp, 7), covariance(mdp, steps).sigma, rtol=1e-9, atol=1e-12)


def test_a_gain_below_half_of_the_slowest_mode_is_refused():
    """Constants are 1 - g + kappa times themselves, the other modes 1 - g lambda."""
    mdp = mq.six_state(discount=0.9)
    slowest = 1 - 0.9 * second_eigenvalue(mdp)
    relative_covariance(mdp, 0.501 / slowest, kappa=1)
    for gain, kappa in ((0.499 / slowest, 1.0), (4.99, 0.0), (0.999, 0.4)):
        with pytest.raises(SettingError, match="at or below the critical constant"):
            relative_covariance(mdp, gain, kappa)
    with pytest.raises(SettingError, match="must go on for ever"):
        relative_covariance(mq.frozen_lake(discount=0.9), 12.0, 1.0)


def test_relative_values_move_a_constant_alone():
    """In theory and in every sample: Q less its mean is that of Q-learning with the same steps."""
    mdp = mq.six_state(discount=0.95)
    plain, relative = (up_to_a_constant(relative_covariance(mdp, 15, kappa)) for kappa in (0.0, 1.0))
    np.testing.assert_allclose(plain, relative, rtol=0, atol=1e-9 * np.abs(plain).max())
    assert np.abs(plain.sum(0)).max() < 1e-9 * np.abs(plain).max()
    rule = mq.QLearning().with_step_size(mq.RescaledLinear(0.35))
    runs = [
        mq.run(
            mdp, rule, iterations=300, n_seeds=3, operator=operator, metrics={"span": mq.span_error},
            evaluation=mq.Evaluation(episodes=0),
        )
        for operator in (mq.Bellman(), mq.Relative(kappa=1))
    ]  # fmt: skip
    np.testing.assert_allclose(runs[0].curves["span"], runs[1].curves["span"], rtol=1e-10)
    assert not np.allclose(runs[0].curves["q_error"], runs[1].curves["q_error"], rtol=0.1)
