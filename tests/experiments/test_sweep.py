"""A sweep's account of its cells: planned, skipped, counted, or refused before the first starts."""

import json
import shutil
from pathlib import Path

import pytest
from sweep_place import SMALL, wait_for

from mqlearn.errors import SettingError
from mqlearn.experiments.settings import compose
from mqlearn.experiments.settings.cell import build
from mqlearn.experiments.sweep import command, journal
from mqlearn.experiments.sweep.plan import plan
from mqlearn.storage import addresses, connection, lookup, runs


def test_a_preview_creates_nothing_and_counts(place):
    text = place.here("run", "-m", *SMALL, "algorithm=q_learning,speedy_q", "seed=range(4)", "preview=true")
    assert "8 cells, 0 done, 8 to run" in text and not place.outputs.exists()
    maps = "env.map=[SFF,FHF,FFG],[SFF,FFF,HFG]"  # of which no name tells
    text = place.here("run", "-m", *SMALL, "env=frozen_lake", maps, "preview=true")
    assert "(env.map=[SFF,FHF,FFG])" in text and "(env.map=[SFF,FFF,HFG])" in text


def test_finished_cells_are_skipped_and_only_they(place):
    place.here("run", "-m", *SMALL, "seed=0,1", "hydra/launcher=basic")
    before = {path: path.stat().st_mtime_ns for path in place.outputs.rglob("curves.npz")}
    text = place.here("run", "-m", *SMALL, "seed=0,1,2", "hydra/launcher=basic")
    assert "3 cells, 1 done, 2 skipped" in text
    after = {path: path.stat().st_mtime_ns for path in place.outputs.rglob("curves.npz")}
    assert len(after) == 3 and before.items() <= after.items()
    assert "3 cells, 0 done, 3 skipped" in place.here("run", "-m", *SMALL, "seed=0,1,2", "iterations=2e2")
    assert "3 cells, 3 done, 0 to run" in place.here("run", "-m", *SMALL, "seed=0,1,2", "preview=true")
    refused = place.here("run", "-m", *SMALL, "seed=0,1,5", "existing=error", code=2)
    assert "existing='error': 2 of 3 cells are finished already" in refused
    assert "2 cells, 2 done, 0 skipped" in place.here(
        "run", "-m", *SMALL, "seed=0,1", "existing=rerun", "hydra/launcher=basic"
    )
    assert "finished already" in place.here("run", *SMALL, "seed=1", "existing=skip")
    assert "existing='error'" in place.here("run", *SMALL, "seed=1", "existing=error", code=2)
    assert "(did you mean 'skip'?)" in place.here("run", *SMALL, "existing=skp", code=2)


def test_joblib_with_one_job_runs_the_cells_in_the_sweep_itself(place):
    text = place.run("run", "-m", *SMALL, "seed=0,1", "hydra/launcher=joblib", "hydra.launcher.n_jobs=1")
    assert "2 cells, 2 done" in text
    for path in place.outputs.glob("sweeps/*/cells/*.json"):
        path.unlink()
    shutil.rmtree(place.outputs / "runs")
    assert "missing: q_learning" in place.here("status") and "(seed=1)" in place.here("status")


@pytest.mark.integration
def test_cells_keep_the_settings_that_were_planned(place):
    yaml = place.folder / "conf" / "algorithm" / "trap.yaml"
    asked = ["algorithm.kind=wait", "n_seeds=2,3,4", "hydra/launcher=basic"]
    process = place.start("run", "-m", *place.traps(*asked))
    wait_for(lambda: list(place.outputs.rglob("plan.json")) and place.states)
    yaml.write_text(yaml.read_text().replace("i: 0", "i: 7"))
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, output + errors
    found = lookup.finished(place.outputs, "default", store=None).values()
    assert [run.settings["algorithm"]["i"] for run in found] == [0, 0, 0]


def test_a_cell_that_is_no_longer_the_planned_one_is_refused(tmp_path):
    cell = build(compose.compose(SMALL))
    changed = {"digest": 64 * "0", "cell": "", "group": "", "command": ""}
    with pytest.raises(SettingError, match="is not the planned digest: a configuration file, a map or a module"):
        journal._run(cell.settings, tmp_path / "run", changed, {"id": "1"})
    assert not (tmp_path / "run").exists()


def test_every_cell_is_validated_before_the_first_starts(place):
    text = place.here("run", "-m", *SMALL, "algorithm=momentum_q", "discount=0.5,0.9,1.5", code=2)
    assert "discount=1.5" in text and not place.outputs.exists()


@pytest.mark.parametrize("launcher", ["basic", "joblib"])
def test_a_setting_that_only_the_swept_choices_have_is_set_in_each_of_their_jobs(place, launcher):
    """The default choice, synchronous, has no such setting."""
    asked = ["sampling=markovian,replay", "sampling.behaviour=epsilon_greedy", f"hydra/launcher={launcher}"]
    sweep = place.here if launcher == "basic" else place.run
    assert "2 cells, 2 done" in sweep("run", "-m", *SMALL, *asked)
    found = lookup.finished(place.outputs, "default", store=None).values()
    assert {run.settings["sampling"]["name"]: run.settings["sampling"]["behaviour"] for run in found} == {
        "markovian": "epsilon_greedy",
        "replay": "epsilon_greedy",
    }
    yaml = place.folder / "conf" / "experiment" / "swept.yaml"
    yaml.parent.mkdir()
    yaml.write_text("# @package _global_\nhydra: {sweeper: {params: {discount: '0.5,0.9'}}}\n")
    text = place.here("run", "-m", "--config-dir", "conf", *SMALL, "experiment=swept", *asked, "preview=true")
    assert "4 cells" in text  # what a yaml sweeps over is swept over, too
    refused = place.here("run", "-m", *SMALL, "sampling=markovian,synchronous", "sampling.behaviour=uniform", code=2)
    assert "is no setting of sampling=synchronous" in refused


def test_repetitions_are_refused(place):
    assert "jobs 1 and 2 are the same cell" in place.here("run", "-m", *SMALL, "seed=1,1,2", code=2)
    assert "jobs 1 and 2 are the same cell" in place.here("run", "-m", *SMALL, "discount=0.5,5e-1", code=2)


def test_a_launcher_without_its_extra_names_the_extra(monkeypatch):
    monkeypatch.setattr(command, "_installed", lambda module: False)
    with pytest.raises(SettingError, match=r"needs the extra slurm: pip install '\.\[slurm\]' in the clone"):
        command.run([], ["hydra/launcher=submitit_slurm"], None, preview=False, existing="skip")


@pytest.mark.parametrize("multirun", [True, False])
@pytest.mark.parametrize("setting", ["hydra.output_subdir=X", "hydra/job_logging=default"])
def test_files_of_hydras_in_a_run_folder_are_refused_before_anything_starts(place, setting, multirun):
    text = place.here("run", *["-m"] * multirun, *SMALL, setting, code=2)
    assert f"{setting.partition('=')[0]}=" in text and "no place in a run folder" in text
    assert not place.outputs.exists()
    place.here("run", *["-m"] * multirun, *SMALL, "hydra/job_logging=stdout", *["hydra/launcher=basic"] * multirun)
    (folder,) = place.outputs.glob("runs/default/*")
    assert sorted(path.name for path in folder.iterdir()) == sorted(runs.FILES)


def test_a_choice_without_a_name_is_called_after_its_yaml(place, stored):
    (place.folder / "conf" / "algorithm" / "own.yaml").write_text("_target_: traps.Trap\n")
    own = ["--config-dir", "conf", "plugins=[traps]", "algorithm=own", *SMALL[1:]]
    shutil.copytree(Path(connection.sqlite_path(stored) or "").parent, place.outputs)
    place.here("run", *own)
    text = place.here("run", "-m", *own, "seed=0,1", "hydra/launcher=basic")
    assert "2 cells, 1 done, 1 skipped" in text
    found = lookup.finished(place.outputs, "default", store=addresses.default_uri(place.outputs)).values()
    assert {run.settings["algorithm"]["name"] for run in found} == {"own"}
    assert "0 not uploaded" in place.here("status")


def test_no_jobs_at_once_are_refused(place):
    text = place.here("run", "-m", *SMALL, "hydra.launcher.n_jobs=0", code=2)
    assert "hydra.launcher.n_jobs=0: must be" in text and not place.outputs.exists()


def test_an_experiment_with_curves_stands_for_its_cells():
    planned = plan(["experiment=figure1", "n_seeds=3", "seed=0,1"], [], None)
    assert len(planned) == 44 and len({one.digest for one in planned}) == 44
    first = planned[0]
    assert (first.label, first.panel, first.number) == ("Q-learning seed=0", "FrozenLake 4×4", 1)
    assert first.experiment == "figure1" and first.n_seeds == 3


def test_values_of_any_kind_pass_through_hydras_grammar():
    for text in ("plain", "a b", "it's", "back\\slash", "a,b=[c]{d}", "ü#$", "end\\", "\\'"):
        assert compose.compose([f"experiment.name={command._quoted(text)}"])["experiment"]["name"] == text


@pytest.mark.integration
def test_a_store_is_used_by_all_jobs_and_tags_are_set(place):
    text = place.run(
        "run", "-m", *SMALL[1:], "seed=range(4)", "algorithm=q_learning,speedy_q", "experiment.name='zwei Wörter'"
    )
    assert "audit: 8 of 8" in text
    from mqlearn.storage import addresses, sql, store

    uri = addresses.default_uri(place.outputs)
    assert len(store.finished(uri, "zwei Wörter")) == 8
    tagged = sql.query(uri, "SELECT key, COUNT(DISTINCT value) FROM tags WHERE key IN (?, ?, ?) GROUP BY key",
                          "sweep", "cell", "group")  # fmt: skip
    assert tagged == [("cell", 8), ("group", 1), ("sweep", 1)]
    assert "8 skipped" in place.run(
        "run", "-m", *SMALL[1:], "seed=range(4)", "algorithm=q_learning,speedy_q", "experiment.name='zwei Wörter'"
    )
    assert json.loads((next(journal.sweeps(place.outputs).glob("2*")) / "plan.json").read_text())["ended"]
