"""The settings of a cell that name no object: numbers and choices, and the sections `experiment` and `tracking`."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from mqlearn.checks import check_bool, check_int, choice
from mqlearn.errors import SettingError, nearest

NOT_TRACKED = {"name": "none", "uri": None, "per_seed": False}  # the section `tracking` of what is repeated or read
_LONGEST_NAME = 250  # as long as a folder's may be


def _discount(name: str, value: Any) -> float:
    from mqlearn.problems.mdp import check_discount

    return check_discount(value)


def _initial(name: str, value: Any) -> Any:
    from mqlearn.learners.initial import checked_initial

    checked_initial(name, value)
    return value


KINDS: dict[str, Callable[[str, Any], Any]] = {
    "discount": _discount,
    "reward": partial(choice, options=("auto", "mean", "sampled")),
    "q0": _initial,
    "theta0": _initial,
    "iterations": partial(check_int, low=0, high=10**15, written=True),
    "checkpoints": partial(choice, options=("log", "linear")),
    "n_checkpoints": partial(check_int, low=1, high=10**6, written=True),
    "n_seeds": partial(check_int, low=1, high=10**5, written=True),
    "seed": partial(check_int, low=0, high=2**32 - 1, written=True),
    "n_workers": partial(check_int, low=1, null="one thread a core", written=True),
}
PLAIN = tuple(name for name in KINDS if name not in ("discount", "q0", "theta0"))


def _section(setting: str, node: Any, known: Sequence[str]) -> dict[str, Any]:
    """A mapping that has all the known keys and no others."""
    node = node if isinstance(node, dict) else {}
    for key in {*node} - {*known}:
        raise SettingError(f"{setting}.{key}", node[key], f"there is no such setting{nearest(key, known)}")
    return {key: node.get(key) for key in known}


def experiment_section(node: Any) -> dict[str, Any]:
    name = str(_section("experiment", node, ("name",))["name"]).strip()
    if not name or not name.isprintable() or len(name) > _LONGEST_NAME:
        expected = f"must be a text that can be printed, not be blank, and have at most {_LONGEST_NAME} characters"
        raise SettingError("experiment.name", name, expected)
    return {"name": name}


def tracking_section(node: Any) -> dict[str, Any]:
    """The section `tracking`, checked; truth values as such. Raises SettingError."""
    node = _section("tracking", node, ("name", "uri", "per_seed"))
    choice("tracking", node["name"], ("mlflow", "none"))
    per_seed = check_bool("tracking.per_seed", node["per_seed"])
    uri = node["uri"]
    if uri is not None and not (isinstance(uri, str) and uri.strip()):
        raise SettingError("tracking.uri", uri, "must be the address of a store, or null")
    return {"name": node["name"], "uri": uri, "per_seed": per_seed}
