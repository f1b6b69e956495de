"""What the files of a run folder must hold. A folder may come from anybody: it is data, of these types and shapes.

Each check raises ValueError that names the entry; nothing here reads a file.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mqlearn.files import Head

AXES = ("iteration", "samples")  # curves that are no metrics
# Groups whose choice makes an object of a run: each is a node with _target_.
GROUPS = ("env", "algorithm", "operator", "step_size", "sampling", "features", "evaluation")
_NEEDED = ("env", "algorithm", "step_size", "sampling", "features", "discount", "iterations", "n_seeds", "seed")
_STATES = ("finished", "diverged", "failed", "killed")
_DEEPEST = 20
_TABLES = {
    "q": 3,
    "acting": 3,
    "theta": 2,
    "theta_average": 2,
    "theta_acting": 2,
    "error_iteration": 1,
    "error_tables": 3,
    "mean_path": 3,
    "visits": 2,
}


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _mapping(value: Any) -> bool:
    return isinstance(value, Mapping)


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_text, value))


def _findings(value: Any) -> bool:
    return isinstance(value, list) and all(map(_finding, value))


def _finding(value: Any) -> bool:
    known = _mapping(value) and value.keys() == {"code", "text", "numbers"} and _mapping(value["numbers"])
    return known and _text(value["code"]) and _text(value["text"])


def _node(value: Any) -> bool:
    return _mapping(value) and _text(value.get("_target_")) and _text(value.get("name", ""))


def _named(value: Any) -> bool:
    return _mapping(value) and _text(value.get("name"))


def _steps(value: Any) -> bool:
    return _mapping(value) and all(str(seed).isdigit() and _whole(step) for seed, step in value.items())


def _final(value: Any) -> bool:
    return _mapping(value) and all(_mapping(one) for one in value.values())


def _metrics(value: Any) -> bool:
    return _mapping(value) and all(map(_text, value.values()))


Kind = tuple[Callable[[Any], bool], str]
_SUMMARY: dict[str, Kind] = {
    "digest": (_text, "a text"),
    "name": (_text, "a text"),
    "status": (lambda value: value in _STATES if _text(value) else False, f"one of {', '.join(_STATES)}"),
    "diverged": (_steps, "a mapping from seeds to iterations"),
}
_SUMMARY_OPTIONAL: dict[str, Kind] = {
    "final": (_final, "a mapping from metrics to their last values"),
    "seconds": (_number, "a number"),
    "mlflow_run_id": (_text, "a text"),
    "ended": (_text, "a time"),
    "numerics_version": (_whole, "a whole number"),
    "digest_version": (_whole, "a whole number"),
    "format": (_whole, "a whole number"),
    "warnings": (_texts, "a list of texts"),
    "findings": (_findings, "a list of findings, each with code, text and numbers"),
    "versions": (_mapping, "a mapping"),
    "tags": (_mapping, "a mapping"),
    "files": (_mapping, "a mapping"),
    "command": (_text, "a text"),
    "git_commit": (_text, "a text"),
    "error": (_text, "a text"),
}
_SETTINGS: dict[str, Kind] = {
    **dict.fromkeys(GROUPS, (_node, "a mapping with _target_, a text")),
    "experiment": (_named, "a mapping with name, a text"),
    "discount": (_number, "a number"),
    **dict.fromkeys(("iterations", "n_seeds", "seed", "n_checkpoints", "n_workers"), (_whole, "a whole number")),
    "checkpoints": (_text, "a text"),
    "reward": (_text, "a text"),
    "plugins": (_texts, "a list of names"),
    "metrics": (_metrics, "a mapping from names to functions"),
    "linear": (_mapping, "a mapping"),
    "tracking": (_mapping, "a mapping"),
}


def check_summary(content: Any) -> None:
    if not _mapping(content) or not _SUMMARY.keys() <= content.keys():
        raise ValueError("it is not the summary of a run")
    _check(content, _SUMMARY)
    _check(content, _SUMMARY_OPTIONAL, optional=True)


def check_settings(content: Any) -> None:
    """Plain values: a run that was killed has no settings, others may have any."""
    if not _mapping(content):
        raise ValueError("it is not a mapping of settings")
    _check_plain("", content, 0)


def check_complete(settings: Mapping[str, Any]) -> None:
    """The settings of a run that is compared, drawn or repeated: all are there, each of its type."""
    _check(settings, _SETTINGS, optional=True)
    for key in (*_NEEDED, "experiment"):
        if settings.get(key) is None:
            raise ValueError(f"{key} is missing")


def check_curves(arrays: Mapping[str, np.ndarray]) -> None:
    """`iteration` and, if there, `samples` (C,), whole and rising; each metric (n_seeds, C), real."""
    iteration = arrays.get("iteration")
    if iteration is None:
        raise ValueError("iteration is missing")
    for name in AXES:
        axis = arrays.get(name, iteration)
        if axis.ndim != 1 or not axis.size or axis.dtype.kind not in "iu" or len(axis) != len(iteration):
            raise ValueError(f"{name} must be whole numbers (C,), not {_shown(axis)}")
        if axis[0] < 0 or (np.diff(axis) <= 0).any():
            raise ValueError(f"{name} must rise")
    metrics = {name: array for name, array in arrays.items() if name not in AXES}
    n_seeds = next((len(array) for array in metrics.values() if array.ndim), 0)
    for name, array in metrics.items():
        if array.dtype.kind not in "fiu" or array.shape != (n_seeds, len(iteration)) or not n_seeds:
            wanted = f"numbers (seeds, C), here ({n_seeds}, {len(iteration)})"
            raise ValueError(f"{name} must be {wanted}, not {_shown(array)}")


def check_tables(arrays: Mapping[str, np.ndarray | Head]) -> None:
    """Real numbers of as many axes as a table of this name has."""
    for name, array in arrays.items():
        axes = _TABLES.get(name, len(array.shape))
        if array.dtype.kind not in "fiub" or len(array.shape) != axes:
            raise ValueError(f"{name} must be numbers on {axes} axes, not {_shown(array)}")


def _check(content: Mapping[str, Any], kinds: Mapping[str, Kind], *, optional: bool = False) -> None:
    for key, (is_one, wanted) in kinds.items():
        value = content.get(key)
        if not (is_one(value) or (optional and value is None)):
            raise ValueError(f"{key} must be {wanted}, not {str(value)[:60]!r}")


def _check_plain(place: str, value: Any, depth: int) -> None:
    """Texts, numbers, lists and mappings; no interpolation, which a resolved record cannot hold."""
    if depth > _DEEPEST:
        raise ValueError(f"{place.partition('.')[0]} is nested too deep")
    if isinstance(value, Mapping):
        for key, entry in value.items():
            if not _text(key):
                raise ValueError(f"{place or 'it'} has the key {str(key)[:60]!r}, which is no text")
            _check_plain(f"{place}.{key}" if place else key, entry, depth + 1)
    elif isinstance(value, list):
        for entry in value:
            _check_plain(place, entry, depth + 1)
    elif isinstance(value, str):
        if "${" in value and place.partition(".")[0] not in ("experiment", "tracking"):
            raise ValueError(f"{place} holds an interpolation, {value[:60]!r}: the settings of a record are values")
    elif not (value is None or isinstance(value, bool | int | float)):
        raise ValueError(f"{place} is a {type(value).__name__}")


def _shown(array: np.ndarray | Head) -> str:
    return f"{array.dtype.name} {array.shape}"
