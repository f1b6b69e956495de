"""What must not grow with the number of runs: files read, statements sent. What is told is what the slow way tells."""

import importlib
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from mqlearn import files
from mqlearn.cli import status
from mqlearn.experiments.sweep import index, journal, states, told
from mqlearn.storage import looked, lookup, sql, sql_store, store, tracking

_opened: list[Counter[str]] = []


def _audit(event: str, arguments: tuple) -> None:
    if event == "open" and _opened and isinstance(arguments[0], str):
        _opened[-1][Path(arguments[0]).name] += 1


sys.addaudithook(_audit)


@contextmanager
def opened() -> Iterator[Counter[str]]:
    """How often a file of each name is opened within this."""
    _opened.append(Counter())
    try:
        yield _opened[-1]
    finally:
        _opened.pop()


def cell(number: int, folder: Path, **more) -> dict:
    one = {"number": number, "digest": f"{number:064x}", "name": f"cell {number}", "experiment": "many", "group": "g"}
    one |= {"cell": f"i={number}", "folder": str(folder / str(number)), "command": f"mqlearn run i={number}"}
    return {**one, "done_before": False, "tracked": False, "settings": {"a": number}, **more}


def planned(outputs: Path, cells: list[dict], **head) -> Path:
    folder = journal.sweeps(outputs) / "20260101-000000-0000"
    (folder / "cells").mkdir(parents=True)
    about = {"id": folder.name, "started": journal.now(), "pid": os.getpid(), "host": os.uname().nodename, **head}
    about |= {"digest_version": journal.identity.DIGEST_VERSION, "format": 2}
    journal.write_plan(folder / journal.PLAN, about, cells)
    index.write(folder / journal.PLAN, about, cells)
    return folder


def test_an_index_tells_of_the_cells_what_the_plan_tells(outputs):
    some = [cell(n, outputs, done_before=n % 2 == 0, tracked=n == 3) for n in range(1, 6)]
    some[1]["diverged"] = {"0": 7}
    folder = planned(outputs, some, ended="then")
    plan = journal.read_plan(folder)
    short = index.read(folder / journal.PLAN)
    assert short is not None and short["cells"] == [
        {key: value for key, value in one.items() if key != "settings"} for one in plan["cells"]
    ]
    assert {key: short[key] for key in ("id", "started", "ended", "pid", "host")} == {
        key: plan[key] for key in ("id", "started", "ended", "pid", "host")
    }


@pytest.mark.parametrize("damage", ["another plan", "cut", "version", "wrong types", "nothing"])
def test_an_index_that_is_not_of_the_plan_does_not_count(outputs, damage):
    folder = planned(outputs, [cell(1, outputs)])
    plan, file = folder / journal.PLAN, folder / index.INDEX
    content = json.loads(file.read_text())
    if damage == "another plan":
        plan.write_text(plan.read_text().replace("cell 1", "cell 2"))
        os.utime(plan, ns=(0, 0))
    elif damage == "cut":
        file.write_text(file.read_text()[:-9])
    elif damage == "version":
        file.write_text(json.dumps(content | {"digest_version": 1}))
    elif damage == "wrong types":
        file.write_text(json.dumps(content | {"columns": {"digest": [1, 2]}}))
    else:
        file.unlink()
    assert index.read(plan) is None
    assert status._plans(outputs)[0]["cells"][0]["settings"] == {"a": 1}  # the plan itself


def test_what_is_done_is_read_once(outputs):
    folder = planned(outputs, some := [cell(n, outputs) for n in range(1, 101)])
    for one in some[:60]:
        journal.mark(folder, one, "done", diverged={"1": 5} if one["number"] == 7 else {})
    for one in some[60:70]:
        journal.mark(folder, one, "running")
    said = told.Told(folder)
    first = said.states()
    said.keep()
    journal.mark(folder, some[60], "done")
    with opened() as reads:
        second = said.states()
    said.keep()
    assert sum(reads.values()) == 10  # those that were running
    assert second == journal.states(folder) and first[61]["state"] == "running"
    assert told.kept(folder) == {n: {"1": 5} if n == 7 else {} for n in range(1, 62)}
    with (folder / told.DONE).open("a") as file:
        file.write("[99, {}")  # half a line
    assert 99 not in told.kept(folder) and len(told.kept(folder)) == 61


def test_status_of_a_sweep_under_way_opens_no_file_of_a_cell_that_is_done(outputs):
    runs = outputs / "runs"
    folder = planned(outputs, some := [cell(n, runs) for n in range(1, 101)])
    for one in some[:50]:
        Path(one["folder"]).mkdir(parents=True)
        journal.mark(folder, one, "done", diverged={"0": 9} if one["number"] == 1 else {})
    for one in some[50:60]:
        journal.mark(folder, one, "running")
    told.Told(folder).states()
    kept = told.Told(folder)
    kept.states()
    kept.keep()
    with opened() as reads:
        report = status.experiment(None, "many", status._plans(outputs))
    counts = {key: report[key] for key in ("planned", "done", "running", "missing", "diverged")}
    assert counts == {"planned": 100, "done": 50, "running": 10, "missing": 40, "diverged": 1}
    assert report["cells"][0]["diverged"] == "seed 0 at iteration 9"
    names = {name for name in reads if name.removesuffix(".json").isdecimal()}
    assert names == {f"{n}.json" for n in range(51, 61)} and "summary.json" not in reads and "plan.json" not in reads
    (runs / "2").rmdir()  # it was said to be done, and is gone
    assert status.experiment(None, "many", status._plans(outputs))["done"] == 49


def test_a_run_that_was_found_whole_is_not_read_again_until_a_file_changes(mqlearn, outputs, monkeypatch):
    monkeypatch.setattr(looked, "_FEW", 0)
    monkeypatch.setattr(looked, "_SETTLED", 0)
    done = mqlearn("run", "-m", "env=two_state", "iterations=50", "n_checkpoints=3", "n_seeds=2", "seed=1,2",
                   "tracking=none", "hydra/launcher=basic")  # fmt: skip
    assert done.code == 0, done
    slow = mqlearn("status", "tracking=none", "--json", "-").out
    with opened() as reads:
        quick = mqlearn("status", "tracking=none", "--json", "-").out
    assert quick == slow and "summary.json" not in reads and (outputs / "looked.json").is_file()
    (curves, _) = sorted(outputs.glob("runs/*/*/curves.npz"))
    content = curves.read_bytes()
    curves.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))  # of the same size
    assert json.loads(mqlearn("status", "tracking=none", "--json", "-").out)["experiments"][0]["damaged"] == 1
    (outputs / "looked.json").write_text("[1, {}")
    assert json.loads(mqlearn("status", "tracking=none", "--json", "-").out)["experiments"][0]["damaged"] == 1


def test_a_cell_that_ends_while_status_looks_is_not_missing(mqlearn, outputs):
    """Its folder appears after the listing; what its job says by then is that it is done."""
    settings = ("env=two_state", "iterations=50", "n_checkpoints=3", "n_seeds=2", "tracking=none")
    assert mqlearn("run", "-m", *settings, "seed=1", "hydra/launcher=basic").code == 0
    (sweep,) = journal.sweeps(outputs).iterdir()
    (one,) = journal.read_plan(sweep)["cells"]
    folder, disk = Path(one["folder"]), states.Disk(outputs)
    away = folder.rename(outputs / "away")
    assert not disk.has(one["folder"])
    away.rename(folder)
    assert states.state(disk, one, dict).word == "missing"
    assert states.state(disk, one, lambda: {"state": "done"}).word == "finished"


def test_a_digest_is_found_in_a_store_by_an_index_and_one_statement(stored, outputs, monkeypatch):
    number = tracking.prepare(stored, "many")
    database = outputs / "mlflow.db"
    import sqlite3
    from contextlib import closing

    with closing(sqlite3.connect(database)) as opened_one, opened_one:
        opened_one.execute(sql.INDEX)
        for i in range(300):
            run = f"{i:032x}"
            opened_one.execute(
                "INSERT INTO runs (run_uuid, name, experiment_id, status, lifecycle_stage, start_time, end_time, "
                "artifact_uri) VALUES (?, '', ?, 'FINISHED', 'active', 0, 1, '/nowhere')", (run, number),
            )  # fmt: skip
            tags = {"digest": f"d{i}", "folder": "/nowhere", "digest_version": "2"}
            opened_one.executemany(
                "INSERT INTO tags VALUES (?, ?, ?)", [(key, text, run) for key, text in tags.items()]
            )
        steps = [
            row[3] for row in opened_one.execute(f"EXPLAIN QUERY PLAN {sql.OF_DIGESTS}", ("[]", "FINISHED", "many"))
        ]
    assert any("mqlearn_digests" in step for step in steps)
    assert not any("SCAN" in step and "wanted" not in step for step in steps), steps
    asked = []
    query = sql.query
    monkeypatch.setattr(sql, "query", lambda *arguments: asked.append(arguments[1]) or query(*arguments))
    assert {one.digest for one in store.finished(stored, "many", ["d7", "d299", "other"])} == {"d7", "d299"}
    assert asked == [sql.OF_DIGESTS]
    everything = {one.digest: one for one in store.finished(stored, "many")}
    assert len(everything) == 300 and store.finished(stored, "many", ["d5"]) == [everything["d5"]]
    assert store.unversioned(stored, "many") == []
    with closing(sqlite3.connect(database)) as opened_one, opened_one:
        opened_one.execute("DELETE FROM tags WHERE key = 'digest_version' AND run_uuid = ?", (f"{3:032x}",))
        opened_one.execute("DROP INDEX mqlearn_digests")  # as of an earlier version
    assert [one.digest for one in store.unversioned(stored, "many")] == ["d3"]
    assert store.finished(stored, "many", ["d5"]) == [everything["d5"]]
    assert lookup.finished(outputs, "many", store=stored, digests=["d5"]) == {}  # its files are nowhere


def test_a_cell_takes_little_of_a_store(mqlearn, stored, outputs, monkeypatch):
    """Bytes by which a SQLite store grows with each further run, with all that people see of it in MLflow."""
    import sqlite3
    from contextlib import closing

    write, records = sql_store.SqlStore.write_run, []
    with monkeypatch.context() as patch:
        patch.setattr(sql_store.SqlStore, "write_run", lambda *told: records.append(told) or write(*told))
        settings = ("iterations=1000", "n_seeds=2", "hydra/launcher=basic")
        assert mqlearn("run", "-m", "n_checkpoints=10,200", *settings).code == 0
    with closing(sqlite3.connect(outputs / "mlflow.db")) as opened_one:
        monkeypatch.setattr(sql_store.SqlStore, "_open", lambda _: nullcontext(opened_one))  # one transaction for all
        for (of, place, record), most in zip(records, (18_200, 20_300), strict=True):
            sizes = []
            for number in range(220):
                run_id = sql_store.new_id()
                address = record.artifact_uri.replace(record.run_id, run_id)
                ended = record.ended + number
                of.write_run(place, replace(record, run_id=run_id, artifact_uri=address, ended=ended))
                sizes.append(opened_one.execute("PRAGMA page_count").fetchone()[0] * 4096)
            assert 15_000 < (sizes[-1] - sizes[19]) / 200 <= most


def test_settings_are_read_alike_by_both_readers_of_yaml(tmp_path):
    """libyaml reads those without an alias; with one they are refused, as before."""
    from mqlearn.errors import SettingError
    from mqlearn.storage import read

    recorded = sorted(Path(__file__).parents[1].glob("data/recorded/**/config.yaml"))
    assert recorded
    for path in recorded:
        starred = tmp_path / "config.yaml"
        starred.write_text(f"{files.text_of(path)}more: 'a * b'\n")  # no alias, but a star: the slow reader
        assert read.settings(starred) == read.settings(path) | {"more": "a * b"}
    starred.write_text("a: &x [1]\nb: *x\n")
    with pytest.raises(SettingError, match="alias"):
        read.file(starred, read.settings)


def test_a_played_cluster_whose_nodes_die_loses_no_cell_and_runs_none_twice(monkeypatch):
    """The real plans, jobs, claims, states, launches and audit; both ways of a dead node: queued again, and failed."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "scripts")
    cluster, simulated = (importlib.import_module(f"benchmarks.{name}") for name in ("cluster", "simulated"))
    for requeued in (0.0, 1.0):
        on = simulated.Conditions(slots=40, deaths=2, requeued=requeued, seed=1)
        done = cluster.played(400, on, beside=0.02, operations=36)
        assert done.died >= 20  # the jobs of a node die with it
        assert (done.lost, done.twice) == (0, 0) and done.begun > 400
        assert "400 cells, 400 done" in done.said and "400 of 400 cells have one finished run" in done.said
