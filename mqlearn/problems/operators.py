"""Fixed points of operators other than Bellman's on an exact model, solved from the numbers that an operator states.

    (T Q)(x, u) = reward R(x, u) + ahead E V(y) + here V(x) + own Q(x, u) + common s

An operator (see `mqlearn.algorithms.operators`) is asked for these five numbers, and for its map to Q*. V and its
slopes are its formula, run over all states by `compiled_operators`. The fixed point is found by Newton steps from Q*:
where V is a maximum they are policy iteration, where it is smooth they converge quadratically. What is found is
certified by its residual. Where LU would fill up, plain iteration takes the place of the steps. scipy costs
start-up time, so it is imported inside the functions.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from mqlearn.problems import sweeps
from mqlearn.problems.mdp import FiniteMDP, expected, greedy, state_values, table_of_pairs
from mqlearn.problems.solvers import ConvergenceError, Optimum, optimal
from mqlearn.rounding import SOLVES, Rounding, of_discount

_STEPS = 60
_SWEEPS = 200_000  # of plain iteration, where Newton steps go round in a circle
_EXACT = 1e-13  # residual, relative to the largest value, at which steps end,
_CERTIFIED = 1e-10  # and which is the largest of a fixed point


class Facts:
    """What an operator asks of a model, each computed when it is asked for."""

    def __init__(self, mdp: FiniteMDP) -> None:
        self._mdp = mdp
        self.discount: float = mdp.discount

    @property
    def terminal(self) -> bool:
        """Whether there are terminal states."""
        return bool(self._mdp.terminal.any())

    @property
    def stay(self) -> float:
        """min P(x | x, u) over the learned pairs."""
        same = self._mdp.successors == np.arange(self._mdp.n_states)[:, None, None]
        return float((self._mdp.probabilities * same).sum(2)[self._mdp.learned].min())

    @property
    def largest_reward(self) -> float:
        """max |r| of what can happen at the learned pairs."""
        return float(np.abs(self._paid).max(initial=0.0))

    @property
    def no_costs(self) -> bool:
        """Whether no r that can happen is negative."""
        return bool(self._paid.min(initial=0.0) >= 0)

    @property
    def largest_value(self) -> float:
        """max |V*| over the states that can be reached in one step from a learned pair."""
        reached = self._mdp.successors[(self._mdp.probabilities > 0) & self._mdp.learned[:, :, None]]
        return float(np.abs(optimal(self._mdp).v[reached]).max(initial=0.0))

    @property
    def _paid(self) -> np.ndarray:
        return self._mdp.rewards[(self._mdp.probabilities > 0) & self._mdp.learned[:, :, None]]


@dataclass(frozen=True, eq=False, repr=False)
class OperatorPoint:
    """The fixed point q (S, A) of an operator, and what it is worth.

    residual: sup norm of T q - q over the learned pairs.   error_bound: a bound on the sup norm of the error of q,
    residual / (1 - contraction); None where no contraction in this norm is proven.   distance: sup norm of q - Q* over
    the counted pairs.   mapped: of Q* as it follows from q, minus Q*; None where q does not decide Q*.
    """

    q: np.ndarray
    residual: float
    error_bound: float | None
    distance: float
    mapped: float | None

    def __repr__(self) -> str:
        return f"OperatorPoint({self.distance:.6g} from Q*, residual {self.residual:.2g})"


_points: WeakKeyDictionary[FiniteMDP, dict[Any, OperatorPoint]] = WeakKeyDictionary()


def values(mdp: FiniteMDP, operator: Any, q: np.ndarray) -> np.ndarray:
    """V (..., S) of tables q (..., S, A), 0 at terminal states."""
    if operator.greedy:
        return state_values(mdp, q)
    from mqlearn.problems import compiled_operators

    return compiled_operators.values(mdp, operator, q)


def slopes(mdp: FiniteMDP, operator: Any, q: np.ndarray) -> np.ndarray:
    """(S, A): the derivative of V in the values of its own state, 0 at pairs not learned. q (S, A)."""
    if operator.greedy:
        chosen = np.arange(mdp.n_actions) == greedy(mdp, q)[:, None]
        return np.where(mdp.learned, 1.0 * chosen, 0.0)
    from mqlearn.problems import compiled_operators

    return compiled_operators.slopes(mdp, operator, q)


def apply(mdp: FiniteMDP, operator: Any, q: np.ndarray) -> np.ndarray:
    """T q with exact expectations, 0 at pairs not learned. q (..., S, A)."""
    v, s = values(mdp, operator, q), 0.0
    if operator.scalar != "none":
        s = _scalar(mdp, operator, q, v)[..., None, None]
    made = operator.numbers(mdp.discount).target(mdp.mean_rewards, expected(mdp, v), v[..., None], q, s)
    return np.where(mdp.learned, made, 0.0)


def fixed_point(mdp: FiniteMDP, operator: Any) -> OperatorPoint:
    """The fixed point of an operator that is ready for this model. Computed once for each. Raises ConvergenceError."""
    known = _points.setdefault(mdp, {})
    if operator not in known:
        known[operator] = _solved(mdp, operator)
    return known[operator]


def rounding(mdp: FiniteMDP, operator: Any) -> Rounding:
    """Of the fixed point of an operator that is ready for this model. With Q(x, u) in its target, what a step moves is
    1 - own of the difference; where no contraction is proven, the discount stands for one, and if that is 1 the
    expected moves to an end."""
    point, contraction = fixed_point(mdp, operator), operator.contraction(Facts(mdp))
    if contraction is None and mdp.discount == 1:
        solve = _system(mdp, operator, point.q, _seen(mdp, operator))
        condition = 2 * float(np.abs(solve(np.ones(len(mdp.pairs)))).max())
    else:
        condition = of_discount(mdp.discount if contraction is None else contraction)
    own = operator.numbers(mdp.discount).own
    scale = max(float(np.abs(point.q).max()), float(np.abs(mdp.rewards).max()))
    return Rounding((SOLVES,), condition / (1 - own), scale)


def _scalar(mdp: FiniteMDP, operator: Any, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """s (...) of tables q (..., S, A) and their V."""
    if operator.scalar == "mean":
        return q[..., mdp.learned].mean(-1)
    return v[..., _counting(mdp, operator)].min(-1)


def _counting(mdp: FiniteMDP, operator: Any) -> np.ndarray:
    """(S,) bool: the states of which s is the least V."""
    return np.ones(mdp.n_states, bool) if operator.counts_terminals else ~mdp.terminal


def _solved(mdp: FiniteMDP, operator: Any) -> OperatorPoint:
    optimum = optimal(mdp)
    contraction = operator.contraction(Facts(mdp))
    if sweeps.fills_up(mdp):
        q, residual = optimum.q, np.inf
    else:
        q, residual = _newton(mdp, operator, optimum.q)
    scale = max(float(np.abs(q).max()), float(np.abs(mdp.rewards).max()))
    if residual > _CERTIFIED * scale and contraction is not None:
        q, residual = _iterated(mdp, operator, q)
    if not residual <= _CERTIFIED * scale:
        name = type(operator).__name__
        raise ConvergenceError(f"the fixed point of {name} on {mdp.name} was not found (residual {residual:.3g})")
    q.flags.writeable = False
    bound = None if contraction is None else residual / (1 - contraction)
    distance = float(np.abs(q - optimum.q)[mdp.counted].max())
    return OperatorPoint(q, residual, bound, distance, _mapped(mdp, operator, q, optimum))


def _mapped(mdp: FiniteMDP, operator: Any, q: np.ndarray, optimum: Optimum) -> float | None:
    """How far what the fixed point says of Q* is from Q*."""
    known = operator.to_optimum(q, state_values(mdp, q), float(q[mdp.learned].mean()), mdp.discount)
    return None if known is None else float(np.abs(known - optimum.q)[mdp.learned].max())


def _residual(mdp: FiniteMDP, operator: Any, q: np.ndarray) -> np.ndarray:
    return (apply(mdp, operator, q) - q)[mdp.learned]


def _newton(mdp: FiniteMDP, operator: Any, q: np.ndarray) -> tuple[np.ndarray, float]:
    """The table of least residual on the way from q (S, A), and this residual."""
    best, least = q.copy(), float(np.abs(_residual(mdp, operator, q)).max())
    seen = _seen(mdp, operator)
    for _ in range(_STEPS):
        change = _step(mdp, operator, q, seen)
        if change is None:
            break
        q = q + table_of_pairs(mdp, change)
        residual = float(np.abs(_residual(mdp, operator, q)).max())
        if residual < least:
            best, least = q, residual
        if residual <= _EXACT * np.abs(q).max() or np.abs(change).max() <= _EXACT * np.abs(q).max():
            break
    return best.copy(), least


def _seen(mdp: FiniteMDP, operator: Any) -> Any:
    """(n, S) sparse: with what weight T looks at V of each state, from each learned pair; the same for all tables."""
    from scipy import sparse

    numbers = operator.numbers(mdp.discount)
    x, u = mdp.pairs.T
    n, rows = len(x), np.arange(len(x))
    b = mdp.n_successors
    moves = sparse.csr_array(
        (mdp.probabilities[x, u].ravel(), (np.repeat(rows, b), mdp.successors[x, u].ravel())), shape=(n, mdp.n_states)
    )
    own_state = sparse.csr_array((np.ones(n), (rows, x)), shape=(n, mdp.n_states))
    return numbers.ahead * moves + numbers.here * own_state


def _step(mdp: FiniteMDP, operator: Any, q: np.ndarray, seen: Any) -> np.ndarray | None:
    """The Newton step (n,) over the learned pairs: (I - T'(q))^-1 (T q - q). None for a singular system.

    seen: `_seen`.   With s, T' is a sparse matrix plus a matrix of rank one (Sherman and Morrison 1950).
    """
    numbers = operator.numbers(mdp.discount)
    n = len(mdp.pairs)
    of_states = _of_states(mdp, operator, q)
    try:
        solve = _system(mdp, operator, q, seen)
    except RuntimeError:
        return None
    change = solve(_residual(mdp, operator, q))
    if operator.scalar != "none":
        if operator.scalar == "mean":
            slope = np.full(n, 1 / n)  # of s
        else:
            v = np.where(_counting(mdp, operator), values(mdp, operator, q), np.inf)
            slope = of_states[[int(v.argmin())]].toarray()[0]
        ones = solve(np.ones(n))
        change = change + numbers.common * (slope @ change) / (1 - numbers.common * (slope @ ones)) * ones
    return change if np.isfinite(change).all() else None


def _of_states(mdp: FiniteMDP, operator: Any, q: np.ndarray) -> Any:
    """(S, n) sparse: the derivative of V of each state in the values of the learned pairs."""
    from scipy import sparse

    x, u = mdp.pairs.T
    places = x, np.arange(len(x))
    return sparse.csr_array((slopes(mdp, operator, q)[x, u], places), shape=(mdp.n_states, len(x)))


def _system(mdp: FiniteMDP, operator: Any, q: np.ndarray, seen: Any) -> Callable[[np.ndarray], np.ndarray]:
    """Solves with I - T'(q) (n, n), but for s. Raises RuntimeError where it is singular."""
    from scipy import sparse
    from scipy.sparse.linalg import splu

    own = operator.numbers(mdp.discount).own
    matrix = (1 - own) * sparse.eye_array(len(mdp.pairs)) - seen @ _of_states(mdp, operator, q)
    return splu(sparse.csc_array(matrix)).solve


def _iterated(mdp: FiniteMDP, operator: Any, q: np.ndarray) -> tuple[np.ndarray, float]:
    """q <- T q until it rests."""
    residual = np.inf
    for _ in range(_SWEEPS):
        q, last = apply(mdp, operator, q), q
        residual = float(np.abs(q - last).max())
        if residual <= _EXACT * np.abs(q).max():
            break
    return q, float(np.abs(_residual(mdp, operator, q)).max())
