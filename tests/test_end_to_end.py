"""Whole ways through the command line: run, track, read back, repeat, deliver, draw; also when something is missing."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from whole_ways import MODULE, SMALL, found

from mqlearn.analysis.figures import style
from mqlearn.experiments.settings import identity
from mqlearn.storage import connection, runs
from mqlearn.storage.summary import aggregate


def stored_runs(uri: str, experiment: str = "default") -> list:
    client = connection.connect(uri)
    node = client.get_experiment_by_name(experiment)
    return list(client.search_runs([node.experiment_id])) if node else []


# --- tracking -----------------------------------------------------------------------------------------------------


def test_a_tracked_run_reads_back_through_mlflow(mqlearn, outputs, work, stored):
    """From a directory with an old folder store, which stays untouched (ML-12)."""
    (work / "mlruns" / "0").mkdir(parents=True)
    (work / "mlruns" / "0" / "meta.yaml").write_text("name: Default\n")
    settings = ("algorithm=momentum_q", "algorithm.m=5", "env=frozen_lake_8x8", "discount=0.95")
    done = mqlearn("run", *SMALL, *settings, "experiment.name='zwei Wörter'", "tracking.per_seed=on")
    assert done.code == 0
    assert not done.err
    (run,) = found(outputs)
    (logged,) = stored_runs(stored, "zwei Wörter")
    assert logged.info.run_id == run.summary["mlflow_run_id"]
    assert logged.info.run_id in done.out
    assert logged.info.status == "FINISHED"
    assert logged.info.run_name == f"{run.name}, {run.digest[:8]}"
    assert [word for word in ("momentum_q m=5", "harmonic", "frozen_lake_8x8", "discount=0.95") if word in run.name]
    client = connection.connect(stored)
    for metric, keys in (("q_error", ("std", "low", "high")), ("policy_value", ())):
        columns, iteration = aggregate(run.curves[metric]), run.curves["iteration"].tolist()
        history = client.get_metric_history(logged.info.run_id, f"curves/{metric}")
        told = [iteration.index(point.step) for point in history]
        assert told[0] == 0 and told[-1] == len(iteration) - 1
        assert [point.value for point in history] == columns["mean"][told].tolist()
        for key in keys:  # at the last checkpoint
            (point,) = client.get_metric_history(logged.info.run_id, f"spread/{metric}_{key}")
            assert (point.step, point.value) == (iteration[-1], columns[key][-1])
        assert bool(keys) == (f"spread/{metric}_std" in logged.data.metrics)
        seed = client.get_metric_history(logged.info.run_id, f"seeds/{metric}_seed_1")
        assert [point.value for point in seed] == run.curves[metric][1].tolist()
    tags = {key: value for key, value in logged.data.tags.items() if not key.startswith("mlflow.")}
    assert tags.pop("git_commit", None) == run.summary["git_commit"]
    assert tags == {
        "algorithm": "momentum_q", "env": "frozen_lake_8x8", "sampling": "synchronous", "step_size": "harmonic",
        "digest": run.digest, "status": "finished", "folder": str(run.folder),
        "digest_version": str(identity.DIGEST_VERSION),
    }  # fmt: skip
    assert logged.data.params["algorithm.m"] == "5"
    assert logged.data.params["discount"] == "0.95"
    pictures = {"error_curve.png", "error_curve.svg"}
    assert {item.path for item in client.list_artifacts(logged.info.run_id)} == {*runs.FILES, *pictures}
    assert [path.name for path in work.rglob("*")] == ["mlruns", "0", "meta.yaml"]


def test_sweeps_from_three_directories_end_in_one_store(mqlearn, outputs, work, stored, monkeypatch):
    """Whatever the current directory is, and with Hydra changing it for every job (ML-13)."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///../../outputs/mlflow.db")  # relative to where the user is
    for number, name in enumerate(("a", "b", "c d")):
        (work / name).mkdir()
        monkeypatch.chdir(work / name)
        seeds = f"seed={2 * number},{2 * number + 1}"
        assert mqlearn("run", "-m", "hydra/launcher=basic", *SMALL, seeds, "hydra.job.chdir=true").code == 0
        assert Path.cwd() == work / name
    local = found(outputs)
    assert [run.settings["seed"] for run in local] == list(range(6))
    assert {run.info.run_id for run in stored_runs(stored)} == {run.summary["mlflow_run_id"] for run in local}
    assert not [path for path in work.rglob("*") if path.is_file()]


def test_a_store_that_fails_loses_the_copy_only(mqlearn, outputs, stored):
    done = mqlearn("run", *SMALL, "tracking.uri=sqlite:////dev/null/mlflow.db")
    assert done.code == 3  # whole, but not tracked
    (run,) = found(outputs)
    assert runs.is_complete(run.folder)
    assert run.summary["mlflow_run_id"] is None
    command = re.search(r"^  mqlearn (upload .*)$", done.err, re.M)
    assert command is not None
    assert command[1] == f"upload {run.folder} tracking.uri=sqlite:////dev/null/mlflow.db"
    assert mqlearn(*command[1].split()).code == 3  # still
    for _ in range(2):
        told = mqlearn("upload", run.folder)
        assert told.code == 0
        (logged,) = stored_runs(stored)
        assert logged.info.run_id in told.out
        assert logged.data.tags["digest"] == run.digest
    assert runs.load(run.folder).summary["mlflow_run_id"] == logged.info.run_id


def test_a_run_is_repeated_from_its_record_alone(mqlearn, outputs, work, stored):
    """With a map of 16384 tiles whose file is gone; by folder, and by id when the folder is gone too."""
    rows = ["S" + "F" * 127, *["F" * 64 + "H" + "F" * 63] * 126, "F" * 127 + "G"]
    Path("lake.txt").write_text("\n".join(rows))
    settings = ("env=frozen_lake", "env.map=lake.txt", "discount=0.999", "q0=[0,1]")
    assert mqlearn("run", *settings, "iterations=10", "n_seeds=2", "n_checkpoints=2").code == 0
    Path("lake.txt").unlink()
    (run,) = found(outputs)
    assert run.settings["env"]["map"] == rows
    done = mqlearn("rerun", run.folder)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("the same numbers, bit for bit: ")
    run_id = run.summary["mlflow_run_id"]
    shutil.rmtree(outputs / "runs")
    done = mqlearn("rerun", run_id, "n_workers=1")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("the same numbers, bit for bit: ")
    assert not (outputs / "runs").exists()  # nothing new is written or tracked
    assert len(stored_runs(stored)) == 1
    missing = mqlearn("rerun", "0" * 32)
    assert missing.code == 2
    assert "no such run" in missing.err


@pytest.mark.parametrize(("name", "code"), [("bellman_error", 1), ("expected_return", 1), ("q_error", 0)])
def test_rerun_asks_for_the_bits_of_what_came_through_no_library(mqlearn, outputs, name, code):
    mqlearn("run", *SMALL, "tracking=none")
    (run,) = found(outputs)
    arrays = dict(run.curves)
    arrays[name] = arrays[name].copy()
    arrays[name][1, -1] = np.nextafter(arrays[name][1, -1], np.inf)
    runs.save_arrays(run.folder / runs.CURVES, arrays)
    done = mqlearn("rerun", run.folder)
    assert done.code == code
    if code:
        assert done.out.startswith(f"different: curve {name} of ")
        assert f"first curve {name}, seed 1: " in done.out and f"(k = {run.curves['iteration'][-1]}, " in done.out
    else:  # Q*, from which the distance is, is solved for
        assert done.out.startswith("the same numbers, bit for bit but for q_error: ")
        assert "q_error agree to 1e-16: they come through linear solves" in done.out


@pytest.mark.parametrize(("factor", "code"), [(1 + 1e-12, 0), (1 + 1e-8, 1)])
def test_rerun_tells_values_that_are_solved_in_another_order_from_a_difference(mqlearn, outputs, factor, code):
    mqlearn("run", *SMALL, "tracking=none")
    (run,) = found(outputs)
    arrays = dict(run.curves)
    optimum = arrays["policy_value"] + arrays["value_gap"]
    arrays["policy_value"] = arrays["policy_value"] + (factor - 1) * optimum
    runs.save_arrays(run.folder / runs.CURVES, arrays)
    done = mqlearn("rerun", run.folder)
    assert done.code == code
    if code:
        assert done.out.startswith("different: curve policy_value of ")
    else:
        assert "bit for bit but for policy_value: " in done.out
        assert re.search("\npolicy_value agree to 1e-1[1-3]: they come through linear solves", done.out)


def test_a_divergent_rule_is_a_result(mqlearn, outputs, stored):
    Path("my_wild.py").write_text(MODULE)
    Path("mine/experiment").mkdir(parents=True)
    Path("mine/experiment/metric.yaml").write_text("# @package _global_\nmetrics:\n  '||Q||_inf': my_wild.largest\n")
    rule = ("algorithm._target_=my_wild.Wild", "algorithm.name=wild", "+algorithm.gain=3")
    done = mqlearn("run", "iterations=600", "n_seeds=2", "n_checkpoints=20", "--config-dir=mine", "plugins=[my_wild]",
                   "experiment=metric", *rule, "step_size=constant", "step_size.alpha=1")  # fmt: skip
    assert done.code == 0
    (run,) = found(outputs)
    assert run.status == "diverged"
    assert "diverged" in done.out
    assert run.diverged.keys() == {0, 1}
    for seed, step in run.diverged.items():
        assert f"seed {seed} diverged at step {step}" in done.out
        after = run.curves["iteration"] >= step
        assert np.isnan(run.curves["q_error"][seed, after]).all()
        assert np.isfinite(run.curves["q_error"][seed, ~after]).all()
    assert np.isfinite(run.tables["q"]).all()
    (logged,) = stored_runs(stored)
    assert logged.info.status == "FINISHED"
    assert logged.data.tags["status"] == "diverged"
    assert f"seed 0 at iteration {run.diverged[0]}" in logged.data.tags["diverged"]
    assert all(np.isfinite(value) for value in logged.data.metrics.values())
    assert "last/q_error" not in logged.data.metrics
    assert json.loads(logged.data.tags["renamed_metrics"]) == {"Q_inf": "||Q||_inf"}  # ML-06


# --- figures ------------------------------------------------------------------------------------------------------


def test_figure_1_twice_gives_the_same_bytes(mqlearn, process, outputs):
    """In two processes, one of them with a dead display (PL-01, PL-03); the second one runs nothing."""
    small = ("figure", "figure1", "iterations=200", "n_seeds=3", "n_checkpoints=10", "tracking=none")
    first = process(*small, env={"MPLBACKEND": "TkAgg", "DISPLAY": "127.0.0.1:99"})
    out, err = first.communicate(timeout=300)
    assert first.returncode == 0, err
    assert "0 of 22 runs are finished, 22 to run" in err
    assert "NeSA zeta=0.1: done" in err and "$" not in err
    stem = outputs / "figures" / "figure1_iterations=200_n_seeds=3_n_checkpoints=10"
    files = [stem.with_name(f"{stem.name}.{suffix}") for suffix in ("png", "pdf", "svg", "json")]
    assert out.split() == [str(file) for file in files]
    before = [file.read_bytes() for file in files]
    written = {path: path.stat().st_mtime_ns for path in outputs.glob("runs/figure1/*/summary.json")}
    assert len(written) == 22
    done = mqlearn(*small)
    assert (done.code, done.err) == (0, "")
    assert [file.read_bytes() for file in files] == before
    assert {path: path.stat().st_mtime_ns for path in written} == written
    sidecar = json.loads(files[-1].read_text())
    digests = {runs.load(path.parent).digest for path in written}
    assert {row["digest"] for row in sidecar["runs"]} == digests
    embedded = style.read_provenance(files[0])
    assert set(embedded["digests"].values()) == digests
    assert sorted(path for path in outputs.glob("figures/*")) == sorted(files)


EXPERIMENT = """# @package _global_
iterations: 60
n_seeds: 3
n_checkpoints: 6
experiment:
  name: two curves
figure:
  module: mqlearn.analysis.figures.error_curves
  metric: q_error
  grid:
    4x4: [env=frozen_lake_4x4]
  curves:
    Q-learning: [algorithm=q_learning]
    MomentumQ: [algorithm=momentum_q]
"""


def test_an_experiment_of_the_user(mqlearn, outputs, work, stored, monkeypatch):
    (work / "mine" / "experiment").mkdir(parents=True)
    (work / "mine" / "experiment" / "two_curves.yaml").write_text(EXPERIMENT)
    draw = ("figure", "two_curves", "--config-dir", "mine")
    assert mqlearn(*draw).code == 0
    assert len(stored_runs(stored, "two curves")) == 2
    plain = outputs / "figures" / "two_curves.png"
    before = plain.read_bytes()
    for path in found(outputs):
        shutil.rmtree(path.folder)  # the store has their files too
    done = mqlearn(*draw, "band=std")
    assert (done.code, done.err) == (0, "")
    assert plain.read_bytes() == before
    assert (outputs / "figures" / "two_curves_band=std.png").is_file()
    assert mqlearn(*draw, "discount=0.5").code == 0
    assert (outputs / "figures" / "two_curves_discount=0.5.svg").is_file()
    assert len(stored_runs(stored, "two curves")) == 4
    refused = mqlearn(*draw, "existing=error")
    assert refused.code == 2 and "existing='error': 2 of 2 cells are finished already" in refused.err
    assert mqlearn(*draw, "existing=rerun").code == 0
    assert plain.read_bytes() == before and len(stored_runs(stored, "two curves")) == 6

    from mqlearn.analysis.figures import make, reference

    paper = work / "paper"
    paper.mkdir()
    monkeypatch.setattr(make, "REFERENCE", paper)
    monkeypatch.setattr(style, "save", lambda *_: [])  # which takes most of the time
    data = {}
    keep = reference.against_reference
    monkeypatch.setattr(
        reference, "against_reference", lambda current, file: data.update(current) or keep(current, file)
    )
    assert mqlearn(*draw, "--check").code == 2  # nothing to compare with
    runs.save_arrays(paper / "two_curves.npz", {})
    assert mqlearn(*draw, "--check").code == 1  # with nothing in it
    for factor, verdict, code in ((1.0, "same", 0), (1 + 1e-9, "compatible", 0), (1.1, "different", 1)):
        changed = {key: value * factor if value.dtype == float else value for key, value in data.items()}
        runs.save_arrays(paper / "two_curves.npz", changed)
        done = mqlearn(*draw, "--check")
        assert (done.code, verdict in done.out) == (code, True), done.out
