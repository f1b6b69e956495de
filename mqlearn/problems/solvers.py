"""Exact solutions of a FiniteMDP: Q*, values of policies, probabilities of success, each checked.

A policy is an array (S,) of actions or (S, A) of probabilities. scipy costs start-up time, so it is imported
inside the functions.
"""

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from mqlearn.errors import SettingError
from mqlearn.problems import costs, elimination, sweeps, undiscounted
from mqlearn.problems.endings import surely_ending
from mqlearn.problems.mdp import FiniteMDP, backup, bellman, greedy, state_values
from mqlearn.problems.policy_chains import chain_of, factor, matrix, rows_of
from mqlearn.rounding import SOLVES, Rounding, of_discount

_EPS = float(np.finfo(float).eps)
_SWEEPS = 20  # evaluations of a policy between two improvements
_IMPROVEMENTS = 3000
_SOLVES = 100
_SMALLEST = 1e-150  # of the largest reward: its products with errors are still normal numbers


class ConvergenceError(RuntimeError):
    """An exact quantity could not be computed to a certified accuracy."""


@dataclass(frozen=True, eq=False, repr=False)
class Optimum:
    """Q* as q (S, A) and its maximum v (S,), both wrong by at most `error_bound` in the sup norm.

    iterations: improvements of the first method plus solves of the second. start_value: mean of v over the
    start distribution. horizon: the steps over which values add up, 1/(1 - g); undiscounted the largest expected number
    of moves under any policy that q cannot tell from the best.
    """

    q: np.ndarray
    v: np.ndarray
    error_bound: float
    iterations: int
    start_value: float
    horizon: float

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.q.shape))
        return f"Optimum(Q* {shape}, {self.start_value:.6g} at the start, wrong by at most {self.error_bound:.2g})"


_optima: WeakKeyDictionary[FiniteMDP, Optimum] = WeakKeyDictionary()


def optimal(mdp: FiniteMDP) -> Optimum:
    """Q* of the model `mdp`, by modified policy iteration (Puterman and Shin 1978), then by policy iteration with
    sparse LU solves.

    The two tables must agree within their certified errors; the second is returned. Where the rewards have
    one sign nothing cancels, and even values of 1e-60 are right to many digits although the bound is
    absolute. Where LU would fill up, it is one method alone, with the same certificate: policy iteration by elimination
    of states on large maps, modified policy iteration on random graphs. Undiscounted all start from a policy that ends.
    Computed once for each object: an `Optimum`, with q (S, A) and v (S,) in units of the reward. Raises
    ConvergenceError, and SettingError for a discount so near 1, or episodes so long, that the bound says nothing.

    >>> optimum = mq.optimal(mq.two_state(discount=0.5))
    >>> optimum.q.round(6).tolist(), optimum.error_bound < 1e-12
    ([[6.75, 9.0], [-2.0, 0.0]], True)
    """
    if mdp not in _optima:
        _optima[mdp] = _solve_optimum(mdp)
    return _optima[mdp]


def _solve_optimum(mdp: FiniteMDP) -> Optimum:
    if 0 < (largest := float(np.abs(mdp.rewards).max())) < _SMALLEST:
        raise SettingError("rewards", largest, f"the largest must be 0 or at least {_SMALLEST:g}: smaller ones vanish")
    if sweeps.fills_up(mdp):
        if costs.eliminates_optimum(mdp):
            v, iterations = elimination.optimal_values(mdp, _first_policy(mdp))
            q = backup(mdp, v)
        else:
            q, iterations = sweeps.optimal_table(mdp, _first_values(mdp) if mdp.discount == 1 else None)
        bound = certified_error(mdp, q)
    else:
        q, bound, iterations = _by_two_methods(mdp)
    if not bound <= 1e-6 * max(np.abs(q).max(), np.abs(mdp.rewards).max()):
        reason = f"is too near 1 for double precision: Q* would only be known to within {bound:.3g}"
        raise SettingError("discount", mdp.discount, reason)
    if mdp.discount < 1:
        horizon = 1 / (1 - mdp.discount)
    else:
        _, horizon = undiscounted.certified(mdp, q, _residual(mdp, q), _solution)
    v = state_values(mdp, q)
    for array in (q, v):
        array.flags.writeable = False
    return Optimum(q, v, bound, iterations, float(mdp.start @ v), horizon)


def _by_two_methods(mdp: FiniteMDP) -> tuple[np.ndarray, float, int]:
    """A table (S, A), its certified error, and the iterations of both methods, which must agree."""
    first, improvements = _modified_policy_iteration(mdp)
    second, solves = _policy_iteration(mdp, first)
    first_bound, bound = certified_error(mdp, first), certified_error(mdp, second)
    distance = float(np.abs(first - second).max())
    if not distance <= first_bound + bound:
        raise ConvergenceError(f"two solutions of {mdp.name} differ by {distance:.3g}, beyond their certified errors")
    return second, bound, improvements + solves


def certified_error(mdp: FiniteMDP, q: np.ndarray) -> float:
    """A bound on max |q - Q*| over the learned pairs that holds for any table q (S, A), rounding included.

    Banach's fixed point theorem: ||q - Q*|| <= ||Tq - q|| / (1 - g), with g the discount times the largest
    sum of probabilities as they are stored. Undiscounted, by expected lengths of episodes: `undiscounted.certified`.
    """
    wrong = _residual(mdp, q)
    if mdp.discount == 1:
        return undiscounted.certified(mdp, q, wrong, _solution)[0]
    sums = np.where(mdp.learned, mdp.probabilities.sum(2), 1.0)
    contraction = mdp.discount * sums.max() * (1 + (mdp.n_successors + 2) * _EPS)
    return float(wrong / (1 - contraction)) if contraction < 1 else np.inf


def _residual(mdp: FiniteMDP, q: np.ndarray) -> float:
    """A bound on max |Tq - q| over the learned pairs, rounding included."""
    size = np.abs(mdp.rewards) + mdp.discount * np.abs(state_values(mdp, q))[mdp.successors]
    rounding = (2 * mdp.n_successors + 6) * _EPS * (mdp.probabilities * size).sum(2)
    return float(np.where(mdp.learned, np.abs(bellman(mdp, q) - q) + rounding, 0.0).max())


def condition(mdp: FiniteMDP) -> float:
    """A bound on the condition of the linear system of a policy in the sup norm; undiscounted of an optimal one."""
    return of_discount(mdp.discount) if mdp.discount < 1 else 2 * optimal(mdp).horizon


def rounding(mdp: FiniteMDP) -> Rounding:
    """Of Q* and of the values of policies. Also where our own elimination finds these: its order is no part of a run's
    numerics version."""
    scale = max(float(np.abs(optimal(mdp).q).max()), float(np.abs(mdp.rewards).max()))
    return Rounding((SOLVES,), condition(mdp), scale)


def optimal_actions(mdp: FiniteMDP, tolerance: float | None = None) -> int:
    """Number of counted pairs whose Q* is the largest of their state to within `tolerance`.

    The default, four times the certified error, misses no optimal action.
    """
    optimum = optimal(mdp)
    tolerance = 4 * optimum.error_bound if tolerance is None else tolerance
    return int((mdp.counted & (optimum.q >= optimum.v[:, None] - tolerance)).sum())


def policy_value(mdp: FiniteMDP, policy: np.ndarray) -> np.ndarray:
    """v (S,) of a policy: the solution of (I - discount * P) v = r by sparse LU, its residual checked.

    By elimination or sweeps where LU would fill up. Undiscounted, -inf at the states from which it may go on for ever,
    which costs without end. Raises ConvergenceError.
    """
    p, r = chain_of(mdp, policy)
    endless = np.zeros(mdp.n_states, bool)
    if mdp.discount == 1 and not (ends := surely_ending(p, mdp.terminal)).all():
        endless = ~ends
        p, r = rows_of(p, ends), np.where(ends, r, 0.0)
    v = _solution(mdp, p, r)
    ahead = mdp.discount * (p @ v)
    if not np.all(np.abs(r + ahead - v) <= 1e-10 * (np.abs(r).max() + np.abs(v).max())):
        raise ConvergenceError(f"the linear system of a policy on {mdp.name} was not solved")
    return np.where(endless, -np.inf, v) if endless.any() else v


def _solution(mdp: FiniteMDP, p: Any, r: np.ndarray) -> np.ndarray:
    """v (S,) near that of v = r + discount p v, of the chain p (S, S) of a policy, with rewards r (S,)."""
    if not sweeps.fills_up(mdp):
        return factor(p, mdp.discount).solve(r)
    return (elimination if costs.eliminates_policy(mdp) else sweeps).chain_values(mdp, p, r)


def policy_values_at_start(mdp: FiniteMDP, policies: np.ndarray) -> np.ndarray:
    """(n,): the values of the policies (n, S, A), probabilities, as means over the start distribution."""
    starts = mdp.start > 0  # elsewhere an undiscounted value may be -inf
    return np.array([mdp.start @ np.where(starts, policy_value(mdp, policy), 0.0) for policy in policies])


def success_probability(mdp: FiniteMDP) -> np.ndarray:
    """(S,): the largest undiscounted probability of ever reaching a goal.

    Policy iteration that starts from shortest ways, under which all states with a way to a goal are
    transient, and switches only on strict improvement, which keeps them so: I - P stays regular. Raises
    ConvergenceError. Where LU would fill up, the same by elimination on maps; else it is iterated from below until it
    rests in its own digits.
    """
    if sweeps.fills_up(mdp) and not costs.narrow(mdp) and (found := sweeps.success(mdp)) is not None:
        return found
    hopeful, policy = _towards(mdp, mdp.goal)
    if sweeps.fills_up(mdp) and costs.narrow(mdp):
        return elimination.success(mdp, policy)
    states = np.arange(mdp.n_states)
    arrives = np.where(mdp.learned, (mdp.probabilities * mdp.goal[mdp.successors]).sum(2), 0.0)
    stays = np.where(hopeful[:, None, None] & hopeful[mdp.successors], mdp.probabilities, 0.0)
    for _ in range(1000):
        chain = matrix(stays[states, policy], mdp.successors[states, policy])
        v = factor(chain, 1.0).solve(np.where(hopeful, arrives[states, policy], 0.0))
        gain = np.where(mdp.learned, arrives + (stays * v[mdp.successors]).sum(2), -np.inf)
        better = hopeful & (gain.max(1) > v * (1 + 1e-11))
        if not better.any():
            return np.where(mdp.goal, 1.0, np.clip(v, 0.0, 1.0))
        policy = np.where(better, gain.argmax(1), policy)
    raise ConvergenceError(f"the best success probability on {mdp.name} was not found in 1000 improvements")


def shortest_path(mdp: FiniteMDP) -> int | None:
    """Fewest moves from a possible first state to a goal, counting any outcome; None without a way."""
    moves = mdp.distances[mdp.goal & mdp.reachable]
    return int(moves.min()) if moves.size else None


def _modified_policy_iteration(mdp: FiniteMDP) -> tuple[np.ndarray, int]:
    """A table (S, A) and the number of improvements.

    It starts from the value of shortest ways, because a reward at the goal would travel one move an
    improvement; it ends on relative changes where the signs allow it, because an absolute tolerance would
    end before it arrives.
    """
    possible = mdp.rewards[(mdp.probabilities > 0) & mdp.learned[:, :, None]]
    one_sign = possible.min(initial=0) >= 0 or possible.max(initial=0) <= 0
    v = _first_values(mdp)
    improvements = 0
    while True:
        q = backup(mdp, v)
        best = state_values(mdp, q)
        scale = np.abs(best) if one_sign else np.abs(best).max()
        if improvements == _IMPROVEMENTS or np.all(np.abs(best - v) <= 1e-13 * scale):
            return q, improvements  # the certificate says what they are worth
        improvements += 1
        p, r = chain_of(mdp, greedy(mdp, q))
        p, v = mdp.discount * p, best
        for _ in range(_SWEEPS):
            v = r + p @ v


def _first_values(mdp: FiniteMDP) -> np.ndarray:
    """Of the policy of shortest ways, to a goal or, undiscounted, to an end: that one ends from every state. From there
    values only grow, and so do not leave the policies that end: one that goes on for ever would lose more."""
    return policy_value(mdp, _first_policy(mdp))


def _first_policy(mdp: FiniteMDP) -> np.ndarray:
    return _towards(mdp, mdp.terminal if mdp.discount == 1 else mdp.goal)[1]


def _policy_iteration(mdp: FiniteMDP, q: np.ndarray) -> tuple[np.ndarray, int]:
    """The table of least certified error in a policy iteration from the greedy policy of q, and the solves.

    An action is kept where it is as good as any up to rounding: without that, ties would make it cycle.
    """
    states = np.arange(mdp.n_states)
    policy, least, table = greedy(mdp, q), np.inf, q
    for solve in range(1, _SOLVES + 1):
        v = policy_value(mdp, policy)
        new = backup(mdp, v)
        error = certified_error(mdp, new)
        if error < least:
            least, table = error, new
        size = (mdp.probabilities * (np.abs(mdp.rewards) + np.abs(v)[mdp.successors])).sum(2).max(1)
        better = ~mdp.terminal & (state_values(mdp, new) > new[states, policy] + 64 * _EPS * size)
        if not better.any():
            return table, solve
        policy = np.where(better, greedy(mdp, new), policy)
    return table, _SOLVES


def _towards(mdp: FiniteMDP, goal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The states (S,) bool that are no goal but have a way to one, and a policy (S,) of shortest ways.

    The other states get their first admissible action.
    """
    from scipy import sparse
    from scipy.sparse.csgraph import dijkstra

    possible = (mdp.probabilities > 0) & mdp.learned[:, :, None] & ~goal[:, None, None]
    moves = np.full(mdp.n_states, np.inf)
    if goal.any():
        x, u, b = np.nonzero(possible)
        backwards = (np.ones(len(x)), (mdp.successors[x, u, b], x))
        graph = sparse.csr_array(backwards, shape=(mdp.n_states, mdp.n_states))
        moves = dijkstra(graph, indices=np.flatnonzero(goal), unweighted=True, min_only=True)
    ahead = np.where(possible, moves[mdp.successors], np.inf).min(2)
    hopeful = np.isfinite(ahead.min(1))
    return hopeful, np.where(hopeful, ahead.argmin(1), mdp.admissible.argmax(1))
