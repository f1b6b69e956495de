"""The settings of a run that was made from objects, as plain data: as the record of a run has them, or as near as it
comes. What is no plain value (an array, a function) stands as a text with a digest of it."""

import dataclasses
import functools
import hashlib
import inspect
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from mqlearn.algorithms.rule import Rule
from mqlearn.algorithms.stateful import Stateful
from mqlearn.checks import plain_number
from mqlearn.errors import SettingError
from mqlearn.experiments.settings import identity, instantiate, own_code, targets
from mqlearn.experiments.settings.cell import Cell, name_of
from mqlearn.experiments.settings.own_step_size import label
from mqlearn.experiments.settings.sections import NOT_TRACKED
from mqlearn.learners import Linear, on_clock
from mqlearn.learning.setup import validated
from mqlearn.problems.feature_rows import Features
from mqlearn.problems.mdp import table_of_pairs

# Of any rule, with what is usual.
_OPTIONS: dict[str, Any] = {"averaged": False, "batch": 1, "burn_in": 0.0, "clip": None}
_OF_A_RUN = {*_OPTIONS, "step_size", "discount", "compiled"}  # attributes of a rule that are no settings of its own
_MODEL = "mqlearn.FiniteMDP"  # of which the settings are its arrays
_DIGITS = 16


def settings_of(mdp: Any, rule: Any, setup: Any) -> dict[str, Any]:
    """The settings of a run of this rule, prepared, with this `learning.setup.Setup`."""
    features, sampling = setup.features, on_clock(setup.sampling, rule, setup.features)
    algorithm = node_of("algorithm", rule)
    algorithm |= {key: plain(value) for key, usual in _OPTIONS.items() if (value := getattr(rule, key)) != usual}
    tabular = {"_target_": "mqlearn.tabular", "name": "tabular"}
    return {
        "env": model_node(mdp),
        "algorithm": algorithm,
        "operator": node_of("operator", setup.operator.operator),
        "step_size": node_of("step_size", rule.step_size),
        "sampling": node_of("sampling", sampling),
        "features": tabular if features is None else node_of("features", features),
        "evaluation": node_of("evaluation", setup.evaluation),
        "linear": _entries("linear", setup.linear),
        "discount": mdp.discount,
        "reward": setup.reward,
        "q0": plain(setup.q0),
        "theta0": plain(setup.theta0),
        "iterations": setup.iterations,
        "checkpoints": setup.checkpoints,
        "n_checkpoints": setup.n_checkpoints,
        "n_seeds": setup.n_seeds,
        "seed": setup.seed,
        "n_workers": setup.n_workers,
        "metrics": {name: plain(function) for name, function in setup.metrics.items()},
        "plugins": [],
        "experiment": {"name": "memory"},
        "tracking": dict(NOT_TRACKED),
    }


def model_node(mdp: Any) -> dict[str, Any]:
    """The node of a problem: its name, and the digest of its model at a discount that is the same for all."""
    model = mdp.with_discount(0.5) if hasattr(mdp, "with_discount") else mdp
    return {"_target_": _MODEL, "name": mdp.name, "model": model.digest()[:_DIGITS]}


def node_of(group: str, thing: Any) -> dict[str, Any]:
    """The node of an object; of ours as conf/ has it."""
    kind = thing if inspect.isroutine(thing) else type(thing)
    if isinstance(thing, functools.partial):
        kind = thing.func
    name, module = kind.__name__.strip("<>"), kind.__module__
    ours = targets.location(group, f"mqlearn.{name}") == f"{module}.{name}"
    called = (targets.choices(group).get(name) if ours else None) or label(name)
    if group == "features" and isinstance(own := getattr(thing, "name", None), str):
        called = own
    return {"_target_": f"{'mqlearn' if ours else module}.{name}", "name": called, **_entries(group, thing)}


def _entries(group: str, thing: Any) -> dict[str, Any]:
    """What an object is set to; of one of the user's all that it holds, and what a function encloses."""
    values = own_code.held(thing)
    told: dict[str, Any] = {}
    if inspect.isroutine(thing):
        told = {"source": own_code.text_digest(getattr(thing, "__func__", thing))}
    elif not own_code.of_user(type(thing)) and not isinstance(thing, functools.partial):
        values = {name: value for name, value in values.items() if not name.startswith("_")}
    hidden = _OF_A_RUN if isinstance(thing, Rule | Stateful) else set()
    values = {name: value for name, value in values.items() if name not in (*hidden, "name", "_target_", "source")}
    return told | {
        name: node_of(group, value) if group == "step_size" and callable(value) else plain(value)
        for name, value in values.items()
    }


def plain(value: Any) -> Any:
    """A value as a number, a text, a list or a mapping of these; of anything else a text with its digest."""
    if value is None or isinstance(value, bool | str):
        return value
    if (number := plain_number(value)) is not None:
        return identity.canonical(number)
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, np.ndarray):
        array = np.ascontiguousarray(value)
        return f"array {array.shape} {_digest(array.dtype.str.encode() + array.tobytes())[:8]}"
    if callable(value):
        return f"{getattr(value, '__name__', type(value).__name__).strip('<>')} {own_code.digest(value)[:8]}"
    if own_code.of_user(type(value)) or type(value).__repr__ is object.__repr__:  # which has no numbers, or an address
        return f"{type(value).__name__} {own_code.digest(value)[:8]}"
    return repr(value)


def sources_of(*things: Any) -> dict[str, str]:
    """Class or function -> digest of what it comes from (`own_code`), of those that are the user's."""
    kinds = [thing if inspect.isroutine(thing) else type(thing) for thing in things if thing is not None]
    return {f"{kind.__module__}.{kind.__qualname__}": own_code.digest(kind) for kind in kinds if own_code.of_user(kind)}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def cell_of(mdp: Any, rule: Any, setup: Any) -> tuple[Cell, dict[str, Any]]:
    """The cell of such a run, of which predictions and records ask, and what it is made of (`Cell.made_of`).

    No run on disk has its digest.
    """
    from mqlearn.learning.loop import NUMERICS_VERSION

    settings = settings_of(mdp, rule, setup)
    sources = sources_of(rule, rule.step_size, setup.sampling, setup.operator.operator, *setup.metrics.values())
    told = [identity.resolved(settings), NUMERICS_VERSION, mdp.digest(), sources]
    digest = _digest(json.dumps(["in memory", *told], sort_keys=True).encode())
    arguments = {
        "rule": rule,
        "operator": setup.operator.operator,
        "step_size": rule.step_size,
        "sampling": on_clock(setup.sampling, rule, setup.features),
        "features": setup.features,
        "evaluation": setup.evaluation,
        "linear": setup.linear,
        "metrics": setup.metrics,
        "q0": setup.q0,
        "theta0": setup.theta0,
        **{key: settings[key] for key in ("reward", "iterations", "checkpoints", "n_checkpoints")},
        **{key: settings[key] for key in ("n_seeds", "seed", "n_workers")},
    }
    name = name_of(settings, {}, rule)
    return Cell(settings, digest, name, mdp, arguments, setup, rule, {}), {"model": mdp.digest(), "sources": sources}


def rebuilt(record: Mapping[str, Any], mdp: Any, arrays: Mapping[str, np.ndarray]) -> Cell:
    """The cell of a run from its record, its model, and the arrays that its settings cannot say. Raises SettingError.

    Only what ships is made: no code of a record runs.
    """
    settings = json.loads(json.dumps(record["settings"]))
    if mdp is None:
        raise SettingError("theory", settings["env"]["name"], "the file does not hold the problem, a simulator")
    try:
        cell = _remade(settings, mdp, arrays)
    except SettingError as error:
        what = error.setting.partition(".")[0]
        expected = f"the file does not hold its {what}, only what that is called ({error})"
        raise SettingError("theory", record["name"], expected) from None
    return dataclasses.replace(cell, settings=record["settings"], digest=record["digest"], name=record["name"])


def _remade(settings: dict[str, Any], mdp: Any, arrays: Mapping[str, np.ndarray]) -> Cell:
    """Raises SettingError for an object that settings do not describe."""
    groups = ("algorithm", "step_size", "operator", "sampling", "evaluation")
    made = {group: instantiate.make(group, dict(settings[group]), {}) for group in groups}
    shared = {key: settings[key] for key in ("iterations", "n_seeds", "seed", "checkpoints", "n_checkpoints", "reward")}
    shared |= {key: arrays.get(key, settings[key]) for key in ("q0", "theta0")}
    for key, value in shared.items():
        if key in arrays:
            shared[key] = table_of_pairs(mdp, value) if key == "q0" else value
        elif isinstance(value, list):
            shared[key] = tuple(value)
    rule = made.pop("algorithm").with_step_size(made.pop("step_size"))
    linear = Linear(**settings["linear"])
    setup = validated(mdp, **shared, **made, linear=linear, features=_features(settings["features"], arrays))
    return cell_of(mdp, setup.ready(rule), setup)[0]


def _features(node: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Features | None:
    """Features with the very rows that they had."""
    if "active" not in arrays:
        return None
    made = Features(node["name"], arrays["active"], arrays["values"], node["n_features"], node["norm"], node["through"])
    object.__setattr__(made, "values", arrays["values"])  # scaled when they were first made
    return made
