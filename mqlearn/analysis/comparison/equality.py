"""Equality within a margin: two one-sided tests on the seeds that a comparison has (Schuirmann 1987).

Two rules are equal if the mean of neither is `margin` times that of the other, of times their geometric means. That is
shown if both a - margin b and b - margin a are shown to be below 0. Both tests have the whole level: not equal means
that one of the two is not below. Each is the test of the comparison itself, sign flips or permutations, on one side.
"""

import math

import numpy as np

from mqlearn.analysis.comparison.seed_values import Question
from mqlearn.analysis.statistics import significance
from mqlearn.errors import SettingError


def p_equal(question: Question, x: np.ndarray, y: np.ndarray, *, paired: bool, resamples: int) -> np.ndarray:
    """(T,): the larger p of both one-sided tests of each row of x (T, n) with that of y (T, m); NaN without a margin.

    Raises SettingError where a mean is not above 0: a margin is a factor.
    """
    if question.margin is None or not (x.size and y.size):
        return np.full(len(x), math.nan)
    if question.is_ratio:
        shift = math.log(question.margin)
        return np.maximum(_below(x - shift, y, paired, resamples), _below(y - shift, x, paired, resamples))
    means = np.stack([x.mean(axis=1), y.mean(axis=1)])
    if (means <= 0).any():
        a, b = means[:, np.flatnonzero((means <= 0).any(axis=0))[0]]
        expected = f"is a factor, and the means are {a:.3g} and {b:.3g}: both must be above 0"
        raise SettingError("margin", question.margin, expected)
    return np.maximum(
        _below(x, question.margin * y, paired, resamples), _below(y, question.margin * x, paired, resamples)
    )


def _below(a: np.ndarray, b: np.ndarray, paired: bool, resamples: int) -> np.ndarray:
    """(T,): the one-sided p that the mean of a is below that of b. The patterns of both tests are symmetric."""
    if paired:
        p = significance.sign_flips(a - b, resamples=resamples).p
    else:
        p = significance.permutations(a, b, resamples=resamples).p
    return np.where(a.mean(axis=1) < b.mean(axis=1), p / 2, 1.0)
