"""A FiniteMDP from the arrays in which other libraries keep theirs."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from mqlearn.checks import choice
from mqlearn.errors import SettingError
from mqlearn.problems.layouts import AXES, arrays, feasible, flags, floats, numbers, ordered, refuse
from mqlearn.problems.mdp import FiniteMDP, normalised


def from_arrays(
    P: Any,
    R: Any,
    *,
    discount: float,
    axes: str | None = None,
    start: Any = None,
    terminal: Any = None,
    admissible: Any = None,
    s_indices: Any = None,
    a_indices: Any = None,
    name: str = "arrays",
) -> FiniteMDP:
    """The model with transition probabilities P (S, A, S) and rewards R: means (S, A), or (S, A, S) of each successor.

    axes: "xuy", the order (state, action, successor), or "uxy", (action, state, successor), of P, R and `admissible`
    alike. None is xuy; it must be given where there are as many actions as states and both readings are models.
    P and R may be lists of SciPy's sparse matrices, with axes="uxy" one (S, S) an action; or P one sparse matrix
    (S A, S) with a row x A + u for each pair, with axes="uxy" u S + x, and R a table (S, A) or sparse as P. Nothing
    dense of (S, S) is made of them.   s_indices, a_indices (L,): state and action of L pairs, with R (L,) and P (L, S),
    as of QuantEcon's DiscreteDP; None: R and P are tables.
    terminal (S,) bool: states where an episode ends; their rows are 0 or stay, and they have no reward. None: no state.
    admissible (S, A) bool; None: the pairs whose row of P is not all zeros. A reward of -inf says that a pair is not
    admissible.   start: a state, or a distribution (S,); None: uniform over the states that are not terminal.
    discount: in (0, 1), or 1, see `FiniteMDP`.   name: for people. Probabilities of 0 are dropped.

    A row whose sum is off 1 by more than 1e-10, and at most 1e-6, is divided by it; that is in the model's `notes`, of
    which its runs warn. Raises SettingError for a larger error, for an order that is in doubt, and for what FiniteMDP
    refuses.

    >>> P = np.array([[[0.5, 0.5], [0.0, 1.0]], [[0.0, 1.0], [0.0, 0.0]]])  # the second action of state 1: inadmissible
    >>> mdp = mq.from_arrays(P, np.array([[5.0, 10.0], [-1.0, 0.0]]), axes="xuy", discount=0.5, start=0)
    >>> mq.optimal(mdp).v.round(6).tolist()
    [9.0, -2.0]
    """

    for setting, given in (("P", P), ("R", R), ("start", start), ("terminal", terminal), ("admissible", admissible)):
        if isinstance(given, np.ma.MaskedArray):
            expected = "must be a plain array; what is masked in R is not admissible if filled: R.filled(-numpy.inf)"
            raise SettingError(setting, "a masked array", expected)

    def read(order: str | None) -> FiniteMDP:
        p, y, r, allowed = arrays(P, R, order, admissible, s_indices, a_indices)
        closed = _flags("terminal", terminal, p.shape[:1], np.zeros(len(p), bool))
        allowed = _flags("admissible", allowed, p.shape[:2], np.asarray(p.any(2)))
        _check_pairs("P", p, y, r, allowed, closed)
        if y.ndim == 1:
            b = max(1, int((p != 0).sum(2).max()))
            y = np.argsort(p == 0, axis=2, kind="stable")[:, :, :b]  # possible ones first, in their order
            p, r = np.take_along_axis(p, y, 2), np.take_along_axis(r, y, 2) if r.ndim == 3 else r
        return from_outcomes(
            y, p, r, discount=discount, start=start, terminal=closed, admissible=allowed, name=name, array="P"
        )

    if axes is None and s_indices is None and a_indices is None:
        return _in_no_doubt(read, P)
    mdp = read(axes)
    if axes == "uxy" and mdp.n_states == mdp.n_actions and np.ndim(R) == 2:
        note = "R was read as (action, state), as axes says; where it is (state, action), as in pymdptoolbox, give R.T"
        mdp = replace(mdp, notes=(*mdp.notes, note))
    return mdp


def _in_no_doubt(read: Callable[[str | None], FiniteMDP], P: Any) -> FiniteMDP:
    """The model in the order xuy. Raises SettingError if it is one in the order uxy too, and another one."""
    mdp, wrong = None, None
    try:
        mdp = read(None)
    except SettingError as error:
        wrong = error
    try:
        other = read("uxy")
    except SettingError:
        other = None
    if wrong is not None:
        if other is None or "axes=" in wrong.admissible:
            raise wrong
        hint = '; as (action, state, successor) it is a model: axes="uxy"'
        raise SettingError(wrong.setting, wrong.value, wrong.admissible + hint)
    assert mdp is not None  # or it was wrong
    if other is not None and other.digest() != mdp.digest():
        why = "" if hasattr(P, "tocoo") else "there are as many actions as states and "
        expected = (
            f"must be given, as {why}P and R are a model in either order: "
            'axes="xuy" for (state, action, successor), axes="uxy" for (action, state, successor)'
        )
        raise SettingError("axes", None, expected)
    return mdp


def from_outcomes(
    successors: Any,
    probabilities: Any,
    rewards: Any,
    *,
    discount: float,
    axes: str | None = None,
    start: Any = None,
    terminal: Any = None,
    admissible: Any = None,
    name: str = "outcomes",
    array: str = "probabilities",
) -> FiniteMDP:
    """The model with successors and probabilities (S, A, B), and rewards (S, A) or (S, A, B); else as `from_arrays`.

    With axes="uxy" the first two axes of all are (A, S).   `array` is what messages call the probabilities.
    """
    if axes is not None:
        choice("axes", axes, tuple(AXES))
    y, p, r = numbers("successors", successors), numbers(array, probabilities), floats("rewards", rewards)
    if y.ndim != 3 or p.shape != y.shape or r.shape not in (y.shape, y.shape[:2]) or 0 in y.shape:
        expected = "successors and probabilities must have one shape (S, A, B), rewards that or (S, A)"
        raise SettingError("shapes", f"{y.shape}, {p.shape}, {r.shape}", expected)
    y, p, r, admissible = (ordered(given, axes) for given in (y, p, r, admissible))
    n_states, n_actions, _ = y.shape
    r, admissible = feasible("rewards", r, p, admissible)
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


def _check_pairs(
    array: str, p: np.ndarray, y: np.ndarray, r: np.ndarray, allowed: np.ndarray, closed: np.ndarray
) -> None:
    """Refuse what is wrong with single pairs, besides sums. y: successors, broadcast against p (S, A, B)."""
    refuse(array, p, p < 0, "must not be negative")
    per_outcome = r.ndim == 3
    none = ~allowed & ~closed[:, None]
    unused = none[:, :, None] if per_outcome else none
    refuse("R", r, unused & (r != 0), "is a reward of a pair that is not admissible: make it 0, or the pair admissible")
    ended = closed[:, None, None] & (p > 0) if per_outcome else closed[:, None]
    refuse("R", r, ended & (r != 0), "is a reward of a terminal state, which has none: make it 0")
    leaves = closed[:, None, None] & (p > 0) & (y != np.arange(len(p))[:, None, None])
    refuse(array, p, leaves, "leads out of a terminal state: make its rows 0")
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
    given = numbers("start", start)
    if given.ndim:
        return given
    state = float(given)
    if state != math.floor(state) or not 0 <= state < len(closed):
        expected = f"must be a state from 0 to {len(closed) - 1}, or a distribution over the states"
        raise SettingError("start", start, expected)
    return (np.arange(len(closed)) == int(state)).astype(float)


def _flags(name: str, given: Any, shape: tuple[int, ...], default: np.ndarray) -> np.ndarray:
    return default if given is None else flags(name, given, shape)
