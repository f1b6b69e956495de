"""Settings of sampling that are refused, by name."""

import math
from typing import Any

import numpy as np
import pytest
from kernel_cases import LAKE
from random_mdps import random_mdp
from twins import run

from mqlearn.algorithms import QLearning
from mqlearn.errors import SettingError
from mqlearn.problems.features import one_hot
from mqlearn.sampling.modes import IID, Markovian, Replay, Synchronous


@pytest.mark.parametrize(
    ("make", "setting"),
    [
        (lambda: Replay(capacity=50, draws=64), "draws"),
        (lambda: Replay(draws=0), "draws"),
        (lambda: Replay(capacity=0), "capacity"),
        (lambda: Replay(warm_up=-1), "warm_up"),
        (lambda: Markovian(behaviour="greedy"), "behaviour"),
        (lambda: Markovian(start="anywhere"), "start"),
        (lambda: Markovian(clock="wall"), "clock"),
        (lambda: Markovian(update="sometimes"), "update"),
        (lambda: Markovian(restart_probability=1), "restart_probability"),
        (lambda: Markovian(restart_probability=math.nan), "restart_probability"),
        (lambda: Markovian(time_limit=0), "time_limit"),
        (lambda: Markovian(epsilon=1.5), "epsilon"),
        (lambda: Markovian(epsilon=math.nan), "epsilon"),
        (lambda: Markovian(epsilon=(0.1, 0.5, 100)), "epsilon"),
        (lambda: Markovian(epsilon=(0.5, 0.1, 0)), "epsilon"),
        (lambda: Markovian(epsilon=(0.5, 0.1)), "epsilon"),  # pyright: ignore  # wrong on purpose
        (lambda: Markovian(epsilon=(1, 0, -1)), "epsilon"),
        (lambda: IID(behaviour="epsilon_greedy"), "behaviour"),
        (lambda: IID(behaviour="boltzmann"), "behaviour"),
    ],
)
def test_bad_settings_are_refused_by_name(make, setting):
    with pytest.raises(SettingError, match=rf"^sampling\.{setting}="):
        make()


def test_a_power_and_a_temperature_that_are_none_are_refused():
    lines: list[Any] = [(0.1, 1.0, 100), (1.0, 0.0, 100), (1.0, 0.1, 0), (1.0, 0.1)]
    for name, wrong in (("power", [0, -0.5, 1.1, math.nan, "half"]), ("temperature", [0, -1, math.inf, "hot", *lines])):
        for value in wrong:
            with pytest.raises(SettingError, match=rf"^sampling\.{name}="):
                Markovian(behaviour="boltzmann", **{name: value})


def test_what_has_no_effect_beside_a_behaviour_is_named():
    assert {*Markovian().without_effect()} == {"epsilon", "power", "temperature"}
    assert {*Markovian(behaviour="boltzmann").without_effect()} == {"epsilon", "power"}
    assert {*Markovian(behaviour="epsilon_greedy").without_effect()} == {"power", "temperature"}
    assert {*Markovian(behaviour="epsilon_greedy", epsilon="visits").without_effect()} == {"temperature"}


def test_policies_that_are_none_are_refused():
    for policy in (np.ones((16, 4)), np.full((16, 3), 1 / 3), np.full((16, 4), np.nan)):
        with pytest.raises(SettingError, match=r"^sampling\.behaviour="):
            run(LAKE, QLearning(), iterations=10, sampling=Markovian(behaviour=policy))


def test_an_inadmissible_action_is_refused():
    mdp = random_mdp(12, 8, 3, 4, 0.9, "mixed")
    assert not mdp.admissible[~mdp.terminal].all()
    with pytest.raises(SettingError, match=r"^sampling\.behaviour="):
        run(mdp, QLearning(), iterations=10, sampling=Markovian(behaviour=np.full((8, 3), 1 / 3)))


def test_synchronous_sampling_has_no_features():
    with pytest.raises(SettingError, match="sampling"):
        run(LAKE, QLearning(), iterations=10, sampling=Synchronous(), features=one_hot(LAKE))


def test_a_line_that_comes_as_an_array_is_that_of_the_list():
    lines: dict[str, Any] = {"epsilon": [0.5, 0.25, 10], "temperature": [1, 0.5, 100]}
    arrays: dict[str, Any] = {name: np.array(line) for name, line in lines.items()}
    assert Markovian(behaviour="epsilon_greedy", **arrays) == Markovian(behaviour="epsilon_greedy", **lines)
