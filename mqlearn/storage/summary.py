"""The seeds of one checkpoint in a few numbers: what a run's summary, MLflow and the plain figures tell of them."""

from typing import Literal, NamedTuple

import numpy as np

from mqlearn.checks import choice
from mqlearn.errors import SettingError

Band = Literal["ci95", "std"]
BANDS: tuple[Band, ...] = ("ci95", "std")
LEVEL = 0.95


class Interval(NamedTuple):
    """One entry a column: mean, low, high (C,) f8 and n_finite (C,) int64."""

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    n_finite: np.ndarray


def mean_interval(x: np.ndarray, kind: Band = "ci95") -> Interval:
    """Mean over the seeds of `x` (n_seeds, C), with an interval, from the finite values of each column.

    ``ci95`` is the 95 % t interval of the mean, mean -+ t s / sqrt(n); ``std`` is mean -+ s, the spread of
    single seeds. s is the sample standard deviation (n - 1 in the denominator), n the finite values of the
    column. Units are those of `x`. A column with one finite value has a mean and no interval: low and high
    are NaN; without any, the mean is NaN too. A column does not depend on the others, to the last bit.

    Raises SettingError for another kind, or if `x` is not (n_seeds >= 1, C).
    """
    choice("band", kind, BANDS)
    x = np.asarray(x, dtype=np.float64)
    if x.ndim != 2 or x.shape[0] == 0:
        raise SettingError("x", f"array of shape {x.shape}", "(n_seeds, columns), at least one seed")
    finite = np.isfinite(x)
    n = finite.sum(axis=0)
    # Scaled by the power of two below the largest value, so that squares neither overflow nor vanish: exact.
    largest = np.where(finite, np.abs(x), 0.0).max(axis=0)
    exponent = np.frexp(largest)[1]
    scaled = np.ldexp(np.where(finite, x, 0.0), -exponent)
    centre = np.where(n > 0, _sum(scaled) / np.maximum(n, 1), np.nan)
    squares = _sum(np.where(finite, scaled - centre, 0.0) ** 2)
    deviation = np.where(n > 1, np.sqrt(squares / np.maximum(n - 1, 1)), np.nan)
    half = deviation * _t_quantile(n) / np.sqrt(np.maximum(n, 1)) if kind == "ci95" else deviation
    with np.errstate(over="ignore"):  # an interval may leave the range of doubles: then it ends at infinity
        mean, low, high = (np.ldexp(row, exponent) for row in (centre, centre - half, centre + half))
    return Interval(mean, low, high, n)


def aggregate(values: np.ndarray) -> dict[str, np.ndarray]:
    """mean, std, low, high (95 % interval of the mean) and n_finite, each (C,), from `values` (n_seeds, C).

    Of the finite seeds. NaN where there is none: the mean of no seed, the std and the interval of one.
    """
    mean, low, high, n_finite = mean_interval(values)
    finite = np.isfinite(values)
    # Scaled by a power of two, which is exact, so that squares do not vanish: errors below 1e-160 occur.
    exponent = np.frexp(np.where(finite, np.abs(values), 0.0).max(axis=0))[1]
    scaled = np.ldexp(np.where(finite, values, 0.0), -exponent)
    centre = scaled.sum(axis=0) / np.maximum(n_finite, 1)
    squares = np.where(finite, scaled - centre, 0.0) ** 2
    std = np.ldexp(np.sqrt(squares.sum(axis=0) / np.maximum(n_finite - 1, 1)), exponent)
    std[n_finite < 2] = np.nan
    return {"mean": mean, "std": std, "low": low, "high": high, "n_finite": n_finite}


def _sum(x: np.ndarray) -> np.ndarray:
    """Sum over axis 0 in the order of the seeds; np.sum regroups the terms when there is one column only."""
    return np.cumsum(x, axis=0)[-1]


def _t_quantile(n: np.ndarray) -> np.ndarray:
    """Two-sided quantile of Student's t with n - 1 degrees of freedom at LEVEL (n < 2: unused)."""
    from scipy.special import stdtrit  # 0.1 s of start-up

    values, inverse = np.unique(np.maximum(n - 1, 1), return_inverse=True)
    return stdtrit(values.astype(np.float64), (1 + LEVEL) / 2)[inverse]
