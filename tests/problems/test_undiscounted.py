"""A discount of 1: values against linear programs, fractions and closed forms, and what is refused."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from random_mdps import random_mdp
from scipy.optimize import linprog
from test_solvers import exact_value, policies

import mqlearn as mq
from mqlearn.errors import SettingError
from mqlearn.learning.policy_values import PolicyValues, greedy_policies
from mqlearn.problems import endings, solvers, sweeps
from mqlearn.problems.environments import cliff_walking
from mqlearn.problems.mdp import FiniteMDP, greedy
from mqlearn.problems.operators import fixed_point
from mqlearn.problems.solvers import certified_error, optimal, policy_value, policy_values_at_start


def drawn(seed: int, n_states: int, proper: bool) -> FiniteMDP:
    """A random problem whose policies all end, with rewards of both signs, or that costs something at each move."""
    mdp = random_mdp(seed, n_states, 3, 3, 0.9, "mixed" if proper else "negative")
    share, ends = (0.2 if proper else 0.0), mdp.terminal | (np.arange(n_states) == 0)
    p = np.concatenate([(1 - share) * mdp.probabilities, np.full((n_states, 3, 1), share)], axis=2)
    y = np.concatenate([mdp.successors, np.full((n_states, 3, 1), n_states - 1)], axis=2)
    r = np.concatenate([mdp.rewards - (not proper), np.zeros((n_states, 3, 1))], axis=2)
    if not proper:  # from each state a way, if a costly one
        y[:, 0, 0] = np.maximum(np.arange(n_states) - 1, 0)
        y[0, 0, 0] = n_states - 1
    admissible = mdp.admissible | (np.arange(3) == 0)
    closed = mdp.terminal & ~ends | (np.arange(n_states) == n_states - 1)
    y[closed], r[closed] = n_states - 1, 0.0
    y[closed] = np.flatnonzero(closed)[:, None, None]
    start = np.where(closed, 0.0, 1.0)
    return FiniteMDP(y, p, r, closed, admissible, start / start.sum(), 1, closed, f"drawn {seed}")


def exact_optimum(mdp: FiniteMDP) -> list[list[Fraction]]:
    """Q* in rational numbers: the values of a policy that no action betters, which is checked."""
    v = exact_value(mdp, greedy(mdp, optimal(mdp).q))
    q = [[Fraction(0)] * mdp.n_actions for _ in range(mdp.n_states)]
    for x, u in mdp.pairs.tolist():
        outcomes = mdp.probabilities[x, u], mdp.rewards[x, u], mdp.successors[x, u]
        terms = zip(*(array.tolist() for array in outcomes), strict=True)
        q[x][u] = sum((Fraction(p) * (Fraction(r) + v[y]) for p, r, y in terms), Fraction(0))
        assert q[x][u] <= v[x]
    return q


@pytest.mark.parametrize("proper", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_the_optimum_is_that_of_fractions_and_of_a_linear_program(seed, proper):
    """Also the certificate: of Q*, and of tables near and far from it, it is never below the error."""
    mdp = drawn(seed, 6, proper)
    optimum, exact = optimal(mdp), np.array(exact_optimum(mdp))[mdp.learned]
    found = [Fraction(value) for value in optimum.q[mdp.learned].tolist()]
    assert max(abs(a - b) for a, b in zip(found, exact, strict=True)) <= Fraction(optimum.error_bound)
    assert optimum.error_bound < 1e-10 * max(1.0, np.abs(optimum.v).max())
    matrix = [-np.bincount(mdp.successors[x, u], mdp.probabilities[x, u], mdp.n_states) for x, u in mdp.pairs]
    rows = (np.eye(mdp.n_states)[mdp.pairs[:, 0]] + matrix)[:, ~mdp.terminal]  # least v with v >= r + P v
    program = linprog(np.ones(rows.shape[1]), -rows, -mdp.mean_rewards[mdp.learned], bounds=(None, None))
    np.testing.assert_allclose(program.x, optimum.v[~mdp.terminal], rtol=1e-7, atol=1e-7)
    for size in (1e-9, 1e-3, 1.0):
        q = optimum.q + np.where(mdp.learned, np.random.default_rng(seed).normal(size=optimum.q.shape), 0.0) * size
        error = max(abs(Fraction(a) - b) for a, b in zip(q[mdp.learned].tolist(), exact, strict=True))
        bound = certified_error(mdp, q)
        assert error <= bound and (bound < 1e5 * size or not proper)


def test_values_that_are_known():
    assert mq.windy_grid(discount=1).discount == 1.0
    for mdp, known in (
        (mq.windy_grid(discount=1), {30: -15.0}),
        (cliff_walking(discount=1), {36: -13.0}),
        (mq.bias(discount=1), {0: 0.0, 1: -0.1}),
        (mq.deep_sea(10, discount=1), {0: 0.99}),
        (mq.noisy_grid(discount=1), {6: 1.0, 2: 5.0}),
        (mq.gambler(discount=1), {25: 0.16, 50: 0.4, 75: 0.64}),  # bold play: p^2, p, p + (1 - p) p
        (mq.from_arrays(*_walk(20), discount=1, terminal=_ends(20)), {10: -100.0, 1: -19.0}),  # x (n - x)
    ):
        for x, value in known.items():
            assert optimal(mdp).v[x] == pytest.approx(value, abs=1e-10), mdp.name
    assert optimal(mq.windy_grid(discount=1)).horizon == pytest.approx(16, abs=1e-4)  # a step away, and 15


def _ends(n: int) -> np.ndarray:
    return np.isin(np.arange(n + 1), [0, n])


def _walk(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Duration of a fair walk between 0 and n, which costs 1 a step."""
    p = np.zeros((n + 1, 1, n + 1))
    for x in range(1, n):
        p[x, 0, [x - 1, x + 1]] = 0.5
    return p, -1.0 * ~_ends(n)[:, None]


@pytest.mark.parametrize("proper", [True, False])
def test_sweeps_find_the_same(monkeypatch, proper):
    for seed in range(2):
        mdp = drawn(100 + seed, 15, proper)
        known, some = optimal(mdp), policies(mdp, 4, seed)
        values = [policy_value(mdp, policy) for policy in some]
        with monkeypatch.context() as patched:
            patched.setattr(sweeps, "fills_up", lambda mdp: True)
            found = solvers._solve_optimum(mdp)
            swept = [policy_value(mdp, policy) for policy in some]
        assert np.abs(found.q - known.q).max() <= found.error_bound + known.error_bound < 1e-10 * np.abs(known.q).max()
        np.testing.assert_allclose(swept, values, rtol=1e-9)


def test_end_components_are_those_of_all_policies():
    """A pair is in one if a deterministic policy has it at a state to which it always returns. By enumeration."""
    some = 0
    for seed in range(30):
        mdp = random_mdp(seed, 4, 2, 2, 0.9, "mixed")
        wanted = np.zeros((4, 2), bool)
        for policy in itertools.product(range(2), repeat=4):
            u = np.where(mdp.learned[range(4), policy], policy, mdp.admissible.argmax(1))
            p = np.zeros((4, 4))
            for x, b in itertools.product(range(4), range(2)):
                p[x, mdp.successors[x, u[x], b]] += mdp.probabilities[x, u[x], b] if not mdp.terminal[x] else 0.5
            leads = np.linalg.matrix_power(np.eye(4) + p, 8) > 0
            recurrent = ~(leads & ~leads.T).any(1) & ~mdp.terminal
            wanted[recurrent, u[recurrent]] = True
        possible = (mdp.probabilities > 0) & mdp.learned[:, :, None]
        found = endings.end_components(mdp.successors, possible, mdp.learned)
        assert np.array_equal(found, wanted)
        some += found.any()
    assert 5 < some < 25


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: mq.two_state(discount=1), "no policy ends from state 0 of two_state; use a discount below 1"),
        (lambda: mq.frozen_lake("4x4", discount=1), "may stay around state 0 for ever, where action 3 pays 0"),
        (lambda: mq.frozen_lake("4x4").with_discount(1), "such as 0.999"),
        (lambda: mq.RescaledLinear(1.0), "step_size=polynomial, harmonic or constant"),
        (lambda: _run(mq.DoubleQ()), "choose step_size=polynomial"),
        (lambda: _run(mq.AveragingQ()), "choose step_size=polynomial"),
        (lambda: _run(mq.Nesterov(), step_size=mq.Constant(0.1)), "algorithm='Nesterov': needs a discount below 1"),
        (lambda: _run(mq.Phased()), "needs a discount below 1"),
        (lambda: _run(mq.CertaintyEquivalence()), "needs a discount below 1"),
        (lambda: _run(mq.VarianceReduced(), step_size=mq.Constant(0.1)), "algorithm.steps=None"),
        (lambda: _run(mq.QLearning(), operator=mq.Relative()), "use bellman or expected"),
        (lambda: _run(mq.QLearning(), operator=mq.Truncated()), "use bellman or expected"),
        (lambda: _run(mq.QLearning(), sampling=mq.IID(), features=mq.one_hot(BIAS)), "use features=tabular"),
        (lambda: _run(mq.QLearning()).theory(), "discount=1: needs a discount below 1"),
    ],
)
def test_what_needs_a_discount_is_refused(make, words):
    with pytest.raises(SettingError) as refused:
        make()
    assert words in str(refused.value)


BIAS = mq.bias(discount=1)


def _run(rule, mdp=BIAS, **settings):
    return mq.run(mdp, rule, iterations=5, n_seeds=2, **settings)


def test_the_value_of_a_policy_that_may_never_end_is_minus_infinity():
    """Against 10^6 moves, by squares of its chain; the kernel of small models against sparse LU."""
    mdp = mq.windy_grid(discount=1)
    tables = np.random.default_rng(0).integers(0, 3, (24, 70, 4)).astype(float)
    tables[0], tables[1] = optimal(mdp).q, 0.0
    for policy in greedy_policies(mdp, tables[:6]):
        v, sums, moves = policy_value(mdp, policy), -1.0 * ~mdp.terminal, np.zeros((70, 70))
        for x, u in mdp.pairs:
            moves[x, mdp.successors[x, u, 0]] += policy[x, u]
        for _ in range(20):
            sums, moves = sums + moves @ sums, moves @ moves
        endless = sums < -100_000
        assert np.array_equal(endless, np.isneginf(v))
        np.testing.assert_allclose(sums[~endless], v[~endless], rtol=1e-9)
    at_start = policy_values_at_start(mdp, greedy_policies(mdp, tables))
    assert at_start[0] == pytest.approx(-15) and 0 < np.isinf(at_start).sum() < 24
    np.testing.assert_allclose(PolicyValues(mdp).at_start(tables), at_start, rtol=1e-12)


def test_rules_learn_and_say_where_a_greedy_policy_may_never_end():
    mdp = mq.windy_grid(discount=1)
    result = mq.run(mdp, mq.QLearning(), iterations=300, n_seeds=2, step_size=mq.Constant(1.0))
    assert result.curves["q_error"][:, -1].max() == 0  # steps of 1 without noise: value iteration, which is over
    chain = mq.Markovian(behaviour="epsilon_greedy")
    early = mq.run(mdp, mq.QLearning(), iterations=40, n_seeds=5, sampling=chain, step_size=mq.Constant(0.5))
    endless = np.isneginf(early.curves["policy_value"][:, -1])
    assert 0 < endless.sum() < 5 and np.array_equal(np.isposinf(early.curves["value_gap"][:, -1]), endless)
    assert np.isfinite(early.curves["expected_return"][:, -1]).all()
    assert "endless_policy" in {found.code for found in early.findings}


@pytest.mark.integration  # it compiles the operator
def test_the_best_policy_that_explores_is_found_undiscounted():
    """The operator of expected Sarsa on the cliff, against iteration of its equation."""
    mdp, q = cliff_walking(discount=1), np.zeros((48, 4))
    for _ in range(1000):
        v = np.where(mdp.terminal, 0.0, 0.9 * q.max(1) + 0.1 * q.mean(1))
        q = np.where(mdp.learned, mdp.mean_rewards + (mdp.probabilities * v[mdp.successors]).sum(2), 0.0)
    point = fixed_point(mdp, mq.Expected(0.1))
    np.testing.assert_allclose(point.q, q, rtol=1e-9)
    assert point.error_bound is None and point.residual < 1e-9
