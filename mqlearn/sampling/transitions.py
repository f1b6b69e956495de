"""Recorded transitions as they come: a .npz or .csv file, a mapping of arrays or a DataFrame, under usual names too.

A .csv has a line of names; its fields are numbers, or True and False.
"""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mqlearn import files
from mqlearn.errors import SettingError, nearest
from mqlearn.paths import expanded

NEEDED = ("x", "u", "r", "y")
DTYPES = {"x": np.int64, "u": np.int64, "r": np.float64, "y": np.int64, "terminal": np.bool_, "timeout": np.bool_}
_USUAL = {
    "x": ("observations", "observation", "states", "state", "obs", "s"),
    "u": ("actions", "action", "a"),
    "r": ("rewards", "reward"),
    "y": ("next_observations", "next_observation", "next_states", "next_state", "next_obs", "s_next"),
    "terminal": ("terminals", "terminated", "terminations"),
    "timeout": ("timeouts", "truncated", "truncations"),
}
_OURS = {usual: name for name, names in _USUAL.items() for usual in names}
_DONE = (
    ": it may be the end of an episode or of its time; give the first as terminals, the second as timeouts, at which "
    "the target keeps the value of the next state"
)


def read(given: Any, shown: str) -> dict[str, np.ndarray]:
    """x, u, y (N,) int64, r (N,), and terminal and timeout (N,) bool where they are given. Raises SettingError."""
    fields = _fields(given)
    named: dict[str, Any] = {}
    for name, array in fields.items():
        ours = _OURS.get(str(name), str(name))
        if ours in named:
            both = [other for other in fields if _OURS.get(str(other), other) == ours]
            raise SettingError("sampling.path", shown, f"must have one of {' and '.join(map(str, both))}")
        named[ours] = array
    missing = [name for name in NEEDED if name not in named]
    unknown = [name for name in named if name not in DTYPES]
    if missing or unknown:
        wrong = [f"it has no {name}" for name in missing]
        names = [*DTYPES, *_OURS]
        wrong += [
            f"{name} is unknown{_DONE if name in ('done', 'dones') else nearest(name, names)}" for name in unknown
        ]
        usual = "or observations, actions, rewards, next_observations"
        expected = f"must have the arrays x, u, r, y, {usual}, and may have terminal and timeout: {'; '.join(wrong)}"
        raise SettingError("sampling.path", shown, expected)
    shape = _column(named["x"]).shape
    return {name: _checked(name, _column(named[name]), shape, shown) for name in named}


def _column(given: Any) -> np.ndarray:
    """An array (N,), of a column (N, 1) too."""
    array = np.asarray(given)
    return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array


def _checked(name: str, array: np.ndarray, shape: tuple[int, ...], shown: str) -> np.ndarray:
    if array.ndim != 1 or array.shape != shape or not array.size:
        expected = f"{name} has the shape {array.shape}; all arrays must have one shape (N,), N >= 1"
        raise SettingError("sampling.path", shown, expected)
    dtype = DTYPES[name]
    kind = {np.int64: "whole numbers", np.float64: "numbers", np.bool_: "truth values, or 0 and 1"}[dtype]
    if array.dtype.kind not in ("biuf" if dtype is np.bool_ else "iuf"):
        raise SettingError("sampling.path", shown, f"{name} must be an array of {kind}, not {array.dtype}")
    wrong, expected = ~np.isfinite(array), "finite"
    if not wrong.any() and dtype is np.int64:
        wrong, expected = (array != np.floor(array)) | (np.abs(array.astype(float)) > 2**53), "a whole number"
    elif not wrong.any() and dtype is np.bool_:
        wrong, expected = ~np.isin(array, (0, 1)), "a truth value, or 0 or 1"
    if wrong.any():
        first = int(wrong.argmax())
        raise SettingError("sampling.path", shown, f"{name}[{first}]={array[first]} must be {expected}")
    return array.astype(dtype)


def _fields(given: Any) -> dict[Any, Any]:
    if isinstance(given, Mapping):
        return dict(given)
    if hasattr(given, "columns") and hasattr(given, "__getitem__"):  # a DataFrame
        return {name: np.asarray(given[name]) for name in given.columns}
    suffix = Path(str(given)).suffix
    if suffix not in (".npz", ".csv"):
        raise SettingError("sampling.path", given, "must end in .npz or .csv")
    try:
        if suffix == ".csv":
            return _csv(expanded(str(given)), str(given))
        return dict(files.arrays(expanded(str(given))))
    except SettingError:
        raise
    except (OSError, ValueError, csv.Error) as error:  # objects in arrays are a ValueError
        raise SettingError("sampling.path", given, f"cannot be read ({getattr(error, 'strerror', error)})") from None


def _csv(path: Path, shown: str) -> dict[str, np.ndarray]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file)
        names = [name.strip() for name in next(rows, [])]
        columns: list[list[float]] = [[] for _ in names]
        for row in rows:
            if not row:
                continue
            if len(row) != len(names):
                expected = f"line {rows.line_num} has {len(row)} fields; the line of names has {len(names)}"
                raise SettingError("sampling.path", shown, expected)
            for name, column, text in zip(names, columns, row, strict=True):
                try:
                    column.append(_WORDS[word] if (word := text.strip().lower()) in _WORDS else float(word))
                except ValueError:
                    expected = f"line {rows.line_num}: {name or 'a field without a name'}={text!r} must be a number"
                    raise SettingError("sampling.path", shown, expected) from None
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise SettingError("sampling.path", shown, f"its line of names has {twice[0]!r} twice")
    return {name: np.array(column) for name, column in zip(names, columns, strict=True) if name}  # '': pandas' index


_WORDS = {"true": 1.0, "false": 0.0}
