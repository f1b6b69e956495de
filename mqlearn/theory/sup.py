"""Expected norms of N(0, Sigma), which have no formula: by seeded draws, the sup norm with its standard error.

The Euclidean norm is no larger than the root of its mean square, sqrt(tr Sigma), and well below where few errors count:
a single normal error has E |z| = sqrt(2/pi) sigma.
"""

import hashlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

_KEY = 0x5EED  # of the generator: the same draws for every covariance of one size
DRAWS = 10_000
_BLOCK = 2**22  # numbers at once
_LARGE = 1400  # rows, from which eigenvalues and all draws would take seconds
_ALL = 1000  # rows whose draws cost as much as those of any larger number
_JITTER = 1e-11  # of the largest variance: a covariance may be singular
_KEPT = 16

_found: dict[tuple, tuple["SupError", float]] = {}  # by the digest of a covariance


class SupError(NamedTuple):
    """value: E max |N(0, Sigma)|.   standard_error: of the value, from the draws."""

    value: float
    standard_error: float


def expected_sup(sigma: np.ndarray, draws: int = DRAWS) -> SupError:
    """E max_i |z_i| for z ~ N(0, sigma), sigma (n, n) positive semidefinite; NaN where sigma is.

    The draws are counter-based, so the value depends on sigma and on the number of draws alone. On more than 1,400 rows
    there are fewer draws, as many as cost what 10,000 cost on 1,000 rows; the standard error tells.
    """
    return expected_sup_and_norm(sigma, draws)[0]


def expected_norm(sigma: np.ndarray, draws: int = DRAWS) -> float:
    """E |z|, the Euclidean norm, for z ~ N(0, sigma), sigma (n, n) positive semidefinite; NaN where sigma is."""
    return expected_sup_and_norm(sigma, draws)[1]


def expected_sup_and_norm(sigma: np.ndarray, draws: int = DRAWS) -> tuple[SupError, float]:
    """`expected_sup` and `expected_norm`, from the same draws. The rows of a table ask for those of one floor again and
    again."""
    if not np.isfinite(sigma).all():
        return SupError(float("nan"), float("nan")), float("nan")
    key = hashlib.sha256(np.ascontiguousarray(sigma).data).digest(), sigma.shape, draws
    if key not in _found:
        while len(_found) >= _KEPT:
            _found.pop(next(iter(_found)))
        _found[key] = _large(sigma, draws) if len(sigma) > _LARGE else _small(sigma, draws)
    return _found[key]


def _small(sigma: np.ndarray, draws: int) -> tuple[SupError, float]:
    values, vectors = np.linalg.eigh(sigma)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T  # symmetric: no sign is left to chance
    largest = np.concatenate([np.abs(z @ root).max(1) for z in _normal(len(sigma), draws)])
    norm = _norms(values, vectors, np.zeros((1, len(sigma))), np.ones(1), draws)[0]
    return _mean(largest), float(norm)


def _large(sigma: np.ndarray, draws: int) -> tuple[SupError, float]:
    """The same from a triangular root, which takes a thirtieth of the time that eigenvalues take."""
    from scipy.linalg import cholesky, get_blas_funcs

    n = len(sigma)
    draws = max(100, min(draws, draws * _ALL**2 // n**2))
    sigma = sigma.copy()
    sigma[np.diag_indices(n)] += _JITTER * float(np.diag(sigma).max(initial=1e-300))
    root = cholesky(sigma.T, overwrite_a=True, check_finite=False)  # above the diagonal, by columns: BLAS is quickest
    (triangular,) = get_blas_funcs(("trmm",), (root,))
    z = [triangular(1.0, root, block.T, trans_a=1).T for block in _normal(n, draws)]  # block @ root
    largest = np.concatenate([np.abs(block).max(1) for block in z])
    return _mean(largest), float(np.concatenate([np.sqrt((block**2).sum(1)) for block in z]).mean())


def _mean(largest: np.ndarray) -> SupError:
    return SupError(float(largest.mean()), float(largest.std(ddof=1) / np.sqrt(len(largest))))


def expected_norms(sigma: np.ndarray, mean: np.ndarray, scale: np.ndarray, draws: int = DRAWS) -> np.ndarray:
    """(C,): E |mean + sqrt(scale) z|, the Euclidean norm, for z ~ N(0, sigma), of each mean (C, n) and scale (C,)."""
    if not np.isfinite(sigma).all():
        return np.full(len(mean), np.nan)
    return _norms(*np.linalg.eigh(sigma), mean, scale, draws)


def _norms(values: np.ndarray, vectors: np.ndarray, mean: np.ndarray, scale: np.ndarray, draws: int) -> np.ndarray:
    """`expected_norms`, from the eigenvalues and eigenvectors of sigma."""
    values = np.maximum(values, 0.0)
    along, total = (mean @ vectors) * np.sqrt(values), np.zeros(len(mean))
    for z in _normal(len(values), draws):
        square = scale * (z**2 @ values)[:, None] + 2 * np.sqrt(scale) * (z @ along.T) + (mean**2).sum(1)
        total += np.sqrt(np.maximum(square, 0.0)).sum(0)
    return total / draws


def _normal(n: int, draws: int) -> Iterator[np.ndarray]:
    """Independent normal numbers (draws, n), in blocks of rows."""
    generator = np.random.Generator(np.random.Philox(key=_KEY))
    rows = max(1, _BLOCK // n)
    for first in range(0, draws, rows):
        yield generator.standard_normal((min(rows, draws - first), n))
