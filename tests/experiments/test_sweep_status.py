"""`mqlearn status`: what has become of each planned cell."""

import json
import shutil
from pathlib import Path

from sweep_place import SMALL

from mqlearn.experiments import execute
from mqlearn.experiments.sweep import journal
from mqlearn.storage import locks, tracking


def test_a_cell_that_is_complete_on_disk_is_done_whatever_was_said_of_it(place):
    place.here("run", "-m", *SMALL, "seed=0,1", "hydra/launcher=basic")
    newest = next(journal.sweeps(place.outputs).glob("2*"))
    plan_of = journal.read_plan(newest)
    for one, said in zip(plan_of["cells"], ("killed", "running"), strict=True):
        journal.mark(newest, one, said, pid=2**22 + 1)
    assert "2 done, 0 running, 0 failed, 0 killed" in place.here("status")


def test_a_cell_is_running_while_a_process_holds_it(place):
    place.here("run", "-m", *SMALL, "seed=0", "hydra/launcher=basic")
    (one,) = journal.read_plan(next(journal.sweeps(place.outputs).glob("2*")))["cells"]
    shutil.rmtree(one["folder"])
    assert "1 missing" in place.here("status")
    with locks.claimed(locks.folder(place.outputs), *execute.claim(one["experiment"], one["digest"])):
        assert "1 running" in place.here("status")


def test_status_tells_what_has_become_of_each_cell(place):
    place.sweep("algorithm.kind=none,raise", "algorithm.i=1,2", "hydra/launcher=basic", code=1)
    target = place.folder / "status.json"
    text = place.here("status", "experiment.name=default", "--json", str(target), code=1)
    assert "default: 4 planned, 2 done, 0 running, 2 failed, 0 killed, 0 missing" in text
    assert "ArithmeticError: trap 1" in text
    content = json.loads(target.read_text())
    assert [row["status"] for row in content["cells"]] == ["finished", "finished", "failed", "failed"]
    (gone,) = [row for row in content["cells"] if row["cell"] == "algorithm.kind=none algorithm.i=1"]
    curves = Path(gone["folder"]) / "curves.npz"
    curves.write_bytes(curves.read_bytes()[:-100])
    assert "1 done, 0 running, 2 failed, 0 killed, 0 missing, 1 damaged" in place.here("status", code=1)
    unasked = place.here("status", "tracking=none", code=1)
    assert "1 done, 0 running, 2 failed, 0 killed, 0 missing, 1 damaged, 0 diverged, 0 not uploaded" in unasked
    unknown = place.here("status", "tracking=none", "experiment.name=other", code=2)
    assert "no sweep has planned it; planned: default" in unknown
    misspelt = place.here("status", "experiment.name=defualt", code=2)
    assert "experiment.name='defualt'" in misspelt and "(did you mean 'default'?)" in misspelt


def test_status_of_a_thousand_runs_asks_the_store_three_times(stored, outputs, monkeypatch):
    from mqlearn.cli import status
    from mqlearn.storage import sql

    uri = stored
    number = tracking.prepare(uri, "many")
    planned = [
        {"number": i, "digest": f"{i:064x}", "name": f"cell {i}", "experiment": "many", "cell": "", "group": "",
         "folder": str(outputs / "runs" / "many" / str(i)), "command": "", "done_before": False}
        for i in range(1, 1001)
    ]  # fmt: skip
    folder = journal.sweeps(outputs) / "20260101-000000-0000"
    (folder / "cells").mkdir(parents=True)
    journal.write_json(
        folder / journal.PLAN, {"id": folder.name, "started": journal.now(), "cells": planned, "ended": "x"}
    )
    import sqlite3

    with sqlite3.connect(outputs / "mlflow.db") as database:
        for one in planned[:900]:
            run = one["digest"][32:]
            database.execute(
                "INSERT INTO runs (run_uuid, name, experiment_id, status, lifecycle_stage, start_time, end_time) "
                "VALUES (?, ?, ?, 'FINISHED', 'active', 0, 1)",
                (run, one["name"], number),
            )
            tags = {"digest": one["digest"], "status": "diverged" if one["number"] % 2 else "finished"}
            database.executemany("INSERT INTO tags VALUES (?, ?, ?)", [(key, text, run) for key, text in tags.items()])
    database.close()
    asked = []
    query = sql.query
    monkeypatch.setattr(sql, "query", lambda *arguments: asked.append(arguments) or query(*arguments))
    found = status.experiment(uri, "many", [journal.read_plan(folder) | {"folder": folder}])
    assert len(asked) == 3  # the runs, what is unusual about some, and what was deleted
    counts = {key: found[key] for key in ("planned", "done", "diverged", "missing", "not_uploaded")}
    assert counts == {"planned": 1000, "done": 900, "diverged": 450, "missing": 100, "not_uploaded": 0}
