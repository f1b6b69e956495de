"""Q* against QuantEcon's DiscreteDP, in its form of state-action pairs, on random models with ragged actions."""

import numpy as np
import pytest
from scipy import sparse

import mqlearn as mq
from mqlearn.errors import SettingError
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


def test_a_discrete_dp_is_read_by_the_line_that_its_refusal_names(quantecon):
    """In both of its forms: pairs, and tables with -inf at pairs that there are not."""
    p, r, admissible, _ = ragged(7)
    x, u = np.nonzero(admissible)
    pairs = quantecon.markov.DiscreteDP(r[x, u], p[x, u], 0.9, x, u)
    table = quantecon.markov.DiscreteDP(np.where(admissible, r, -np.inf), p, 0.9)
    ours = from_arrays(p, r, admissible=admissible, discount=0.9)
    for theirs in (pairs, table):
        with pytest.raises(SettingError) as refused:
            from_arrays(theirs, None, discount=0.9)
        line = refused.value.admissible.partition("with d the DiscreteDP: ")[2]
        made = eval(line, {"mq": mq, "d": theirs})  # our own message
        assert made.digest() == ours.digest()
        np.testing.assert_allclose(optimal(made).v, theirs.solve(method="policy_iteration").v, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("discount", [0.9, 0.99])
def test_a_large_garnet_has_the_values_that_quantecon_finds(quantecon, discount):
    """Where LU would fill up: their modified policy iteration to 1e-9, ours to its certified error."""
    n = 5000
    mdp = mq.garnet(n, dialect="normalised", discount=discount)
    x, u = mdp.pairs.T
    rows = np.arange(len(x) + 1) * mdp.n_successors
    q = sparse.csr_matrix((mdp.probabilities.ravel(), mdp.successors.ravel(), rows), shape=(len(x), n))
    problem = quantecon.markov.DiscreteDP(mdp.mean_rewards.ravel(), q, discount, x, u)
    solved = problem.solve(method="modified_policy_iteration", epsilon=1e-9, max_iter=10_000)
    found = optimal(mdp)
    assert found.error_bound < 1e-10
    assert np.abs(found.v - solved.v).max() <= 1e-9 + found.error_bound
    theirs = q @ np.asarray(solved.v)
    assert np.abs(found.q.ravel() - (mdp.mean_rewards.ravel() + discount * theirs)).max() <= 1e-9 + found.error_bound
