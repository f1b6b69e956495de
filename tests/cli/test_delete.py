"""`mqlearn delete`, and what is said of runs that were deleted in MLflow itself."""

import json
import sys
from pathlib import Path

import pytest

from mqlearn.experiments import execute
from mqlearn.storage import connection, deletion, locks, runs

TWO = ("algorithm=q_learning,speedy_q", "iterations=20", "n_seeds=2", "n_checkpoints=3", "evaluation.episodes=0")


@pytest.fixture
def swept(stored: str, outputs: Path, mqlearn) -> dict[str, Path]:
    """Folders of two finished runs of the experiment `default`, by algorithm."""
    done = mqlearn("run", "-m", *TWO, "hydra/launcher=basic")
    assert done.code == 0, done.err
    folders = [*(outputs / "runs" / "default").iterdir()]
    named = {
        json.loads((folder / "summary.json").read_text())["name"].split(",")[0].split()[0]: folder for folder in folders
    }
    assert sorted(named) == ["q_learning", "speedy_q"]
    return named


def test_nothing_is_deleted_without_a_word_and_then_folder_and_record_go_together(swept, stored, mqlearn):
    looked = mqlearn("delete", "algorithm=speedy_q")
    assert looked.code == 0 and "Nothing was deleted" in looked.out and str(swept["speedy_q"]) in looked.out
    assert swept["speedy_q"].exists() and str(swept["q_learning"]) not in looked.out
    digest = json.loads((swept["speedy_q"] / "summary.json").read_text())["digest"]
    (run_id,) = deletion.records(stored, [digest])["default", digest]
    assert run_id in looked.out
    done = mqlearn("delete", "algorithm=speedy_q", "yes=true")
    assert done.code == 0 and "deleted: 1 of 1 runs" in done.out
    assert not swept["speedy_q"].exists() and swept["q_learning"].exists()
    assert connection.connect(stored).get_run(run_id).info.lifecycle_stage == "deleted"
    assert deletion.deleted(stored) == {digest} and deletion.is_deleted(stored, run_id, digest)
    assert not deletion.is_deleted(stored, run_id, "of another store")
    told = mqlearn("status").out
    assert "1 done" in told and "1 missing" in told and "1 finished run deleted in MLflow" in told
    again = mqlearn("run", "-m", *TWO, "hydra/launcher=basic")  # asked for anew, so made anew
    assert again.code == 0 and "1 done, 1 skipped" in again.out
    assert not deletion.deleted(stored)


def test_a_person_is_asked(swept, mqlearn, monkeypatch):
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    for word, left in (("y", True), ("", True), ("yes", False)):
        monkeypatch.setattr("builtins.input", lambda question, word=word: word)
        mqlearn("delete", "algorithm=speedy_q")
        assert swept["speedy_q"].exists() == left


def test_what_mlflow_deleted_is_said_and_not_put_back_without_a_word(swept, stored, mqlearn):
    digest = json.loads((swept["speedy_q"] / "summary.json").read_text())["digest"]
    connection.connect(stored).delete_run(deletion.records(stored, [digest])["default", digest][0])
    compared = mqlearn("compare", "experiment.name=default").out
    assert "1 run was deleted in MLflow" in compared and str(swept["speedy_q"]) in compared
    assert "1 finished run deleted in MLflow" in mqlearn("status").out
    way_back = "1 run was deleted in MLflow; its files are still here, so that it counts"
    for _ in range(2):  # a person has deleted it: that is no failure of the sweep, however often it is asked for
        again = mqlearn("run", "-m", *TWO, "hydra/launcher=basic")
        assert (again.code, again.out.count(way_back)) == (0, 1) and "mqlearn upload FOLDER" in again.out
        assert "NOT UPLOADED" not in again.out and "2 skipped" in again.out
        assert "audit: 1 of 2 cells have one finished run in their experiment, 1 deleted there" in again.out
    assert not deletion.records(stored, [digest])
    single = mqlearn("run", "existing=skip", TWO[0].replace("q_learning,", ""), *TWO[1:])
    assert single.code == 0 and f"note: {way_back}" in single.err
    assert "MLflow run" not in single.out  # no page of it is to be seen
    assert not deletion.records(stored, [digest])
    assert mqlearn("upload", swept["speedy_q"]).code == 0  # asked for by name
    assert len(deletion.records(stored, [digest])["default", digest]) == 1
    assert "deleted in MLflow" not in mqlearn("compare", "experiment.name=default").out


def test_figures_and_reports_of_what_goes_are_named(swept, outputs, mqlearn):
    mqlearn("report", "experiment.name=default")
    told = mqlearn("delete", "experiment.name=default").out
    assert "2 runs" in told and str(outputs / "reports" / "default.html") in told


def test_a_run_that_a_process_is_at_is_left_and_files_of_others_stay(swept, outputs, mqlearn):
    digest = json.loads((swept["speedy_q"] / "summary.json").read_text())["digest"]
    with locks.claimed(locks.folder(outputs), *execute.claim("default", digest)):
        done = mqlearn("delete", "algorithm=speedy_q", "yes=true")
    assert done.code == 1 and "is being run just now" in done.err and swept["speedy_q"].exists()
    (swept["speedy_q"] / "notes.txt").write_text("mine")
    mqlearn("delete", "algorithm=speedy_q", "yes=true")
    assert [path.name for path in swept["speedy_q"].iterdir()] == ["notes.txt"]


def test_a_cell_of_two_experiments_goes_from_those_that_are_meant(swept, stored, outputs, mqlearn):
    one = (TWO[0].replace("q_learning,", ""), *TWO[1:], "experiment.name=other")
    assert mqlearn("run", *one).code == 0
    (there,) = (outputs / "runs" / "other").iterdir()
    digest = json.loads((there / "summary.json").read_text())["digest"]
    assert {*deletion.records(stored, [digest])} == {("default", digest), ("other", digest)}
    done = mqlearn("delete", "experiment.name=other", "yes=true")
    assert "other: speedy_q" in done.out and "deleted: 1 of 1 runs" in done.out
    assert not there.exists() and swept["speedy_q"].exists()
    assert {*deletion.records(stored, [digest])} == {("default", digest)}
    assert mqlearn("run", *one).code == 0
    assert "deleted: 2 of 2 runs" in mqlearn("delete", "algorithm=speedy_q", "yes=true").out
    assert not there.exists() and not swept["speedy_q"].exists() and not deletion.records(stored, [digest])


def test_a_link_is_refused_before_anything_is_deleted(swept, stored, tmp_path, mqlearn):
    elsewhere = swept["speedy_q"].rename(tmp_path / "elsewhere")
    swept["speedy_q"].symlink_to(elsewhere)
    done = mqlearn("delete", "experiment.name=default", "yes=true")
    assert done.code == 2 and "is a link" in done.err
    assert elsewhere.exists() and swept["q_learning"].exists() and not deletion.deleted(stored)


def test_files_of_others_outlive_a_process_that_dies_while_it_renames(swept):
    """What a killed process left beside a user's own folder is cleared without what is no run's."""
    folder = swept["speedy_q"]
    (folder / "notes.txt").write_text("mine")
    folder.rename(left := folder.with_name(f".{folder.name}.{2**22 + 1}-0123abcd.old"))
    runs.clear(folder)
    assert [path.name for path in folder.iterdir()] == ["notes.txt"] and not left.exists()


def test_what_names_no_run_deletes_none(swept, mqlearn):
    for words, said in (
        ((), "must say which runs"),
        (("algorithm=nesa",), "no run matches"),
        (("colour=red",), "is no setting of these runs"),
        (("experiment.name=other",), "has no runs"),
        (("experiment.name=default", "yes=perhaps"), "yes='perhaps'"),
    ):
        done = mqlearn("delete", *words)
        assert done.code == 2 and said in done.err
    assert all(folder.exists() for folder in swept.values())


def test_status_counts_what_was_deleted_without_a_plan_too(outputs, stored, mqlearn):
    for rule in ("q_learning", "speedy_q"):
        assert mqlearn("run", f"algorithm={rule}", *TWO[1:]).code == 0
    records = deletion.records(
        stored, [json.loads(path.read_text())["digest"] for path in outputs.glob("runs/*/*/summary.json")]
    )
    for number, (run_id,) in enumerate(records.values(), 1):
        connection.connect(stored).delete_run(run_id)
        for named in ((), ("experiment.name=default",)):
            told = mqlearn("status", *named).out
            assert (
                f"{2 - number} done" in told and f"{number} finished run{'s' * (number > 1)} deleted in MLflow" in told
            )
