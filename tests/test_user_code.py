"""Whatever a user's own function raises, wherever it is called, is one line with its type, message, file and line."""

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

import mqlearn as mq
from mqlearn.errors import SettingError
from mqlearn.experiments.settings import compose
from mqlearn.experiments.settings.cell import build

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


METHODS = """
import mqlearn as mq

def fails(name):
    if name == WHERE:
        HOW

class Four(mq.Rule):
    def own_step_size(self, discount):
        fails("own_step_size")
        return super().own_step_size(discount)

    def warnings(self, discount):
        fails("warnings")
        return []

    def with_step_size(self, step_size):
        fails("with_step_size")
        return super().with_step_size(step_size)

    def update(self, k, q, q_prev, target, target_prev):
        return q + self.step_size(k) * (target - q)

class Stated(mq.Stateful):
    compiled = False

    def own_step_size(self, discount):
        fails("own_step_size")
        return super().own_step_size(discount)

    def warnings(self, discount):
        fails("warnings")
        return []

    def at(self, discount):
        fails("at")
        return super().at(discount)

    def init(self, q0):
        if q0.size > 20:
            fails("init")
        return {"q": q0}

    def numbers(self, k):
        if k.size and 150 < k.max() < 900:
            fails("numbers")
        return super().numbers(k)

    def step(self, z, s, c):
        if c.alpha < 0.01:
            fails("step")
        s.move(z.q, s.target(z.q), c.alpha)

    def estimate(self, z):
        if z.q.size > 20:
            fails("estimate")
        return z.q
"""
RULES = {
    "Four": ("own_step_size", "warnings", "with_step_size"),
    "Stated": ("own_step_size", "warnings", "at", "init", "numbers", "step", "estimate"),
}
RAISED = {"raise KeyError(name)": "KeyError: '{}'", "__import__('sys').exit()": "SystemExit: "}


@pytest.mark.parametrize("how", RAISED)
@pytest.mark.parametrize(("rule", "method"), [(rule, method) for rule, methods in RULES.items() for method in methods])
def test_in_any_method_of_a_rule_however_late(rule, method, how, mqlearn, work, outputs):
    number = 1 + METHODS.split("\n").index("        HOW")
    (work / "methods.py").write_text(METHODS.replace("WHERE", repr(method)).replace("HOW", how))
    number_of_cell = 10 * [*RULES[rule]].index(method) + 2 * [*RULES].index(rule) + [*RAISED].index(how)
    own = ("plugins=[methods]", f"algorithm._target_=methods.{rule}", f"seed={number_of_cell}")
    done = mqlearn("run", *own, *LATE)
    said = f"{rule}.{method}() raised {RAISED[how].format(method)} ({work}/methods.py, line {number})"
    assert (done.code, done.err) == (2, f"mqlearn: plugins='methods': {said}\n")
    assert not outputs.exists() or not [*outputs.glob("runs/*/*")]


LATE = ("n_workers=1", "iterations=200", "n_seeds=1", "n_checkpoints=3", "tracking=none")
OWN = ("plugins=[methods]", "algorithm._target_=methods.Four")
VERBS = {
    "run -m": ("run", "-m", *OWN, *LATE, "seed=1,2"),
    "preview": ("run", "-m", *OWN, *LATE, "seed=1,2", "preview=true"),
    "truth": ("truth", *OWN),
    "theory": ("theory", *OWN),
    "bench": ("bench", "paper", "plugins=[methods]", "algorithm=four", "tracking=none", "n_workers=1"),
    "doctor": ("doctor", "--config-dir", "conf", "plugins=[methods]", "algorithm=four"),
}


@pytest.mark.parametrize("verb", VERBS)
def test_with_any_verb(verb, mqlearn, work):
    (work / "methods.py").write_text(METHODS.replace("WHERE", "'own_step_size'").replace("HOW", "raise KeyError(1)"))
    (work / "conf" / "algorithm").mkdir(parents=True)
    (work / "conf" / "algorithm" / "four.yaml").write_text("_target_: methods.Four\n")
    done = mqlearn(*VERBS[verb])
    start = "mqlearn: plugins='methods': Four.own_step_size() raised KeyError: 1"
    assert done.code == 2 and done.err.splitlines()[-1].startswith(start) and "Traceback" not in done.err


def test_an_exit_in_a_module_is_said(mqlearn, work):
    (work / "leaves.py").write_text("import sys\nsys.exit()\n")
    done = mqlearn("run", "plugins=[leaves]")
    assert done.code == 2 and f"cannot be imported; it is looked for in {work} (SystemExit at " in done.err


def test_the_users_exception_stays_within_reach(work):
    (work / "methods.py").write_text(METHODS.replace("WHERE", "'own_step_size'").replace("HOW", "raise KeyError(1)"))
    with pytest.raises(SettingError) as refused:
        build(compose.compose(OWN))
    assert isinstance(refused.value.__cause__, KeyError) and refused.value.__cause__.__traceback__ is not None


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
