"""Identities that hold among the oracles: they guard the equations that the package's rules are tested against."""

from functools import partial

import numpy as np
import pytest
from oracles import (
    Draws,
    Problem,
    asynchronous,
    epoch_steps,
    four_numbers,
    halpern_difference,
    halpern_direct,
    harmonic,
    momentum_q,
    nesa,
    q_learning,
    root_sa,
    root_sa_numbers,
    speedy_q,
    synchronous,
    wainwright,
)
from oracles_adaptive import Gains, adam, amsgrad, pid, pid_adaptive
from oracles_linear import (
    adam_linear,
    amsgrad_linear,
    averaging_linear,
    double_linear,
    momentum_linear,
    movi_linear,
    nesterov_linear,
    numbers_linear,
    periodic_linear,
    polsa_linear,
    q_linear,
    residual_linear,
    root_sa_linear,
    zap_linear,
)
from oracles_state import (
    averaging_q,
    double_q,
    movi,
    nesterov,
    periodic,
    phased,
    polsa,
    polyak_ruppert,
    residual_gradient,
    variance_reduced,
    zap,
    zap_asynchronous,
)

PAIRS = [(0, 0), (0, 1), (0, 2), (1, 0), (2, 0), (2, 1), (3, 1), (3, 2)]  # ragged; state 4 is terminal
TERMINAL = [False, False, False, False, True]
SUCCESSORS = np.array([[1, 2, 4], [0, 3, 3], [2, 2, 4], [0, 1, 3], [4, 4, 1], [3, 0, 2], [0, 0, 4], [1, 2, 3]])
REWARDS = np.linspace(-1.0, 1.0, SUCCESSORS.size).reshape(SUCCESSORS.shape)
N = len(PAIRS)


def problem(discount: float = 0.8) -> Problem:
    """Four states with one to three actions and a terminal one; Q_0 without ties."""
    return Problem(PAIRS, TERMINAL, discount, np.random.default_rng(3).uniform(-1, 1, N))


def table_draws(iterations: int, seed: int = 0, batch: int = 1) -> Draws:
    """Each of three successors with 1/3, rewards sampled."""
    generator = np.random.default_rng(seed)
    which, again = generator.integers(3, size=(2, iterations, batch, N))
    coins, rows = generator.random((iterations, 4)), np.arange(N)
    return synchronous(
        lambda k: (SUCCESSORS[rows, which[k]], REWARDS[rows, which[k]]),
        lambda k: SUCCESSORS[rows, again[k]],
        lambda k: list(coins[k]),
    )


def chain_draws(iterations: int, seed: int = 0) -> Draws:
    """Independent pairs, one an iteration."""
    generator = np.random.default_rng(seed)
    pairs, (which, again) = generator.integers(N, size=iterations), generator.integers(3, size=(2, iterations))
    coins = generator.random((iterations, 4))
    transitions = [(int(i), int(SUCCESSORS[i, j]), float(REWARDS[i, j])) for i, j in zip(pairs, which, strict=True)]
    second = [int(SUCCESSORS[i, j]) for i, j in zip(pairs, again, strict=True)]
    return asynchronous(transitions, second, lambda k: list(coins[k]))


def assert_same(first, second, tolerance: float = 1e-12) -> None:
    first, second = (np.array(getattr(tables, "estimate", tables)) for tables in (first, second))
    assert np.ptp(first, axis=0).max() > 1e-3  # something has moved
    np.testing.assert_allclose(first, second, rtol=0, atol=tolerance)


BOTH = pytest.mark.parametrize("draws", [table_draws, chain_draws], ids=["synchronous", "asynchronous"])


def test_root_sa_with_eta_1_is_the_printed_speedy_q():
    draws = table_draws(200)
    assert_same(root_sa(problem(), draws, 200, eta=1.0), speedy_q(problem(), draws, 200, "printed"))


@pytest.mark.parametrize("eta", [0.1, 0.5, 1.0])
def test_root_sa_is_four_numbers(eta):
    draws = table_draws(200)
    assert_same(root_sa(problem(), draws, 200, eta), four_numbers(problem(), draws, 200, root_sa_numbers(eta)))


def test_root_sa_with_burn_in_leaves_q0_along_the_mean_of_its_draws():
    draws = table_draws(5)
    moved = root_sa(problem(), draws, 5, eta=0.5, burn_in=5).estimate
    first_targets = phased(problem(), draws, 5, lambda _: 5).estimate[-1]
    np.testing.assert_array_equal(moved[3], problem().q0())
    np.testing.assert_allclose(moved[4], (problem().q0() + first_targets) / 2, atol=1e-14)


@BOTH
@pytest.mark.parametrize(
    ("rule", "numbers"),
    [
        (speedy_q, lambda al: (1 - al, 0, 1 - al, 2 * al - 1)),
        (partial(speedy_q, form="printed"), lambda al: (1 - al, 0, 1, al - 1)),
        (partial(momentum_q, m=2), lambda al: (1, -al, 1 - 3 * al, -(1 - 4 * al))),
        (partial(nesa, zeta=0.3), lambda al: (1.7 - 0.3 * al, -0.7, 0.3 * (1 + al), -0.3)),
    ],
)
def test_literal_forms_are_four_numbers(rule, numbers, draws):
    drawn = draws(100)
    expected = four_numbers(problem(), drawn, 100, lambda k: numbers(harmonic(k)))
    assert_same(rule(problem(), drawn, 100), expected, 1e-10)


def test_halpern_in_differences_from_the_first_target_is_speedy_q():
    draws = table_draws(200)
    halpern = halpern_difference(problem(), draws, 200, be=lambda k: 1 / k, first=0.0)
    assert_same(halpern, speedy_q(problem(), draws, 200))


def test_both_forms_of_halpern_agree_without_noise():
    """With one successor a pair the direct form is the sum of its differences."""
    still = synchronous(lambda k: (SUCCESSORS[:, 1], REWARDS[:, 1]))
    assert_same(
        halpern_direct(problem(), still, 50, be=lambda k: 1 / (k + 2)),
        halpern_difference(problem(), still, 50, harmonic),
    )


@pytest.mark.parametrize("period", [1, 7])
def test_periodic_with_harmonic_steps_is_phased(period):
    draws = table_draws(60)
    assert_same(periodic(problem(), draws, 60, period, harmonic), phased(problem(), draws, 60, lambda _: period))


@BOTH
def test_rules_that_contain_q_learning(draws):
    drawn, step = draws(100), wainwright(problem())
    expected = q_learning(problem(), drawn, 100, step)
    assert_same(pid(problem(), drawn, 100, Gains(1, 0, 0)), expected)
    assert_same(pid_adaptive(problem(), drawn, 100, eta=0.0), expected)
    assert_same(residual_gradient(problem(), drawn, 100, w=0.0), expected)


def test_gains_adapt_only_after_the_pair_has_moved():
    """At the first visit the copies are the table itself: the proportional gain alone grows, by eta B^2/N."""
    start = problem()
    assert start.initial is not None
    draws = table_draws(1)
    b = q_learning(start, draws, 1, lambda k: 1.0).estimate[0] - start.initial
    squares = b**2 / 2
    kp, ki = 1 + 0.3 * b**2 / (0.1 + squares), 0.3 * b * (0.05 * b) / (0.1 + squares)
    expected = start.initial + wainwright(start)(0) * (kp * b + ki * (0.05 * b))
    np.testing.assert_allclose(pid_adaptive(start, draws, 1, eta=0.3).estimate[0], expected, atol=1e-14)


def test_double_q_moves_one_table_towards_the_other():
    """Heads always: b stays 0, and a is the mean of its rewards with step 1/n."""
    free = Problem(PAIRS, TERMINAL, 0.8)
    draws = table_draws(50)
    heads = Draws(draws.sample, draws.again, lambda k: [0.0] * 4)
    rewards = np.mean([[draws.sample(k)[i][0][1] for i in range(N)] for k in range(50)], axis=0)
    np.testing.assert_allclose(double_q(free, heads, 50, "own", exponent=1).estimate[-1], rewards / 2, atol=1e-14)


def test_epochs_cut_by_the_budget_return_the_last_whole_table():
    first_epoch, second_epoch = 4 * 2 + 3, 16 * 2 + 3
    whole = first_epoch + second_epoch
    tables = variance_reduced(problem(), table_draws(whole + 30), whole + 30, first=2, steps=3).estimate
    for k in range(whole - 1, whole + 30):
        np.testing.assert_array_equal(tables[k], tables[whole - 1])
    assert np.abs(tables[whole - 1] - tables[whole - 2]).max() > 1e-3
    np.testing.assert_array_equal(tables[whole - 2], tables[first_epoch - 1])


def test_first_step_of_an_epoch_has_the_rescaled_share():
    """With one successor a pair the anchor's terms cancel: q_0 + (T q_0 - q_0)/(1+(1-g)) is the first epoch's table."""
    still = synchronous(lambda k: (SUCCESSORS[:, 1], REWARDS[:, 1]))
    expected = q_learning(problem(), still, 1, lambda k: 1 / 1.2).estimate[0]
    found = variance_reduced(problem(), still, 5, first=1, steps=1).estimate[4]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-14)


def test_nesterov_steps_from_the_extrapolated_table():
    """g = .8: b = 1/2, a = 1/2, steps 1/1.2 and 1/1.4."""
    draws = table_draws(2)
    first, second = nesterov(problem(), draws, 2).estimate
    start = problem().q0()
    np.testing.assert_allclose(first, q_learning(problem(), draws, 1, lambda k: 0.5 / 1.2).estimate[0], atol=1e-14)
    ahead = Problem(PAIRS, TERMINAL, 0.8, first + (first - start) / 2)
    later = Draws(lambda k: draws.sample(1), draws.again, draws.uniforms)
    np.testing.assert_allclose(second, q_learning(ahead, later, 1, lambda k: 0.5 / 1.4).estimate[0], atol=1e-14)


def test_derivative_gain_follows_its_copies():
    """One pair with reward 1 that ends at once: T q = 1; three steps, the third of which has q_old - q'_old = q_1."""
    pair = Problem([(0, 0)], [False, True], 0.8)
    one = synchronous(lambda k: (np.array([1]), np.array([1.0])))
    m, eta = 0.5, 0.2
    q1, q2, q3 = (float(q[0]) for q in pid_adaptive(pair, one, 3, eta=eta, lam=0.0, mu=lambda k: m, al0=0.0).estimate)
    b = [1.0, 1 - q1, 1 - q2]
    squares = np.array([0.5, 0.75, 0.375 + b[1] ** 2 / 2])
    kp = 1 + eta * np.cumsum([b[0] * b[0] / 0.6, b[1] * b[0] / 0.85, b[2] * b[1] / (0.1 + squares[2])])
    kd = eta * b[2] * q1 / (0.1 + squares[2])  # q' is still q_0 = 0 before the second step, and q_1/2 before the third
    np.testing.assert_allclose([q1, q2], [m * kp[0], q1 + m * kp[1] * b[1]], atol=1e-14)
    np.testing.assert_allclose(q3, q2 + m * (kp[2] * b[2] + kd * (q2 - q1 / 2)), atol=1e-14)


@pytest.mark.parametrize(("discount", "steps"), [(0.9, 100), (0.99, 1000), (0.95, 200), (0.7, 34)])
def test_epoch_length_is_not_raised_by_a_rounding_error(discount, steps):
    assert epoch_steps(problem(discount)) == steps


def test_movi_with_step_1_is_right_in_h_only():
    """q keeps the noise of single draws; its mean h does not."""
    iterations = 3000
    optimum = q_star(problem())
    h = [problem().q0(), *movi(problem(), table_draws(iterations), iterations).estimate]
    q = [(k + 2) * h[k + 1] - (k + 1) * h[k] for k in range(iterations)]
    q_errors, h_errors = (np.array([np.abs(table - optimum).max() for table in tables]) for tables in (q, h))
    assert np.mean(q_errors[-1000:]) > 0.9 * np.mean(q_errors[100:1100]) > 0.5
    assert h_errors[-1] < 0.3 * h_errors[100] and h_errors[-1] < 0.05


def q_star(case: Problem) -> np.ndarray:
    q, exact = np.zeros(N), synchronous(lambda k: (SUCCESSORS.T, REWARDS.T))  # a minibatch of all successors
    return q_learning(Problem(case.pairs, case.terminal, case.discount, q), exact, 200, lambda k: 1.0).estimate[-1]


RULES = {
    "q_learning": q_learning,
    "speedy_q": speedy_q,
    "speedy_q_printed": partial(speedy_q, form="printed"),
    "momentum_q": partial(momentum_q, m=2),
    "nesa": nesa,
    "root_sa": root_sa,
    "halpern_difference": halpern_difference,
    "double_q": double_q,
    "zap": zap,
    "polsa": polsa,
    "residual_gradient": residual_gradient,
    "phased": partial(phased, phase_draws=lambda _: 3),
    "periodic": partial(periodic, period=5),
    "variance_reduced": partial(variance_reduced, first=1, steps=3),
    "movi": movi,
    "nesterov": nesterov,
    "averaging_q": averaging_q,
    "pid": partial(pid, gains=Gains(1, 0.25, 0.25)),
    "pid_adaptive": pid_adaptive,
    "adam": adam,
    "amsgrad": amsgrad,
}


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_exact_operator_leaves_the_optimum_alone(rule):
    """Minibatches of all successors are the exact operator: no rule may leave its fixed point."""
    optimum = q_star(problem())
    exact = synchronous(lambda k: (SUCCESSORS.T, REWARDS.T), lambda k: SUCCESSORS.T, lambda k: [k % 2] * 4)
    tables = rule(Problem(PAIRS, TERMINAL, 0.8, optimum), exact, 30).estimate
    # Adam divides rounding errors by their own size, up to its eps of 1e-8.
    np.testing.assert_allclose(tables[-1], optimum, rtol=0, atol=1e-5 if rule in (adam, amsgrad) else 1e-12)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_exact_operator_leads_to_the_optimum(rule):
    exact = synchronous(lambda k: (SUCCESSORS.T, REWARDS.T), lambda k: SUCCESSORS.T, lambda k: [k % 2] * 4)
    start = problem(0.4)
    errors = [np.abs(table - q_star(start)).max() for table in (start.q0(), rule(start, exact, 300).estimate[-1])]
    assert errors[1] < 0.7 * errors[0]


def test_zap_with_whole_steps_and_exact_operator_is_policy_iteration():
    exact = synchronous(lambda k: (SUCCESSORS.T, REWARDS.T))
    tables = zap(problem(), exact, 6, rho=0, step=lambda k: 1.0).estimate
    np.testing.assert_allclose(tables[-1], q_star(problem()), rtol=0, atol=1e-12)


def test_polsa_with_the_present_matrix_is_nesa_where_states_have_one_action():
    single = Problem([(x, 0) for x in range(N)], [False] * N, 0.8, problem().initial)
    successors = np.random.default_rng(5).integers(N, size=(100, N))
    draws = synchronous(lambda k: (successors[k], REWARDS[:, k % 3]))
    assert_same(polsa(single, draws, 100, rho=0), nesa(single, draws, 100))


def test_minibatch_is_the_mean_of_its_draws():
    batch = table_draws(1, batch=5)
    parts = [
        Draws(lambda k, b=b: {i: [d[b]] for i, d in batch.sample(k).items()}, batch.again, batch.uniforms)
        for b in range(5)
    ]
    apart = [q_learning(problem(), part, 1).estimate[0] for part in parts]
    np.testing.assert_allclose(q_learning(problem(), batch, 1).estimate[0], np.mean(apart, axis=0), atol=1e-15)


def test_polyak_ruppert_after_burn_in():
    trace = q_learning(problem(), table_draws(10), 10)
    mean = polyak_ruppert(trace, start=4)
    np.testing.assert_array_equal(mean[3], trace.estimate[3])
    np.testing.assert_allclose(mean[9], sum(trace.estimate[4:]) / 6, atol=1e-15)


@pytest.mark.parametrize(
    ("linear", "table"),
    [
        (q_linear, q_learning),
        (double_linear, double_q),
        (zap_linear, zap_asynchronous),
        (polsa_linear, polsa),
        (residual_linear, residual_gradient),
        (partial(periodic_linear, period=20), partial(periodic, period=20)),
        (movi_linear, movi),
        (averaging_linear, averaging_q),
        (nesterov_linear, nesterov),
        (adam_linear, adam),
        (amsgrad_linear, amsgrad),
    ],
)
def test_one_hot_features_are_a_table(linear, table):
    free, draws = Problem(PAIRS, TERMINAL, 0.8), chain_draws(150)
    assert_same(linear(free, np.eye(N), draws, 150), table(free, draws, 150))


@pytest.mark.parametrize("same_sample", [False, True])
def test_linear_momentum_is_four_numbers(same_sample):
    phi, draws = np.random.default_rng(4).uniform(-1, 1, (N, 3)), chain_draws(100)
    free, (a, b, c) = Problem(PAIRS, TERMINAL, 0.8), (0.1, 0.3, 0.4)
    literal = momentum_linear(free, phi, draws, 100, lambda k: a, lambda k: b, lambda k: c, same_sample)
    numbers = (1 - a + b * (1 - a) + c, a * b - b - c, a * (1 + b), -a * b)
    assert_same(literal, numbers_linear(free, phi, draws, 100, lambda k: numbers, same_sample))


def test_linear_root_sa_is_four_numbers():
    phi, draws, free = np.random.default_rng(4).uniform(-1, 1, (N, 3)), chain_draws(100), Problem(PAIRS, TERMINAL, 0.8)
    assert_same(root_sa_linear(free, phi, draws, 100, 0.2), numbers_linear(free, phi, draws, 100, root_sa_numbers(0.2)))
