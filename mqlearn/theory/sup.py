"""Expected norms of N(0, Sigma), which have no formula: by seeded draws, the sup norm with its standard error.

The Euclidean norm is no larger than the root of its mean square, sqrt(tr Sigma), and well below where few errors count:
a single normal error has E |z| = sqrt(2/pi) sigma.
"""

from collections.abc import Iterator
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
    largest = np.concatenate([np.abs(z @ root).max(1) for z in _normal(len(sigma), draws)])
    return SupError(float(largest.mean()), float(largest.std(ddof=1) / np.sqrt(draws)))


def expected_norm(sigma: np.ndarray, draws: int = DRAWS) -> float:
    """E |z|, the Euclidean norm, for z ~ N(0, sigma), sigma (n, n) positive semidefinite; NaN where sigma is."""
    return float(expected_norms(sigma, np.zeros((1, len(sigma))), np.ones(1), draws)[0])


def expected_norms(sigma: np.ndarray, mean: np.ndarray, scale: np.ndarray, draws: int = DRAWS) -> np.ndarray:
    """(C,): E |mean + sqrt(scale) z|, the Euclidean norm, for z ~ N(0, sigma), of each mean (C, n) and scale (C,)."""
    if not np.isfinite(sigma).all():
        return np.full(len(mean), np.nan)
    values, vectors = np.linalg.eigh(sigma)
    values = np.maximum(values, 0.0)
    along, total = (mean @ vectors) * np.sqrt(values), np.zeros(len(mean))
    for z in _normal(len(sigma), draws):
        square = scale * (z**2 @ values)[:, None] + 2 * np.sqrt(scale) * (z @ along.T) + (mean**2).sum(1)
        total += np.sqrt(np.maximum(square, 0.0)).sum(0)
    return total / draws


def _normal(n: int, draws: int) -> Iterator[np.ndarray]:
    """Independent normal numbers (draws, n), in blocks of rows."""
    generator = np.random.Generator(np.random.Philox(key=_KEY))
    rows = max(1, _BLOCK // n)
    for first in range(0, draws, rows):
        yield generator.standard_normal((min(rows, draws - first), n))
