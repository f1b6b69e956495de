"""From settings to a cell: compose, validate, build, and name it by its content.

A *cell* is one configuration with all its seeds. Its digest covers the resolved scientific settings, the numerics
version, the model's arrays and the source text of the user modules in use: same digest, same numbers.
"""

import functools
import hashlib
import json
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mqlearn.checks import TRUTH, choice, finite_number, whole
from mqlearn.errors import SettingError, SettingErrors, nearest
from mqlearn.experiments.settings import instantiate
from mqlearn.experiments.settings import plugins as user_modules

_GROUPS = ("env", "algorithm", "step_size", "sampling", "features", "evaluation")
# These choose where and how a cell is computed and kept, never a number of it.
_UNSCIENTIFIC = ("experiment", "n_workers", "plugins", "tracking")


@dataclass(frozen=True)
class Cell:
    """A validated configuration, ready to run. settings: plain nested dict, as written to config.yaml."""

    settings: dict[str, Any]
    digest: str
    name: str
    mdp: Any
    run_arguments: dict[str, Any]

    @property
    def samples_key(self) -> str | None:
        """Equal for cells of the same samples that differ in nothing but their rules; None where rules share none."""
        from mqlearn.learning.learners import can_share

        if not can_share(*(self.run_arguments[name] for name in ("sampling", "features", "linear"))):
            return None
        other = ("algorithm", "step_size", "experiment", "plugins", "tracking")
        alike = {key: canonical(value) for key, value in self.settings.items() if key not in other}
        return json.dumps([alike, self.mdp.digest()], sort_keys=True)

    @property
    def subfolder(self) -> Path:
        """Where the run folder lies under the folder of all runs: experiment, then digest."""
        from mqlearn.storage.runs import slug

        return Path(slug(self.settings["experiment"]["name"])) / self.digest[:16]


def run_cells(some: Sequence[Cell], progress: Callable[[int, float], None] | None = None) -> list[Any]:
    """The `mqlearn.Result` of each of some cells that have the same `samples_key`, or of one."""
    from mqlearn.learning.loop import run_together

    if len(some) > 1 and (None in (keys := {one.samples_key for one in some}) or len(keys) > 1):
        raise ValueError("these cells do not share samples")
    shared = {name: value for name, value in some[0].run_arguments.items() if name not in ("rule", "step_size")}
    rules = [one.run_arguments["rule"].with_step_size(one.run_arguments["step_size"]) for one in some]
    return run_together(some[0].mdp, rules, **shared, progress=progress)


def build(settings: Mapping[str, Any]) -> Cell:
    """Validate resolved settings and build what they describe. Raises SettingError, one message for all errors."""
    return _build(json.dumps(settings, sort_keys=True))


# Cells on equal models share one, and with it what was solved for it.
_models: weakref.WeakValueDictionary[tuple, Any] = weakref.WeakValueDictionary()


@functools.lru_cache(maxsize=64)
def _build(text: str) -> Cell:
    settings = json.loads(text)
    for plan in ("figure", "tuning"):  # of an experiment, not settings of its cells
        settings.pop(plan, None)
    from mqlearn.algorithms import check_rule
    from mqlearn.learning.loop import check_together, resolve_reward
    from mqlearn.learning.sampling import Synchronous

    errors: list[SettingError] = []

    def check(function: Callable, *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except SettingError as error:
            errors.append(error)
            return None

    known = (*_KINDS, *_GROUPS, "experiment", "linear", "metrics", "plugins", "tracking")
    errors += [
        SettingError(name, value, f"there is no such setting{nearest(name, known)}")
        for name, value in settings.items()
        if name not in known
    ]
    plugins = check(user_modules.load, settings.get("plugins", [])) or {}
    for name, kind in _KINDS.items():
        settings[name] = check(kind, name, settings.get(name))
    settings["experiment"] = check(_experiment, settings.get("experiment"))
    settings["tracking"] = check(tracking_section, settings.get("tracking"))
    discount = 0.5 if settings["discount"] is None else settings["discount"]  # to see what else is wrong
    mdp = check(_environment, settings.get("env"), plugins, discount)
    rule = check(instantiate.make, "algorithm", settings.get("algorithm"), plugins)
    step_size = check(instantiate.make, "step_size", settings.get("step_size"), plugins)
    sampling = check(instantiate.make, "sampling", settings.get("sampling"), plugins)
    features = None
    if mdp is not None:
        features = check(instantiate.make, "features", settings.get("features"), plugins, {"mdp": mdp})
    evaluation = check(instantiate.make, "evaluation", settings.get("evaluation"), plugins)
    linear = check(_linear, settings.get("linear"), plugins)
    metrics = check(instantiate.metrics, settings.get("metrics"), plugins)
    if rule is not None and step_size is not None:
        check(check_rule, rule.with_step_size(step_size))
    if errors:
        raise SettingErrors.one_of(errors)
    layout = getattr(mdp, "layout", None)
    if layout is not None and "map" in settings["env"]:
        settings["env"]["map"] = list(layout)  # a file is not needed again
    settings["reward"] = resolve_reward(settings["reward"], isinstance(sampling, Synchronous))
    check_together(mdp, sampling, features, settings["reward"], metrics)  # type: ignore  # made: there are no errors
    initial = {name: tuple(value) if isinstance(value := settings[name], list) else value for name in ("q0", "theta0")}
    arguments = {
        "rule": rule,
        "step_size": step_size,
        "sampling": sampling,
        "features": features,
        "evaluation": evaluation,
        "linear": linear,
        "metrics": metrics,
        **initial,
        **{name: settings[name] for name in _PLAIN},
    }
    return Cell(settings, _digest(settings, mdp, plugins), _name(settings), mdp, arguments)


def build_environment(settings: Mapping[str, Any]) -> Any:
    """The model or simulator that resolved settings describe, whatever else they say. Raises SettingError."""
    plugins = user_modules.load(settings.get("plugins", []))
    return _environment(settings.get("env"), plugins, _discount("discount", settings.get("discount")))


def _environment(node: Any, plugins: Mapping[str, Any], discount: float) -> Any:
    made = instantiate.make("env", node, plugins, {"discount": discount})
    made = made if made.discount == discount else made.with_discount(discount)
    return _models.setdefault((made.name, made.digest(), getattr(made, "notes", ())), made)


def _linear(node: Any, plugins: Mapping[str, Any]) -> Any:
    if not isinstance(node, dict | None):
        raise SettingError("linear", node, "is no group: set linear.previous_gradient, linear.first_gradient, ...")
    return instantiate.make("linear", {"_target_": "mqlearn.Linear", **(node or {})}, plugins)


# --- settings of their own kind -----------------------------------------------------------------------------------


def _discount(name: str, value: Any) -> float:
    number = finite_number(value)
    if number is None or not 0 < number < 1:
        raise SettingError(name, value, "must be a number strictly between 0 and 1")
    return float(number)


def _initial(name: str, value: Any) -> Any:
    from mqlearn.learning.loop import checked_initial

    checked_initial(name, value)
    return value


_KINDS: dict[str, Callable[[str, Any], Any]] = {
    "discount": _discount,
    "reward": choice("auto", "mean", "sampled"),
    "q0": _initial,
    "theta0": _initial,
    "iterations": whole(0, 10**15),
    "checkpoints": choice("log", "linear"),
    "n_checkpoints": whole(1, 10**6),
    "n_seeds": whole(1, 10**5),
    "seed": whole(0, 2**32 - 1),
    "n_workers": whole(1, optional=True),
}
_PLAIN = tuple(name for name in _KINDS if name not in ("discount", "q0", "theta0"))


def _section(setting: str, node: Any, known: Sequence[str]) -> dict[str, Any]:
    """A mapping that has all the known keys and no others."""
    node = node if isinstance(node, dict) else {}
    for key in {*node} - {*known}:
        raise SettingError(f"{setting}.{key}", node[key], f"there is no such setting{nearest(key, known)}")
    return {key: node.get(key) for key in known}


def _experiment(node: Any) -> dict[str, Any]:
    name = str(_section("experiment", node, ("name",))["name"]).strip()
    if not name or not name.isprintable():
        raise SettingError("experiment.name", name, "must be a text that can be printed, and not be blank")
    return {"name": name}


def tracking_section(node: Any) -> dict[str, Any]:
    """The section `tracking`, checked; truth values as such. Raises SettingError."""
    node = _section("tracking", node, ("name", "uri", "per_seed"))
    choice("mlflow", "none")("tracking", node["name"])
    per_seed = str(node["per_seed"]).lower()
    if node["name"] == "mlflow" and per_seed not in TRUTH:
        raise SettingError("tracking.per_seed", node["per_seed"], "must be true or false")
    uri = node["uri"]
    if uri is not None and not (isinstance(uri, str) and uri.strip()):
        raise SettingError("tracking.uri", uri, "must be the address of a store, or null")
    return {"name": node["name"], "uri": uri, "per_seed": TRUTH.get(per_seed, False)}


# --- names --------------------------------------------------------------------------------------------------------


def _digest(settings: Mapping[str, Any], mdp: Any, plugins: Mapping[str, Any]) -> str:
    from mqlearn.learning.loop import NUMERICS_VERSION

    content = {
        "settings": {key: canonical(value) for key, value in settings.items() if key not in _UNSCIENTIFIC},
        "numerics": NUMERICS_VERSION,
        "model": mdp.digest(),
        "sources": {name: user_modules.source_digest(module) for name, module in sorted(plugins.items())},
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def canonical(value: Any) -> Any:
    """1 and 1.0 are the same setting."""
    if isinstance(value, dict):
        return {key: canonical(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [canonical(entry) for entry in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _name(settings: Mapping[str, Any]) -> str:
    """Algorithm with its parameters, step size, environment and discount, for people."""

    def described(node: Mapping[str, Any], hidden: tuple[str, ...] = ()) -> str:
        shown = [
            f"{key}={value['name'] if isinstance(value, dict) else value}"
            for key, value in node.items()
            if key not in ("_target_", "name", *hidden) and value is not None
        ]
        return " ".join([str(node.get("name", node["_target_"])), *shown])

    algorithm = dict(settings["algorithm"])
    if "beta" in algorithm and algorithm["beta"] is None:  # Algorithm 1 of MomentumQ does not use these
        algorithm |= {"lam": None, "phi": None}
    env = settings["env"]
    hidden = ("map", "slippery", "success_rate", "rewards", "kwargs")
    parts = (described(algorithm), described(settings["step_size"], ("discount",)), described(env, hidden))
    return ", ".join([*parts, f"discount={settings['discount']:g}"])
