"""Runs that are missing of a plan: which share samples, and that neither this nor processes change a number."""

import functools
import os
from dataclasses import replace

import numpy as np
import pytest

from mqlearn.analysis.figures import error_curves
from mqlearn.errors import SettingError
from mqlearn.experiments import execute, progress, run_missing
from mqlearn.experiments.plan import PlannedCell, plan
from mqlearn.experiments.settings import compose
from mqlearn.experiments.settings.cell import build, run_cells
from mqlearn.learning.metric_kinds import kind_of
from mqlearn.storage import lookup, runs

SMALL = ("iterations=3000", "n_seeds=3", "n_checkpoints=5", "env.repeat=1", "tracking=none")


def test_the_rules_of_a_panel_share_samples():
    planned = plan("figure2_smoke", SMALL)
    groups = run_missing._groups(planned.cells, 4)
    assert sorted([one.panel for one in group] for group in groups) == sorted(
        [panel] * 4 for panel in planned.spec["grid"]
    )
    assert [one for group in run_missing._groups(planned.cells, 16) for one in group] == [
        one for kind in ("replay", "Markovian") for one in planned.cells if kind in one.panel
    ]


@functools.cache
def samples(*overrides: str) -> str | None:
    return build(compose.compose(["features=one_hot", "sampling=replay", *overrides])).samples_key


@pytest.mark.parametrize(
    "overrides",
    [
        "algorithm=momentum_q algorithm.beta=0.5",
        "step_size=constant step_size.alpha=0.3",
        "experiment.name=other",
        "tracking=none",
    ],
)
def test_what_differs_in_the_rule_alone_shares_samples(overrides):
    assert samples(*overrides.split()) == samples() is not None


@pytest.mark.parametrize(
    "overrides",
    [
        "seed=1",
        "n_seeds=4",
        "iterations=4000",
        "discount=0.8",
        "theta0=1",
        "env=frozen_lake_8x8",
        "sampling=iid",
        "sampling.time_limit=50",
        "features=aggregation features.tile=2",
        "features=tabular",
        "features=tabular sampling=iid",
        "features=tabular sampling=synchronous",
        "linear.previous_gradient=same_sample",
        "evaluation.episodes=3",
    ],
)
def test_what_differs_in_more_than_the_rule_shares_none(overrides):
    other = samples(*overrides.split())
    assert other is not None and other != samples()


@pytest.mark.parametrize(
    "overrides",
    [
        "sampling.behaviour=epsilon_greedy",
        "linear.projection=100",
        "features=tabular sampling=synchronous algorithm=double_q",
        "features=tabular sampling.update=rounds",
    ],
)
def test_rules_that_draw_samples_of_their_own_share_none(overrides):
    assert samples(*overrides.split()) is None


def test_cells_that_share_no_samples_are_not_run_together():
    one, other = (build(compose.compose(["features=one_hot", "sampling=replay", f"seed={i}"])) for i in (0, 1))
    with pytest.raises(ValueError, match="do not share samples"):
        run_cells([one, other])


@pytest.mark.parametrize("cores", [1, 2])
def test_a_rule_that_fails_costs_those_beside_it_nothing(tmp_path, monkeypatch, cores):
    (tmp_path / "failing.py").write_text(
        "import mqlearn as mq\n\n\nclass Failing(mq.QLearning):\n    def weights(self, start, stop):\n"
        "        if start > 1000:\n            raise RuntimeError('of its own')\n"
        "        return super().weights(start, stop)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("MQLEARN_OUTPUTS", str(tmp_path))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)), raising=False)
    monkeypatch.setattr(run_missing, "_WORTH_PROCESSES", 0.0)
    planned = plan("figure2_smoke", [*SMALL, "plugins=[failing]"])
    bad = build(planned.cells[0].cell.settings | {"algorithm": {"_target_": "failing.Failing", "name": "f"}})
    cells_of = (PlannedCell.of(bad, planned.cells[0].panel, "failing"), *planned.cells[1 : 2 * cores])
    assert len(run_missing._groups(cells_of, 2)) == cores
    with pytest.raises(SettingError, match=r"Failing.weights\(\) raised RuntimeError: of its own .*failing.py, line 7"):
        run_missing.finished(replace(planned, cells=cells_of))
    found = lookup.finished(tmp_path, planned.settings["experiment"]["name"], store=None)
    assert cells_of[1].cell.digest in found and bad.digest not in found


def test_runs_that_share_samples_in_processes_have_the_numbers_of_runs_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MQLEARN_OUTPUTS", str(tmp_path))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    monkeypatch.setattr(run_missing, "_WORTH_PROCESSES", 0.0)
    monkeypatch.setattr(progress, "_QUIET", 0.0)
    planned = plan("figure2_smoke", SMALL)
    some = replace(planned, cells=planned.cells[:3] + planned.cells[7:8])
    done = run_missing.finished(some)
    shown = capsys.readouterr().err
    assert "figure2_smoke: 0 of 4 runs are finished, 4 to run" in shown
    assert "figure2_smoke 4/4" in shown
    for one in some.cells:
        alone = execute.perform(one.cell, tmp_path / "alone" / one.cell.digest, execute.UNTRACKED, quiet=True)
        run = done[one.cell.digest]
        assert run.folder == tmp_path / "runs" / one.cell.subfolder
        assert run.settings | {"n_workers": None} == alone.settings | {"n_workers": None}
        assert run.curves.keys() == alone.curves.keys()
        for name, curve in alone.curves.items():
            np.testing.assert_array_equal(run.curves[name], curve, err_msg=name)


def test_tables_of_all_pairs_are_learned_by_threads_with_the_numbers_of_runs_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MQLEARN_OUTPUTS", str(tmp_path))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    monkeypatch.setattr(run_missing, "_WORTH_PROCESSES", 0.0)
    planned = plan("figure1", ["iterations=3000", "n_seeds=9", "tracking=none"])
    some = replace(planned, cells=planned.cells[8:14])
    assert all(map(run_missing._in_kernels, some.cells))
    with monkeypatch.context() as patch:
        patch.setattr(run_missing.processes, "SPAWN", None)  # no process is made
        done = run_missing.finished(some)
    assert "figure1 6/6" in capsys.readouterr().err
    for one in some.cells:
        alone = execute.perform(one.cell, tmp_path / "alone" / one.cell.digest, execute.UNTRACKED, quiet=True)
        for name, curve in alone.curves.items():
            np.testing.assert_array_equal(done[one.digest].curves[name], curve, err_msg=name)
    linear = plan("figure2_smoke", SMALL).cells[0]
    own = build(planned.cells[0].cell.settings | {"algorithm": {"_target_": "mqlearn.Zap", "name": "zap"}})
    assert not run_missing._in_kernels(linear) and not run_missing._in_kernels(PlannedCell.of(own, "", "zap"))


OWN_FIGURE = """# @package _global_
iterations: 20
n_seeds: 2
experiment: {name: own}
tracking: {name: none}
figure:
  module: mqlearn.analysis.figures.error_curves
  metric: q_error
  curves:
    A: [algorithm=q_learning]
    B: [algorithm=nesa]
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("q_error", "q_eror", "figure.metric='q_eror': is not recorded by own, A"),
        ("q_error", "theta_error", "figure.metric='theta_error': is not recorded"),
        ("  metric: q_error\n", "", "figure.metric=None: is not recorded"),
        ("error_curves", "eror_curves", "did you mean 'error_curves'?"),
        ("figures.error_curves", "figures.parts", "it has no function from_runs"),
        ("# @package _global_\n", "", "must begin with the line `# @package _global_`"),
    ],
)
def test_a_slip_in_an_own_experiment_yaml_is_told_before_anything_runs(mqlearn, outputs, tmp_path, old, new, said):
    (tmp_path / "conf" / "experiment").mkdir(parents=True)
    (tmp_path / "conf" / "experiment" / "own.yaml").write_text(OWN_FIGURE.replace(old, new))
    done = mqlearn("figure", "own", "--config-dir", tmp_path / "conf")
    assert done.code == 2 and said in done.err and len(done.err.splitlines()) == 1
    assert not outputs.exists()


@pytest.mark.parametrize("metric", ["q_error", "policy_value"])
def test_a_figure_of_another_metric_has_its_label(mqlearn, outputs, tmp_path, metric):
    (tmp_path / "conf" / "experiment").mkdir(parents=True)
    (tmp_path / "conf" / "experiment" / "own.yaml").write_text(OWN_FIGURE)
    override, folder = f"figure.metric={metric}", str(tmp_path / "conf")
    assert mqlearn("figure", "own", "--config-dir", folder, override).code == 0
    planned = plan("own", [override], folder)
    ended = [runs.load(outputs / "runs" / one.cell.subfolder) for one in planned.cells]
    drawn, _ = error_curves.from_runs(planned.cells, ended, planned.spec, "ci95")
    assert drawn.axes[0].get_ylabel() == kind_of(metric).axis
