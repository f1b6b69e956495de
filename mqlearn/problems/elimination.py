"""Values by elimination of states: for maps of any size, and all models on which few states separate the others.

A policy's values solve v = r + g P v. States go one after another, in an order of minimum degree (George and Liu 1989)
that is found once for a model, of the moves of all its actions: so each policy is eliminated in the same places, and
after an improvement only states whose action changed, and those that stand on them. No subtraction occurs
(`compiled_elimination.eliminate`), so values of one sign are right to many digits each, however small they are and
however long episodes last. Undiscounted, a state from which a policy never ends, which makes I - P singular, earns
nothing; that is right where only ends pay. scipy and numba cost start-up time, so they are imported inside the
functions.
"""

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from mqlearn.problems.mdp import FiniteMDP

_POLICIES = 300  # at most; a certificate says what the last is worth
FILL_BYTES = 16  # a share, its state, and the state that it is of


@dataclass(frozen=True, eq=False)
class _Order:
    """order (n,): states that are not terminal, as they go.   number (S,) uint32: the place of each, n of the others.
    parent, joined (n,), at, ahead, before, behind: as `compiled_elimination.eliminate` takes them.
    products: multiplications of one elimination, at most."""

    order: np.ndarray
    number: np.ndarray
    parent: np.ndarray
    joined: np.ndarray
    at: np.ndarray
    ahead: np.ndarray
    before: np.ndarray
    behind: np.ndarray
    products: float


_orders: WeakKeyDictionary[FiniteMDP, _Order] = WeakKeyDictionary()


def products(mdp: FiniteMDP) -> float:
    """How many multiplications an elimination of all states takes, at most."""
    return _order(mdp).products


def fill(mdp: FiniteMDP) -> int:
    """How many shares an elimination keeps, `FILL_BYTES` each."""
    return len(_order(mdp).ahead)


def optimal_values(mdp: FiniteMDP, policy: np.ndarray) -> tuple[np.ndarray, int]:
    """v (S,) near the best values, by policy iteration (Howard 1960) from a policy (S,) of actions, and the number of
    policies; undiscounted from one that ends from every state."""
    return _best(mdp, policy, mdp.mean_rewards, mdp.terminal, mdp.discount)


def success(mdp: FiniteMDP, policy: np.ndarray) -> np.ndarray:
    """(S,): the largest probability of ever reaching a goal, by policy iteration from a policy (S,).

    Actions change on strict improvement alone. States between which a policy would go on for ever have one value, so
    they have no strict improvement on the way to such a policy, and the values of policies only grow.
    """
    arrives = np.where(mdp.learned, (mdp.probabilities * mdp.goal[mdp.successors]).sum(2), 0.0)
    v, _ = _best(mdp, policy, arrives, mdp.terminal | mdp.goal, 1.0)
    return np.where(mdp.goal, 1.0, np.clip(v, 0.0, 1.0))


def chain_values(mdp: FiniteMDP, p: Any, r: np.ndarray) -> np.ndarray:
    """v (S,) near the solution of v = r + discount p v: of a policy's chain p (S, S), sparse, with rewards r (S,)."""
    order = _order(mdp)
    rows = p[order.order]
    chosen = order.number[rows.indices], rows.data, r[order.order]
    elimination = _Elimination(order, rows.indptr.astype(np.uint64), chosen, mdp.discount)
    return elimination.values()[order.number]


class _Elimination:
    """The values of a chain (first, chosen), which may change where states are said to be stale."""

    def __init__(self, order: _Order, first: np.ndarray, chosen: tuple[np.ndarray, ...], discount: float) -> None:
        n = len(order.order)
        self.order, self.first, self.chosen, self.discount = order, first, chosen, discount
        self.shares, self.earned = np.empty(len(order.ahead)), np.empty((2, n))
        self.stale, self.v = np.ones(n + 1, bool), np.zeros(n + 1)

    def values(self) -> np.ndarray:
        """(n + 1,) in the order of elimination, the last one 0."""
        from mqlearn.problems import compiled_elimination

        order, made = self.order, (self.shares, self.earned)
        places = order.parent, order.joined, order.at, order.ahead, order.before, order.behind
        compiled_elimination.eliminate(self.stale, *places, *made, self.first, self.chosen, self.discount)
        compiled_elimination.substitute(self.v, order.at, order.ahead, *made)
        return self.v


def _best(
    mdp: FiniteMDP, policy: np.ndarray, rewards: np.ndarray, closed: np.ndarray, discount: float
) -> tuple[np.ndarray, int]:
    """v (S,), 0 at closed states (S,) bool, and the number of policies.   rewards (S, A)."""
    from mqlearn.problems import compiled_elimination

    order = _order(mdp)
    n, b, states = len(order.order), mdp.n_successors, np.arange(len(order.order))
    number = np.where(closed, np.uint32(n), order.number)
    successors, probabilities = number[mdp.successors[order.order]], mdp.probabilities[order.order]
    paid = np.where(mdp.admissible[order.order], rewards[order.order], -np.inf)
    own = policy[order.order]
    chosen = successors[states, own].ravel(), probabilities[states, own].ravel(), paid[states, own]
    elimination = _Elimination(order, np.arange(n + 1, dtype=np.uint64) * np.uint64(b), chosen, discount)
    model = successors, probabilities, paid, discount
    v, policies = elimination.values(), 1
    while policies < _POLICIES and compiled_elimination.switch(v, own, elimination.stale, chosen, *model):
        v, policies = elimination.values(), policies + 1
    return v[order.number], policies


def _order(mdp: FiniteMDP) -> _Order:
    if mdp not in _orders:
        _orders[mdp] = _ordered(mdp)
    return _orders[mdp]


def _ordered(mdp: FiniteMDP) -> _Order:
    from scipy import sparse

    from mqlearn.problems import compiled_elimination

    live = np.flatnonzero(~mdp.terminal)
    n = len(live)
    place = np.full(mdp.n_states, n, np.uint32)
    place[live] = np.arange(n)
    x = np.repeat(np.arange(n), mdp.n_actions * mdp.n_successors)
    y = place[mdp.successors[live]].ravel()
    moves = ((mdp.probabilities[live] > 0) & mdp.admissible[live][:, :, None]).ravel() & (y < n) & (y != x)
    x, y = x[moves], y[moves]
    graph = sparse.csc_array((np.full(2 * len(x), 1e-3), (np.append(x, y), np.append(y, x))), shape=(n, n))
    place[live] = _minimum_degree(graph)
    order = np.empty(n, live.dtype)
    order[place[live]] = live
    x, y = place[live][graph.indices], place[live][np.repeat(np.arange(n), np.diff(graph.indptr))]
    graph = sparse.csr_array((np.ones(len(x), bool), (x, y)), shape=(n, n))
    first, to = graph.indptr.astype(np.uint64), graph.indices.astype(np.uint32)
    parent, sizes = compiled_elimination.tree(first, to, np.uint64(n))
    at = np.append(np.uint64(0), np.cumsum(sizes, dtype=np.uint64))
    ahead, before, behind = compiled_elimination.rows(first, to, parent, at)
    joined = np.append((parent[:-1] == np.arange(1, n)) & (sizes[:-1] == sizes[1:] + np.uint64(1)), False)
    return _Order(order, place, parent, joined, at, ahead, before, behind, float((sizes * (sizes + 1.0)).sum()))


def _minimum_degree(graph: Any) -> np.ndarray:
    """(n,): the place of each state, so that few are joined when they go. graph: sparse (n, n), symmetric, its entries
    small.

    The order is SuperLU's, of an incomplete factorisation that keeps next to nothing.
    """
    from scipy import sparse
    from scipy.sparse.linalg import spilu

    system = sparse.csc_array(sparse.eye_array(graph.shape[0]) - graph)
    options = {"SymmetricMode": True}
    return spilu(
        system, drop_tol=1.0, fill_factor=1.0, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options
    ).perm_c
