"""Whether the paper's Assumptions 1 to 5 hold for a problem, each with its number, and which theorem covers a schedule.

Assumption 2, (theta - theta*)'gbar(theta) >= delta |theta - theta*|^2, is decided from both sides. Below: with
e = Phi (theta - theta*), mu of the samples, nu = mu P of their successors, for any w > 0

    e'gbar >= sum mu e^2 - g sqrt(sum mu e^2) sqrt(sum nu max_v e(y,v)^2)
           >= (1 - g w/2) sum mu e^2 - g/(2 w) sum nu sum_v e(y,v)^2,

a quadratic form, whose least eigenvalue is certified for the best w. Above: the smallest ratio that a search finds,
with the theta at which it is found.
"""

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from typing import NamedTuple

import numpy as np

from mqlearn.algorithms import MomentumQ, MomentumQLinear, Rule, Stateful
from mqlearn.algorithms.step_sizes import Constant, Harmonic, InverseSqrt
from mqlearn.problems.feature_rows import Features, null_space
from mqlearn.problems.fixed_points import FixedPoint
from mqlearn.problems.mdp import FiniteMDP, bellman, greedy
from mqlearn.theory.mixing import Mixing

HOLDS, FAILS, UNKNOWN = "holds", "fails", "not checkable"
_LARGEST = 1200  # features, beyond which eigenvalues take too long
_STARTS = 6  # of the search
_ROUNDS = 10
_RADII = np.geomspace(1e-3, 1e3, 9)  # of the search, in units of theta*


class Check(NamedTuple):
    """An assumption: its name, holds | fails | not checkable, its number (None without one) and what it means."""

    name: str
    verdict: str
    value: float | None
    reason: str


@dataclass(frozen=True, eq=False)
class Monotone:
    """Assumption 2. low <= delta <= high, up to rounding; worst (d,): a theta at which the ratio is `high`."""

    low: float
    high: float
    worst: np.ndarray


def independent_features(features: Features) -> Check:
    """Assumption 1: independent columns, and |Phi(x, u)| <= 1."""
    phi = features.matrix()
    used, rank = len(np.unique(features.active[features.values != 0])), features.rank()
    norm = math.sqrt(float((phi * phi).sum(1).max()))
    verdict = HOLDS if rank == used and norm <= 1 + 1e-12 else FAILS
    unused = f", {features.n_features - used} unused" if used < features.n_features else ""
    return Check("Assumption 1", verdict, norm, f"rank {rank} of {used} columns{unused}; largest |Phi(x,u)| {norm:.6g}")


def monotone(mdp: FiniteMDP, features: Features, mu: np.ndarray, root: FixedPoint) -> Monotone | None:
    """Assumption 2 at the root theta*, for samples mu (S, A); None for too many features, or without a root.

    Over the directions in which samples move theta: in the others nothing is ever learned.
    """
    from scipy import sparse

    if not root.exists or features.n_features > _LARGEST:
        return None
    x, u = mdp.pairs.T
    phi, weights = features.matrix(), mu[x, u]
    null = null_space(phi[weights > 0])
    values, vectors = np.linalg.eigh(np.eye(features.n_features) - null @ null.T)
    basis = vectors[:, values > 0.5]  # (d, r) of the directions that samples move
    nu = np.zeros(mdp.n_states)
    np.add.at(nu, mdp.successors, mu[:, :, None] * mdp.probabilities)
    here = basis.T @ (phi.T @ sparse.diags_array(weights) @ phi) @ basis
    ahead = basis.T @ (phi.T @ sparse.diags_array(np.where(mdp.terminal, 0.0, nu)[x]) @ phi) @ basis
    search = _Search(mdp, features, mu, root.theta, basis)
    return Monotone(_certified(here, ahead, mdp.discount), *search.lowest())


def _certified(here: np.ndarray, ahead: np.ndarray, g: float) -> float:
    """The largest over w of the least eigenvalue of (1 - g w/2) here - g/(2w) ahead, rounding taken off."""

    def least(w: float) -> float:
        form = (1 - g * w / 2) * here - g / (2 * w) * ahead
        return np.linalg.eigvalsh((form + form.T) / 2)[0] - 1e-13 * np.abs(form).sum(0).max(initial=0.0)

    grid = np.geomspace(0.05, 20, 25)
    values = [least(w) for w in grid]
    best = int(np.argmax(values))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, 24)]
    return float(max(values[best], *(least(w) for w in np.linspace(low, high, 15))))


class _Search:
    """Where the ratio (theta - theta*)'gbar(theta)/|theta - theta*|^2 is small."""

    def __init__(self, mdp: FiniteMDP, features: Features, mu: np.ndarray, root: np.ndarray, basis: np.ndarray) -> None:
        self.mdp, self.features, self.mu, self.root, self.basis = mdp, features, mu, root, basis
        self.phi = features.matrix()
        x, u = mdp.pairs.T
        self.row = np.zeros(mdp.learned.shape, np.int64)
        self.row[x, u] = np.arange(len(x))
        p, y = mdp.probabilities[x, u], mdp.successors[x, u]
        self.moves = np.zeros((len(x), mdp.n_states))
        np.add.at(self.moves, (np.arange(len(x))[:, None], y), np.where(mdp.terminal[y], 0.0, p))
        self.weighted = self.phi.T * mu[x, u]

    def ratios(self, away: np.ndarray) -> np.ndarray:
        """(m,): of the thetas (m, d) that lie so far from theta*."""
        table = self.features.table(self.mdp, self.root + away)
        x, u = self.mdp.pairs.T
        gradient = (self.mu * (table - bellman(self.mdp, table)))[:, x, u] @ self.phi
        return (away * gradient).sum(1) / (away**2).sum(1)

    def steepest(self, policy: np.ndarray) -> np.ndarray:
        """(d,): the direction of least ratio if a policy (S,) took the maxima."""
        slope = self.phi - self.mdp.discount * (self.moves @ self.phi[self.row[np.arange(self.mdp.n_states), policy]])
        form = self.basis.T @ (self.weighted @ slope) @ self.basis
        return self.basis @ np.linalg.eigh((form + form.T) / 2)[1][:, 0]

    def lowest(self) -> tuple[float, np.ndarray]:
        """The smallest ratio found, from policies of theta* and random ones, and the theta (d,) there."""
        rng = np.random.Generator(np.random.Philox(key=2))
        tables = rng.random((_STARTS - 1, *self.mdp.learned.shape))
        policies = [greedy(self.mdp, table) for table in (self.features.table(self.mdp, self.root), *tables)]
        size = max(float(np.abs(self.root).max()), 1.0)
        lowest, where = math.inf, self.root
        for policy in policies:
            seen: set[bytes] = set()
            while policy.tobytes() not in seen and len(seen) < _ROUNDS:
                seen.add(policy.tobytes())
                steps = size * np.concatenate([_RADII, -_RADII])
                tried = steps[:, None] * self.steepest(policy)
                ratios = self.ratios(tried)
                away = tried[ratios.argmin()]
                if ratios.min() < lowest:
                    lowest, where = float(ratios.min()), self.root + away
                policy = greedy(self.mdp, self.features.table(self.mdp, self.root + away))
        return lowest, where


def unique_root(mdp: FiniteMDP, features: Features, root: FixedPoint, found: Monotone | None) -> Check:
    """Assumption 2: a unique root, and a delta > 0."""
    name = "Assumption 2"
    if not root.exists:
        return Check(name, UNKNOWN, None, f"no root of gbar was found (smallest residual {root.residual:.3g})")
    if root.n_roots > 1:
        return Check(name, FAILS, None, f"gbar has {root.n_roots} roots")
    if found is None:
        return Check(name, UNKNOWN, None, f"{features.n_features} features are too many (at most {_LARGEST})")
    if found.low > 0:
        return Check(name, HOLDS, found.low, f"delta >= {_below(found.low)} certified; a search finds {found.high:.4g}")
    if found.high <= 0:
        far = float(np.linalg.norm(found.worst - root.theta))
        where = f"at distance {far:.3g} from theta*"
        return Check(
            name, FAILS, found.high, f"the ratio is {found.high:.4g} {where}; certified >= {_below(found.low)}"
        )
    reason = f"delta lies between {_below(found.low)} (certified) and {found.high:.4g} (found by a search)"
    return Check(name, UNKNOWN, found.high, reason)


def _below(value: float, digits: int = 4) -> str:
    """A lower bound in so many digits, rounded down."""
    return _rounded(value, digits, ROUND_FLOOR)


def _above(value: float, digits: int = 4) -> str:
    """An upper bound in so many digits, rounded up."""
    return _rounded(value, digits, ROUND_CEILING)


def _rounded(value: float, digits: int, direction: str) -> str:
    return f"{float(Context(digits, direction).create_decimal(value)):.{digits}g}"


def bounded_domain(theta: np.ndarray, projection: float | None, r_max: float) -> Check:
    """Assumption 3: a ball around 0 that holds theta* and that the iterates stay in; value D_max, its diameter."""
    least = 2 * float(np.linalg.norm(theta))
    if projection is None:
        reason = f"no projection keeps theta in a ball; D_max >= 2|theta*| = {least:.4g}"
        return Check("Assumption 3", UNKNOWN, least, f"{reason}, G_max >= {2 * least + r_max:.4g}, R_max {r_max:.4g}")
    d_max = 2 * projection
    reason = f"D_max {d_max:.4g}, G_max {2 * d_max + r_max:.4g}, R_max {r_max:.4g}; 2|theta*| = {least:.4g}"
    return Check("Assumption 3", HOLDS if d_max >= least else FAILS, d_max, reason)


def ergodic_chain(found: Mixing, kappa: float) -> Check:
    """Assumption 4: mixing, with tau(kappa); value rho."""
    steps, last = len(found.distance) - 1, found.distance[-1]
    if not found.certified:
        why = "periodic, very slow, or caught in one of several sets of states"
        reason = f"total variation is still {last:.3g} after {steps} steps: {why}"
        return Check("Assumption 4", FAILS if last > 0.5 - 1e-9 else UNKNOWN, None, reason)
    reason = f"sigma {_above(found.sigma)}, rho {_above(found.rho, 6)}; tau({kappa:.3g}) = {found.tau(kappa)}"
    return Check("Assumption 4", HOLDS, found.rho, reason)


def bounded_tables(largest_error: float | None, largest_optimum: float, every: bool) -> Check:
    """Assumption 5: V with |Q_k| <= V; from a measured sup error, over all iterations or the checkpoints only."""
    if largest_error is None:
        return Check("Assumption 5", UNKNOWN, None, f"no run was measured; |Q*| = {largest_optimum:.4g}")
    v, where = largest_optimum + largest_error, "all iterations" if every else "the checkpoints of a finite run"
    if not math.isfinite(v):
        return Check("Assumption 5", FAILS, None, "the run diverged")
    return Check("Assumption 5", HOLDS if every else UNKNOWN, v, f"|Q_k| <= |Q*| + |Q_k - Q*| <= {v:.4g} over {where}")


def schedule(rule: Rule | Stateful, discount: float, synchronous: bool, delta: float | None) -> Check:
    """Which of Theorems 1 to 3 covers the rule with its step size, if any; delta: of Assumption 2, if known."""
    step = rule.step_size
    if isinstance(rule, MomentumQ):
        plain = isinstance(step, Harmonic) and step.offset == 0
        inside = synchronous and plain and not rule.shifted and rule.order >= 1 / discount
        asked = f"synchronous, 1/(k+1), unshifted, m >= 1/discount = {1 / discount:.4g}"
        return Check("Theorem 3", HOLDS if inside else FAILS, rule.order, f"it asks for {asked}; m is {rule.order:g}")
    if not isinstance(rule, MomentumQLinear):
        return Check("schedule", FAILS, None, f"no theorem of the paper covers {type(rule).__name__}")
    momentum = 0 < rule.beta < 1 and 0 < rule.lam < 1
    if isinstance(step, InverseSqrt) and step.h == 1:
        reason = "alpha/sqrt(k+1), 0 < beta, lambda < 1; it speaks of the mean of theta"
        return Check("Theorem 2", HOLDS if momentum and not synchronous else FAILS, step.alpha, reason)
    if not isinstance(step, Constant):
        return Check("schedule", FAILS, None, "Theorem 1 asks for a constant step, Theorem 2 for alpha/sqrt(k)")
    if delta is None or delta <= 0:
        return Check("Theorem 1", UNKNOWN, step.alpha, "alpha must be below (1 - lambda)/(2 delta): no delta is known")
    most = (1 - rule.lam) / (2 * delta)
    inside = momentum and not synchronous and step.alpha < most
    return Check("Theorem 1", HOLDS if inside else FAILS, step.alpha, f"alpha must lie in (0, {most:.4g})")
