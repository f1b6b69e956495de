"""Operators on environments without a model: literal loops over what has happened, fixed points, and refusals."""

from typing import Any, ClassVar

import numpy as np
import operators_by_hand as by_hand
import pytest
from gymnasium.spaces import Discrete
from simulated_cases import Line, box, coded, momentum
from stateful_rules import Double, Plain

import mqlearn as mq
from mqlearn import kernels
from mqlearn.problems.environments import simulator
from mqlearn.problems.features import one_hot

NAMES = ("relaxed", "over-relaxed", "advantage", "mellowmax", "soft", "truncated")
DISCOUNT = 0.9


class Told(Line):
    """The line with numbers for its points, which keeps what has happened on it and on its copies."""

    observation_space: Any = Discrete(9)
    happened: ClassVar[list[tuple[int, int, int, bool]]] = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.x, {}

    def step(self, action):
        before = self.x
        _, reward, terminated, *more = super().step(action)
        self.happened.append((before, action - 3, self.x, terminated))
        return self.x, reward, terminated, *more


def learned(
    name: str, rule: Any, iterations: int, **settings: Any
) -> tuple[np.ndarray, list[tuple[int, int, int, bool]]]:
    """The table (9, 2) of one seed, and what it has learned from."""
    env = simulator(Told(), discount=DISCOUNT)
    usual = {"iterations": iterations, "n_seeds": 1, "n_checkpoints": 1, "theta0": 0.0, "step_size": mq.Constant(0.2)}
    usual |= {"sampling": mq.Markovian(), "evaluation": mq.Evaluation(episodes=0)}
    Told.happened.clear()
    result = mq.run(env, rule, operator=by_hand.TABLE[name][0], features=one_hot(env), **usual | settings)
    assert result.theta is not None
    return result.theta[0].reshape(-1, 2)[:9], list(Told.happened)  # a tenth row is a tile beyond the points


def target(name: str, q: np.ndarray, x: int, u: int, y: int, over: bool) -> float:
    reward, ahead, here, own, _ = by_hand.TABLE[name][1].numbers(DISCOUNT)
    v = by_hand.TABLE[name][1].v
    return reward * 1.0 + (0.0 if over else ahead * v(q[y].tolist())) + here * v(q[x].tolist()) + own * q[x, u]


def chosen(name: str, q: np.ndarray, by: np.ndarray) -> float:
    """V of a state's values, chosen by those of another table; not for what looks at V here."""
    if name == "truncated":
        return max(-0.3, min(0.3, q[by.argmax()]))
    p = np.array(by_hand.dv(name, by.tolist()))
    return float(p @ q - p @ np.log(p * (2 if name == "mellowmax" else 1)) / 3)


@pytest.mark.parametrize("name", NAMES)
def test_momentum_is_the_literal_loop(name):
    rule = momentum(beta=0.5)
    found, happened = learned(name, rule, 150)
    theta, change, before = np.zeros((9, 2)), np.zeros((9, 2)), None
    for (x, u, y, over), (_, old, s, t) in zip(happened, rule.weights(0, 150), strict=True):
        g = np.zeros((9, 2))
        g[x, u] = theta[x, u] - target(name, theta, x, u, y, over)
        change = -(old + t) * change - s * g - t * (g if before is None else before)
        theta, before = theta + change, g
    assert np.ptp(theta) > 0.1
    np.testing.assert_allclose(found, theta, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_a_rule_with_state_is_the_literal_loop(name):
    found, happened = learned(name, Plain(), 150)
    q = np.zeros((9, 2))
    for x, u, y, over in happened:
        q[x, u] += 0.2 * (target(name, q, x, u, y, over) - q[x, u])
    np.testing.assert_allclose(found, q, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["mellowmax", "soft", "truncated"])
def test_double_q_chooses_by_its_other_table(name):
    found, happened = learned(name, Double(), 150)
    a, b = np.zeros((9, 2)), np.zeros((9, 2))
    stream, zero = np.uint32(kernels.STREAMS["own"]), np.uint32(0)
    for k, (x, u, y, over) in enumerate(happened):
        mine, other = (a, b) if kernels.lane_words(k, 1, zero, zero, stream)[0, 0] < 2**31 else (b, a)
        ahead = 0.0 if over else chosen(name, other[y], mine[y])
        mine[x, u] += 0.2 * (1.0 + DISCOUNT * ahead - mine[x, u])
    np.testing.assert_allclose(found, (a + b) / 2, rtol=0, atol=1e-12)
    assert np.ptp(a - b) > 0.1


@pytest.mark.parametrize("name", NAMES)
def test_without_chance_a_run_ends_at_the_fixed_point(name):
    found, happened = learned(name, mq.QLearning(), 30_000, step_size=mq.Constant(0.9))
    q, seen = np.zeros((9, 2)), sorted(set(happened))
    for _ in range(500):
        q = q.copy()
        for x, u, y, over in seen:
            q[x, u] = target(name, q, x, u, y, over)
    assert len(seen) == 16 and np.abs(q).max() > 0.5
    np.testing.assert_allclose(found, q, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("operator", "said"),
    [
        (
            mq.Relative(0.5),
            "operator='relative': has the mean of Q over all pairs in its target, and CartPole-v1 has no",
        ),
        (mq.Robust(0.1), "operator='robust': has the least V of all states in its target, and CartPole-v1 has no"),
        (mq.Advantage(0.5), "operator='advantage': has no certified fixed point with features"),
        (mq.Truncated(), r"operator\.bound=None: follows from the rewards of an exact model: give a number"),
    ],
)
def test_what_needs_a_model_is_refused_by_name(operator, said):
    with pytest.raises(mq.SettingError, match=said):
        mq.run(
            box("CartPole-v1"), mq.QLearning(), operator=operator, features=coded("CartPole-v1"),
            sampling=mq.Markovian(), iterations=10, n_seeds=1,
        )  # fmt: skip


def test_a_bound_that_cannot_be_judged_is_a_warning():
    settings: Any = {"features": coded("CartPole-v1"), "iterations": 10, "n_seeds": 1}
    settings |= {"sampling": mq.Markovian(behaviour="epsilon_greedy"), "evaluation": mq.Evaluation(episodes=1)}
    for operator, warned in ((mq.Truncated(100.0), True), (mq.Mellowmax(), False)):
        found = mq.run(box("CartPole-v1"), mq.QLearning(), operator=operator, **settings)
        assert any("it is not known whether it suffices" in text for text in found.warnings) == warned
        assert found.facts["operator"]["name"] == type(operator).__name__.lower()
