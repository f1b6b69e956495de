"""What a newer version has written is refused in one line, and neither mistaken for damage nor written over."""

import json
from pathlib import Path

import mlflow
import pytest

from mqlearn.storage import checksums, formats, runs

SMALL = ("env=two_state", "iterations=20", "n_checkpoints=3", "n_seeds=2")
NEWER = formats.FORMAT + 1


def rewritten(path: Path, **changes) -> bytes:
    """The file with other entries, whole by its own checksum."""
    content = json.loads(path.read_text()) | changes
    if "checksum" in content:
        content["checksum"] = checksums.of_summary(content)
    path.write_text(json.dumps(content))
    return path.read_bytes()


@pytest.fixture
def finished(mqlearn, outputs) -> Path:
    assert mqlearn("run", "-m", "hydra/launcher=basic", "tracking=none", *SMALL, "seed=0").code == 0
    (folder,) = (outputs / "runs" / "default").iterdir()
    return folder


@pytest.mark.parametrize(
    "words", [("run", *SMALL), ("run", "-m", "hydra/launcher=basic", *SMALL, "seed=0,1"), ("compare",), ("status",)]
)
def test_a_run_of_a_newer_format_is_refused_and_stays(words, finished, mqlearn):
    kept = rewritten(finished / runs.SUMMARY, format=NEWER, versions={"mqlearn": "7.0.0"}, status="of its own")
    done = mqlearn(*words, "tracking=none")
    assert done.code == 2 and done.err.count("\n") == 1, done.err
    assert done.err.startswith("mqlearn: folder=") and f"was written by mqlearn 7.0.0 in format {NEWER}" in done.err
    assert (finished / runs.SUMMARY).read_bytes() == kept


def test_a_run_without_a_format_is_of_the_first(finished, mqlearn):
    content = json.loads((finished / runs.SUMMARY).read_text())
    assert content.pop("format") == formats.FORMAT
    (finished / runs.SUMMARY).write_text(json.dumps(content | {"checksum": checksums.of_summary(content)}))
    assert "1 done" in mqlearn("run", "-m", "hydra/launcher=basic", *SMALL, "tracking=none", "preview=true").out


def test_a_plan_of_a_newer_format_is_said_by_its_version(finished, mqlearn, outputs):
    (plan,) = (outputs / "sweeps").glob("*/plan.json")
    rewritten(plan, format=NEWER, versions={"mqlearn": "7.0.0"}, cells="of its own")
    done = mqlearn("status", "tracking=none")
    assert f"sweep='{plan.parent.name}': was written by mqlearn 7.0.0 in format {NEWER}" in done.err


def test_a_job_of_another_version_than_its_sweep_runs_nothing(mqlearn, outputs, monkeypatch):
    monkeypatch.setattr(formats, "installed", lambda: "7.0.0")  # as after an update while jobs wait in a queue
    done = mqlearn("run", "-m", "hydra/launcher=basic", *SMALL, "tracking=none", "seed=0,1")
    assert done.code == 2 and "and this is mqlearn 7.0.0: a sweep is of one version" in done.err
    assert done.err.count("\n") == 1, done.err
    assert not list((outputs / "runs").glob("*/[0-9a-f]*"))


def test_a_store_with_runs_of_a_newer_format_is_refused(mqlearn, stored, outputs):
    assert mqlearn("run", *SMALL).code == 0
    client = mlflow.MlflowClient(stored)
    experiment = client.get_experiment_by_name("default")
    assert experiment is not None and experiment.tags["format"] == str(formats.FORMAT)
    client.set_experiment_tag(experiment.experiment_id, "format", str(NEWER))
    for words in (("run",), ("run", "-m", "hydra/launcher=basic")):
        done = mqlearn(*words, *SMALL, "seed=5")
        assert done.code == 2 and done.err.startswith("mqlearn: tracking.uri='") and f"in format {NEWER}" in done.err
        assert done.err.count("\n") == 1, done.err
    assert len(list((outputs / "runs" / "default").iterdir())) == 1
