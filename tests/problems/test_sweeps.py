"""Values by sweeps, where LU would fill up, against literal loops, closed forms and LU."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from random_mdps import mdps
from scipy import sparse
from test_solvers import policies, value_iteration

import mqlearn as mq
from mqlearn.problems import policy_chains, solvers, sweeps
from mqlearn.problems.mdp import FiniteMDP, greedy
from mqlearn.problems.solvers import certified_error, policy_value

slow_machine = settings(deadline=None, max_examples=60)


def by_lu(mdp: FiniteMDP, policy: np.ndarray) -> np.ndarray:
    p, r = policy_chains.chain_of(mdp, policy)
    return policy_chains.factor(p, mdp.discount).solve(r)


@pytest.mark.parametrize(("dialect", "discount"), [("uniform", 0.99), ("normalised", 0.9), ("stick", 0.9)])
def test_the_optimum_of_a_large_garnet_is_that_of_a_literal_loop_within_its_certified_error(dialect, discount):
    mdp = mq.garnet(1500, dialect=dialect, discount=discount)
    assert sweeps.fills_up(mdp)
    found, n = mq.optimal(mdp), round(-30 / np.log(discount))  # what is left: e^-30 of the largest value
    literal = value_iteration(mdp, n)
    left = np.exp(-30) * np.abs(literal).max() / (1 - discount)
    assert found.error_bound < 1e-11 * np.abs(found.q).max()
    assert np.abs(found.q - literal).max() <= found.error_bound + left + 1e-13 * np.abs(literal).max()


@given(mdps())
@slow_machine
def test_sweeps_find_what_lu_finds_on_any_model(mdp):
    """Terminal and inadmissible actions, rewards of both signs, moves that stay."""
    q, _ = sweeps.optimal_table(mdp)
    assert certified_error(mdp, q) <= 1e-9 * max(1.0, np.abs(q).max())
    assert np.abs(q - solvers._by_two_methods(mdp)[0]).max() <= 2e-9 * max(1.0, np.abs(q).max())
    for policy in policies(mdp, 3):
        exact = by_lu(mdp, policy)
        v = sweeps.chain_values(mdp, *policy_chains.chain_of(mdp, policy))
        np.testing.assert_allclose(v, exact, rtol=1e-9, atol=1e-11 * max(1.0, np.abs(exact).max()))


def test_values_of_one_sign_are_right_in_their_own_digits():
    """Down to 1e-15 of the largest, far below the certified error, which is absolute."""
    lake = mq.frozen_lake_random(64, 0.8, 0, discount=0.9)
    q, _ = sweeps.optimal_table(lake)
    exact = mq.optimal(lake)
    assert exact.v[exact.v > 0].min() < 1e-15 * exact.v.max()
    np.testing.assert_allclose(q, exact.q, rtol=1e-8, atol=0)
    policy = greedy(lake, exact.q)
    v = sweeps.chain_values(lake, *policy_chains.chain_of(lake, policy))
    np.testing.assert_allclose(v, by_lu(lake, policy), rtol=1e-8, atol=0)


def cycles(n: int, length: int, discount: float) -> FiniteMDP:
    """n states in cycles of one length, dealt at random; entering the first of a cycle pays 1."""
    order = np.random.default_rng(0).permutation(n).reshape(-1, length)
    successors, rewards = np.empty((n, 1, 1), int), np.zeros((n, 1, 1))
    successors[order, 0, 0] = np.roll(order, -1, axis=1)
    rewards[order[:, -1]] = 1.0
    start, none = np.full(n, 1 / n), np.zeros(n, bool)
    ones = np.ones((n, 1, 1))
    return FiniteMDP(successors, ones, rewards, none, ones[:, :, 0] > 0, start, discount, none, "cycles")


@pytest.mark.parametrize("discount", [0.9, 0.999, 0.99999])
def test_cycles_which_never_mix_have_the_value_of_a_geometric_series(discount):
    mdp = cycles(3000, 30, discount)
    v = sweeps.chain_values(mdp, *policy_chains.chain_of(mdp, np.zeros(3000, int)))
    left = np.zeros(3000)  # moves until the reward
    x = np.flatnonzero(mdp.rewards[:, 0, 0])
    for moves in range(30):
        left[x] = moves
        x = np.argsort(mdp.successors[:, 0, 0])[x]  # who leads there
    np.testing.assert_allclose(v, discount**left / (1 - discount**30), rtol=1e-9)


def test_a_chain_that_hardly_mixes_is_solved_with_a_discount_near_1():
    """Two random halves of which one pays, with a way of 1e-6 between them."""
    n, discount, leak, rng = 4000, 0.99999, 1e-6, np.random.default_rng(1)
    half = np.arange(n) < n // 2
    inside = np.where(half[:, None], rng.integers(0, n // 2, (n, 3)), rng.integers(n // 2, n, (n, 3)))
    across = np.where(half, rng.integers(n // 2, n, n), rng.integers(0, n // 2, n))
    successors = np.column_stack([inside, across])[:, None]
    p = np.broadcast_to([*[(1 - leak) / 3] * 3, leak], (n, 1, 4)).copy()
    rewards = np.broadcast_to(1.0 * half[:, None, None], p.shape).copy()
    none = np.zeros(n, bool)
    mdp = FiniteMDP(successors, p, rewards, none, ~none[:, None], np.full(n, 1 / n), discount, none, "halves")
    assert sweeps.fills_up(mdp)
    v = policy_value(mdp, np.zeros(n, int))
    stay = discount * (1 - leak)  # lumped: two states
    low = discount * leak / ((1 - stay) ** 2 - (discount * leak) ** 2)
    high = (1 - stay) / ((1 - stay) ** 2 - (discount * leak) ** 2)
    np.testing.assert_allclose(v, np.where(half, high, low), rtol=1e-9)
    np.testing.assert_allclose(mq.optimal(mdp).v, np.where(half, high, low), rtol=1e-9)


def test_lakes_keep_lu_and_random_graphs_do_not():
    assert not sweeps.fills_up(mq.frozen_lake_blocks(16))
    assert not sweeps.fills_up(mq.frozen_lake_random(150, 0.7, 0))
    assert not sweeps.fills_up(mq.garnet(1000))
    assert not sweeps.fills_up(mq.machine(3000))
    assert sweeps.fills_up(mq.garnet(2500))


def test_no_table_of_states_by_states_is_made_of_a_large_sparse_model():
    n, rng = 6_000, np.random.default_rng(0)
    P = sparse.csr_array((np.full(6 * n, 1 / 3), rng.integers(0, n, 6 * n), np.arange(2 * n + 1) * 3), shape=(2 * n, n))
    R = rng.random((n, 2))
    sweeps.optimal_table(mq.two_state())  # what is imported and compiled is not counted
    tracemalloc.start()
    mdp = mq.from_arrays(P, R, axes="xuy", discount=0.9)
    optimum = mq.optimal(mdp)
    v = policy_value(mdp, np.full((n, 2), 0.5))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5e7  # dense: 5.8e8
    assert np.abs(R + 0.9 * (P @ optimum.v).reshape(n, 2) - optimum.q).max() < 1e-13
    assert np.abs(R.mean(1) + 0.9 * (P @ v).reshape(n, 2).mean(1) - v).max() < 1e-13


def test_equal_models_have_equal_bits():
    one, other = (mq.optimal(mq.garnet(2500, map_seed=4)) for _ in range(2))
    assert np.array_equal(one.q, other.q)
