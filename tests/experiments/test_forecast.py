"""Large problems from the command line: what is said before, what is refused, and a run from end to end."""

import json

import numpy as np
import pytest

import mqlearn as mq
from mqlearn.experiments import forecast
from mqlearn.problems import costs, elimination, sweeps
from mqlearn.problems.costs import Cost

WORDS = ("env=frozen_lake_blocks", "env.repeat=32")


def test_a_model_that_does_not_fit_is_refused_with_the_figure_before_it_is_solved(mqlearn, monkeypatch):
    memory = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 2**14}  # 64 MiB
    monkeypatch.setattr("os.sysconf", memory.__getitem__)
    for verb in (["truth"], ["run", "tracking=none"], ["run", "tracking=none", "preview=true"]):
        done = mqlearn(*verb, *WORDS, "n_seeds=1")
        assert done.code == 2 and "Traceback" not in done.err
        last = done.err.splitlines()[-1]
        assert last.startswith("mqlearn: env='FrozenLake 256x256") and "exact values of 65,536 states" in last
        assert "would take about" in last and "this machine has 0.0625 GiB" in last


def test_theory_names_time_and_memory_of_what_it_refuses(mqlearn):
    done = mqlearn("theory", "env=garnet", "env.n_states=2500")
    assert done.code == 2 and "at most 6000; it would take about" in done.err and "minutes and 2.9 GiB" in done.err


def test_ten_seconds_are_said_and_less_is_not(capsys):
    mdp = mq.two_state()
    forecast.tell(Cost(9.0, 1e6), mdp)
    assert capsys.readouterr().err == ""
    forecast.tell(Cost(90.0, 2.5e9), mdp, "covariances")
    said = "covariances of 2 states, 3 pairs: about 90 s on one core, and 2.5 GB of memory\n"
    assert capsys.readouterr().err == said


def test_costs_grow_with_the_states_and_policies():
    """In proportion, where sweeps solve; lakes of four times the tiles take LU eight times as long."""
    small, large = (costs.of_optimum(mq.garnet(n, n_successors=2)).seconds for n in (2_000, 8_000))
    assert large / small == pytest.approx(4)
    small, large = (mq.frozen_lake_blocks(n) for n in (8, 16))
    ratio = costs.of_policies(large, 10).seconds / costs.of_policies(small, 10).seconds
    assert ratio == pytest.approx(8, rel=0.1)


def test_what_a_goal_adds_is_foretold(monkeypatch):
    """On maps the policies whose states are eliminated for the best success probability, beside those of Q*; where
    sweeps find it, it goes from state to state."""
    lake = mq.frozen_lake_random(40)
    monkeypatch.setattr(sweeps, "fills_up", lambda _: True)
    monkeypatch.setattr(sweeps, "separator", lambda _: 40)
    outcomes, structure = lake.successors.size, lake.successors.size * costs._STRUCTURE
    policies = 20 * 7e-10 * elimination.products(lake)
    assert costs.of_optimum(lake).seconds == pytest.approx(structure + 2 * policies + 5e-6 * 1600)
    monkeypatch.setattr(sweeps, "foreseen", lambda _: 1.0)  # so that Q* is quicker by sweeps
    assert costs.of_optimum(lake).seconds == pytest.approx(structure + outcomes * 2e-9 + policies + 5e-6 * 1600)
    monkeypatch.setattr(costs, "narrow", lambda _: False)
    swept = outcomes * 2e-9 + 30 * 40 * lake.n_states * lake.n_successors * 2e-9
    assert costs.of_optimum(lake).seconds == pytest.approx(structure + swept)


@pytest.mark.integration
def test_a_garnet_of_100000_states_from_end_to_end(mqlearn, outputs):
    words = ("env=garnet", "env.n_states=100000", "iterations=2", "n_seeds=1", "n_checkpoints=2", "tracking=none")
    done = mqlearn("run", *words)
    assert done.code == 0, done.err
    (summary,) = outputs.rglob("summary.json")
    facts = json.loads(summary.read_text())
    curves = dict(np.load(summary.with_name("curves.npz")))
    assert facts["optimum"]["certified_error"] < 1e-13
    assert np.isfinite(curves["q_error"]).all() and np.isfinite(curves["policy_value"][:, -1]).all()
    assert 0 <= curves["value_gap"][0, -1] <= facts["optimum"]["start_value"] + 1e-13
