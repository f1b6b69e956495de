"""Settings of runs without a model: from the command line, and those that are refused."""

import json

import numpy as np
import pytest
from simulated_cases import Line, box, coded, run

import mqlearn as mq
from mqlearn.problems.environments import simulator
from mqlearn.problems.features import one_hot


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"sampling": mq.Synchronous()}, "sampling='synchronous': needs an exact model, and CartPole-v1 has none"),
        ({"sampling": mq.IID()}, "sampling='iid': needs an exact model, and CartPole-v1 has none"),
        ({"sampling": mq.Markovian(start="uniform")}, "sampling.start='uniform'"),
        ({"sampling": mq.Markovian(restart_probability=0.1)}, "sampling.restart_probability=0.1"),
        ({"sampling": mq.Markovian(behaviour=np.ones((2, 2)) / 2)}, "sampling.behaviour='table'"),
        ({"sampling": mq.Replay(warm_up=3)}, "sampling.warm_up=3"),
        ({"features": None}, "features='tabular'"),
        ({"features": one_hot(mq.frozen_lake())}, "features='one_hot'"),
        ({"reward": "mean"}, "reward='mean'"),
        ({"metrics": {"mine": lambda q, mdp: q}}, "metrics="),
        ({"evaluation": mq.Evaluation(start="uniform")}, "evaluation.start='uniform'"),
    ],
)
def test_what_needs_a_model_is_refused(more, message):
    with pytest.raises(mq.SettingError) as refused:
        run(box("CartPole-v1"), **{"features": coded("CartPole-v1"), **more})
    assert message in str(refused.value)


class Sealed(Line):
    """An environment that cannot be copied, as those behind a C++ library."""

    def __deepcopy__(self, memo):
        raise TypeError("cannot pickle 'SwigPyObject' object")


def test_an_environment_that_cannot_be_copied_is_refused():
    with pytest.raises(mq.SettingError, match=r"env\.id='Sealed': cannot be copied"):
        run(simulator(Sealed(), discount=0.9), coded("CartPole-v1"))


BOX = (
    "env=gymnasium", "env.id=CartPole-v1", "features=tile_coding", "sampling=markovian", "tracking=none", "n_seeds=2",
    "sampling.behaviour=epsilon_greedy", "iterations=300", "evaluation.episodes=2",
)  # fmt: skip


def test_a_run_from_the_command_line_and_the_same_again(mqlearn, outputs):
    done = mqlearn("run", *BOX, "algorithm=momentum_q", "algorithm.beta=0.5", "discount=0.99")
    assert done.code == 0
    (summary,) = outputs.rglob("summary.json")
    record = json.loads(summary.read_text(encoding="utf-8"))
    assert set(record["final"]) == {"expected_return", "return_start"}
    assert record["chain_steps"] == 600
    assert "bit for bit" in mqlearn("rerun", summary.parent).out
    assert mqlearn("run", *BOX, "algorithm=momentum_q", "algorithm.beta=0.5", "discount=0.98").code == 0
    assert len(list(outputs.rglob("summary.json"))) == 2


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["features=one_hot"], "features='one_hot': needs an exact model"),
        (["features=aggregation"], "features='aggregation': needs an exact model"),
        (["sampling=iid", "sampling.behaviour=uniform"], "sampling='iid': needs an exact model"),
        (["env.id=CartPol-v1"], "did you mean 'CartPole-v1'"),
        (
            ["env.id=Pendulum-v1"],
            "env.id='Pendulum-v1': must have a Box or finitely many observations, and Discrete actions",
        ),
        (["features.low=[1,2]"], "features.low=[1, 2]: must be 4 finite numbers"),
        (["features.tiles=200"], "at most 1048576"),
        (["sampling.start=uniform"], "sampling.start='uniform'"),
    ],
)
def test_wrong_settings_are_one_message(mqlearn, outputs, wrong, said):
    given = {setting.split("=")[0] for setting in wrong}
    done = mqlearn("run", *(setting for setting in BOX if setting.split("=")[0] not in given), *wrong)
    assert done.code == 2
    assert said in done.err
    assert len(done.err.strip().splitlines()) == 1
    assert not list(outputs.rglob("*.json"))
