"""Run what is missing of a plan: cells side by side in processes, while the runs that have ended are tracked here."""

import multiprocessing
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from mqlearn import cells, config, processes, runs
from mqlearn.arguments import refuse_finished
from mqlearn.plans import Plan, Planned

_WORTH_PROCESSES = 8.0  # estimated seconds of work; a process starts in about two


def finished(planned: Plan, existing: str = "skip") -> dict[str, runs.Run]:
    """The finished run of every cell by digest; what is missing is run first.

    existing: what to do with cells that are finished: skip | rerun | error, a SettingError before anything runs.
    """
    outputs = config.outputs_folder()
    track = cells.tracker(planned.settings)
    by_digest = {one.cell.digest: one for one in planned.cells}
    done: dict[str, runs.Run] = {}
    if existing != "rerun":
        done = runs.select(outputs, track.experiment, store=track.uri, digests=list(by_digest))
    if existing == "error":
        refuse_finished(len(done), len(by_digest))
    missing = [one for digest, one in by_digest.items() if digest not in done]
    if not missing:
        return done
    seconds = sum(cells.estimated_seconds(one.cell) for one in missing)
    sys.stderr.write(
        f"{planned.name}: {len(done)} of {len(by_digest)} runs are finished, {len(missing)} to run, "
        f"roughly {max(1, round(seconds))} s of one core\n"
    )
    started = time.monotonic()
    with ThreadPoolExecutor(1) as tracking:
        tracking.submit(cells.quietly, track.prepare)  # MLflow's import takes seconds
        pending: list[tuple[str, Future[Any]]] = []
        for number, (one, run) in enumerate(_performed(planned, missing, outputs), 1):
            pending.append((one.cell.digest, tracking.submit(track.log, run)))
            _report(started, number, len(missing), f"{planned.name} {number}/{len(missing)} {one.panel}, {one.label}")
        return done | {digest: logged.result() for digest, logged in pending}


def _performed(planned: Plan, missing: Sequence[Planned], outputs: Path) -> Iterator[tuple[Planned, runs.Run]]:
    """Cells with their runs as these end: one after the other here, or if it is worth it in a process a core."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    side_by_side = min(cores, len(missing)) if planned.settings["n_workers"] is None else 1
    folders = {one.cell.digest: outputs / "runs" / one.cell.subfolder for one in missing}
    if side_by_side == 1 or sum(cells.estimated_seconds(one.cell) for one in missing) < _WORTH_PROCESSES:
        for one in missing:
            label = f"{planned.name}, {one.panel}, {one.label}"
            yield one, cells.perform(one.cell, folders[one.cell.digest], cells.UNTRACKED, label)
        return
    with _pool(side_by_side) as pool:
        ordered = sorted(missing, key=lambda one: -cells.estimated_seconds(one.cell))  # so that they end together
        jobs = {}
        for number, one in enumerate(ordered, 1):
            # The last ones have a thread a core: each that ends leaves its core to the others.
            threads = 1 if number <= len(ordered) - side_by_side else None
            jobs[pool.submit(_job, one.cell.settings | {"n_workers": threads}, folders[one.cell.digest])] = one
        warned: Counter[str] = Counter()
        for job in as_completed(jobs):
            warned.update(job.result().summary["warnings"])
            yield jobs[job], job.result()
    for text, number in warned.items():  # said once, not in the midst of other processes' lines
        sys.stderr.write(f"warning: {text} ({number} of {len(missing)} runs)\n")


def _job(settings: dict[str, Any], folder: Path) -> runs.Run:
    return cells.perform(config.build(settings), folder, cells.UNTRACKED, quiet=True)


@contextmanager
def _pool(number: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that end with this one, and at once when it is interrupted."""
    before = os.environ.get(cells.COMMAND)
    os.environ[cells.COMMAND] = cells.command()
    spawn = multiprocessing.get_context("spawn")  # threads run here already: a fork could hang
    try:
        with processes.ending_promptly(lambda: None):
            pool = ProcessPoolExecutor(number, spawn, initializer=partial(signal.signal, signal.SIGINT, signal.SIG_IGN))
            try:
                yield pool
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
    finally:
        if before is None:
            del os.environ[cells.COMMAND]


def _report(started: float, number: int, total: int, label: str) -> None:
    elapsed = time.monotonic() - started
    left = elapsed / number * (total - number)
    text = f"{label}: done, {elapsed:.0f} s elapsed, about {left:.0f} s left"
    live = sys.stderr.isatty()
    sys.stderr.write(f"\r\033[K{text[:150]}{chr(10) if number == total else ''}" if live else f"{text}\n")
    sys.stderr.flush()
