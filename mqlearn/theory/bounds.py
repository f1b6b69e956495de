"""What the paper's theorems say in numbers, where their constants can be computed."""

import math

import numpy as np

from mqlearn.errors import SettingError
from mqlearn.problems.mdp import FiniteMDP


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


def contraction(mdp: FiniteMDP, mu: np.ndarray) -> float:
    """A delta > 0 with which Assumption 2 holds for one-hot features; mu (S, A): the pairs that a uniform behaviour
    meets in the long run.

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
