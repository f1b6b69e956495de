"""Where linear Q-learning goes on an exact model: the distribution of the samples, and theta*.

theta* is a root of the mean gradient (the paper's gbar, with Phi inside the expectation)

    gbar(theta) = sum_(x,u) mu(x, u) E[ Phi(x, u)'theta - r - g max_v Phi(y, v)'theta ] Phi(x, u).

That there is one is Assumption 2 of the paper, not a fact, so what is found is checked and counted. scipy
costs start-up time, so it is imported inside the functions.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mqlearn.checks import are_distributions, finite_number, whole
from mqlearn.errors import SettingError
from mqlearn.problems.feature_rows import Features, null_space
from mqlearn.problems.mdp import FiniteMDP, bellman, greedy, state_values, table_of_pairs
from mqlearn.problems.solvers import ConvergenceError, _chain, _factor, optimal

_SOLVES = 60  # Newton steps from one start,
_DENSE_WORK = 3e11  # fewer when d^3 for each adds up to more, but at least 15
_SHORTEST = 2.0**-10  # step length at which a start is given up
_ROOT = 1e-9  # |gbar_j| / (sum of the sizes of its terms) of a root; solved ones have about 1e-15
_NOISE = 1e-6  # share of the largest term that a term counts for at least: 0 comes out as 1e-17 of the others
_SAME = 1e-6  # relative distance below which two roots are one


@dataclass(frozen=True, eq=False, repr=False)
class FixedPoint:
    """theta* and what it is worth.

    theta (d,): a root of gbar, NaN where none was found.
    residual: sup norm of gbar there; without a root, the smallest that was seen.
    n_roots: number of distinct roots found from all starts.
    distance: sup norm of Phi theta* - Q* over the counted pairs, NaN without a root.
    exists: whether a root was found.
    used (d,) bool: the columns that some sampled pair uses. Learning never moves the others: a distance of
        theta from theta* leaves them out.
    """

    theta: np.ndarray
    residual: float
    n_roots: int
    distance: float
    exists: bool
    used: np.ndarray

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

    By the renewal theorem mu is proportional to the expected visits in an episode: the solution of
    eta = start + K' eta, K the moves after which it goes on (sparse LU, the residual checked), or the sum of
    K'^t start over t < time_limit. Raises SettingError, also for episodes that may never end.
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
    p, _ = _chain(mdp, behaviour)
    p.eliminate_zeros()
    visited = _reached(p, start > 0) & ~mdp.terminal
    inside = sparse.diags_array(1.0 * visited)
    going_on = sparse.csr_array((1 - restart) * (inside @ p @ inside))
    if time_limit is not None:
        visits = _visits_within(going_on, start, whole("sampling.time_limit", time_limit, 1))
    else:
        endless = visited & ~_reached(sparse.csr_array(p.T), mdp.terminal)
        if restart == 0 and endless.any():
            trap = f"an episode that comes to state {endless.argmax()} never ends"
            expected = f"{trap}: set a probability above 0, or sampling.time_limit"
            raise SettingError("sampling.restart_probability", restart_probability, expected)
        visits = _factor(going_on, 1.0).solve(start, "T")
        if not np.all(np.abs(start + going_on.T @ visits - visits) <= 1e-10 * np.abs(visits).max()):
            raise ConvergenceError(f"the stationary distribution on {mdp.name} was not found")
    mu = np.where(mdp.learned, np.maximum(visits, 0.0)[:, None] * behaviour, 0.0)
    return mu / mu.sum()


def mean_gradient(mdp: FiniteMDP, features: Features, mu: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """gbar(theta) (d,), for the distribution mu (S, A) of the samples."""
    x, u = mdp.pairs.T
    table = features.table(mdp, theta)
    return features.matrix().T @ (mu * (table - bellman(mdp, table)))[x, u]


def theta_star(
    mdp: FiniteMDP,
    features: Features,
    mu: np.ndarray,
    starts: int = 5,
    theta0: float | np.ndarray = 0.0,
) -> FixedPoint:
    """A root of gbar for the distribution mu (S, A) of the samples, by semismooth Newton steps.

    gbar is linear as long as the greedy policy stays the same, and a step solves the system of the present
    policy: this is policy iteration. Where policies go round in a circle the steps become shorter. The first
    start is the greedy policy of Q*, the other `starts` - 1 are random policies; the first root is returned.

    theta0: a number or (d,). Samples move theta within theta0 plus the span of the sampled rows of Phi, and
    the root is sought there: columns that no sampled pair uses stay at theta0. Raises SettingError.
    """
    x, u = mdp.pairs.T
    weights = _distribution("mu", mu, mdp.learned)[x, u]
    system = _System(mdp, features, weights, np.broadcast_to(theta0, features.n_features).astype(float))
    draws = np.random.default_rng(0).random((whole("starts", starts, 1) - 1, mdp.n_states, mdp.n_actions))
    ends = [system.newton(greedy(mdp, table)) for table in (optimal(mdp).q, *draws)]
    roots: list[np.ndarray] = []
    for end in ends:
        known = (np.abs(end.theta - root).max() <= _SAME * np.abs(root).max() for root in roots)
        if end.share <= _ROOT and not any(known):
            roots.append(end.theta)
    if not roots:
        theta = np.full(features.n_features, math.nan)
        return FixedPoint(theta, min(end.residual for end in ends), 0, math.nan, False, system.used)
    residual = float(np.abs(mean_gradient(mdp, features, mu, roots[0])).max())
    error = np.abs(features.table(mdp, roots[0]) - optimal(mdp).q)
    return FixedPoint(roots[0], residual, len(roots), float(error[mdp.counted].max()), True, system.used)


class _Point(NamedTuple):
    """theta, the sup norm of gbar there, and the largest |gbar_j| as a share of the sizes of its terms."""

    theta: np.ndarray
    residual: float
    share: float


class _System:
    """gbar(theta) = gram theta - b - g ahead V(theta), with V(theta) (S,) the largest Phi(y, v)'theta."""

    def __init__(self, mdp: FiniteMDP, features: Features, weights: np.ndarray, theta0: np.ndarray) -> None:
        """weights (n,): mu at the learned pairs.   theta0: (d,)."""
        from scipy import sparse

        x, u = mdp.pairs.T
        p, y, r = mdp.probabilities[x, u], mdp.successors[x, u], mdp.mean_rewards[x, u]
        self.mdp, self.theta0, self.phi = mdp, theta0, features.matrix()
        weighted = sparse.csr_array((self.phi * weights[:, None]).T)
        entries = p.ravel(), y.flatten(), np.arange(len(p) + 1) * p.shape[1]
        self.moves = sparse.csr_array(entries, shape=(len(p), mdp.n_states))
        self.gram, self.ahead = weighted @ self.phi, weighted @ self.moves
        self.r, self.b = r, weighted @ r
        self.phi_size, self.weighted_size = abs(self.phi), abs(weighted)
        self.row = np.zeros(mdp.learned.shape, np.int64)
        self.row[x, u] = np.arange(len(x))
        sampled = self.phi[weights > 0]
        self.used = np.bincount(sampled.indices, minlength=features.n_features) > 0
        null = null_space(sampled)
        self.held = sparse.csr_array(null @ null.T) * self.gram.diagonal().mean()
        few = int(np.clip(_DENSE_WORK / features.n_features**3, 15, _SOLVES))
        self.solves = few if _dense(self.gram) else _SOLVES

    def newton(self, policy: np.ndarray) -> _Point:
        """The point of least share on the way from a policy (S,)."""
        best = self.measure(self.theta0)._replace(share=math.inf)  # for want of a solution
        theta, length = None, 1.0
        seen: set[bytes] = set()
        for _ in range(self.solves):
            if policy.tobytes() in seen:
                if best.share <= _ROOT or length < _SHORTEST:
                    break
                length /= 2
                seen.clear()
            seen.add(policy.tobytes())
            solution = self.solve(policy)
            if solution is None:
                break
            point = self.measure(solution)
            if best.share <= _ROOT and point.share >= best.share:
                break
            best = min(best, point, key=lambda p: p.share)
            theta = solution if theta is None else theta + length * (solution - theta)
            policy = greedy(self.mdp, table_of_pairs(self.mdp, self.phi @ theta))
        return best

    def solve(self, policy: np.ndarray) -> np.ndarray | None:
        """The theta (d,) with gbar = 0 if a policy (S,) took the maxima; None for a singular system."""
        from scipy import sparse
        from scipy.sparse.linalg import splu

        live = ~self.mdp.terminal
        rows = self.row[live, policy[live]]
        entries = np.ones(len(rows)), rows, np.concatenate([[0], np.cumsum(live)])
        chosen = sparse.csr_array(entries, shape=(len(live), self.phi.shape[0])) @ self.phi
        slope = self.gram - self.mdp.discount * (self.ahead @ chosen)
        # Null directions N of the sampled rows have N' slope = 0, so that with N N' added N' step = 0.
        matrix = sparse.csc_array(slope + self.held)
        right = self.b - slope @ self.theta0
        try:
            step = np.linalg.solve(matrix.toarray(), right) if _dense(matrix) else splu(matrix).solve(right)
        except (np.linalg.LinAlgError, RuntimeError):
            return None
        return self.theta0 + step if np.isfinite(step).all() else None

    def measure(self, theta: np.ndarray) -> _Point:
        v = state_values(self.mdp, table_of_pairs(self.mdp, self.phi @ theta))
        gradient = np.abs(self.gram @ theta - self.b - self.mdp.discount * (self.ahead @ v))
        terms = self.phi_size @ np.abs(theta)
        ahead = self.moves @ table_of_pairs(self.mdp, terms).max(1)
        terms += np.abs(self.r) + self.mdp.discount * ahead
        size = self.weighted_size @ (terms + _NOISE * terms.max())
        share = gradient[gradient > 0] / size[gradient > 0]
        return _Point(theta, float(gradient.max()), float(share.max(initial=0.0)))


def _dense(matrix: Any) -> bool:
    """Whether a dense solve is faster; for small ones the threads of the linear algebra are in each other's way."""
    return matrix.shape[0] > 200 and matrix.nnz > 0.05 * matrix.shape[0] ** 2


def _reached(p: Any, origin: np.ndarray) -> np.ndarray:
    """(S,) bool: the states that a chain reaches from the states `origin` (S,) bool, those included."""
    from scipy.sparse.csgraph import dijkstra

    if not origin.any():
        return origin
    return np.isfinite(dijkstra(p, indices=np.flatnonzero(origin), unweighted=True, min_only=True))


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
