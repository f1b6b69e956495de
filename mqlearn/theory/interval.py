"""An interval for each entry of Q* from one run: random scaling (Lee, Liao, Seo, Shin 2022; Li et al. 2021).

For the mean m_k of synchronous iterates with a step k^-w, 1/2 < w < 1, sqrt(T) (m_T - Q*) is asymptotically normal with
a variance that nobody knows. Divided by the spread of its own path,

    V_T = T^-2 sum_s s^2 (m_s - m_T)^2,      sqrt(T) (m_T - Q*)/sqrt(V_T) -> W(1)/sqrt(int (W(r) - r W(1))^2 dr),

whose quantiles are known (Abadir and Paruolo 1997): no variance is estimated, and no second run is needed.
The sum is an integral over the path, for which the means at some tens of checkpoints suffice (`from_checkpoints`).
It is a statement for large T, and T is large late: near Q* an error is forgotten within T^w/(1 - g) iterations, so
that only about (1 - g) T^(1 - w) stretches of the path are independent. Where these are few, the path spreads too
little, and intervals are too narrow; a transient from a far start widens them. So none is told without its coverage,
which is measured on the model, the rule and the start themselves (`analysis.coverage`).
"""

import numpy as np

from mqlearn.errors import SettingError

_FEWEST = 20  # checkpoints
QUANTILES = {0.8: 3.875, 0.9: 5.323, 0.95: 6.747, 0.98: 8.613}  # two-sided, by level


class RandomScaling:
    """The running mean of iterates and the spread of its path; memory of four tables, whatever the number of iterates.

    Give it Q_1, Q_2, ... in turn, arrays of one shape (several seeds may be stacked), by `add`.
    """

    def __init__(self) -> None:
        self.count = 0

    def add(self, q: np.ndarray) -> None:
        if self.count == 0:
            self.first = np.array(q, dtype=float)  # means are kept relative to it: less is lost by subtraction
            self.mean, self.linear, self.square = (np.zeros_like(self.first) for _ in range(3))
        self.count += 1
        self.mean: np.ndarray = self.mean + (q - self.first - self.mean) / self.count
        weighted = self.count**2 * self.mean
        self.linear: np.ndarray = self.linear + weighted
        self.square: np.ndarray = self.square + weighted * self.mean

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends, of the shape of the iterates. Raises SettingError for a level without a quantile."""
        if level not in QUANTILES:
            raise SettingError("level", level, f"must be one of {', '.join(map(str, QUANTILES))}")
        if self.count < 2:
            raise SettingError("iterations", self.count, "an interval needs at least two iterates")
        t = self.count
        weight = t * (t + 1) * (2 * t + 1) / 6  # of all s^2
        v = np.maximum(self.square - 2 * self.mean * self.linear + weight * self.mean**2, 0.0) / t**2
        half, centre = QUANTILES[level] * np.sqrt(v / t), self.first + self.mean
        return centre - half, centre + half


def from_checkpoints(iteration: np.ndarray, means: np.ndarray, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper ends (..., S, A), from the running means (C, ..., S, A) after these numbers of iterates (C,).

    V_T by the trapezoidal rule: between checkpoints s (m_s - m_T) moves little. Raises SettingError for a level
    without a quantile, and for fewer than 20 checkpoints with k > 0.
    """
    if level not in QUANTILES:
        raise SettingError("level", level, f"must be one of {', '.join(map(str, QUANTILES))}")
    k, path = np.asarray(iteration, float), np.asarray(means, float)
    if (k > 0).sum() < _FEWEST:
        raise SettingError("n_checkpoints", len(k), f"an interval needs at least {_FEWEST} checkpoints after the start")
    t, centre = k[-1], path[-1]
    squares = (k.reshape(-1, *[1] * centre.ndim) * (path - centre)) ** 2
    half = QUANTILES[level] * np.sqrt(np.trapezoid(squares, k, axis=0) / t**3)
    return centre - half, centre + half
