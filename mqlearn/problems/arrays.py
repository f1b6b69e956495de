"""A FiniteMDP from the arrays in which other libraries keep theirs."""

import math
from typing import Any

import numpy as np

from mqlearn.errors import SettingError
from mqlearn.problems.mdp import FiniteMDP, normalised

_AXES = "(state, action, successor)"


def from_arrays(
    P: Any,
    R: Any,
    *,
    discount: float,
    start: Any = None,
    terminal: Any = None,
    admissible: Any = None,
    name: str = "arrays",
) -> FiniteMDP:
    """The model with transition probabilities P (S, A, S), its axes (state, action, successor).

    R: mean rewards (S, A), or rewards (S, A, S) of each successor.   terminal (S,) bool: states where an episode ends;
    their rows are 0 or stay, and they have no reward. None: no state.   admissible (S, A) bool; None: the pairs whose
    row of P is not all zeros.   start: a state, or a distribution (S,); None: uniform over the states that are not
    terminal. discount: in (0, 1).   name: for people. Probabilities of 0 are dropped.

    A row whose sum is off 1 by more than 1e-10, and at most 1e-6, is divided by it; that is in the model's `notes`, of
    which its runs warn. Raises SettingError for a larger error, and for what FiniteMDP refuses. Other libraries order
    P as (action, state, successor): give P.transpose(1, 0, 2).

    >>> P = np.array([[[0.5, 0.5], [0.0, 1.0]], [[0.0, 1.0], [0.0, 0.0]]])  # the second action of state 1: inadmissible
    >>> mdp = mq.from_arrays(P, np.array([[5.0, 10.0], [-1.0, 0.0]]), discount=0.5, start=0)
    >>> mq.optimal(mdp).v.round(6).tolist()
    [9.0, -2.0]
    """
    P, R = _numbers("P", P), _numbers("R", R)
    _check_axes(P, R)
    n_states, n_actions = P.shape[:2]
    closed = _flags("terminal", terminal, (n_states,), np.zeros(n_states, bool))
    allowed = _flags("admissible", admissible, (n_states, n_actions), np.asarray(P.any(2)))
    _check_pairs("P", P, np.arange(n_states), R, allowed, closed)
    b = max(1, int((P != 0).sum(2).max()))
    successors = np.argsort(P == 0, axis=2, kind="stable")[:, :, :b]  # possible ones first, in their order
    return from_outcomes(
        successors,
        np.take_along_axis(P, successors, 2),
        np.take_along_axis(R, successors, 2) if R.ndim == 3 else R,
        discount=discount,
        start=start,
        terminal=closed,
        admissible=allowed,
        name=name,
        array="P",
    )


def from_outcomes(
    successors: Any,
    probabilities: Any,
    rewards: Any,
    *,
    discount: float,
    start: Any = None,
    terminal: Any = None,
    admissible: Any = None,
    name: str = "outcomes",
    array: str = "probabilities",
) -> FiniteMDP:
    """The model with successors and probabilities (S, A, B), and rewards (S, A) or (S, A, B); else as `from_arrays`.

    `array` is what messages call the probabilities.
    """
    y, p, r = _numbers("successors", successors), _numbers(array, probabilities), _numbers("rewards", rewards)
    if y.ndim != 3 or p.shape != y.shape or r.shape not in (y.shape, y.shape[:2]) or 0 in y.shape:
        expected = "successors and probabilities must have one shape (S, A, B), rewards that or (S, A)"
        raise SettingError("shapes", f"{y.shape}, {p.shape}, {r.shape}", expected)
    n_states, n_actions, _ = y.shape
    closed = _flags("terminal", terminal, (n_states,), np.zeros(n_states, bool))
    allowed = _flags("admissible", admissible, (n_states, n_actions), np.asarray(p.any(2)))
    _check_pairs(array, p, y, r, allowed, closed)
    r = np.broadcast_to(r[:, :, None], y.shape) if r.ndim == 2 else r
    learned = allowed & ~closed[:, None]
    p, notes = normalised(np.where(learned[:, :, None], p, 0.0), learned, lambda x, u: _row(array, x, u))
    y, p = np.where(learned[:, :, None], y, np.arange(n_states)[:, None, None]), p.copy()
    p[closed, :, 0] = 1.0
    return FiniteMDP(
        successors=y if (y != np.floor(y)).any() else y.astype(np.int64),
        probabilities=p,
        rewards=np.where(learned[:, :, None] & (p > 0), r, 0.0),
        terminal=closed,
        admissible=allowed | closed[:, None],
        start=_start(start, closed),
        discount=discount,
        goal=np.zeros(n_states, bool),
        name=name,
        notes=notes,
    )


def _check_axes(P: np.ndarray, R: np.ndarray) -> None:
    if P.ndim != 3 or 0 in P.shape or P.shape[0] != P.shape[2]:
        expected = f"must have the shape (S, A, S), its axes {_AXES}"
        if P.ndim == 3 and P.shape[1] == P.shape[2]:
            expected += "; this looks like (action, state, successor): give P.transpose(1, 0, 2)"
        raise SettingError("P", f"array of shape {P.shape}", expected)
    if R.shape not in (P.shape, P.shape[:2]):
        expected = f"must have the shape {P.shape[:2]}, its axes (state, action), or {P.shape}, its axes {_AXES}"
        if R.shape == P.shape[1::-1]:
            expected += "; this looks like (action, state): give R.T"
        raise SettingError("R", f"array of shape {R.shape}", expected)


def _check_pairs(
    array: str, p: np.ndarray, y: np.ndarray, r: np.ndarray, allowed: np.ndarray, closed: np.ndarray
) -> None:
    """Refuse what is wrong with single pairs, besides sums. y: successors, broadcast against p (S, A, B)."""
    _refuse(array, p, p < 0, "must not be negative")
    per_outcome = r.ndim == 3
    none = ~allowed & ~closed[:, None]
    unused = none[:, :, None] if per_outcome else none
    _refuse(
        "R", r, unused & (r != 0), "is a reward of a pair that is not admissible: make it 0, or the pair admissible"
    )
    ended = closed[:, None, None] & (p > 0) if per_outcome else closed[:, None]
    _refuse("R", r, ended & (r != 0), "is a reward of a terminal state, which has none: make it 0")
    leaves = closed[:, None, None] & (p > 0) & (y != np.arange(len(p))[:, None, None])
    _refuse(array, p, leaves, "leads out of a terminal state: make its rows 0")
    idle = none.all(1)
    if idle.any():
        row = f"{array}[state {int(idle.argmax())}]"
        raise SettingError(row, 0, "has no admissible action: name the state in `terminal`, or give it a successor")


def _row(array: str, x: int, u: int) -> tuple[str, str]:
    """The name of the row of a pair, and words for it."""
    return f"{array}[state {x}, action {u}]", f"of state {x}, action {u}"


def _start(start: Any, closed: np.ndarray) -> np.ndarray:
    if start is None:
        return ~closed / max(1, np.count_nonzero(~closed))
    given = _numbers("start", start)
    if given.ndim:
        return given
    state = float(given)
    if state != math.floor(state) or not 0 <= state < len(closed):
        expected = f"must be a state from 0 to {len(closed) - 1}, or a distribution over the states"
        raise SettingError("start", start, expected)
    return np.eye(len(closed))[int(state)]


def _flags(name: str, given: Any, shape: tuple[int, ...], default: np.ndarray) -> np.ndarray:
    if given is None:
        return default
    array = np.asarray(given)
    if array.shape != shape or not (array.dtype == bool or np.isin(array, (0, 1)).all()):
        raise SettingError(name, f"array of {array.dtype} of shape {array.shape}", f"must be truth values {shape}")
    return array.astype(bool)


def _numbers(name: str, given: Any) -> np.ndarray:
    try:
        array = np.asarray(given)
    except ValueError:
        raise SettingError(name, "ragged nested list", "must be an array") from None
    if array.dtype.kind not in "biuf":
        raise SettingError(name, f"array of {array.dtype}", "must be an array of numbers")
    array = array.astype(float)
    _refuse(name, array, ~np.isfinite(array), "must be finite")
    return array


def _refuse(name: str, array: np.ndarray, wrong: np.ndarray, admissible: str) -> None:
    """SettingError for the first entry at which `wrong` holds, which names its state and action."""
    if wrong.any():
        place = np.unravel_index(int(wrong.argmax()), wrong.shape)
        words = ", ".join(f"{axis} {index}" for axis, index in zip(("state", "action", "entry"), place, strict=False))
        raise SettingError(f"{name}[{words}]", array[place].item(), admissible)
