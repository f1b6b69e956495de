"""The compiled form of rules with state of their own: the numbers of the plain one, and when it is compiled anew."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stateful_rules import RULES, UNCOMPILED, Double, Gain, Many, Memory, Plain, Residual
from test_stateful import LAKE, MODES, run

import mqlearn as mq
from mqlearn.algorithms.rule import replaced
from mqlearn.learners import Linear, start
from mqlearn.stateful.check import check

# One rule a mode: each is compiled, which takes seconds.
FEW = [
    (Many(), "synchronous"),
    (Memory(), "markovian"),
    (Gain(), "epsilon-greedy"),
    (Residual(), "linear"),
    (Double(), "linear, epsilon-greedy"),
]
IDS = [f"{type(rule).__name__}, {mode}" for rule, mode in FEW]
NAMES = [type(rule).__name__ for rule in RULES]
PAST = {"theta0": (0, 0.1), "iterations": 300}


def same(rule, plain, mode, **settings):
    compiled, expected = (run(one, **MODES[mode] | PAST | settings) for one in (rule, plain))
    np.testing.assert_array_equal(compiled.q, expected.q)
    np.testing.assert_array_equal(compiled.curves["value_gap"], expected.curves["value_gap"])
    return compiled


@pytest.mark.parametrize(("rule", "mode"), FEW, ids=IDS)
def test_compiled_is_plain(rule, mode):
    compiled = same(rule, replaced(rule, compiled=False), mode)
    more = run(rule, **MODES[mode] | PAST | {"n_seeds": 5, "n_workers": 2, "n_checkpoints": 30})
    np.testing.assert_array_equal(compiled.q, more.q[:3])


def test_a_projection_of_a_compiled_rule_is_that_of_the_plain_one():
    settings = {"linear": mq.Linear(projection=0.1)}
    found = same(Double(), replaced(Double(), compiled=False), "linear, epsilon-greedy", **settings)
    free = run(Double(), **MODES["linear, epsilon-greedy"] | PAST)
    assert np.linalg.norm(found.theta, axis=1).max() <= 0.1 * (1 + 1e-12) < np.linalg.norm(free.theta, axis=1).min()


@pytest.mark.integration
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("number", range(len(RULES)), ids=NAMES)
def test_compiled_is_plain_everywhere(number, mode):
    same(RULES[number], UNCOMPILED[number], mode)


@pytest.mark.integration
@pytest.mark.parametrize("mode", ["synchronous", "markovian", "epsilon-greedy", "linear"])
@pytest.mark.parametrize("number", range(len(RULES)), ids=NAMES)
def test_compiled_is_plain_with_minibatches(number, mode):
    same(replaced(RULES[number], batch=3), replaced(UNCOMPILED[number], batch=3), mode, reward="sampled")


def test_a_table_learns_the_same_from_shared_samples():
    settings = MODES["markovian"] | {"iterations": 300, "n_seeds": 3, "seed": 5, "n_workers": 1, "q0": (0, 0.1)}
    rules = [mq.SpeedyQ(), Memory(), mq.QLearning()]
    together = mq.run_together(LAKE, rules, step_size=mq.Harmonic(3), **settings)
    for rule, result in zip(rules, together, strict=True):
        np.testing.assert_array_equal(result.q, run(rule, **settings).q)
        np.testing.assert_array_equal(result.visits, together[0].visits)


def test_blocks_of_iterations_do_not_show():
    lanes, rule = np.arange(2, dtype=np.uint32), Many().with_step_size(mq.Harmonic(3)).at(0.9)
    learners: Any = [
        start(LAKE, mq.Synchronous(), None, Linear(), 0, 0.0, True, lanes, rule=one) for one in (rule, rule)
    ]
    learners[0].advance(0, 100, rule.weights(0, 100))
    for first in range(0, 100, 7):
        n = min(7, 100 - first)
        learners[1].advance(first, n, rule.weights(first, first + n))
    np.testing.assert_array_equal(learners[0].z, learners[1].z)


RULE = """
from dataclasses import dataclass
import mqlearn as mq

@dataclass(frozen=True)
class Mine(mq.Stateful):
    share: float = 1.0

    def init(self, q0):
        return {{"q": q0}}

    def step(self, z, s, c):
        s.move(z.q, s.target(z.q), {share} * c.alpha)
"""
TOLD = """
import sys, mqlearn as mq, mine
result = mq.run(mq.frozen_lake("4x4", discount=0.9), mine.Mine({argument}), iterations=50, n_seeds=2)
loops = [module.advance for name, module in sys.modules.items() if ".rule_" in name]
print(sum(sum(loop.stats.cache_misses.values()) for loop in loops), repr(float(result.q.sum())))
"""


@pytest.mark.integration
def test_a_second_process_compiles_nothing_and_an_edit_compiles_anew(tmp_path: Path):
    def told(share: str, argument: str = "") -> list[str]:
        (tmp_path / "mine.py").write_text(RULE.format(share=share))
        command = [sys.executable, "-B", "-c", TOLD.format(argument=argument)]
        found = os.environ | {"PYTHONPATH": str(tmp_path)}  # the current folder is none, where the environment says so
        done = subprocess.run(command, env=found, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    unique = repr(0.5 + float(np.random.default_rng().random()) / 4)
    first, second = told(unique), told(unique)
    assert first[0] == "1" and second == ["0", first[1]]
    assert told(unique, "share=0.25") == second  # a number of the rule is no part of the text
    edited = told(f"(1.0 - {unique})")
    assert edited[0] == "1" and edited[1] != first[1]


@dataclass(frozen=True)
class Mistaken(Plain):
    """Each mistake is one of these functions in place of `step`: Python can do them, a compiled step cannot."""


def _mistakes():
    def own_step_size(self, z, s, c):
        s.move(z.q, s.target(z.q), c.alpha * self.step_size(c.alpha))

    def mixes(self, z, s, c):
        z.q[:] += c.alpha * (s.target(z.q) - z.q)

    def whole(self, z, s, c):
        z.q[:] = s.value(z.q)

    def remembers(self, z, s, c):
        before = [s.value(z.q)]
        s.add(z.q, before[0] * 0)

    def returns(self, z, s, c):
        s.move(z.q, s.target(z.q), c.alpha)
        return z.q

    def array_of_self(self, z, s, c):
        s.move(z.q, s.target(z.q), c.alpha * self.numbers.__name__.count("n"))

    return [own_step_size, mixes, whole, remembers, returns, array_of_self]


SAID = {
    "own_step_size": "self.step_size in step(): hand on what depends on k by numbers()",
    "mixes": "mixes what a verb gives with a whole table",
    "whole": "use s.add or s.move",
    "remembers": "cannot read [s.value(z.q)]",
    "returns": "step() returns nothing",
    "array_of_self": "self.numbers in step()",
}


@pytest.mark.parametrize("step", _mistakes(), ids=lambda step: step.__name__)
def test_what_cannot_be_compiled_is_one_line_with_file_and_line(step):
    rule = type(step.__name__, (Mistaken,), {"step": step})()
    with pytest.raises(mq.SettingError) as caught:
        check(rule)
    said = str(caught.value)
    assert SAID[step.__name__] in said and "\n" not in said
    assert any(f"({__file__}, line {step.__code__.co_firstlineno + number})" in said for number in (1, 2))


def test_what_numba_refuses_is_one_line_with_file_and_line():
    def step(self, z, s, c):
        s.move(z.q, s.target(z.q), c.alpha)
        z.q[:] = 0.0 * np.gradient(z.q)

    rule = type("Odd", (Plain,), {"step": step})()
    with pytest.raises(mq.SettingError, match="cannot be compiled") as caught:
        run(rule, iterations=3)
    assert f"({__file__}, line {step.__code__.co_firstlineno + 2})" in str(caught.value)
    assert "\n" not in str(caught.value)
    run(replaced(rule, compiled=False), iterations=3)
