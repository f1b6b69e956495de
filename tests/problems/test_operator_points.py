"""Fixed points of operators: the identities that they satisfy, and plain iteration from their table alone."""

from dataclasses import replace
from typing import Any

import numpy as np
import operators_by_hand as by_hand
import pytest

import mqlearn as mq
from mqlearn.problems.fixed_points import mean_gradient, theta_star
from mqlearn.problems.mdp import FiniteMDP, state_values
from mqlearn.problems.operators import Facts, apply, fixed_point

SEEDS = range(4)


def solved(mdp: FiniteMDP, operator: Any) -> Any:
    """Its fixed point."""
    return fixed_point(mdp, operator.on(Facts(mdp)))


def on_pairs(mdp: FiniteMDP, table: np.ndarray) -> np.ndarray:
    return table[*mdp.pairs.T]


@pytest.mark.parametrize("name", by_hand.TABLE)
def test_plain_iteration_of_the_table_comes_to_the_fixed_point(name):
    mdp = by_hand.model(name)
    x, u = mdp.pairs.T
    q = np.zeros(len(x))
    for _ in range(60):
        for _ in range(5):
            q = np.array(
                [
                    sum(
                        p * by_hand.target(mdp, name, q, pair, int(y), float(r))
                        for p, y, r in zip(
                            mdp.probabilities[x[pair], u[pair]], mdp.successors[x[pair], u[pair]],
                            mdp.rewards[x[pair], u[pair]], strict=True,
                        )
                        if p > 0
                    )
                    for pair in range(len(x))
                ]
            )  # fmt: skip
    point = solved(mdp, by_hand.TABLE[name][0])
    np.testing.assert_allclose(q, on_pairs(mdp, point.q), rtol=0, atol=1e-8)
    assert point.residual < 1e-12 and (point.error_bound is None or point.error_bound < 1e-11)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("w", [0.3, 0.9, 1.2])
def test_relaxed_mixes_the_optimum_with_the_value_of_its_state(seed, w):
    mdp = by_hand.model("relaxed", seed)
    best, point = mq.optimal(mdp), solved(mdp, mq.Relaxed(w))
    expected = w * best.q + (1 - w) * best.v[:, None]
    np.testing.assert_allclose(point.q[mdp.learned], expected[mdp.learned], rtol=0, atol=1e-9)
    np.testing.assert_allclose(state_values(mdp, point.q), best.v, rtol=0, atol=1e-9)
    assert point.mapped < 1e-9


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kappa", [-0.05, 0.3, 0.9, 1.8])
def test_relative_maps_back_to_the_optimum(seed, kappa):
    mdp = by_hand.model("relative", seed)
    point = solved(mdp, mq.Relative(kappa))
    h = on_pairs(mdp, point.q)
    np.testing.assert_allclose(h + kappa * h.mean() / 0.1, on_pairs(mdp, mq.optimal(mdp).q), rtol=0, atol=1e-8)
    assert point.mapped < 1e-8 and point.error_bound is None


@pytest.mark.parametrize("kappa", [-0.2, 2.0, 5.0])
def test_relative_is_refused_where_constants_grow(kappa):
    mdp = by_hand.model("relative")
    with pytest.raises(mq.SettingError, match=r"between discount - 1 and discount \+ 1, here -0.1 and 1.9"):
        mq.Relative(kappa).on(Facts(mdp))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("terminals", [True, False])
def test_robust_is_the_optimum_of_the_contaminated_kernel(seed, terminals):
    mdp = by_hand.model("robust", seed)
    point = solved(mdp, mq.Robust(0.3, terminals))
    v = state_values(mdp, point.q)
    worst = int(np.where(terminals | ~mdp.terminal, v, np.inf).argmin())
    alive = ~mdp.terminal[:, None, None]
    last = np.full((*mdp.successors.shape[:2], 1), worst)
    last = np.where(alive, last, np.arange(mdp.n_states)[:, None, None])
    contaminated = replace(
        mdp,
        successors=np.concatenate([mdp.successors, last], axis=2),
        probabilities=np.concatenate([0.7 * mdp.probabilities, np.full(last.shape, 0.3)], axis=2),
        rewards=np.concatenate(
            [np.broadcast_to(mdp.mean_rewards[..., None], mdp.rewards.shape), mdp.mean_rewards[..., None]], axis=2
        )
        * alive,
    )
    np.testing.assert_allclose(point.q, mq.optimal(contaminated).q, rtol=0, atol=1e-9)


def test_robust_on_the_lake_is_a_shorter_discount():
    lake = mq.frozen_lake("4x4", discount=0.9)
    point = solved(lake, mq.Robust(0.1))
    np.testing.assert_allclose(point.q, mq.optimal(lake.with_discount(0.81)).q, rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("a", [0.0, 0.5, 0.9])
def test_advantage_learning_widens_the_gaps(seed, a):
    mdp = by_hand.model("advantage", seed)
    best, point = mq.optimal(mdp), solved(mdp, mq.Advantage(a))
    expected = best.v[:, None] - (best.v[:, None] - best.q) / (1 - a)
    np.testing.assert_allclose(point.q[mdp.learned], expected[mdp.learned], rtol=0, atol=1e-8)
    assert point.mapped < 1e-9


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("omega", [0.5, 5.0, 100.0])
def test_mellowmax_lies_below_and_soft_above_the_optimum(seed, omega):
    mdp = by_hand.model("mellowmax", seed)
    best, bound = on_pairs(mdp, mq.optimal(mdp).q), np.log(3) / omega * 0.9 / 0.1
    below = best - on_pairs(mdp, solved(mdp, mq.Mellowmax(omega)).q)
    above = on_pairs(mdp, solved(mdp, mq.Soft(omega)).q) - best
    for distance in (below, above):
        assert distance.min() > -1e-12 and 0 < distance.max() <= bound


@pytest.mark.parametrize("seed", SEEDS[:2])
def test_truncated_is_the_optimum_if_and_only_if_no_value_is_clipped(seed):
    mdp = by_hand.model("truncated", seed)
    best = mq.optimal(mdp)
    largest = float(np.abs(best.v).max())
    for operator in (mq.Truncated(), mq.Truncated(largest), mq.Truncated(3 * largest)):
        np.testing.assert_allclose(solved(mdp, operator).q, best.q, rtol=0, atol=1e-9)
        assert not operator.on(Facts(mdp)).warnings(Facts(mdp))
    short = mq.Truncated(0.9 * largest)
    point = solved(mdp, short)
    assert point.distance > 1e-3 and point.mapped is None and short.warnings(Facts(mdp))


def test_a_state_that_nothing_leads_to_may_have_any_value():
    """0 -> 1 pays 10, 1 -> 1 pays 1: at discount 0.5 V* is 11 and 2, and only 2 is the value of a successor."""
    once = mq.from_arrays(np.array([[[0.0, 1.0]], [[0.0, 1.0]]]), np.array([[10.0], [1.0]]), discount=0.5)
    facts, between, short = Facts(once), mq.Truncated(2.5), mq.Truncated(1.5)
    assert mq.optimal(once).v == pytest.approx([11, 2]) and facts.largest_value == pytest.approx(2)
    assert solved(once, between).distance < 1e-12 and not between.warnings(facts)
    assert solved(once, short).distance > 0.2 and "1.5 is below 2, the largest" in short.warnings(facts)[0]


def test_the_default_bound_is_that_of_the_largest_reward():
    """1/(1 - discount) would be too small: rewards are not within [-1, 1]."""
    six = mq.six_state(discount=0.8)
    assert mq.Truncated().on(Facts(six)).limit == pytest.approx(np.abs(six.rewards).max() / 0.2)
    assert solved(six, mq.Truncated()).distance < 1e-10
    assert solved(six, mq.Truncated(5.0)).distance > 390


def test_w_star_counts_the_least_probability_of_staying():
    chain = mq.from_arrays(np.array([[[0.5, 0.5]], [[0.2, 0.8]]]), np.array([[1.0], [0.0]]), discount=0.9)
    facts = Facts(chain)
    assert facts.stay == pytest.approx(0.5)
    assert mq.Relaxed(1.8).contraction(facts) == pytest.approx(1 - 1.8 + 1.8 * 0.9)
    assert not mq.Relaxed(1.8).warnings(facts) and mq.Relaxed(1.9).warnings(facts)
    assert mq.Relaxed(1.9).contraction(facts) is None


@pytest.mark.parametrize("name", ["relaxed", "mellowmax", "soft", "truncated", "advantage"])
def test_tables_have_the_same_root_with_one_hot_features(name):
    """With a feature for each pair, theta* is the fixed point itself, at the pairs that are sampled."""
    mdp, operator = by_hand.model(name), by_hand.TABLE[name][0]
    mu = mdp.learned / mdp.learned.sum()
    point = theta_star(mdp, mq.one_hot(mdp), mu, operator=operator)
    assert point.exists and point.distance < 1e-8
    np.testing.assert_allclose(
        mq.one_hot(mdp).table(mdp, point.theta)[mdp.learned], solved(mdp, operator).q[mdp.learned], atol=1e-8
    )


@pytest.mark.parametrize("name", ["relaxed", "mellowmax", "soft", "truncated"])
def test_a_root_with_few_features_is_one_of_the_literal_gradient(name):
    mdp, operator = by_hand.model(name), by_hand.TABLE[name][0]
    features = mq.from_matrix(mdp, np.random.default_rng(1).uniform(0, 1, (9, 3, 2)))
    phi, (x, u) = features.matrix().toarray(), mdp.pairs.T
    mu = mdp.learned / mdp.learned.sum()
    point = theta_star(mdp, features, mu, operator=operator)
    assert point.exists
    gradient = np.zeros(2)
    for pair in range(len(x)):
        outcomes = (part[x[pair], u[pair]] for part in (mdp.probabilities, mdp.successors, mdp.rewards))
        for p, y, r in zip(*outcomes, strict=True):
            target = by_hand.target(mdp, name, phi @ point.theta, pair, int(y), float(r))
            gradient += mu[x[pair], u[pair]] * p * (phi[pair] @ point.theta - target) * phi[pair]
    np.testing.assert_allclose(gradient, 0, atol=1e-12)
    np.testing.assert_allclose(mean_gradient(mdp, features, mu, point.theta, operator), 0, atol=1e-12)


def test_the_exact_operator_acts_on_many_tables_at_once():
    mdp = by_hand.model("robust")
    tables = np.random.default_rng(0).normal(size=(3, 9, 3))
    for name in ("relaxed", "robust", "mellowmax", "truncated"):
        operator = by_hand.TABLE[name][0]
        together = apply(mdp, operator, tables)
        for table, one in zip(tables, together, strict=True):
            np.testing.assert_array_equal(apply(mdp, operator, table), one)
