"""What the theorems say in numbers: finite-sample bounds where their constants can be computed, slopes where not.

Of tables: the sup error after T iterations, with probability 1 - delta, synchronous sampling. Of linear features: the
mean square |theta - theta*|^2 under Markovian sampling. A bound that says no more than what is known beforehand is
vacuous; it is drawn, and called so.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mqlearn.algorithms import MomentumQLinear, QLearning, Rule, Stateful
from mqlearn.algorithms.step_sizes import InverseSqrt, Polynomial, RescaledLinear, StepSize
from mqlearn.errors import SettingError
from mqlearn.problems.mdp import FiniteMDP

SLOPES = {  # what theorems give without constants: the exponent of k in the error
    "Even-Dar and Mansour 2003, polynomial steps": "about k^(-w/2) for a step k^-w, 1/2 < w < 1",
    "Wainwright 2019, rescaled linear": "k^-1/2, with (1-g)^-5/2 for the worst model",
    "Li et al. 2021, rescaled linear or constant": "k^-1/2, with (1-g)^-2 for the worst model",
}


@dataclass(frozen=True, eq=False)
class Bound:
    """A theorem's bound: values (C,) at some iterations, vacuous (C,) where they are not below the trivial one or NaN.

    trivial: what is known without the bound.   assumes: what it takes for granted, in words.   metric: the curve that
    it is of, theta as a mean square and not relative to theta*.
    """

    name: str
    values: np.ndarray
    trivial: float
    assumes: str
    metric: str = "q_error"

    @property
    def vacuous(self) -> np.ndarray:
        return ~np.less(self.values, self.trivial)  # NaN bounds nothing

    def row(self) -> dict[str, Any]:
        """At the last of its iterations, for JSON."""
        return {
            "name": self.name, "value": float(self.values[-1]), "vacuous": bool(self.vacuous[-1]),
            "trivial": self.trivial, "assumes": self.assumes,
        }  # fmt: skip


class Slope(NamedTuple):
    """A rate without its constants: the error falls like k^exponent. words: whose rate, and of what."""

    exponent: float
    words: str


def slope_of_tables(rule: Rule | Stateful, synchronous: bool, own_clock: bool) -> Slope | None:
    """Of the sup error of Q-learning with a falling step size; None where no theorem gives a rate.

    own_clock: whether k is the number of updates of the pair itself, as it is in synchronous sampling.
    """
    step = rule.step_size
    if not isinstance(rule, QLearning) or rule.averaged or rule.clip is not None:
        return None
    if isinstance(step, RescaledLinear) and synchronous:
        return Slope(-0.5, "Wainwright 2019, rescaled linear steps")
    if isinstance(step, Polynomial) and 0.5 < step.exponent < 1 and own_clock:  # a cap ends
        return Slope(-step.exponent / 2, f"Even-Dar and Mansour 2003, steps k^-{step.exponent:g}")
    return None


def slope_of_features(rule: Rule | Stateful) -> Slope | None:
    """Theorem 2, of |mean theta - theta*|: -1/4, as its square falls like k^-1/2 (the factor log k left out)."""
    falls = isinstance(rule.step_size, InverseSqrt) and rule.step_size.h == 1
    if falls and isinstance(rule, MomentumQLinear | QLearning):
        return Slope(-0.25, "Theorem 2, without its factor log k, if Assumptions 2 and 4 hold")
    return None


# --- tables -------------------------------------------------------------------------------------------------------


def theorem_3(
    iteration: np.ndarray, *, m: float, discount: float, v_max: float, r_max: float, n_pairs: int, delta: float,
    corrected: bool = False,
) -> np.ndarray:  # fmt: skip
    """Right-hand side of Theorem 3 at each `iteration` (C,) = T, for Algorithm 1 unshifted; NaN where T <= m.

    v_max bounds every |Q_k|, as Assumption 5 supposes; r_max the reward in the target; 1 - delta is the probability.
    Dbar comes from the recursion in the proof of Proposition 1, evaluated up to the last T. `corrected` has T in
    place of T - floor(m) - 1 under the root: the maximal inequality is applied to sums of T increments.
    """
    steps = np.asarray(iteration, dtype=np.float64)
    d = largest = r_max + discount * v_max
    for k in range(1, int(steps[-1])):
        more = (2 * m - 2 * k) * v_max if k < m / 2 else abs(k - m) / k * (v_max + d)
        d = r_max + discount * (v_max + more)
        largest = max(largest, d)
    h = 2 * discount * (m + math.floor(m) + 2) + 2
    terms = steps if corrected else np.maximum(steps - math.floor(m) - 1, 0)
    with np.errstate(divide="ignore"):
        bound = (h * v_max + largest * np.sqrt(8 * terms * math.log(2 * n_pairs / delta))) / (steps * (1 - discount))
    return np.where(steps > m, bound, np.nan)


def theorem_3_shifted(
    iteration: np.ndarray, *, m: float, discount: float, v_max: float, r_max: float, n_pairs: int, delta: float
) -> np.ndarray:
    """The same argument for MomentumQ with k + m in place of k, at each `iteration` (C,) = T; m >= 1/discount.

    From (k+m) Q_k = Q_{k-1} + (k-1) T Q_{k-1} + (m-1) Q_0 + T Q_0 - E_{k-1}; here Dbar = (R + 2 g V)/(1-g) for all m.
    """
    steps = np.asarray(iteration, dtype=np.float64)
    largest = (r_max + 2 * discount * v_max) / (1 - discount)
    start = 2 * v_max * (m - 1 + discount + m * (1 - discount) * discount**steps)
    noise = largest * np.sqrt(8 * steps * math.log(2 * n_pairs / delta))
    return (start + noise) / ((steps + m) * (1 - discount))


def speedy_q(iteration: np.ndarray, *, discount: float, r_max: float, n_pairs: int, delta: float) -> np.ndarray:
    """Azar et al. 2011, Theorem 1, at each `iteration` (C,) = T >= 1: for |Q_0| <= r_max/(1 - discount)."""
    steps = np.asarray(iteration, dtype=np.float64)
    scale = 2 * r_max / (1 - discount) ** 2
    with np.errstate(divide="ignore"):
        return scale * (discount / steps + np.sqrt(2 * math.log(2 * n_pairs / delta) / steps))


# --- linear features ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Constants:
    """What Theorems 1 and 2 depend on besides the schedule.

    contraction: delta of Assumption 2.   d_max: diameter of the ball of Assumption 3.   r_max: bound of the reward.
    kappa, tau: of the mixing time, tau = min{k >= 1: sigma rho^k <= kappa}.
    """

    discount: float
    contraction: float
    d_max: float
    r_max: float
    kappa: float
    tau: int

    @property
    def g_max(self) -> float:
        """2 D + R, a bound of |g_k|."""
        return 2 * self.d_max + self.r_max

    @property
    def eta_1(self) -> float:
        return 2 * self.d_max * self._slope

    @property
    def eta_2(self) -> float:
        return 6 * self.g_max * self._slope

    @property
    def _slope(self) -> float:
        return (1 + self.discount) * self.d_max + self.g_max


def theorem_1(
    iteration: np.ndarray, known: Constants, *, alpha: float, beta: float, lam: float, phi: float, start: float
) -> np.ndarray:
    """Theorem 1 at each `iteration` (C,) = T: bound of E |theta_T - theta*|^2; NaN where T <= tau + 1.

    a_k = alpha, b_k = phi beta lam^k, c_k = (1 - phi) beta lam^k; start = |theta_0 - theta*|. Raises SettingError for
    an alpha that the theorem does not allow, 0 < alpha < (1 - lam)/(2 delta) and 2 alpha delta (1 + b_0) <= 1.
    """
    d, g, delta, tau = known.d_max, known.g_max, known.contraction, known.tau
    most = min((1 - lam) / (2 * delta), 1 / (2 * delta * (1 + phi * beta)))
    if not 0 < alpha < most:
        raise SettingError("step_size.alpha", alpha, f"the theorem asks for a step in (0, {most:.4g})")
    steps = np.asarray(iteration)
    rate = 2 * alpha * delta
    momentum = phi * beta * lam ** np.arange(max(int(steps.max()), 1))
    shrunk = np.concatenate([[0.0], np.cumsum(np.log1p(-rate * (1 + momentum)))])[steps]
    pushed = 5 * d**2 + 2 * alpha * d * g + 4 * alpha * known.eta_1 * tau * lam
    transient = beta * (2 * known.eta_1 * tau / delta + pushed / (1 - rate - lam)) * (1 - rate) ** (steps - 1 - tau)
    return np.where(steps > tau + 1, np.exp(shrunk) * start**2 + transient + _remains(known, alpha), np.nan)


def vanilla(iteration: np.ndarray, known: Constants, *, alpha: float, start: float) -> np.ndarray:
    """The proof of Theorem 1 without momentum, b_k = c_k = 0: never above the bound of Theorem 1.

    NaN for 2 alpha delta > 1, which the proof does not allow.
    """
    kept = 1 - 2 * alpha * known.contraction
    if kept < 0:
        return np.full(np.shape(iteration), np.nan)
    return kept ** np.asarray(iteration, dtype=float) * start**2 + _remains(known, alpha)


def _remains(known: Constants, alpha: float) -> float:
    """The terms of Theorem 1 that do not fall with T."""
    noise = 15 * known.g_max**2 * alpha / 2 + 2 * known.eta_2 * known.tau * alpha
    return (noise + 8 * known.d_max * known.g_max * known.kappa) / known.contraction


def theorem_2(iteration: np.ndarray, known: Constants, *, alpha: float, beta: float, lam: float) -> np.ndarray:
    """Theorem 2 at each `iteration` (C,) = T >= 1, a_k = alpha/sqrt(k): for the mean of theta_1 .. theta_T."""
    steps = np.asarray(iteration, dtype=np.float64)
    d, g, delta, tau = known.d_max, known.g_max, known.contraction, known.tau
    slow = (d**2 / alpha + 30 * alpha * g**2 + 16 * tau * alpha * known.eta_2) / (2 * delta)
    pushed = (d * g + 4 * tau * known.eta_1) * beta * lam / (delta * (1 - lam))
    fast = 5 * beta * d**2 / (2 * alpha * delta * (1 - lam) ** 2) + pushed
    with np.errstate(divide="ignore"):
        return slow / np.sqrt(steps) + fast / steps + 8 * d * g * known.kappa / delta


def bias(
    iteration: np.ndarray, known: Constants, *, step_size: StepSize, beta: float, lam: float
) -> np.ndarray:  # fmt: skip
    """The lemma's bound of E (g_k - gbar(theta_k))'(theta_k - theta*), what Markovian sampling adds, at each k (C,).

    a_k = step_size(k), b_k + c_k = beta lam^k. The sums start at 0, as in the lemma's proof.
    """
    k, tau = np.asarray(iteration), known.tau
    before = np.arange(tau, dtype=float)
    steps = np.concatenate([[0.0], np.cumsum(step_size(before) + np.zeros(tau))])
    pushes = np.concatenate([[0.0], np.cumsum(beta * lam**before)])
    early = known.eta_1 * pushes[np.minimum(k, tau)] + known.eta_2 * steps[np.minimum(k, tau)]
    then = np.maximum(k - tau, 0).astype(float)
    late = known.eta_1 * tau * beta * lam**then + known.eta_2 * tau * step_size(then)
    return np.where(k <= tau, early, 4 * known.d_max * known.g_max * known.kappa + late)


def contraction(mdp: FiniteMDP, mu: np.ndarray) -> float:
    """A delta > 0 with which Assumption 2 holds, for one-hot features and a uniform behaviour with samples mu (S, A).

    With e = theta - theta*, |max_v theta - max_v theta*|^2 at a state is at most the sum of e^2 over its A actions, and
    a state is entered no more often than it is left; so by Cauchy and Schwarz
    e'gbar(theta) >= (1 - g sqrt(A)) sum mu e^2 >= (1 - g sqrt(A)) min(mu) |e|^2. Raises SettingError if g sqrt(A) >= 1:
    then this argument gives nothing.
    """
    share = 1 - mdp.discount * math.sqrt(mdp.n_actions)
    if share <= 0:
        expected = f"must be below 1/sqrt({mdp.n_actions}), or Assumption 2 is not known to hold"
        raise SettingError("discount", mdp.discount, expected)
    return float(share * mu[mu > 0].min())
