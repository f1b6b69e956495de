"""Q* against QuantEcon's DiscreteDP, in its form of state-action pairs, on random models with ragged actions."""

import numpy as np
import pytest

from mqlearn.problems.arrays import from_arrays
from mqlearn.problems.solvers import optimal


@pytest.fixture(scope="module")
def quantecon():
    """Imported by the one process that needs it: two that compile its cached functions at once may leave a cache that
    aborts every later import ("LLVM ERROR: Symbol not found").
    """
    import quantecon

    return quantecon


def ragged(seed, n_states=12, n_actions=4, n_terminal=0):
    """P (S, A, S), R (S, A) and admissible (S, A) with 1 to A actions a state, none at the last, terminal, states."""
    rng = np.random.default_rng(seed)
    admissible = rng.random((n_states, n_actions)) < 0.5
    admissible[np.arange(n_states), rng.integers(n_actions, size=n_states)] = True
    p = rng.dirichlet(np.full(n_states, 0.3), size=(n_states, n_actions))
    terminal = np.arange(n_states) >= n_states - n_terminal
    r = np.where(terminal[:, None] | ~admissible, 0.0, rng.normal(size=(n_states, n_actions)))
    p[terminal] = np.eye(n_states)[terminal][:, None]
    return p, r, admissible, terminal


@pytest.mark.parametrize("discount", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("n_terminal", [0, 2])
def test_optimal_values_are_quantecons(quantecon, discount, n_terminal):
    for seed in range(5):
        p, r, admissible, terminal = ragged(seed, n_terminal=n_terminal)
        theirs = admissible.copy()
        theirs[terminal] = np.arange(theirs.shape[1]) == 0  # a terminal state is one that stays and pays nothing
        x, u = np.nonzero(theirs)
        assert len(set(np.bincount(x))) > 1  # ragged
        solved = quantecon.markov.DiscreteDP(r[x, u], p[x, u], discount, x, u).solve(method="policy_iteration")
        mdp = from_arrays(p, r, admissible=admissible, terminal=terminal, discount=discount)
        found = optimal(mdp)
        np.testing.assert_allclose(found.v, solved.v, rtol=1e-10, atol=1e-10)
        q = np.where(mdp.learned, r + discount * p @ solved.v, 0.0)
        np.testing.assert_allclose(np.where(mdp.learned, found.q, 0.0), q, rtol=1e-10, atol=1e-10)
        open_states = ~terminal
        greedy = np.where(mdp.learned, found.q, -np.inf).argmax(1)
        np.testing.assert_array_equal(greedy[open_states], solved.sigma[open_states])
