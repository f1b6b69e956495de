"""Rules with state of their own by the plain verbs, against literal oracles that know nothing of the package."""

from functools import partial

import numpy as np
import oracles
import oracles_adaptive as adaptive
import oracles_linear as linear
import oracles_state as table
import pytest
from test_oracles import PAIRS, TERMINAL, N, chain_draws, table_draws

import mqlearn as mq
from mqlearn.learning.stateful.pairs import Pairs
from mqlearn.learning.stateful.plain import Sweep, Transition, state_of

DISCOUNT, ITERATIONS = 0.8, 150
OFFSETS = np.array([0, 3, 4, 6, 8, 8])
PHI = np.random.default_rng(4).uniform(-1, 1, (N, 3))


def problem(start=None) -> oracles.Problem:
    """Q_0 without ties: the greedy actions of a table of zeros hang on the last bit of the first steps."""
    start = np.random.default_rng(3).uniform(-1, 1, N) if start is None else start
    return oracles.Problem(PAIRS, TERMINAL, DISCOUNT, start)


def states(rule, draws, iterations=ITERATIONS, start=None, phi=None):
    """The states that a rule makes of these draws, one after each iteration."""
    rule = rule.at(DISCOUNT)
    pairs = Pairs(OFFSETS, DISCOUNT, phi)
    z = state_of(rule, problem().q0() if start is None else start)
    names = rule.number_names
    for k, row in enumerate(rule.weights(0, iterations).tolist()):
        sample = draws.sample(k)
        y, r = (np.array([[draw[part] for draw in sample[i]] for i in sample]).T for part in (0, 1))
        again = np.array([draws.again(k)[i] for i in sample]).T
        if len(sample) == N:
            s = Sweep(pairs, r, y, draws.uniforms(k), Sweep(pairs, r, again))
        else:
            (pair,) = sample
            second = Transition(pairs, pair, r[:, 0], again[:, 0])
            s = Transition(pairs, pair, r[:, 0], y[:, 0], draws.uniforms(k), second)
        rule.step(z, s, type("Numbers", (), dict(zip(names, row, strict=True))))
        yield z


def estimates(rule, draws, iterations=ITERATIONS, **settings) -> np.ndarray:
    return np.array([rule.at(DISCOUNT).estimate(z).copy() for z in states(rule, draws, iterations, **settings)])


def assert_same(found, expected, tolerance=1e-12):
    expected = np.array(getattr(expected, "estimate", expected))
    assert np.ptp(expected, axis=0).max() > 1e-3  # something has moved
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)


rescaled = oracles.wainwright(problem())
SYNCHRONOUS = {
    "double": (mq.DoubleQ(), table.double_q),
    "double, own clock": (mq.DoubleQ(clock="own"), partial(table.double_q, clock="own")),
    "double, plain step": (mq.DoubleQ(factor=1), partial(table.double_q, clock="global", step=rescaled)),
    "zap": (mq.Zap(), partial(table.zap, start=10.0, shift=2)),
    "zap from I": (mq.Zap(start=1, shift=1, rho=1), partial(table.zap, rho=1)),
    "polsa": (mq.PolSA(), table.polsa),
    "polsa 1": (mq.PolSA(zeta=1), partial(table.polsa, zeta=1)),
    "residual": (mq.Residual(), table.residual_gradient),
    "residual .5": (mq.Residual(w=0.5), partial(table.residual_gradient, w=0.5)),
    "phased, growing": (mq.Phased(), table.phased),
    "phased, fixed": (mq.Phased(draws=7), partial(table.phased, phase_draws=lambda _: 7)),
    "periodic": (mq.Periodic(period=20), partial(table.periodic, period=20)),
    "variance reduced": (mq.VarianceReduced(first=2, steps=5), partial(table.variance_reduced, first=2, steps=5)),
    "variance reduced, K": (mq.VarianceReduced(first=1), partial(table.variance_reduced, first=1)),
    "movi": (mq.MoVI(), table.movi),
    "movi, rescaled": (mq.MoVI(keep_start=False).with_step_size(mq.RescaledLinear(DISCOUNT)),
                       partial(table.movi, step=rescaled, keep_start=False)),
    "nesterov": (mq.Nesterov(), table.nesterov),
    "nesterov, a": (mq.Nesterov(a=1 / (1 + DISCOUNT)), partial(table.nesterov, a=1 / (1 + DISCOUNT))),
    "adam": (mq.Adam(), adaptive.adam),
    "amsgrad": (mq.AMSGrad(), adaptive.amsgrad),
    "amsgrad, decay": (mq.AMSGrad(decay=0.99, restart=7), partial(adaptive.amsgrad, decay=0.99, restart=7)),
    "amsgrad, no restart": (mq.AMSGrad(restart=None), partial(adaptive.amsgrad, restart=10**9)),
    "averaging": (mq.AveragingQ(), table.averaging_q),
    "averaging, d": (mq.AveragingQ(d=0.5), partial(table.averaging_q, d=0.5)),
    "pid": (mq.PID(eta=0, ki=0.25, kd=0.25), partial(adaptive.pid, gains=adaptive.Gains(1, 0.25, 0.25))),
    "pid, adaptive": (mq.PID(eta=0.01, lam=0.001), partial(adaptive.pid_adaptive, eta=0.01, lam=0.001)),
    "pid, previous draw": (mq.PID(eta=0.01, previous_draw=True),
                           partial(adaptive.pid_adaptive, eta=0.01, previous_draw=True)),
    "halpern": (mq.HalpernDirect(), oracles.halpern_direct),
}  # fmt: skip


@pytest.mark.parametrize("rule, oracle", SYNCHRONOUS.values(), ids=SYNCHRONOUS)
@pytest.mark.parametrize("batch", [1, 3])
def test_synchronous(rule, oracle, batch):
    draws = table_draws(ITERATIONS, batch=batch)
    assert_same(estimates(rule, draws), oracle(problem(), draws, ITERATIONS))


PAIRWISE = ("double", "double, own clock", "polsa", "residual", "periodic", "movi", "averaging", "pid", "halpern")
PAIRWISE = {
    **{name: SYNCHRONOUS[name] for name in (*PAIRWISE, "pid, adaptive", "pid, previous draw")},
    "zap": (mq.Zap(), table.zap_asynchronous),
}


@pytest.mark.parametrize("rule, oracle", PAIRWISE.values(), ids=PAIRWISE)
def test_one_pair_an_iteration(rule, oracle):
    draws = chain_draws(ITERATIONS)
    assert_same(estimates(rule, draws), oracle(problem(), draws, ITERATIONS), 1e-11 if rule == mq.Zap() else 1e-12)


LINEAR = {
    "double": (mq.DoubleQ(), linear.double_linear),
    "zap": (mq.Zap(), linear.zap_linear),
    "polsa": (mq.PolSA(), linear.polsa_linear),
    "residual": (mq.Residual(), linear.residual_linear),
    "periodic": (mq.Periodic(period=20), partial(linear.periodic_linear, period=20)),
    "movi": (mq.MoVI().with_step_size(mq.Constant(0.3)), partial(linear.movi_linear, step=lambda k: 0.3)),
    "nesterov": (mq.Nesterov(), linear.nesterov_linear),
    "adam": (mq.Adam(), linear.adam_linear),
    "amsgrad": (mq.AMSGrad(), linear.amsgrad_linear),
    "averaging": (mq.AveragingQ(), linear.averaging_linear),
}


@pytest.mark.parametrize("one_hot", [False, True])
@pytest.mark.parametrize("rule, oracle", LINEAR.values(), ids=LINEAR)
def test_linear_features(rule, oracle, one_hot):
    phi, draws = np.eye(N) if one_hot else PHI, chain_draws(ITERATIONS)
    found = estimates(rule, draws, start=np.zeros(phi.shape[1]), phi=phi)
    expected = oracle(oracles.Problem(PAIRS, TERMINAL, DISCOUNT), phi, draws, ITERATIONS)
    assert_same(found, expected, 1e-12 * max(1, np.abs(expected).max()))
    if one_hot:  # the entries of a table are parameters of features that tell all pairs apart
        np.testing.assert_allclose(estimates(rule, draws, start=np.zeros(N)), found, rtol=1e-12, atol=1e-12)


def test_linear_ridge_moves_each_matrix():
    """Features that are equal make the mean matrix singular; the ridge keeps the gain away from it."""
    phi, draws = np.repeat(PHI[:, :1], 2, axis=1), chain_draws(400)
    found = estimates(mq.Zap(start=1e-3, ridge=0.05), draws, 400, start=np.zeros(2), phi=phi)
    assert np.abs(found).max() < 10
    np.testing.assert_allclose(found[:, 0], found[:, 1], rtol=1e-6, atol=1e-9)


# --- rules within rules -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("draws", [table_draws, chain_draws])
@pytest.mark.parametrize("rule", [mq.PID(eta=0), mq.Residual(w=0)], ids=repr)
def test_rules_that_contain_q_learning(rule, draws):
    drawn = draws(ITERATIONS)
    assert_same(estimates(rule, drawn), oracles.q_learning(problem(), drawn, ITERATIONS, rescaled))


@pytest.mark.parametrize("period", [1, 7])
def test_periodic_with_harmonic_steps_is_phased(period):
    draws = table_draws(ITERATIONS)
    periodic = mq.Periodic(period=period).with_step_size(mq.Harmonic())
    assert_same(estimates(periodic, draws), estimates(mq.Phased(draws=period), draws))


def test_a_cut_epoch_leaves_the_table_of_the_last_whole_one():
    rule = mq.VarianceReduced(first=2, steps=5).at(DISCOUNT)
    ends = rule.epochs(200, DISCOUNT)[1]
    assert ends[:2].tolist() == [2 * 4 + 5, 2 * 4 + 5 + 2 * 16 + 5]
    found = estimates(rule, table_draws(60), 60)
    moved = np.flatnonzero(np.abs(np.diff(found, axis=0)).max(axis=1)) + 2  # iterations after which it has changed
    assert moved.tolist() == ends[:2].tolist()


@pytest.mark.parametrize("eta", [0.1, 0.5, 1])
def test_root_sa_is_its_recursion(eta):
    draws, rule = table_draws(ITERATIONS), mq.RootSA(eta=eta)
    weights = rule.weights(0, ITERATIONS)
    four = oracles.four_numbers(problem(), draws, ITERATIONS, lambda k: weights[k])
    assert_same(np.array(four.estimate), oracles.root_sa(problem(), draws, ITERATIONS, eta))


def test_root_sa_with_eta_1_is_speedy_q_as_printed():
    expected = mq.SpeedyQPrinted().weights(0, 1000)
    assert np.array_equal(expected, mq.SpeedyQ(form="printed").weights(0, 1000))
    np.testing.assert_allclose(mq.RootSA(eta=1).weights(0, 1000), expected, rtol=0, atol=1e-15)


@pytest.mark.parametrize("c", [1, 2])
def test_halpern_is_its_recursion(c):
    draws, rule = table_draws(ITERATIONS), mq.Halpern().with_step_size(mq.Polynomial(1, c, c - 1))
    weights = rule.weights(0, ITERATIONS)
    four = oracles.four_numbers(problem(), draws, ITERATIONS, lambda k: weights[k])
    expected = oracles.halpern_difference(problem(), draws, ITERATIONS, be=lambda k: c / (k + c))
    assert_same(np.array(four.estimate), expected)


def test_halpern_anchored_at_the_first_target_is_speedy_q():
    """be_k = 1/k; the first step, there Q_1 = T_0 Q_0, is another."""
    rule = mq.Halpern().with_step_size(lambda k: 1 / np.maximum(k, 1))
    np.testing.assert_allclose(rule.weights(1, 1000), mq.SpeedyQ().weights(1, 1000), rtol=0, atol=1e-14)


def test_a_growing_phase_is_never_split_by_the_block_of_its_numbers():
    rule = mq.Phased().at(0.99)
    ends = np.flatnonzero(rule.weights(0, 5000)[:, rule.number_names.index("ends")]) + 1
    sizes = [int(np.ceil(10 * 0.99 ** (-2 * phase))) for phase in range(len(ends))]
    assert ends.tolist() == np.cumsum(sizes).tolist()
