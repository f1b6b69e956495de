import numpy as np
import pytest
from scipy import integrate, special

from mqlearn.theory.sup import expected_sup


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
