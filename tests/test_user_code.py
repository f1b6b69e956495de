"""Whatever a user's own function raises, wherever it is called, is one line with its type, message, file and line."""

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

import mqlearn as mq
from mqlearn.errors import SettingError

MODULE = """
import gymnasium, numpy as np, mqlearn as mq
SWITCH = {}

def fails(*arguments, **named):
    return SWITCH["missing"]

def late(k):
    return fails() if np.max(k) > 150 else 1 / (k + 1)

class Broken(mq.Rule):
    def update(self, k, q, q_prev, target, target_prev):
        return fails()

class Late(mq.Rule):
    def update(self, k, q, q_prev, target, target_prev):
        return q + late(k) * (target - q) if np.max(k) not in range(150, 900) else fails()

def step():
    return fails

def evaluation():
    return fails()

def uniform(mdp):
    return np.ones("wide")

def features(mdp):
    return mq.from_function(mdp, fails)
"""
GROUPS = {
    "env": ["~env", "+env._target_=mine.fails"],
    "algorithm": ["algorithm._target_=mine.Broken"],
    "a rule that fails late": ["algorithm._target_=mine.Late"],
    "step_size": ["~step_size", "+step_size._target_=mine.step"],
    "sampling": ["sampling=markovian", "sampling.behaviour=mine.uniform"],
    "features": ["sampling=markovian", "~features", "+features._target_=mine.features"],
    "evaluation": ["~evaluation", "+evaluation._target_=mine.evaluation"],
    "metrics": ["metrics={mine: mine.fails}"],
}


@pytest.mark.parametrize("group", GROUPS)
def test_in_any_group_of_the_command_line(group, mqlearn, work):
    (work / "mine.py").write_text(MODULE)
    done = mqlearn("run", "plugins=[mine]", *GROUPS[group], "iterations=1000", "n_seeds=1", "tracking=none")
    assert done.code == 2
    (line,) = [text for text in done.err.splitlines() if "raised" in text]
    assert ("TypeError: " if group == "sampling" else "KeyError: 'missing'") in line
    number = 1 + MODULE.split("\n").index(
        '    return np.ones("wide")' if group == "sampling" else '    return SWITCH["missing"]'
    )
    assert line.endswith(f"mine.py, line {number})")
    assert "Traceback" not in done.err


class Breaking(gymnasium.Env):
    observation_space, action_space = Box(-1.0, 1.0, (1,)), Discrete(2)

    def __init__(self, steps: int) -> None:
        self.left = steps

    def reset(self, *, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.left -= 1
        return np.zeros(1, np.float32), 1 / self.left, False, False, {}


def test_in_an_environment_that_is_learned_from_step_by_step():
    env = mq.simulator(Breaking(30))
    with pytest.raises(
        SettingError, match=r"env.id='Breaking': raised ZeroDivisionError: division by zero \(.*test_user"
    ):
        mq.run(
            env, mq.QLearning(), iterations=90, n_seeds=1, sampling=mq.Markovian(), features=mq.tile_coding(env),
            evaluation=mq.Evaluation(episodes=0),
        )  # fmt: skip


def test_in_an_environment_that_gymnasium_makes():
    class Unmade(gymnasium.Env):
        def __init__(self, **settings):
            raise TypeError("no\nlicence")

    gymnasium.register("Unmade-v0", Unmade)
    with pytest.raises(
        SettingError, match=r"env.id='Unmade-v0': raised TypeError: no licence.*test_user_code.py, line"
    ):
        mq.from_gymnasium("Unmade-v0")


def test_a_fault_of_ours_or_of_a_library_keeps_its_traceback():
    rule = mq.QLearning().with_step_size(None)  # pyright: ignore[reportArgumentType]  # wrong on purpose
    with pytest.raises(TypeError, match="not callable"):
        rule.weights(0, 3)
