"""Whether episodes end: what a discount of 1 asks of a model, and under which policies values are finite.

An end component is a set of states with some of their actions that a policy can stay in for ever, and in which it can
come from each state to each other one (de Alfaro 1997). What happens infinitely often happens in one of them. Of arrays
as a `FiniteMDP` has them, for it asks before it is made. scipy costs start-up time, so it is imported inside the
functions.
"""

from typing import Any

import numpy as np

from mqlearn.errors import SettingError

_WAY_OUT = "; use a discount below 1, such as 0.999"


def check_endings(
    successors: np.ndarray, probabilities: np.ndarray, mean_rewards: np.ndarray, learned: np.ndarray, name: str
) -> None:
    """Refuse a model that has no undiscounted values. Raises SettingError, which names a state.

    successors, probabilities (S, A, B), mean_rewards, learned (S, A): as of a `FiniteMDP`.   name: of the model.

    Admissible is a stochastic shortest path problem (Bertsekas and Tsitsiklis 1991): some policy ends from every state,
    and a policy that never ends earns minus infinity. Where all policies end, nothing else is asked; elsewhere the mean
    reward of every pair of an end component must be negative, which is sufficient and can be read off the model.
    """
    possible = (probabilities > 0) & learned[:, :, None]
    open_states = np.asarray(learned.any(1))
    stuck = open_states & ~_coming_to(~open_states, possible, successors)
    if stuck.any():
        x = int(stuck.argmax())
        reason = f"needs episodes that end: no policy ends from state {x} of {name}{_WAY_OUT}"
        raise SettingError("discount", 1, reason)
    paid = end_components(successors, possible, learned) & (mean_rewards >= 0)
    if paid.any():
        x, u = map(int, np.argwhere(paid)[0])
        reason = (
            "needs episodes that end, or that cost something as long as they go on: a policy of "
            f"{name} may stay around state {x} for ever, where action {u} pays {mean_rewards[x, u]:.4g} on average"
        )
        raise SettingError("discount", 1, reason + _WAY_OUT)


def end_components(successors: np.ndarray, possible: np.ndarray, learned: np.ndarray) -> np.ndarray:
    """(S, A) bool: the pairs of all end components. None where every policy ends.

    successors, possible (S, A, B): which outcomes can happen.   learned (S, A).
    """
    from scipy import sparse
    from scipy.sparse.csgraph import connected_components

    n = len(successors)
    inside = learned.copy()
    while inside.any():
        x, u, b = np.nonzero(possible & inside[:, :, None])
        moves = sparse.csr_array((np.ones(len(x)), (x, successors[x, u, b])), shape=(n, n))
        _, part = connected_components(moves, directed=True, connection="strong")
        part = np.where(inside.any(1), part, -1)  # a state without actions is in no component
        leaves = possible & (part[successors] != part[:, None, None])
        kept = inside & ~leaves.any(2)
        if np.array_equal(kept, inside):
            break
        inside = kept
    return inside


def surely_ending(chain: Any, terminal: np.ndarray) -> np.ndarray:
    """(S,) bool: the states from which a chain comes to a terminal state with probability 1. chain: sparse (S, S)."""
    x, y = chain.nonzero()
    never = ~_reaching(terminal, x, y)
    return ~_reaching(never, x, y)


def _coming_to(wanted: np.ndarray, possible: np.ndarray, successors: np.ndarray) -> np.ndarray:
    """(S,) bool: the states from which some actions lead to wanted ones (S,) bool, and these."""
    x, u, b = np.nonzero(possible)
    return _reaching(wanted, x, successors[x, u, b])


def _reaching(wanted: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(n,) bool: the wanted states and those from which moves x -> y lead to them."""
    from scipy import sparse
    from scipy.sparse.csgraph import breadth_first_order

    n = len(wanted)
    ends = np.flatnonzero(wanted)
    # One more state, which leads to all that are wanted.
    backwards = np.concatenate([y, np.full(len(ends), n)]), np.concatenate([x, ends])
    graph = sparse.csr_array((np.ones(len(backwards[0])), backwards), shape=(n + 1, n + 1))
    found = np.zeros(n + 1, bool)
    found[breadth_first_order(graph, n, return_predecessors=False)] = True
    return found[:n]
