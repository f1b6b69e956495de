"""From settings to a cell: compose, validate, build, and name it by its content.

A *cell* is one configuration with all its seeds. Its digest covers the resolved scientific settings, the numerics
version, the model's arrays and the source text of the user modules in use: same digest, same numbers.
"""

import functools
import hashlib
import importlib
import inspect
import json
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mqlearn.errors import SettingError, nearest

PACKAGE = Path(__file__).resolve().parent
CONF = PACKAGE / "conf" if (PACKAGE / "conf").is_dir() else PACKAGE.parent / "conf"
# These choose where and how a cell is computed and kept, never a number of it.
_UNSCIENTIFIC = ("experiment", "n_workers", "plugins", "tracking")
_TRUTH = {"on": True, "off": False, "yes": True, "no": False, "true": True, "false": False}


@dataclass(frozen=True)
class Cell:
    """A validated configuration, ready to run. settings: plain nested dict, as written to config.yaml."""

    settings: dict[str, Any]
    digest: str
    name: str
    mdp: Any
    run_arguments: dict[str, Any]

    def run(self, progress: Callable[[int, float], None] | None = None) -> Any:
        """The `mqlearn.Result` of this cell."""
        from mqlearn.experiment import run

        return run(self.mdp, **self.run_arguments, progress=progress)

    @property
    def subfolder(self) -> Path:
        """Where the run folder lies under the folder of all runs: experiment, then digest."""
        from mqlearn.runs import slug

        return Path(slug(self.settings["experiment"]["name"])) / self.digest[:16]


def outputs_folder() -> Path:
    """MQLEARN_OUTPUTS if set, else outputs/ of the clone, else ./outputs; absolute."""
    named = os.environ.get("MQLEARN_OUTPUTS")
    if named:
        return Path(named).expanduser().resolve()
    clone = PACKAGE.parent
    return (clone if (clone / "pyproject.toml").is_file() else Path.cwd()).resolve() / "outputs"


def build(settings: Mapping[str, Any]) -> Cell:
    """Validate resolved settings and build what they describe. Raises SettingError, one message for all errors."""
    return _build(json.dumps(settings, sort_keys=True))


@functools.lru_cache(maxsize=64)
def _build(text: str) -> Cell:
    settings = json.loads(text)
    settings.pop("figure", None)  # the plan of an experiment, not a setting of its cells
    from mqlearn.experiment import resolve_reward
    from mqlearn.sampling import Synchronous

    plugins = load_plugins(settings.get("plugins", []))
    errors: list[SettingError] = []

    def check(function: Callable, *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except SettingError as error:
            errors.append(error)
            return None

    for name, kind in _KINDS.items():
        settings[name] = check(kind, name, settings[name])
    check(_experiment_name, settings)
    discount = settings["discount"]
    mdp = None
    if discount is not None:
        mdp = check(_make, "env", settings["env"], plugins, {"discount": discount})
    rule = check(_make, "algorithm", settings["algorithm"], plugins)
    step_size = check(_make, "step_size", settings["step_size"], plugins)
    sampling = check(_make, "sampling", settings["sampling"], plugins)
    features = check(_make, "features", settings["features"], plugins, {"mdp": mdp}) if mdp is not None else None
    evaluation = check(_make, "evaluation", settings["evaluation"], plugins)
    linear = check(_make, "linear", {"_target_": "mqlearn.Linear", **settings["linear"]}, plugins)
    metrics = check(_metrics, settings["metrics"], plugins)
    if errors:
        raise errors[0] if len(errors) == 1 else SettingErrors(errors)
    if getattr(mdp, "layout", None) is not None and "map" in settings["env"]:
        settings["env"]["map"] = list(mdp.layout)
    settings["reward"] = resolve_reward(settings["reward"], isinstance(sampling, Synchronous))
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


class SettingErrors(SettingError):
    """Several settings that are not admissible, in one message."""

    def __init__(self, errors: Sequence[SettingError]) -> None:
        ValueError.__init__(self, "\n".join(map(str, errors)))
        self.errors = tuple(errors)

    def __reduce__(self) -> tuple:
        return type(self), (self.errors,)


# --- settings of their own kind -----------------------------------------------------------------------------------


def _whole(low: int, high: int | None = None, *, optional: bool = False) -> Callable[[str, Any], int | None]:
    def kind(name: str, value: Any) -> int | None:
        if optional and value is None:
            return None
        number = _number(value)
        bound = f"at least {low}" if high is None else f"from {low} to {high}"
        if number is None or number != int(number) or number < low or (high is not None and number > high):
            raise SettingError(name, value, f"must be a whole number, {bound}")
        return int(number)

    return kind


def _choice(*options: str) -> Callable[[str, Any], str]:
    def kind(name: str, value: Any) -> str:
        if value not in options:
            raise SettingError(name, value, f"must be {' or '.join(options)}{nearest(str(value), options)}")
        return value

    return kind


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value


def _discount(name: str, value: Any) -> float:
    number = _number(value)
    if number is None or not 0 < number < 1:
        raise SettingError(name, value, "must be a number strictly between 0 and 1")
    return float(number)


def _initial(name: str, value: Any) -> Any:
    ends = value if isinstance(value, list) else [value]
    ends = [_number(end) for end in ends]
    if None in ends or len(ends) > 2 or (len(ends) == 2 and not ends[0] <= ends[1]):
        raise SettingError(name, value, "must be a number, or [low, high] for uniform initial values")
    return value


_KINDS: dict[str, Callable[[str, Any], Any]] = {
    "discount": _discount,
    "reward": _choice("auto", "mean", "sampled"),
    "q0": _initial,
    "theta0": _initial,
    "iterations": _whole(0),
    "checkpoints": _choice("log", "linear"),
    "n_checkpoints": _whole(1),
    "n_seeds": _whole(1),
    "seed": _whole(0, 2**32 - 1),
    "n_workers": _whole(1, optional=True),
}
_PLAIN = tuple(name for name in _KINDS if name not in ("discount", "q0", "theta0"))


def _experiment_name(settings: dict[str, Any]) -> None:
    name = settings["experiment"]["name"]
    if not isinstance(name, str):
        name = str(name)
    if not name.strip() or not name.isprintable():
        raise SettingError("experiment.name", name, "must be a text that can be printed, and not be blank")
    settings["experiment"]["name"] = name.strip()


# --- objects named by _target_ ------------------------------------------------------------------------------------


def load_plugins(names: Sequence[str]) -> dict[str, Any]:
    """Import the user's modules, found from the current directory too. Raises SettingError."""
    if not isinstance(names, list | tuple):
        raise SettingError("plugins", names, "must be a list of module names: plugins=[my_module]")
    here = str(Path.cwd())
    if names and here not in sys.path:
        sys.path.insert(0, here)
    modules = {}
    for name in names:
        try:
            modules[name] = importlib.import_module(str(name))
        except ModuleNotFoundError as error:
            raise SettingError(
                "plugins", name, f"cannot be imported ({error}); it is looked for in {here}"
            ) from None
    return modules


def _locate(setting: str, path: Any, plugins: Mapping[str, Any]) -> Any:
    """The object of a dotted path, only under mqlearn and the user's plugins."""
    module_name, _, attribute = str(path).rpartition(".")
    if module_name.split(".")[0] != "mqlearn" and not any(
        module_name == plugin or module_name.startswith(plugin + ".") for plugin in plugins
    ):
        raise SettingError(setting, path, "must lie in mqlearn or in a module listed in plugins=[...]")
    try:
        return getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise SettingError(setting, path, f"cannot be found ({error})") from None


def _make(group: str, node: Any, plugins: Mapping[str, Any], more: Mapping[str, Any] | None = None) -> Any:
    """Call the _target_ of a group's node with the node's other entries (but `name`)."""
    if not isinstance(node, dict) or "_target_" not in node:
        raise SettingError(
            group, node, "must be a mapping with _target_, as in the files of its config group"
        )
    target = _locate(f"{group}._target_", node["_target_"], plugins)
    arguments = {}
    for key, value in node.items():
        if key in ("_target_", "name"):
            continue
        if isinstance(value, dict) and "_target_" in value:
            value = _make(f"{group}.{key}", value, plugins)
        elif isinstance(value, str) and value.lower() in _TRUTH:
            value = node[key] = _TRUTH[value.lower()]
        elif isinstance(value, str) and value.rpartition(".")[0] in plugins:
            value = _locate(f"{group}.{key}", value, plugins)
        arguments[key] = value
    parameters = inspect.signature(target).parameters
    if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        for key in arguments:
            if key not in parameters:
                close = nearest(key, parameters)
                raise SettingError(
                    f"{group}.{key}", arguments[key], f"is no setting of {node['_target_']}{close}"
                )
    arguments |= {key: value for key, value in (more or {}).items() if key in parameters}
    try:
        return target(**arguments)
    except SettingError:
        raise
    except TypeError as error:
        shown = {key: value for key, value in arguments.items() if key not in (more or {})}
        raise SettingError(group, shown, f"{node['_target_']} cannot take these values ({error})") from error


def _metrics(node: Any, plugins: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(node, dict):
        raise SettingError(
            "metrics", node, "must map names to functions: metrics={my_error: my_module.my_error}"
        )
    return {name: _locate(f"metrics.{name}", path, plugins) for name, path in node.items()}


# --- names --------------------------------------------------------------------------------------------------------


def _digest(settings: Mapping[str, Any], mdp: Any, plugins: Mapping[str, Any]) -> str:
    from mqlearn.experiment import NUMERICS_VERSION

    content = {
        "settings": {key: _canonical(value) for key, value in settings.items() if key not in _UNSCIENTIFIC},
        "numerics": NUMERICS_VERSION,
        "model": mdp.digest(),
        "sources": {name: _source_digest(module) for name, module in sorted(plugins.items())},
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _canonical(value: Any) -> Any:
    """1 and 1.0 are the same setting."""
    if isinstance(value, dict):
        return {key: _canonical(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_canonical(entry) for entry in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _source_digest(module: Any) -> str:
    """SHA-256 of a module's source text; of every file of a package."""
    origin = Path(module.__file__)
    files = sorted(origin.parent.rglob("*.py")) if origin.name == "__init__.py" else [origin]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


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
