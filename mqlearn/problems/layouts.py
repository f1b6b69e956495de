"""The forms in which other libraries keep P and R, brought to that of this package: (state, action, successor).

Orders of the axes, sparse matrices, lists of state-action pairs, and rewards of -inf at pairs that there are not.
"""

from typing import Any, NamedTuple

import numpy as np

from mqlearn.checks import OUTCOME_BYTES, choice, fits_memory
from mqlearn.errors import SettingError

AXES = {"xuy": "(state, action, successor)", "uxy": "(action, state, successor)"}
_DISCRETE_DP = "mq.from_arrays(d.Q, d.R, s_indices=d.s_indices, a_indices=d.a_indices, discount=d.beta)"


class Arrays(NamedTuple):
    """p (S, A, B) of the successors y, (B,) or (S, A, B); rewards r (S, A) or (S, A, B).

    admissible (S, A) bool; None: not given.
    """

    p: np.ndarray
    y: np.ndarray
    r: np.ndarray
    admissible: Any


def arrays(P: Any, R: Any, axes: str | None, admissible: Any, s_indices: Any, a_indices: Any) -> Arrays:
    """P and R in any form that `mqlearn.from_arrays` takes. Raises SettingError."""
    if axes is not None:
        choice("axes", axes, tuple(AXES))
    if hasattr(P, "a_indices") and hasattr(P, "beta"):  # of QuantEcon
        raise SettingError("P", type(P).__name__, f"must be an array; with d the {type(P).__name__}: {_DISCRETE_DP}")
    if s_indices is not None or a_indices is not None:
        for name, given in (("axes", axes), ("admissible", admissible)):
            if given is not None:
                expected = "does not go with s_indices and a_indices, which name the admissible pairs"
                raise SettingError(name, given if name == "axes" else "an array", expected)
        return _of_pairs(P, R, s_indices, a_indices)
    if sparse_list(P):
        return _of_sparse(P, R, axes, admissible)
    if hasattr(P, "tocoo"):
        return _of_rows(P, R, axes, admissible)
    p, r = floats("P", P), _dense("R", R)
    check_shapes(p.shape, r.shape, axes)
    p, r, admissible = ordered(p, axes), ordered(r, axes), ordered(admissible, axes)
    r, admissible = feasible("R", r, finite("P", p), admissible)
    return Arrays(p, np.arange(len(p)), r, admissible)


def ordered(array: Any, axes: str | None) -> Any:
    """The array, its first two axes in the order (state, action)."""
    return array if array is None or axes != "uxy" or np.ndim(array) < 2 else np.swapaxes(array, 0, 1)


def check_shapes(p: tuple[int, ...], r: tuple[int, ...], axes: str | None) -> None:
    """SettingError for shapes of P and R that are not in the order of `axes`; None is xuy."""
    order = axes or "xuy"
    x, u = order.index("x"), order.index("u")
    if len(p) != 3 or 0 in p or p[x] != p[2]:
        expected = f"must have the shape {'(S, A, S)' if order == 'xuy' else '(A, S, S)'}, its axes {AXES[order]}"
        if len(p) == 3 and p[u] == p[2]:
            other = "uxy" if order == "xuy" else "xuy"
            expected += f'; this looks like {AXES[other]}: give axes="{other}"'
        raise SettingError("P", f"array of shape {p}", expected)
    if r not in (p, p[:2]):
        pair = AXES[order].replace(", successor", "")
        expected = f"must have the shape {p[:2]}, its axes {pair}, or {p}, its axes {AXES[order]}"
        if r == p[1::-1]:
            expected += f"; this looks like ({', '.join(reversed(pair[1:-1].split(', ')))}): give R.T"
        elif len(r) == 1 and r[0] == p[x]:
            expected += f"; rewards of states alone: give np.repeat(R[:, None], {p[u]}, axis=1)"
            expected += ".T" if order == "uxy" else ""
        raise SettingError("R", f"array of shape {r}", expected)


def feasible(name: str, r: np.ndarray, p: np.ndarray, admissible: Any) -> tuple[np.ndarray, Any]:
    """Finite rewards, and the pairs that are admissible (S, A): a reward of -inf says that a pair is not.

    r (S, A) or (S, A, B).   p (S, A, B).   admissible: as it was given. Raises SettingError for a -inf of some outcomes
    of a pair alone, and for one at a pair that `admissible` has.
    """
    never = r == -np.inf
    if not never.any():
        return finite(name, r), admissible
    if r.ndim == 3:
        never_at_all = never.all(2)
        expected = "must be finite, or -inf for all successors of a pair that is not admissible"
        refuse(name, r, never & ~never_at_all[:, :, None] & (p > 0), expected)
    else:
        never_at_all = never
    r = finite(name, np.where(never, 0.0, r))
    if admissible is None:
        return r, np.asarray(p.any(2)) & ~never_at_all
    given = flags("admissible", admissible, never_at_all.shape)
    expected = "says that the pair is not admissible, and `admissible` that it is: admissible[R == -np.inf] = False"
    refuse(name, np.where(never_at_all, -np.inf, 0.0), never_at_all & given, expected)
    return r, given


def _of_pairs(Q: Any, R: Any, s_indices: Any, a_indices: Any) -> Arrays:
    """Of rewards (L,) and probabilities (L, S) of L pairs, the form of QuantEcon's DiscreteDP."""
    q = Q if hasattr(Q, "tocoo") else floats("P", Q)
    r, x, u = _dense("R", R), _indices("s_indices", s_indices), _indices("a_indices", a_indices)
    if q.ndim != 2 or not x.shape == u.shape == r.shape == q.shape[:1] or 0 in q.shape:
        expected = "must be R (L,), P (L, S), s_indices (L,) and a_indices (L,) of L state-action pairs"
        raise SettingError("shapes", f"{r.shape}, {q.shape}, {x.shape}, {u.shape}", expected)
    n_states, n_actions = q.shape[1], int(u.max()) + 1
    refuse("s_indices", x, x >= n_states, f"must be a state from 0 to {n_states - 1}", axes=("pair",))
    pair = x * n_actions + u
    twice = np.ones(len(pair), bool)
    twice[np.unique(pair, return_index=True)[1]] = False
    words = "is the same pair (state, action) as another one: each has one row"
    refuse("s_indices", x, twice, words, axes=("pair",))
    rewards, admissible = np.zeros((n_states, n_actions)), np.zeros((n_states, n_actions), bool)
    rewards[x, u], admissible[x, u] = r, True
    at, y, p = _entries(q)
    y, p, _ = _rows(x[at], u[at], y, p, None, (n_states, n_actions))
    given = np.where(rewards == -np.inf, False, admissible)
    return Arrays(p, y, feasible("R", rewards, p, given)[0], given)


def _of_sparse(P: Any, R: Any, axes: str | None, admissible: Any) -> Arrays:
    """Of a list of sparse matrices, of each action (S, S) or of each state (A, S)."""
    shape = (len(P), *P[0].shape)
    if len({matrix.shape for matrix in P}) > 1 or P[0].ndim != 2:
        raise SettingError("P", "a list of sparse matrices", "must be matrices of one shape, (n, S)")
    listed = sparse_list(R)
    r = None if listed else _dense("R", R)
    r_shape = (len(R), *R[0].shape) if r is None else r.shape
    check_shapes(shape, r_shape, axes)
    of_each = [_entries(matrix) for matrix in P]
    first = np.repeat(np.arange(len(P)), [len(p) for *_, p in of_each])
    second, y, p = (np.concatenate(parts) for parts in zip(*of_each, strict=True))
    at_outcome = None
    if r is None:
        values = [np.asarray(matrix.tocsr()[i, j]).ravel() for matrix, (i, j, _) in zip(R, of_each, strict=True)]
        at_outcome = np.concatenate(values).astype(float)
    elif r.ndim == 3:
        at_outcome = r[first, second, y]
    x, u = (second, first) if axes == "uxy" else (first, second)
    sizes = (shape[1], shape[0]) if axes == "uxy" else (shape[0], shape[1])
    y, p, rewards = _rows(x, u, y, p, at_outcome, sizes)
    if rewards is None:
        rewards = ordered(r, axes)
    rewards, admissible = feasible("R", rewards, p, ordered(admissible, axes))
    return Arrays(p, y, rewards, admissible)


def _of_rows(P: Any, R: Any, axes: str | None, admissible: Any) -> Arrays:
    """Of one sparse matrix with a row for each pair (S A, S), by states, or with axes="uxy" by actions; R (S, A), or of
    the shape of P and sparse too."""
    n_rows, n_states = P.shape if len(P.shape) == 2 else (0, 0)
    if 0 in (n_rows, n_states) or n_rows % n_states:
        expected = (
            "must have the shape (S A, S): row x A + u for state x and action u, with axes='uxy' row u S + x; or be "
            "a list of matrices (S, S), one an action, with axes='uxy'"
        )
        raise SettingError("P", f"sparse matrix of shape {P.shape}", expected)
    n_actions = n_rows // n_states
    row, y, p = _entries(P)
    u, x = np.divmod(row, n_states) if axes == "uxy" else np.divmod(row, n_actions)[::-1]
    of_each = hasattr(R, "tocoo") and R.shape == P.shape
    r = None if of_each else _dense("R", R)
    shape = (n_actions, n_states) if axes == "uxy" else (n_states, n_actions)
    if r is not None and r.shape != shape:
        pair = AXES[axes or "xuy"].replace(", successor", "")
        expected = f"must have the shape {shape}, its axes {pair}, or be sparse and of the shape {P.shape}"
        raise SettingError("R", f"array of shape {r.shape}", expected)
    at_outcome = np.asarray(R.tocsr()[row, y], float).ravel() if of_each else None
    y, p, rewards = _rows(x, u, y, p, at_outcome, (n_states, n_actions))
    rewards, admissible = feasible("R", ordered(r, axes) if rewards is None else rewards, p, ordered(admissible, axes))
    return Arrays(p, y, rewards, admissible)


def _rows(
    x: np.ndarray, u: np.ndarray, y: np.ndarray, p: np.ndarray, r: np.ndarray | None, sizes: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Entries (n,) as arrays (S, A, B), filled up as a dense P is: with the first impossible successors."""
    n_states, n_actions = sizes
    pair = x.astype(np.int64) * n_actions + u
    b = max(1, int(np.bincount(pair, minlength=1).max(initial=0)))
    what = "the model's arrays (S, A, B), with B the successors that the fullest row of P has,"
    fits_memory("B", b, lambda n: OUTCOME_BYTES * n_states * n_actions * n, what)
    pairs = np.arange(n_states * n_actions)
    low = np.arange(min(b, n_states))
    code = np.concatenate([pair * n_states + y, (pairs[:, None] * n_states + low).ravel()])
    code, entry = np.unique(code, return_index=True)  # those of the matrix come before the filling
    real = entry < len(pair)
    order = np.lexsort((code, ~real, code // n_states))
    code, entry, real = code[order], entry[order], real[order]
    owner = code // n_states
    slot = np.arange(len(owner)) - np.searchsorted(owner, owner)
    kept = slot < b
    at = owner[kept], slot[kept]
    shape = (n_states * n_actions, b)
    successors, probabilities = np.zeros(shape, np.int64), np.zeros(shape)
    successors[at] = code[kept] % n_states
    source = np.where(real, entry, 0)[kept]
    probabilities[at] = np.where(real[kept], p[source], 0.0) if len(p) else 0.0
    full = (n_states, n_actions, b)
    if r is None:
        return successors.reshape(full), probabilities.reshape(full), None
    rewards = np.zeros(shape)
    rewards[at] = np.where(real[kept], r[source], 0.0) if len(p) else 0.0
    return successors.reshape(full), probabilities.reshape(full), rewards.reshape(full)


def sparse_list(given: Any) -> bool:
    """Whether this is a list (or an object array) of SciPy's sparse matrices."""
    listed = isinstance(given, list | tuple) or (isinstance(given, np.ndarray) and given.dtype == object)
    return listed and len(given) > 0 and all(hasattr(matrix, "tocoo") for matrix in given)


def _entries(matrix: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Row, column and value of the entries that are not 0, of a matrix, sparse or not."""
    if hasattr(matrix, "tocoo"):
        whole = matrix.tocsr(copy=True)
        whole.sum_duplicates()
        whole = whole.tocoo()
        i, j, values = whole.coords[0], whole.coords[1], floats("P", whole.data)
    else:
        i, j = np.nonzero(matrix)
        values = matrix[i, j]
    finite("P", values, axes=("entry",))
    kept = values != 0
    return i[kept], j[kept], values[kept]


def _dense(name: str, given: Any) -> np.ndarray:
    """An array of floats, of a list of sparse matrices too."""
    if sparse_list(given):
        given = [matrix.toarray() for matrix in given]
    return floats(name, given.toarray() if hasattr(given, "toarray") else given)


def _indices(name: str, given: Any) -> np.ndarray:
    array = numbers(name, [] if given is None else given)
    wrong = (array < 0) | (array != np.floor(array)) | (array >= 2**31)
    refuse(name, array, wrong, "must be a whole number from 0", axes=("pair",))
    return array.astype(np.int64)


def flags(name: str, given: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Truth values of this shape, or 0 and 1. Raises SettingError."""
    array = np.asarray(given)
    if array.shape != shape or not (array.dtype == bool or np.isin(array, (0, 1)).all()):
        raise SettingError(name, f"array of {array.dtype} of shape {array.shape}", f"must be truth values {shape}")
    return array.astype(bool)


def numbers(name: str, given: Any) -> np.ndarray:
    """Finite numbers as an array of floats. Raises SettingError."""
    return finite(name, floats(name, given))


def floats(name: str, given: Any) -> np.ndarray:
    try:
        array = np.asarray(given)
    except ValueError:
        raise SettingError(name, "ragged nested list", "must be an array") from None
    if array.dtype.kind not in "biuf":
        raise SettingError(name, f"array of {array.dtype}", "must be an array of numbers")
    return array.astype(float)


def finite(name: str, array: np.ndarray, axes: tuple[str, ...] = ("state", "action", "entry")) -> np.ndarray:
    """The array, if all of it is finite. Raises SettingError."""
    refuse(name, array, ~np.isfinite(array), "must be finite", axes)
    return array


def refuse(
    name: str,
    array: np.ndarray,
    wrong: np.ndarray,
    admissible: str,
    axes: tuple[str, ...] = ("state", "action", "entry"),
) -> None:
    """SettingError for the first entry at which `wrong` holds, which names its state and action."""
    if wrong.any():
        index = np.unravel_index(int(wrong.argmax()), wrong.shape)
        words = ", ".join(f"{axis} {i}" for axis, i in zip(axes, index, strict=False))
        raise SettingError(f"{name}[{words}]", array[index].item(), admissible)
