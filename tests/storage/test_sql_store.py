"""What SQL writes into a store is what MLflow's client writes; a store that is a copy of a kept one is MLflow's own."""

import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tracked import write

from mqlearn.storage import addresses, connection, mlflow_payload, new_store, runs, sql, sql_store, store, tracking

TABLES = (
    "experiments", "experiment_tags", "runs", "tags", "params", "metrics", "latest_metrics", "datasets", "inputs",
    "input_tags",
)  # fmt: skip


def rows(uri: str) -> dict[str, list[tuple]]:
    """All that a store holds, with the types; ids are numbered as they come, moments are left out, and the folder."""
    database = connection.sqlite_path(uri)
    assert database is not None
    known: dict[str, str] = {}

    def plain(column: str, value: object) -> object:
        if column in ("creation_time", "last_update_time"):
            return "now"
        if isinstance(value, str):
            value = value.replace(str(database.parent), "ROOT")
            return re.sub(r"\b[0-9a-f]{32}\b", lambda found: known.setdefault(found[0], f"id {len(known)}"), value)
        return value

    found = {}
    with closing(sqlite3.connect(database)) as opened:
        for table in TABLES:
            columns = [row[1] for row in opened.execute(f"PRAGMA table_info({table})")]
            told = opened.execute(f"SELECT {', '.join(columns)} FROM {table}").fetchall()
            told = [row for row in told if "Default" not in row]  # which MLflow adds when it opens a store
            named = [
                tuple((c, plain(c, v), type(v).__name__) for c, v in zip(columns, row, strict=True)) for row in told
            ]
            found[table] = sorted(named, key=str)
    return found


def shown(run: runs.Run, _) -> mlflow_payload.Shown:
    return mlflow_payload.Shown(
        run.name, note="a note", about="what it is", error="q_error", model=("a lake", "f" * 64),
        pictures={"picture.svg": b"<svg/>"},
    )  # fmt: skip


def test_all_rows_and_files_are_those_of_mlflow(migrated, tmp_path, monkeypatch):
    """Of a run, of one on the same problem, of one that failed, with a setting too long for a parameter."""
    some = [write(tmp_path / "a", "d1", git_commit="abc"), write(tmp_path / "b", "d2")]
    some.append(write(tmp_path / "c", "d3", result=None, status="failed", error="ValueError: in the middle"))
    long = {**some[0].settings, "notes": "x" * 7000}
    some.append(write(tmp_path / "d", "d4", settings=long))
    told, files = {}, {}
    for way in ("sql", "api"):
        outputs = tmp_path / way
        outputs.mkdir()
        shutil.copy(migrated, outputs / "mlflow.db")
        uri = addresses.default_uri(outputs)
        with monkeypatch.context() as patch:
            if way == "api":
                patch.setattr(sql_store, "of", lambda _: None)
            for run in some:
                tracking.log(run, uri, "trial", per_seed=True, tags={"cell": "one"}, show=shown)
        told[way] = rows(uri)
        root = outputs / "mlartifacts" / "trial"
        files[way] = sorted(path.relative_to(run) for run in root.iterdir() for path in run.rglob("*"))
    for table in TABLES:
        assert told["sql"][table] == told["api"][table], table
        assert told["sql"][table], table
    assert files["sql"] == files["api"] and Path("artifacts/parameters/notes.txt") in files["sql"]


def test_a_record_that_fails_or_is_interrupted_leaves_nothing(uri, tmp_path, monkeypatch):
    run = write(tmp_path / "run")
    experiment = tracking.prepare(uri, "trial")
    for raised in (sqlite3.OperationalError("disk full"), KeyboardInterrupt()):

        def fail(*_, raised=raised):
            raise raised

        with monkeypatch.context() as patch:
            patch.setattr(sql, "insert_metrics", fail)
            expected = connection.TrackingError if isinstance(raised, Exception) else KeyboardInterrupt
            with pytest.raises(expected):
                tracking.log(run, uri, "trial")
        assert connection.connect(uri).search_runs([experiment]) == []
        assert runs.load(run.folder).summary["mlflow_run_id"] is None and runs.is_complete(run.folder)
        assert [*(tmp_path / "outputs" / "mlartifacts").rglob("*.npz")] == []
    run_id = tracking.upload(run.folder, uri, "trial")
    assert connection.connect(uri).get_run(run_id).info.status == "FINISHED"


@pytest.fixture
def cache(tmp_path, monkeypatch, migrated) -> Path:
    """A user's cache folder with an empty store, kept from one that is not empty of experiments."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    new_store.keep(migrated)
    return tmp_path / "cache" / "mqlearn"


def test_a_new_store_is_a_copy_of_the_one_that_is_kept_and_mlflow_takes_it(cache, tmp_path):
    (kept,) = cache.iterdir()
    before = kept.read_bytes()
    uri = addresses.default_uri(tmp_path / "new" / "outputs")
    assert sql_store.of(connection.sqlite_path(uri)) is None
    run_id = tracking.log(write(tmp_path / "run"), uri, "trial")
    client = connection.connect(uri)
    assert client.get_run(run_id).info.status == "FINISHED"
    assert sorted(one.name for one in client.search_experiments()) == ["Default", "trial"]
    assert [one.digest for one in store.finished(uri, "trial")] == ["d1"]
    assert kept.read_bytes() == before and [*cache.iterdir()] == [kept]


def test_a_damaged_copy_is_as_good_as_none_and_a_store_that_is_there_stays(cache, tmp_path):
    (kept,) = cache.iterdir()
    there = tmp_path / "there.db"
    there.write_text("another program's")
    assert new_store.copy(there) and there.read_text() == "another program's"
    kept.write_bytes(kept.read_bytes()[:-100])
    assert not new_store.copy(tmp_path / "new.db") and not (tmp_path / "new.db").exists()
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix == ".db") == ["there.db"]


def test_a_store_of_another_schema_is_not_kept_and_not_written(cache, migrated, tmp_path, monkeypatch):
    shutil.rmtree(cache)
    monkeypatch.setattr(sql, "KNOWN_SCHEMAS", frozenset({"another"}))
    new_store.keep(migrated)
    assert not cache.exists()
    assert sql_store.of(migrated) is None
