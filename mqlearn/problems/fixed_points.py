"""Where linear Q-learning goes on an exact model: the distribution of the samples, and theta*.

theta* is a root of the mean gradient (the paper's gbar, with Phi inside the expectation)

    gbar(theta) = sum_(x,u) mu(x, u) E[ Phi(x, u)'theta - r - g max_v Phi(y, v)'theta ] Phi(x, u).

That there is one is Assumption 2 of the paper, not a fact, so what is found is checked and counted. scipy
costs start-up time, so it is imported inside the functions.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from mqlearn.checks import are_distributions, check_int, finite_number
from mqlearn.errors import SettingError
from mqlearn.problems import operators, sweeps
from mqlearn.problems.feature_rows import Features
from mqlearn.problems.linear_roots import ROOT, OperatorSystem, System
from mqlearn.problems.mdp import FiniteMDP, bellman
from mqlearn.problems.policy_chains import chain_of, factor
from mqlearn.problems.solvers import ConvergenceError, optimal
from mqlearn.rounding import SOLVES, Rounding

_LONGEST = 1e8  # visits of a state in an episode, of which LU keeps eight digits
_DENSE = 2000  # states of a chain that elimination takes
_MOVES, _PRODUCTS = 20_000, 500  # of a chain on which LU fills up
_RESTS, _SOLVED = 1e-15, 1e-13  # change, and residual, in sum and relative to all
_SAME = 1e-6  # relative distance below which two roots are one


@dataclass(frozen=True, eq=False, repr=False)
class FixedPoint:
    """theta* and what it is worth.

    theta (d,): a root of gbar, NaN where none was found.
    residual: sup norm of gbar there; without a root, the smallest that was seen.
    n_roots: number of distinct roots found from all starts.
    distance: sup norm of Phi theta* - Q* over the counted pairs, NaN without a root; of another operator than
        Bellman's, from its fixed point.
    exists: whether a root was found.
    used (d,) bool: the columns that some sampled pair uses. Learning never moves the others: a distance of
        theta from theta* leaves them out.
    condition: of the linear system that gave theta*, in the 1-norm, estimated; infinite without a root.
    """

    theta: np.ndarray
    residual: float
    n_roots: int
    distance: float
    exists: bool
    used: np.ndarray
    condition: float = math.inf

    @property
    def rounding(self) -> Rounding:
        """Of the distance from theta*, relative to its length."""
        return Rounding((SOLVES,), self.condition, 1.0)

    def __repr__(self) -> str:
        found = f"{self.n_roots} roots, {self.distance:.4g} from Q*" if self.exists else "not found"
        return f"FixedPoint(d = {len(self.theta)}, {found}, residual {self.residual:.2g})"


def stationary_distribution(
    mdp: FiniteMDP,
    behaviour: np.ndarray,
    *,
    start: np.ndarray,
    restart_probability: float = 0.0,
    time_limit: int | None = None,
) -> np.ndarray:
    """mu (S, A): the long-run share of each pair among the samples of a chain of episodes.

    behaviour: (S, A) probabilities of the actions.
    start: (S,) distribution of the first state of an episode.
    restart_probability, time_limit: an episode ends in a terminal state, after any move with this probability,
        and after this number of moves. The last two leave the sample of that move as it is.

    By the renewal theorem mu is proportional to the expected visits in an episode: the solution of eta = start + K'
    eta, K the moves after which it goes on (sparse LU, the residual checked; where LU fills up, as on large random
    graphs, repeated products with K', checked alike), or the sum of K'^t start over t < time_limit. Where no episode
    ends and every state is visited again and again, what lies between two visits of one state takes the place of an
    episode. Episodes that are too long for the solution's digits leave it to elimination without subtractions
    (Grassmann, Taksar and Heyman 1985). Raises SettingError, also for a chain that leaves some states for good.
    """
    from scipy import sparse

    start = _distribution("sampling.start", start, ~mdp.terminal)
    behaviour = np.asarray(behaviour, float)
    if behaviour.shape != mdp.learned.shape:
        expected = f"must have the shape {mdp.learned.shape}"
        raise SettingError("sampling.behaviour", f"array of shape {behaviour.shape}", expected)
    restart = finite_number(restart_probability)
    if restart is None or not (restart == 0 or 1e-9 <= restart <= 1):
        expected = "must be 0, or a number from 1e-9 to 1"
        raise SettingError("sampling.restart_probability", restart_probability, expected)
    p, _ = chain_of(mdp, behaviour)
    p.eliminate_zeros()
    visited = _reached(p, start > 0) & ~mdp.terminal
    inside = sparse.diags_array(1.0 * visited)
    going_on = sparse.csr_array((1 - restart) * (inside @ p @ inside))
    if time_limit is not None:
        visits = _visits_within(going_on, start, check_int("sampling.time_limit", time_limit, 1))
    else:
        endless = visited & ~_reached(sparse.csr_array(p.T), mdp.terminal)
        visits, unending = None, restart == 0 and endless.any()
        if unending:
            start = _again_and_again(p, visited, endless, restart_probability)
        if sweeps.fills_up(mdp):
            visits = _balanced(going_on, visited) if unending else _added_up(going_on, start)
        if visits is None:
            going_on = sparse.csr_array(going_on @ sparse.diags_array(1.0 - start)) if unending else going_on
            visits = _visits(going_on, start)
        if visits is None:
            if visited.sum() > _DENSE:
                raise ConvergenceError(f"the stationary distribution on {mdp.name} was not found")
            ends = restart + (1 - restart) * (p @ (1.0 * mdp.terminal))
            chain = (1 - restart) * (p @ inside).toarray() + np.outer(ends, start)
            visits = np.zeros(mdp.n_states)
            visits[visited] = _shares(chain[np.ix_(visited, visited)])
    mu = np.where(mdp.learned, np.maximum(visits, 0.0)[:, None] * behaviour, 0.0)
    return mu / mu.sum()


def mean_gradient(
    mdp: FiniteMDP, features: Features, mu: np.ndarray, theta: np.ndarray, operator: Any = None
) -> np.ndarray:
    """gbar(theta) (d,), for the distribution mu (S, A) of the samples. operator: of the targets, None for Bellman's."""
    x, u = mdp.pairs.T
    table = features.table(mdp, theta)
    target = bellman(mdp, table) if operator is None else operators.apply(mdp, operator, table)
    return features.matrix().T @ (mu * (table - target))[x, u]


def theta_star(
    mdp: FiniteMDP,
    features: Features,
    mu: np.ndarray,
    starts: int = 5,
    theta0: float | np.ndarray = 0.0,
    operator: Any = None,
) -> FixedPoint:
    """A root of gbar for the distribution mu (S, A) of the samples, by semismooth Newton steps.

    gbar is linear as long as the greedy policy stays the same, and a step solves the system of the present
    policy: this is policy iteration. Where policies go round in a circle the steps become shorter. The first
    start is the greedy policy of Q*, the other `starts` - 1 are random policies; the first root is returned.

    theta0: a number or (d,). Samples move theta within theta0 plus the span of the sampled rows of Phi, and
    the root is sought there: columns that no sampled pair uses stay at theta0.   operator: of the targets, without
    s (see `mqlearn.algorithms.operators`); None for Bellman's. Raises SettingError.
    """
    x, u = mdp.pairs.T
    weights = _distribution("mu", mu, mdp.learned)[x, u]
    start = np.broadcast_to(theta0, features.n_features).astype(float)
    system = (
        System(mdp, features, weights, start)
        if operator is None
        else OperatorSystem(mdp, features, weights, start, operator)
    )
    draws = np.random.default_rng(0).random((check_int("starts", starts, 1) - 1, mdp.n_states, mdp.n_actions))
    ends = [system.newton(system.policy(table)) for table in (optimal(mdp).q, *draws)]
    roots: list[np.ndarray] = []
    for end in ends:
        known = (np.abs(end.theta - root).max() <= _SAME * np.abs(root).max() for root in roots)
        if end.share <= ROOT and not any(known):
            roots.append(end.theta)
    if not roots:
        theta = np.full(features.n_features, math.nan)
        return FixedPoint(theta, min(end.residual for end in ends), 0, math.nan, False, system.used)
    residual = float(np.abs(mean_gradient(mdp, features, mu, roots[0], operator)).max())
    exact = optimal(mdp).q if operator is None else operators.fixed_point(mdp, operator).q
    error = np.abs(features.table(mdp, roots[0]) - exact)
    distance = float(error[mdp.counted].max())
    return FixedPoint(roots[0], residual, len(roots), distance, True, system.used, system.condition(roots[0]))


def _reached(p: Any, origin: np.ndarray) -> np.ndarray:
    """(S,) bool: the states that a chain reaches from the states `origin` (S,) bool, those included."""
    from scipy.sparse.csgraph import dijkstra

    if not origin.any():
        return origin
    return np.isfinite(dijkstra(p, indices=np.flatnonzero(origin), unweighted=True, min_only=True))


def _again_and_again(p: Any, visited: np.ndarray, endless: np.ndarray, restart_probability: float) -> np.ndarray:
    """(S,): a state, as a distribution, that a chain without end comes back to, as to all others that it visits.

    Raises SettingError if it leaves some of them for good.
    """
    first = np.arange(len(visited)) == endless.argmax()
    beyond, before = visited & ~_reached(p, first), visited & ~_reached(p.T.tocsr(), first)
    if beyond.any() or before.any():
        caught, left = (first, beyond) if beyond.any() else (before, first)
        trap = f"an episode that comes to state {caught.argmax()} never ends, nor comes to state {left.argmax()}"
        expected = f"{trap}: set a probability above 0, or sampling.time_limit"
        raise SettingError("sampling.restart_probability", restart_probability, expected)
    return 1.0 * first


def _visits(going_on: Any, start: np.ndarray) -> np.ndarray | None:
    """(S,): the expected visits in an episode, if sparse LU gives them with at least eight digits."""
    try:
        visits = factor(going_on, 1.0).solve(start, "T")
    except RuntimeError:  # singular in floating point
        return None
    largest = np.abs(visits).max()
    if not largest <= _LONGEST or visits.min() < -1e-10 * largest:  # NaN too
        return None
    return visits if np.all(np.abs(start + going_on.T @ visits - visits) <= 1e-10 * largest) else None


def _balanced(chain: Any, visited: np.ndarray) -> np.ndarray | None:
    """(S,): the stationary distribution of a chain (S, S), irreducible on the states that it visits, by repeated moves,
    each made with probability 1/2, so that no period is left; None if it does not rest in time."""
    transposed, share = chain.T.tocsr(), visited / visited.sum()
    for _ in range(_MOVES):
        new = (share + transposed @ share) / 2
        change, share = np.abs(new - share).sum(), new / new.sum()
        if change <= _RESTS:
            return share
    return None


def _added_up(going_on: Any, start: np.ndarray) -> np.ndarray | None:
    """`_visits` by repeated products, then by GMRES; None where that does not give its digits."""
    transposed, visits = going_on.T.tocsr(), start
    for _ in range(_PRODUCTS):
        new = start + transposed @ visits
        change, visits = np.abs(new - visits).sum(), new
        if change <= _RESTS * visits.sum():
            return visits
    visits = sweeps._krylov(transposed, start, 1.0, visits)
    largest, wrong = np.abs(visits).max(), np.abs(start + transposed @ visits - visits).sum()
    well = wrong <= _SOLVED * visits.sum() and largest <= _LONGEST and visits.min() >= -_SOLVED * largest
    return visits if well else None


def _shares(chain: np.ndarray) -> np.ndarray:
    """(S,): the stationary distribution of an irreducible chain (S, S): one state after another is left out.

    Nothing is subtracted, so that each share is right in its own digits, however small.
    """
    left = chain.copy()
    for k in range(len(left) - 1, 0, -1):
        left[:k, k] /= left[k, :k].sum()
        into, out = np.flatnonzero(left[:k, k]), np.flatnonzero(left[k, :k])
        left[np.ix_(into, out)] += np.outer(left[into, k], left[k, out])
    shares = np.zeros(len(left))
    shares[0] = 1.0
    for k in range(1, len(left)):
        shares[k] = shares[:k] @ left[:k, k]
        shares[: k + 1] /= max(shares[k], 1.0)  # not to overflow
    return shares / shares.sum()


def _visits_within(going_on: Any, start: np.ndarray, time_limit: int) -> np.ndarray:
    """(S,): the expected visits in an episode of at most `time_limit` moves."""
    transposed = going_on.T.tocsr()
    present, visits = start, np.zeros(len(start))
    for left in range(time_limit, 0, -1):
        visits = visits + present
        present = transposed @ present
        if present.sum() * left <= 1e-17 * visits.sum():  # the rest of the sum is smaller
            break
    return visits


def _distribution(setting: str, given: np.ndarray, possible: np.ndarray) -> np.ndarray:
    """Probabilities that are 0 where not `possible`, and of its shape. Raises SettingError."""
    array = np.asarray(given, float)
    if array.shape != possible.shape:
        expected = f"must have the shape {possible.shape}"
        raise SettingError(setting, f"array of shape {array.shape}", expected)
    if not are_distributions(array.ravel(), possible.ravel()):
        expected = "must be probabilities that sum to 1, 0 at terminal states and inadmissible actions"
        raise SettingError(setting, f"array with the sum {array.sum():.12g}", expected)
    return array
