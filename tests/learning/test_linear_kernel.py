"""The compiled loop on linear features against its plain twin and its dense form."""

import numpy as np
import pytest
import twins
from kernel_cases import CHAINS, LAKE, N, Numbers, assert_same_chain, relative

from mqlearn.algorithms import MomentumQ, MomentumQLinear, NeSA, QLearning, Rule, SpeedyQ
from mqlearn.algorithms.step_sizes import Constant, Harmonic, Matched, Polynomial
from mqlearn.learners import Linear
from mqlearn.problems.environments import frozen_lake
from mqlearn.problems.features import from_matrix, one_hot
from mqlearn.problems.mdp import FiniteMDP
from mqlearn.sampling.modes import Markovian, Replay


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
