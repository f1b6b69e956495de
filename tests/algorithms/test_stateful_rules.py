"""Rules by their numbers, or by the plain verbs, against literal oracles that know nothing of the package."""

import numpy as np
import oracles
import pytest
from oracle_tables import ASYNCHRONOUS, DISCOUNT, FOUR_NUMBERS, LINEAR, SYNCHRONOUS, rescaled
from test_oracles import PAIRS, TERMINAL, N, chain_draws, table_draws

import mqlearn as mq
from mqlearn.stateful.pairs import ModelPairs
from mqlearn.stateful.reference import Sweep, Transition, state_of

ITERATIONS = 150
OFFSETS = np.array([0, 3, 4, 6, 8, 8])
PHI = np.random.default_rng(4).uniform(-1, 1, (N, 3))


def problem(start=None) -> oracles.Problem:
    """Q_0 without ties: the greedy actions of a table of zeros hang on the last bit of the first steps."""
    start = np.random.default_rng(3).uniform(-1, 1, N) if start is None else start
    return oracles.Problem(PAIRS, TERMINAL, DISCOUNT, start)


def states(rule, draws, iterations=ITERATIONS, start=None, phi=None):
    """The states that a rule makes of these draws, one after each iteration."""
    rule = rule.at(DISCOUNT)
    pairs = ModelPairs(OFFSETS, DISCOUNT, phi)
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


@pytest.mark.parametrize("rule, oracle", SYNCHRONOUS.values(), ids=SYNCHRONOUS)
@pytest.mark.parametrize("batch", [1, 3])
def test_synchronous(rule, oracle, batch):
    draws = table_draws(ITERATIONS, batch=batch)
    assert_same(estimates(rule, draws), oracle(problem(), draws, ITERATIONS))


@pytest.mark.parametrize("rule, oracle", FOUR_NUMBERS.values(), ids=FOUR_NUMBERS)
def test_four_numbers(rule, oracle):
    """Where all pairs move; what the same numbers do where one does, `twins` say of any rule."""
    weights, drawn = rule.weights(0, ITERATIONS), table_draws(ITERATIONS)
    four = oracles.four_numbers(problem(), drawn, ITERATIONS, lambda k: weights[k])
    expected = np.array(oracle(problem(), drawn, ITERATIONS).estimate)
    assert_same(np.array(four.estimate), expected, 1e-12 * max(1, np.abs(expected).max()))


@pytest.mark.parametrize("rule, oracle", ASYNCHRONOUS.values(), ids=ASYNCHRONOUS)
def test_one_pair_an_iteration(rule, oracle):
    draws = chain_draws(ITERATIONS)
    assert_same(estimates(rule, draws), oracle(problem(), draws, ITERATIONS), 1e-11 if rule == mq.Zap() else 1e-12)


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


def test_root_sa_with_eta_1_is_speedy_q_as_printed():
    expected = mq.SpeedyQPrinted().weights(0, 1000)
    assert np.array_equal(expected, mq.SpeedyQ(form="printed").weights(0, 1000))
    np.testing.assert_allclose(mq.RootSA(eta=1).weights(0, 1000), expected, rtol=0, atol=1e-15)


def test_halpern_anchored_at_the_first_target_is_speedy_q():
    """be_k = 1/k; the first step, there Q_1 = T_0 Q_0, is another."""
    rule = mq.Halpern().with_step_size(lambda k: 1 / np.maximum(k, 1))
    np.testing.assert_allclose(rule.weights(1, 1000), mq.SpeedyQ().weights(1, 1000), rtol=0, atol=1e-14)


def test_a_growing_phase_is_never_split_by_the_block_of_its_numbers():
    rule = mq.Phased().at(0.99)
    ends = np.flatnonzero(rule.weights(0, 5000)[:, rule.number_names.index("ends")]) + 1
    sizes = [int(np.ceil(10 * 0.99 ** (-2 * phase))) for phase in range(len(ends))]
    assert ends.tolist() == np.cumsum(sizes).tolist()
