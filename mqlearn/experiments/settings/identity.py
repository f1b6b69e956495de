"""What a cell is, wherever its objects lie and whatever they are labelled: digests, and which runs are comparable.

Everything here starts from the *resolved* settings, which are plain data. A group's object stands under its public name
(`mqlearn.QLearning` wherever its file lies; MODULE.NAME for a user's) with all its settings, defaults included; its
label `name` and what changes no number are left out. An object of ours that the package does not export goes by
`mqlearn` and its own name too (`mqlearn.tabular`). So records of all versions of this package compare by text.
"""

import contextlib
import functools
import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from mqlearn import source_text
from mqlearn.errors import SettingError
from mqlearn.experiments.settings import instantiate, records, targets
from mqlearn.experiments.settings import plugins as user_modules
from mqlearn.experiments.settings.earlier_versions import ADDED, before_auto, public_name, successor
from mqlearn.storage import runs

# How digests are made; a record without `digest_version` has one of version 1, of the settings as they were written.
DIGEST_VERSION = 2
# These choose where and how a cell is computed and kept, never a number of it.
UNSCIENTIFIC = ("experiment", "n_workers", "plugins", "tracking")
# Of the sampling, what the chain of a seed depends on; how its samples are used (a buffer, a clock, rounds) is not.
CHAIN = ("behaviour", "start", "restart_probability", "time_limit")
_GIVEN = {"env": ("discount",), "features": ("mdp",)}  # parameters that are no settings of a group
_LINEAR = "mqlearn.Linear"  # the object of the group `linear`, which names none


# --- equal settings -----------------------------------------------------------------------------------------------


def _momentum_q(node: Mapping[str, Any]) -> dict[str, Any]:
    """Its m, and whether that shifts the step size, however that is written."""
    from mqlearn.algorithms import MomentumQ

    first = {"m": node.get("m"), "shift": node.get("shift", "auto")}
    rule, usual = MomentumQ(**first), MomentumQ(first["m"])
    shift = "auto" if rule.shifted == usual.shifted else "on" if rule.shifted else "off"
    return {**node, "m": rule.order, "shift": shift}


def _speedy_q_printed(node: Mapping[str, Any]) -> dict[str, Any]:
    """As it was before it was a rule of its own."""
    return {**node, "_target_": "mqlearn.SpeedyQ", "form": "printed"}


def _zap(node: Mapping[str, Any]) -> dict[str, Any]:
    """With a ridge every step is a linear solve, whatever is set."""
    return {**node, "refactor": 0} if node.get("ridge") else dict(node)


def _frozen_lake(node: Mapping[str, Any]) -> dict[str, Any]:
    """A map of Gymnasium's by its rows."""
    from mqlearn.problems.environments.frozen_lake import MAPS

    tiles = node.get("map")
    return {**node, "map": list(MAPS[tiles]) if isinstance(tiles, str) and tiles in MAPS else tiles}


def _from_file(node: Mapping[str, Any]) -> dict[str, Any]:
    """What is read from a file by its content, wherever that lies; without `axes` they are xuy, or it is refused."""
    usual = {"axes": (None, "xuy")}
    node = {key: value for key, value in node.items() if value not in usual.get(key, ())}
    return {key: value for key, value in node.items() if key != "path" or node.get("content") is None}


def _recorded(node: Mapping[str, Any]) -> dict[str, Any]:
    return _from_file(before_auto(node))


# Public name -> what says a node of this object, as any version wrote it and with its defaults, in the one way that
# counts; settings that it does not know, it must hand on. Objects that took the place of others:
# `earlier_versions.successor`.
EQUAL: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "mqlearn.MomentumQ": _momentum_q,
    "mqlearn.SpeedyQPrinted": _speedy_q_printed,
    "mqlearn.Zap": _zap,
    "mqlearn.frozen_lake": _frozen_lake,
    "mqlearn.from_file": _from_file,
    "mqlearn.Recorded": _recorded,
    "mqlearn.Markovian": before_auto,
    "mqlearn.Replay": before_auto,
    "mqlearn.IID": before_auto,
}


# --- resolved settings --------------------------------------------------------------------------------------------


def resolved(settings: Mapping[str, Any], plugins: Mapping[str, ModuleType] | None = None) -> dict[str, Any]:
    """The settings that decide the numbers of a cell, as plain data, equal for equal cells (see the module).

    plugins: the user's modules, whose objects' defaults are then resolved too; without them nothing of the user's is
    imported.
    """
    kept = {key: value for key, value in settings.items() if key not in UNSCIENTIFIC}
    kept["linear"] = {"_target_": _LINEAR, **(kept.get("linear") or {})}
    kept["metrics"] = {name: public_name(path) for name, path in (kept.get("metrics") or {}).items()}
    normal = _resolved("", kept, plugins)
    if not _episodes(normal):
        normal["evaluation"].pop("draws", None)
    if normal.get("algorithm", {}).get("_target_") == "mqlearn.Zap" and draws_all_pairs(normal):
        normal["algorithm"].pop("refactor", None)  # it solves there, whatever is set
    return normal


def _episodes(normal: Mapping[str, Any]) -> bool:
    """Whether greedy episodes are simulated; by default not with synchronous sampling."""
    episodes = normal["evaluation"].get("episodes")
    return not draws_all_pairs(normal) if episodes is None else episodes != 0


def draws_all_pairs(settings: Mapping[str, Any]) -> bool:
    """Whether an iteration of a record draws a successor of every pair; a mode of the user's own, which nothing is
    imported for, draws one."""
    place = targets.location("sampling", str(settings["sampling"]["_target_"]))
    return place is not None and targets.find(place).all_pairs


def resolved_node(group: str, node: Mapping[str, Any], plugins: Mapping[str, ModuleType] | None = None) -> Any:
    """`resolved` for one group alone."""
    return _resolved(group, node, plugins)


def counts(group: str, node: Any, plugins: Mapping[str, ModuleType]) -> bool:
    """Whether a group is part of an identity: one that came later is not while it stands for what was done before."""
    return group in _resolved("", {group: node}, plugins)


def _resolved(place: str, value: Any, plugins: Mapping[str, ModuleType] | None) -> Any:
    if not isinstance(value, Mapping):
        return canonical(value)
    if place and plugins is None and "_target_" in value:
        with contextlib.suppress(TypeError, ValueError):  # of values that are not plain
            return json.loads(_resolved_text(place, json.dumps(value)))
    return _resolved_now(place, value, plugins)


@functools.lru_cache(maxsize=1024)
def _resolved_text(place: str, text: str) -> str:
    """Of a group of a record, as JSON: in 1,000 runs the same few come again. No digest is made of it."""
    return json.dumps(_resolved_now(place, json.loads(text), None))


def _resolved_now(place: str, value: Mapping[str, Any], plugins: Mapping[str, ModuleType] | None) -> dict[str, Any]:
    if "_target_" in value:
        value = successor(value)
        path = value["_target_"]
        own = {key: entry for key, entry in value.items() if key != "name"}
        value = _defaults(place, path, plugins or {}) | own | {"_target_": public_name(path)}
        value = EQUAL.get(value["_target_"], dict)(value)
    named = {key: (f"{place}.{key}" if place else key, entry) for key, entry in value.items()}
    told = {key: (name, _resolved(name, entry, plugins)) for key, (name, entry) in named.items()}
    return {key: entry for key, (name, entry) in told.items() if not (name in ADDED and entry == ADDED[name])}


def _defaults(place: str, path: str, plugins: Mapping[str, ModuleType]) -> dict[str, Any]:
    """Default values of the settings that an object takes; none if it is not here."""
    try:
        target = instantiate.locate(place, path, plugins)
    except SettingError:
        return {}
    return {key: json.loads(text) for key, text in _written(target).items() if key not in _GIVEN.get(place, ())}


@functools.lru_cache(maxsize=512)
def _written(target: Any) -> dict[str, str]:
    """Default values as JSON, of those that have one: of a user's function, its source text is in the digest."""
    found = {}
    for key, parameter in instantiate.parameters_of(target).items():
        if parameter.default is not parameter.empty:
            with contextlib.suppress(TypeError, ValueError):
                found[key] = json.dumps(parameter.default)
    return found


def canonical(value: Any) -> Any:
    """1 and 1.0 are the same setting."""
    if isinstance(value, dict):
        return {key: canonical(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [canonical(entry) for entry in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


# --- digests ------------------------------------------------------------------------------------------------------


def digest(settings: Mapping[str, Any], mdp: Any, plugins: Mapping[str, ModuleType]) -> str:
    """SHA-256 of the resolved settings, the numerics version, the model's arrays and the source text of `plugins`."""
    return _digest(resolved(settings, plugins), mdp.digest(), plugins)


def digest_of(run: runs.Run) -> str:
    """The digest that the cell of a recorded run has today, whatever version recorded it (see `present_digest`)."""
    if run.summary.get("digest_version") == DIGEST_VERSION:
        return run.digest
    try:
        return present_digest(run.digest, runs.recorded_settings(run), run.summary.get("numerics_version"))
    except SettingError:  # its settings cannot be read
        return run.digest


def digest_in(folder: str | Path, recorded: str) -> str:
    """`digest_of` the run that a store names by `recorded` and that lies in `folder`; as recorded, if it does not."""
    try:
        run = runs.load(folder)
    except SettingError:
        return recorded
    return digest_of(run) if run.digest == recorded else recorded


def present_digest(recorded: str, settings: Mapping[str, Any], numerics: int | None = None) -> str:
    """The digest that a cell has today which a record names by `recorded`, and describes by `settings`.

    Nothing is imported for it but modules that the user has named on this command line. Without them, and if it is no
    digest of version 1 of these settings with the model and the modules that are here, it is `recorded` itself: they
    have changed since, and the record is of another cell.
    """
    try:
        plugins = user_modules.known(settings.get("plugins") or [])
        records.check(settings)
        model = model_digest(settings)
    except (SettingError, KeyError):
        return recorded
    written = {key: canonical(value) for key, value in settings.items() if key not in UNSCIENTIFIC}
    if _digest(written, model, plugins, numerics) != recorded:
        return recorded
    return _digest(resolved(settings, plugins), model, plugins, numerics)


def model_digest(settings: Mapping[str, Any], discount: float | None = None) -> str:
    """Digest of the arrays of a record's model, at its own discount or with another one in its place. Raises
    SettingError if it cannot be built here, or not without importing or reading what only the record names.

    Of the user's modules only those count that the environment comes from.
    """
    modules = records.in_use(settings, ["env"])
    records.check({"env": settings["env"], "plugins": modules})
    text = json.dumps([settings["env"], modules, settings["discount"], discount], sort_keys=True)
    return _model_digest(text, source_text.imports())


@functools.lru_cache(maxsize=256)
def _model_digest(text: str, imports: int) -> str:
    env, modules, own, wanted = json.loads(text)
    mdp = instantiate.make("env", env, user_modules.known(modules), {"discount": own})
    discount = own if wanted is None else wanted
    return (mdp if mdp.discount == discount else mdp.with_discount(discount)).digest()


def _digest(
    content: Mapping[str, Any], model: str, plugins: Mapping[str, ModuleType], numerics: int | None = None
) -> str:
    from mqlearn.learning.loop import NUMERICS_VERSION

    told = {
        "settings": content,
        "numerics": NUMERICS_VERSION if numerics is None else numerics,
        "model": model,
        "sources": {name: user_modules.source_digest(module) for name, module in sorted(plugins.items())},
    }
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


# --- which runs are comparable, and which are paired --------------------------------------------------------------


def problem_key(settings: Mapping[str, Any], summary: str = "error", made_of: Any = None) -> str:
    """What runs must share to be compared, as a text: the model itself, not the name of its environment.

    made_of: what the record says of that (`Cell.made_of`); without it the model is built again.
    """
    normal = resolved(settings)
    shared = {key: normal[key] for key in ("discount", "reward", "features")} | {"sampling": _samples(normal)}
    shared |= {"operator": normal["operator"]} if "operator" in normal else {}
    shared["initial"] = normal["q0" if is_tabular(settings) else "theta0"]
    shared["evaluation"] = normal["evaluation"] if summary == "return" else None
    return _text({"model": model_key(settings, made_of), **shared})


def problem_of(run: runs.Run, summary: str = "error") -> str:
    """`problem_key` of a recorded run."""
    return problem_key(run.settings, summary, run.summary.get("made_of"))


def streams_key(settings: Mapping[str, Any], numerics: int | None, model: str | None = None) -> str:
    """What decides the random numbers of a seed, as a text: the model without its discount, sampling and `seed`.

    model: the `model_key` of runs of one discount, to be taken instead.
    """
    normal = resolved(settings)
    model = model_key(settings, discount=0.5) if model is None else model
    return _text({"model": model, "numerics": numerics, "seed": normal["seed"], "sampling": _samples(normal)})


def _samples(normal: Mapping[str, Any]) -> dict[str, Any]:
    """The sampling without its clock, which is one of the rule's step size: no sample depends on it."""
    return {key: value for key, value in normal["sampling"].items() if key != "clock"}


def samples_key(settings: Mapping[str, Any], mdp: Any) -> str:
    """Equal for cells that differ in nothing but their rules: same samples, same measurements."""
    alike = {key: value for key, value in resolved(settings).items() if key not in ("algorithm", "step_size")}
    return _text([alike, settings.get("n_workers"), mdp.digest()])


def rule_key(settings: Mapping[str, Any]) -> str:
    """Algorithm, step size with its clock and the handling of linear features, as a text; a discount within them is the
    model's."""
    normal = resolved(settings)
    step_size = {key: value for key, value in normal["step_size"].items() if key != "discount"}
    return _text([normal["algorithm"], step_size, normal["sampling"].get("clock"), normal["linear"]])


def is_tabular(settings: Mapping[str, Any]) -> bool:
    """Whether a table is learned, and no features."""
    return public_name(settings["features"]["_target_"]) == "mqlearn.tabular"


def model_key(settings: Mapping[str, Any], made_of: Any = None, discount: float | None = None) -> str:
    """The model as the record holds it (`made_of`), else built again, if need be with another discount in place of its
    own; by its settings where it cannot be built."""
    recorded = made_of.get("model") if isinstance(made_of, Mapping) else None
    if isinstance(recorded, str):
        return recorded
    try:
        return model_digest(settings, discount)
    except SettingError:  # a module of the user's that is not here
        return _text([resolved_node("env", settings["env"]), records.in_use(settings, ["env"])])


def made_of(run: runs.Run) -> dict[str, Any] | None:
    """Model and sources of a run by its record, without the modules that its settings list and do not name."""
    told = run.summary.get("made_of")
    if not isinstance(told, Mapping):
        return None
    idle = {*(run.settings.get("plugins") or [])} - {*records.in_use(run.settings)}
    sources = told.get("sources")
    kept = {key: value for key, value in sources.items() if key not in idle} if isinstance(sources, Mapping) else {}
    return {**told, "sources": kept}


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
