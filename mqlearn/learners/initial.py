"""Where learning starts: Q_0 or theta_0 of each seed."""

from typing import Any

import numpy as np

from mqlearn.checks import finite_number, plain_number
from mqlearn.errors import SettingError
from mqlearn.sampling.chains import uniform_words

# A number, a range (low, high) of uniform values, or an array: one row for all seeds, or one for each.
Initial = float | tuple[float, float] | np.ndarray


def initial_values(n: int, initial: Initial, lanes: np.ndarray, seed: int) -> np.ndarray:
    """(L, n): a constant, uniform in [low, high) with a stream of its own, or the rows of an array."""
    if isinstance(initial, tuple):
        low, high = initial
        return low + (high - low) * (uniform_words(n, lanes, seed, "initial") / 2.0**32)
    if isinstance(initial, np.ndarray):
        rows = initial[lanes] if initial.ndim == 2 else np.broadcast_to(initial, (len(lanes), n))
        return np.array(rows, np.float64, order="C")  # else of the order of the user's: kernels compiled once more
    return np.full((len(lanes), n), float(initial))


def bounds(initial: Initial) -> tuple[float, float]:
    """The least and the largest value."""
    if isinstance(initial, np.ndarray):
        return float(initial.min()), float(initial.max())
    low, high = initial if isinstance(initial, tuple) else (initial, initial)
    return float(low), float(high)


def of_all_seeds(initial: Initial) -> Initial:
    """One start for seeds that are not those of the run: the mean of rows that each of its own seeds has."""
    own = isinstance(initial, np.ndarray) and initial.ndim == 2
    return initial.mean(axis=0) if own else initial  # type: ignore[union-attr]  # an array


def checked_initial(name: str, value: Any) -> float | tuple[float, float]:
    """A number, or a range of numbers (low, high). Raises SettingError for anything else."""
    several = isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim > 0)
    ends = [number for one in (value if several else [value]) if (number := plain_number(one)) is not None]
    if len(ends) != (len(value) if several else 1) or len(ends) not in (1, 2) or not _rising(ends):
        shown = f"array of shape {value.shape}" if isinstance(value, np.ndarray) else value
        raise SettingError(name, shown, "must be a number, or [low, high] for uniform initial values")
    return (ends[0], ends[-1]) if several else ends[0]


def _rising(ends: list[int | float]) -> bool:
    low, high = finite_number(ends[0]), finite_number(ends[-1])
    return low is not None and high is not None and low <= high
