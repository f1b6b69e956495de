"""Against a real MLflow store: what is logged reads back through MLflow's client; no run is lost or left."""

import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqlearn.errors import SettingError
from mqlearn.storage import content, lookup, runs, store, tracking, ui
from mqlearn.storage.summary import aggregate

SETTINGS = {
    "env": {"name": "frozen_lake", "map": ["SF", "FG"], "slippery": True},
    "algorithm": {"name": "momentum_q", "m": 2.0},
    "step_size": {"name": "harmonic", "offset": 0},
    "sampling": {"name": "synchronous"},
    "discount": 0.9,
    "q0": None,
    "iterations": 100,
    "tracking": {"name": "mlflow", "uri": "postgresql://me:secret@host/db", "per_seed": False},
    "experiment": {"name": "trial"},
}


@dataclass(frozen=True)
class Outcome:
    """The attributes of a result that a run folder takes."""

    iteration: object = field(default_factory=lambda: np.array([1, 10, 100]))
    curves: dict = field(
        default_factory=lambda: {
            "q_error": np.array([[1.0, 0.5, 0.25], [2.0, 1.5, 0.75], [3.0, 1.0, 0.5]]),
            "value_gap": np.array([[0.3, 0.2, 0.0], [0.1, 0.1, 0.0], [0.2, 0.0, 0.0]]),
        }
    )
    q: object = field(default_factory=lambda: np.zeros((3, 4, 2)))
    error_iteration: object = field(default_factory=lambda: np.array([1, 100]))
    error_tables: object = field(default_factory=lambda: np.ones((2, 4, 2)))
    diverged: dict = field(default_factory=dict)
    seconds: float = 1.5


def write(folder: Path, digest="d1", result: Outcome | None = Outcome(), settings=SETTINGS, **extra):
    return runs.write(folder, settings=settings, digest=digest, name="MomentumQ m=2", result=result, extra=extra)


@pytest.fixture
def uri(migrated: Path, tmp_path: Path, monkeypatch) -> Iterator[str]:
    """A fresh store in an outputs folder, seen from a directory with an old folder store (ML-12, ML-13)."""
    (tmp_path / "outputs").mkdir()
    shutil.copy(migrated, tmp_path / "outputs" / "mlflow.db")
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "mlruns" / "0").mkdir(parents=True)
    (elsewhere / "mlruns" / "0" / "meta.yaml").write_text("name: Default\n")
    monkeypatch.chdir(elsewhere)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", str(elsewhere / "mlruns"))
    yield tracking.default_uri(tmp_path / "outputs")
    assert sorted(p.name for p in elsewhere.rglob("*")) == ["0", "meta.yaml", "mlruns"]  # nothing leaked


NAMES = {
    "curves/q_error": "mean", "spread/q_error_std": "std", "spread/q_error_low": "low", "spread/q_error_high": "high",
}  # fmt: skip


def history(uri: str, run_id: str, metric: str) -> list[tuple[int, float]]:
    return [(m.step, m.value) for m in store.connect(uri).get_metric_history(run_id, metric)]


def tamper(uri: str, statement: str) -> None:
    database = store.sqlite_path(uri)
    assert database is not None
    connection = sqlite3.connect(database)
    connection.execute(statement)
    connection.commit()
    connection.close()


def test_a_run_reads_back_through_mlflow(uri, tmp_path):
    run = write(tmp_path / "run", git_commit="abc123")
    run_id = tracking.log(run, uri, "trial", tags={"sweep": "s1", "cell": 3, "group": None})
    client = store.connect(uri)
    logged = client.get_run(run_id)
    assert logged.info.status == "FINISHED"
    assert logged.info.run_name == "MomentumQ m=2"
    assert (logged.info.end_time or 0) - logged.info.start_time == 1500
    assert client.get_experiment(logged.info.experiment_id).name == "trial"

    values = Outcome().curves["q_error"]
    columns = aggregate(values)
    for name, key in NAMES.items():
        expected = list(zip([1, 10, 100], columns[key].tolist(), strict=True))
        assert history(uri, run_id, name) == expected
    assert history(uri, run_id, "last/q_error") == [(100, 0.5)]
    assert len(logged.data.metrics) == 2 * 5

    tags = {key: value for key, value in logged.data.tags.items() if not key.startswith("mlflow.")}
    assert tags == {
        "algorithm": "momentum_q", "env": "frozen_lake", "sampling": "synchronous", "step_size": "harmonic",
        "digest": "d1", "status": "finished", "git_commit": "abc123", "folder": str(run.folder),
        "sweep": "s1", "cell": "3",
    }  # fmt: skip
    assert logged.data.params == {
        "env.name": "frozen_lake", "env.map": '["SF", "FG"]', "env.slippery": "true", "discount": "0.9",
        "algorithm.name": "momentum_q", "algorithm.m": "2.0", "q0": "null", "iterations": "100",
        "step_size.name": "harmonic", "step_size.offset": "0", "sampling.name": "synchronous",
        "experiment.name": "trial",
    }  # fmt: skip

    assert sorted(item.path for item in client.list_artifacts(run_id)) == sorted(runs.FILES)
    artifacts = tmp_path / "outputs" / "mlartifacts" / "trial" / run_id / "artifacts"
    assert runs.load(artifacts).summary["mlflow_run_id"] == run_id  # filled before it was copied
    assert runs.load(run.folder).summary["mlflow_run_id"] == run_id
    assert (artifacts / runs.CURVES).read_bytes() == (run.folder / runs.CURVES).read_bytes()
    assert logged.info.artifact_uri == artifacts.as_uri()


def test_per_seed_values_on_request(uri, tmp_path):
    run_id = tracking.log(write(tmp_path / "run"), uri, "trial", per_seed=True)
    assert history(uri, run_id, "seeds/q_error_seed_1") == [(1, 2.0), (10, 1.5), (100, 0.75)]


def test_numpy_numbers_become_plain_ones(uri, tmp_path):
    """A numpy step would be stored as bytes and spoil the metric (ML-10)."""
    curves = {"q_error": np.array([[1, 2], [3, 4]], dtype=np.float32)}
    outcome = replace(Outcome(), iteration=[np.int32(5), np.uint64(2**40)], curves=curves)
    run_id = tracking.log(write(tmp_path / "run", result=outcome), uri, "trial")
    assert history(uri, run_id, "curves/q_error") == [(5, 2.0), (2**40, 3.0)]
    database = sqlite3.connect(str(store.sqlite_path(uri)))
    kinds = database.execute("SELECT DISTINCT typeof(step), typeof(value), typeof(timestamp) FROM metrics").fetchall()
    database.close()
    assert kinds == [("integer", "real", "integer")]


def test_more_values_than_a_batch_holds_all_arrive(uri, tmp_path):
    iteration = np.arange(700)
    outcome = replace(Outcome(), iteration=iteration, curves={"q_error": np.random.default_rng(0).random((4, 700))})
    run = write(tmp_path / "run", result=outcome)
    run_id = tracking.log(run, uri, "trial")
    for name, key in (("curves/q_error", "mean"), ("spread/q_error_high", "high")):
        logged = history(uri, run_id, name)
        assert [step for step, _ in logged] == iteration.tolist()
        np.testing.assert_array_equal([v for _, v in logged], aggregate(run.curves["q_error"])[key])


def test_what_is_not_finite_is_never_a_number_and_a_diverged_run_never_the_best(uri, tmp_path):
    """ML-04: infinity would come back as 1.797e308, NaN as 0."""
    fine = tracking.log(write(tmp_path / "fine"), uri, "trial")
    curves = {"q_error": np.array([[1.0, np.inf, np.nan], [1e-9, 1e-9, 1e-9], [1.0, 1e-9, 1e-9]])}
    some = replace(Outcome(), curves=curves, diverged={0: 7})
    some_id = tracking.log(write(tmp_path / "some", "d2", result=some), uri, "trial")
    every = replace(Outcome(), curves={"q_error": np.full((3, 3), np.nan)}, diverged={0: 1, 1: 1, 2: 1})
    every_id = tracking.log(write(tmp_path / "every", "d3", result=every), uri, "trial")

    client = store.connect(uri)
    tags = client.get_run(some_id).data.tags
    assert (tags["status"], tags["diverged"]) == ("diverged", "seed 0 at iteration 7")
    assert history(uri, some_id, "spread/q_error_n_finite") == [(10, 2.0), (100, 2.0)]
    assert client.get_run(every_id).data.metrics == {}
    assert client.get_run(every_id).info.status == "FINISHED"

    experiment = client.get_run(fine).info.experiment_id
    best = client.search_runs([experiment], order_by=["metrics.`last/q_error` ASC"])
    assert best[0].info.run_id == fine
    assert "spread/q_error_n_finite" not in client.get_run(fine).data.metrics
    values = sqlite3.connect(str(store.sqlite_path(uri)))
    assert values.execute("SELECT COUNT(*) FROM metrics WHERE is_nan OR ABS(value) > 1e300").fetchone() == (0,)
    values.close()


def test_the_last_values_that_the_store_shows_of_a_metric_are_of_one_checkpoint(uri, tmp_path):
    curves = {"q_error": np.array([[1.0, 5.0, 9.0], [2.0, 6.0, np.nan], [3.0, np.nan, np.nan]])}
    result = replace(Outcome(), curves=curves, diverged={1: 50, 2: 7})
    run_id = tracking.log(write(tmp_path / "run", result=result), uri, "trial")
    names = (*NAMES, "spread/q_error_n_finite")
    assert [history(uri, run_id, name)[-1][0] for name in names] == [10] * 5
    assert history(uri, run_id, "curves/q_error")[-1] == (10, 5.5)


def test_one_seed_has_no_interval(uri, tmp_path):
    outcome = replace(Outcome(), curves={"q_error": np.array([[1.0, 0.5, 0.25]])})
    run_id = tracking.log(write(tmp_path / "run", result=outcome), uri, "trial")
    assert set(store.connect(uri).get_run(run_id).data.metrics) == {"curves/q_error", "last/q_error"}


def test_a_large_map_is_an_artifact_and_comes_back_from_the_record_alone(uri, tmp_path):
    """ML-08: MLflow cuts a parameter at 6000 characters; a 128x128 map has 16384."""
    rows = ["".join(np.random.default_rng(i).choice(list("FH"), 128)) for i in range(128)]
    large = SETTINGS | {"env": {"name": "frozen_lake", "map": rows}}
    run = write(tmp_path / "run", settings=large)
    run_id = tracking.log(run, uri, "trial")
    shutil.rmtree(run.folder)
    client = store.connect(uri)
    parameter = client.get_run(run_id).data.params["env.map"]
    assert len(parameter) == len("sha256:") + 64 and parameter.startswith("sha256:")
    text = Path(client.download_artifacts(run_id, "parameters/env.map.txt")).read_text()
    assert json.loads(text) == rows
    assert tracking.find(uri, run_id, tmp_path / "outputs").settings == large
    (found,) = lookup.finished(tmp_path / "outputs", "trial", store=uri).values()
    assert found.settings == large


def test_names_that_mlflow_refuses_are_changed_with_a_note(uri, tmp_path, caplog):
    """ML-06."""
    curves = {name: np.full((2, 3), float(i)) for i, name in enumerate(["||Q-Q*||_inf", "(Q-Q)_inf", "q", "q_std"])}
    run_id = tracking.log(write(tmp_path / "run", result=replace(Outcome(), curves=curves)), uri, "trial")
    logged = store.connect(uri).get_run(run_id)
    last = {key.removeprefix("last/"): v for key, v in logged.data.metrics.items() if key.startswith("last/")}
    assert last == {"Q-Q_inf": 0.0, "Q-Q_inf_2": 1.0, "q": 2.0, "q_std": 3.0}
    assert "spread/q_std" in logged.data.metrics and "spread/q_std_std" in logged.data.metrics
    renamed = json.loads(logged.data.tags["renamed_metrics"])
    assert renamed == {"Q-Q_inf": "||Q-Q*||_inf", "Q-Q_inf_2": "(Q-Q)_inf"}
    assert "||Q-Q*||_inf" in caplog.text


@given(st.text(max_size=300) | st.text("./_ -a", max_size=8))
def test_every_metric_name_is_one_that_mlflow_accepts(text):
    from mlflow.utils.validation import MAX_ENTITY_KEY_LENGTH, _validate_metric_name

    name = content.metric_name(text)
    _validate_metric_name(name)
    assert 0 < len(name) <= MAX_ENTITY_KEY_LENGTH - len("seeds/_seed_1000000")
    assert content.metric_name(name) == name


def test_plain_names_stay():
    for name in ("q_error", "theta_error", "group/q error-2.5"):
        assert content.metric_name(name) == name


def test_a_failed_run_is_ended_as_failed_and_the_next_is_its_own(uri, tmp_path):
    """ML-19."""
    first = tracking.log(write(tmp_path / "1", "d1"), uri, "trial")
    failed = write(tmp_path / "2", "d2", result=None, status="failed", error="ValueError: in the middle")
    second = tracking.log(failed, uri, "trial")
    third = tracking.log(write(tmp_path / "3", "d3"), uri, "trial")
    client = store.connect(uri)
    states = [client.get_run(run_id).info.status for run_id in (first, second, third)]
    assert states == ["FINISHED", "FAILED", "FINISHED"]
    assert client.get_run(second).data.tags["error"] == "ValueError: in the middle"
    assert list(lookup.finished(tmp_path / "outputs", "trial", store=uri)) == ["d1", "d3"]


@pytest.mark.parametrize(
    ("step", "raised", "status"),
    [("log_batch", OSError("disk full"), "FAILED"), ("log_artifacts", KeyboardInterrupt(), "KILLED")],
)
def test_an_interrupted_recording_leaves_no_running_run(uri, tmp_path, monkeypatch, step, raised, status):
    run = write(tmp_path / "run")
    experiment = tracking.prepare(uri, "trial")

    def fail(*_, **__):
        raise raised

    with monkeypatch.context() as patch:
        patch.setattr(f"mlflow.tracking.MlflowClient.{step}", fail)
        with pytest.raises(tracking.TrackingError if status == "FAILED" else KeyboardInterrupt):
            tracking.log(run, uri, "trial")
    (left,) = store.connect(uri).search_runs([experiment])
    assert left.info.status == status
    assert runs.load(run.folder).summary["mlflow_run_id"] is None
    assert runs.is_complete(run.folder)
    run_id = tracking.upload(run.folder, uri, "trial")  # delivered later
    assert store.connect(uri).get_run(run_id).info.status == "FINISHED"


def test_upload_delivers_once(uri, tmp_path):
    run = write(tmp_path / "run")
    run_id = tracking.upload(run.folder, uri, "trial")
    again = shutil.copytree(run.folder, tmp_path / "copy")
    runs.update_summary(runs.load(again), mlflow_run_id=None)
    assert tracking.upload(again, uri, "trial") == run_id
    assert runs.load(again).summary["mlflow_run_id"] == run_id
    assert tracking.upload(run.folder, uri, "other trial") != run_id
    assert len(store.finished(uri, "trial")) == 1
    with pytest.raises(SettingError, match="no such folder"):
        tracking.upload(tmp_path / "absent", uri, "trial")


def test_one_digest_delivered_by_many_at_once_is_recorded_once(uri, tmp_path):
    copies = [write(tmp_path / f"{i}") for i in range(6)]
    tracking.prepare(uri, "trial")
    with ThreadPoolExecutor(6) as pool:
        ids = set(pool.map(lambda run: tracking.record(run, uri, "trial"), copies))
    assert [stored.run_id for stored in store.finished(uri, "trial")] == [*ids]
    assert {runs.load(run.folder).summary["mlflow_run_id"] for run in copies} == ids
    assert store.running(uri, "trial") == []


def test_a_record_that_a_killed_process_began_is_ended_by_the_next(uri, tmp_path):
    client, experiment = store.connect(uri), tracking.prepare(uri, "trial")
    begun = client.create_run(experiment, tags={"digest": "d1"}).info.run_id
    done = tracking.record(write(tmp_path / "run"), uri, "trial")
    assert client.get_run(begun).info.status == "KILLED" and client.get_run(done).info.status == "FINISHED"


def test_a_damaged_folder_is_not_uploaded(uri, tmp_path):
    run = write(tmp_path / "run")
    (run.folder / runs.TABLES).write_bytes((run.folder / runs.TABLES).read_bytes()[:-9])
    with pytest.raises(SettingError, match=r"folder=.*tables\.npz is damaged"):
        tracking.upload(run.folder, uri, "trial")
    assert store.finished(uri, "trial") == []


def test_artifacts_follow_a_store_that_was_moved_with_its_outputs_folder(uri, tmp_path, capsys):
    first = tracking.record(write(tmp_path / "outputs" / "runs" / "trial" / "d1"), uri, "trial")
    (tmp_path / "outputs").rename(tmp_path / "moved")
    there = tracking.default_uri(tmp_path / "moved")
    (found,) = lookup.finished(tmp_path / "moved", "trial", store=there).values()
    assert found.folder == tmp_path / "moved" / "runs" / "trial" / "d1"
    shutil.rmtree(tmp_path / "moved" / "runs")
    (found,) = lookup.finished(tmp_path / "moved", "trial", store=there).values()
    assert found.folder.is_relative_to(tmp_path / "moved" / "mlartifacts" / "trial" / first)

    second = tracking.record(write(tmp_path / "another", "d2"), there, "trial")
    assert "the store was moved" in capsys.readouterr().err
    assert not (tmp_path / "outputs").exists()
    for run_id in (first, second):
        folder = store.connect(there).download_artifacts(run_id, "")
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
    client = store.connect(uri)
    ids = [tracking.log(write(tmp_path / f"{i}", f"d{i % 3}"), uri, "trial") for i in range(5)]
    tracking.log(write(tmp_path / "failed", "d7", result=None), uri, "trial")
    tracking.log(write(tmp_path / "other", "d8"), uri, "it's % another")
    experiment = tracking.prepare(uri, "trial")
    client.create_run(experiment, tags={"digest": "d9"})  # running
    foreign = client.create_run(experiment).info.run_id  # not ours: no digest
    client.set_terminated(foreign)
    bare = client.create_run(experiment, tags={"digest": "d6"}).info.run_id  # no folder
    client.set_terminated(bare)
    client.delete_run(ids[0])
    assert {found.run_id for found in store._by_api(uri, "trial", "FINISHED", "d1") or ()} == {ids[1], ids[4]}
    assert store.finished(uri, "trial", "d2") == store._by_api(uri, "trial", "FINISHED", "d2")
    for name, expected in (
        ("trial", {*ids[1:], bare}),
        ("it's % another", None),
        ("absent", set()),
        ("first", set()),
    ):
        by_sql, by_api = store._by_sql(uri, name, "FINISHED"), store._by_api(uri, name, "FINISHED")
        assert by_sql is not None and sorted(by_sql) == sorted(by_api)
        assert expected is None or {found.run_id for found in by_sql} == expected
    client.delete_experiment(experiment)
    assert store._by_sql(uri, "trial", "FINISHED") == store._by_api(uri, "trial", "FINISHED") == []


def test_the_installed_mlflow_has_a_schema_that_sql_knows(uri):
    """If this fails after an update of MLflow: compare by the test above, then add the revision."""
    assert store._by_sql(uri, "first", "FINISHED") == []


def test_an_unknown_schema_is_read_by_the_api(uri, tmp_path, monkeypatch):
    run_id = tracking.log(write(tmp_path / "run"), uri, "trial")
    monkeypatch.setattr(store, "KNOWN_SCHEMAS", frozenset({"another"}))
    assert store._by_sql(uri, "trial", "FINISHED") is None
    assert store.experiment_id(uri, "trial") is None
    (run,) = lookup.finished(tmp_path / "outputs", "trial", store=uri).values()
    assert run.summary["mlflow_run_id"] == run_id
    assert tracking.prepare(uri, "trial") == store.connect(uri).get_run(run_id).info.experiment_id


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
        tracking.find(uri, new_id, outputs)


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
    client = store.connect(uri)
    foreign = client.create_run(tracking.prepare(uri, "trial")).info.run_id
    for run_id, message in (
        ("0" * 32, "no such run"),
        ("../x y", "no such run"),
        (foreign, "not a run of mqlearn"),
    ):
        with pytest.raises(SettingError, match=message):
            tracking.find(uri, run_id, tmp_path / "outputs")


JOBS = """
import os, sys
from pathlib import Path
from mqlearn.storage import lookup, runs, tracking
from mqlearn.storage.store import load_mlflow

load_mlflow()
import mlflow.store.tracking.sqlalchemy_store  # before the fork: one import for all jobs
uri, experiment, folders = sys.argv[1], sys.argv[2], sys.argv[3:]
ready, go = os.pipe()
jobs = {}
for folder in folders:
    job = os.fork()
    if job == 0:
        os.close(go)
        os.read(ready, 1)  # until all are there
        try:
            tracking.log(runs.load(folder), uri, experiment)
        except BaseException as error:
            print(type(error).__name__, error, file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    jobs[job] = folder
os.close(go)
failed = [jobs[job] for job, status in (os.wait() for _ in folders) if status]
sys.exit(len(failed))
"""


@pytest.mark.integration
def test_many_jobs_at_once_on_a_new_database_all_land_in_the_experiment(tmp_path):
    """ML-01 and ML-02, without a call of `prepare` first."""
    uri = tracking.default_uri(tmp_path / "a folder" / "50 %")
    folders = [str(write(tmp_path / f"{i}", f"d{i}").folder) for i in range(16)]
    done = subprocess.run([sys.executable, "-c", JOBS, uri, "new trial", *folders], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    found = store.finished(uri, "new trial")
    assert sorted(run.digest for run in found) == sorted(f"d{i}" for i in range(16))
    client = store.connect(uri)
    counts = {e.name: len(client.search_runs([e.experiment_id])) for e in client.search_experiments()}
    assert counts == {"Default": 0, "new trial": 16}
    assert all(unmoved.startswith((tmp_path / "a folder").as_uri()) for unmoved in (f.artifact_uri for f in found))


def test_prepare_refuses_names_that_would_scatter_runs(uri):
    for name in ("", "Default"):
        with pytest.raises(SettingError, match=r"experiment\.name="):
            tracking.prepare(uri, name)
    store.connect(uri).delete_experiment(tracking.prepare(uri, "gone"))
    with pytest.raises(SettingError, match=r"experiment\.name='gone': was deleted"):
        tracking.prepare(uri, "gone")


def test_a_store_that_fails_is_one_error_and_quick(tmp_path, uri, capfd):
    run = write(tmp_path / "run")
    (tmp_path / "text.db").write_text("no database, however long this is" * 100)
    (tmp_path / "file").write_text("")
    for bad in (
        f"sqlite:///{tmp_path}/text.db",
        f"sqlite:///{tmp_path}/file/mlflow.db",
        "http://127.0.0.1:9",
    ):
        with pytest.raises(tracking.TrackingError, match="failed at"):
            tracking.log(run, bad, "trial")
    tamper(uri, "UPDATE alembic_version SET version_num = 'f5a4f2784254'")
    with pytest.raises(tracking.TrackingError, match="another release of MLflow made its schema"):
        tracking.log(run, uri, "trial")
    assert runs.load(run.folder).summary["mlflow_run_id"] is None
    assert capfd.readouterr() == ("", "")


def test_addresses_become_absolute_and_the_setting_comes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    default = f"sqlite:///{tmp_path}/out/mlflow.db"
    assert tracking.resolve_uri(None, None, "out") == tracking.resolve_uri("", "", tmp_path / "out") == default
    assert tracking.resolve_uri(None, "http://host:5000/", "out") == "http://host:5000"
    assert tracking.resolve_uri("sqlite:///a.db", "http://host:5000", "out") == f"sqlite:///{tmp_path}/a.db"
    assert tracking.resolve_uri("sqlite:////x/a.db", None, "out") == "sqlite:////x/a.db"
    for address in ("postgresql+psycopg://me:secret@host/db", "https://host/mlflow"):
        assert tracking.resolve_uri(address, None, "out") == address


@pytest.mark.parametrize(
    "folder", ["mlruns", "./mlruns", "/elsewhere", "file:///elsewhere/mlruns", "C:\\runs", "my.db"]
)
def test_a_folder_as_a_store_is_refused_with_the_way_out(tmp_path, folder):
    """ML-12."""
    with pytest.raises(SettingError, match=r"^tracking\.uri=.*refused by MLflow.*sqlite:///.*migrate-filestore"):
        tracking.resolve_uri(folder, "http://host", tmp_path)
    with pytest.raises(SettingError, match=r"^MLFLOW_TRACKING_URI=.*refused by MLflow"):
        tracking.resolve_uri(None, folder, tmp_path)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("postgres://me:secret@host/db", r"did you mean 'postgresql'"),
        ("sqlit:///x.db", r"did you mean 'sqlite'"),
        ("ftp://me:secret@host", "begins with sqlite, postgresql"),
        ("sqlite://", "is a file"),
        ("sqlite:///:memory:", "is a file"),
        ("sqlite:////tmp", "is a file"),
        ("sqlite:////a/b%20c.db", "cannot hold"),
        ("sqlite:////a/b.db?mode=ro", "cannot hold"),
    ],
)
def test_other_addresses_are_refused_by_name_and_without_their_password(tmp_path, address, message):
    with pytest.raises(SettingError, match=message) as raised:
        tracking.resolve_uri(address, None, tmp_path)
    assert "secret" not in str(raised.value)


def test_passwords_are_neither_logged_nor_said(uri, tmp_path):
    run_id = tracking.log(write(tmp_path / "run"), uri, "trial")
    logged = store.connect(uri).get_run(run_id)
    assert "secret" not in str(logged.to_dictionary())
    with pytest.raises(SettingError, match=r"no usable database address") as raised:
        tracking.log(runs.load(tmp_path / "run"), "mysql+nodriver://me:secret@host/db", "trial")
    assert "secret" not in str(raised.value)


def test_the_ui_gets_the_store_and_prints_its_address(uri, tmp_path, monkeypatch, capsys):
    calls = []
    monkeypatch.setattr("os.execve", lambda *call: calls.append(call))
    number = tracking.prepare(uri, "trial")
    ui.open_ui(uri, "trial", port=0)
    ((_, command, environment),) = calls
    assert command[1:4] == ["-m", "mlflow", "server"]
    assert environment["MLFLOW_BACKEND_STORE_URI"] == uri and uri not in command
    assert f"--artifacts-destination={tmp_path / 'outputs' / 'mlartifacts'}" in command
    assert environment["MLFLOW_SERVER_ENABLE_JOB_EXECUTION"] == "false"
    address = f"http://127.0.0.1:0/#/experiments/{number}/runs?workflowType=machine_learning&compareRunsMode=CHART"
    assert capsys.readouterr().out.startswith(f"MLflow UI: {address} (store sqlite:////")
    ui.open_ui(uri, "default", named=False, port=0)
    assert "http://127.0.0.1:0/#/experiments (store" in capsys.readouterr().out
    with pytest.raises(SettingError, match=r"^experiment\.name='trail': the store .* has no such experiment; it has"):
        ui.open_ui(uri, "trail", port=0)
    with pytest.raises(SettingError, match="no store there yet"):
        ui.open_ui(f"sqlite:///{tmp_path}/absent.db", "trial")
    with pytest.raises(SettingError, match=r"^port="):
        ui.open_ui(uri, "trial", port=99999)
