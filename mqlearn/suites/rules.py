"""The rules that a suite compares: those of conf/algorithm and the user's own, with what is tuned of each.

What is tuned says `tuning:` in the yaml of the algorithm; without it, its step size is. A text there is the reason why
suites leave the rule out.
"""

import hashlib
import inspect
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from mqlearn.errors import SettingError, nearest
from mqlearn.experiments.settings import compose, identity, own_choices, own_step_size, yamls
from mqlearn.experiments.settings import plugins as user_modules
from mqlearn.paths import CONF, expanded
from mqlearn.suites import axes
from mqlearn.suites.axes import Axis
from mqlearn.suites.search import SETTINGS

_SEARCH = 1  # raised by hand whenever the search tries other settings; part of every digest
MOST_PAIRS = 100  # of a problem, for rules whose state has n^2 numbers,
_MOST_TOUCHED = 1e9  # of these numbers, over all iterations of a seed
# Settings of rules of the package in every suite, where their default is another now: as committed results were made.
_AS_STORED: dict[str, dict[str, Any]] = {"zap": {"refactor": 0}}


@dataclass(frozen=True)
class Entrant:
    """A rule that takes part.   overrides: those that choose it.   tuning: the numbers in its yaml, None for none.

    digest: of its settings, its tuning and the source text of the user's modules.   own: whether it is the user's.
    made: the rule itself, if it is an object and not of a yaml.
    """

    name: str
    overrides: tuple[str, ...]
    tuning: tuple[Axis, ...] | None
    digest: str
    own: bool
    made: Any = None


def names() -> list[str]:
    """The rules of conf/algorithm that a suite compares."""
    return sorted(name for name in _shipped() if not isinstance(_read(_shipped()[name]).get("tuning"), str))


def _shipped() -> dict[str, Path]:
    return {path.stem: path for path in (CONF / "algorithm").glob("*.yaml")}


def entrants(asked: Sequence[str], modules: Sequence[str] = (), config_dir: str | None = None) -> list[Entrant]:
    """The rules of these names. Raises SettingError for a name that neither a yaml nor a module of the user's has."""
    user_modules.search(config_dir)
    plugins = user_modules.load(list(modules))
    folder = None if config_dir is None else expanded(config_dir) / "algorithm"
    chosen = [_chosen(name, plugins, folder) for name in asked]
    nodes = _nodes(chosen, modules, config_dir)
    found = []
    for name, (overrides, file, own), node in zip(asked, chosen, nodes, strict=True):
        tuning = None if file is None else _tuning(name, file)
        sources = {key: user_modules.source_digest(one) for key, one in sorted(plugins.items())} if own else {}
        searched = [tuning and [axis.searched for axis in tuning], SETTINGS, _SEARCH]
        told = [identity.resolved_node("algorithm", node, plugins), searched, sources]
        digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
        found.append(Entrant(name, tuple(overrides), tuning, digest, own))
    return found


_Chosen = tuple[list[str], Path | None, bool]


def _nodes(chosen: Sequence[_Chosen], modules: Sequence[str], config_dir: str | None) -> list[dict[str, Any]]:
    """The settings of rules. A yaml of the package is read as it is, which is faster; Hydra composes those of users."""
    more = [f"plugins=[{','.join(modules)}]"] if modules else []
    lists = [[*more, *overrides] for overrides, _, own in chosen if own]
    composed = iter(compose.compose_all(lists, config_dir) if lists else ())
    return [
        next(composed)["algorithm"]
        if own or file is None
        else {**_without_tuning(_read(file)), **_AS_STORED.get(file.stem, {})}
        for _, file, own in chosen
    ]


def _without_tuning(node: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in node.items() if key != "tuning"}


def _read(file: Path) -> dict[str, Any]:
    return yamls.read("algorithm", file)


def _chosen(name: str, plugins: dict[str, ModuleType], folder: Path | None) -> _Chosen:
    """The overrides that choose a rule, the file of its settings if it has one, and whether it is the user's own."""
    classes = {
        own_step_size.label(attribute): f"{module}.{attribute}"
        for module, content in plugins.items()
        for attribute, value in vars(content).items()
        if inspect.isclass(value) and value.__module__ == content.__name__
    }
    if folder is not None and (folder / f"{name}.yaml").is_file():
        if name in names():
            expected = f"is a rule of mqlearn, which has a row of its own, and your {folder / name}.yaml: rename yours"
            raise SettingError("algorithm", name, expected)
        return [f"algorithm={name}"], folder / f"{name}.yaml", True
    if name in _shipped():
        if name in classes:
            expected = (
                f"is a rule of mqlearn and your {classes[name]}: write algorithm={classes[name]}, or rename yours"
            )
            raise SettingError("algorithm", name, expected)
        pinned = [f"algorithm.{key}={value}" for key, value in _AS_STORED.get(name, {}).items()]
        return [f"algorithm={name}", *pinned], CONF / "algorithm" / f"{name}.yaml", False
    targets = {**{target: target for target in classes.values()}, **classes}
    if name in targets:
        target = targets[name]
        return [f"algorithm._target_={target}", f"algorithm.name={name.rpartition('.')[2]}"], None, True
    if folder is not None:
        own_choices.refuse_dangling("algorithm", folder / f"{name}.yaml")
    known = [*_shipped(), *classes, *(path.stem for path in yamls.shown(folder))] if folder else [*names(), *classes]
    raise SettingError("algorithm", name, f"must be one of {', '.join(known)}{nearest(name, known)}")


def _tuning(name: str, file: Path) -> tuple[Axis, ...] | None:
    """`tuning:` of an algorithm's yaml. Raises SettingError, also for a rule that suites leave out."""
    given = _read(file).get("tuning")
    if isinstance(given, str):
        raise SettingError("algorithm", name, f"is no row of a leaderboard: {given}")
    return axes.read(name, given)


def axes_of(name: str, config_dir: str | None = None) -> tuple[Axis, ...]:
    """What `tuning:` in the yaml of a rule names; nothing for a rule without one."""
    file = {**own_choices.files("algorithm", config_dir), **_shipped()}.get(name)
    given = None if file is None else _read(file).get("tuning")
    return () if given is None or isinstance(given, str) else axes.read(name, given) or ()


def over_budget(rule: Any, n_pairs: int, iterations: int = 0) -> str | None:
    """Why a rule costs too much on a problem of so many pairs, or columns; None if it does not.

    That is so for a state of n^2 numbers above 100 pairs, or where all iterations together touch too many of them.
    """
    if not hasattr(rule, "init"):
        return None
    trial = 11
    largest = max(np.size(part) for part in rule.init(np.zeros(trial)).values())
    if largest < trial**2:
        return None
    if n_pairs > MOST_PAIRS:
        return f"over budget: {n_pairs}^2 = {n_pairs**2:,} numbers of state a seed, allowed are {MOST_PAIRS}^2"
    touched = float(iterations * n_pairs**2)
    if touched > _MOST_TOUCHED:
        most = f"allowed are {_MOST_TOUCHED:g}"
        return f"over budget: {iterations:,} iterations of {n_pairs}^2 numbers are {touched:.2g} a seed, {most}"
    return None
