"""The exact solutions against slower methods (plain loops, fractions, enumeration) and reference values."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_mdps import mdps, random_mdp
from twins import success_within

from mqlearn.errors import SettingError
from mqlearn.problems import solvers
from mqlearn.problems.environments import cliff_walking, frozen_lake, frozen_lake_random
from mqlearn.problems.mdp import FiniteMDP, bellman, greedy, state_values
from mqlearn.problems.solvers import (
    ConvergenceError,
    certified_error,
    optimal,
    optimal_actions,
    policy_value,
    shortest_path,
    success_probability,
)

slow_machine = settings(deadline=None, max_examples=60)


def value_iteration(mdp: FiniteMDP, sweeps: int) -> np.ndarray:
    """Q after `sweeps` applications of the operator, written without any of the package's functions."""
    v = np.zeros(mdp.n_states)
    q = np.zeros((mdp.n_states, mdp.n_actions))
    for _ in range(sweeps):
        q = (mdp.probabilities * (mdp.rewards + mdp.discount * v[mdp.successors])).sum(2)
        v = np.where(mdp.terminal, 0, np.where(mdp.admissible, q, -np.inf).max(1))
    return q


def exact_value(mdp: FiniteMDP, policy: np.ndarray) -> list[Fraction]:
    """The value of a policy on the model as stored, in rational numbers (Gauss elimination)."""
    live = np.flatnonzero(~mdp.terminal).tolist()
    place = {x: i for i, x in enumerate(live)}
    rows = []
    for x in live:
        row = [Fraction(0)] * (len(live) + 1)
        row[place[x]] += 1
        outcomes = mdp.probabilities[x, policy[x]], mdp.rewards[x, policy[x]], mdp.successors[x, policy[x]]
        for p, r, y in zip(*(array.tolist() for array in outcomes), strict=True):
            row[-1] += Fraction(p) * Fraction(r)
            if y in place:
                row[place[y]] -= Fraction(mdp.discount) * Fraction(p)
        rows.append(row)
    for i in range(len(live)):  # row-wise dominant: no pivot is zero
        for j in range(len(live)):
            if j != i and rows[j][i]:
                factor = rows[j][i] / rows[i][i]
                rows[j] = [a - factor * b for a, b in zip(rows[j], rows[i], strict=True)]
    values = [Fraction(0)] * mdp.n_states
    for x, i in place.items():
        values[x] = rows[i][-1] / rows[i][i]
    return values


def policies(mdp: FiniteMDP, n: int, seed: int = 0) -> np.ndarray:
    """(n, S) random admissible actions."""
    draws = np.random.default_rng(seed).random((n, mdp.n_states, mdp.n_actions))
    return np.where(mdp.admissible, draws, -1).argmax(2)


@pytest.mark.parametrize(
    ("name", "discount", "value"),
    [
        ("4x4", 0.9, 0.0688909049),
        ("4x4", 0.95, 0.1804715784),
        ("4x4", 0.99, 0.5420259320),
        ("8x8", 0.9, 0.0064111143),
        ("8x8", 0.95, 0.0482502041),
        ("8x8", 0.99, 0.4146403618),
    ],
)
def test_start_values_of_the_named_maps(name, discount, value):
    optimum = optimal(frozen_lake(name, discount=discount))
    assert optimum.start_value == pytest.approx(value, abs=5e-11)
    assert 0 < optimum.error_bound < 1e-12


@pytest.mark.parametrize("discount", [0.9, 0.99, 0.9999])
def test_the_optimum_of_the_cliff_is_thirteen_steps(discount):
    optimum = optimal(cliff_walking(discount=discount))
    steps = -(1 - discount**13) / (1 - discount)  # -7.458134 at 0.9, -12.247898 at 0.99, -13 in the limit
    assert optimum.start_value == pytest.approx(steps, abs=optimum.error_bound)


@slow_machine
@given(mdps())
def test_the_optimum_is_that_of_plain_value_iteration(mdp):
    optimum = optimal(mdp)
    sweeps = int(-32 / np.log(mdp.discount))
    rest = 2 * mdp.discount**sweeps / (1 - mdp.discount) + 1e-13 / (1 - mdp.discount)
    difference = np.abs(np.where(mdp.learned, value_iteration(mdp, sweeps) - optimum.q, 0)).max()
    assert difference <= optimum.error_bound + rest
    assert optimum.error_bound <= 1e-13 * (1 + np.abs(optimum.q).max()) / (1 - mdp.discount)
    assert np.array_equal(optimum.v, state_values(mdp, optimum.q))
    assert optimum.start_value == pytest.approx(mdp.start @ optimum.v)


@slow_machine
@given(mdps(), st.floats(1e-12, 10), st.integers(0, 2**32 - 1))
def test_the_certificate_covers_the_true_error_of_any_table(mdp, size, seed):
    optimum = optimal(mdp)
    noise = size * np.random.default_rng(seed).uniform(-1, 1, optimum.q.shape) * mdp.learned
    assert np.abs(noise).max() <= certified_error(mdp, optimum.q + noise) + optimum.error_bound


@pytest.mark.parametrize("discount", [0.1, 0.9, 0.999])
def test_the_error_bound_holds_in_rational_numbers(discount):
    mdp = frozen_lake(discount=discount)
    optimum = optimal(mdp)
    v = exact_value(mdp, greedy(mdp, optimum.q))
    p, r, y = mdp.probabilities.tolist(), mdp.rewards.tolist(), mdp.successors.tolist()
    for x, u in mdp.pairs.tolist():
        q = sum(
            Fraction(p[x][u][b]) * (Fraction(r[x][u][b]) + Fraction(mdp.discount) * v[y[x][u][b]])
            for b in range(mdp.n_successors)
        )
        assert q <= v[x] * (1 + Fraction(1, 10**13))  # so v is optimal
        distance = abs(q - Fraction(float(optimum.q[x, u])))
        assert distance <= optimum.error_bound
        assert distance <= q / 10**13


@pytest.mark.parametrize(("tiles", "discount"), [(60, 0.1), (200, 0.5), (800, 0.9)])
def test_tiny_values_are_right_relative_to_themselves(tiles, discount):
    """On a corridor, going right moves with probability 1/3 and stays otherwise."""
    mdp = frozen_lake(["S" + "F" * (tiles - 2) + "G"], discount=discount)
    step = (discount / 3) / (1 - 2 * discount / 3)
    value = step ** (tiles - 2) * (1 / 3) / (1 - 2 * discount / 3)
    assert 0 < value < 1e-60
    assert optimal(mdp).start_value == pytest.approx(value, rel=1e-11)


def test_a_large_random_map_is_practically_unsolvable_but_its_value_is_not_zero():
    mdp = frozen_lake_random(128, 0.8, 0, discount=0.99)
    assert success_probability(mdp) @ mdp.start == pytest.approx(9.95e-07, rel=1e-3)
    assert optimal(mdp).start_value == pytest.approx(1.431e-14, rel=1e-3)
    mdp = mdp.with_discount(0.9)
    optimum = optimal(mdp)
    assert 1e-60 < optimum.start_value < 1e-40
    hopeful = (success_probability(mdp) > 0) & ~mdp.terminal
    assert (optimum.v[hopeful] > 0).all()
    residual = np.abs(state_values(mdp, bellman(mdp, optimum.q)) - optimum.v)
    assert (residual <= 1e-11 * optimum.v).all()  # relative, also where the values are 1e-50


@pytest.mark.parametrize(("discount", "value", "digit"), [(0.99, 0.0005924, 1e-7), (0.999, 0.4658, 1e-4)])
def test_a_large_random_map_with_more_ice(discount, value, digit):
    mdp = frozen_lake_random(128, 0.98, 0, discount=discount)
    assert optimal(mdp).start_value == pytest.approx(value, abs=digit / 2)


def test_equal_actions_do_not_make_policy_iteration_cycle():
    mdp = frozen_lake(["SFFFFF", "FFFFFF", "FFFFFF", "FFFFFG"], slippery=False, discount=0.9999)
    optimum = optimal(mdp)
    assert optimum.start_value == pytest.approx(0.9999**7, rel=1e-12)
    assert optimum.iterations < 20


def test_where_nothing_is_paid_the_optimum_is_zero_with_no_error():
    optimum = optimal(frozen_lake(rewards=(0, 0, 0)))
    assert not optimum.q.any()
    assert optimum.error_bound == 0


def test_a_discount_too_near_one_is_refused_instead_of_solved_badly():
    with pytest.raises(SettingError, match="double precision"):
        optimal(frozen_lake(discount=1 - 1e-12))


def test_two_solutions_that_disagree_are_an_error(monkeypatch):
    mdp = frozen_lake()
    right, _ = solvers._policy_iteration(mdp, np.zeros((16, 4)))
    monkeypatch.setattr(solvers, "_policy_iteration", lambda *_: (right + 1e-9 * mdp.learned, 1))
    monkeypatch.setattr(solvers, "certified_error", lambda *_: 1e-13)
    with pytest.raises(ConvergenceError, match="differ by 1e-09"):
        optimal(mdp)


def test_the_optimum_of_a_model_is_computed_once():
    mdp = frozen_lake()
    assert optimal(mdp) is optimal(mdp)
    assert optimal(mdp.with_discount(0.9)) is not optimal(mdp)


def test_optimal_actions_are_counted_over_reachable_states():
    assert optimal_actions(frozen_lake(["SF", "FG"], slippery=False)) == 4  # two ways, then one action each
    assert optimal_actions(frozen_lake(["SG", "HH", "FF"], slippery=False)) == 1  # the last row is out of reach
    assert optimal_actions(frozen_lake(rewards=(0, 0, 0))) == 44


@slow_machine
@given(mdps(), st.integers(0, 2**32 - 1))
def test_the_value_of_a_policy_solves_its_linear_system(mdp, seed):
    policy = policies(mdp, 1, seed)[0]
    v = policy_value(mdp, policy)
    exact = [float(value) for value in exact_value(mdp, policy)]
    assert v == pytest.approx(exact, rel=1e-11, abs=1e-11)
    shares = np.eye(mdp.n_actions)[policy]
    assert policy_value(mdp, shares) == pytest.approx(v, abs=1e-13 / (1 - mdp.discount))
    assert (v <= optimal(mdp).v + optimal(mdp).error_bound + 1e-11).all()


def test_the_value_of_a_random_policy_is_the_mean_over_its_actions():
    mdp = random_mdp(3, 6, 3, 3, 0.9, "mixed")
    shares = np.where(mdp.admissible, 1.0, 0.0)
    shares /= shares.sum(1, keepdims=True)
    v = policy_value(mdp, shares)
    ahead = (mdp.probabilities * (mdp.rewards + mdp.discount * v[mdp.successors])).sum(2)
    assert v == pytest.approx(np.where(mdp.terminal, 0, (shares * ahead).sum(1)), abs=1e-12)


@pytest.mark.parametrize(
    "policy",
    [np.zeros(15, int), np.full(16, 4), np.full(16, -1), np.zeros((16, 4)), np.zeros(16), np.eye(16)[:, :4]],
)
def test_a_policy_that_is_none_is_refused(policy):
    with pytest.raises(SettingError, match="policy"):
        policy_value(frozen_lake(), policy)


def test_an_action_that_a_state_does_not_have_is_refused():
    mdp = random_mdp(1, 6, 3, 2, 0.9, "mixed")
    policy = policies(mdp, 1)[0]
    x, u = np.argwhere(~mdp.admissible & ~mdp.terminal[:, None])[0]
    policy[x] = u
    with pytest.raises(SettingError, match=rf"policy\[{x}\]={u}"):
        policy_value(mdp, policy)


def test_success_probabilities_of_the_named_maps():
    mdp = frozen_lake()
    assert success_probability(mdp) @ mdp.start == pytest.approx(14 / 17, rel=1e-12)
    mdp = frozen_lake("8x8")
    assert success_probability(mdp) @ mdp.start == pytest.approx(1, rel=1e-12)


@slow_machine
@given(mdps(discounts=(0.9,)))
def test_the_success_probability_is_the_least_solution_of_a_linear_program(mdp):
    """min sum v subject to v >= P v for each pair and v = 1 at goals (Puterman 1994, section 7.2)."""
    from scipy.optimize import linprog

    ahead = np.zeros((len(mdp.pairs), mdp.n_states))
    for row, (x, u) in zip(ahead, mdp.pairs, strict=True):
        np.add.at(row, mdp.successors[x, u], mdp.probabilities[x, u])
        row[x] -= 1
    best = success_probability(mdp)
    bounds = [(1, 1) if goal else (0, 1) for goal in mdp.goal]
    least = linprog(np.ones(mdp.n_states), ahead, np.zeros(len(ahead)), bounds=bounds)
    # The program is solved to 1e-7 in its constraints, which slow chains amplify.
    assert best == pytest.approx(least.x, abs=1e-3)
    assert (ahead[~mdp.goal[mdp.pairs[:, 0]]] @ best <= 1e-12).all()


def test_an_action_that_stays_for_ever_does_not_spoil_the_success_probability():
    """Staying has the same value as going, so only strict improvement keeps the policy away from it."""
    moves = np.array([[[0], [1]], [[1], [2]], [[2], [2]]])
    mdp = FiniteMDP(
        successors=moves,
        probabilities=np.ones((3, 2, 1)),
        rewards=np.zeros((3, 2, 1)),
        terminal=np.array([False, False, True]),
        admissible=np.ones((3, 2), bool),
        start=np.array([1.0, 0, 0]),
        discount=0.9,
        goal=np.array([False, False, True]),
        name="stay or go",
    )
    assert success_probability(mdp).tolist() == [1, 1, 1]
    assert success_within(mdp, np.array([1, 1, 0]), 1).tolist() == [0, 1, 1]
    assert success_within(mdp, np.array([0, 1, 0]), 99).tolist() == [0, 1, 1]


def test_success_within_a_few_steps_by_enumeration():
    mdp = frozen_lake(["SFG", "FHF"])
    policy = policies(mdp, 1)[0]
    for steps in range(5):
        expected = 0.0
        for outcomes in itertools.product(range(3), repeat=steps):
            x, probability = 0, 1.0
            for b in outcomes:
                probability *= mdp.probabilities[x, policy[x], b]
                x = mdp.successors[x, policy[x], b]
            expected += probability * mdp.goal[x]
        assert success_within(mdp, policy, steps)[0] == pytest.approx(expected, abs=1e-15)


def test_success_within_many_steps_is_the_success_probability():
    mdp = frozen_lake(discount=0.9999)
    policy = greedy(mdp, optimal(mdp).q)
    shares = np.eye(4)[policy]
    curve = [success_within(mdp, policy, steps)[0] for steps in (0, 5, 6, 50, 5000)]
    assert curve[:2] == [0, 0]  # the goal is six moves away
    assert sorted(curve) == curve
    assert curve[2] > 0
    assert curve[-1] == pytest.approx(14 / 17, rel=1e-9)
    assert success_within(mdp, shares, 50)[0] == pytest.approx(curve[3])


def test_shortest_paths():
    assert shortest_path(frozen_lake()) == 6
    assert shortest_path(frozen_lake("8x8")) == 14
    assert shortest_path(frozen_lake_random(128, 1.0)) == 254
    mdp = random_mdp(0, 1, 1, 1, 0.9, "mixed")  # no goal at all
    assert shortest_path(mdp) is None
