"""What SQL writes into a store is what MLflow's client writes; a store that is a copy of a kept one is MLflow's own."""

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


OF_DATA = {"dataset_uuid": "data", "source_id": "data", "input_uuid": "input"}  # columns of ids that nothing shows


def rows(uri: str) -> dict[str, list[tuple]]:
    """All that a store holds, with the types; ids are numbered as they come, moments are left out, and the folder."""
    database = connection.sqlite_path(uri)
    assert database is not None
    known: dict[tuple[str, object], str] = {}

    def plain(column: str, value: object) -> object:
        if column in ("creation_time", "last_update_time"):
            return "now"
        if kind := OF_DATA.get(column):
            return known.setdefault((kind, value), f"{kind} {len(known)}")
        if isinstance(value, str):
            value = value.replace(str(database.parent), "ROOT")
            for number, (run_id,) in enumerate(run_ids):
                value = value.replace(run_id, f"run {number}")
        return value

    found = {}
    with closing(sqlite3.connect(database)) as opened:
        run_ids = opened.execute("SELECT run_uuid FROM runs ORDER BY rowid").fetchall()
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


def test_ids_rise_with_time_and_are_ten_digits_and_small_letters(monkeypatch):
    for at in (1.8e9, 1.8e9 + 0.001, 1.9e9, 2.8e9):
        monkeypatch.setattr(sql_store, "time", lambda at=at: at)
        some = {sql_store.new_id() for _ in range(50)}
        assert len(some) > 25  # of 1296
        # Eight digits to the base 36 are the time, as Python reads them.
        assert {int(one[:8], 36) for one in some} == {round(1000 * at)}
        assert all(len(one) == 10 and one.isalnum() and one == one.lower() for one in some)


def test_an_id_that_another_run_has_is_drawn_again(uri, tmp_path, monkeypatch):
    """In the same experiment its artifacts tell, in another one its record; nothing of the other run is touched."""
    drawn = iter(["mtwq3k9xa0"] * 3 + ["mtwq3k9xa1"] + ["mtwq3k9xa0", "mtwq3k9xa1", "mtwq3k9xa2"])
    monkeypatch.setattr(sql_store, "new_id", lambda: next(drawn))
    places = [("a", "trial"), ("b", "trial"), ("c", "other")]
    ids = [tracking.log(write(tmp_path / name, name), uri, experiment) for name, experiment in places]
    assert ids == ["mtwq3k9xa0", "mtwq3k9xa1", "mtwq3k9xa2"] and not [*drawn]
    root = tmp_path / "outputs" / "mlartifacts"
    for run_id, (name, experiment) in zip(ids, places, strict=True):
        assert connection.connect(uri).get_run(run_id).data.tags["digest"] == name
        assert runs.load(root / experiment / run_id / "artifacts").digest == name
        assert runs.load(tmp_path / name).summary["mlflow_run_id"] == run_id
    assert sorted(path.name for path in root.glob("*/*")) == ids


def test_mlflow_does_with_a_run_what_it_does_with_its_own_beside_it(uri, tmp_path, monkeypatch):
    """Search, history, changes, deletion, restoring, and what its `gc` calls; its own has an id of 32 letters."""
    with monkeypatch.context() as patch:
        patch.setattr(sql_store, "of", lambda _: None)
        long = tracking.log(write(tmp_path / "long", "d1"), uri, "trial", show=shown)
    short = tracking.log(write(tmp_path / "short", "d2"), uri, "trial", show=shown)
    assert (len(long), len(short)) == (32, 10)
    assert {one.digest: one.run_id for one in store.finished(uri, "trial")} == {"d1": long, "d2": short}
    client = connection.connect(uri)
    place = client.get_run(short).info.experiment_id

    def found(condition: str) -> list[str]:
        return [one.info.run_id for one in client.search_runs([place], condition)]

    def data(run_id: str) -> dict:
        inputs = client.get_run(run_id).inputs
        assert inputs is not None
        return inputs.to_dictionary()

    assert sorted(found("metrics.`last/q_error` < 1")) == sorted([long, short])
    assert found(f"attributes.run_id = '{short}'") == [short]
    assert sorted(found("dataset.name = 'a lake'")) == sorted([long, short])
    lake = data(long)
    assert data(short) == lake and len(lake["dataset_inputs"]) == 1
    histories = [client.get_metric_history(one, "curves/q_error") for one in (long, short)]
    assert [(m.step, m.value) for m in histories[0]] == [(m.step, m.value) for m in histories[1]]
    client.set_tag(short, "mine", "yes")
    client.log_metric(short, "mine", 2.0, step=1)
    client.log_text(short, "a note", "note.txt")
    assert found("tags.mine = 'yes' AND metrics.mine = 2") == [short]
    assert "note.txt" in {item.path for item in client.list_artifacts(short)}
    client.delete_run(short)
    assert found("") == [long] and [one.digest for one in store.finished(uri, "trial")] == ["d1"]
    client.restore_run(short)
    assert {one.run_id for one in store.finished(uri, "trial")} == {long, short}
    client.delete_run(short)
    client._tracking_client.store._hard_delete_run(short)
    left = rows(uri)
    assert all(len({row[0] for row in left[table]}) == 1 for table in ("runs", "datasets"))
    assert not any("run 1" in str(row) for row in left["metrics"] + left["params"] + left["tags"])
    assert data(long) == lake


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
