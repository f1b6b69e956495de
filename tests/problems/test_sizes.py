"""Models and features that would not fit into memory are refused before anything is allocated."""

import os

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Discrete, MultiDiscrete

import mqlearn as mq
from mqlearn.checks import fits_memory
from mqlearn.errors import SettingError

BILLION = 10**9


@pytest.mark.parametrize(
    ("name", "sizes", "setting"),
    [
        ("garnet", {"n_states": 10**9}, "env.n_states"),
        ("garnet", {"n_states": 10**7, "n_successors": 1, "n_actions": 10**6}, "env.n_states"),
        ("garnet_fixed", {"n_states": 10**9}, "env.n_states"),
        ("forest", {"n": 10**12}, "env.n"),
        ("river_swim", {"n": 10**12}, "env.n"),
        ("chain_walk", {"n": 10**12}, "env.n"),
        ("azar_linear", {"n": 10**7}, "env.n"),
        ("combination_lock", {"n": 10**7}, "env.n"),
        ("deep_sea", {"n": 10**7}, "env.n"),
        ("queue", {"n": 10**12}, "env.n"),
        ("machine", {"n": 10**12}, "env.n"),
        ("gambler", {"n": 10**7}, "env.n"),
    ],
)
def test_every_problem_with_a_size_refuses_one_that_does_not_fit(name, sizes, setting):
    with pytest.raises(SettingError) as refused:
        getattr(mq, name)(**sizes)
    assert refused.value.setting == setting
    assert "must be at most" in str(refused.value) and "GiB, this machine has" in str(refused.value)


def test_the_message_names_the_need_and_the_largest_size_that_fits(monkeypatch):
    memory = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 2**21}  # 8 GiB
    monkeypatch.setattr(os, "sysconf", memory.__getitem__)
    with pytest.raises(SettingError, match=r"=100000000: must be at most 9544371 here: .* 83.8 GiB, .* has 8 GiB"):
        mq.garnet(10**8)
    assert fits_memory("env.n", 32_768, lambda n: 8 * n * n, "it") is None
    with pytest.raises(SettingError, match="at most 32768 here: it would take 8 GiB"):
        fits_memory("env.n", 32_769, lambda n: 8 * n * n, "it")


def test_a_first_state_needs_no_table_of_states():
    """A chain of 60,000 states, whose start as a row of the unit matrix would have taken 27 GiB for a moment."""
    chain = mq.machine(60_000)
    assert chain.start[0] == 1 and np.count_nonzero(chain.start) == 1


def test_features_refuse_more_columns_than_fit():
    lake = mq.frozen_lake("8x8")
    with pytest.raises(SettingError, match=r"features\.centres=10000000000: would give"):
        mq.rbf(lake, centres=10 * BILLION)
    with pytest.raises(SettingError, match=r"features=\d+: must be at most \d+ here: the products"):
        mq.from_matrix(lake, np.ones((64, 4, 40_000)), norm="none").warnings()


def test_an_estimate_of_too_many_observations_is_refused():
    class Many(gymnasium.Env):
        observation_space, action_space = MultiDiscrete([BILLION, BILLION]), Discrete(2)

    with pytest.raises(SettingError, match="observations=1000000000000000000: must be at most"):
        mq.from_gymnasium(Many(), estimate=10)


def test_the_command_line_refuses_in_one_line(mqlearn):
    for words in (["run", "preview=true", "tracking=none"], ["truth"], ["theory"]):
        done = mqlearn(*words, "env=garnet", "env.n_states=1000000000")
        assert done.code == 2 and done.err.count("\n") == 1 and "env.n_states=1000000000: must be at most" in done.err
