"""What the four numbers of a rule become for large k: the q, t and c that its asymptotic error depends on.

They are measured from the weights, so a rule of a user's is treated as any other. A schedule c/(k + b) + O(1/k^2) has
1/(s + t) = (k + b)/c + O(1/k): its slope gives c whatever the shift b.
"""

import math
from typing import NamedTuple

import numpy as np

from mqlearn.algorithms.rule import Rule
from mqlearn.errors import SettingError

_FIRST = 2**24  # iterations, far beyond any shift or decaying momentum that is used,
_DOUBLINGS = 4  # and this many doublings of it
_SAME = 1e-6  # relative difference of two estimates of one limit


class Limit(NamedTuple):
    """q_k -> q and t_k -> t with errors O(1/k); s_k + t_k = c/k + O(1/k^2)."""

    q: float
    t: float
    c: float


def limit_of(rule: Rule) -> Limit:
    """The limit of a rule under its own step size. Raises SettingError where it has none, and says what it does."""
    q, t, gain, k = _measured(rule)
    slope = np.diff(1 / gain) / np.diff(k) if (gain > 0).all() else np.zeros(len(k) - 1)
    if not (slope > 0).all() or abs(slope[-1] / slope[0] - 1) > _SAME:
        raise SettingError("step_size", rule.step_size, f"{_behaviour(gain)}, not like c/k: no constant of 1/sqrt(k)")
    limits = {}
    for name, values in (("q", q), ("t", t)):
        several = _beyond(values, 1.0)
        if np.ptp(several) > 1e-9 * max(1.0, abs(values[-1])):
            reason = f"its {name} does not settle like 1/k (it is {values[0]:.6g}, then {values[-1]:.6g})"
            raise SettingError("algorithm", type(rule).__name__, reason)
        limits[name] = float(several[-1])
    return Limit(**limits, c=float(1 / slope[0]))


def slow_limit_of(rule: Rule) -> Limit:
    """(q, t, 1) of a rule whose s + t falls like k^-w with 1/2 < w < 1, for its mean. Raises SettingError elsewhere."""
    q, t, gain, _ = _measured(rule)
    exponent = math.log2(gain[-2] / gain[-1]) if (gain > 0).all() else math.nan
    if not 0.5 < exponent < 1 - 1e-3:
        expected = f"{_behaviour(gain)}, and the mean of the iterates needs k^-w with 1/2 < w < 1, or c/k"
        raise SettingError("step_size", rule.step_size, expected)
    return Limit(float(_beyond(q, exponent)[-1]), float(_beyond(t, exponent)[-1]), 1.0)


def _measured(rule: Rule) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """q, t, s + t and k at _FIRST and its doublings."""
    k = [_FIRST << i for i in range(_DOUBLINGS)]
    _, q, s, t = np.concatenate([rule.weights(one, one + 1) for one in k]).T
    return q, t, s + t, np.array(k, dtype=float)


def _beyond(values: np.ndarray, exponent: float) -> np.ndarray:
    """Limits of values at k, 2k, 4k, ... whose distance falls like k^-exponent: each pair of neighbours gives one."""
    growth = 2.0**exponent
    return np.round((growth * values[1:] - values[:-1]) / (growth - 1), 12) + 0.0


def _behaviour(gain: np.ndarray) -> str:
    if not (gain > 0).all():
        return f"s + t is {gain[gain <= 0][0]:.3g} for large k"
    exponent = math.log2(gain[-2] / gain[-1])
    return "s + t does not fall" if exponent < 1e-4 else f"s + t falls like k^-{exponent:.3g}"
