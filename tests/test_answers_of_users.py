# ruff: noqa: NPY002  (the chance that users write)
"""A user's functions answer the same when they are asked again, without chance of their own, from what is given."""

from typing import Any, cast

import numpy as np
import pytest

import mqlearn as mq
from mqlearn.algorithms.rule import replaced
from mqlearn.errors import SettingError
from mqlearn.stateful.check import check

TWO = mq.two_state()
GENERATOR = np.random.default_rng(0)


def drawn(x: float) -> float:
    return x + np.random.normal()


class Plain(mq.Stateful):
    modes = ("asynchronous",)
    compiled = False

    def init(self, q0):
        return {"q": q0}

    def step(self, z, s, c):
        s.move(z.q, s.target(z.q), c.alpha)


class InStep(Plain):
    def step(self, z, s, c):
        s.move(z.q, s.target(z.q) + (np.random.rand() if c.alpha < 1e-3 else 0.0), c.alpha)


class InHelper(Plain):
    compiled = True

    def step(self, z, s, c):
        s.move(z.q, drawn(s.target(z.q)), c.alpha)


class InMethod(Plain):
    def more(self):
        return GENERATOR.random()

    def step(self, z, s, c):
        s.move(z.q, s.target(z.q) + self.more(), c.alpha)


class InField(Plain):
    def __init__(self):
        self.drawn = GENERATOR

    def step(self, z, s, c):
        s.move(z.q, s.target(z.q) + self.drawn.random(), c.alpha)


class Clock(Plain):
    def step(self, z, s, c):
        from time import perf_counter

        s.move(z.q, s.target(z.q), c.alpha * (1 if perf_counter() else 2))


class Counting(Plain):
    calls = 0

    def step(self, z, s, c):
        type(self).calls += 1
        s.move(z.q, self.calls, c.alpha)


class InInit(Plain):
    def init(self, q0):
        return {"q": q0 + np.random.rand()}


class InNumbers(Plain):
    def numbers(self, k):
        return {"alpha": np.random.rand(len(k))}


@pytest.mark.parametrize(
    "kind, said",
    [
        (InStep, "step.. reads np.random,"), (InHelper, "step.. reads np.random,"), (InMethod, "reads GENERATOR,"),
        (InField, "reads self.drawn,"), (Clock, "step.. reads time"), (Counting, "step.. gives other numbers"),
        (InInit, "init.. gives other numbers"), (InNumbers, "numbers.. gives other numbers"),
    ],
)  # fmt: skip
def test_a_rule_with_state_has_no_chance_of_its_own(kind, said):
    check(Plain())
    with pytest.raises(SettingError, match=said) as error:
        check(kind())
    assert "s.uniform" in str(error.value) and __file__ in str(error.value)


def constant_features(x, u):
    return [1.0]


@pytest.mark.parametrize(
    "setting, refused",
    [
        ("metrics.m", lambda: {"metrics": {"m": 3}}),
        ("metrics.m", lambda: {"metrics": {"m": lambda: 1}}),
        ("metrics.m", lambda: {"metrics": {"m": lambda of, mdp: "x"}}),
        ("metrics", lambda: {"metrics": {"m": lambda of, mdp: np.random.rand(len(of))}}),
        ("sampling.behaviour", lambda: {"sampling": mq.Markovian(behaviour=cast(Any, lambda: 1))}),
        ("sampling.behaviour", lambda: {"sampling": mq.Markovian(behaviour=cast(Any, 3))}),
        ("sampling.behaviour", lambda: {"sampling": mq.Markovian(behaviour=lambda m: np.random.rand(2, 2))}),
        ("step_size", lambda: {"step_size": mq.Constant}),
        ("features.function", lambda: {"features": mq.from_function(TWO, cast(Any, 3))}),
        ("features.function(0, 0)", lambda: {"features": mq.from_function(TWO, cast(Any, lambda: 1))}),
        ("features.function(0, 0)", lambda: {"features": mq.from_function(TWO, lambda x, u: np.random.rand(2))}),
    ],
)
def test_functions_of_other_kinds_are_one_message(setting, refused):
    with pytest.raises(SettingError) as error:
        mq.run(TWO, mq.QLearning(), iterations=3, n_seeds=2, **{"sampling": mq.Markovian(), **refused()})
    assert error.value.setting == setting


class OwnWithoutDiscount(Plain):
    def own_step_size(self):
        return mq.Constant(0.1)


class OwnIsANumber(Plain):
    own_step_size: Any = 3


class OwnIsNone(Plain):
    def own_step_size(self, discount):
        return None


class Update(mq.Rule):
    def update(self, k, q, target):
        return q


class Warnings(mq.QLearning):
    def warnings(self):
        return []


@pytest.mark.parametrize("kind", [OwnWithoutDiscount, OwnIsANumber, OwnIsNone, Update, Warnings])
def test_a_method_with_other_parameters_is_one_message(kind):
    with pytest.raises(SettingError, match=r"own_step_size|update|warnings") as error:
        mq.run(TWO, kind(), iterations=3, n_seeds=1)
    assert error.value.value == kind.__name__


class Value(mq.Bellman):
    def value(self, q):
        return q.max()


class Chance(mq.Operator):
    def numbers(self, discount):
        return mq.Numbers(1.0, discount * np.random.rand(), 0.0, 0.0, 0.0)


class Walk(mq.Markovian):
    def walk(self):
        return None


@pytest.mark.parametrize(
    "settings, said",
    [({"operator": Value()}, "value"), ({"operator": Chance()}, "numbers"), ({"sampling": Walk()}, "walk")],
)
def test_operators_and_samplings_answer_what_they_are_asked(settings, said):
    with pytest.raises(SettingError, match=said):
        mq.run(TWO, mq.QLearning(), iterations=3, n_seeds=1, **settings)


class Idle(mq.Rule):
    """A rule of four numbers that uses no step size, and one sample after the other."""

    needs = ("consecutive",)

    def update(self, k, q, q_prev, target, target_prev):
        return 0.9 * q + 0.1 * target


class Misnamed(Plain):
    def numbers(self, k):
        return {"eta": 0.5 + 0 * k}

    def step(self, z, s, c):
        s.move(z.q, s.target(z.q), c.beta)


def test_a_rule_of_four_numbers_says_what_it_needs_and_that_it_uses_no_step_size():
    for sampling in (mq.Replay(), mq.Synchronous()):
        with pytest.raises(SettingError, match="needs for its traces"):
            mq.run(TWO, Idle(), sampling=sampling, iterations=3, n_seeds=2)
    done = mq.run(TWO, Idle(), sampling=mq.Markovian(), step_size=mq.Constant(0.5), iterations=3, n_seeds=2)
    assert [one.text for one in done.findings if one.code == "no_effect" and "step_size" in one.text]


def test_a_name_that_is_none_comes_with_those_that_are():
    for kind in (Misnamed, type("Compiled", (Misnamed,), {"compiled": True})):
        with pytest.raises(SettingError, match=r"beta.*eta.*numbers\(self, k\)"):
            mq.run(TWO, kind(), sampling=mq.Markovian(), iterations=3, n_seeds=2)


def test_a_setting_of_zap_that_all_pairs_do_not_use_is_said():
    for sampling, said in ((mq.Synchronous(), True), (mq.Markovian(), False)):
        rule = replaced(mq.Zap(refactor=3, shift=2.0), compiled=False)
        done = mq.run(TWO, rule, sampling=sampling, iterations=3, n_seeds=2)
        assert said == any("refactor" in one.text for one in done.findings)


def test_a_mask_is_not_overlooked():
    p, r = np.tile(np.eye(2)[None], (2, 1, 1)), np.ma.masked_array(np.ones((2, 2)), [[False, True], [False, False]])
    with pytest.raises(SettingError, match=r"R='a masked array'.*filled"):
        mq.from_arrays(p, r, axes="xuy", discount=0.5)
    assert mq.from_arrays(p, r.filled(-np.inf), axes="xuy", discount=0.5).learned.sum() == 3
    with pytest.raises(SettingError, match="iterations"):
        mq.run(TWO, mq.QLearning(), iterations=cast(Any, np.ma.masked), n_seeds=2)
