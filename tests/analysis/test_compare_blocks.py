"""What is compared with what: blocks of one problem, pairs on common random numbers, and how rules are labelled."""

from typing import Any

import numpy as np
import pytest
from compared import SMALL, of, of_settings, rewritten

from mqlearn.analysis.comparison.common_numbers import pairing
from mqlearn.analysis.comparison.labels import CurveName, entries, planned
from mqlearn.experiments.settings import compose, identity
from mqlearn.experiments.settings.cell import build, run_cells
from mqlearn.storage import runs


def test_labels_are_those_of_the_experiment_yaml(compare, mqlearn, tmp_path, monkeypatch):
    monkeypatch.setenv("MQLEARN_OUTPUTS", str(tmp_path / "own"))
    rules = ("algorithm=q_learning,momentum_q,speedy_q", "iterations=40", "n_seeds=6", *SMALL)
    assert mqlearn("run", "-m", "hydra/launcher=basic", "experiment.name=figure1", *rules).code == 0
    done = compare("experiment.name=figure1", "against=Q-learning", outputs=tmp_path / "own")
    assert done.code == 0, done.err
    assert [row["a"] for row in done.rows] == ["SpeedyQ", "MomentumQ m=2"]  # which m=null is
    assert {row["b"] for row in done.rows} == {"Q-learning"}


def test_panels_with_schedules_of_their_own_are_blocks(made):
    curves = planned("figure2_smoke")
    assert {curve.label for curve in curves.values()} >= {"MomentumQ", "Q-learning, matched step"}
    assert len({curve.panel for curve in curves.values()}) == 2  # constant and diminishing steps
    assert {curve.panel for curve in planned("figure1").values()} == {""}
    assert "MomentumQ m=2" in {curve.label for curve in planned("figure1").values()}
    assert planned("small") == {}
    pair = [of(made, "small", env="frozen_lake_4x4", algorithm=name) for name in ("nesa", "speedy_q")]
    own = {identity.rule_key(run.settings): CurveName("A", panel) for run, panel in zip(pair, "pq", strict=True)}
    assert [(entry.label, entry.block[-3:]) for entry in entries(pair, curves=own)] == [("A", ", p"), ("A", ", q")]


def test_a_pair_across_blocks_is_refused_unless_allowed_and_then_said(compare):
    asked = ("experiment.name=small", "algorithm=nesa")
    done = compare(*asked)
    assert (done.code, done.rows) == (2, None)
    assert "allow_mixed=true" in done.err and "frozen_lake_8x8" in done.err
    done = compare(*asked, "allow_mixed=true")
    (row,) = done.rows
    assert row["mixed"] and not row["paired"] and row["group"].startswith("mixed")
    assert "mixed, across blocks" in done.out
    done = compare("experiment.name=small,six", "env=frozen_lake_4x4", "against=speedy_q", "n_seeds=6")
    assert done.code == 0
    done = compare("experiment.name=small,greedy", "env=frozen_lake_4x4", "against=nesa")
    assert done.code == 2 and "not in every block" in done.err


def test_a_block_is_the_model_and_not_its_name(made, tmp_path):
    run = of(made, "small", env="frozen_lake_4x4", algorithm="nesa")
    env = run.settings["env"] | {"name": "my_lake"}
    same = rewritten(run, tmp_path / "same", env=env)
    other = rewritten(run, tmp_path / "other", env=env | {"success_rate": 0.5})
    blocks = {one.folder.name: identity.problem_key(one.settings) for one in (run, same, other)}
    assert blocks["same"] == blocks[run.folder.name] != blocks["other"]
    assert pairing(run, same)[0]
    changes: list[dict[str, Any]] = [{"discount": 0.8}, {"reward": "sampled"}, {"q0": 1}]
    changes.append({"sampling": {"name": "x", "_target_": "y"}})
    for number, change in enumerate(changes):
        assert identity.problem_key(rewritten(run, tmp_path / str(number), **change).settings) != blocks["same"]
    texts = {entry.block for entry in entries([run, other])}
    assert len(texts) == 2
    half = rewritten(run, tmp_path / "half", env=run.settings["env"] | {"success_rate": 0.5})
    assert any("success_rate=0.5" in entry.block for entry in entries([run, half]))


def test_pairs_are_recognised_from_the_records(compare, made, tmp_path):
    done = compare("experiment.name=greedy")
    assert done.rows[0]["paired"]
    assert "the uniform numbers are common, the trajectories are not" in done.out
    run, other = of(made, "three", algorithm="q_learning"), of(made, "small", env="frozen_lake_4x4", algorithm="nesa")
    paired, why = pairing(run, other)
    assert paired and "the 3 seeds that both have, of 3 and 12" in why
    paired, why = pairing(run, of(made, "apart", algorithm="nesa"))
    assert not paired and "seed=0 and seed=1" in why
    newer = runs.update_summary(rewritten(run, tmp_path / "newer"), numerics_version=99)
    assert pairing(run, newer) == (False, "not paired: other numerics versions")
    paired, why = pairing(run, of(made, "greedy", algorithm="q_learning"))
    assert not paired and "the sampling differs" in why


@pytest.mark.parametrize("episodes", ["0", "null"])
def test_replay_and_markovian_sampling_are_paired_where_the_chain_of_a_seed_is_the_same(episodes):
    """A record says so, and the trajectories are: every pair is visited equally often."""
    asked = ["iterations=300", "n_seeds=4", f"evaluation.episodes={episodes}"]
    cells = {
        name: build(compose.compose([f"sampling={name}", *words, *asked]))
        for name, words in (("markovian", ()), ("replay", ("sampling.capacity=50",)), ("iid", ()))
    }

    def paired(change_a, change_b):
        a, b = (
            of_settings({**cells[name].settings, "sampling": {**cells[name].settings["sampling"], **change}})
            for name, change in (("markovian", change_a), ("replay", change_b))
        )
        return pairing(a, b)

    assert paired({}, {}) == (
        True,
        "common random numbers (seed=0): the chain of a seed is the same in both; replay draws from it",
    )
    visits = {name: run_cells([cell])[0].visits for name, cell in cells.items()}
    np.testing.assert_array_equal(visits["markovian"], visits["replay"])
    for change in ({"warm_up": 10}, {"draws": 2}, {"start": "uniform"}, {"time_limit": 5}):
        assert not paired({}, change)[0]
    assert paired({"clock": "local"}, {"start": "start"})[0]
    assert not paired({"behaviour": "epsilon_greedy"}, {"behaviour": "epsilon_greedy"})[0]
    assert not pairing(*(of_settings(cells[name].settings) for name in ("markovian", "iid")))[0]


def test_labels_name_what_differs_and_no_more(made, tmp_path):
    run = of(made, "three", algorithm="q_learning")
    step = {"_target_": "mqlearn.Constant", "name": "constant", "alpha": 0.1}
    faster = rewritten(run, tmp_path / "faster", step_size=step)
    fastest = rewritten(run, tmp_path / "fastest", step_size=step | {"alpha": 0.5})
    again = rewritten(run, tmp_path / "again", seed=7)
    labels = {entry.run.digest: entry.label for entry in entries([run, faster, fastest])}
    assert labels == {
        run.digest: "q_learning, harmonic",
        "faster": "q_learning, constant, alpha=0.1",
        "fastest": "q_learning, constant, alpha=0.5",
    }
    assert {entry.label for entry in entries([run, again])} == {"q_learning, seed=0", "q_learning, seed=7"}
    assert entries([run])[0].label == "q_learning"
