"""Values by sweeps, for models on which sparse LU fills up: no matrix is factored, and memory is that of the model.

Sparse LU keeps few numbers where few states separate the others, as on a map; on a random graph nothing does, and its
fill grows with the square of the states. `fills_up` tells these models apart. What is computed here is worth what its
residual says, which `solvers` certifies as it does the solutions of LU.

Without terminal states each sweep is followed by a shift of all values to the middle of MacQueen's bounds (1966): an error that
all states share goes at once, and the rest goes as fast as the chain mixes. With terminal states values are used as
soon as they are new, in the order of the moves to a goal. Equal models give equal bits. scipy and numba cost start-up time, so they
are imported inside the functions.
"""

import math
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from mqlearn.problems.mdp import FiniteMDP, backup

_SEPARATOR = 1000  # states: elimination beyond takes about their cube, a second
_EPS = float(np.finfo(float).eps)
_SHARE = 0.1  # of the change of an improvement, to which the evaluation of its policy goes down,
_SWEEPS = 200  # in at most so many sweeps
_RESTS = 1e-13  # relative change at which values of one sign rest
_MOST = 40.0  # sweeps in units of those that the discount alone asks for a tenth of the error
_SLOW = 300  # sweeps after which GMRES takes over, if as many again would not do
_KRYLOV, _RESTARTS = 40, 25  # of GMRES


@dataclass(frozen=True, eq=False)
class _Shape:
    """separator: states of the widest level of a breadth-first search.   order (n,) uint32: states that are not
    terminal, nearest to a goal first."""

    separator: int
    order: np.ndarray


_shapes: WeakKeyDictionary[FiniteMDP, _Shape] = WeakKeyDictionary()


def fills_up(mdp: FiniteMDP) -> bool:
    """Whether sparse LU on this model fills up: no level of a breadth-first search that separates the states that come
    before it from those behind it is small (elimination along separators of w states costs about w^3: George 1973)."""
    return mdp.n_states > _SEPARATOR and _shape(mdp).separator > _SEPARATOR


def optimal_table(mdp: FiniteMDP) -> tuple[np.ndarray, int]:
    """A table q (S, A) near Q*, and the number of improvements: modified policy iteration (Puterman and Shin 1978).

    It ends where changes are roundings, and, with terminal states and rewards of one sign, where each value rests in its own
    digits; or after a number of sweeps that the discount decides. How near it is, a certificate must say.
    """
    from mqlearn.problems import compiled_sweeps

    places = _places(mdp)
    order = _shape(mdp).order
    policy = np.zeros(mdp.n_states, np.int32)
    values = _Values(mdp)
    own_digits = mdp.terminal.any() and _one_sign(mdp.mean_rewards)
    improvements, left = 0, _most_sweeps(mdp)
    while left > 0:
        improvements += 1
        *change, relative = compiled_sweeps.improve(values.v, values.made, policy, order, mdp.learned, *places)
        size = values.take(*change)
        if size <= values.rounding and not (own_digits and relative > _RESTS):
            break
        left -= 1
        for _ in range(_SWEEPS):
            left -= 1
            of_policy = compiled_sweeps.evaluate(values.v, values.made, policy, order, *places)
            if values.take(*of_policy) <= max(_SHARE * size, values.rounding):
                break
    return backup(mdp, values.v), improvements


def chain_values(mdp: FiniteMDP, p: Any, r: np.ndarray) -> np.ndarray:
    """v (S,) near the solution of v = r + discount p v, for a chain p (S, S), sparse, of a policy, with rewards r (S,).

    Where sweeps are slow, as on a chain that hardly mixes with a discount near 1, GMRES (Saad and Schultz 1986) goes on
    from what they have found.
    """
    from mqlearn.problems import compiled_sweeps

    p.eliminate_zeros()
    rows = p.indptr.astype(np.uint32), p.indices.astype(np.uint32), p.data, r, mdp.discount
    order, values, own_digits = _shape(mdp).order, _Values(mdp), mdp.terminal.any() and _one_sign(r)
    sizes: list[float] = []
    for sweep in range(_most_sweeps(mdp)):
        *change, relative = compiled_sweeps.evaluate_rows(values.v, values.made, order, *rows)
        sizes.append(values.take(*change))
        if sizes[-1] <= values.rounding and not (own_digits and relative > _RESTS):
            break
        if sweep == _SLOW and _is_slow(sizes, values.rounding):
            values.v[:] = _krylov(p, r, mdp.discount, values.v)
    return values.v


class _Values:
    """Values v (S,) that are swept, and those that a sweep makes, which are v itself where there are terminal states."""

    def __init__(self, mdp: FiniteMDP) -> None:
        self.v = np.zeros(mdp.n_states)
        self.shifted = not mdp.terminal.any()
        self.made = np.zeros(mdp.n_states) if self.shifted else self.v
        self.ahead = mdp.discount / (1 - mdp.discount)
        self.digits = (mdp.n_successors + 3) * _EPS
        self.rounding = 0.0

    def take(self, low: float, high: float) -> float:
        """Go on from what a sweep has made, whose changes lie between two numbers; returns how large they still are."""
        if self.shifted:
            self.made += self.ahead * (low + high) / 2
            self.v, self.made = self.made, self.v
        self.rounding = self.digits * float(np.abs(self.v).max())
        return (high - low) / 2 if self.shifted else max(-low, high)


def _places(mdp: FiniteMDP) -> tuple[Any, ...]:
    """The model as the kernels take it."""
    return mdp.successors.view(np.uint32), mdp.probabilities, mdp.mean_rewards, mdp.discount


def _one_sign(rewards: np.ndarray) -> bool:
    return bool(rewards.min(initial=0.0) >= 0 or rewards.max(initial=0.0) <= 0)


def _most_sweeps(mdp: FiniteMDP) -> int:
    return math.ceil(_MOST * math.log(10) / -math.log(mdp.discount))


def _is_slow(sizes: list[float], rounding: float) -> bool:
    """Whether the changes of sweeps fall so slowly that as many again would not bring them down to roundings."""
    half = len(sizes) // 2
    return rounding < sizes[-1] and sizes[-1] / max(sizes[half], 1e-300) > (rounding / sizes[-1]) ** 0.5


def _krylov(p: Any, r: np.ndarray, discount: float, v: np.ndarray) -> np.ndarray:
    """v by GMRES from v, if that is nearer."""
    from scipy.sparse.linalg import LinearOperator, gmres

    def residual(some: np.ndarray) -> np.ndarray:
        return some - discount * (p @ some)

    system = LinearOperator(p.shape, matvec=residual, dtype=float)  # type: ignore  # of scipy
    found, _ = gmres(system, r, x0=v, rtol=1e-15, atol=0.0, restart=_KRYLOV, maxiter=_RESTARTS)
    better = np.abs(r - residual(found)).max() < np.abs(r - residual(v)).max()
    return found if better else v


def _shape(mdp: FiniteMDP) -> _Shape:
    if mdp not in _shapes:
        _shapes[mdp] = _shaped(mdp)
    return _shapes[mdp]


def _shaped(mdp: FiniteMDP) -> _Shape:
    from scipy import sparse
    from scipy.sparse.csgraph import connected_components, dijkstra

    n, closed = mdp.n_states, mdp.terminal
    possible = (mdp.probabilities > 0) & mdp.learned[:, :, None]
    width = mdp.n_actions * mdp.n_successors
    moves = possible.ravel().astype(float), mdp.successors.flatten(), np.arange(n + 1) * width
    graph = sparse.csr_array(moves, shape=(n, n))
    graph.eliminate_zeros()
    order = np.flatnonzero(~closed)
    if mdp.goal.any():
        away = dijkstra(graph.T.tocsr(), indices=np.flatnonzero(mdp.goal), unweighted=True, min_only=True)
        order = order[np.argsort(away[order], kind="stable")]
    graph.data[closed[graph.indices]] = 0.0
    graph.eliminate_zeros()
    _, part = connected_components(graph, directed=True, connection="weak")
    first = np.unique(part, return_index=True)[1]
    level = dijkstra(graph, directed=False, indices=first, unweighted=True, min_only=True)
    together = part.astype(np.int64) * n + level.astype(np.int64)
    return _Shape(int(np.unique(together, return_counts=True)[1].max()), order.astype(np.uint32))
