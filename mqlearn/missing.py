"""Run what is missing of a plan: cells side by side in processes, while the runs that have ended are tracked here."""

import math
import multiprocessing
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mqlearn import cells, config, lookup, processes, runs
from mqlearn.arguments import refuse_finished
from mqlearn.plans import Plan, Planned
from mqlearn.progress import Progress

_WORTH_PROCESSES = 8.0  # estimated seconds of work; a process starts in about two
_LOOK = 0.5  # seconds between looks at what the processes have done
_SPAWN = multiprocessing.get_context("spawn")  # threads run here already: a fork could hang
_counted: Any = None  # in one of the processes: see `_begin`
_TOGETHER = 4  # runs that share samples, at most: an interruption loses all that one process is at


def finished(planned: Plan, existing: str = "skip") -> dict[str, runs.Run]:
    """The finished run of every cell by digest; what is missing is run first.

    existing: what to do with cells that are finished: skip | rerun | error, a SettingError before anything runs.
    """
    outputs = config.outputs_folder()
    track = cells.tracker(planned.settings)
    by_digest = {one.cell.digest: one for one in planned.cells}
    done: dict[str, runs.Run] = {}
    if existing != "rerun":
        done = lookup.finished(outputs, track.experiment, store=track.uri, digests=list(by_digest))
    if existing == "error":
        refuse_finished(len(done), len(by_digest))
    missing = [one for digest, one in by_digest.items() if digest not in done]
    if not missing:
        return done
    seconds = _seconds(missing)
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
    groups = _groups(missing, min(_TOGETHER, -(-len(missing) // side_by_side)))
    folders = {one.cell.digest: outputs / "runs" / one.cell.subfolder for one in missing}
    if side_by_side == 1 or _seconds(missing) < _WORTH_PROCESSES:
        for group in groups:
            others = f" and {len(group) - 1} more" if len(group) > 1 else ""
            label = f"{planned.name}, {group[0].panel}, {group[0].label}{others}"
            some = [(one.cell, folders[one.cell.digest]) for one in group]
            yield from zip(group, cells.perform_together(some, cells.UNTRACKED, label), strict=True)
        return
    counted = _SPAWN.Value("Q", 0)  # iterations that the processes have done
    total = sum(one.cell.settings["iterations"] for one in missing)
    with _pool(side_by_side, counted) as pool, Progress(planned.name, total) as progress:
        groups.sort(key=lambda group: -_seconds(group))  # so that they end together
        jobs = {}
        for number, group in enumerate(groups, 1):
            # The last ones have a thread a core: each that ends leaves its core to the others.
            threads = 1 if number <= len(groups) - side_by_side else None
            some = [(one.cell.settings | {"n_workers": threads}, folders[one.cell.digest]) for one in group]
            jobs[pool.submit(_job, some)] = group
        warned: Counter[str] = Counter()
        running = set(jobs)
        while running:
            ended, running = wait(running, timeout=_LOOK, return_when=FIRST_COMPLETED)
            progress(counted.value, math.nan)
            for job in ended:
                for one, run in zip(jobs[job], job.result(), strict=True):
                    warned.update(run.summary["warnings"])
                    yield one, run
    for text, number in warned.items():  # said once, not in the midst of other processes' lines
        sys.stderr.write(f"warning: {text} ({number} of {len(missing)} runs)\n")


def _groups(some: Sequence[Planned], most: int) -> list[list[Planned]]:
    """Cells that learn from the same samples, at most so many together; each other cell alone."""
    alike: dict[str, list[Planned]] = {}
    for one in some:
        alike.setdefault(one.cell.samples or one.cell.digest, []).append(one)
    return [group[i : i + most] for group in alike.values() for i in range(0, len(group), most)]


def _seconds(some: Sequence[Planned]) -> float:
    return sum(cells.estimated_seconds(one.cell) for one in some)


def _job(some: Sequence[tuple[dict[str, Any], Path]]) -> list[runs.Run]:
    built = [(config.build(settings), folder) for settings, folder in some]
    told = 0

    def count(k: int, _: float) -> None:
        nonlocal told
        with _counted.get_lock():
            _counted.value += (k - told) * len(built)
        told = k

    return cells.perform_together(built, cells.UNTRACKED, "", quiet=True, progress=count)


def _begin(counted: Any) -> None:
    """In a new process: only the one that started it is interrupted, and told of iterations."""
    global _counted
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _counted = counted


@contextmanager
def _pool(number: int, counted: Any) -> Iterator[ProcessPoolExecutor]:
    """Processes that end with this one, and at once when it is interrupted."""
    before = os.environ.get(cells.COMMAND)
    os.environ[cells.COMMAND] = cells.command()
    try:
        with processes.ending_promptly(lambda: None):
            pool = ProcessPoolExecutor(number, _SPAWN, initializer=_begin, initargs=(counted,))
            try:
                yield pool
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
    finally:
        if before is None:
            del os.environ[cells.COMMAND]


def _report(started: float, number: int, total: int, label: str) -> None:
    text = f"{label}: done, {time.monotonic() - started:.0f} s elapsed"
    live = sys.stderr.isatty()
    sys.stderr.write(f"\r\033[K{text[:150]}{chr(10) if number == total else ''}" if live else f"{text}\n")
    sys.stderr.flush()
