"""Runs with operators: what is measured, what is refused, and what people are warned of."""

import re

import numpy as np
import operators_by_hand as by_hand
import pytest
import twins
from operator_cases import Plain

import mqlearn as mq
from mqlearn.algorithms.operators import Numbers as Five
from mqlearn.algorithms.operators import Operator
from mqlearn.algorithms.rule import replaced


@pytest.mark.parametrize("name", ["relaxed", "robust", "advantage", "mellowmax", "truncated"])
def test_the_error_against_its_own_fixed_point_falls(name):
    found = mq.run(
        by_hand.model(name), mq.QLearning(), operator=by_hand.TABLE[name][0], iterations=30_000, n_seeds=4,
        step_size=mq.Polynomial(0.7), n_checkpoints=5,
    )  # fmt: skip
    point = found.facts["operator"]
    assert found.curves["q_error"][:, -1].max() < 0.1 < 0.2 < point["distance_to_q_star"]
    assert found.curves["bellman_error"][:, -1].max() < 0.1


def test_the_error_is_zero_where_a_run_starts_at_a_fixed_point_that_is_a_constant():
    """Two actions that stay and pay 1: values of Bellman's are 10, of log sum exp more, and a run may begin there."""
    mdp = mq.from_arrays(np.ones((1, 2, 1)), np.ones((1, 2)), discount=0.9)
    omega = 2.0
    value = (1 + 0.9 * np.log(2) / omega) / 0.1
    soft = mq.run(mdp, mq.QLearning(), operator=mq.Soft(omega), iterations=0, n_seeds=1, q0=value)
    mellow = mq.run(mdp, mq.QLearning(), operator=mq.Mellowmax(omega), iterations=0, n_seeds=1, q0=10.0)
    for found in (soft, mellow):
        assert found.curves["q_error"][0, 0] == pytest.approx(0, abs=1e-12)
        assert found.curves["bellman_error"][0, 0] == pytest.approx(0, abs=1e-12)
        assert found.curves["value_gap"][0, 0] == pytest.approx(0, abs=1e-12)


LAKE = mq.frozen_lake("4x4", discount=0.9)


@pytest.mark.parametrize(
    ("operator", "settings", "words"),
    [
        (mq.Relative(0.5), {}, "has no such fixed point where states are terminal"),
        (mq.Robust(0.1), {"features": mq.one_hot(LAKE)}, "has no certified fixed point with features"),
        (mq.Advantage(0.5), {"features": mq.one_hot(LAKE)}, "use bellman, relaxed, truncated, mellowmax, soft, or"),
        ("relaxed", {}, "must be an operator, such as mq.Relaxed"),
    ],
)
def test_what_has_no_fixed_point_is_refused_by_name(operator, settings, words):
    sampling = mq.Markovian() if settings else None
    with pytest.raises(mq.SettingError, match="operator.*" + words):
        mq.run(LAKE, mq.QLearning(), operator=operator, iterations=10, sampling=sampling, **settings)


@pytest.mark.parametrize(
    ("scalar", "numbers"), [("none", Five(ahead=0.8, own=0.1)), ("mean", Five(ahead=0.8, common=0.1))]
)
def test_an_operator_with_more_than_features_can_learn_is_refused_with_them(scalar, numbers):
    class Own(Operator):
        with_features = True

        def numbers(self, discount):
            return numbers

    Own.scalar = scalar
    settings = {"operator": Own(), "iterations": 10, "n_seeds": 1, "sampling": mq.Markovian()}
    assert mq.run(LAKE, mq.QLearning(), **settings).status == "finished"
    with pytest.raises(mq.SettingError, match=r"operator='own': has s or Q\(x, u\) in its target"):
        mq.run(LAKE, mq.QLearning(), features=mq.one_hot(LAKE), **settings)


class WritesAhead(Plain):
    """Writes where Bellman's target has its greedy action."""

    def step(self, z, s, c):
        s.add_best(z.q, c.alpha)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("sampling", [None, mq.Markovian()])
def test_a_rule_that_writes_at_the_greedy_action_ahead_is_refused(compiled, sampling):
    rule = replaced(WritesAhead(), compiled=compiled)
    with pytest.raises(
        mq.SettingError, match=r"operator='relaxed': .* s.add_best .* s.add_gradient is of any operator"
    ):
        mq.run(LAKE, rule, operator=mq.Relaxed(), iterations=10, sampling=sampling)


@pytest.mark.parametrize(
    ("operator", "words"),
    [
        (mq.Relaxed(1.5), r"w\* = 1 "),
        (mq.Advantage(0.5), "no contraction is proven"),
        (mq.Robust(0.1), "discount 0.81"),
        (mq.Truncated(0.01), r"below .* the largest \|V\*\|"),
        (mq.Relaxed(0.5), None),
        (mq.Robust(0.1, terminals=False), None),
        (mq.Truncated(), None),
    ],
)
def test_a_run_warns_of_what_an_operator_does_there(operator, words):
    found = mq.run(LAKE, mq.QLearning(), operator=operator, iterations=10, n_seeds=1)
    if words is None:
        assert not found.warnings
    else:
        assert any(re.search(words, text) for text in found.warnings)


@pytest.mark.parametrize(
    "make",
    [
        lambda: mq.Relaxed(w=0), lambda: mq.Relative(kappa=float("nan")), lambda: mq.Robust(radius=1),
        lambda: mq.Advantage(a=1), lambda: mq.Mellowmax(omega=0), lambda: mq.Truncated(bound=-1),
    ],
)  # fmt: skip
def test_a_number_outside_its_range_is_refused(make):
    with pytest.raises(mq.SettingError, match="operator"):
        make()


def test_rules_share_samples_under_an_operator():
    settings = {"operator": mq.Relaxed(0.8), "iterations": 300, "n_seeds": 2, "sampling": mq.Markovian()}
    rules = [mq.QLearning(), mq.SpeedyQ()]
    for together, alone in zip(mq.run_together(LAKE, rules, **settings), rules, strict=True):
        twins.assert_same(together, mq.run(LAKE, alone, **settings))
