"""The rules that a suite compares: those of conf/algorithm and the user's own, each with five settings.

The first setting is the source's default. The other four are the lists of overrides under `tuning:` in the yaml of the
algorithm; without them, offsets and scales of its step size.
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
from mqlearn.experiments.settings import compose, identity, own_step_size, yamls
from mqlearn.experiments.settings import plugins as user_modules
from mqlearn.paths import CONF, expanded

SETTINGS = 5  # of each rule, its default among them
_OFFSETS = (3, 10, 30, 100)  # of a step size that has an offset,
_SCALES = (0.25, 0.5, 2, 4)  # of others
MOST_PAIRS = 100  # of a problem, for rules whose state has n^2 numbers,
_MOST_TOUCHED = 1e9  # of these numbers, over all iterations of a seed


@dataclass(frozen=True)
class Entrant:
    """A rule that takes part.   overrides: those that choose it.   tuning: of its yaml, None for none.

    digest: of its settings, its tuning and the source text of the user's modules.   own: whether it is the user's.
    made: the rule itself, if it is an object and not of a yaml.
    """

    name: str
    overrides: tuple[str, ...]
    tuning: tuple[tuple[str, ...], ...] | None
    digest: str
    own: bool
    made: Any = None


def names() -> list[str]:
    """The rules of conf/algorithm."""
    return sorted(path.stem for path in (CONF / "algorithm").glob("*.yaml"))


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
        told = [identity.resolved_node("algorithm", node, plugins), tuning, sources, SETTINGS, _OFFSETS, _SCALES]
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
        next(composed)["algorithm"] if own or file is None else _without_tuning(_read(file)) for _, file, own in chosen
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
    if name in names():
        if name in classes:
            expected = (
                f"is a rule of mqlearn and your {classes[name]}: write algorithm={classes[name]}, or rename yours"
            )
            raise SettingError("algorithm", name, expected)
        return [f"algorithm={name}"], CONF / "algorithm" / f"{name}.yaml", False
    targets = {**{target: target for target in classes.values()}, **classes}
    if name in targets:
        target = targets[name]
        return [f"algorithm._target_={target}", f"algorithm.name={name.rpartition('.')[2]}"], None, True
    known = [*names(), *classes, *(path.stem for path in folder.glob("*.yaml"))] if folder else [*names(), *classes]
    raise SettingError("algorithm", name, f"must be one of {', '.join(known)}{nearest(name, known)}")


def _tuning(name: str, file: Path) -> tuple[tuple[str, ...], ...] | None:
    """`tuning:` of an algorithm's yaml. Raises SettingError if it is no four lists of overrides."""
    given = _read(file).get("tuning")
    if given is None:
        return None
    fits = isinstance(given, list) and len(given) == SETTINGS - 1
    if not fits or not all(isinstance(one, list) and all(isinstance(text, str) for text in one) for one in given):
        expected = f"must be {SETTINGS - 1} lists of overrides, as all rules have beside their default"
        raise SettingError(f"{name}.tuning", given, expected)
    for text in (text for one in given for text in one):
        if not text.startswith(("algorithm.", "step_size")):
            raise SettingError(f"{name}.tuning", text, "must set algorithm.NAME or the step size")
    return tuple(tuple(one) for one in given)


def scaled(step_size: dict[str, Any]) -> list[tuple[str, ...]]:
    """Offsets or scales of a step size, given by its settings, as overrides of `step_size=own`."""
    if "discount" in step_size:  # 1/(1 + c (1 - discount) (k + 1)), c the scale
        away = 1 - step_size["discount"]
        scales = [scale for scale in _SCALES if scale * away < 1]
        return [("step_size=rescaled_linear", f"step_size.discount={1 - scale * away:.12g}") for scale in scales]
    if "exponent" not in step_size and "offset" in step_size:
        return [(f"step_size.offset={step_size['offset'] + offset:g}",) for offset in _OFFSETS]
    for name in ("scale", "alpha"):
        if name in step_size:
            return [(f"step_size.{name}={step_size[name] * scale:g}",) for scale in _SCALES]
    return []


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
