"""The mean of the iterates of an averaged rule along its runs, of many seeds at once: what intervals are made of."""

import numpy as np

from mqlearn.algorithms.rule import Rule
from mqlearn.learners import Linear, start
from mqlearn.learners.initial import Initial
from mqlearn.learners.starting import with_state
from mqlearn.problems.mdp import FiniteMDP
from mqlearn.sampling.modes import Synchronous

_BLOCK = 4096  # iterations whose weights are held at a time


def mean_paths(
    mdp: FiniteMDP, rule: Rule, iteration: np.ndarray, lanes: np.ndarray, *, seed: int = 0, q0: Initial = 0.0,
    mean_reward: bool = True,
) -> np.ndarray:  # fmt: skip
    """(C, L, S, A): means of Q_1, ..., Q_k at these iterations (C,), increasing, of the seed indices `lanes` (L,),
    synchronous. rule: averaged, with its step size."""
    learner = start(mdp, Synchronous(), None, Linear(), seed, q0, mean_reward, lanes.astype(np.uint32), rule=rule)
    numbers, done, means = with_state(rule, None, Linear()), 0, []
    for k in np.asarray(iteration).tolist():
        while done < k:
            n = min(_BLOCK, k - done)
            learner.advance(done, n, numbers.weights(*learner.rows(done, n)))
            done += n
        means.append(learner.average_tables())
    return np.stack(means)
