"""Seeds in turn leave what a run that has them all at once leaves, bit for bit."""

import dataclasses
from typing import Any

import numpy as np
import pytest

import mqlearn as mq
from mqlearn.learning.in_turn import SeedsInTurn

LAKE = mq.frozen_lake("4x4")
RULES = [mq.QLearning(), mq.SpeedyQ(), mq.averaged(mq.QLearning())]


def same(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return a.tobytes() == b.tobytes() if isinstance(a, np.ndarray) else a == b


@pytest.mark.parametrize("sampling", [None, mq.Markovian()], ids=["all pairs", "chains"])
def test_seeds_in_turn_are_those_of_a_fixed_run(sampling):
    """Of each rule another number of seeds: all that a result has, means over seeds and facts among it."""
    settings = {"iterations": 60, "sampling": sampling, "n_checkpoints": 6, "seed": 3}
    turn = SeedsInTurn(LAKE, RULES, **settings)
    turn.upto(10, [0, 1, 2])
    turn.upto(13, [0, 2])
    turn.upto(22, [2])
    for number, n_seeds in enumerate((13, 10, 22)):
        found, fixed = turn.result(number), mq.run(LAKE, RULES[number], n_seeds=n_seeds, **settings)
        for field in dataclasses.fields(fixed):
            if field.compare and field.name != "seconds":
                assert same(getattr(found, field.name), getattr(fixed, field.name)), field.name
