import numpy as np
import pytest
from scipy import integrate, special

from mqlearn.theory import sup
from mqlearn.theory.sup import expected_norm, expected_norms, expected_sup


def independent(n):
    """E max of n independent |N(0, 1)|: the integral of 1 - P(|N| <= x)^n."""
    return integrate.quad(lambda x: 1 - special.erf(x / np.sqrt(2)) ** n, 0, 12)[0]


@pytest.mark.parametrize("n", [1, 2, 10, 200])
def test_the_sup_of_independent_pairs(n):
    found = expected_sup(4.0 * np.eye(n))
    assert 0 < found.standard_error < 0.02
    assert abs(found.value - 2 * independent(n)) < 4 * found.standard_error
    assert independent(2) == pytest.approx(2 / np.sqrt(np.pi))


def test_the_sup_of_pairs_that_move_together_is_that_of_the_largest():
    scale = np.array([1.0, -3.0, 2.0])
    found = expected_sup(np.outer(scale, scale))
    assert abs(found.value - 3 * independent(1)) < 4 * found.standard_error


def test_the_same_draws_every_time_and_nothing_from_nothing():
    sigma = np.array([[2.0, 0.5], [0.5, 1.0]])
    assert expected_sup(sigma) == expected_sup(sigma.copy())
    assert expected_sup(np.zeros((3, 3))) == (0.0, 0.0)
    assert np.isnan(expected_sup(np.full((2, 2), np.nan))).all()


@pytest.mark.parametrize("n", [1, 2, 10, 200])
def test_the_norm_of_independent_pairs_is_that_of_the_chi_distribution(n):
    """Below the root mean square, by 20 % for one pair."""
    expected = 2 * np.sqrt(2) * np.exp(special.gammaln((n + 1) / 2) - special.gammaln(n / 2))
    assert expected_norm(4.0 * np.eye(n)) == pytest.approx(expected, rel=0.025)
    assert expected < 2 * np.sqrt(n)


def test_the_norm_about_a_mean_by_integration():
    """Pairs that move along (3, 4)/5 with variance s^2 about a mean: one integral."""
    direction, mean, scale = np.array([0.6, 0.8]), np.array([[0.0, 0.0], [1.0, -2.0], [3.0, 4.0]]), np.array([1, 4, 0])
    found = expected_norms(np.outer(direction, direction), mean, scale)
    for value, middle, s in zip(found, mean, np.sqrt(scale), strict=True):

        def density(z, middle=middle, s=s):
            return np.linalg.norm(middle + s * z * direction) * np.exp(-z * z / 2) / np.sqrt(2 * np.pi)

        assert value == pytest.approx(integrate.quad(density, -10, 10, points=[0])[0], rel=0.025)
    assert found[2] == pytest.approx(5.0) and np.isnan(expected_norm(np.full((2, 2), np.nan)))


def test_a_large_covariance_is_drawn_by_its_triangular_root(monkeypatch):
    """The draws of numbers that are independent, mixed by a literal loop."""
    monkeypatch.setattr(sup, "_LARGE", 1)
    mixing = np.tril(np.random.default_rng(0).standard_normal((5, 5)))
    drawn = [row @ (mixing * np.sign(np.diag(mixing))).T for block in sup._normal(5, 1000) for row in block]
    found = expected_sup(mixing @ mixing.T, 1000), expected_norm(mixing @ mixing.T, 1000)
    assert found[0].value == pytest.approx(np.mean([max(abs(z)) for z in drawn]), rel=1e-6)
    assert found[1] == pytest.approx(np.mean([sum(z**2) ** 0.5 for z in drawn]), rel=1e-6)
