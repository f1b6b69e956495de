"""The mean of double Q-learning with errors of a fixed law, whose fixed points need not be one (Ren et al. 2021).

Two estimates of each value are off by independent errors. One says which action is greedy, the other what it is worth,
so that in the mean

    V(x) = sum_u P(u is greedy) Q(x, u),      Q(x, u) = R(x, u) + g sum_y P(y | x, u) V(y).

This map is no contraction: P moves with Q.
"""

import numpy as np

from mqlearn.errors import SettingError
from mqlearn.problems.mdp import FiniteMDP

_POINTS = 20_001  # at which a change of the sign is looked for
_HALVINGS = 80


def first_greedy(away: np.ndarray, width: float) -> np.ndarray:
    """How likely the first of two actions is greedy if it is `away` better and each is off by U(-width, width).

    >>> first_greedy(np.array([-3.0, 0.0, 1.0, 2.0]), 1.0).tolist()
    [0.0, 0.5, 0.875, 1.0]
    """
    inside = np.clip(np.asarray(away, np.float64) / (2 * width), -1.0, 1.0)
    return np.where(inside < 0, (1 + inside) ** 2 / 2, 1 - (1 - inside) ** 2 / 2)


def double_fixed_points(mdp: FiniteMDP, width: float = 1.0) -> list[tuple[float, float]]:
    """(V, P) of each fixed point with rising V, of the one state that has two actions: its value, P of the first one.

    width: of the errors, U(-width, width). Roots are bracketed on 20,001 values between the worst and the best policy
    and halved: two of them closer than a bracket would be missed. Raises SettingError for a model that has not one
    state with two actions, and one action in all others.
    """
    x, u = mdp.pairs.T
    n_actions = np.bincount(x, minlength=mdp.n_states)
    choice = np.flatnonzero(n_actions == 2)
    if len(choice) != 1 or n_actions.max() > 2:
        raise SettingError("env", mdp.name, "must have two actions in one state, and one in all others")
    p = np.zeros((len(x), mdp.n_states))
    np.add.at(p, (np.arange(len(x))[:, None], mdp.successors[x, u]), mdp.probabilities[x, u])
    rewards, here = mdp.mean_rewards[x, u], int(choice[0])
    single, both = x != here, np.flatnonzero(x == here)
    # V of the other states is linear in v: V = base + slope v.
    solved = np.eye(mdp.n_states)
    solved[x[single]] -= mdp.discount * p[single]
    solved[here] = np.eye(mdp.n_states)[here]
    known = np.zeros((mdp.n_states, 2))
    known[x[single], 0], known[here, 1] = rewards[single], 1.0
    base, slope = np.linalg.solve(solved, known).T
    intercept = rewards[both] + mdp.discount * p[both] @ base
    gain = mdp.discount * p[both] @ slope

    def share(v: np.ndarray) -> np.ndarray:
        q = intercept[:, None] + gain[:, None] * v
        return first_greedy(q[0] - q[1], width)

    def rest(v: np.ndarray) -> np.ndarray:
        first, q = share(v), intercept[:, None] + gain[:, None] * v
        return first * q[0] + (1 - first) * q[1] - v

    ends = intercept / (1 - gain)  # of either action for ever
    v = np.linspace(ends.min() - width, ends.max() + width, _POINTS)
    f = rest(v)
    turns = np.flatnonzero(np.sign(f[:-1]) * np.sign(f[1:]) <= 0)
    low, high, sign = v[turns], v[turns + 1], np.sign(f[turns])
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        same = np.sign(rest(middle)) == sign
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    return [(float(one), float(chance)) for one, chance in zip(high, share(high), strict=True)]
