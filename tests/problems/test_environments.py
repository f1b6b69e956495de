"""Models that are read from Gymnasium, and what environments refuse."""

import subprocess
import sys
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv
from gymnasium.spaces import Discrete
from gymnasium.wrappers import RecordEpisodeStatistics, TimeLimit, TransformReward

from mqlearn.errors import SettingError
from mqlearn.problems.environments import (
    cliff_walking,
    from_gymnasium,
    frozen_lake,
    frozen_lake_blocks,
    frozen_lake_random,
    taxi,
)
from mqlearn.problems.solvers import optimal, policy_value, shortest_path


@pytest.mark.parametrize(
    ("build", "arguments", "setting"),
    [
        (frozen_lake, {"rewards": (1, 0)}, "env.rewards"),
        (frozen_lake, {"rewards": (1, 0, np.nan)}, "env.rewards"),
        (frozen_lake, {"rewards": "abc"}, "env.rewards"),
        (frozen_lake, {"success_rate": 1.1}, "env.success_rate"),
        (frozen_lake, {"success_rate": np.nan}, "env.success_rate"),
        (frozen_lake, {"slippery": "sometimes"}, "env.slippery"),
        (frozen_lake, {"discount": 1}, "discount"),
        (frozen_lake_random, {"size": 1}, "env.size"),
        (frozen_lake_random, {"size": 4.5}, "env.size"),
        (frozen_lake_random, {"size": 100_000}, "env.size"),
        (frozen_lake_random, {"frozen": -0.1}, "env.frozen"),
        (frozen_lake_random, {"frozen": 1.5}, "env.frozen"),
        (frozen_lake_random, {"frozen": 0.0, "max_tries": 500}, "env.frozen"),
        (frozen_lake_random, {"size": 40, "frozen": 0.4, "max_tries": 50}, "env.frozen"),
        (frozen_lake_random, {"map_seed": -1}, "env.map_seed"),
        (frozen_lake_random, {"map_seed": True}, "env.map_seed"),
        (frozen_lake_blocks, {"repeat": 0}, "env.repeat"),
        (frozen_lake_blocks, {"repeat": 1000}, "env.repeat"),
        (frozen_lake_blocks, {"base": ["SF"]}, "env.base"),
        (from_gymnasium, {"id": "FrozenLake-v1", "colour": "red"}, "env.kwargs.colour"),
        (from_gymnasium, {"id": "FrozenLake-v1", "discount": 0}, "discount"),
    ],
)
def test_a_wrong_setting_is_refused_by_its_name(build, arguments, setting):
    with pytest.raises(SettingError) as refused:
        build(**arguments)
    assert refused.value.setting == setting


@pytest.mark.parametrize(
    ("env_id", "message"),
    [
        ("FrozenLake-v0", "use 'FrozenLake-v1'"),
        ("CliffWalking-v0", "use 'CliffWalking-v1'"),
        ("Taxi-v3", "use 'Taxi-v4'"),
        ("Taxi", "use 'Taxi-v4'"),
        ("frozenlake-v1", "use 'FrozenLake-v1'"),
        ("FrozenLak-v1", "did you mean 'FrozenLake-v1'?"),
        ("", "not the name of a Gymnasium environment"),
        ("no_such_module:Lake-v0", "No module named 'no_such_module'"),
        ("CartPole-v1", "no exact model: errors against the optimum are not available"),
        ("Blackjack-v1", "no exact model: errors against the optimum are not available"),
    ],
)
def test_an_environment_without_a_model_or_a_current_name_is_refused(env_id, message):
    with pytest.raises(SettingError) as refused:
        from_gymnasium(env_id)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_what_is_no_environment_is_refused():
    with pytest.raises(SettingError, match="must be the id"):
        from_gymnasium(FrozenLakeEnv)  # pyright: ignore[reportArgumentType]  # wrong on purpose


def test_the_model_is_found_behind_wrappers():
    env = RecordEpisodeStatistics(TimeLimit(gymnasium.make("FrozenLake-v1"), 3))
    mdp = from_gymnasium(env)
    assert mdp.digest() == frozen_lake().digest()
    assert mdp.layout == frozen_lake().layout
    assert mdp.terminal.sum() == 5  # the time limit has made none


def test_a_wrapper_that_makes_the_model_untrue_is_refused():
    shifted = TransformReward(gymnasium.make("FrozenLake-v1"), lambda reward: float(reward) - 0.1)
    with pytest.raises(SettingError, match="does a wrapper change rewards"):
        from_gymnasium(shifted)
    with pytest.raises(SettingError, match="fickle"):
        from_gymnasium("Taxi-v4", fickle_passenger=True)


def test_the_cliff_has_states_that_are_never_occupied():
    mdp = cliff_walking()
    assert (mdp.n_states, mdp.n_actions) == (48, 4)
    assert np.count_nonzero(mdp.reachable & ~mdp.terminal) == 37
    assert mdp.counted.sum() == 37 * 4
    assert np.flatnonzero(mdp.goal).tolist() == np.flatnonzero(mdp.terminal).tolist() == [47]
    assert not mdp.reachable[37:47].any()  # the cliff
    assert shortest_path(mdp) == 13
    assert mdp.max_reward == 100
    assert cliff_walking(slippery=True).n_successors == 3


def test_the_taxi_ends_where_the_passenger_arrives():
    mdp = taxi(discount=0.99)
    assert (mdp.n_states, mdp.n_actions) == (500, 6)
    assert mdp.reachable.sum() == 404
    assert mdp.terminal.sum() == mdp.goal.sum() == 4
    assert np.count_nonzero(mdp.start) == 300
    assert shortest_path(mdp) is not None


class Chain(gymnasium.Env):
    """Five states in a row; the second action goes right, the first left; reward 1 for reaching the end."""

    def __init__(self, first_state: int = 0, first_action: int = 0) -> None:
        self.observation_space = Discrete(5, start=first_state)  # pyright: ignore[reportAttributeAccessIssue]  # no NumPy type
        self.action_space = Discrete(2, start=first_action)  # pyright: ignore[reportAttributeAccessIssue]  # likewise
        self.first_state, self.first_action = first_state, first_action
        self.P: Any = {
            x + first_state: {
                first_action: [
                    (0.9, max(x - 1, 0) + first_state, 0.0, False),
                    (0.1, x + first_state, 0, False),
                ],
                first_action + 1: [(1.0, x + 1 + first_state, float(x == 3), x == 3)],
            }
            for x in range(4)
        }

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.x = self.first_state
        return self.x, {}

    def step(self, action: Any) -> Any:
        outcomes = self.P[self.x][action]
        _, self.x, reward, done = outcomes[self.np_random.choice(len(outcomes), p=[p for p, *_ in outcomes])]
        return self.x, reward, done, False, {}


def test_spaces_that_do_not_start_at_zero_give_the_same_model():
    plain, shifted = from_gymnasium(Chain()), from_gymnasium(Chain(1, 1))
    assert plain.digest() == shifted.digest()
    assert optimal(shifted).start_value == pytest.approx(0.9**3)
    assert shifted.terminal.tolist() == [False] * 4 + [True]


def test_a_state_that_is_entered_both_as_the_end_and_not_gets_an_end_of_its_own():
    class Toll(Chain):
        """Going right from state 1 ends one time in four."""

        def __init__(self) -> None:
            super().__init__()
            self.P[1][1] = [(0.25, 2, 7.0, True), (0.75, 2, 0.0, False)]

    mdp = from_gymnasium(Toll())
    assert mdp.n_states == 6
    assert mdp.terminal.tolist() == [False] * 4 + [True, True]
    assert mdp.successors[1, 1].tolist() == [5, 2]
    assert mdp.rewards[1, 1].tolist() == [7, 0]
    v = policy_value(mdp, np.array([1, 1, 1, 1, 0, 0]))
    assert v[1] == pytest.approx(0.25 * 7 + 0.75 * 0.9 * 0.9)


def test_actions_that_a_state_does_not_have_are_not_admissible():
    class Narrow(Chain):
        def __init__(self) -> None:
            super().__init__()
            del self.P[0][0]
            self.P[2][0] = []

    mdp = from_gymnasium(Narrow())
    assert mdp.admissible.tolist() == [[False, True], [True, True], [False, True], [True, True], [True, True]]


def test_the_first_states_are_those_that_resets_show():
    class Anywhere(Chain):
        def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
            super().reset(seed=seed)
            self.x = int(self.np_random.integers(2))
            return self.x, {}

    assert from_gymnasium(Anywhere()).start.tolist() == [0.5, 0.5, 0, 0, 0]


def test_a_bare_model_starts_anywhere_but_at_the_end():
    class Bare(Chain):
        reset: Any = gymnasium.Env.reset
        step: Any = gymnasium.Env.step

    assert from_gymnasium(Bare()).start.tolist() == [0.25, 0.25, 0.25, 0.25, 0]


class OldStep(Chain):
    def step(self, action: Any) -> Any:
        return super().step(action)[:4]


class OldReset(Chain):
    def reset(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]  # wrong on purpose
        return super().reset()[0]


class OldResetAndStep(OldReset):
    def step(self, action: Any) -> Any:
        return super().step(action)[:4]


class NoInfo(Chain):
    def reset(self, **settings: Any) -> Any:
        return super().reset(**settings)[0]


class WrongRows(Chain):
    def __init__(self) -> None:
        super().__init__()
        self.P[0][0] = [(1.0, 0, 0.0)]


class WrongNumbers(Chain):
    def __init__(self) -> None:
        super().__init__()
        self.P[9] = self.P[0]


class OutsideStates(Chain):
    def __init__(self) -> None:
        super().__init__()
        self.P[0][0] = [(1.0, 5, 0.0, False)]


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (OldStep(), "returns four values (the old interface), five are needed"),
        (OldReset(), "must accept seed="),
        (OldResetAndStep(), "four values (the old interface), five are needed"),
        (NoInfo(), "must return two values"),
        (WrongRows(), "must be (probability, state, reward, terminated)"),
        (WrongNumbers(), "must be numbered from 0 to 4"),
        (OutsideStates(), "P[0][0][0]=(1.0, 5, 0.0, False)"),
    ],
)
def test_an_environment_of_the_wrong_form_is_refused(env, message):
    with pytest.raises(SettingError) as refused:
        from_gymnasium(env)
    assert message in str(refused.value)


def test_environments_are_imported_without_gymnasium_and_scipy():
    code = (
        "import sys, mqlearn.problems.environments as e; e.frozen_lake();"
        "sys.exit(any(name in sys.modules for name in ('gymnasium', 'scipy', 'numba')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
