"""Scores of a curve of errors: how small the error is over all samples, and how soon it is small.

With e(s) the error after s samples of a seed, e_0 the initial one and s geometric from one sample of each pair to the
budget, the area is the mean of log10(e(s)/e_0) over log s: the geometric mean of the error, so that each decade of
samples counts as much as the next. An error of 0 counts as 1e-12 of the initial one, and an error beyond 1000 times
the initial one, or of a seed that diverged, as 1000 times.
"""

import numpy as np

LEAST, MOST = -12.0, 3.0  # of log10(e/e_0)
SCORES = ("area", "to_10", "to_1", "last")  # smaller is better; see `scores`
LEVELS = (0.1, 0.01)  # of the initial error


def log_errors(samples: np.ndarray, errors: np.ndarray, axis: np.ndarray) -> np.ndarray:
    """log10(e/e_0) (n_seeds, C) at the samples `axis` (C,), of errors (n_seeds, K) after `samples` (K,) from 0 on.

    Between checkpoints it is linear in log s; before the first one after 0 the error is the initial one.
    """
    logs = _clipped(errors)
    place = np.log(np.maximum(samples[1:], 1))
    return np.stack([np.interp(np.log(axis), place, row[1:], left=row[0]) for row in logs])


def scores(samples: np.ndarray, errors: np.ndarray, axis: np.ndarray) -> np.ndarray:
    """(4, n_seeds): area, samples to 10 % and to 1 % of the initial error (infinite if never reached), last error.

    The last error is not relative, and NaN where a seed diverged.
    """
    logs = log_errors(samples, errors, axis)
    area = np.trapezoid(logs, axis=1) / (len(axis) - 1) if len(axis) > 1 else logs[:, 0]
    reached = [first_below(samples, errors, level) for level in LEVELS]
    return np.stack([area, *reached, errors[:, -1]])


def first_below(samples: np.ndarray, errors: np.ndarray, level: float) -> np.ndarray:
    """(n_seeds,): the samples at which the error is first at most `level` times the initial one, infinite if never.

    Between two checkpoints log e is linear in log s; up to the first one after 0 the error is the initial one.
    """
    logs, wanted, place = _clipped(errors), np.log10(level), np.log(np.maximum(samples, 1))
    first = np.full(len(logs), np.inf)
    for seed, row in enumerate(logs):
        below = np.flatnonzero(row <= wanted)
        if below.size:
            j = below[0]
            if j == 1:
                first[seed] = samples[1]
                continue
            share = (row[j - 1] - wanted) / (row[j - 1] - row[j])
            first[seed] = np.exp(place[j - 1] + share * (place[j] - place[j - 1]))
    return first


def _clipped(errors: np.ndarray) -> np.ndarray:
    """log10(e/e_0) within its bounds; all 0 where the initial error is 0 already."""
    start = errors[:, :1]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        logs = np.log10(errors / start)
    logs = np.where(np.isnan(logs), MOST, logs)
    return np.where(start > 0, np.clip(logs, LEAST, MOST), 0.0)
