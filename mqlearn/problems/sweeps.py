"""Values by sweeps, for models on which sparse LU fills up: no matrix is factored, and memory is that of the model.

Sparse LU keeps few numbers where few states separate the others, as on a map; on a random graph nothing does, and its
fill grows with the square of the states. `fills_up` tells these models apart. What is computed here is worth what its
residual says, which `solvers` certifies as it does the solutions of LU.

Without terminal states each sweep is followed by a shift of all values to the middle of MacQueen's bounds (1966): an
error that all states share goes at once, the rest as fast as the chain mixes. With terminal states values are used as
soon as they are new, nearest to a goal first, and a move that stays is solved for. Equal models give equal bits. scipy
and numba cost start-up time, so they are imported inside the functions.
"""

import math
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from mqlearn.problems.mdp import FiniteMDP, backup

_SEPARATOR = 400  # states: elimination beyond takes about a second for each policy, and grows with their cube
_FEW = 1000  # states: up to here LU is quick on any model
_HUB = 10.0  # times the root of all states: into so many moves leads a state that is left out, such as a common restart
_EPS = float(np.finfo(float).eps)
_SHARE = 0.1  # of the change of an improvement, to which the evaluation of its policy goes down,
_SWEEPS = 200  # in at most so many sweeps
_RESTS = 1e-13  # relative change at which values of one sign rest
_MOST = 40.0  # sweeps in units of those that the discount alone asks for a tenth of the error
_ACROSS = 30.0  # sweeps without a discount in units of the root of all states, as measured on lakes,
_LONGEST = 50_000  # and at most, or as many as three times those
_SLOW = 300  # sweeps after which GMRES takes over, if as many again would not do
_KRYLOV, _RESTARTS = 40, 25  # of GMRES


@dataclass(frozen=True, eq=False)
class _Shape:
    """separator: states of the widest level of a breadth-first search, and those that a great many moves enter.
    order (n,) uint32: states that are not terminal, nearest to a goal first."""

    separator: int
    order: np.ndarray


_shapes: WeakKeyDictionary[FiniteMDP, _Shape] = WeakKeyDictionary()


def fills_up(mdp: FiniteMDP) -> bool:
    """Whether sparse LU on this model fills up: no level of a breadth-first search that separates the states that come
    before it from those behind it is small (elimination along separators of w states costs about w^3: George 1973)."""
    return mdp.n_states > _FEW and _shape(mdp).separator > _SEPARATOR


def separator(mdp: FiniteMDP) -> int:
    """How many states separate the others, at most; all of them on a small model, where nobody looks."""
    return _shape(mdp).separator if mdp.n_states > _FEW else mdp.n_states


def foreseen(mdp: FiniteMDP) -> float:
    """About how many sweeps over all outcomes the optimum takes: few where a chain mixes, else by the horizon."""
    if not mdp.terminal.any():
        return 100.0
    return 200 + 20 / (1 - mdp.discount) if mdp.discount < 1 else foreseen_of_success(mdp)


def foreseen_of_success(mdp: FiniteMDP) -> float:
    """The same of `success`, over the outcomes of one action: what is known near a goal goes from state to state."""
    return _ACROSS * math.sqrt(mdp.n_states)


def optimal_table(mdp: FiniteMDP, first: np.ndarray | None = None) -> tuple[np.ndarray, int]:
    """A table q (S, A) near Q*, and the number of improvements: modified policy iteration (Puterman and Shin 1978).

    It ends where changes are roundings, and, with terminal states and rewards of one sign, where each value rests in
    its own digits; or after a number of sweeps that the discount decides. How near it is, a certificate must say.
    first (S,): values that the search goes on from; undiscounted those of a policy that ends.
    """
    values = _Values(mdp, len(_shape(mdp).order), _one_sign(mdp.mean_rewards))
    if first is not None:
        values.v[:-1] = first[_shape(mdp).order]
    improvements, _ = _improved(values, _in_order(mdp), mdp.discount, _most_sweeps(mdp.discount))
    return backup(mdp, values.of_states(mdp, _shape(mdp).order)), improvements


def success(mdp: FiniteMDP) -> np.ndarray | None:
    """(S,): the largest probability of ever reaching a goal, from below; None where it does not rest in time."""
    order = _shape(mdp).order
    order = order[~mdp.goal[order]]
    arrives = np.where(mdp.learned, (mdp.probabilities * mdp.goal[mdp.successors]).sum(2), 0.0)
    values = _Values(mdp, len(order), one_sign=True, shifted=False)
    most = max(_LONGEST, math.ceil(3 * foreseen_of_success(mdp)))
    _, rests = _improved(values, _renumbered(mdp, order, arrives, 1.0), 1.0, most)
    return np.where(mdp.goal, 1.0, np.clip(values.of_states(mdp, order), 0.0, 1.0)) if rests else None


def _improved(values: "_Values", model: tuple[Any, ...], discount: float, most: int) -> tuple[int, bool]:
    """Improve values until they rest; the number of improvements, and whether they do within so many sweeps."""
    from scipy import sparse

    from mqlearn.problems import compiled_sweeps

    n, _, b = model[0].shape
    chosen = np.empty(n * b, np.uint32), np.empty(n * b), np.empty(n)
    first = np.arange(n + 1, dtype=np.uint32) * np.uint32(b)
    improvements, left = 0, most
    while left > 0:
        improvements += 1
        left -= 1
        change = values.take(compiled_sweeps.improve(values.v, values.made, chosen, *model, discount))
        if change.rest:
            return improvements, True
        for _ in range(_SWEEPS):
            left -= 1
            of_policy = values.take(compiled_sweeps.evaluate(values.v, values.made, first, chosen, discount))
            if of_policy.rest or of_policy.size <= _SHARE * change.size:
                break
        else:
            if not values.own_digits:
                chain = sparse.csr_array((chosen[1], chosen[0].astype(np.int32), first), shape=(n, n + 1))[:, :n]
                values.v[:n] = _krylov(chain, chosen[2], discount, values.v[:n])
    return improvements, False


def chain_values(mdp: FiniteMDP, p: Any, r: np.ndarray) -> np.ndarray:
    """v (S,) near the solution of v = r + discount p v, for a chain p (S, S), sparse, of a policy, with rewards r (S,).

    Where sweeps are slow, as on a chain that hardly mixes with a discount near 1, or that takes long to end, GMRES
    (Saad and Schultz 1986) goes on from what they have found.
    """
    from mqlearn.problems import compiled_sweeps

    order = _shape(mdp).order
    values = _Values(mdp, len(order), _one_sign(r))
    chain, paid = p[order][:, order], r[order]
    chain.eliminate_zeros()
    system = chain.copy()
    if not values.shifted:
        stay = chain.diagonal()
        scale = 1 / (1 - mdp.discount * stay)
        chain.data[chain.indices == np.repeat(np.arange(len(paid)), np.diff(chain.indptr))] = 0.0
        chain.eliminate_zeros()
        chain.data *= np.repeat(scale, np.diff(chain.indptr))
        paid = paid * scale
    chosen = chain.indices.astype(np.uint32), chain.data, paid
    first = chain.indptr.astype(np.uint32)
    sizes: list[float] = []
    for sweep in range(_most_sweeps(mdp.discount)):
        change = values.take(compiled_sweeps.evaluate(values.v, values.made, first, chosen, mdp.discount))
        if change.rest:
            break
        sizes.append(change.size)
        rests = _RESTS if values.own_digits else values.rounding
        if sweep == _SLOW and (mdp.discount == 1 or not values.own_digits) and _is_slow(sizes, rests):
            values.v[: len(paid)] = _krylov(system, r[order], mdp.discount, values.v[: len(paid)])
    return values.of_states(mdp, order)


@dataclass(frozen=True)
class _Change:
    """size: of what a sweep changed, in units of the rewards or, where values rest in their own digits, relative to
    them.   rest: whether no sweep would do more."""

    size: float
    rest: bool


class _Values:
    """Values v of the states in the order of the sweeps, then a 0 for those that are terminal; and those that a sweep
    makes, which are v itself where there are terminal states."""

    def __init__(self, mdp: FiniteMDP, n: int, one_sign: bool, shifted: bool = True) -> None:
        self.v = np.zeros(n + 1)
        self.shifted = shifted and n == mdp.n_states
        self.own_digits = one_sign and not self.shifted
        self.made = np.zeros(n + 1) if self.shifted else self.v
        self.ahead = mdp.discount / (1 - mdp.discount) if self.shifted else 0.0
        self.digits = (mdp.n_successors + 3) * _EPS
        self.rounding = 0.0

    def take(self, change: tuple[float, float, float]) -> _Change:
        """Go on from what a sweep has made, whose changes lie between two numbers and are relatively at most a third.

        Returns how large they still are.
        """
        low, high, relative = change
        if self.shifted:
            self.made[:-1] += self.ahead * (low + high) / 2
            self.v, self.made = self.made, self.v
        self.rounding = self.digits * float(np.abs(self.v).max())
        size = (high - low) / 2 if self.shifted else max(-low, high)
        if self.own_digits:
            return _Change(relative, size <= self.rounding and relative <= _RESTS)
        return _Change(size, size <= self.rounding)

    def of_states(self, mdp: FiniteMDP, order: np.ndarray) -> np.ndarray:
        """(S,): the values, in the numbers of the states."""
        v = np.zeros(mdp.n_states)
        v[order] = self.v[:-1]
        return v


def _in_order(mdp: FiniteMDP) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """successors, probabilities (n, A, B) and rewards (n, A) of the states in the order of the sweeps, as the kernels
    take them."""
    order = _shape(mdp).order
    if len(order) < mdp.n_states:
        successors, probabilities, rewards = _renumbered(mdp, order, mdp.mean_rewards, mdp.discount)
        if mdp.discount == 1:  # who stays for ever pays for ever
            rewards = np.where(probabilities.any(2), rewards, -np.inf)
        return successors, probabilities, rewards
    rewards = mdp.mean_rewards if mdp.admissible.all() else np.where(mdp.admissible, mdp.mean_rewards, -np.inf)
    return mdp.successors.view(np.uint32), mdp.probabilities, rewards


def _renumbered(
    mdp: FiniteMDP, order: np.ndarray, rewards: np.ndarray, discount: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same of some states alone: a move that stays is left out, and its share divided among the others."""
    number = np.full(mdp.n_states, len(order), np.uint32)
    number[order] = np.arange(len(order), dtype=np.uint32)
    successors, probabilities = number[mdp.successors[order]], mdp.probabilities[order]
    stays = successors == np.arange(len(order), dtype=np.uint32)[:, None, None]
    goes = 1 - discount * np.where(stays, probabilities, 0.0).sum(2)
    scale = np.where(goes > _EPS, 1 / np.maximum(goes, _EPS), 0.0)  # undiscounted, a pair may stay for ever
    probabilities[stays] = 0.0
    probabilities *= scale[:, :, None]
    return successors, probabilities, np.where(mdp.admissible[order], rewards[order] * scale, -np.inf)


def _one_sign(rewards: np.ndarray) -> bool:
    return bool(rewards.min(initial=0.0) >= 0 or rewards.max(initial=0.0) <= 0)


def _most_sweeps(discount: float) -> int:
    if discount == 1:
        return _LONGEST
    return math.ceil(_MOST * math.log(10) / -math.log(discount))


def _is_slow(sizes: list[float], rounding: float) -> bool:
    """Whether the changes of sweeps fall so slowly that as many again would not bring them down to roundings."""
    half = len(sizes) // 2
    return rounding < sizes[-1] and sizes[-1] / max(sizes[half], 1e-300) > (rounding / sizes[-1]) ** 0.5


def _krylov(p: Any, r: np.ndarray, discount: float, v: np.ndarray) -> np.ndarray:
    """v by GMRES from v, which solves for what is left of the residual as long as that at least halves."""
    from scipy.sparse.linalg import LinearOperator, gmres

    def applied(some: np.ndarray) -> np.ndarray:
        return some - discount * (p @ some)

    system = LinearOperator(p.shape, matvec=applied, dtype=float)  # type: ignore  # scipy does not declare these keywords
    left = r - applied(v)
    for _ in range(_RESTARTS):
        step, _ = gmres(system, left, rtol=1e-6, atol=0.0, restart=_KRYLOV, maxiter=1)
        remains = r - applied(v + step)
        if not np.abs(remains).max() < np.abs(left).max():
            break
        v, halved, left = v + step, np.abs(remains).max() < np.abs(left).max() / 2, remains
        if not halved:
            break
    return v


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
    hubs = np.bincount(graph.indices, minlength=n) > _HUB * math.sqrt(n)  # each is in every separator
    graph.data[(closed | hubs)[graph.indices]] = 0.0
    graph.eliminate_zeros()
    _, part = connected_components(graph, directed=True, connection="weak")
    first = np.unique(part, return_index=True)[1]
    level = dijkstra(graph, directed=False, indices=first, unweighted=True, min_only=True)
    together = part.astype(np.int64) * n + level.astype(np.int64)
    separator = int(np.unique(together, return_counts=True)[1].max() + np.count_nonzero(hubs & ~closed))
    return _Shape(separator, order.astype(np.uint32))
