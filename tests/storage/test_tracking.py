"""Against a real MLflow store: what is logged reads back through MLflow's client; no run is lost or left."""

import json
import shutil
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracked import Outcome, history, tamper, write

from mqlearn.errors import SettingError
from mqlearn.storage import addresses, connection, lookup, mlflow_payload, runs, sql, sql_store, store, tracking
from mqlearn.storage.summary import aggregate

NAMES = {
    "curves/q_error": "mean", "spread/q_error_std": "std", "spread/q_error_low": "low", "spread/q_error_high": "high",
}  # fmt: skip


def test_a_run_reads_back_through_mlflow(uri, tmp_path):
    run = write(tmp_path / "run", git_commit="abc123")
    run_id = tracking.log(run, uri, "trial", tags={"sweep": "s1", "cell": 3, "group": None})
    client = connection.connect(uri)
    logged = client.get_run(run_id)
    assert logged.info.status == "FINISHED"
    assert logged.info.run_name == "MomentumQ m=2"
    assert (logged.info.end_time or 0) - logged.info.start_time == 1500
    assert client.get_experiment(logged.info.experiment_id).name == "trial"

    values = Outcome().curves["q_error"]
    columns = aggregate(values)
    for name, key in NAMES.items():
        expected = list(zip([1, 10, 100], columns[key].tolist(), strict=True))
        assert history(uri, run_id, name) == (expected if key == "mean" else expected[-1:])
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
        "algorithm.name": "momentum_q", "algorithm.m": "2.0", "iterations": "100",
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
    database = sqlite3.connect(str(connection.sqlite_path(uri)))
    kinds = database.execute("SELECT DISTINCT typeof(step), typeof(value), typeof(timestamp) FROM metrics").fetchall()
    database.close()
    assert kinds == [("integer", "real", "integer")]


def test_more_values_than_a_batch_holds_all_arrive(uri, tmp_path):
    curves = {f"m{number}": np.random.default_rng(number).random((4, 5)) for number in range(180)}
    run = write(tmp_path / "run", result=replace(Outcome(), iteration=np.arange(5), curves=curves))
    run_id = tracking.log(run, uri, "trial")
    for name in ("m0", "m179"):
        logged = history(uri, run_id, f"curves/{name}")
        assert logged == list(enumerate(aggregate(run.curves[name])["mean"].tolist()))


@pytest.mark.parametrize(("error", "most"), [("q_error", 10), ("", 5)])
def test_of_many_checkpoints_a_store_gets_some_and_the_artifact_all(uri, tmp_path, error, most):
    """So that a cell of 200 checkpoints takes little more of a store than one of 20, and its curves keep their form."""
    values = np.random.default_rng(0).random((4, 700))
    values[:, 650:] = np.nan
    iteration = np.arange(1, 701)
    result = replace(Outcome(), iteration=iteration, curves={"q_error": values}, diverged=dict.fromkeys(range(4), 651))
    run = write(tmp_path / "run", result=result)
    show = replace(mlflow_payload.plainly(run, {}), error=error)
    run_id = tracking.log(run, uri, "trial", show=lambda *_: show)
    logged = history(uri, run_id, "curves/q_error")
    steps = [step for step, _ in logged]
    assert len(steps) == most and steps[0] == 1 and steps[-1] == 650
    gaps = np.diff(steps)
    assert gaps.min() >= np.floor(649 / (most - 1)) and gaps.max() <= np.ceil(649 / (most - 1))
    columns = aggregate(values)
    assert logged == [(step, columns["mean"][step - 1]) for step in steps]
    for key in ("std", "low", "high"):
        assert history(uri, run_id, f"spread/q_error_{key}") == [(650, columns[key][649])]
    shutil.rmtree(run.folder)  # what reads runs back from the store alone has every value
    (back,) = lookup.finished(tmp_path / "outputs", "trial", store=uri).values()
    np.testing.assert_array_equal(back.curves["q_error"], values)


def test_sql_and_the_api_write_the_same_rows(uri, tmp_path, monkeypatch):
    """Rows of both tables of metrics, where MLflow's client writes the rest: of many checkpoints, of seeds that
    diverge, of a run that has nothing finite."""
    generator = np.random.default_rng(0)
    curves = {"q_error": generator.random((4, 300)), "a b": -generator.random((4, 300))}
    curves["q_error"][1:, 250:] = np.nan
    curves |= {f"m{number}": generator.random((4, 300)) for number in range(12)}
    many = replace(Outcome(), iteration=np.arange(1, 301), curves=curves, diverged={1: 250, 2: 250, 3: 250})
    empty = replace(Outcome(), curves={"q_error": np.full((3, 3), np.nan)}, diverged={0: 1, 1: 1, 2: 1})
    some = [write(tmp_path / f"{i}", f"d{i}", result=result) for i, result in enumerate((many, Outcome(), empty))]
    monkeypatch.setattr(sql_store, "of", lambda _: None)
    by_sql = [_rows(uri, tracking.log(run, uri, "trial", per_seed=True)) for run in some]
    monkeypatch.setattr(sql, "write_metrics", lambda *_: False)
    by_api = [_rows(uri, tracking.log(run, uri, "trial", per_seed=True)) for run in some]
    assert by_sql == by_api
    (many_rows, _), (few_rows, latest), (none, _) = by_sql
    assert len(many_rows) > mlflow_payload.METRICS_A_BATCH and few_rows and latest and not none


def _rows(uri: str, run_id: str) -> list[list[tuple]]:
    """What the tables of metrics hold of a run, with the type of each value."""
    columns = ("key", "value", "timestamp", "step", "is_nan")
    told = ", ".join(f"{column}, typeof({column})" for column in columns)
    with closing(sqlite3.connect(str(connection.sqlite_path(uri)))) as database:
        return [
            database.execute(f"SELECT {told} FROM {table} WHERE run_uuid = ? ORDER BY key, step", [run_id]).fetchall()
            for table in ("metrics", "latest_metrics")
        ]


def test_metrics_go_by_the_api_into_a_schema_that_sql_does_not_know(uri, tmp_path, monkeypatch):
    run = write(tmp_path / "run")
    tracking.prepare(uri, "trial")
    monkeypatch.setattr(sql, "KNOWN_SCHEMAS", frozenset({"another"}))
    assert not sql.write_metrics(uri, "0" * 32, [("a", 1.0, 1)], 0)
    run_id = tracking.log(run, uri, "trial")
    assert [step for step, _ in history(uri, run_id, "curves/q_error")] == [1, 10, 100]


def test_what_is_not_finite_is_never_a_number_and_a_diverged_run_never_the_best(uri, tmp_path):
    """ML-04: infinity would come back as 1.797e308, NaN as 0."""
    fine = tracking.log(write(tmp_path / "fine"), uri, "trial")
    curves = {"q_error": np.array([[1.0, np.inf, np.nan], [1e-9, 1e-9, 1e-9], [1.0, 1e-9, 1e-9]])}
    some = replace(Outcome(), curves=curves, diverged={0: 7})
    some_id = tracking.log(write(tmp_path / "some", "d2", result=some), uri, "trial")
    every = replace(Outcome(), curves={"q_error": np.full((3, 3), np.nan)}, diverged={0: 1, 1: 1, 2: 1})
    every_id = tracking.log(write(tmp_path / "every", "d3", result=every), uri, "trial")

    client = connection.connect(uri)
    tags = client.get_run(some_id).data.tags
    assert (tags["status"], tags["diverged"]) == ("diverged", "seed 0 at iteration 7")
    assert history(uri, some_id, "spread/q_error_n_finite") == [(10, 2.0), (100, 2.0)]
    assert client.get_run(every_id).data.metrics == {}
    assert client.get_run(every_id).info.status == "FINISHED"

    experiment = client.get_run(fine).info.experiment_id
    best = client.search_runs([experiment], order_by=["metrics.`last/q_error` ASC"])
    assert best[0].info.run_id == fine
    assert "spread/q_error_n_finite" not in client.get_run(fine).data.metrics
    values = sqlite3.connect(str(connection.sqlite_path(uri)))
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
    assert set(connection.connect(uri).get_run(run_id).data.metrics) == {"curves/q_error", "last/q_error"}


def test_names_that_mlflow_refuses_are_changed_with_a_note(uri, tmp_path, caplog):
    """ML-06."""
    curves = {name: np.full((2, 3), float(i)) for i, name in enumerate(["||Q-Q*||_inf", "(Q-Q)_inf", "q", "q_std"])}
    run_id = tracking.log(write(tmp_path / "run", result=replace(Outcome(), curves=curves)), uri, "trial")
    logged = connection.connect(uri).get_run(run_id)
    last = {key.removeprefix("last/"): v for key, v in logged.data.metrics.items() if key.startswith("last/")}
    assert last == {"Q-Q_inf": 0.0, "Q-Q_inf_2": 1.0, "q": 2.0, "q_std": 3.0}
    assert "spread/q_std" in logged.data.metrics and "spread/q_std_std" in logged.data.metrics
    renamed = json.loads(logged.data.tags["renamed_metrics"])
    assert renamed == {"Q-Q_inf": "||Q-Q*||_inf", "Q-Q_inf_2": "(Q-Q)_inf"}
    assert "||Q-Q*||_inf" in caplog.text


@given(st.text(max_size=300) | st.text("./_ -a", max_size=8))
def test_every_metric_name_is_one_that_mlflow_accepts(text):
    from mlflow.utils.validation import MAX_ENTITY_KEY_LENGTH, _validate_metric_name

    name = mlflow_payload.metric_name(text)
    _validate_metric_name(name)
    assert 0 < len(name) <= MAX_ENTITY_KEY_LENGTH - len("seeds/_seed_1000000")
    assert mlflow_payload.metric_name(name) == name


def test_plain_names_stay():
    for name in ("q_error", "theta_error", "group/q error-2.5"):
        assert mlflow_payload.metric_name(name) == name


def test_a_failed_run_is_ended_as_failed_and_the_next_is_its_own(uri, tmp_path):
    """ML-19."""
    first = tracking.log(write(tmp_path / "1", "d1"), uri, "trial")
    failed = write(tmp_path / "2", "d2", result=None, status="failed", error="ValueError: in the middle")
    second = tracking.log(failed, uri, "trial")
    third = tracking.log(write(tmp_path / "3", "d3"), uri, "trial")
    client = connection.connect(uri)
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
        patch.setattr(sql_store, "of", lambda _: None)
        patch.setattr(f"mlflow.tracking.MlflowClient.{step}", fail)
        with pytest.raises(connection.TrackingError if status == "FAILED" else KeyboardInterrupt):
            tracking.log(run, uri, "trial")
    (left,) = connection.connect(uri).search_runs([experiment])
    assert left.info.status == status
    assert runs.load(run.folder).summary["mlflow_run_id"] is None
    assert runs.is_complete(run.folder)
    run_id = tracking.upload(run.folder, uri, "trial")  # delivered later
    assert connection.connect(uri).get_run(run_id).info.status == "FINISHED"


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
    client, experiment = connection.connect(uri), tracking.prepare(uri, "trial")
    begun = client.create_run(experiment, tags={"digest": "d1"}).info.run_id
    done = tracking.record(write(tmp_path / "run"), uri, "trial")
    assert client.get_run(begun).info.status == "KILLED" and client.get_run(done).info.status == "FINISHED"


def test_a_damaged_folder_is_not_uploaded(uri, tmp_path):
    run = write(tmp_path / "run")
    (run.folder / runs.TABLES).write_bytes((run.folder / runs.TABLES).read_bytes()[:-9])
    with pytest.raises(SettingError, match=r"folder=.*tables\.npz is damaged"):
        tracking.upload(run.folder, uri, "trial")
    assert store.finished(uri, "trial") == []


JOBS = """
import os, sys
from pathlib import Path
from mqlearn.storage import addresses, connection, lookup, runs, tracking
from mqlearn.storage.connection import load_mlflow

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
    uri = addresses.default_uri(tmp_path / "a folder" / "50 %")
    folders = [str(write(tmp_path / f"{i}", f"d{i}").folder) for i in range(16)]
    done = subprocess.run([sys.executable, "-c", JOBS, uri, "new trial", *folders], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    found = store.finished(uri, "new trial")
    assert sorted(run.digest for run in found) == sorted(f"d{i}" for i in range(16))
    client = connection.connect(uri)
    counts = {e.name: len(client.search_runs([e.experiment_id])) for e in client.search_experiments()}
    assert counts == {"Default": 0, "new trial": 16}
    assert all(unmoved.startswith((tmp_path / "a folder").as_uri()) for unmoved in (f.artifact_uri for f in found))


def test_prepare_refuses_names_that_would_scatter_runs(uri):
    for name in ("", "Default"):
        with pytest.raises(SettingError, match=r"experiment\.name="):
            tracking.prepare(uri, name)
    connection.connect(uri).delete_experiment(tracking.prepare(uri, "gone"))
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
        with pytest.raises(connection.TrackingError, match="failed at"):
            tracking.log(run, bad, "trial")
    tamper(uri, "UPDATE alembic_version SET version_num = 'f5a4f2784254'")
    with pytest.raises(connection.TrackingError, match="another release of MLflow made its schema"):
        tracking.log(run, uri, "trial")
    assert runs.load(run.folder).summary["mlflow_run_id"] is None
    assert capfd.readouterr() == ("", "")


def test_passwords_are_neither_logged_nor_said(uri, tmp_path):
    run_id = tracking.log(write(tmp_path / "run"), uri, "trial")
    logged = connection.connect(uri).get_run(run_id)
    assert "secret" not in str(logged.to_dictionary())
    with pytest.raises(SettingError, match=r"no usable database address") as raised:
        tracking.log(runs.load(tmp_path / "run"), "mysql+nodriver://me:secret@host/db", "trial")
    assert "secret" not in str(raised.value)
