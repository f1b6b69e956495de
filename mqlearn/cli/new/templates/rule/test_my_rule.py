"""What holds of this rule: where it is a known one, and that it learns."""

import numpy as np
from my_rule import MyRule

import mqlearn as mq


def error(rule, iterations=2000):
    """Sup error of five seeds, (5, checkpoints)."""
    lake = mq.frozen_lake("4x4", discount=0.9)
    return mq.run(lake, rule, step_size=mq.RescaledLinear(0.9), iterations=iterations, n_seeds=5).curves["q_error"]


def test_without_the_last_move_it_is_q_learning():
    np.testing.assert_allclose(error(MyRule(beta=0.0)), error(mq.QLearning()), rtol=1e-12)


def test_it_learns():
    measured = error(MyRule())
    assert (measured[:, -1] < 0.2 * measured[:, 0]).all()
