"""Whole commands: the figures, and sweeps."""

import contextlib
import ctypes
import json
import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from mqlearn.experiments.settings import compose
from mqlearn.experiments.settings.cell import build, run_cells

from .measuring import Row, fastest
from .yardstick import Yardstick

# Seconds that are wanted of a figure: from nothing, and drawn again.
FIGURES: dict[str, dict[str, float]] = {"figure1": {"": 30, "_redrawn": 6}, "figure2": {"": 240}}


def figure1(_: Yardstick) -> Iterator[Row]:
    yield from _figure("figure1")


def figure2(_: Yardstick) -> Iterator[Row]:
    yield from _figure("figure2")
    used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024**2
    yield Row("figure2_memory", used, "GB", "wanted 1 GB", used, 1)


def _figure(name: str) -> Iterator[Row]:
    """Wall time of the command in a fresh outputs folder; what it runs has been compiled before."""
    with tempfile.TemporaryDirectory() as outputs:
        for suffix, limit in FIGURES[name].items():
            seconds, cpu = of_command(outputs, "figure", name)
            yield Row(name + suffix, seconds, "s", f"wanted {limit:g} s, with {cpu:.3g} CPU s", seconds / limit, 1)


def sweep(_: Yardstick) -> Iterator[Row]:
    """CPU time of the commands with all their workers. What each sweep spends once falls out of a difference."""
    with tempfile.TemporaryDirectory() as outputs:

        def cpu(*arguments: str) -> float:
            return _cpu(outputs, *arguments)

        settings = ("n_checkpoints=20", "iterations=30000", "n_workers=1")

        def cells(first: int, last: int) -> float:
            launcher = ("hydra/launcher=joblib", "hydra.launcher.n_jobs=2")
            return cpu("run", "-m", f"seed=range({first},{last})", *settings, *launcher)

        cells(0, 4)  # makes the store
        few, many = cells(4, 24), cells(24, 84)
        cell = build(compose.compose(settings))
        own = fastest({"cell": lambda: run_cells([cell])})["cell"]
        each = (many - few) / 40 - own
        yield Row("sweep_cell", each, "CPU s a cell", f"wanted 0.25 s beyond its run of {own:.2g} s", each / 0.25, 1)
        cells(84, 200)
        skipped = cells(0, 200)
        yield Row("sweep_skip", skipped, "CPU s", "wanted 20 s for 200 finished cells", skipped / 20, 1)
        _copy_runs(Path(outputs) / "mlflow.db", copies=4)
        shown = cpu("status", "experiment.name=default", "--json", f"{outputs}/status.json")
        counted = json.loads((Path(outputs) / "status.json").read_text())["done"]
        if counted != 1000:
            raise SystemExit(f"status counts {counted} runs instead of 1,000")
        yield Row("sweep_status", shown, "CPU s", "wanted 2 s for 1,000 runs", shown / 2, 1)


def timed(run: Callable[[], float]) -> tuple[float, float]:
    """Seconds that pass, and those of CPU, which `run` returns."""
    started = time.perf_counter()
    cpu = run()
    return time.perf_counter() - started, cpu


def of_command(outputs: str, *arguments: str) -> tuple[float, float]:
    """`timed` of a command line with its outputs in a folder."""
    return timed(lambda: _cpu(outputs, *arguments))


def _cpu(outputs: str, *arguments: str) -> float:
    return cpu_seconds([Path(sys.executable).parent / "mqlearn", *arguments], None, {"MQLEARN_OUTPUTS": outputs})


def cpu_seconds(command: Sequence[str | Path], folder: Path | None, variables: Mapping[str, str]) -> float:
    """CPU seconds of a command in a folder, and of all processes that it started, waited for or not."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: orphans become ours
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, **variables}
    environment.pop("MLFLOW_TRACKING_URI", None)
    null = subprocess.DEVNULL
    subprocess.run(command, cwd=folder, env=environment, check=True, stdout=null, stderr=null)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _copy_runs(database: Path, copies: int) -> None:
    """Each run of a store again, with a digest of its own."""
    with contextlib.closing(sqlite3.connect(database)) as store, store:
        for table in ("runs", "tags"):
            columns = [row[1] for row in store.execute(f"PRAGMA table_info({table})")]
            kept = [column for column in columns if column != "run_uuid"]
            read = [
                "CASE key WHEN 'digest' THEN ? || substr(value, 2) ELSE value END" if column == "value" else column
                for column in kept
            ]
            rows = f"SELECT ? || substr(run_uuid, 2), {', '.join(read)} FROM {table} WHERE run_uuid NOT GLOB '[G-P]*'"
            for copy in range(copies):
                mark = "GHIJKLMNOP"[copy]  # no digest and no run has these letters
                marks = (mark,) * (1 + ("value" in kept))
                store.execute(f"INSERT INTO {table} (run_uuid, {', '.join(kept)}) {rows}", marks)
