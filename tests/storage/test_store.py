"""Runs are found in a real MLflow store, by SQL and by its client alike, wherever their files are."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tracked import SETTINGS, Outcome, tamper, write

from mqlearn.errors import SettingError
from mqlearn.storage import addresses, connection, lookup, runs, sql, store, tracking


def test_a_large_map_is_an_artifact_and_comes_back_from_the_record_alone(uri, tmp_path):
    """ML-08: MLflow cuts a parameter at 6000 characters; a 128x128 map has 16384."""
    rows = ["".join(np.random.default_rng(i).choice(list("FH"), 128)) for i in range(128)]
    large = SETTINGS | {"env": {"name": "frozen_lake", "map": rows}}
    run = write(tmp_path / "run", settings=large)
    run_id = tracking.log(run, uri, "trial")
    shutil.rmtree(run.folder)
    client = connection.connect(uri)
    parameter = client.get_run(run_id).data.params["env.map"]
    assert len(parameter) == len("sha256:") + 64 and parameter.startswith("sha256:")
    text = Path(client.download_artifacts(run_id, "parameters/env.map.txt")).read_text()
    assert json.loads(text) == rows
    assert store.find(uri, run_id, tmp_path / "outputs").settings == large
    (found,) = lookup.finished(tmp_path / "outputs", "trial", store=uri).values()
    assert found.settings == large


def test_artifacts_follow_a_store_that_was_moved_with_its_outputs_folder(uri, tmp_path, capsys):
    first = tracking.record(write(tmp_path / "outputs" / "runs" / "trial" / "d1"), uri, "trial")
    (tmp_path / "outputs").rename(tmp_path / "moved")
    there = addresses.default_uri(tmp_path / "moved")
    (found,) = lookup.finished(tmp_path / "moved", "trial", store=there).values()
    assert found.folder == tmp_path / "moved" / "runs" / "trial" / "d1"
    shutil.rmtree(tmp_path / "moved" / "runs")
    (found,) = lookup.finished(tmp_path / "moved", "trial", store=there).values()
    assert found.folder.is_relative_to(tmp_path / "moved" / "mlartifacts" / "trial" / first)

    second = tracking.record(write(tmp_path / "another", "d2"), there, "trial")
    assert "the store was moved" in capsys.readouterr().err
    assert not (tmp_path / "outputs").exists()
    for run_id in (first, second):
        folder = connection.connect(there).download_artifacts(run_id, "")
        assert Path(folder) == tmp_path / "moved" / "mlartifacts" / "trial" / run_id / "artifacts"
    assert list(lookup.finished(tmp_path / "moved", "trial", store=there)) == ["d1", "d2"]


def test_runs_of_a_store_are_found_on_a_machine_that_made_none(uri, tmp_path):
    for i in range(2):
        tracking.record(write(tmp_path / f"{i}", f"d{i}"), uri, "trial")
    shutil.rmtree(tmp_path / "0")  # the folder of one is gone: its artifacts are there
    assert lookup.experiments(tmp_path / "here", uri) == {"trial": "trial"}
    held = [*lookup.everywhere(tmp_path / "here", None, uri)]
    assert sorted(one.run.digest for one in held if one.run) == ["d0", "d1"]
    assert sorted(lookup.with_digests(tmp_path / "here", ["d1", "d7"], uri)) == ["d1"]
    assert [*lookup.everywhere(tmp_path / "here", ["other"], uri)] == []


def test_sql_and_the_api_find_the_same_runs(uri, tmp_path):
    client = connection.connect(uri)
    ids = [tracking.log(write(tmp_path / f"{i}", f"d{i % 3}"), uri, "trial") for i in range(5)]
    tracking.log(write(tmp_path / "failed", "d7", result=None), uri, "trial")
    other = tracking.log(write(tmp_path / "other", "d8"), uri, "it's % another")
    experiment = tracking.prepare(uri, "trial")
    client.create_run(experiment, tags={"digest": "d9"})  # running
    foreign = client.create_run(experiment).info.run_id  # not ours: no digest
    client.set_terminated(foreign)
    bare = client.create_run(experiment, tags={"digest": "d6"}).info.run_id  # no folder
    client.set_terminated(bare)
    client.delete_run(ids[0])
    assert {found.run_id for found in store._by_api(uri, "trial", "FINISHED", "d1") or ()} == {ids[1], ids[4]}
    assert store.finished(uri, "trial", ["d2"]) == store._by_api(uri, "trial", "FINISHED", ["d2"])
    for name, expected in (
        ("trial", {*ids[1:], bare}),
        ("it's % another", {other}),
        ("absent", set()),
        ("first", set()),
    ):
        by_sql, by_api = store._by_sql(uri, name, "FINISHED"), store._by_api(uri, name, "FINISHED")
        assert by_sql is not None and sorted(by_sql) == sorted(by_api)
        assert {found.run_id for found in by_sql} == expected
    of_sql, of_api = sorted(store.recorded(uri, "trial")), sorted(store._recorded_by_api(uri, "trial"))
    assert of_sql == of_api and len(of_sql) == 7 and {run.outcome for run in of_sql} == {"finished", "failed"}
    planned = {run.digest: run for run in store.recorded(uri, "trial", ["d2"])}
    assert planned["d2"].folder == "" and planned["d1"].folder
    client.delete_experiment(experiment)
    assert store._by_sql(uri, "trial", "FINISHED") == store._by_api(uri, "trial", "FINISHED") == []


def test_the_installed_mlflow_has_a_schema_that_sql_knows(uri):
    """If this fails after an update of MLflow: compare by the test above, then add the revision."""
    assert store._by_sql(uri, "first", "FINISHED") == []


def test_an_unknown_schema_is_read_by_the_api(uri, tmp_path, monkeypatch):
    run_id = tracking.log(write(tmp_path / "run"), uri, "trial")
    monkeypatch.setattr(sql, "KNOWN_SCHEMAS", frozenset({"another"}))
    assert store._by_sql(uri, "trial", "FINISHED") is None
    assert store.experiment_id(uri, "trial") is None
    (run,) = lookup.finished(tmp_path / "outputs", "trial", store=uri).values()
    assert run.summary["mlflow_run_id"] == run_id
    assert tracking.prepare(uri, "trial") == connection.connect(uri).get_run(run_id).info.experiment_id


def test_select_takes_the_latest_of_a_digest_and_files_from_the_first_whole_place(uri, tmp_path):
    outputs = tmp_path / "outputs"
    old = write(tmp_path / "old", ended="2024-01-01T00:00:00.000+00:00")
    new = write(tmp_path / "new", ended="2025-01-01T00:00:00.000+00:00")
    new_id, old_id = tracking.log(new, uri, "trial"), tracking.log(old, uri, "trial")
    (run,) = lookup.finished(outputs, "trial", store=uri).values()
    assert (run.folder, run.summary["mlflow_run_id"]) == (new.folder, new_id)

    (new.folder / runs.TABLES).unlink()  # no longer whole: the artifacts beside the store are
    (run,) = lookup.finished(outputs, "trial", store=uri).values()
    assert run.folder.is_relative_to(outputs / "mlartifacts")
    np.testing.assert_array_equal(run.curves["q_error"], Outcome().curves["q_error"])
    assert run.summary["mlflow_run_id"] == new_id != old_id

    write(tmp_path / "new2", "d5")
    shutil.rmtree(new.folder)
    shutil.copytree(tmp_path / "new2", new.folder)  # another run in that place
    assert lookup.finished(outputs, "trial", store=uri)["d1"].folder == run.folder
    shutil.rmtree(run.folder)
    assert lookup.finished(outputs, "trial", store=uri) == {}  # to be run again
    with pytest.raises(SettingError, match="neither in its folder nor among its artifacts"):
        store.find(uri, new_id, outputs)


def test_artifacts_of_a_server_that_are_gone_make_the_run_missing(uri, tmp_path, monkeypatch, caplog):
    run = write(tmp_path / "run")
    tracking.log(run, uri, "trial")
    shutil.rmtree(run.folder)
    remote = store.finished(uri, "trial")[0]._replace(artifact_uri="s3://bucket/x", run_id="0" * 32)
    monkeypatch.setattr(store, "_by_sql", lambda *_: [remote])
    assert lookup.finished(tmp_path / "outputs", "trial", store=uri) == {}
    assert "downloading a run failed" in caplog.text
    assert list((tmp_path / "outputs" / "downloads").iterdir()) == []


def test_artifacts_that_the_ui_of_the_store_took_are_read_beside_it(uri, tmp_path, monkeypatch):
    run = write(tmp_path / "run")
    run_id = tracking.log(run, uri, "trial")
    shutil.rmtree(run.folder)
    place = f"trial/{run_id}/artifacts"
    tamper(uri, f"UPDATE runs SET artifact_uri = 'mlflow-artifacts:/{place}'")
    (found,) = lookup.finished(tmp_path / "outputs", "trial", store=uri).values()
    assert found.folder == tmp_path / "outputs" / "mlartifacts" / place


def test_artifacts_of_a_server_are_downloaded_once(uri, tmp_path, monkeypatch):
    run = write(tmp_path / "run")
    run_id = tracking.log(run, uri, "trial")
    shutil.rmtree(run.folder)
    # As a server gives them: an address that is no place on this disk.
    remote = store.finished(uri, "trial")[0]._replace(artifact_uri="s3://bucket/x")
    monkeypatch.setattr(store, "_by_sql", lambda *_: [remote])
    (found,) = lookup.finished(tmp_path / "outputs", "trial", store=uri).values()
    assert found.folder == tmp_path / "outputs" / "downloads" / run_id
    np.testing.assert_array_equal(found.curves["q_error"], Outcome().curves["q_error"])
    monkeypatch.setattr(store, "connect", None)  # not again
    (again,) = lookup.finished(tmp_path / "outputs", "trial", store=uri).values()
    assert again.folder == found.folder
    assert [p.name for p in found.folder.parent.iterdir()] == [run_id]


def test_finding_finished_runs_imports_no_mlflow(uri, tmp_path):
    for i in range(3):
        tracking.log(write(tmp_path / f"{i}", f"d{i}"), uri, "trial")
    code = (
        "import sys; from mqlearn.storage import lookup; "
        f"found = lookup.finished({str(tmp_path / 'outputs')!r}, 'trial', store={uri!r}); "
        "assert all(len(run.curves) == 3 for run in found.values()); "
        "print(len(found), sorted({'mlflow', 'sqlalchemy', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "3 []\n", done.stderr


def test_find_names_what_is_not_a_run(uri, tmp_path):
    client = connection.connect(uri)
    foreign = client.create_run(tracking.prepare(uri, "trial")).info.run_id
    for run_id, message in (
        ("0" * 32, "no such run"),
        ("../x y", "no such run"),
        (foreign, "not a run of mqlearn"),
    ):
        with pytest.raises(SettingError, match=message):
            store.find(uri, run_id, tmp_path / "outputs")
