"""What holds of these features: their size, which states share a parameter, and where they are the table itself."""

import numpy as np
from my_features import my_features

import mqlearn as mq

LAKE = mq.frozen_lake("4x4", discount=0.9)


def learned(features):
    return mq.run(
        LAKE,
        mq.QLearning(),
        sampling=mq.Replay(start="uniform"),
        features=features,
        step_size=mq.Constant(0.1),
        iterations=20_000,
        n_seeds=2,
    )


def test_neighbours_share_their_parameters():
    features = my_features(LAKE, width=2)
    assert features.n_features == 8 * 4
    rows = {(x, u): column for (x, u), (column,) in zip(LAKE.pairs.tolist(), features.active.tolist(), strict=True)}
    assert rows[0, 3] == rows[1, 3] != rows[2, 3]


def test_groups_of_one_state_are_the_table():
    np.testing.assert_array_equal(learned(my_features(LAKE, width=1)).q, learned(mq.one_hot(LAKE)).q)


def test_a_rule_comes_nearer_to_the_fixed_point():
    error = learned(my_features(LAKE)).curves["theta_error"]
    assert (error[:, -1] < 0.5 * error[:, 0]).all()
