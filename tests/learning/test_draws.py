"""The random numbers of evaluation episodes: fresh at every checkpoint or fixed, in both cases common to all rules."""

import gymnasium
import numpy as np
import pytest

import mqlearn as mq
from mqlearn.errors import SettingError
from mqlearn.experiments.settings.cell import build
from mqlearn.experiments.settings.compose import compose
from mqlearn.kernels import STREAMS
from mqlearn.sampling.chains import stream_at

LAKE = mq.frozen_lake("4x4")
FROZEN = mq.QLearning().with_step_size(mq.Constant(1e-200))  # all actions stay equal: one policy throughout


def returns(draws: str, rule: mq.Rule = FROZEN, **settings) -> np.ndarray:
    evaluation = mq.Evaluation(episodes=40, draws=draws)
    result = mq.run(
        LAKE, rule, iterations=60, n_seeds=20, sampling=mq.Markovian(), q0=1.0, evaluation=evaluation, n_checkpoints=30,
        checkpoints="linear", **settings,
    )  # fmt: skip
    return result.curves["return_uniform"]


def test_fixed_draws_repeat_a_lucky_start_and_fresh_ones_do_not():
    fixed, fresh = returns("fixed"), returns("fresh")
    assert (fixed == fixed[:, :1]).all()
    assert all(len(set(curve)) > 3 for curve in fresh)
    np.testing.assert_array_equal(returns("fresh", n_workers=3), fresh)


def test_fresh_draws_average_out_where_fixed_ones_do_not():
    means = [returns(draws).mean(axis=1) for draws in ("fixed", "fresh")]
    assert means[0].std() > 3 * means[1].std()


def test_both_are_common_to_all_rules():
    other = mq.SpeedyQ("printed").with_step_size(mq.Constant(1e-200))
    for draws in ("fixed", "fresh"):
        np.testing.assert_array_equal(returns(draws), returns(draws, other))


def test_every_checkpoint_has_a_stream_of_its_own_that_nothing_else_uses():
    ks = [*range(2000), 10**5, 2**24 - 2]
    used = [int(stream_at(name, k)) for name in ("evaluation_uniform", "evaluation_start") for k in ks]
    assert len(set(used)) == len(used)
    assert not set(used) & set(STREAMS.values())
    assert stream_at("evaluation_start", None) == STREAMS["evaluation_start"]


def test_without_a_model_too():
    env = mq.simulator(gymnasium.make("CartPole-v1"))
    curves = [
        mq.run(
            env, FROZEN, iterations=20, n_seeds=2, sampling=mq.Markovian(), features=mq.tile_coding(env),
            theta0=(0.0, 1.0), evaluation=mq.Evaluation(episodes=6, draws=draws), n_checkpoints=4,
        ).curves["return_start"]
        for draws in ("fixed", "fresh")
    ]  # fmt: skip
    assert (curves[0] == curves[0][:, :1]).all()
    assert len(set(curves[1][0])) > 1


def test_new_runs_have_fresh_draws_and_a_record_that_does_not_say_has_fixed_ones():
    settings = compose(["sampling=markovian"])
    assert build(settings).run_arguments["evaluation"].draws == "fresh"
    del settings["evaluation"]["draws"]
    assert build(settings).run_arguments["evaluation"].draws == "fixed"
    with pytest.raises(SettingError, match=r"evaluation.draws='frsh': must be fresh or fixed .did you mean 'fresh'"):
        mq.Evaluation(draws="frsh")
