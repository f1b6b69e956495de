"""Values by elimination of states, against LU, closed forms and what defines them."""

import numpy as np
import pytest
from hypothesis import given, settings
from random_mdps import mdps
from test_solvers import policies
from test_undiscounted import drawn

import mqlearn as mq
from mqlearn.problems import costs, elimination, policy_chains, solvers, sweeps
from mqlearn.problems.mdp import FiniteMDP, backup, expected
from mqlearn.problems.solvers import certified_error, policy_value, success_probability


@given(mdps())
@settings(deadline=None, max_examples=60)
def test_elimination_finds_what_lu_finds_on_any_model(mdp):
    """Terminal and inadmissible actions, rewards of both signs, moves that stay, equal successors."""
    some = policies(mdp, 3)
    v, _ = elimination.optimal_values(mdp, some[0])
    exact = solvers._by_two_methods(mdp)[0]
    assert certified_error(mdp, backup(mdp, v)) <= 1e-9 * max(1.0, np.abs(exact).max())
    assert np.abs(backup(mdp, v) - exact).max() <= 2e-9 * max(1.0, np.abs(exact).max())
    for policy in some:
        value = elimination.chain_values(mdp, *policy_chains.chain_of(mdp, policy))
        scale = max(1.0, np.abs(exact).max())
        np.testing.assert_allclose(value, policy_value(mdp, policy), rtol=1e-9, atol=1e-12 * scale)
    np.testing.assert_allclose(elimination.success(mdp, some[0]), success_probability(mdp), rtol=1e-9, atol=0)


@pytest.mark.parametrize("proper", [True, False])
def test_undiscounted_values_are_those_of_lu(proper):
    for seed in range(4):
        mdp = drawn(200 + seed, 15, proper)
        known = mq.optimal(mdp)
        v, _ = elimination.optimal_values(mdp, solvers._first_policy(mdp))
        np.testing.assert_allclose(backup(mdp, v), known.q, rtol=0, atol=1e-11 * np.abs(known.q).max())


def waiting(leak: float) -> FiniteMDP:
    """Two states between which one waits for 1/(4 leak) moves; from both a quarter of the ends is a goal."""
    moves = np.array([[1, 2, 3], [0, 2, 3], [2, 2, 2], [3, 3, 3]])[:, None]
    ends = np.array([False, False, True, True])
    p = np.where(ends[:, None, None], [1.0, 0, 0], [1 - 4 * leak, leak, 3 * leak])
    ones, goal = np.ones((4, 1), bool), np.array([False, False, True, False])
    return FiniteMDP(moves, p, np.zeros(p.shape), ends, ones, np.eye(4)[0], 0.9, goal, "waiting")


def test_nothing_cancels_however_long_episodes_last():
    """Where 1 - p(x, x) would have no digit left: LU is wrong by more than a tenth."""
    for leak in (1e-3, 1e-9, 1e-15, 1e-17, 1e-200):
        np.testing.assert_allclose(elimination.success(waiting(leak), np.zeros(4, int)), [0.25, 0.25, 1, 0], rtol=1e-15)


def test_a_policy_that_goes_round_for_ever_is_left():
    """Two states that lead to each other or, from the second, to the goal; a third one that nobody leaves."""
    moves = np.array([[[1], [1]], [[0], [3]], [[2], [2]], [[3], [3]]])
    one, goal = np.ones((4, 2, 1)), np.arange(4) == 3
    start = np.array([0.5, 0, 0.5, 0])
    mdp = FiniteMDP(moves, one, 0 * one, goal, one[:, :, 0] > 0, start, 0.9, goal, "round")
    for policy in ([0, 0, 0, 0], [1, 1, 1, 0]):
        assert elimination.success(mdp, np.array(policy)).tolist() == [1, 1, 0, 1]


@pytest.fixture
def lake(monkeypatch) -> FiniteMDP:
    """Of 64x64 tiles, taken for one on which LU fills up."""
    monkeypatch.setattr(sweeps, "_SEPARATOR", 30)
    mdp = mq.frozen_lake_random(64, 0.8, 0, discount=0.99)
    assert sweeps.fills_up(mdp) and costs.narrow(mdp) and costs.eliminates_optimum(mdp)
    return mdp


def test_a_large_lake_has_the_values_of_lu_each_in_its_own_digits(lake, monkeypatch):
    found, success = mq.optimal(lake), success_probability(lake)
    policy = policies(lake, 1)[0]
    value = policy_value(lake, policy)
    monkeypatch.setattr(sweeps, "_SEPARATOR", 400)
    exact = mq.optimal(lake.with_discount(0.99))
    assert found.error_bound < 1e-12
    assert exact.q[exact.q > 0].min() < 1e-7 * exact.q.max()
    np.testing.assert_allclose(found.q, exact.q, rtol=1e-12, atol=0)
    np.testing.assert_allclose(success, success_probability(lake), rtol=1e-11, atol=0)
    np.testing.assert_allclose(value, policy_value(lake, policy), rtol=1e-10, atol=0)


def test_the_probability_of_success_is_the_least_that_no_move_betters():
    """Of all v >= P v with 1 at goals (Puterman 1994, 7.2.10): what sweeps from 0 come up to, and never pass."""
    lake = mq.frozen_lake_random(12, 0.8, 0)
    v = elimination.success(lake, lake.admissible.argmax(1))
    assert (expected(lake, v).max(1) <= v * (1 + 1e-13))[~lake.terminal].all()
    below = 1.0 * lake.goal
    for _ in range(8000):
        below = np.where(lake.terminal, lake.goal, expected(lake, below).max(1))
    assert (below <= v * (1 + 1e-12)).all()
    np.testing.assert_allclose(below, v, rtol=1e-9, atol=0)


def test_what_changes_is_eliminated_anew_to_the_same_bits(lake):
    """Rows that stand on no changed state are kept."""
    order = elimination._order(lake)
    one, other = policies(lake, 2)[:, order.order]
    n, random = len(one), np.random.default_rng(0)
    other = np.where(random.random(n) < 0.01, other, one)
    n_outcomes = lake.n_successors

    def rows(policy: np.ndarray) -> tuple[np.ndarray, ...]:
        y, p = lake.successors[order.order, policy], lake.probabilities[order.order, policy]
        return order.number[y].ravel(), p.ravel(), lake.mean_rewards[order.order, policy]

    first = np.arange(n + 1, dtype=np.uint64) * np.uint64(n_outcomes)
    changing = elimination._Elimination(order, first, rows(one), 0.99)
    changing.values()
    for kept, new in zip(changing.chosen, rows(other), strict=True):
        kept[:] = new
    changing.stale[:-1] = one != other
    anew = elimination._Elimination(order, first, rows(other), 0.99)
    assert np.array_equal(changing.values(), anew.values()) and np.array_equal(changing.shares, anew.shares)


def test_maps_are_eliminated_and_random_graphs_are_not():
    assert costs.narrow(mq.frozen_lake_blocks(16)) and costs.narrow(mq.frozen_lake_random(150, 0.95, 0))
    assert not costs.narrow(mq.garnet(2500)) and not costs.narrow(mq.garnet(2500, n_successors=1))
