"""The compiled loops against their plain twins (twins.py), and the random numbers against published values."""

import dataclasses

import numpy as np
import pytest
import twins
from hypothesis import given, settings
from hypothesis import strategies as st
from random_mdps import random_mdp
from scipy.stats import chisquare

from mqlearn import jit
from mqlearn.algorithms import MomentumQ, MomentumQLinear, NeSA, QLearning, Rule, SpeedyQ
from mqlearn.algorithms.step_sizes import Constant, Harmonic, Matched, Polynomial
from mqlearn.learning import kernels
from mqlearn.learning.draw_tables import outcome_tables
from mqlearn.learning.learners import Linear
from mqlearn.learning.sampling import IID, Markovian, Replay, Synchronous
from mqlearn.problems.environments import frozen_lake
from mqlearn.problems.features import from_matrix, one_hot
from mqlearn.problems.mdp import FiniteMDP

slow_machine = settings(deadline=None, max_examples=40)


def lottery(base: int, probabilities: np.ndarray | None = None, n_pairs: int = 23) -> FiniteMDP:
    """One state with `n_pairs` actions, each of which ends the episode with reward b at its outcome b."""
    shape = (2, n_pairs, base)
    p = np.full(base, 1 / base) if probabilities is None else probabilities
    rewards = np.zeros(shape)
    rewards[0] = np.arange(base)
    return FiniteMDP(
        successors=np.ones(shape, int),
        probabilities=np.broadcast_to(p, shape),
        rewards=rewards,
        terminal=np.array([False, True]),
        admissible=np.ones(shape[:2], bool),
        start=np.array([1.0, 0.0]),
        discount=0.5,
        goal=np.array([False, True]),
        name="lottery",
    )


def random_model(base: int, equal: bool, seed: int = 1) -> FiniteMDP:
    mdp = random_mdp(seed, 9, 3, base, 0.9, "mixed")
    return dataclasses.replace(mdp, probabilities=np.full_like(mdp.probabilities, 1 / base)) if equal else mdp


class Sampled(Rule):
    """Q_{k+1} = T_k Q_k: the draws themselves."""

    def update(self, k, q, q_prev, target, target_prev):
        return target + 0 * k


class Numbers(Rule):
    """Four numbers that change with k, none of them 0."""

    def __repr__(self):
        return "Numbers()"

    def update(self, k, q, q_prev, target, target_prev):
        a = 1 / (k + 2)
        return 0.5 * q + (0.2 - a) * q_prev + 0.4 * target + (a - 0.1) * target_prev


class Leapfrog(Rule):
    """Momentum -1 throughout: the new iterate forgets the present one but for its gradient."""

    def update(self, k, q, q_prev, target, target_prev):
        a = self.step_size(k)
        return q_prev + a * (target - q)


class Reversing(Rule):
    """Negative momentum -0.6 with a share of the previous gradient."""

    def update(self, k, q, q_prev, target, target_prev):
        a = self.step_size(k)
        return q - 0.6 * (q - q_prev) + a * (target - q) - 0.3 * a * (target_prev - q_prev)


# --- random numbers -------------------------------------------------------------------------------------------------

# Philox4x32-10 in the known answers of Random123. (numpy.random.Philox is another one, with 64-bit words.)
KNOWN = [
    ("00000000 00000000 00000000 00000000 00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344 a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


@pytest.mark.parametrize(("given_words", "answer"), KNOWN, ids=["zeros", "ones", "pi"])
def test_philox_gives_the_published_answers(given_words, answer):
    word, k_low, k_high, lane, seed, stream = (int(text, 16) for text in given_words.split())
    expected = [int(text, 16) for text in answer.split()]
    k = int(np.array(k_high << 32 | k_low, np.uint64).astype(np.int64))
    out = np.empty((4, 1), np.uint32)
    counters = np.array([word], np.uint64), np.uint32(0), k, np.array([lane], np.uint64)
    kernels.philox_counters(*counters, np.uint32(seed), np.uint32(stream), out)
    assert out[:, 0].tolist() == expected
    assert twins.philox((word, k_low, k_high, lane), (seed, stream)).tolist() == expected


def test_streams_have_numbers_of_their_own():
    assert len(set(kernels.STREAMS.values())) == len(kernels.STREAMS)


# --- synchronous ----------------------------------------------------------------------------------------------------

MODELS = {
    "deterministic": frozen_lake("4x4", slippery=False),
    "thirds": frozen_lake("4x4"),
    "unequal thirds": frozen_lake("4x4", success_rate=0.8),
    "halves": random_model(2, equal=True),
    "fifths": random_model(5, equal=True),
    "unequal halves": random_model(2, equal=False),
    "unequal fifths": random_model(5, equal=False),
    "sixteenths": random_model(16, equal=True),
}


@pytest.mark.parametrize("mean_reward", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_synchronous_is_its_numpy_twin(name, mean_reward):
    mdp, rule, lanes, seed = MODELS[name], Numbers(), np.array([0, 1, 5, 11, 2**32 - 1], np.uint32), 3
    learner = twins.learner(mdp, Synchronous(), lanes, seed=seed, initial=(-1.0, 1.0), mean_reward=mean_reward)
    x, u = mdp.pairs.T
    q = q_prev = learner.tables()[:, x, u].T
    assert np.ptp(q) > 1
    twins.advance(learner, rule, 1, 6, 0, 1, 30)  # even and odd blocks
    steps = zip(rule.weights(0, 38), twins.synchronous_outcomes(mdp, seed, lanes, 38), strict=True)
    for (w_q, w_prev, s, t), outcomes in steps:
        target, target_prev = (twins.sampled_operator(mdp, table, outcomes, mean_reward) for table in (q, q_prev))
        q, q_prev = w_q * q + w_prev * q_prev + s * target + t * target_prev, q
    np.testing.assert_allclose(learner.tables()[:, x, u].T, q, rtol=1e-12, atol=1e-13)
    np.testing.assert_array_equal(learner.largest(), np.abs(learner.tables()).max(axis=(1, 2)))


def draws(mdp: FiniteMDP, n_lanes: int, n: int) -> np.ndarray:
    """(n, pairs, lanes) outcomes of the lottery, read off the tables."""
    learner = twins.learner(mdp, Synchronous(), np.arange(n_lanes))
    seen = []
    for k in range(n):
        learner.advance(k, 1, Sampled().weights(k, k + 1))
        seen.append(learner.tables()[:, 0].T)
    return np.stack(seen).astype(int)


@pytest.mark.parametrize(
    "p",
    [
        np.full(2, 1 / 2),
        np.full(3, 1 / 3),
        np.full(5, 1 / 5),
        np.array([0.1, 0.8, 0.1]),
        np.array([0.05, 0.0, 0.6, 0.35]),
    ],
    ids=str,
)
def test_synchronous_draws_have_the_frequencies_of_the_model(p):
    """Each pair by itself; two pairs that share a word or lie in neighbouring words; one pair at two iterations."""
    b = draws(lottery(len(p), p), n_lanes=64, n=400)
    possible = p > 0
    for pair in range(b.shape[1]):
        counts = np.bincount(b[:, pair].ravel(), minlength=len(p))
        assert counts[~possible].sum() == 0
        assert chisquare(counts[possible], p[possible] * counts.sum()).pvalue > 1e-5
    joint = np.outer(p, p).ravel()
    couples = [(b[:, i], b[:, j]) for i, j in [(0, 1), (0, 9), (9, 10), (15, 16), (3, 22)]]
    couples += [(b[:-1, 4], b[1:, 4]), (b[:, 4, :-1], b[:, 4, 1:])]
    for one, other in couples:
        counts = np.bincount((one * len(p) + other).ravel(), minlength=len(joint))
        assert chisquare(counts[joint > 0], joint[joint > 0] * counts.sum()).pvalue > 1e-5


def test_lanes_do_not_depend_on_their_neighbours():
    mdp, rule = frozen_lake("4x4"), MomentumQ()
    together = twins.advance(twins.learner(mdp, Synchronous(), np.arange(13)), rule, 77).tables()
    alone = twins.advance(twins.learner(mdp, Synchronous(), [7]), rule, 40, 37).tables()
    np.testing.assert_array_equal(together[7], alone[0])


# --- outcomes and chains --------------------------------------------------------------------------------------------


@st.composite
def shares(draw) -> np.ndarray:
    """Probabilities with zeros anywhere, among them sums that are whole numbers of 2^-32."""
    n = draw(st.integers(1, 6))
    entry = st.one_of(st.just(0.0), st.sampled_from([1.0, 2.0, 3.0, 8.0]), st.floats(1e-12, 1))
    p = np.array(draw(st.lists(entry, min_size=n, max_size=n)))
    p[draw(st.integers(0, n - 1))] += draw(st.sampled_from([0.25, 1.0]))
    return p / p.sum()


@settings(deadline=None, max_examples=300)
@given(shares())
def test_no_word_leads_to_an_impossible_outcome(p):
    mdp = lottery(len(p), p, n_pairs=1)
    _, reward, edges = outcome_tables(mdp, False)
    corners = edges[0].astype(np.int64)
    for word in {0, 2**32 - 1, *corners, *(corners - 1), *(corners + 1)} - {-1, 2**32}:
        b = max(c for c in range(len(p)) if c == 0 or word >= edges[0, c])
        assert p[int(reward[0, b])] > 0, f"word {word} of {p}"


@pytest.mark.parametrize("first", [1 / 16, 1 / 4, 3 / 8])
def test_rounding_opens_no_gap_for_an_impossible_outcome(first):
    """`first` is a whole number of 2^-32, and the edge of the third outcome must not come to lie one word above it."""
    for c in np.linspace(0.01, 0.99 - first, 300):
        _, _, edges = outcome_tables(lottery(4, np.array([first, 0.0, c, 1 - first - c]), n_pairs=1), False)
        assert edges[0, 2] <= edges[0, 1], f"word {edges[0, 1]} is drawn with c = {c}"


@slow_machine
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.sampled_from([Markovian, IID, Replay]))
def test_every_drawn_transition_can_happen(seed, base, mode):
    mdp = random_mdp(seed, 5, 3, base, 0.9, "mixed")
    sampling = mode(start="uniform", restart_probability=0.2)
    pairs, b = twins.drawn(mdp, sampling, 400, lane=seed % 7, seed=seed)
    x, u = mdp.pairs[pairs].T
    y, r, _ = outcome_tables(mdp, False)
    for i in range(len(pairs)):
        same = (mdp.successors[x[i], u[i]] == y[pairs[i], b[i]]) & (mdp.rewards[x[i], u[i]] == r[pairs[i], b[i]])
        assert mdp.probabilities[x[i], u[i]][same].sum() > 0
    assert mdp.learned[x, u].all()


def uneven(mdp: FiniteMDP) -> np.ndarray:
    """A stochastic policy with impossible actions first, in the middle and last."""
    share = np.random.default_rng(0).random(mdp.learned.shape) * mdp.learned
    for x in np.flatnonzero(mdp.learned.sum(axis=1) > 1):
        share[x, np.flatnonzero(mdp.learned[x])[x % mdp.learned[x].sum()]] = 0
    return share / np.maximum(share.sum(axis=1, keepdims=True), 1e-300)


LAKE = frozen_lake("4x4")
MIXED = random_mdp(12, 8, 3, 4, 0.9, "mixed")
N = 4300  # more than one chunk of random words
CHAINS = {
    "uniform": (LAKE, Markovian()),
    "uniform starts": (LAKE, Markovian(start="uniform")),
    "time limit": (LAKE, Markovian(start="uniform", time_limit=3)),
    "restarts": (MIXED, Markovian(restart_probability=0.3)),
    "a policy": (MIXED, Markovian(behaviour=uneven, start="uniform", restart_probability=0.05)),
    "greedy": (MIXED, Markovian(behaviour="epsilon_greedy", epsilon=0.0, restart_probability=0.1)),
    "epsilon-greedy": (LAKE, Markovian(behaviour="epsilon_greedy", epsilon=(1.0, 0.1, 3000))),
    "replay": (LAKE, Replay(capacity=100)),
    "replay, draws": (LAKE, Replay(capacity=64, warm_up=200, draws=3, time_limit=20)),
    "replay, greedy": (
        LAKE,
        Replay(
            capacity=50, warm_up=30, behaviour="epsilon_greedy", epsilon=0.3, start="uniform", restart_probability=0.1
        ),
    ),
    "iid": (LAKE, IID(start="uniform")),
    "iid, restarts": (MIXED, IID(behaviour=uneven, start="uniform", restart_probability=0.05)),
}


def relative(a: np.ndarray, b: np.ndarray) -> float:
    assert np.isfinite(a).all()
    return float(np.abs(a - b).max() / np.abs(b).max())


def assert_same_chain(learner, lane: int, chain: twins.ChainTwin) -> None:
    np.testing.assert_array_equal(learner.chain.visits[lane], chain.visits)
    seen = chain.state, chain.moves, chain.steps, chain.episodes, chain.goals
    assert tuple(learner.chain.states[lane][:5].tolist()) == seen


@pytest.mark.parametrize("name", CHAINS)
def test_the_visited_pair_moves_as_in_the_dense_twin(name):
    mdp, sampling = CHAINS[name]
    rule, seed, lanes = MomentumQLinear(beta=0.5, lam=0.9999).with_step_size(Constant(0.1)), 5, [0, 9]
    learner = twins.learner(mdp, sampling, lanes, seed=seed, initial=(0.4, 0.6))
    twins.advance(learner, rule, 1, 4000, 0, N - 4001)
    chain = twins.ChainTwin(mdp, sampling, lanes[1], seed, N)
    q = twins.table_twin(mdp, chain, rule, twins.initial_values(len(mdp.pairs), 0.4, 0.6, seed, lanes[1]))
    np.testing.assert_allclose(learner.q[1], q, rtol=1e-11, atol=1e-13)
    assert_same_chain(learner, 1, chain)


@pytest.mark.parametrize(
    "rule",
    [
        QLearning(),
        SpeedyQ(),
        SpeedyQ("printed"),
        NeSA(),
        MomentumQ(m=10),
        MomentumQ(m=20),
        MomentumQLinear(beta=0.9),
        Numbers(),
    ],
    ids=repr,
)
@pytest.mark.parametrize("clock", ["global", "local"])
def test_every_rule_moves_the_visited_pair(rule, clock):
    mdp, sampling = LAKE, Markovian(clock=clock)
    learner = twins.advance(twins.learner(mdp, sampling, [3], initial=(0.0, 1.0)), rule, 300, 900)
    start = twins.initial_values(len(mdp.pairs), 0.0, 1.0, 0, 3)
    q = twins.table_twin(mdp, twins.ChainTwin(mdp, sampling, 3, 0, 1200), rule, start)
    assert relative(learner.q[0], q) < 1e-11


def test_the_visited_pair_moves_with_the_mean_reward_where_asked():
    learner = twins.advance(twins.learner(LAKE, Markovian(), [0], mean_reward=True), SpeedyQ(), 1000)
    chain = twins.ChainTwin(LAKE, Markovian(), 0, 0, 1000)
    q = twins.table_twin(LAKE, chain, SpeedyQ(), np.zeros(len(LAKE.pairs)), mean_reward=True)
    assert np.abs(q).max() > 0
    np.testing.assert_allclose(learner.q[0], q, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("rule", [SpeedyQ(), MomentumQ(m=2), QLearning()], ids=repr)
@pytest.mark.parametrize("sampling", [
    Markovian(start="uniform", update="rounds"),
    Markovian(behaviour="epsilon_greedy", epsilon=0.5, start="uniform", update="rounds"),
    Replay(capacity=300, draws=2, start="uniform", update="rounds"),
], ids=["uniform", "epsilon-greedy", "replay"])  # fmt: skip
def test_rounds_move_all_pairs_when_each_was_visited(rule, sampling):
    learner = twins.learner(LAKE, sampling, [0, 4], seed=2, initial=(0.0, 0.1))
    twins.advance(learner, rule, 1, 2500, N - 2501)
    chain = twins.ChainTwin(LAKE, sampling, 4, 2, N)
    q, n_rounds = twins.rounds_twin(LAKE, chain, rule, twins.initial_values(len(LAKE.pairs), 0.0, 0.1, 2, 4))
    assert n_rounds > 5
    assert learner.rounds[1, 0] == n_rounds
    np.testing.assert_allclose(learner.q[1], q, rtol=1e-11, atol=1e-14)
    assert_same_chain(learner, 1, chain)


# --- linear features ------------------------------------------------------------------------------------------------


def dense_features(mdp: FiniteMDP, d: int = 12):
    """Rows with two to four entries, some of them negative, of norm 1."""
    rng = np.random.default_rng(3)
    matrix = rng.normal(size=(mdp.n_states, mdp.n_actions, d))
    keep = rng.random(matrix.shape) < 0.25
    keep[..., 0] = True
    return from_matrix(mdp, np.where(keep, matrix, 0.0))


SLOW = Constant(0.02)
RULES = {
    "vanilla": QLearning().with_step_size(SLOW),
    "beta 0": MomentumQLinear(beta=0.0).with_step_size(SLOW),
    "beta 0.8, decaying": MomentumQLinear(beta=0.8, lam=0.999).with_step_size(SLOW),
    "beta 0.8, steady": MomentumQLinear(beta=0.8, lam=1 - 1e-7, phi=1.0).with_step_size(SLOW),
    "beta 0.8, gone in 60 steps": MomentumQLinear(beta=0.8, lam=0.5, phi=0.0).with_step_size(SLOW),
    "beta 0.9999": MomentumQLinear(beta=0.9999, lam=1 - 1e-9, phi=0.1).with_step_size(Constant(1e-5)),
    "beta 0.1": MomentumQLinear(beta=0.1, lam=1 - 1e-9).with_step_size(SLOW),
    "negative": Reversing().with_step_size(SLOW),
    "leapfrog": Leapfrog().with_step_size(Constant(1e-4)),
    "NeSA": NeSA().with_step_size(Harmonic(10)),
    "SpeedyQ": SpeedyQ().with_step_size(Polynomial(0.7, 0.5)),
    "MomentumQ m=2": MomentumQ(m=2),
    "MomentumQ m=20": MomentumQ(m=20),
    "four numbers": Numbers(),
}


@pytest.mark.parametrize("previous", ["stored", "same_sample"])
@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("features", [one_hot, dense_features], ids=["one-hot", "dense"])
def test_linear_momentum_in_few_features_is_the_dense_rule(features, name, previous):
    """The change of variables against the kernel that writes the equation out, and against plain Python."""
    mdp, sampling, rule = LAKE, Markovian(start="uniform"), RULES[name]
    phi = features(mdp)
    if name in ("NeSA", "MomentumQ m=2", "MomentumQ m=20", "SpeedyQ", "four numbers"):
        sizes, n = (1, 30, 90), 121  # rules made for tables and all pairs at once soon grow out of hand here
    elif name == "beta 0.8, steady":
        sizes, n = (1, 2500, N - 2501), N  # enough for beta^k to fall below 1e-250, where the variables start anew
    else:
        sizes, n = (1, 400, 800), 1201
    lazy, dense = (
        twins.learner(mdp, sampling, [0, 6], features=phi, linear=linear, initial=0.5)
        for linear in (Linear(previous), Linear(previous, projection=1e300))
    )
    twins.advance(lazy, rule, *sizes)
    twins.advance(dense, rule, *sizes)
    for a, b in ((lazy.theta, dense.theta), (lazy.average, dense.average), (lazy.last, dense.last)):
        assert relative(a, b) < 1e-12
    assert relative(lazy.v, dense.v) < 1e-9  # a difference of two neighbours
    chain = twins.ChainTwin(mdp, sampling, 6, 0, n)
    theta0 = np.full(phi.n_features, 0.5)
    theta, average = twins.linear_twin(mdp, chain, rule, phi.matrix().toarray(), theta0, Linear(previous))
    assert relative(lazy.theta[1], theta) < 1e-12
    assert relative(lazy.average[1], average) < 1e-12
    assert_same_chain(lazy, 1, chain)


@pytest.mark.parametrize("beta", [-1.0, -2.0, -0.5, 1.0, 1.5, 1e-18, 0.0])
def test_a_block_forgets_no_momentum(beta):
    """A block after the first starts from theta and v alone, and without gradients moves on by beta v, beta^2 v, ..."""
    learner = twins.learner(LAKE, Markovian(), [0], features=one_hot(LAKE))
    learner.theta[:], learner.v[:] = 3.0, np.arange(1.0, 45.0)
    for k, n in ((0, 2), (2, 1), (3, 4), (7, 3)):
        before, v = learner.theta.copy(), learner.v.copy()
        learner.advance(k, n, np.tile([1 + beta, -beta, 0.0, 0.0], (n, 1)))
        moved = v * sum(beta**i for i in range(1, n + 1))
        np.testing.assert_allclose(learner.theta, before + moved, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(learner.v, v * beta**n, rtol=1e-12, atol=1e-14)


def test_huge_parameters_do_not_overflow_the_change_of_variables():
    """On the way to divergence, theta up to 1e100: h/B and v/B must stay finite until B = 1 again."""
    rule, phi = MomentumQLinear(beta=0.5, lam=1 - 1e-9).with_step_size(SLOW), dense_features(LAKE)
    lazy, dense = (
        twins.learner(LAKE, Markovian(), [0], features=phi, linear=linear, initial=1e98)
        for linear in (Linear(), Linear(projection=1e300))
    )
    twins.advance(lazy, rule, 3000)
    twins.advance(dense, rule, 3000)
    assert np.abs(dense.theta).max() > 1e90
    assert relative(lazy.theta, dense.theta) < 1e-12
    assert relative(lazy.average, dense.average) < 1e-12


@pytest.mark.parametrize("name", CHAINS)
def test_linear_learning_follows_the_same_chain(name):
    mdp, sampling = CHAINS[name]
    rule, phi = MomentumQLinear(beta=0.7, lam=0.9999).with_step_size(SLOW), dense_features(mdp)
    learner = twins.advance(twins.learner(mdp, sampling, [2], features=phi, initial=0.5), rule, 1, 3000, N - 3001)
    chain = twins.ChainTwin(mdp, sampling, 2, 0, N)
    theta, average = twins.linear_twin(mdp, chain, rule, phi.matrix().toarray(), np.full(phi.n_features, 0.5), Linear())
    assert_same_chain(learner, 0, chain)
    assert relative(learner.theta[0], theta) < 1e-12
    assert relative(learner.average[0], average) < 1e-12


@pytest.mark.parametrize("projection", [None, 1e300])
def test_the_first_step_with_and_without_a_gradient_before_it(projection):
    """g_{-1} = g_0 gives theta_1 = theta_0 - a g_0; g_{-1} = 0 gives theta_0 - a (1 + b_0) g_0 (Algorithm 2)."""
    a, beta, phi = 0.1, 0.8, 0.25
    rule = MomentumQLinear(beta=beta, phi=phi).with_step_size(Constant(a))
    moved = {}
    for first in ("same", "zero"):
        linear = Linear(first_gradient=first, projection=projection)
        learner = twins.learner(LAKE, Markovian(), [0], features=one_hot(LAKE), linear=linear, initial=0.5)
        moved[first] = twins.advance(learner, rule, 1).theta[0] - 0.5
    pair = np.flatnonzero(moved["same"])
    assert len(pair) == 1
    gradient = 0.5 - LAKE.discount * 0.5  # no reward and no terminal state next to the start
    assert moved["same"][pair] == pytest.approx(-a * gradient, rel=1e-12)
    assert moved["zero"][pair] == pytest.approx(-a * (1 + phi * beta) * gradient, rel=1e-12)


def test_the_first_gradient_in_the_twin():
    rule, linear = MomentumQLinear(beta=0.8, phi=1.0).with_step_size(SLOW), Linear(first_gradient="zero")
    phi = dense_features(LAKE)
    learner = twins.learner(LAKE, Markovian(), [0], features=phi, linear=linear, initial=0.5)
    twins.advance(learner, rule, 3, 20)
    chain = twins.ChainTwin(LAKE, Markovian(), 0, 0, 23)
    theta, _ = twins.linear_twin(LAKE, chain, rule, phi.matrix().toarray(), np.full(12, 0.5), linear)
    assert relative(learner.theta[0], theta) < 1e-12


@pytest.mark.parametrize(
    "rule", [QLearning(), MomentumQ(m=3), SpeedyQ(), MomentumQLinear(beta=0.9, lam=0.99)], ids=repr
)
def test_one_hot_with_the_same_sample_is_the_tabular_rule_at_the_visited_pair(rule):
    """The template at the visited pair; the others keep moving by the momentum alone."""
    learner = twins.learner(LAKE, Markovian(), [1], features=one_hot(LAKE), linear=Linear("same_sample"), initial=0.5)
    chain = twins.ChainTwin(LAKE, Markovian(), 1, 0, 200)
    q = q_prev = np.full(len(LAKE.pairs), 0.5)
    for k, (a, b, s, t) in enumerate(rule.weights(0, 200)):
        pair, y, reward = twins.outcome_of(LAKE, chain.next(k, q), False)
        target, target_prev = (reward + LAKE.discount * twins.value(LAKE, table, y) for table in (q, q_prev))
        new = q - (b + t) * (q - q_prev)
        new[pair] = a * q[pair] + b * q_prev[pair] + s * target + t * target_prev
        learner.advance(k, 1, rule.weights(k, k + 1))
        q, q_prev = new, q
        assert relative(learner.theta[0], q) < 1e-12


def test_with_one_hot_features_momentum_moves_what_a_table_leaves_alone():
    rule = MomentumQLinear(beta=0.9).with_step_size(Constant(0.1))
    theta = twins.advance(
        twins.learner(LAKE, Markovian(), [0], features=one_hot(LAKE), initial=0.5), rule, 300
    ).tables()
    table = twins.advance(twins.learner(LAKE, Markovian(), [0], initial=0.5), rule, 300).tables()
    assert np.abs(theta - table).max() > 1e-3


@pytest.mark.parametrize("sampling", [Markovian(), Replay(capacity=100)], ids=["markovian", "replay"])
@pytest.mark.parametrize("features", [None, one_hot, dense_features], ids=["table", "one-hot", "dense"])
def test_without_momentum_it_is_vanilla_bit_for_bit(features, sampling):
    tables = [
        twins.advance(
            twins.learner(LAKE, sampling, range(4), features=features and features(LAKE), initial=0.5), rule, 700, 900
        ).tables()
        for rule in (QLearning().with_step_size(Constant(0.1)), MomentumQLinear(beta=0.0).with_step_size(Constant(0.1)))
    ]
    np.testing.assert_array_equal(*tables)


def test_projection_keeps_theta_in_the_ball():
    radius, rule = 0.5, MomentumQLinear(beta=0.5, lam=0.9999).with_step_size(Constant(0.1))
    mdp = frozen_lake("4x4", rewards=(1, -3, -0.5))
    phi, linear = dense_features(mdp), Linear(projection=radius)
    learner = twins.learner(mdp, Markovian(), [0], features=phi, linear=linear, initial=0.3)
    norms = []
    for k in range(600):
        learner.advance(k, 1, rule.weights(k, k + 1))
        norms.append(np.linalg.norm(learner.theta[0]))
    assert max(norms) <= radius * (1 + 1e-12)
    assert sum(norm > radius * (1 - 1e-12) for norm in norms) > 30  # and it has had to
    chain = twins.ChainTwin(mdp, Markovian(), 0, 0, 600)
    theta, average = twins.linear_twin(mdp, chain, rule, phi.matrix().toarray(), np.full(12, 0.3), linear)
    assert relative(learner.theta[0], theta) < 1e-12
    assert relative(learner.average[0], average) < 1e-12


def test_momentum_ends_where_vanilla_at_the_matched_schedule_ends():
    """One gradient finally moves theta by a/(1 - beta): with small steps the two learn alike, vanilla does not."""
    beta, lam, base = 0.8, 1 - 1e-9, Constant(2e-3)
    rules = {
        "momentum": MomentumQLinear(beta=beta, lam=lam).with_step_size(base),
        "matched": QLearning().with_step_size(Matched(base, beta, lam)),
        "vanilla": QLearning().with_step_size(base),
    }
    theta = {
        name: twins.advance(
            twins.learner(LAKE, Markovian(start="uniform"), range(4), features=one_hot(LAKE), initial=0.5), rule, 20_000
        ).tables()
        for name, rule in rules.items()
    }
    near = np.abs(theta["momentum"] - theta["matched"]).max()
    far = np.abs(theta["momentum"] - theta["vanilla"]).max()
    assert near < far / 30


def test_the_locked_numba_can_be_told_that_tables_do_not_overlap():
    """Without that the synchronous kernel is right all the same, but slower: nobody would notice."""
    assert jit.without_overlap()
