"""One contract for every rule of conf/algorithm; what a rule refuses, and rules of one's own."""

import importlib
import inspect
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import twins
import yaml
from random_mdps import random_mdp
from twins import run

from mqlearn.algorithms import (
    ExpectedSarsa,
    MomentumQ,
    MomentumQLinear,
    NeSA,
    QLearning,
    Rule,
    SpeedyQ,
    Stateful,
    WeightedQ,
    check_rule,
)
from mqlearn.algorithms.rule import replaced
from mqlearn.algorithms.step_sizes import Constant, Harmonic, InverseSqrt, Matched, Polynomial, RescaledLinear
from mqlearn.errors import SettingError
from mqlearn.experiments.settings import earlier_versions
from mqlearn.paths import CONF
from mqlearn.problems.environments import frozen_lake
from mqlearn.problems.features import one_hot
from mqlearn.problems.mdp import bellman
from mqlearn.problems.solvers import optimal
from mqlearn.sampling.modes import Markovian, Synchronous
from mqlearn.stateful.check import check

FILES = sorted((CONF / "algorithm").glob("*.yaml"))

# More choices of a file's settings, for the same contract.
VARIANTS: dict[str, list[dict]] = {
    "speedy_q": [{"form": "printed"}],
    "nesa": [{"zeta": 1}, {"zeta": 1e-3}],
    "root_sa": [{"eta": 1}, {"eta": 1e-3}],
    "double_q": [{"clock": "own", "exponent": 1}],
    "residual": [{"w": 0}],
    "phased": [{"draws": 3}],
    "movi": [{"measured": "q", "keep_start": False}],
    "amsgrad": [{"restart": None}],
    "averaging_q": [{"measured": "a"}],
    "pid": [{"eta": 0, "kd": 0.25}, {"previous_draw": True}, {"gains": "common"}],
    "momentum_q": [
        *({"m": m} for m in (0, -3, 1.5, 10, 11, 100)),
        {"m": 5, "shift": "on"},
        {"m": 50, "shift": "off"},
    ],
    "momentum_q_linear": [{"beta": 0, "lam": 0}, {"beta": 0.9, "phi": 1}, {"beta": 0.999, "phi": 0, "lam": 0.5}],
}
STEP_SIZES = [
    Harmonic(),
    Harmonic(7.5),
    Polynomial(),
    RescaledLinear(0.9),
    Constant(0.1),
    InverseSqrt(0.5, 10),
    Matched(Constant(0.1)),
]


def node_of(file: Path, **settings) -> dict[str, Any]:
    """What a yaml says of a rule; what suites try beside it is no setting of the rule."""
    node = earlier_versions.successor(yaml.safe_load(file.read_text()) | settings)
    node.pop("tuning", None)
    return node


def build(file: Path, **settings) -> Any:
    """The rule of a yaml, with other settings."""
    node = node_of(file, **settings)
    module, _, name = node.pop("_target_").rpartition(".")
    assert node.pop("name") == file.stem
    return getattr(importlib.import_module(module), name)(**node)


CASES = [(file, {}) for file in FILES]
CASES += [(file, settings) for file in FILES for settings in VARIANTS.get(file.stem, [])]
MADE = {f"{file.stem} {s or ''}".strip(): build(file, **s) for file, s in CASES}
NUMBERS = {name: rule for name, rule in MADE.items() if isinstance(rule, Rule)}
STATEFUL = {name: rule for name, rule in MADE.items() if isinstance(rule, Stateful)}
every_rule = pytest.mark.parametrize("rule", NUMBERS.values(), ids=NUMBERS)
every_stateful_rule = pytest.mark.parametrize("rule", STATEFUL.values(), ids=STATEFUL)


# --- the contract -----------------------------------------------------------------------------------------------------


def test_the_contract_covers_the_files():
    assert {"q_learning", "speedy_q", "nesa", "momentum_q", "root_sa", "halpern"} <= NUMBERS.keys()
    assert {"double_q", "zap", "polsa", "residual", "phased", "periodic", "variance_reduced", "movi"} <= STATEFUL.keys()
    assert {"nesterov", "adam", "amsgrad", "averaging_q", "pid", "halpern_direct"} <= STATEFUL.keys()
    assert VARIANTS.keys() <= {file.stem for file in FILES}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_file_writes_out_every_setting_and_its_default(file):
    node = node_of(file)
    module, _, name = node["_target_"].rpartition(".")
    parameters = inspect.signature(getattr(importlib.import_module(module), name)).parameters
    told = {key: value for key, value in node.items() if key not in ("_target_", "name")}
    assert told == {key: told.get(key) if p.default is p.empty else p.default for key, p in parameters.items()}


@every_rule
def test_weights_are_finite_and_sum_to_one(rule):
    for step_size in STEP_SIZES:
        rule = rule.with_step_size(step_size)
        for first, stop in ((0, 300), (10**7, 10**7 + 3)):
            weights = rule.weights(first, stop)
            assert weights.shape == (stop - first, 4), step_size
            assert np.isfinite(weights).all(), step_size
            error = np.abs(weights.sum(axis=1) - 1)
            assert (error <= 1e-12 * np.abs(weights).sum(axis=1)).all(), step_size


@every_rule
def test_weights_of_a_range_are_those_of_the_whole(rule):
    np.testing.assert_array_equal(rule.weights(0, 50)[17:41], rule.weights(17, 41))
    assert rule.weights(5, 5).shape == (0, 4)


@every_rule
def test_update_is_linear(rule):
    check_rule(rule)
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 4, 3))
    k = np.array([4.0])
    both = rule.update(k, *(2 * a - 3 * b))
    apart = 2 * rule.update(k, *a) - 3 * rule.update(k, *b)
    np.testing.assert_allclose(both, apart, rtol=0, atol=1e-12 * (1 + np.abs(rule.weights(4, 5)).sum()))


@every_rule
def test_the_optimum_is_a_fixed_point_under_exact_targets(rule):
    mdp = random_mdp(4, 6, 3, 3, 0.9, "mixed")
    q_star = optimal(mdp).q
    target = bellman(mdp, q_star)
    for step_size in STEP_SIZES:
        rule = rule.with_step_size(step_size)
        for k in (0.0, 1.0, 2.0, 30.0, 1e6):
            new = rule.update(np.array([k]), *(table.ravel() for table in (q_star, q_star, target, target)))
            scale, where = np.abs(rule.weights(int(k), int(k) + 1)).sum(), f"{step_size}, k = {k}"
            atol = 1e-13 * scale * np.abs(q_star).max()
            np.testing.assert_allclose(new, q_star.ravel(), rtol=0, atol=atol, err_msg=where)


@every_rule
def test_the_compiled_loop_stays_at_the_optimum(rule):
    """With deterministic moves every sampled target is exact."""
    mdp = frozen_lake("4x4", slippery=False)
    x, u = mdp.pairs.T
    learner = twins.learner(mdp, Synchronous(), [0])
    q_star = optimal(mdp).q[x, u][None]
    learner.q[:] = learner.q_prev[:] = q_star
    twins.advance(learner, rule, 1, 30)
    scale = np.abs(rule.weights(0, 31)).sum(axis=1).max()
    np.testing.assert_allclose(learner.q, q_star, rtol=0, atol=1e-11 * scale)


@every_rule
def test_pickles_and_compares_by_value(rule):
    again = pickle.loads(pickle.dumps(rule.with_step_size(Polynomial(0.6))))
    assert again == rule
    np.testing.assert_array_equal(again.weights(0, 9), rule.with_step_size(Polynomial(0.6)).weights(0, 9))


@every_rule
def test_a_new_step_size_makes_a_new_rule(rule):
    before = rule.weights(0, 9)
    other = rule.with_step_size(Constant(0.25))
    assert type(other) is type(rule)
    assert other.step_size == Constant(0.25)
    np.testing.assert_array_equal(rule.weights(0, 9), before)
    assert (other.weights(5, 9) != before[5:9]).any()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_bad_settings_are_refused_by_name(file):
    node = node_of(file)
    for key in set(node) - {"_target_", "name"}:
        for value in (math.nan, math.inf, -math.inf, "nonsense" if isinstance(node[key], str) else -1e400):
            with pytest.raises(SettingError, match=rf"^algorithm\.{key}="):
                build(file, **{key: value})


@pytest.mark.parametrize(
    ("settings", "setting"),
    [
        ({"m": -1, "shift": "on"}, "m"),
        ({"shift": "maybe"}, "shift"),
    ],
)
def test_momentum_q_refuses(settings, setting):
    with pytest.raises(SettingError, match=rf"^algorithm\.{setting}="):
        MomentumQ(**settings)


@pytest.mark.parametrize(
    ("settings", "setting"),
    [
        ({"beta": 1}, "beta"),
        ({"beta": -0.1}, "beta"),
        ({"beta": 0.5, "lam": 1}, "lam"),
        ({"beta": 0.5, "phi": 1.1}, "phi"),
    ],
)
def test_momentum_q_linear_refuses(settings, setting):
    with pytest.raises(SettingError, match=rf"^algorithm\.{setting}="):
        MomentumQLinear(**settings)


def test_momentum_q_names_the_rule_that_takes_a_beta():
    with pytest.raises(SettingError, match=r"^algorithm\.beta=0\.8: belongs to Algorithm 2, mq\.MomentumQLinear\("):
        MomentumQ(beta=0.8)  # type: ignore[call-arg]  # wrong on purpose


def test_a_beta_selects_algorithm_2():
    file = CONF / "algorithm" / "momentum_q.yaml"
    assert build(file, beta=0.8) == MomentumQLinear(beta=0.8)
    with pytest.raises(SettingError, match=r"^algorithm\.m=2: belongs to Algorithm 1"):
        build(file, beta=0.8, m=2)


@pytest.mark.parametrize("zeta", [0, -1, math.nan])
def test_nesa_refuses(zeta):
    with pytest.raises(SettingError, match=r"^algorithm\.zeta="):
        NeSA(zeta)


@every_rule
def test_the_run_of_every_rule_repeats_itself(rule):
    mdp = frozen_lake("4x4")
    sampling = Markovian() if isinstance(rule, ExpectedSarsa) else Synchronous()  # it needs a behaviour
    one, other = (run(mdp, rule, iterations=40, n_seeds=3, n_checkpoints=5, sampling=sampling) for _ in range(2))
    np.testing.assert_array_equal(one.q, other.q)
    assert np.isfinite(one.q).all()
    assert not one.diverged


@every_stateful_rule
def test_a_rule_with_state_is_a_value_with_a_step_size_of_its_own(rule):
    check(rule)
    there = rule.at(0.95)
    assert there == pickle.loads(pickle.dumps(there)) and there.step_size == rule.own_step_size(0.95)
    assert rule.with_step_size(Constant(0.25)).at(0.95).step_size == Constant(0.25)
    assert all(isinstance(text, str) and text for text in there.warnings(0.95))
    np.testing.assert_array_equal(there.weights(0, 3000)[1700:2100], there.weights(1700, 2100))
    assert len(there.weights(7, 7)) == 0


@every_stateful_rule
def test_the_run_of_every_rule_with_state_repeats_itself(rule):
    mdp = frozen_lake("4x4", slippery=False)
    sampling = Synchronous() if "synchronous" in rule.modes else Markovian()
    settings = {"iterations": 12, "n_seeds": 2, "n_checkpoints": 3, "sampling": sampling}
    rule = replaced(rule, compiled=False)
    one, other = (run(mdp, rule, **settings) for _ in range(2))
    np.testing.assert_array_equal(one.q, other.q)
    assert np.isfinite(one.q).all()


@pytest.mark.integration
@every_stateful_rule
@pytest.mark.parametrize("mode", ["synchronous", "markovian", "epsilon_greedy", "linear"])
def test_a_compiled_step_is_the_plain_one(rule, mode):
    mdp = frozen_lake("4x4", discount=0.9, rewards=(1, -0.5, -0.01))
    sampling = {
        "synchronous": Synchronous(), "markovian": Markovian(start="uniform"), "linear": Markovian(start="uniform"),
        "epsilon_greedy": Markovian(behaviour="epsilon_greedy", epsilon=0.3),
    }[mode]  # fmt: skip
    needed = mode if mode in ("synchronous", "linear") else "asynchronous"
    if needed not in rule.modes or (mode == "epsilon_greedy" and not rule.acts):
        pytest.skip("a mode that it does not have")
    features = one_hot(mdp) if mode == "linear" else None
    settings = {"iterations": 90, "n_seeds": 3, "n_checkpoints": 3, "sampling": sampling, "features": features}
    compiled, plain = (run(mdp, replaced(rule, compiled=choice), **settings) for choice in (True, False))
    np.testing.assert_allclose(
        compiled.q, plain.q, rtol=0, atol=1e-12 if "own" in repr(rule) or isinstance(rule, WeightedQ) else 0
    )


# --- rules of one's own -----------------------------------------------------------------------------------------------


class _Own(Rule):
    def __init__(self, function) -> None:
        self.function = function

    def update(self, k, q, q_prev, target, target_prev):
        return self.function(self.step_size(k), q, q_prev, target, target_prev)


def test_a_rule_of_ones_own_is_accepted():
    check_rule(_Own(lambda a, q, q_prev, target, target_prev: (1 - a) * q + a * (2 * target - target_prev)))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda a, q, q_prev, target, target_prev: (1 - a) * q + a * np.abs(target), "linear"),
        (lambda a, q, q_prev, target, target_prev: (1 - a) * q + a * np.sqrt(target), "linear"),
        (lambda a, q, q_prev, target, target_prev: (1 - a) * q + a * target + 1e-6, "linear"),
        (lambda a, q, q_prev, target, target_prev: (1 - a) * q + 0.9 * a * target, "sum to 1"),
        (lambda a, q, q_prev, target, target_prev: q + (target - q) / (1 / a - 1), "finite"),
        (lambda a, q, q_prev, target, target_prev: q if a > 0.5 else target, "array of k"),
    ],
    ids=["absolute", "root", "affine", "shrinking", "infinite at 0", "scalar k"],
)
def test_a_rule_that_breaks_the_form_is_refused(function, message):
    with np.errstate(divide="ignore", invalid="ignore"), pytest.raises(SettingError, match=message):
        check_rule(_Own(function))


@pytest.mark.parametrize("wrong", [{"m": "2"}, {"m": True}])
def test_momentum_q_refuses_what_is_no_number(wrong):
    with pytest.raises(SettingError, match=r"algorithm\.m="):
        MomentumQ(**dict[str, Any](wrong))


@pytest.mark.parametrize("wrong", [{"beta": "x"}, {"beta": 0.5, "lam": None}, {"beta": 0.5, "phi": "1"}])
def test_momentum_q_linear_refuses_what_is_no_number(wrong):
    with pytest.raises(SettingError, match=f"algorithm.{list(wrong)[-1]}="):
        MomentumQLinear(**dict[str, Any](wrong))


@pytest.mark.parametrize("zeta", ["0.1", None, [0.1], math.inf])
def test_nesa_refuses_what_is_no_number(zeta):
    with pytest.raises(SettingError, match=r"algorithm\.zeta="):
        NeSA(zeta=zeta)


class Dice(Rule):
    """Has chance of its own, so that its numbers would depend on how often it is asked."""

    def update(self, k, q, q_prev, target, target_prev):
        a = 0.1 * np.random.default_rng().random(np.shape(k))
        return (1 - a) * q + a * target


class Counter(Rule):
    """Its step depends on how often it was called."""

    calls = 0

    def update(self, k, q, q_prev, target, target_prev):
        self.calls += 1
        return q + (target - q) / self.calls


@pytest.mark.parametrize("rule", [Dice(), Counter()])
def test_a_rule_that_gives_other_numbers_when_it_is_asked_again_is_refused(rule):
    with pytest.raises(SettingError, match=r"update\(\) (gives other numbers when it is called again|must)"):
        check_rule(rule)


@pytest.mark.parametrize("alpha", [1e308, 1e150])
@pytest.mark.parametrize("rule", [QLearning(), SpeedyQ(), NeSA(), MomentumQ()])
def test_a_step_size_too_large_to_calculate_with_is_named_once_and_without_warnings(rule, alpha):
    with pytest.raises(SettingError, match=r"at k = 0 \(step size 1e\+(308|150)\)"):
        check_rule(rule.with_step_size(Constant(alpha)))
