"""The chain of a policy: its moves and mean rewards, and the linear system that its values solve.

scipy costs start-up time, so it is imported inside the functions.
"""

from typing import Any

import numpy as np

from mqlearn.checks import are_distributions
from mqlearn.errors import SettingError
from mqlearn.problems.mdp import FiniteMDP


def chain_of(mdp: FiniteMDP, policy: np.ndarray) -> tuple[Any, np.ndarray]:
    """Transition matrix (S, S), sparse, with empty rows at terminal states, and mean rewards (S,)."""
    policy, states = np.asarray(policy), np.arange(mdp.n_states)
    if policy.shape == (mdp.n_states,) and policy.dtype.kind in "iu":
        valid = (policy >= 0) & (policy < mdp.n_actions)
        at = states, np.where(valid, policy, 0)
        valid &= mdp.learned[at]
        p, y, r = mdp.probabilities[at], mdp.successors[at], mdp.mean_rewards[at]
    elif policy.shape == (mdp.n_states, mdp.n_actions):
        share = np.where(mdp.learned, policy, 0.0)
        valid = are_distributions(share)
        p = (share[:, :, None] * mdp.probabilities).reshape(mdp.n_states, -1)
        y, r = mdp.successors.reshape(mdp.n_states, -1), (share * mdp.mean_rewards).sum(1)
    else:
        expected = f"must be {mdp.n_states} actions or a row of {mdp.n_actions} probabilities for each state"
        raise SettingError("policy", f"array of {policy.dtype} of shape {policy.shape}", expected)
    if not (valid | mdp.terminal).all():
        x = int((valid | mdp.terminal).argmin())
        expected = "must be an admissible action, or probabilities of admissible actions that sum to 1"
        raise SettingError(f"policy[{x}]", policy[x], expected)
    return matrix(np.where(mdp.terminal[:, None], 0.0, p), y), r


def matrix(p: np.ndarray, y: np.ndarray) -> Any:
    """Sparse (S, S) with the probabilities p (S, n) of the successors y (S, n)."""
    from scipy import sparse

    # A copy of the indices: scipy may sort them in place.
    return sparse.csr_array((p.ravel(), y.flatten(), np.arange(len(p) + 1) * p.shape[1]), shape=(len(p), len(p)))


def factor(p: Any, discount: float) -> Any:
    """LU of I - discount * p, pivots on the diagonal.

    For such a matrix (an M-matrix) nothing then cancels off the diagonal, so that solutions for
    right-hand sides of one sign are right in their smallest entries too.
    """
    from scipy import sparse
    from scipy.sparse.linalg import splu

    system = (sparse.eye_array(p.shape[0]) - discount * p).tocsc()
    return splu(system, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})


def rows_of(p: Any, kept: np.ndarray) -> Any:
    """The chain p (S, S) without the moves from states that are not kept (S,) bool."""
    p = p.copy()
    p.data *= np.repeat(kept, np.diff(p.indptr))
    return p
