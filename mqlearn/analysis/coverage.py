"""How often intervals from one run cover Q*, measured on other seeds of the very same run."""

from typing import NamedTuple

import numpy as np

from mqlearn.algorithms.rule import Rule
from mqlearn.errors import SettingError
from mqlearn.learners.initial import Initial
from mqlearn.learning.mean_paths import mean_paths
from mqlearn.problems.mdp import FiniteMDP
from mqlearn.problems.solvers import optimal
from mqlearn.theory.interval import from_checkpoints

UPDATES = 5e8  # of a pair, some seconds of one core: what is spent at most
_MOST, _FEWEST = 400, 100  # seeds


class Coverage(NamedTuple):
    """Shares of seeds whose interval covers Q*: mean over the counted pairs, and least of them; number of seeds."""

    mean: float
    least: float
    n_seeds: int


def n_affordable(mdp: FiniteMDP, iterations: int) -> int:
    """On how many seeds coverage is measured. Raises SettingError where too few would take too long."""
    each = max(iterations, 1) * len(mdp.pairs)
    n = min(_MOST, int(UPDATES / each))
    if n < _FEWEST:
        expected = (
            f"are too many for an interval: none is told without its coverage, and to measure that on {_FEWEST} seeds "
            f"would take {_FEWEST * each:.2g} updates of a pair; at most are {UPDATES:.2g}"
        )
        raise SettingError("iterations", iterations, expected)
    return n


def measured_coverage(
    mdp: FiniteMDP, rule: Rule, iteration: np.ndarray, level: float, *, seed: int = 0, q0: Initial = 0.0,
    mean_reward: bool = True,
) -> Coverage:  # fmt: skip
    """Coverage of the intervals of `theory.interval` from means at these iterations (C,), of an averaged rule with its
    step size. The seeds follow the first one, whose interval is told. Raises SettingError."""
    lanes = np.arange(1, 1 + n_affordable(mdp, int(iteration[-1])))
    means = mean_paths(mdp, rule, iteration, lanes, seed=seed, q0=q0, mean_reward=mean_reward)
    low, high = from_checkpoints(iteration, means, level)
    star = optimal(mdp).q
    each = ((low <= star) & (star <= high)).mean(axis=0)[mdp.counted]
    return Coverage(float(each.mean()), float(each.min()), len(lanes))
