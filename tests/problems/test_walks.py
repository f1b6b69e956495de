"""Environments that remember more than their state are refused, and how far was looked is said where one may."""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Discrete
from gymnasium.wrappers import (
    FlattenObservation,
    StickyAction,
    TimeAwareObservation,
    TransformObservation,
    TransformReward,
)
from hidden_state import HiddenState

from mqlearn.errors import SettingError
from mqlearn.problems.environments import from_gymnasium, frozen_lake


class Ring(gymnasium.Env):
    """Six states in a ring, without an end; `ends` of the step's number says whether an episode ends all the same."""

    def __init__(self, ends: Callable[[int], bool] = lambda _: False, counts: bool = True) -> None:
        self.observation_space, self.action_space = Discrete(6), Discrete(2)
        self.isd = np.eye(6)[0]
        self.P = {x: {u: [(1.0, (x + 2 * u - 1) % 6, float(x == 0), False)] for u in (0, 1)} for x in range(6)}
        self.ends, self.counts, self.t = ends, counts, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.s = self.t = 0
        return self.s, {}

    def step(self, action: Any) -> Any:
        _, self.s, reward, _ = self.P[self.s][action][0]
        self.t += self.counts
        return self.s, reward, self.ends(self.t), False, {}


class Ends(gymnasium.Wrapper):
    """Ends an episode after n steps."""

    def __init__(self, env: gymnasium.Env, n: int) -> None:
        super().__init__(env)
        self.n = n

    def reset(self, **settings: Any) -> Any:
        self.t = 0
        return super().reset(**settings)

    def step(self, action: Any) -> Any:
        observation, reward, terminated, *rest = super().step(action)
        self.t += 1
        return (observation, reward, terminated or self.t >= self.n, *rest)


class Tired(gymnasium.Wrapper):
    """Pays less after ten steps."""

    def reset(self, **settings: Any) -> Any:
        self.t = 0
        return super().reset(**settings)

    def step(self, action: Any) -> Any:
        observation, reward, *rest = super().step(action)
        self.t += 1
        return (observation, float(reward) - (self.t > 10), *rest)


def lake(**settings: Any) -> gymnasium.Env:
    return gymnasium.make("FrozenLake-v1", **settings)


def refusal(env: gymnasium.Env) -> str:
    with pytest.raises(SettingError) as refused:
        from_gymnasium(env)
    assert refused.value.setting == "env.id" and "\n" not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize("n", [45, 300, 999])
def test_an_environment_that_counts_its_steps_to_an_end_is_refused(n):
    message = refusal(Ring(lambda t: t >= n))
    assert f"in step {n} from a reset it did what its P does not have" in message
    assert "terminated True" in message and "count its steps" in message


@pytest.mark.parametrize("n", [20, 30, 60, 99])
def test_a_wrapper_that_ends_the_lake_after_some_steps_is_refused(n):
    message = refusal(Ends(lake(), n))
    assert f"in step {n} from a reset" in message and "terminated True" in message


@pytest.mark.parametrize("share", [0.05, 0.25, 0.9])
@pytest.mark.parametrize("settings", [{}, {"is_slippery": False}, {"map_name": "8x8"}])
def test_an_action_that_sticks_is_refused(share, settings):
    assert "does not have" in refusal(StickyAction(lake(**settings), share))


def test_a_reward_that_falls_with_time_is_refused():
    assert "reward -1.0" in refusal(Tired(lake()))


@pytest.mark.parametrize("flatten", [True, False])
def test_a_time_in_the_observation_is_refused(flatten):
    message = refusal(TimeAwareObservation(lake(), flatten=flatten))
    assert "it is not Markov in what it shows" in message and "of state" in message and "it showed" in message


def test_observations_that_are_a_function_of_the_state_are_accepted():
    plain = frozen_lake().digest()
    assert from_gymnasium(FlattenObservation(lake())).digest() == plain
    assert from_gymnasium(TransformObservation(lake(), lambda x: 2 * x + 1, Discrete(40))).digest() == plain


def test_what_may_count_beyond_the_walk_is_said_with_how_far_it_was_walked():
    (note,) = from_gymnasium(Ring(lambda t: t >= 5000)).notes
    assert "it keeps Ring.t besides its state" in note and "the longest of 1000 steps" in note
    (note,) = from_gymnasium(Ends(lake(), 5000)).notes
    assert "it keeps Ends.t besides its state" in note and "the longest of 100 steps" in note  # the lake's time limit
    count = [0]

    def counted(reward: Any) -> Any:
        count[0] += 1
        return reward

    (note,) = from_gymnasium(TransformReward(lake(), counted)).notes
    assert "it keeps TransformReward.func.count[0] besides its state" in note


def test_what_keeps_nothing_is_accepted_without_a_word():
    assert from_gymnasium(Ring(counts=False)).notes == ()
    for env in (lake(), gymnasium.make("Taxi-v4"), gymnasium.make("CliffWalking-v1")):
        assert from_gymnasium(env).notes == ()


def test_a_walk_is_the_same_each_time_and_leaves_the_environment_as_it_was():
    env = TimeAwareObservation(lake())
    assert refusal(env) == refusal(TimeAwareObservation(lake()))
    assert not {"step", "reset"} & {*vars(env.unwrapped)}
    assert refusal(Ends(lake(), 30)) == refusal(Ends(lake(), 30))


class Hidden(HiddenState, Ring):
    """Its state is no attribute that could be set."""


def test_without_a_state_to_set_episodes_are_walked_as_far():
    assert "in step 700 from a reset" in refusal(Hidden(lambda t: t >= 700))
    (note,) = from_gymnasium(Hidden()).notes
    assert "its state cannot be set" in note and "the longest of 1000" in note
