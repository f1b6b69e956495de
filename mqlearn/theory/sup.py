"""The expected sup error E max |N(0, Sigma)|, which has no formula: by seeded draws, with their standard error."""

from typing import NamedTuple

import numpy as np

_KEY = 0x5EED  # of the generator: the same draws for every covariance of one size
DRAWS = 10_000
_BLOCK = 2**22  # numbers at once


class SupError(NamedTuple):
    """value: E max |N(0, Sigma)|.   standard_error: of the value, from the draws."""

    value: float
    standard_error: float


def expected_sup(sigma: np.ndarray, draws: int = DRAWS) -> SupError:
    """E max_i |z_i| for z ~ N(0, sigma), sigma (n, n) positive semidefinite; NaN where sigma is.

    The draws are counter-based, so the value depends on sigma and on the number of draws alone.
    """
    if not np.isfinite(sigma).all():
        return SupError(float("nan"), float("nan"))
    values, vectors = np.linalg.eigh(sigma)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T  # symmetric: no sign is left to chance
    generator = np.random.Generator(np.random.Philox(key=_KEY))
    rows = max(1, _BLOCK // len(sigma))
    largest = np.concatenate(
        [
            np.abs(generator.standard_normal((min(rows, draws - first), len(sigma))) @ root).max(1)
            for first in range(0, draws, rows)
        ]
    )
    return SupError(float(largest.mean()), float(largest.std(ddof=1) / np.sqrt(draws)))
