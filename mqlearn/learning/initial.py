"""Where learning starts: Q_0 or theta_0 of each seed."""

import numpy as np

from mqlearn.learning.chains import uniform_words

Initial = float | tuple[float, float]


def initial_values(n: int, initial: Initial, lanes: np.ndarray, seed: int) -> np.ndarray:
    """(L, n): a constant, or uniform in [low, high) with a stream of its own."""
    if isinstance(initial, tuple):
        low, high = initial
        return low + (high - low) * (uniform_words(n, lanes, seed, "initial") / 2.0**32)
    return np.full((len(lanes), n), float(initial))
