"""What holds of this rule: where it is a known one, and that it learns, in two sampling modes."""

import numpy as np
import pytest
from my_stateful import MyStateful

import mqlearn as mq

LAKE = mq.frozen_lake("4x4", discount=0.9)


def error(rule, **settings):
    """Sup error of five seeds, (5, checkpoints)."""
    return mq.run(LAKE, rule, n_seeds=5, **settings).curves["q_error"]


def test_with_a_copy_that_follows_at_once_it_is_q_learning():
    settings = {"step_size": mq.RescaledLinear(0.9), "iterations": 500}
    np.testing.assert_allclose(error(MyStateful(share=1.0), **settings), error(mq.QLearning(), **settings), rtol=1e-9)


MODES = {
    "synchronous": {"iterations": 2000},
    "replay": {"sampling": mq.Replay(start="uniform"), "step_size": mq.Constant(0.1), "iterations": 50_000},
}


@pytest.mark.parametrize("mode", MODES)
def test_it_learns(mode):
    measured = error(MyStateful(), **MODES[mode])
    assert (measured[:, -1] < 0.5 * measured[:, 0]).all()
