"""Values of greedy policies by elimination in eights, against the sparse solver, one policy after the other."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_mdps import mdps

from mqlearn.learning.metrics import Measure, greedy_policies
from mqlearn.problems.environments import frozen_lake
from mqlearn.problems.mdp import FiniteMDP, bellman, table_of_pairs
from mqlearn.problems.solvers import optimal, policy_values_at_start


def check(mdp: FiniteMDP, pairs: np.ndarray) -> None:
    q = table_of_pairs(mdp, pairs)
    measure = Measure(mdp, optimal(mdp))
    expected = policy_values_at_start(mdp, greedy_policies(mdp, q))
    found, found_errors = measure.exact_values(q)
    assert found == pytest.approx(expected, rel=1e-11, abs=1e-11)
    for i in range(0, len(q), 5):  # by itself as beside others
        assert measure.exact_values(q[i : i + 1])[0] == found[i]
    errors = np.abs(bellman(mdp, q) - q)[:, mdp.counted].max(axis=1)
    assert found_errors == pytest.approx(errors, rel=1e-13, abs=1e-13)


@given(mdps(), st.integers(0, 2**32 - 1), st.integers(1, 20))
def test_random_models_and_tables_with_ties(mdp, seed, n):
    check(mdp, np.random.default_rng(seed).integers(-2, 3, (n, len(mdp.pairs))).astype(float))


@pytest.mark.parametrize("discount", [0.9, 0.9999])
@pytest.mark.parametrize("success_rate", [1 / 3, 0.8, 1.0])
def test_lakes(discount, success_rate):
    mdp = frozen_lake("8x8", discount=discount, success_rate=success_rate)
    check(mdp, np.random.default_rng(1).normal(size=(19, len(mdp.pairs))))


def test_of_the_optimal_table_it_is_the_optimal_value():
    mdp = frozen_lake("8x8", discount=0.99)
    measure = Measure(mdp, optimal(mdp))
    assert measure.exact_values(optimal(mdp).q[None])[0] == pytest.approx(optimal(mdp).start_value, rel=1e-13)
