"""The metric by hand, and in a run."""

import numpy as np
from my_metric import my_metric

import mqlearn as mq

LAKE = mq.frozen_lake("4x4", discount=0.9)


def test_the_optimum_has_all_states_right_and_its_negative_few():
    best = mq.optimal(LAKE).q
    right, wrong = my_metric(np.stack([best, -best]), LAKE)
    assert right == 1 and wrong < 0.5


def test_a_run_records_it():
    ended = mq.run(LAKE, mq.SpeedyQ(), iterations=2000, n_seeds=3, n_checkpoints=5, metrics={"mine": my_metric})
    assert ended.curves["mine"].shape == ended.curves["q_error"].shape
    assert (ended.curves["mine"][:, -1] > 0.8).all()
