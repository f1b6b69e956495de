"""What kind of problem a model is: does its chain mix, does it end, is anything random, do optimal actions tie.

All of it over the states that can be reached from the start. scipy costs start-up time, so it is imported inside the
functions.
"""

from typing import Any

import numpy as np

from mqlearn.problems.mdp import FiniteMDP
from mqlearn.problems.solvers import Optimum

_NEARLY = 1e-12  # of the largest reward: optimal actions that differ by less count as tied


def ergodic(mdp: FiniteMDP) -> bool:
    """Whether the chain under the uniform policy is irreducible over the reachable states, and aperiodic.

    Episodes that end and start again are no such chain: with a reachable terminal state the answer is no.
    """
    from scipy.sparse.csgraph import breadth_first_order, connected_components

    reached = np.flatnonzero(mdp.reachable)
    if mdp.terminal[reached].any():
        return False
    graph = _moves(mdp)[reached][:, reached]
    if connected_components(graph, directed=True, connection="strong")[0] > 1:
        return False
    order, parent = breadth_first_order(graph, 0)
    depth = np.zeros(len(reached), np.int64)
    for x in order[1:]:
        depth[x] = depth[parent[x]] + 1
    x, y = graph.nonzero()
    return int(np.gcd.reduce(depth[x] + 1 - depth[y])) == 1  # the period: of all cycles' lengths


def absorbing(mdp: FiniteMDP) -> np.ndarray:
    """(S,) bool: reachable states that are not terminal and that no action ever leaves."""
    leaves = _possible(mdp) & (mdp.successors != np.arange(mdp.n_states)[:, None, None])
    return mdp.counted.any(1) & ~leaves.any((1, 2))


def deterministic(mdp: FiniteMDP) -> bool:
    """Whether each counted pair has one successor. Its reward may be random all the same: see `reward_depends_on`."""
    low, high = _range(mdp, mdp.successors)
    return bool((low == high)[mdp.counted].all())


def reward_depends_on(mdp: FiniteMDP) -> str:
    """What decides the reward of a counted pair: "state and action", the "successor" besides, or "chance" besides."""
    low, high = _range(mdp, mdp.rewards)
    if (low == high)[mdp.counted].all():
        return "state and action"
    y = np.where(_possible(mdp), mdp.successors, -1)
    order = np.argsort(y, axis=2)
    y, r = np.take_along_axis(y, order, 2), np.take_along_axis(mdp.rewards, order, 2)
    same = (y[:, :, 1:] == y[:, :, :-1]) & (y[:, :, 1:] >= 0)
    return "chance" if (same & (r[:, :, 1:] != r[:, :, :-1])).any() else "successor"


def optimal_pairs(mdp: FiniteMDP, optimum: Optimum) -> np.ndarray:
    """(S, A) bool: counted pairs whose action is optimal.

    Actions tie that differ by no more than four times the certified error, or 1e-12 of the largest reward.
    """
    tolerance = max(4 * optimum.error_bound, _NEARLY * mdp.max_reward)
    return mdp.counted & (optimum.q >= optimum.v[:, None] - tolerance)


def tied_states(mdp: FiniteMDP, optimum: Optimum) -> np.ndarray:
    """(S,) bool: counted states with more than one optimal action. There the greedy policy is not unique."""
    return optimal_pairs(mdp, optimum).sum(1) > 1


def kind(mdp: FiniteMDP, optimum: Optimum) -> str:
    """The kind in a few words, such as "ergodic, random moves" or "episodic, random moves, 5 states tied"."""
    return facts(mdp, optimum)["structure"]


def facts(mdp: FiniteMDP, optimum: Optimum) -> dict[str, Any]:
    """All of the above, for people and for JSON."""
    possible = mdp.rewards[_possible(mdp)]
    found = {
        "ergodic": ergodic(mdp),
        "absorbing_states": int(absorbing(mdp).sum()),
        "terminal_states": int((mdp.terminal & mdp.reachable).sum()),
        "deterministic": deterministic(mdp),
        "tied_states": int(tied_states(mdp, optimum).sum()),
        "reward_depends_on": reward_depends_on(mdp),
        "least_reward": float(possible.min()),
        "largest_reward": float(possible.max()),
    }
    return {"structure": _in_words(found), **found}


def _in_words(found: dict[str, Any]) -> str:
    traps, tied = found["absorbing_states"], found["tied_states"]
    words = ["episodic" if found["terminal_states"] else "ergodic" if found["ergodic"] else "continuing"]
    words += [f"{traps} absorbing"] if traps else []
    words += ["deterministic moves" if found["deterministic"] else "random moves"]
    words += ["random rewards"] if found["reward_depends_on"] == "chance" else []
    words += [f"{tied} {'state' if tied == 1 else 'states'} tied"] if tied else []
    return ", ".join(words)


def _possible(mdp: FiniteMDP) -> np.ndarray:
    """(S, A, B) bool: the outcomes of counted pairs that can happen."""
    return (mdp.probabilities > 0) & mdp.counted[:, :, None]


def _range(mdp: FiniteMDP, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(S, A) each: the least and the largest of values (S, A, B) over the possible outcomes."""
    possible = _possible(mdp)
    return np.where(possible, values, np.inf).min(2), np.where(possible, values, -np.inf).max(2)


def _moves(mdp: FiniteMDP) -> Any:
    """Sparse (S, S): the moves that can happen under some action."""
    from scipy import sparse

    x, u, b = np.nonzero(_possible(mdp))
    return sparse.csr_array((np.ones(len(x)), (x, mdp.successors[x, u, b])), shape=(mdp.n_states, mdp.n_states))
