"""Functions that a compiled step calls: what their names mean in memory, they mean in the compiled loop."""

import functools
import math
import types
from typing import Any

import numpy as np
import pytest

import mqlearn as mq
from mqlearn.errors import SettingError
from mqlearn.learners import Linear, start

CHUNK, SHARE = 0.5, np.float64(0.5)  # the first is a name of the loop's own too
FAR = math.inf


def _module(text: str) -> types.ModuleType:
    """A module of another name, whose text is in no file of its own."""
    made = types.ModuleType("numbers_of_another_file")
    exec(text, vars(made))
    return made


other = _module("GAIN = 0.25\nLIST = [1]")


def identity(x):
    return x


def _another():
    def identity(x):
        return 0.5 * x

    return identity


identity_of_another = _another()


def scaled(share):
    def of(x):
        return share * x

    return of


half, quarter = scaled(0.5), scaled(0.25)
short = lambda x: 0.5 * x  # noqa: E731  a lambda is what is tested


def named_like_the_loop(x):
    return CHUNK * x


def default(x, share=SHARE, power=1):
    return share * x**power


def of_module(x):
    return 2.0 * other.GAIN * np.minimum(x, FAR)


def calls(x: float) -> float:
    shares = [identity(SHARE) for _ in range(1)]
    return identity_of_another(x) * shares[0] * 2.0


def halved(function):
    @functools.wraps(function)
    def wrapper(x):
        return 0.5 * function(x)

    return wrapper


@halved
def decorated(x):
    return x


def lists(x):
    return other.LIST[0] * x


def solved(x):
    return 0.5 * x * mq.solve(np.eye(2), np.ones(2))[0]


class Base(mq.Stateful):
    def init(self, q0):
        return {"q": q0}


def rule(share):
    """A rule that moves by share(alpha), as a class of a step that calls this helper."""

    class Moves(Base):
        def step(self, z, s, c):
            s.move(z.q, s.target(z.q), share(c.alpha))

    return Moves()


def run(rule, compiled=True) -> Any:
    object.__setattr__(rule, "compiled", compiled)
    return mq.run(mq.two_state(), rule, iterations=50, n_seeds=2).q


HELPERS = {
    "half": half,
    "short": short,
    "named like the loop": named_like_the_loop,
    "default": default,
    "of a module": of_module,
    "calls": calls,
    "decorated": decorated,
    "solved": solved,
}


class EachHelper(Base):
    """One table for each helper, which moves by it: one loop is compiled for all of them."""

    def init(self, q0):
        return {name.replace(" ", "_"): q0.copy() for name in HELPERS}

    def step(self, z, s, c):
        s.move(z.half, s.target(z.half), half(c.alpha))
        s.move(z.short, s.target(z.short), short(c.alpha))
        s.move(z.named_like_the_loop, s.target(z.named_like_the_loop), named_like_the_loop(c.alpha))
        s.move(z.default, s.target(z.default), default(c.alpha))
        s.move(z.of_a_module, s.target(z.of_a_module), of_module(c.alpha))
        s.move(z.calls, s.target(z.calls), calls(c.alpha))
        s.move(z.decorated, s.target(z.decorated), decorated(c.alpha))
        s.move(z.solved, s.target(z.solved), solved(c.alpha))

    def estimate(self, z):
        return z.half


def test_each_helper_halves_the_step():
    halved_steps = mq.QLearning().with_step_size(lambda k: 0.5 / (k + 1))
    model = mq.two_state()
    expected: Any = mq.run(model, halved_steps, iterations=50, n_seeds=1).q
    rule = EachHelper().with_step_size(mq.Harmonic()).at(model.discount)
    made: Any = start(model, mq.Synchronous(), None, Linear(), 0, 0.0, True, np.arange(1, dtype=np.uint32), rule=rule)
    made.advance(0, 50, rule.weights(0, 50))
    assert set(made.state) == {name.replace(" ", "_") for name in HELPERS}
    for name, table in made.state.items():
        np.testing.assert_allclose(table[0], expected[0][model.learned], rtol=1e-12, err_msg=name)


class OfOneName(Base):
    def step(self, z, s, c):
        s.move(z.q, s.target(z.q), identity(c.alpha) * 0.5 + identity_of_another(c.alpha) - half(c.alpha))


def test_helpers_of_one_name_are_each_themselves():
    np.testing.assert_array_equal(run(OfOneName()), run(OfOneName(), compiled=False))


def test_closures_of_one_text_are_each_themselves():
    assert not np.array_equal(run(rule(half)), run(rule(quarter)))
    np.testing.assert_array_equal(run(rule(quarter)), run(rule(quarter), compiled=False))


def test_what_a_helper_cannot_read_is_named_with_its_line():
    line = lists.__code__.co_firstlineno
    with pytest.raises(SettingError, match=rf"other.LIST is a list; .*in lists \({__file__}, line {line}\)"):
        run(rule(lists))


def _slowly(step):
    @functools.wraps(step)
    def wrapper(self, z, s, c):
        step(self, z, s, types.SimpleNamespace(alpha=c.alpha / 2))

    return wrapper


class Wrapped(Base):
    @_slowly
    def step(self, z, s, c):
        s.move(z.q, s.target(z.q), c.alpha)


def test_a_step_that_a_decorator_has_made_is_not_compiled_without_it():
    with pytest.raises(SettingError, match="what a decorator has made"):
        run(Wrapped())
    np.testing.assert_allclose(run(Wrapped(), compiled=False), run(rule(half)), rtol=1e-12)
