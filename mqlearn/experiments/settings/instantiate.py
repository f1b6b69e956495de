"""Objects named by `_target_`: what a group of the configuration stands for, built from its settings.

A target is one of the table `mqlearn.experiments.settings.targets`, or lies in a module of the user's, listed in
plugins=[...]; nothing else is called.
"""

import functools
import importlib
import inspect
import math
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

from mqlearn.checks import TRUTH, check_bool, check_int
from mqlearn.errors import SettingError, SettingErrors, nearest, user_code
from mqlearn.experiments.settings import earlier_versions, targets
from mqlearn.experiments.settings import plugins as user_modules

_OPTIONS = ("averaged", "batch", "burn_in", "clip", "compiled")  # what any algorithm can be asked for


def make(group: str, node: Any, plugins: Mapping[str, Any], more: Mapping[str, Any] | None = None) -> Any:
    """Call the _target_ of a group's node with its other entries (but `name`), and with `more` as far as it takes it.

    Texts that stand for truth values, whole numbers written as 1e3, and objects of before are replaced in the node too.
    Raises SettingError, one message for all entries that do not fit.
    """
    if not isinstance(node, dict) or "_target_" not in node:
        raise SettingError(group, node, "must be chosen from its config group, or be a mapping with _target_")
    more = more or {}
    options = {key: node.pop(key) for key in _OPTIONS if key in node} if group == "algorithm" else {}
    now = earlier_versions.successor(node)
    node.clear()
    node.update(now)
    path = node["_target_"]
    target = locate(f"{group}._target_", path, plugins)
    parameters = parameters_of(target)
    errors: list[SettingError] = []
    arguments = {key: _value(group, key, node, plugins) for key in node if key not in ("_target_", "name")}
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    for key, value in arguments.items():
        if key in more or not (takes_any or key in parameters):
            own = [name for name in parameters if name not in more]
            listed = f"; its settings are {', '.join(own)}" if own else "; it has none"
            errors.append(SettingError(f"{group}.{key}", value, f"is no setting of {path}{listed}{nearest(key, own)}"))
    arguments |= {key: value for key, value in more.items() if key in parameters}
    for key, parameter in parameters.items():
        optional = parameter.default is not parameter.empty or parameter.kind in (
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
        )
        if key not in arguments and not optional:
            errors.append(SettingError(f"{group}.{key}", None, f"must be given: {path} needs it"))
    if errors:
        raise SettingErrors.one_of(errors)
    for key, kinds in _kinds(target).items():
        if key in node:
            try:
                arguments[key] = node[key] = _fitted(f"{group}.{key}", node[key], kinds)
            except SettingError as error:
                errors.append(error)
    try:
        with user_code(f"{group}._target_", path):
            made = target(**arguments)
    except (TypeError, ValueError) as error:
        if isinstance(error, SettingError) and (not errors or error.setting in [one.setting for one in errors]):
            raise  # it knows more about what is admissible
        shown = {key: value for key, value in arguments.items() if key not in more}
        errors = errors or [SettingError(group, shown, f"{path} cannot take these values ({error})")]
    if errors:
        raise SettingErrors.one_of(errors)
    kind = _expected(group)
    if not isinstance(made, kind):
        wanted = " or ".join(one.__name__ for one in typing.get_args(kind) or (kind,))
        raise SettingError(f"{group}._target_", path, f"must give a {wanted}, not a {type(made).__name__}")
    return _with_options(made, node, options) if group == "algorithm" else made


def _with_options(rule: Any, node: dict[str, Any], options: Mapping[str, Any]) -> Any:
    """A rule with what any can be asked for; written into its node again."""
    from mqlearn.algorithms import averaged, clipped, minibatch
    from mqlearn.algorithms.options import checked_burn_in, checked_clip

    batch = check_int("algorithm.batch", options.get("batch", 1), 1, of="draws", written=True)
    average = check_bool("algorithm.averaged", options.get("averaged", False))
    clip = checked_clip(options.get("clip"))
    burn_in = checked_burn_in(options.get("burn_in", 0.0))
    if burn_in and not average:
        raise SettingError("algorithm.burn_in", burn_in, "is of the mean of the iterates; add algorithm.averaged=true")
    written = {"averaged": average, "batch": batch, "burn_in": burn_in, "clip": None if clip is None else [*clip]}
    node |= {key: value for key, value in written.items() if key in options}
    if "compiled" in options:
        rule = _compiled_or_not(rule, node, check_bool("algorithm.compiled", options["compiled"]))
    rule = minibatch(rule, batch) if clip is None else clipped(minibatch(rule, batch), *clip)
    return averaged(rule, burn_in) if average else rule


def _compiled_or_not(rule: Any, node: dict[str, Any], compiled: bool) -> Any:
    """A rule whose step runs compiled or as Python; written into its node where that changes a number."""
    from mqlearn.algorithms import Stateful
    from mqlearn.algorithms.rule import replaced
    from mqlearn.stateful.source import inexact

    if not isinstance(rule, Stateful):
        expected = f"is a setting of rules with state of their own, and {type(rule).__name__} has four numbers"
        raise SettingError("algorithm.compiled", compiled, expected)
    if compiled != rule.compiled and inexact(rule):
        node["compiled"] = compiled
    return replaced(rule, compiled=compiled)


def metrics(node: Any, plugins: Mapping[str, Any]) -> dict[str, Any]:
    """The functions that the setting `metrics` names. Raises SettingError."""
    if node is None:
        return {}
    if not isinstance(node, dict):
        raise SettingError("metrics", node, "must map names to functions: metrics={my_error: my_module.my_error}")
    return {name: locate(f"metrics.{name}", path, plugins) for name, path in node.items()}


def locate(setting: str, path: Any, plugins: Mapping[str, Any]) -> Any:
    """The object of a dotted path: of today or of before in our table of targets, or in the user's plugins."""
    path = str(path)
    place = targets.location(setting, path)
    if place is not None:
        return targets.find(place)
    module_name, _, attribute = path.rpartition(".")
    if not user_modules.is_own(module_name, plugins):
        raise SettingError(setting, path, _elsewhere(setting, path))
    own = next(name for name in sorted(plugins, key=len, reverse=True) if user_modules.is_own(module_name, [name]))
    try:
        module = (
            plugins[own]
            if module_name == own
            else importlib.import_module(plugins[own].__name__ + module_name.removeprefix(own))
        )
    except ImportError as error:
        raise SettingError(setting, path, f"cannot be found ({error})") from None
    if not callable(getattr(module, attribute, None)):
        names = [name for name in vars(module) if not name.startswith("_")]
        raise SettingError(setting, path, f"{module_name} has nothing of this name to call{nearest(attribute, names)}")
    return getattr(module, attribute)


def _elsewhere(setting: str, path: str) -> str:
    """What is admissible instead of a path that is neither in the table nor in a plugin."""
    own = "in a module listed in plugins=[...]"
    known = [f"mqlearn.{name}" for name in targets.shipped(setting.partition(".")[0])]
    if not known:
        return f"must lie {own}"
    some = "" if len(known) > 1 and setting.startswith("env") else f"be {', '.join(known)} or "
    return f"must {some}lie {own}{nearest(path, known)}"


def _value(group: str, key: str, node: dict[str, Any], plugins: Mapping[str, Any]) -> Any:
    """An entry of a node: made, if it is a node itself; found, if it names something in a plugin."""
    value = node[key]
    if isinstance(value, dict) and "_target_" in value:
        return make(f"{group}.{key}", value, plugins)
    if isinstance(value, str) and value.lower() in TRUTH:
        value = node[key] = TRUTH[value.lower()]
    elif isinstance(value, str) and value.rpartition(".")[0] in plugins:
        return locate(f"{group}.{key}", value, plugins)
    return value


def _expected(group: str) -> Any:
    """What the _target_ of a group must return."""
    from mqlearn.algorithms import Rule, Stateful
    from mqlearn.algorithms.operators import Operator
    from mqlearn.problems.encodings import BoxMap
    from mqlearn.problems.environments.simulator import Simulator
    from mqlearn.problems.feature_rows import Features
    from mqlearn.problems.mdp import FiniteMDP
    from mqlearn.sampling.evaluation import Evaluation
    from mqlearn.sampling.modes import Sampling

    return {
        "env": FiniteMDP | Simulator,
        "algorithm": Rule | Stateful,
        "operator": Operator,
        "step_size": Callable,
        "sampling": Sampling,
        "features": Features | BoxMap | None,
        "evaluation": Evaluation,
    }.get(group, object)


@functools.lru_cache(maxsize=512)
def parameters_of(target: Any) -> Mapping[str, inspect.Parameter]:
    """The parameters of what a target names; none if it cannot be called."""
    return inspect.signature(target).parameters if callable(target) else {}


@functools.lru_cache(maxsize=512)
def _kinds(target: Any) -> dict[str, set[type]]:
    """The parameters that are annotated with numbers, truth values and None alone."""
    try:
        hints = typing.get_type_hints(target.__init__ if isinstance(target, type) else target)
    except (NameError, TypeError, AttributeError):
        return {}
    unions = (typing.Union, types.UnionType)
    kinds = {
        name: set(typing.get_args(hint)) if typing.get_origin(hint) in unions else {hint}
        for name, hint in hints.items()
        if hint.__hash__ is not None
    }
    return {name: kind for name, kind in kinds.items() if kind <= {int, float, bool, types.NoneType}}


def _fitted(setting: str, value: Any, kinds: set[type]) -> Any:
    """The value as one of these kinds; 1e3 is a whole number. Raises SettingError."""
    if isinstance(value, bool) or value is None:
        if type(value) in kinds:
            return value
    elif isinstance(value, int | float):
        if float in kinds or (int in kinds and isinstance(value, int)):
            return value
        if int in kinds and math.isfinite(value) and value == int(value):
            return int(value)
    names = {float: "a number", int: "a whole number", bool: "true or false", types.NoneType: "null"}
    wanted = [name for kind, name in names.items() if kind in kinds and not (kind is int and float in kinds)]
    raise SettingError(setting, value, f"must be {' or '.join(wanted)}")
