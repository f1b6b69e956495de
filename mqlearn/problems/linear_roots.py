"""Newton steps to a root of the mean gradient of linear Q-learning (see `fixed_points`).

scipy costs start-up time, so it is imported inside the functions.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mqlearn.problems import operators
from mqlearn.problems.feature_rows import Features, null_space
from mqlearn.problems.mdp import FiniteMDP, greedy, state_values, table_of_pairs
from mqlearn.rounding import inverse_norm

ROOT = 1e-9  # |gbar_j| / (sum of the sizes of its terms) of a root; solved ones have about 1e-15
_SOLVES = 60  # Newton steps from one start,
_DENSE_WORK = 3e11  # fewer when d^3 for each adds up to more, but at least 15
_SHORTEST = 2.0**-10  # step length at which a start is given up
_NOISE = 1e-6  # share of the largest term that a term counts for at least: 0 comes out as 1e-17 of the others


class Point(NamedTuple):
    """theta, the sup norm of gbar there, and the largest |gbar_j| as a share of the sizes of its terms."""

    theta: np.ndarray
    residual: float
    share: float


class System:
    """gbar(theta) = gram theta - b - g ahead V(theta), with V(theta) (S,) the largest Phi(y, v)'theta."""

    mdp: FiniteMDP
    theta0: np.ndarray
    r: np.ndarray
    b: np.ndarray
    # Sparse arrays, whose types SciPy does not tell.
    phi: Any
    phi_size: Any
    weighted: Any
    weighted_size: Any
    moves: Any
    gram: Any
    ahead: Any
    held: Any

    def __init__(self, mdp: FiniteMDP, features: Features, weights: np.ndarray, theta0: np.ndarray) -> None:
        """weights (n,): mu at the learned pairs.   theta0: (d,)."""
        from scipy import sparse

        x, u = mdp.pairs.T
        p, y, r = mdp.probabilities[x, u], mdp.successors[x, u], mdp.mean_rewards[x, u]
        self.mdp, self.theta0, self.phi = mdp, theta0, features.matrix()
        self.weighted = weighted = sparse.csr_array((self.phi * weights[:, None]).T)
        entries = p.ravel(), y.flatten(), np.arange(len(p) + 1) * p.shape[1]
        self.moves = sparse.csr_array(entries, shape=(len(p), mdp.n_states))
        self.gram, self.ahead = weighted @ self.phi, weighted @ self.moves
        self.r, self.b = r, weighted @ r
        self.phi_size, self.weighted_size = abs(self.phi), abs(weighted)
        self.row: np.ndarray = np.zeros(mdp.learned.shape, np.int64)
        self.row[x, u] = np.arange(len(x))
        sampled = self.phi[weights > 0]
        self.used: np.ndarray = np.bincount(sampled.indices, minlength=features.n_features) > 0
        null = null_space(sampled)
        self.held = sparse.csr_array(null @ null.T) * self.gram.diagonal().mean()
        few = int(np.clip(_DENSE_WORK / features.n_features**3, 15, _SOLVES))
        self.solves: int = few if _dense(self.gram) else _SOLVES

    def newton(self, policy: np.ndarray) -> Point:
        """The point of least share on the way from a policy (S,)."""
        best = self.measure(self.theta0)._replace(share=math.inf)  # for want of a solution
        theta, length = None, 1.0
        seen: set[bytes] = set()
        for _ in range(self.solves):
            if policy.tobytes() in seen:
                if best.share <= ROOT or length < _SHORTEST:
                    break
                length /= 2
                seen.clear()
            seen.add(policy.tobytes())
            solution = self.solve(policy)
            if solution is None:
                break
            point = self.measure(solution)
            if best.share <= ROOT and point.share >= best.share:
                break
            best = min(best, point, key=lambda p: p.share)
            theta = solution if theta is None else theta + length * (solution - theta)
            policy = self.policy(table_of_pairs(self.mdp, self.phi @ theta))
        return best

    def policy(self, table: np.ndarray) -> np.ndarray:
        """What the maxima of a table (S, A) are taken at: its greedy policy (S,)."""
        return greedy(self.mdp, table)

    def solve(self, policy: np.ndarray) -> np.ndarray | None:
        """The theta (d,) with gbar = 0 if a policy (S,) took the maxima; None for a singular system."""
        slope = self.slope(policy)
        right = self.constant(policy) - slope @ self.theta0
        try:
            step = self.factor(slope)[0](right)
        except (np.linalg.LinAlgError, RuntimeError):
            return None
        return self.theta0 + step if np.isfinite(step).all() else None

    def slope(self, policy: np.ndarray) -> Any:
        """(d, d) sparse: the derivative of gbar where a policy (S,) takes the maxima,"""
        from scipy import sparse

        live = ~self.mdp.terminal
        rows = self.row[live, policy[live]]
        entries = np.ones(len(rows)), rows, np.concatenate([[0], np.cumsum(live)])
        chosen = sparse.csr_array(entries, shape=(len(live), self.phi.shape[0])) @ self.phi
        return self.gram - self.mdp.discount * (self.ahead @ chosen)

    def constant(self, policy: np.ndarray) -> np.ndarray:
        """(d,): and minus its value at theta = 0."""
        return self.b

    def factor(self, slope: Any) -> tuple[Callable[..., np.ndarray], Any]:
        """What solves for a step, and the matrix of its system. Raises LinAlgError or RuntimeError if singular."""
        from scipy import sparse
        from scipy.sparse.linalg import splu

        # Null directions N of the sampled rows have N' slope = 0, so that with N N' added N' step = 0.
        matrix = sparse.csc_array(slope + self.held)
        if not _dense(matrix):
            return splu(matrix).solve, matrix
        full = matrix.toarray()
        return lambda b, way="N": np.linalg.solve(full.T if way == "T" else full, b), matrix

    def condition(self, theta: np.ndarray) -> float:
        """The condition of a root in the 1-norm, estimated."""
        solve, matrix = self.factor(self.slope(self.policy(table_of_pairs(self.mdp, self.phi @ theta))))
        return float(abs(matrix).sum(0).max()) * inverse_norm(solve, len(theta))

    def measure(self, theta: np.ndarray) -> Point:
        v = state_values(self.mdp, table_of_pairs(self.mdp, self.phi @ theta))
        gradient = np.abs(self.gram @ theta - self.b - self.mdp.discount * (self.ahead @ v))
        terms = self.phi_size @ np.abs(theta)
        ahead = self.moves @ table_of_pairs(self.mdp, terms).max(1)
        terms += np.abs(self.r) + self.mdp.discount * ahead
        size = self.weighted_size @ (terms + _NOISE * terms.max())
        share = gradient[gradient > 0] / size[gradient > 0]
        return Point(theta, float(gradient.max()), float(share.max(initial=0.0)))


class OperatorSystem(System):
    """gbar(theta) = (1 - own) gram theta - b - ahead E V(theta) - here V(theta)(x), of an operator without s.

    Its V is linearised where the steps are: the place of a policy is taken by slopes (S, A) of V in the values of each
    state, and what is left of V there, side by side (S, A + 1).
    """

    def __init__(
        self, mdp: FiniteMDP, features: Features, weights: np.ndarray, theta0: np.ndarray, operator: Any
    ) -> None:
        from scipy import sparse

        super().__init__(mdp, features, weights, theta0)
        self.operator, self.numbers = operator, operator.numbers(mdp.discount)
        x = mdp.pairs[:, 0]
        own_state = sparse.csr_array((np.ones(len(x)), (np.arange(len(x)), x)), shape=(len(x), mdp.n_states))
        seen = self.numbers.ahead * self.moves + self.numbers.here * own_state
        self.seen_size, self.seen_ahead = abs(seen), self.weighted @ seen

    def policy(self, table: np.ndarray) -> np.ndarray:
        slopes = operators.slopes(self.mdp, self.operator, table)
        left = operators.values(self.mdp, self.operator, table) - (slopes * table).sum(1)
        return np.concatenate([slopes, left[:, None]], axis=1)

    def slope(self, policy: np.ndarray) -> Any:
        from scipy import sparse

        x, u = self.mdp.pairs.T
        entries = policy[x, u], (x, np.arange(len(x)))
        chosen = sparse.csr_array(entries, shape=(self.mdp.n_states, len(x))) @ self.phi
        return (1 - self.numbers.own) * self.gram - self.seen_ahead @ chosen

    def constant(self, policy: np.ndarray) -> np.ndarray:
        return self.numbers.reward * self.b + self.seen_ahead @ policy[:, -1]

    def measure(self, theta: np.ndarray) -> Point:
        numbers = self.numbers
        v = operators.values(self.mdp, self.operator, table_of_pairs(self.mdp, self.phi @ theta))
        gradient = (1 - numbers.own) * (self.gram @ theta) - numbers.reward * self.b - self.seen_ahead @ v
        terms = self.phi_size @ np.abs(theta) + np.abs(numbers.reward * self.r) + self.seen_size @ np.abs(v)
        size = self.weighted_size @ (terms + _NOISE * terms.max())
        share = np.abs(gradient)[gradient != 0] / size[gradient != 0]
        return Point(theta, float(np.abs(gradient).max()), float(share.max(initial=0.0)))


def _dense(matrix: Any) -> bool:
    """Whether a dense solve is faster; for small ones the threads of the linear algebra are in each other's way."""
    return matrix.shape[0] > 200 and matrix.nnz > 0.05 * matrix.shape[0] ** 2
