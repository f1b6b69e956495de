"""What a run refuses of parts that are each admissible and cannot make a run together.

`mqlearn.run` and the settings layer both come here, by `setup.validated` and `Setup.check_rule`: so Python and the
command line refuse the same, in the same words. What an operator asks of a problem is in `operators.on_problem`.
"""

import math
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from mqlearn.algorithms.four_numbers import FourNumbers
from mqlearn.algorithms.operators import Operator, is_bellman, name_of
from mqlearn.algorithms.rule import Rule
from mqlearn.algorithms.stateful import Stateful
from mqlearn.checks import discounted
from mqlearn.errors import SettingError, asked
from mqlearn.problems.encodings import BoxMap
from mqlearn.problems.environments.simulator import Simulator
from mqlearn.problems.feature_rows import Features
from mqlearn.problems.mdp import FiniteMDP
from mqlearn.sampling.check import check_sampling
from mqlearn.sampling.evaluation import Evaluation
from mqlearn.sampling.modes import Sampling
from mqlearn.sampling.protocol import BY_VISITS
from mqlearn.stateful.check import try_out
from mqlearn.stateful.reference import measured
from mqlearn.stateful.step_size import scheduled, uses_step_size

_SIZES = (5, 8)  # of the tables by which the growth of a state is seen
_PLANNED = 5000  # pairs, of certainty equivalence: an exact plan a seed and checkpoint
_MODES = {
    "synchronous": "synchronous sampling",
    "asynchronous": "tables that learn one pair at a time",
    "linear": "linear features",
}


def check_parts(
    mdp: FiniteMDP | Simulator,
    sampling: Sampling,
    features: Any,
    reward: str,
    metrics: Mapping[str, Any] | None,
    evaluation: Evaluation,
    iterations: int,
    n_seeds: int,
) -> None:
    """Refuse what does not go together, whatever the rule. Raises SettingError."""
    for name, metric in (metrics or {}).items():
        if not callable(metric):
            expected = "must be a function of tables (n_seeds, S, A) and the model that returns one value a seed"
            raise SettingError(f"metrics.{name}", metric, expected)
    if isinstance(mdp, Simulator):
        _check_simulator(mdp, sampling, features, reward, metrics, evaluation)
        return
    check_sampling(sampling, mdp)
    if sampling.all_pairs:
        if features is not None:
            raise SettingError("sampling", sampling.name, "works with tables only; use markovian, replay or iid")
    else:
        asked("sampling", sampling, "check", mdp, iterations, n_seeds)
        if features is not None:
            instead = "undiscounted their fixed point need not be unique, or be at all; use features=tabular"
            discounted(mdp.discount, "features", getattr(features, "name", features), instead)
        if not isinstance(features, Features | None) or (features and len(features.active) != len(mdp.pairs)):
            given, n = getattr(features, "name", features), len(mdp.pairs)
            raise SettingError("features", given, f"must be features of the {n} learned pairs of {mdp.name}, or None")


def check_rule(
    mdp: FiniteMDP | Simulator,
    rule: Rule | Stateful,
    sampling: Sampling,
    features: Any,
    linear: Any,
    operator: Operator,
    n_seeds: int,
) -> None:
    """Refuse a rule that cannot be run there. Raises SettingError.

    rule: at the discount of the problem, with its form for features (`learners.with_state`).
    """
    if isinstance(mdp, Simulator):
        _check_without_model(rule)
    if isinstance(rule, Stateful) and rule.needs_discount:
        discounted(mdp.discount, "algorithm", _name(rule), "q_learning is one of those that do without")
    if sampling.recorded and features is not None and linear.projection is not None:
        raise SettingError("linear.projection", linear.projection, "is not supported with sampling=recorded")
    if features is not None and rule.clip is not None:
        expected = "is for tables; linear.projection keeps the parameters of features in a ball"
        raise SettingError("algorithm.clip", [*rule.clip], expected)
    _check_needs(rule, sampling)
    if not isinstance(rule, Stateful):
        return
    _check_sampling_of(rule, sampling, features)
    if rule.plans:
        _check_plans(mdp, rule, operator, n_seeds)
        return
    if features is not None:
        _check_projection(rule, linear)
    if not isinstance(rule, FourNumbers) and linear.previous_gradient != "stored":
        expected = f"has no effect on {_name(rule)}, which keeps in its state what it needs of the past; use stored"
        raise SettingError("linear.previous_gradient", linear.previous_gradient, expected)
    if isinstance(mdp, Simulator):
        try_out(rule, "linear", second=False)
    n = features.n_features if features is not None else len(mdp.pairs)  # type: ignore  # a simulator has features
    _check_memory(rule, n, _state_numbers(rule, n), n_seeds)
    if not is_bellman(operator):
        try_out(rule, _mode(sampling, features), operator=operator)


def _check_simulator(
    simulator: Simulator,
    sampling: Any,
    features: Any,
    reward: str,
    metrics: Mapping[str, Any] | None,
    evaluation: Evaluation,
) -> None:
    """Refuse what needs a model or features."""
    reason = f"needs an exact model, and {simulator.name} has none"
    if sampling.needs_model:
        raise SettingError("sampling", sampling.name, f"{reason}; use markovian or replay")
    if not isinstance(features, BoxMap):
        name = getattr(features, "name", "tabular")
        ways = "tile_coding, rbf or fourier" if simulator.n_observations is None else "one_hot"
        raise SettingError("features", name, f"{reason}; use {ways}")
    expected = len(features.low), features.n_actions
    given = (*simulator.env.observation_space.shape, simulator.n_actions)  # type: ignore[misc]  # a Box has a shape
    if given != expected:
        wanted = f"was made for {expected[0]} numbers and {expected[1]} actions; {simulator.name} has {given}"
        raise SettingError("features", features.name, wanted)
    for name, value, plain in (
        ("sampling.start", sampling.start, "start"),
        ("sampling.restart_probability", sampling.restart_probability, 0),
        ("sampling.clock", "global" if sampling.clock == "auto" else sampling.clock, "global"),
        ("sampling.update", sampling.update, "pair"),
        ("sampling.warm_up", sampling.warm_up, 0),
        ("reward", reward, "sampled"),
    ):
        if value != plain:
            raise SettingError(name, value, f"{reason}; use {plain}")
    if sampling.adaptive and sampling.exploration[2] == BY_VISITS:
        raise SettingError("sampling.epsilon", "visits", f"counts visits of states: it {reason}; use a number or log")
    if metrics:
        raise SettingError("metrics", list(metrics), f"{reason}; functions of the tables cannot be measured")
    if not isinstance(sampling.behaviour, str):
        raise SettingError("sampling.behaviour", "table", f"{reason}; use uniform, epsilon_greedy or boltzmann")
    if evaluation.start == "uniform":
        raise SettingError("evaluation.start", evaluation.start, f"{reason}; use start, the environment's own")


def _check_without_model(rule: Rule | Stateful) -> None:
    if rule.batch > 1:
        expected = "needs an exact model, from which further successors can be drawn"
        raise SettingError("algorithm.batch", rule.batch, expected)
    if rule.averaged:
        raise SettingError("algorithm.averaged", True, "needs an exact model, against which errors are measured")


def _check_needs(rule: Rule | Stateful, sampling: Any) -> None:
    needs = rule.rule.needs if isinstance(rule, FourNumbers) else rule.needs
    if "consecutive" in needs and not sampling.consecutive:
        expected = f"has no consecutive samples, which {_name(rule)} needs for its traces; use markovian, or recorded"
        raise SettingError("sampling", sampling.name, expected)
    if "unbroken" in needs:
        _check_unbroken(_name(rule), sampling)


def _check_sampling_of(rule: Stateful, sampling: Any, features: Any) -> None:
    """Refuse a sampling that a rule with state has no mode for, or whose clock and updates it does not know."""
    name, mode, four = _name(rule), _mode(sampling, features), isinstance(rule, FourNumbers)
    if mode not in rule.modes:
        supported = " and ".join(_MODES[one] for one in rule.modes)
        raise SettingError("algorithm", name, f"does not support {_MODES[mode]}; it supports {supported}")
    if not sampling.all_pairs and sampling.adaptive and not rule.acts:
        expected = f"is not defined for {name}, which must not act by what it learns; use uniform or a fixed policy"
        raise SettingError("sampling.behaviour", sampling.behaviour, expected)
    if not sampling.all_pairs and features is None:
        reason = "with algorithm.batch or algorithm.averaged, or a clip" if four else f"for a rule with state ({name})"
        if sampling.clock != "global" and not four:
            _check_clock(rule, sampling.clock)
        if sampling.update != "pair":
            expected = f"must be pair {reason}: a step for each visited pair"
            raise SettingError("sampling.update", sampling.update, expected)
    if sampling.recorded and rule.samples_per_iteration * rule.batch > 1:
        expected = "a record has one successor of a pair an iteration, and this rule draws more"
        raise SettingError("sampling", sampling.name, expected)


def _check_clock(rule: Stateful, clock: str) -> None:
    """Refuse to count visits where more than a step size hangs on the iteration, or nothing."""
    name = _name(rule)
    if rule.plans:
        raise SettingError("sampling.clock", clock, f"must be global for {name}, which has no step size")
    if not uses_step_size(rule) or "step_size" in rule.without_effect():
        raise SettingError("sampling.clock", clock, f"must be global for {name} as it is set: it uses no step size")
    if beside := scheduled(rule):
        expected = f"must be global for {name}: beside the step size, {', '.join(beside)} change with the iteration"
        raise SettingError("sampling.clock", clock, expected)


def _check_unbroken(name: str, sampling: Any) -> None:
    """Refuse episodes that end elsewhere than in a terminal state."""
    for key, plain in (("restart_probability", 0), ("time_limit", None)):
        if getattr(sampling, key, plain) != plain:
            expected = f"breaks an episode off, and {name} waits for what follows; use {'null' if plain is None else 0}"
            raise SettingError(f"sampling.{key}", getattr(sampling, key), expected)
    if sampling.recorded:
        raise SettingError("sampling", sampling.name, f"may break off, and {name} waits for what follows")


def _check_projection(rule: Stateful, linear: Any) -> None:
    """Refuse a projection of what is no single parameter."""
    if linear.projection is None:
        return
    if isinstance(rule, FourNumbers):
        raise SettingError("linear.projection", linear.projection, "is not supported with algorithm.batch")
    small = {key: np.asarray(value) for key, value in rule.init(np.zeros(_SIZES[0])).items()}
    if not (names := measured(rule, small)) or any(small[key].shape != (_SIZES[0],) for key in names):
        expected = f"is not supported with {_name(rule)}, whose estimate() is made of more than tables"
        raise SettingError("linear.projection", linear.projection, expected)


def _check_plans(mdp: FiniteMDP | Simulator, rule: Stateful, operator: Operator, n_seeds: int) -> None:
    """Refuse what certainty equivalence has no counts or no plan for."""
    assert isinstance(mdp, FiniteMDP)  # simulators have features, which it refuses
    name = _name(rule)
    if not is_bellman(operator):
        raise SettingError("operator", name_of(operator), f"must be bellman with {name}, which plans for that alone")
    for option, value, plain, word in (
        ("batch", rule.batch, 1, "1"),
        ("averaged", rule.averaged, False, "false"),
        ("clip", rule.clip, None, "null"),
    ):
        if value != plain:
            expected = f"must be {word} with {name}: its plan is already of all samples, and no iterate"
            raise SettingError(f"algorithm.{option}", value, expected)
    if len(mdp.pairs) > _PLANNED:
        expected = f"plans exactly on at most {_PLANNED:,} pairs, and {mdp.name} has {len(mdp.pairs):,}"
        raise SettingError("algorithm", name, expected)
    _check_memory(rule, len(mdp.pairs), len(mdp.pairs) * mdp.n_successors, n_seeds)


def _state_numbers(rule: Stateful, n: int) -> float:
    """Of one seed; how the arrays of a state grow is seen from two small ones. n: entries of a table or a parameter."""
    small, larger = ({key: np.shape(one) for key, one in rule.init(np.zeros(size)).items()} for size in _SIZES)
    slope = (n - _SIZES[0]) / (_SIZES[1] - _SIZES[0])
    return sum(math.prod(a + (b - a) * slope for a, b in zip(small[key], larger[key], strict=True)) for key in small)


def _check_memory(rule: Stateful, n: int, numbers: float, n_seeds: int) -> None:
    """Refuse a state of so many numbers a seed that this machine cannot hold. n: entries of a table or a parameter.

    A copy is kept to find the step at which a seed diverges.
    """
    wanted, has = 16.0 * numbers * n_seeds, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if wanted > has:
        expected = (
            f"keeps a state of {numbers:.3g} numbers a seed for {n} entries: {n_seeds} seeds and their copies "
            f"need {wanted / 1e9:.3g} GB, and this machine has {has / 1e9:.3g} GB"
        )
        raise SettingError("algorithm", type(rule).__name__, expected)


def _name(rule: Rule | Stateful) -> str:
    return type(rule.rule if isinstance(rule, FourNumbers) else rule).__name__


def _mode(sampling: Sampling, features: Any) -> str:
    """The mode that a rule with state needs there, one of `algorithms.stateful.MODES`."""
    if sampling.all_pairs:
        return "synchronous"
    return "asynchronous" if features is None else "linear"
