"""Learners of several rules that one loop moves, from the same samples: each has the numbers that it has alone."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from mqlearn.learners.linear import LinearLearner
from mqlearn.learners.synchronous import SynchronousTable

_TABLES = 8  # more save little,
_CACHE = 2**19  # bytes of their blocks: beyond the second level of a processor, one after the other is faster
_PARAMETERS = 4  # as `kernels.linear_together` has them
_FORGOTTEN = 1e-17  # a momentum below is none (`kernels.momentum`)


def most_together(learner: Any, weights: np.ndarray) -> int:
    """How many learners of one kind a loop moves at most, this one among them, in iterations with these weights."""
    if not isinstance(learner, SynchronousTable | LinearLearner):
        return 1
    if learner.operator.compiled is not None or learner.left_out:
        return 1
    if isinstance(learner, SynchronousTable):
        mdp, lanes = learner.mdp, 8  # two values a pair, three a state
        return max(1, min(_TABLES, _CACHE // (8 * lanes * (2 * len(mdp.pairs) + 3 * mdp.n_states))))
    one_feature = learner.active.values.shape[1] == 1 and bool((learner.active.values == 1).all())
    forgets = not weights[:, 3].any() and bool((np.abs(weights[:, 1]) < _FORGOTTEN).all())
    return _PARAMETERS if one_feature and forgets else 1


def move_together(some: Sequence[Any], k: int, n: int, weights: Sequence[np.ndarray]) -> None:
    """`advance` for learners of one kind and of the same seeds, as many as `most_together` allows."""
    if isinstance(some[0], SynchronousTable):
        _move_tables(some, k, n, weights)
    else:
        _move_parameters(some, k, n, weights)


def _move_tables(some: Sequence[SynchronousTable], k: int, n: int, weights: Sequence[np.ndarray]) -> None:
    from mqlearn import kernels

    first, stream = some[0], np.uint32(kernels.STREAMS["synchronous"])
    q, q_prev = np.stack([one.q for one in some]), np.stack([one.q_prev for one in some])
    numbers = np.stack([own[:n] for own in weights])
    place = k, first.lanes, first.seed, stream
    kernels.synchronous_together(q, q_prev, first.model, numbers, first.mdp.discount, *place)
    for one, own, own_prev in zip(some, q, q_prev, strict=True):
        one.q, one.q_prev = own, own_prev


def _move_parameters(some: Sequence[LinearLearner], k: int, n: int, weights: Sequence[np.ndarray]) -> None:
    from mqlearn import kernels

    first = some[0]
    idle = [np.zeros_like(first.theta) for _ in range(3)] + [first.last.copy()]
    steps = np.zeros((n, _PARAMETERS))
    for rule, own in enumerate(weights):
        np.negative(own[:n, 2], out=steps[:, rule])
    of_rules = [[one.theta, one.v, one.sums, one.last] for one in some]
    of_rules += [[array.copy() for array in idle] for _ in range(_PARAMETERS - len(some))]
    parameters = [tuple(arrays) for arrays in zip(*of_rules, strict=True)]
    drawn = first.samples.block(k, n, first.places)
    columns = first.active.active.reshape(-1)
    kernels.linear_together(*parameters, first.chain.model, columns, drawn, steps, first.mdp.discount)
    for one in some:
        one.k = k + n
