"""The figure shows every seed of every rule, where its error lies."""

import numpy as np
from my_figure import draw

import mqlearn as mq

LAKE = mq.frozen_lake("4x4", discount=0.9)
RULES = {"Q-learning": mq.QLearning(), "SpeedyQ": mq.SpeedyQ()}


def test_every_seed_is_a_point():
    last = {}
    for name, rule in RULES.items():
        last["4x4", name] = mq.run(LAKE, rule, iterations=200, n_seeds=3).curves["q_error"][:, -1]
    (axes,) = draw(last).axes
    points = [line.get_ydata() for line in axes.lines if line.get_marker() == "o"]
    np.testing.assert_array_equal(points, list(last.values()))
    assert [tick.get_text() for tick in axes.get_xticklabels()] == list(RULES)
