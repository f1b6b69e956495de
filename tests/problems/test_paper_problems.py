"""Problems of the field's papers: the very models, their laws of rewards, and what the papers say happens on them."""

import math
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import optimize

import mqlearn as mq
from mqlearn.errors import SettingError
from mqlearn.problems.classic.reward_laws import RewardLaw
from mqlearn.theory.double_mean import double_fixed_points


def test_the_dense_problem_is_that_of_the_paper():
    """Q*(0, 0) by a program that shares no code with this one, and the models of the other paper by their own order."""
    for discount, value in ((0.6, 1.726979), (0.7, 2.310656), (0.8, 3.466874), (0.9, 6.913550)):
        assert mq.optimal(mq.dense_random(discount=discount)).q[0, 0] == pytest.approx(value, abs=5.1e-7)
    for seed in (100, 700):
        mdp = mq.dense_random(10, 5, map_seed=seed, dialect="sor", discount=0.6)
        generator = np.random.RandomState(seed)
        drawn = generator.random_sample
        for u in range(5):
            for x in range(10):
                mask = drawn(10)
                if (mask <= drawn()).all():  # a mask without use; one that leaves nothing is given an entry
                    generator.randint(0, 10)
                row = drawn(10)
                row[x] = 5
                np.testing.assert_allclose(mdp.probabilities[x, u], row / row.sum(), rtol=1e-15)
                np.testing.assert_allclose(mdp.rewards[x, u], 2 * drawn(10) - 1, rtol=0, atol=1e-15)
        w = 1 / (1 - 0.6 * np.array([[mdp.probabilities[x, u, x] for u in range(5)] for x in range(10)])).max()
        assert w > 1.2  # SOR's best weight


@pytest.mark.parametrize("nodes", range(2, 10))
@pytest.mark.parametrize("law", ["normal", "uniform"])
def test_the_moments_of_a_reward_law_are_right_up_to_twice_the_nodes(law, nodes):
    mean, deviation = 0.3, 1.7
    p, r = np.array(RewardLaw(law, deviation, nodes).outcomes(mean)).T
    assert p.sum() == pytest.approx(1, abs=1e-15) and (p > 0).all()

    def central(power: int) -> float:
        """E x^power of the law with mean 0 and deviation 1."""
        return (1 - power % 2) * (math.prod(range(1, power, 2)) if law == "normal" else 1 / (power + 1))

    def moment(power: int) -> float:
        return sum(math.comb(power, k) * mean ** (power - k) * deviation**k * central(k) for k in range(power + 1))

    for power in range(2 * nodes):
        assert p @ r**power == pytest.approx(moment(power), abs=1e-11 * float(p @ np.abs(r) ** power))
    beyond = 2 * nodes  # the first one that is another
    away = p @ ((r - mean) / deviation) ** beyond / central(beyond) - 1
    assert abs(away) > 1e-5


def test_a_reward_law_is_in_name_note_and_digest():
    plain, other = mq.bias(), mq.bias(nodes=6)
    assert "law=normal deviation=1 nodes=5" in plain.name and plain.digest() != other.digest()
    assert "5 Gauss nodes, whose moments are right up to 9" in plain.notes[0]
    alone = mq.bias(law="none")
    assert alone.notes == () and alone.n_successors == 1


def test_the_one_feature_diverges_above_five_sixths():
    """theta -> 1 + 1.2 g theta of the exact target, and plain Q-learning with a small step likewise."""
    for discount, diverges in ((0.8, False), (0.9, True)):
        mdp = mq.truncation_example(discount=discount)
        phi = mq.mean_reward(mdp)
        assert phi.matrix().toarray()[:, 0].tolist() == [1, 2, 2, 4]
        rows = phi.matrix().toarray()[:, 0]
        theta = 3.0
        q = theta * np.array([[1, 2], [2, 4]])
        target = np.array([r + discount * q[y].max() for r, y in zip((1, 2, 2, 4), (0, 1, 0, 1), strict=True)])
        assert (rows @ target) / (rows @ rows) == pytest.approx(1 + 1.2 * discount * theta)
        result: Any = mq.run(
            mdp, mq.QLearning(), iterations=20_000, n_seeds=3, features=phi, sampling=mq.Pairs(), theta0=5.0,
            step_size=mq.Constant(0.01),
        )  # fmt: skip
        assert bool(result.theta.min() > 1e3) == diverges


def test_double_q_learning_has_the_three_fixed_points_of_ren():
    """By their equation, with the triangular law of the difference of two U(-1, 1)."""

    def rest(v: float) -> float:
        q = np.array([1.1 + 0.99 * v, 1 + 0.99 * 100])
        away = q[1] - q[0]
        first = 1 - (2 - abs(away)) ** 2 / 8 if abs(away) < 2 else 1.0
        first = first if away < 0 else 1 - first
        return first * q[0] + (1 - first) * q[1] - v

    found = [optimize.brentq(rest, low, high, xtol=1e-12) for low, high in ((99, 100.5), (100.5, 102), (102, 120))]
    assert found == pytest.approx([100.162, 101.158, 110], abs=5e-4)  # the second one is 101.159 in the paper
    ours = double_fixed_points(mq.estimation_bias())
    assert [v for v, _ in ours] == pytest.approx(found, abs=1e-9)
    assert [p for _, p in ours] == pytest.approx([0.622, 0.929, 1], abs=5e-4)
    with pytest.raises(SettingError, match="two actions in one state"):
        double_fixed_points(mq.noisy_grid())


def test_the_wheel_has_the_bets_of_a_casino_and_leaving_is_best():
    """A bet on j of 38 numbers pays 36/j - 1, as if there were 36, but the top line 6; Q* is the mean, as V* = 0."""
    mdp = mq.roulette(bets="wheel", discount=0.95)
    optimum = mq.optimal(mdp)
    assert len(mdp.pairs) == 171 and optimum.v.tolist() == [0, 0] and optimum.q[0, 0] == 0
    assert mdp.successors[0, 0, 0] == 1 and mdp.mean_rewards[0, 0] == 0
    found: Counter[int] = Counter()
    for u in range(1, 171):
        (p, lost), (win, lose) = mdp.probabilities[0, u], mdp.rewards[0, u]
        j = round(38 * p)
        found[j] += 1
        pays = 6 if j == 5 else Fraction(36, j) - 1
        assert (p, lost) == pytest.approx((j / 38, 1 - j / 38), abs=1e-15) and (win, lose) == (pays, -1)
        assert not mdp.successors[0, u].any()
        mean = (pays * j - (38 - j)) / Fraction(38)
        assert mean == (Fraction(-3, 38) if j == 5 else Fraction(-2, 38))
        assert optimum.q[0, u] == pytest.approx(float(mean), abs=1e-14)
    assert found == {1: 38, 2: 58, 3: 15, 4: 24, 5: 12, 6: 11, 12: 6, 18: 6}
    assert mq.roulette(bets="wheel", n_bets=3).notes == ("env.n_bets=3 has no effect: bets is wheel",)
    assert not mdp.notes and mq.roulette().name == "roulette n_bets=38 mean=-0.0526 law=normal deviation=1 nodes=5"


def test_one_state_falls_as_slowly_as_the_bound_says():
    for discount in (0.5, 0.9):
        result = mq.run(mq.one_state(discount=discount), mq.QLearning(), iterations=100_000, n_seeds=1, q0=1.0)
        k, error = result.iteration, result.curves["q_error"][0]
        last = k > 1000
        assert np.polyfit(np.log(k[last]), np.log(error[last]), 1)[0] == pytest.approx(discount - 1, abs=1e-4)


def test_noise_on_the_cone_moves_no_mean_and_each_reward_by_as_much():
    plain, noisy = mq.cone(), mq.cone(noise=0.5)
    np.testing.assert_allclose(noisy.mean_rewards, plain.mean_rewards, rtol=0, atol=1e-15)
    np.testing.assert_allclose(mq.optimal(noisy).q, mq.optimal(plain).q, rtol=1e-12)
    for x, u in noisy.pairs:
        p, y, r = noisy.probabilities[x, u], noisy.successors[x, u], noisy.rewards[x, u]
        for successor in set(y[p > 0]):  # whatever follows, up as often as down
            here = (p > 0) & (y == successor)
            np.testing.assert_allclose(r[here] - plain.mean_rewards[x, u], [-0.5, 0.5])
            np.testing.assert_allclose(p[here], p[here].sum() / 2)
