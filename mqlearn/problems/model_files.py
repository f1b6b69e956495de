"""A FiniteMDP from a file: arrays in .npz, or the same names with nested lists in .json.

P (S, A, S) and R (S, A) or (S, A, S), or else successors (S, A, B), probabilities (S, A, B) and rewards (S, A) or
(S, A, B), of which .json takes lists of unequal lengths; optional are axes, admissible (S, A), terminal (S,), start (a
state, or a distribution), s_indices, a_indices (L,) and discount. What they mean: `mqlearn.problems.arrays`. Usual
names of other libraries stand for these (`_USUAL`). P_data, P_indices, P_indptr and P_shape, the arrays of a sparse
matrix in rows (SciPy's csr_array), stand for P, and R_data beside them, at the same places, for R.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mqlearn import files
from mqlearn.checks import finite_number
from mqlearn.errors import SettingError, nearest
from mqlearn.paths import followed
from mqlearn.problems.arrays import from_arrays, from_outcomes
from mqlearn.problems.mdp import FiniteMDP

_DENSE, _LISTED = ("P", "R"), ("successors", "probabilities", "rewards")
_OPTIONAL = ("admissible", "terminal", "start", "discount", "axes")
_PAIRS = ("s_indices", "a_indices")
_SPARSE = ("P_data", "P_indices", "P_indptr", "P_shape")
_KNOWN = (*_DENSE, *_LISTED, *_OPTIONAL, *_PAIRS, *_SPARSE, "R_data")
# What other libraries call these, where our own name is not there. `rewards` is R beside P alone.
_USUAL = {
    "P": ("transitions", "transition_probabilities", "T", "Q"),
    "R": ("rewards", "reward"),
    "discount": ("gamma", "beta"),
}
# By the ending of a file: the lines that make a .npz of it, after `import numpy as np`.
_LINES = {
    ".npy": 'np.savez("m.npz", P=np.load("P.npy"), R=np.load("R.npy"), axes="xuy")',
    ".mat": 'm = scipy.io.loadmat("m.mat"); np.savez("m.npz", P=m["P"].transpose(0, 2, 1), R=m["R"], axes="xuy")  '
    "# of P (state, successor, action), R (state, action)",
    ".csv": 'x, u, y, p, r = np.loadtxt("m.csv", delimiter=",", skiprows=1).T; '
    "x, u, y = x.astype(int), u.astype(int), y.astype(int); S, A = max(x.max(), y.max()) + 1, u.max() + 1; "
    "P, R = np.zeros((S, A, S)), np.zeros((S, A, S)); np.add.at(P, (x, u, y), p); R[x, u, y] = r; "
    'np.savez("m.npz", P=P, R=R, axes="xuy")  # of columns state, action, successor, probability, reward',
    ".tra": 'x, u, y, p = np.loadtxt("m.tra", skiprows=1, usecols=(0, 1, 2, 3)).T; '
    "x, u, y = x.astype(int), u.astype(int), y.astype(int); S, A = max(x.max(), y.max()) + 1, u.max() + 1; "
    "P, R = np.zeros((S, A, S)), np.zeros((S, A)); np.add.at(P, (x, u, y), p); "
    'np.savez("m.npz", P=P, R=R, axes="xuy")  # of an MDP of PRISM; R is yours to fill, from its .trew',
    ".pomdp": 'np.savez("m.npz", P=T, R=R, axes="uxy")  # of T (action, state, successor) and R (action, state), as '
    "its T: and R: lines give them; observations are left out",
}


def from_file(
    path: str, content: str | None = None, axes: str | None = None, *, discount: float | None = None
) -> FiniteMDP:
    """The model in a .npz or .json file.

    path: of the file.   content: its SHA-256, as a run records it, so that a rerun refuses a file that has changed.
    axes: "xuy" or "uxy", the order of the axes, as of `from_arrays`; must be that of the file, if it has one.
    discount: must be that of the file, if it has one. Raises SettingError, which names the file and the row at fault.
    """
    found = sha256(path)
    if content is not None and found != content:
        changed = f"has changed: its SHA-256 is {found[:16]}, that of the recorded run is {str(content)[:16]}"
        raise SettingError(
            "env.path", path, f"{changed}; put the old file back, or start a new run with env.content=null"
        )
    fields = _named(path, _matrices(path, _read(path)))
    discount = _agreed(path, fields.pop("discount", None), discount)
    axes = _order(path, fields.pop("axes", None), axes)
    make, names = (from_arrays, _DENSE) if "P" in fields else (from_outcomes, _LISTED)
    missing = [name for name in names if name not in fields]
    unknown = [name for name in fields if name not in (*names, *_OPTIONAL, *(_PAIRS if make is from_arrays else ()))]
    if missing or unknown:
        wrong = [f"it has no {name}" for name in missing]
        wrong += [f"{name} is unknown or does not go with {names[0]}{nearest(name, _KNOWN)}" for name in unknown]
        raise SettingError("env.path", path, f"must have {', '.join(names)}: {'; '.join(wrong)}")
    given = {name: fields.pop(name) for name in names}
    try:
        if names == _LISTED:
            given = _even(given)
        return make(*given.values(), **fields, axes=axes, discount=discount, name=f"file {Path(path).name}")
    except SettingError as error:
        if error.setting == "discount":
            raise
        named = error.setting == "axes"
        setting, value, text = ("env.axes", error.value, error.admissible) if named else ("env.path", path, str(error))
        raise SettingError(setting, value, re.sub(r'\baxes="(\w+)"', r"env.axes=\1", text)) from None


def _named(path: str, fields: dict[str, Any]) -> dict[str, Any]:
    """The fields, usual names of other libraries replaced by ours."""
    listed = "successors" in fields
    for name, usual in _USUAL.items():
        there = [other for other in usual if other in fields and not (listed and name != "discount")]
        if len(there) + (name in fields) > 1:
            raise SettingError("env.path", path, f"must have one of {', '.join([name] * (name in fields) + there)}")
        if there:
            fields[name] = fields.pop(there[0])
    return fields


def _matrices(path: str, fields: dict[str, Any]) -> dict[str, Any]:
    """The fields, arrays of sparse matrices as matrices. Raises SettingError."""
    given = [name for name in _SPARSE if name in fields]
    if not given:
        return fields
    from scipy import sparse

    data, indices, indptr, shape = (np.asarray(fields.pop(name, ())) for name in _SPARSE)
    more = [fields.pop("R_data")] if "R_data" in fields else []
    try:
        if len(given) < len(_SPARSE):
            raise ValueError(f"it has {', '.join(given)} of {', '.join(_SPARSE)}")
        rows, columns = map(int, shape)
        made = []
        for values in (data, *map(np.asarray, more)):
            matrix = sparse.csr_array((values, indices, indptr), shape=(rows, columns))
            matrix.check_format()
            made.append(matrix)
    except (TypeError, ValueError) as error:
        expected = f"must have the arrays of one sparse matrix in rows, as {', '.join(_SPARSE)}: {error}"
        raise SettingError("env.path", path, expected) from None
    return {**fields, **dict(zip(_DENSE, made, strict=False))}


def _order(path: str, own: Any, axes: Any) -> Any:
    """The order of the axes, on which the file and the setting agree."""
    if own is None:
        return axes
    own = np.asarray(own).item() if np.ndim(own) == 0 else own
    if axes is not None and axes != own:
        raise SettingError("env.axes", axes, f"must be that of {path}, {own!r}, or the file must have none")
    return own


def _agreed(path: str, own: Any, discount: float | None) -> float:
    """The discount, on which the file and the setting agree."""
    if own is None and discount is None:
        raise SettingError("discount", None, f"must be given: {path} has none")
    if own is None:
        return discount  # type: ignore[return-value]  # not None: see above
    number = finite_number(np.asarray(own).item()) if np.ndim(own) == 0 else None
    if number is None:
        raise SettingError("env.path", path, f"discount={own} must be a number")
    if discount is not None and number != discount:
        raise SettingError("discount", discount, f"must be that of {path}, {number:g}, or the file must have none")
    return number


def sha256(path: str) -> str:
    """Hexadecimal SHA-256 of a file's content. Raises SettingError."""
    try:
        with files.ordinary(Path(path)) as file:
            return hashlib.sha256(file.read()).hexdigest()
    except (OSError, TypeError, ValueError) as error:
        raise SettingError("env.path", path, f"cannot be read ({getattr(error, 'strerror', error)})") from None


def pinned(env: Any) -> Any:
    """The settings of `env=file` with the absolute path and the content of the file, so that a run can be repeated."""
    if not isinstance(env, dict) or env.get("_target_") != "mqlearn.from_file" or env.get("content") is not None:
        return env
    try:
        path, content = str(followed(env["path"])), sha256(env["path"])
        return {"axes": None} | env | {"path": path, "content": content}  # without axes, a record is one of before them
    except (SettingError, KeyError, TypeError):
        return env  # refused where the model is made


def _read(path: str) -> dict[str, Any]:
    suffix = Path(path).suffix
    if suffix not in (".npz", ".json"):
        lines = _LINES.get(suffix.lower())
        how = f"; in Python, after `import numpy as np`: {lines}" if lines else ""
        raise SettingError("env.path", path, f"must end in .npz or .json{how}")
    try:
        if Path(path).suffix == ".npz":
            return dict(files.arrays(Path(path)))
        fields = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:  # not JSON, not UTF-8, objects in arrays
        raise SettingError("env.path", path, f"cannot be read as {Path(path).suffix[1:]} ({error})") from None
    if not isinstance(fields, Mapping):
        raise SettingError("env.path", path, f"must be an object with {', '.join(_DENSE)} or {', '.join(_LISTED)}")
    return dict(fields)


def _even(lists: dict[str, Any]) -> dict[str, Any]:
    """Nested lists [state][action][outcome] of unequal lengths, filled up with 0."""
    if not all(isinstance(value, list) for value in lists.values()):
        return lists

    def lengths(value: list) -> tuple[int, int, int]:
        rows = [row for state in value if isinstance(state, list) for row in state]
        deep = [len(row) for row in rows if isinstance(row, list)]
        return (
            len(value),
            max((len(state) for state in value if isinstance(state, list)), default=0),
            max(deep, default=0),
        )

    shape = tuple(np.max([lengths(value) for value in lists.values()], axis=0).tolist())

    def filled(name: str, value: list) -> np.ndarray:
        flat = all(not isinstance(row, list) for state in value if isinstance(state, list) for row in state)
        array = np.zeros(shape[:2] if flat else shape)
        try:
            for x, state in enumerate(value):
                for u, row in enumerate(state):
                    if flat:
                        array[x, u] = row
                    else:
                        array[x, u, : len(row)] = row
        except (TypeError, ValueError):
            expected = "must be lists of numbers: [state][action][outcome]"
            raise SettingError(f"{name}[state {x}]", state, expected) from None
        return array

    return {name: filled(name, value) for name, value in lists.items()}
