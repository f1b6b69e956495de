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


def test_seeds_in_turn_start_where_their_own_seed_does():
    """From a result of more seeds, from a table for each, from parameters for each."""
    plain, features = mq.QLearning(), mq.one_hot(LAKE)
    before = mq.run(LAKE, plain, iterations=20, n_checkpoints=2, n_seeds=12)
    assert before.q is not None
    theta = np.random.default_rng(0).random((12, features.n_features))
    linear = {"features": features, "sampling": mq.Markovian()}
    for start in ({"q0": before}, {"q0": before.q}, {"theta0": theta, **linear}):
        settings = {"iterations": 30, "n_checkpoints": 4, **start}
        turn = SeedsInTurn(LAKE, [plain], **settings)
        turn.upto(7, [0])
        turn.upto(12, [0])
        found, fixed = turn.result(0), mq.run(LAKE, plain, n_seeds=12, **settings)
        assert same(found.curves["q_error"], fixed.curves["q_error"]) and same(found.theta, fixed.theta)
        with pytest.raises(mq.SettingError, match=r"12 seeds|\(12, "):
            turn.check(13)


def test_what_is_interrupted_leaves_the_seeds_before_it():
    """A user's metric, halfway through seeds 8 to 12, stops what runs; then it is done again."""
    stop = [False]

    def large(q: np.ndarray, mdp: Any) -> np.ndarray:
        if stop[0] and q.any():
            raise KeyboardInterrupt
        return q.max(axis=(1, 2))

    settings = {"iterations": 40, "n_checkpoints": 4, "metrics": {"large": large}}
    turn, fixed = SeedsInTurn(LAKE, RULES[:1], **settings), mq.run(LAKE, RULES[0], n_seeds=12, **settings)
    turn.upto(8, [0])
    earlier, stop[0] = turn.result(0), True
    with pytest.raises(KeyboardInterrupt):
        turn.upto(12, [0])
    assert turn.n_seeds == [8] and same(turn.result(0).curves, earlier.curves)
    assert same(turn.result(0).error_tables, earlier.error_tables)
    stop[0] = False
    turn.upto(12, [0])
    assert same(turn.result(0).curves, fixed.curves) and same(turn.result(0).error_tables, fixed.error_tables)
