"""What many finished runs cost: `status`, `export`, `mq.load`, a digest in a store, and the bytes of a store."""

import contextlib
import gc
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any
from unittest import mock

import mqlearn as mq
from mqlearn.analysis import tidy
from mqlearn.cli import status
from mqlearn.experiments import execute
from mqlearn.experiments.plan import PlannedCell
from mqlearn.experiments.presentation import mlflow_view
from mqlearn.experiments.settings import identity
from mqlearn.experiments.settings.cell import Cell, run_cells
from mqlearn.experiments.sweep import journal
from mqlearn.experiments.sweep.plan import plan
from mqlearn.experiments.sweep.sweep import Sweep
from mqlearn.storage import lookup, runs, sql, tracking

from .measuring import Row, fastest

_SETTINGS = ("env=two_state", "iterations=200", "n_checkpoints=10", "n_seeds=4", "n_workers=1")
_RULES = ("algorithm=q_learning,speedy_q,momentum_q", "iterations=1000", "n_seeds=2", "n_workers=1")


def many_runs(few: int = 250, many: int = 1000) -> Iterator[Row]:
    """In units of what few take: at best as many times as there are more runs, and for a digest once."""
    seconds: dict[int, dict[str, float]] = {}
    for number in (few, many):
        with tempfile.TemporaryDirectory() as outputs, mock.patch.dict(os.environ, {"MQLEARN_OUTPUTS": outputs}):
            seconds[number] = fastest(_questions(_made(number, Path(outputs)), Path(outputs)), turns=2)
    for name, used in seconds[many].items():
        against = f"time of {few} runs"
        wanted = 1.5 if name == "find_digest" else 1.15 * many / few
        yield Row(f"{name}_{many}", used, "CPU s", against, used / seconds[few][name], wanted)


def under_way(few: int = 5_000, many: int = 50_000) -> Iterator[Row]:
    """The status of a sweep that goes on, half of its cells done, in units of what fewer cells take."""
    seconds, memory = {}, Path("/dev/shm")  # 25,000 states of cells, each flushed: a disk would take minutes to make
    place = memory if memory.is_dir() else None
    for number in (few, many):
        with (
            tempfile.TemporaryDirectory(dir=place) as outputs,
            mock.patch.dict(os.environ, {"MQLEARN_OUTPUTS": outputs}),
        ):
            shown = partial(_status, _half_done(number, Path(outputs)), Path(outputs))
            gc.disable()  # as the command does
            seconds[number] = fastest({"status": shown}, turns=3)["status"]
            gc.enable()
            if shown()["done"] != number // 2:
                raise SystemExit("status counts other cells than those that are done")
    against = f"time of {few} cells"
    yield Row(f"status_{many}", seconds[many], "CPU s", against, seconds[many] / seconds[few], 1.3 * many / few)


def store_size(seeds: int = 80, wanted: float = 20) -> Iterator[Row]:
    """By how many kB a SQLite store grows with a cell more, of three rules in turn, by number of checkpoints."""
    for checkpoints in (10, 200):
        with tempfile.TemporaryDirectory() as outputs, mock.patch.dict(os.environ, {"MQLEARN_OUTPUTS": outputs}):
            sizes = []
            for one in plan((*_RULES, f"n_checkpoints={checkpoints}", f"seed=range({seeds})"), [], None):
                ((_, run),) = _written([one], one.cell)
                tags = {"sweep": "20000101-000000-0000", "cell": one.label, "group": one.panel}
                tracking.log(run, str(one.uri), "default", tags=tags, show=mlflow_view.shows({}))
                sizes.append(Path(outputs, "mlflow.db").stat().st_size / 1000)
            grown = (sizes[-1] - sizes[len(sizes) // 4]) / (len(sizes) - 1 - len(sizes) // 4)
        yield Row(f"store_cell_{checkpoints}", grown, "kB", f"size of {wanted:g} kB", grown / wanted, 1)


def _half_done(number: int, outputs: Path) -> str:
    """A sweep of so many cells, begun by this process; of those that are done there is what its status looks at."""
    cells = _copies(number)
    first, half = cells[0], cells[: number // 2]
    sweep = Sweep("20000101-000000-0000", cells, "", "joblib", "skip", None, [])
    (sweep.folder / "cells").mkdir(parents=True)
    ((_, run),) = _written(cells[:1], first.cell)
    for one in half:
        one.folder.mkdir(exist_ok=True)
        journal.mark(sweep.folder, one.record(), "done", **journal.outcome(run))
    sweep.write_plan()
    sweep.said.states()
    sweep.said.keep()
    _recorded(str(first.uri), half, tracking.log(runs.load(first.folder), str(first.uri), "default"))
    return str(first.uri)


def _status(uri: str | None, outputs: Path) -> dict[str, Any]:
    return status.experiment(uri, "default", status._plans(outputs))


def _questions(cells: list[PlannedCell], outputs: Path) -> dict[str, Callable[[], object]]:
    uri = cells[0].uri
    again = {"store": uri, "digests": [cells[3].digest], "digest_of": identity.digest_of}
    return {
        "status": partial(_status, uri, outputs),
        "load": lambda: mq.load("default"),
        "export": lambda: sum(map(len, tidy.written(tidy.Table(mq.load("default")), "csv"))),
        "find_digest": lambda: [lookup.finished(outputs, "default", **again) for _ in range(20)],
    }


def _made(number: int, outputs: Path) -> list[PlannedCell]:
    """A sweep of so many cells, done: one that was run, and copies of its folder and record for other seeds."""
    cells = _copies(number)
    first = cells[0]
    sweep = Sweep("20000101-000000-0000", cells, "", "joblib", "skip", None, [])
    (sweep.folder / "cells").mkdir(parents=True)
    for one, run in _written(cells, first.cell):
        journal.mark(sweep.folder, one.record(), "done", **journal.outcome(run))
    sweep.write_plan(ended=journal.now())
    _recorded(str(first.uri), cells, tracking.log(runs.load(first.folder), str(first.uri), "default"))
    return cells


def _copies(number: int) -> list[PlannedCell]:
    """A planned cell, and others of other seeds."""
    (first,) = plan(_SETTINGS, [], None)
    cells = [first]
    for seed in range(1, number):
        digest = sha256(str(seed).encode()).hexdigest()
        more = {"label": f"seed={seed}", "settings": {**first.settings, "seed": seed}, "number": seed + 1}
        cells.append(replace(first, digest=digest, subfolder=f"default/{digest[:16]}", **more))
    return cells


def _written(cells: list[PlannedCell], cell: Cell) -> Iterator[tuple[PlannedCell, runs.Run]]:
    """The folders of some cells, each with the numbers of one cell, which is run."""
    result = run_cells([cell])[0]
    extra = execute._circumstances(result, {}, ()) | {"made_of": cell.made_of, "effective": cell.effective}
    for one in cells:
        about = {"settings": one.settings, "digest": one.digest, "name": one.name}
        yield one, runs.write(one.folder, **about, result=result, extra=extra)


def _recorded(uri: str, cells: list[PlannedCell], run_id: str) -> None:
    """The record of the first cell again for each of the others: its row of runs and its tags."""
    with contextlib.closing(sqlite3.connect(uri.partition("///")[2])) as store, store:
        store.execute(sql.INDEX)
        for table in ("runs", "tags"):
            columns: list[str] = [row[1] for row in store.execute(f"PRAGMA table_info({table})")]
            own = {
                "run_uuid": ":run",
                "value": "CASE key WHEN 'digest' THEN :digest WHEN 'folder' THEN :folder ELSE value END",
            }
            read = ", ".join(own.get(column) or column for column in columns)
            insert = f"INSERT INTO {table} ({', '.join(columns)}) SELECT {read} FROM {table} WHERE run_uuid = :first"
            for one in cells[1:]:
                named = {"run": f"{one.number:032x}", "digest": one.digest, "folder": str(one.folder), "first": run_id}
                store.execute(insert, named)
