"""What ships: a `_target_` of ours is a class or a function, and a yaml of its group in conf/.

A yaml says `_target_: mqlearn.NAME`, and a file of the group's package has NAME: no other place lists what ships.
Nothing else of the package is called for a `_target_`, and nothing is imported before it is asked for. A setting of a
group that is made from a `_target_` itself, such as `step_size.base`, is of its group.
"""

import functools
import importlib
import re
import sys
from typing import Any

from mqlearn.experiments.settings import earlier_versions
from mqlearn.paths import CONF, PACKAGE

# Group -> the package whose files have its objects.
PACKAGES = {
    "env": "problems",
    "algorithm": "algorithms",
    "operator": "algorithms",
    "step_size": "algorithms",
    "sampling": "sampling",
    "features": "problems",
    "evaluation": "sampling",
    "linear": "learners",
    "metrics": "learning",
}
_WITHOUT_YAML = {
    "features": {"from_matrix"},
    "linear": {"Linear"},
    "metrics": {
        "first_action_greedy",
        "first_at_start",
        "largest_at_start",
        "q_bias",
        "reward_a_step",
        "span_error",
        "v_error_l2",
    },
}
_TARGET = re.compile(r"^ *_target_: mqlearn\.([\w.]+)", re.MULTILINE)
_DEFINED = re.compile(r"^(?:class|def) ([A-Za-z]\w*)", re.MULTILINE)


@functools.cache
def shipped(group: str) -> dict[str, str]:
    """Public name -> where the object lies, for what the yamls of a group name and a file has."""
    named = set(_WITHOUT_YAML.get(group, ()))
    for file in (CONF / group).glob("*.yaml"):
        named |= {path.rpartition(".")[2] for path in _TARGET.findall(file.read_text(encoding="utf-8"))}
    return {name: places[0] for name, places in sorted(defined(PACKAGES.get(group, "")).items()) if name in named}


@functools.cache
def defined(package: str) -> dict[str, list[str]]:
    """Name -> where a file of a package defines it, by the text of the files."""
    found: dict[str, list[str]] = {}
    for file in sorted((PACKAGE / package).rglob("*.py")) if package else ():
        module = ".".join(("mqlearn", *file.relative_to(PACKAGE).with_suffix("").parts))
        for name in _DEFINED.findall(file.read_text(encoding="utf-8")):
            found.setdefault(name, []).append(f"{module}.{name}")
    return found


@functools.cache
def choices(group: str) -> dict[str, str]:
    """Public name -> the yaml of a group that makes such an object, the one of the shortest name."""
    found: dict[str, str] = {}
    for file in sorted((CONF / group).glob("*.yaml"), key=lambda file: (-len(file.stem), file.stem)):
        named = _TARGET.search(file.read_text(encoding="utf-8"))
        found |= {named[1].rpartition(".")[2]: file.stem} if named else {}
    return found


def names() -> set[str]:
    """The public names of all that ships."""
    return {name for group in PACKAGES for name in shipped(group)}


def public(name: str) -> str | None:
    """Where the object lies that a yaml of any group calls `mqlearn.NAME`; None if there is none."""
    return next((places[name] for places in map(shipped, PACKAGES) if name in places), None)


def location(group: str, path: str) -> str | None:
    """Where the object that `path` names lies, by its public name or one of today or of before; None if it is none of
    the group's. Nothing is imported."""
    module, _, name = earlier_versions.present(path).rpartition(".")
    place = shipped(group.partition(".")[0]).get(name, "")
    return place if place.startswith(f"{module}.") and module.partition(".")[0] == "mqlearn" else None


def find(place: str) -> Any:
    """The object at a location."""
    module, _, name = place.rpartition(".")
    return getattr(sys.modules.get(module) or importlib.import_module(module), name)
