"""Operators of a user's: what is refused before a run, and what follows from the one formula.

That every mode learns by the formula is tested with all operators, of which one is a user's: see `operators_by_hand`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from operators_by_hand import TABLE, ExpectedSarsa, model

import mqlearn as mq
from mqlearn.algorithms.operators import Operator
from mqlearn.algorithms.operators.operator import differences
from mqlearn.problems.compiled_operators import slopes, values

LAKE = mq.frozen_lake("4x4", discount=0.9)
OWN_VALUES = [name for name, (operator, _) in TABLE.items() if not operator.greedy]


def learned(operator, **settings) -> Any:
    return mq.run(LAKE, mq.QLearning(), operator=operator, iterations=50, n_seeds=2, **settings)


@dataclass(frozen=True)
class Steep(mq.Operator):
    """Three times the largest value."""

    def value(self, q, by):
        return 3 * q[by.argmax()]


@dataclass(frozen=True)
class Text(mq.Operator):
    def value(self, q, by):
        return "high"


@dataclass(frozen=True)
class ReadsText(mq.Operator):
    def value(self, q, by):
        return float(f"{q[by.argmax()]}")


@dataclass(frozen=True)
class Raises(mq.Operator):
    def value(self, q, by):
        return q[by.argmax()] + [1.0][len(q)]


@dataclass(frozen=True)
class Counts(mq.Operator):
    """V that depends on how often it was asked."""

    def value(self, q, by):
        calls.append(1)
        return q.max() + 0.001 * len(calls)


@dataclass(frozen=True)
class NoNumbers(mq.Operator):
    def numbers(self, discount):
        return discount


@dataclass(frozen=True)
class Unknown(mq.Operator):
    scalar = "largest"


@dataclass(frozen=True)
class Expands(mq.Operator):
    """Bellman's target, with more of the own value than may be."""

    def numbers(self, discount):
        return mq.Numbers(ahead=discount, own=0.3)


calls: list[int] = []


@pytest.mark.parametrize(
    ("operator", "words"),
    [
        (Steep(), r"is no contraction by 0.9, .* V moved 3 times as far as the values, .* may move 2.7 times"),
        (Expands(), r"is no contraction by 0.9, .* may move 1.2 times as far"),
        (Text(), r"must give one finite number in value\(\), not 'high'"),
        (ReadsText(), r"cannot be compiled"),
        (Raises(), r"raised IndexError: .*test_own_operators.py, line \d+"),
        (NoNumbers(), r"must give finite mq.Numbers\(reward, ahead, here, own, common\) in numbers\(\), not 0.9"),
        (Unknown(), r"says scalar='largest', and s is one of none, mean, least"),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, Operator) else "",
)
def test_what_is_no_operator_is_refused_before_the_run_with_the_part_and_the_figure(operator, words):
    with pytest.raises(mq.SettingError, match=f"operator='.*': {words}|operator.*{words}"):
        learned(operator)


def test_v_that_remembers_its_calls_is_refused():
    with pytest.raises(mq.SettingError, match="operator"):
        learned(Counts())


def test_an_operator_without_a_proven_contraction_may_run():
    class Free(mq.Operator):
        def numbers(self, discount):
            return mq.Numbers(ahead=discount, own=0.05)

        def contraction(self, facts):
            return None

        def to_optimum(self, q, v, mean, discount):
            return None

    assert learned(Free()).status == "finished"


def test_an_operator_without_a_fixed_point_is_refused_with_the_residual():
    class Grows(Expands):
        def contraction(self, facts):
            return None

    with pytest.raises(mq.SettingError, match=r"operator='grows': has no fixed point .*residual"):
        learned(Grows())


@pytest.mark.parametrize("name", OWN_VALUES)
def test_differences_of_a_formula_are_its_slopes(name):
    operator, mdp = TABLE[name][0], model(name)
    q = np.random.default_rng(0).normal(size=mdp.learned.shape)
    found = slopes(mdp, operator, q)
    for x in range(mdp.n_states):
        own = q[x, mdp.learned[x]]
        if len(own):
            np.testing.assert_allclose(found[x, mdp.learned[x]], differences(operator.value, own), rtol=0, atol=1e-8)
            assert found[x].sum() == pytest.approx(1.0, abs=1e-8) or name == "truncated"


@pytest.mark.parametrize("name", OWN_VALUES)
def test_values_of_many_tables_are_those_of_each(name):
    operator, (row, mdp) = TABLE[name][0], (TABLE[name][1], model(name))
    q = np.random.default_rng(1).normal(size=(2, 3, *mdp.learned.shape))
    v = values(mdp, operator, q)
    assert v.shape == (2, 3, mdp.n_states)
    for x in range(mdp.n_states):
        own = q[1, 2, x, mdp.learned[x]].tolist()
        assert v[1, 2, x] == pytest.approx(row.v(own) if own else 0.0, abs=1e-12)


def test_expected_sarsa_is_bellmans_without_exploration_and_the_mean_with_nothing_else():
    np.testing.assert_allclose(learned(ExpectedSarsa(0.0)).q, learned(mq.Bellman()).q, rtol=1e-13)
    mdp = mq.two_state(discount=0.9)
    uniform = np.where(mdp.learned, 1.0, 0.0) / np.maximum(mdp.learned.sum(1, keepdims=True), 1)
    q = np.zeros(mdp.learned.shape)
    for _ in range(2000):
        v = (uniform * q).sum(1)
        q = np.where(mdp.learned, mdp.mean_rewards + 0.9 * (mdp.probabilities * v[mdp.successors]).sum(2), 0.0)
    # The mean over all actions is what expected SARSA has at epsilon 1.
    from mqlearn.problems.operators import fixed_point

    np.testing.assert_allclose(fixed_point(mdp, ExpectedSarsa(1.0)).q[mdp.learned], q[mdp.learned], atol=1e-9)


def test_theory_is_refused_by_name(mqlearn, work):
    assert mqlearn("new", "operator", "own_operator").code == 0
    command = ("--config-dir", "my_conf", "plugins=[own_operator]", "operator=own_operator")
    done = mqlearn("theory", *command)
    assert done.code == 2 and "operator" in done.err and "bellman" in done.err, done.err
    done = mqlearn("truth", *command)
    assert done.code == 0 and "own_operator epsilon=0.1" in done.out, done.out
