"""Policies, and the chains that they make, written out."""

import numpy as np

from mqlearn.problems.mdp import FiniteMDP


def uniform(mdp: FiniteMDP) -> np.ndarray:
    """(S, A): the uniform policy."""
    return mdp.learned / np.maximum(mdp.learned.sum(1, keepdims=True), 1)


def anywhere(mdp: FiniteMDP) -> np.ndarray:
    """(S,): uniform over the states that are not terminal."""
    return ~mdp.terminal / np.count_nonzero(~mdp.terminal)


def random_policy(mdp: FiniteMDP, seed: int) -> np.ndarray:
    share = np.random.default_rng(seed).random(mdp.learned.shape) * mdp.learned
    return share / np.maximum(share.sum(1, keepdims=True), 1e-300)


def moves(mdp: FiniteMDP, behaviour: np.ndarray) -> np.ndarray:
    """(S, S) transition matrix of a policy, with empty rows at terminal states."""
    p = np.zeros((mdp.n_states, mdp.n_states))
    for (x, u, b), y in np.ndenumerate(mdp.successors):
        if mdp.learned[x, u]:
            p[x, y] += behaviour[x, u] * mdp.probabilities[x, u, b]
    return p
