"""What any rule can be asked for: minibatches, the mean of its iterates; and how samples are counted."""

from typing import Any

import numpy as np
import pytest
from stateful_rules import UNCOMPILED, Many
from test_stateful import LAKE, MODES

import mqlearn as mq
from mqlearn.algorithms.four_numbers import FourNumbersLinear
from mqlearn.algorithms.rule import replaced
from mqlearn.experiments.settings import cell, compose
from mqlearn.stateful.source import inexact
from mqlearn.theory.named_rules import predicted

PLAIN, DOUBLE, MEMORY, _, RESIDUAL, *_ = UNCOMPILED
USUAL = {"iterations": 120, "n_seeds": 3, "seed": 5, "n_workers": 1, "n_checkpoints": 5, "step_size": mq.Harmonic(3)}


def run(rule, mode, **settings) -> Any:
    return mq.run(LAKE, rule, **USUAL | {"q0": (0, 0.1), "theta0": (0, 0.1)} | MODES[mode] | settings)


@pytest.mark.parametrize("rule", [mq.SpeedyQ(), PLAIN, DOUBLE, MEMORY], ids=lambda rule: type(rule).__name__)
@pytest.mark.parametrize("mode", ["synchronous", "markovian", "epsilon-greedy", "linear"])
def test_the_average_is_the_mean_of_what_the_iterations_made(rule, mode):
    averaged = run(mq.averaged(rule), mode, iterations=4, n_checkpoints=2)
    mean = np.mean([run(rule, mode, iterations=k, n_checkpoints=2).q for k in (1, 2, 3, 4)], axis=0)
    expected = np.abs(mean - mq.optimal(LAKE).q)[:, LAKE.counted].max(axis=1)
    np.testing.assert_allclose(averaged.curves["q_error_average"][:, -1], expected, rtol=1e-12)
    alone = run(rule, mode, iterations=4, n_checkpoints=2)
    np.testing.assert_allclose(averaged.q, alone.q, rtol=0, atol=1e-13)
    np.testing.assert_array_equal(averaged.curves["q_error_average"][:, 0], averaged.curves["q_error"][:, 0])
    assert "q_error_average" not in alone.curves


@pytest.mark.parametrize("rule", [mq.SpeedyQ(), PLAIN, MEMORY], ids=lambda rule: type(rule).__name__)
@pytest.mark.parametrize("mode", ["synchronous", "markovian", "epsilon-greedy", "linear"])
def test_a_burn_in_leaves_the_first_iterates_out_of_the_mean(rule, mode):
    found = run(mq.averaged(rule, burn_in=0.45), mode, iterations=7, n_checkpoints=8, checkpoints="linear")
    tables = [run(rule, mode, iterations=k, n_checkpoints=2).q for k in range(1, 8)]  # Q_1 .. Q_7, of which 3 go
    for k in range(1, 8):
        mean = np.mean(tables[3:k], axis=0) if k > 3 else tables[k - 1]
        expected = np.abs(mean - mq.optimal(LAKE).q)[:, LAKE.counted].max(axis=1)
        np.testing.assert_allclose(found.curves["q_error_average"][:, k], expected, rtol=1e-12)
    np.testing.assert_allclose(found.q, tables[-1], rtol=0, atol=1e-13)


def test_a_burn_in_ends_within_a_block_and_beside_other_rules():
    rules = [mq.averaged(mq.QLearning(), 0.3), mq.averaged(mq.SpeedyQ()), mq.QLearning()]
    for mode in ("markovian", "linear"):  # samples that are shared, a block of 1,000 iterations at a time
        settings = USUAL | MODES[mode] | {"iterations": 2000}
        together = mq.run_together(LAKE, rules, **settings)
        for rule, one in zip(rules, together, strict=True):
            alone = mq.run(LAKE, rule, **settings).curves
            for name, curve in one.curves.items():
                np.testing.assert_allclose(curve, alone[name], rtol=1e-12, err_msg=name)
        start, whole = together[0].curves["q_error_average"], mq.run(LAKE, mq.averaged(rules[2]), **settings)
        assert np.abs(start - whole.curves["q_error_average"])[:, -1].min() > 1e-6


def test_the_mean_of_the_iterates_of_a_constant_step_is_better_than_the_last():
    curves = run(mq.averaged(mq.QLearning()), "synchronous", iterations=4000, step_size=mq.Constant(0.2)).curves
    assert curves["q_error_average"][:, -1].max() < curves["q_error"][:, -1].min()
    assert {"bellman_error_average", "policy_value_average", "value_gap_average"} <= curves.keys()


@pytest.mark.parametrize("mode", ["synchronous", "synchronous, sampled reward", "markovian", "linear"])
def test_a_minibatch_of_four_numbers_is_that_of_a_rule_with_state(mode):
    four, state = (run(mq.minibatch(rule, 3), mode) for rule in (mq.QLearning(), PLAIN))
    np.testing.assert_allclose(four.q, state.q, rtol=0, atol=1e-12)
    assert np.abs(four.q - run(mq.QLearning(), mode).q).max() > 1e-4


def test_a_minibatch_has_less_noise():
    settings = {"iterations": 2000, "step_size": mq.Constant(0.1), "n_seeds": 8}
    one, sixteen = (run(mq.minibatch(mq.QLearning(), n), "synchronous", **settings) for n in (1, 16))
    assert sixteen.curves["q_error"][:, -1].mean() < 0.4 * one.curves["q_error"][:, -1].mean()


@pytest.mark.parametrize("linear", [mq.Linear(), mq.Linear("same_sample"), mq.Linear(first_gradient="zero")])
def test_four_numbers_on_features_written_with_a_state_are_the_kernels(linear):
    rule = mq.MomentumQLinear(beta=0.8, phi=0.3).with_step_size(mq.Harmonic(3))
    made = FourNumbersLinear(rule, linear.previous_gradient == "same_sample", linear.first_gradient == "zero")
    expected, found = (
        run(rule, "linear", linear=linear),
        run(replaced(made, compiled=False), "linear", linear=mq.Linear()),
    )
    np.testing.assert_allclose(found.theta, expected.theta, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("rule", "mode", "each"),
    [
        (mq.QLearning(), "synchronous", len(LAKE.pairs)),
        (RESIDUAL, "synchronous", 2 * len(LAKE.pairs)),
        (mq.minibatch(PLAIN, 4), "synchronous", 4 * len(LAKE.pairs)),
        (mq.QLearning(), "replay", 1),
        (mq.minibatch(RESIDUAL, 3), "markovian", 6),
    ],
)
def test_samples_are_counted(rule, mode, each):
    result = run(rule, mode, iterations=40)
    np.testing.assert_array_equal(result.samples, result.iteration * each)


class Bent(type(PLAIN)):
    def estimate(self, z):
        return abs(z.q)


@pytest.mark.parametrize(
    ("rule", "mode", "settings", "said"),
    [
        (
            mq.minibatch(mq.QLearning(), 2),
            "markovian",
            {"sampling": mq.Markovian(update="rounds")},
            "algorithm.batch or",
        ),
        (mq.averaged(mq.SpeedyQ()), "markovian", {"sampling": mq.Markovian(update="rounds")}, "sampling.update"),
        (mq.minibatch(mq.SpeedyQ(), 2), "linear", {"linear": mq.Linear(projection=1.0)}, "linear.projection"),
        (mq.averaged(Bent()), "iid", {}, "is linear in"),
    ],
)
def test_options_that_a_rule_does_not_have_are_refused_by_name(rule, mode, settings, said):
    with pytest.raises(mq.SettingError, match=said):
        run(rule, mode, **settings)


def test_options_are_settings_of_every_algorithm(work):
    def built(*overrides: str) -> cell.Cell:
        return cell.build(compose.compose([*overrides, "iterations=10", "tracking=none"]))

    usual, written = built("algorithm=speedy_q"), built("algorithm=speedy_q", "algorithm.batch=1")
    assert usual.digest == written.digest and "batch" not in usual.name
    other = built("algorithm=speedy_q", "algorithm.averaged=true", "algorithm.batch=4")
    assert other.digest != usual.digest and "averaged=True batch=4" in other.name
    assert other.run_arguments["rule"].batch == 4 and other.run_arguments["rule"].averaged
    late = built("algorithm=speedy_q", "algorithm.averaged=true", "algorithm.batch=4", "algorithm.burn_in=0.05")
    assert late.digest != other.digest and "burn_in=0.05" in late.name
    assert late.run_arguments["rule"].burn_in == 0.05
    assert built("algorithm=speedy_q", "algorithm.burn_in=0").digest == usual.digest
    assert np.isnan(predicted(late.mdp, late.run_arguments["rule"]).sigma).all()
    for wrong in ("algorithm.burn_in=0.05", "algorithm.averaged=true algorithm.burn_in=1"):
        with pytest.raises(mq.SettingError, match=r"^algorithm\.burn_in="):
            built("algorithm=speedy_q", *wrong.split())
    with pytest.raises(mq.SettingError, match=r"algorithm\.batch=0: must be a whole number of draws, at least 1"):
        built("algorithm.batch=0")


def test_whether_a_step_is_compiled_is_part_of_a_digest_where_it_changes_a_number(work):
    def built(*overrides: str) -> cell.Cell:
        return cell.build(compose.compose([*overrides, "iterations=10", "tracking=none"]))

    for name, differs in (("zap", False), ("movi", False), ("pid", False), ("adam", False), ("double_q", True)):
        compiled, plain = built(f"algorithm={name}"), built(f"algorithm={name}", "algorithm.compiled=false")
        assert not plain.run_arguments["rule"].compiled
        assert (plain.digest != compiled.digest) == differs, name  # double Q may have n^-exponent
        assert built(f"algorithm={name}", "algorithm.compiled=true").digest == compiled.digest
        assert cell.rebuild(plain.settings).digest == plain.digest
    with pytest.raises(mq.SettingError, match=r"algorithm\.compiled=False: is a setting of rules with state"):
        built("algorithm.compiled=false")


def power(x):
    return x**0.5


class Powers(type(PLAIN)):
    def step(self, z, s, c):
        s.move(z.q, s.target(z.q), power(c.alpha))


class Sums(type(PLAIN)):
    def estimate(self, z):
        return z.q - z.q.sum()


@pytest.mark.parametrize(("rule", "expected"), [(PLAIN, False), (Many(), False), (Powers(), True), (Sums(), True)])
def test_powers_and_sums_are_what_a_compiled_step_rounds_in_its_own_way(rule, expected):
    assert inexact(rule) == expected
