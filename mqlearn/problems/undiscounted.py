"""What a table is worth undiscounted, where the Bellman operator need not contract: a bound by lengths of episodes.

Let T be the undiscounted Bellman operator, q a table (S, A), v its maxima, e >= |Tq - q| at all pairs, and d >= 0 a
vector over the states, 0 at terminal ones, with

    q(x, u) + e (1 + sum_y p(y | x, u) d(y)) <= v(x) + e d(x)    at all pairs.                                      (1)

Then |q - Q*|(x, u) <= e (1 + sum_y p(y | x, u) d(y)): q is as near Q* as that in a sup norm with these weights, and in
the plain one, which is what users see, as e times the largest of them. Proof.

Above. T(v + e d)(x, u) = Tq(x, u) + e P d <= q + e (1 + P d) <= v + e d. A policy's operator lies below T, and its
powers from v + e d come down to its value if it ends; one that does not end is worth -inf (`endings`). So V* is at most
v + e d, and Q* = R + P V* <= Tq + e P d <= q + e (1 + P d).

Below. Let u be greedy in q: there q = v, so that (1) says 1 + P d <= d along the greedy policy. So that policy ends,
after at most d(x) moves on average. Its operator takes v - e d to Tq - e P d >= q - e - e (d - 1) = v - e d at least;
its powers from there go up to its value, which is at most V*. So V* >= v - e d, and Q* >= q - e (1 + P d).

(1) asks d to be an expected length under the policies that q cannot tell from the best one: actions whose q is lower by
more than e (1 + P d - d) may be as long as they like. It is looked for by policy iteration on lengths from the greedy
policy, a little longer than they are (`_LONGER`), so that (1) holds beyond rounding. Where all policies end, T is a
contraction in a sup norm with such weights (Bertsekas and Tsitsiklis 1996, proposition 2.2), and d is found for any
table; elsewhere for tables near enough to Q*, that policies that do not end fall behind in.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from mqlearn.problems.endings import surely_ending
from mqlearn.problems.mdp import FiniteMDP, expected, greedy, state_values
from mqlearn.problems.policy_chains import chain_of

_EPS = float(np.finfo(float).eps)
_LONGER = 1e-6  # relative
_IMPROVEMENTS = 100


Solve = Callable[[FiniteMDP, Any, np.ndarray], np.ndarray]  # v of v = r + discount p v, of model, p and r


def certified(mdp: FiniteMDP, q: np.ndarray, wrong: float, solve: Solve) -> tuple[float, float]:
    """A bound on max |q - Q*| over the learned pairs, inf where none is found, and the largest weight in it.

    q (S, A): any table.   wrong: a bound on |Tq - q| over the learned pairs, above 0 unless all rewards are 0.
    solve: how the chain of a policy is.
    """
    states = np.arange(mdp.n_states)
    gap = np.where(mdp.learned, state_values(mdp, q)[:, None] - q, np.inf) * (1 - 4 * _EPS)
    policy = greedy(mdp, q)
    for _ in range(_IMPROVEMENTS):
        d = _lengths(mdp, policy, solve)
        if d is None:
            break
        weights = np.where(mdp.learned, 1 + expected(mdp, d), 0.0) * (1 + (2 * mdp.n_successors + 6) * _EPS)
        lacks = np.where(mdp.learned, wrong * (weights - d[:, None]) - gap, -np.inf)  # of (1)
        worst = lacks.argmax(1)
        short = lacks[states, worst] > 0
        if not short.any():
            largest = float(weights.max())
            return wrong * largest, largest / (1 + _LONGER)
        if (worst == policy)[short].all():  # rounding alone
            break
        policy = np.where(short, worst, policy)
    return np.inf, np.inf


def _lengths(mdp: FiniteMDP, policy: np.ndarray, solve: Solve) -> np.ndarray | None:
    """(S,): a little more than the expected moves of a policy (S,) of actions to its end; None if it has none."""
    p, _ = chain_of(mdp, policy)
    if not surely_ending(p, mdp.terminal).all():
        return None
    moves = np.where(mdp.terminal, 0.0, 1.0)
    d = solve(mdp, p, moves)
    return d * (1 + _LONGER) if np.isfinite(d).all() and (d >= 0).all() else None
