"""Run what is missing of a plan: cells side by side in processes or threads, while runs that have ended are tracked."""

import math
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from mqlearn.algorithms.rule import Rule
from mqlearn.experiments import execute, processes, provenance
from mqlearn.experiments.plan import Plan, PlannedCell, refuse_finished
from mqlearn.experiments.presentation.names import plain_label
from mqlearn.experiments.progress import COMPILING, Progress, duration
from mqlearn.experiments.settings import identity
from mqlearn.experiments.settings.cell import build
from mqlearn.paths import cores, outputs_folder
from mqlearn.problems.mdp import FiniteMDP
from mqlearn.storage import lookup, runs

Group = Sequence[PlannedCell]  # cells of the same samples, or one cell
Runs = Iterator[tuple[PlannedCell, runs.Run]]

_WORTH_PROCESSES = 8.0  # estimated seconds of work; a process starts in about two
_LONG = 60.0  # from here on that is nothing; in less, cells that need no process of their own are done by threads
_LOOK = 0.5  # seconds between looks at what the processes have done
_counted: Any = None  # in one of the processes: iterations done, by group
_TOGETHER = 4  # runs that share samples, at most: an interruption loses all that one process is at,
_SHORT_TOGETHER = 8  # which is nothing where all are done within a minute


def finished(planned: Plan, existing: str = "skip") -> dict[str, runs.Run]:
    """The finished run of every cell by digest; what is missing is run first.

    existing: what to do with cells that are finished: skip | rerun | error, a SettingError before anything runs.
    """
    outputs = outputs_folder()
    track = execute.tracker(planned.settings)
    by_digest = {one.digest: one for one in planned.cells}
    done: dict[str, runs.Run] = {}
    if existing != "rerun":
        done = lookup.finished_or_on_disk(
            outputs, track.experiment, store=track.uri, digests=list(by_digest), digest_of=identity.digest_of
        )
        for digest, problem in _damaged(by_digest.values(), outputs).items():
            done.pop(digest, None)
            sys.stderr.write(f"{planned.name}: a damaged run is made again: {problem}\n")
    if existing == "error":
        refuse_finished(len(done), len(by_digest))
    missing = [one for digest, one in by_digest.items() if digest not in done]
    if not missing:
        return done
    seconds = _seconds(missing)
    sys.stderr.write(
        f"{planned.name}: {len(done)} of {len(by_digest)} runs are finished, {len(missing)} to run, "
        f"roughly {duration(seconds)} of one core, {COMPILING}\n"
    )
    started = time.monotonic()
    with ThreadPoolExecutor(1) as tracking:
        tracking.submit(execute.quietly, track.prepare)  # MLflow's import takes seconds
        pending: list[tuple[str, Future[Any]]] = []
        again = existing == "rerun"
        for number, (one, run) in enumerate(_performed(planned, missing, outputs, again), 1):
            tags = {"cell": plain_label(one.label), "group": one.panel}
            pending.append((one.digest, tracking.submit(track.log, run, again=again, tags=tags)))
            _report(
                started,
                number,
                len(missing),
                f"{planned.name} {number}/{len(missing)} {one.panel}, {plain_label(one.label)}",
            )
        return done | {digest: logged.result() for digest, logged in pending}


def _damaged(some: Iterable[PlannedCell], outputs: Path) -> dict[str, str]:
    """What is wrong with the folders of cells, by digest; of those with which something is."""
    places = {one.digest: outputs / "runs" / one.cell.subfolder for one in some}
    looks = {digest: runs.look(place, digest, identity.digest_of)[1] for digest, place in places.items()}
    return {digest: f"{places[digest]}: {problem}" for digest, problem in looks.items() if problem}


def _performed(planned: Plan, missing: Sequence[PlannedCell], outputs: Path, again: bool) -> Runs:
    """Cells with their runs as these end: one after the other here, or in a thread or a process a core."""
    side_by_side = min(cores(), len(missing)) if planned.settings["n_workers"] is None else 1
    in_threads = _seconds(missing) < _LONG and all(map(_in_kernels, missing))
    groups = _groups(missing, min(_SHORT_TOGETHER if in_threads else _TOGETHER, -(-len(missing) // side_by_side)))
    folders = {one.digest: outputs / "runs" / one.cell.subfolder for one in missing}
    with Progress(planned.name, sum(one.settings["iterations"] for one in missing)) as progress:
        if side_by_side == 1 or _seconds(missing) < _WORTH_PROCESSES:
            yield from _here(groups, folders, progress, again)
        elif in_threads:
            yield from _in_threads(groups, folders, progress, side_by_side, again)
        else:
            yield from _in_processes(groups, folders, progress, side_by_side, again)


def _here(groups: Sequence[Group], folders: Mapping[str, Path], progress: Progress, again: bool) -> Runs:
    before = 0

    def perform(some: Group) -> list[runs.Run]:
        def tell(k: int, error: float) -> None:
            progress(before + k * len(some), error)

        placed = [(one.cell, folders[one.digest]) for one in some]
        return execute.perform_missing(placed, again=again, progress=tell)

    for group in groups:
        yield from _each(group, partial(perform, group), perform)
        before += sum(one.settings["iterations"] for one in group)


def _in_processes(
    groups: Sequence[Group], folders: Mapping[str, Path], progress: Progress, side_by_side: int, again: bool
) -> Runs:
    ordered = sorted(groups, key=lambda group: -_seconds(group))  # so that they end together
    counted = processes.SPAWN.RawArray("Q", len(ordered))  # iterations done, by group
    with _pool(side_by_side, counted) as pool:

        def submit(some: Group, number: int) -> Future[list[runs.Run]]:
            # The last ones have a thread a core: each that ends leaves its core to the others.
            more = {"n_workers": 1 if number < len(ordered) - side_by_side else None}
            placed = [(one.settings | more, folders[one.digest]) for one in some]
            return pool.submit(_job, placed, number, again)

        yield from _as_they_end(ordered, submit, counted, progress)


def _in_threads(
    groups: Sequence[Group], folders: Mapping[str, Path], progress: Progress, side_by_side: int, again: bool
) -> Runs:
    ordered = sorted(groups, key=lambda group: -_seconds(group))
    counted = [0] * len(ordered)

    def perform(some: Group, number: int) -> list[runs.Run]:
        def count(k: int, _: float) -> None:
            counted[number] = k * len(some)

        placed = [(build(one.settings | {"n_workers": 1}), folders[one.digest]) for one in some]
        return execute.perform_missing(placed, again=again, quiet=True, progress=count)

    with processes.ending_promptly(lambda: None), ThreadPoolExecutor(side_by_side) as pool:
        try:
            yield from _as_they_end(ordered, partial(pool.submit, perform), counted, progress)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # after an error no other cell is begun


def _as_they_end(
    ordered: Sequence[Group],
    submit: Callable[[Group, int], Future[list[runs.Run]]],
    counted: Sequence[int],
    progress: Progress,
) -> Runs:
    """The runs of groups that are made elsewhere, while what is counted there is told."""
    warned: Counter[str] = Counter()

    def perform(some: Group, number: int) -> list[runs.Run]:
        return submit(some, number).result()

    jobs = {submit(group, number): number for number, group in enumerate(ordered)}
    running = set(jobs)
    while running:
        ended, running = wait(running, timeout=_LOOK, return_when=FIRST_COMPLETED)
        if done := sum(counted):
            progress(done, math.nan)
        for job in ended:
            for one, run in _each(ordered[jobs[job]], job.result, partial(perform, number=jobs[job])):
                warned.update(found.text for found in run.findings)
                yield one, run
    for text, number in warned.items():  # said once, not in the midst of other cells' lines
        sys.stderr.write(f"warning: {text} ({number} of {sum(map(len, ordered))} runs)\n")


def _in_kernels(one: PlannedCell) -> bool:
    """Whether a cell spends nearly all of its time in kernels, which hold no lock of the interpreter."""
    cell = one.cell
    with_model = isinstance(cell.mdp, FiniteMDP) and cell.run_arguments["sampling"].all_pairs
    return with_model and isinstance(cell.rule, Rule) and not (cell.settings["metrics"] or cell.settings["plugins"])


def _each(group: Group, together: Callable[[], list[runs.Run]], perform: Callable[[Group], list[runs.Run]]) -> Runs:
    """The runs of a group. If it fails, each of them alone: one that fails must not cost the others. Then raises."""
    try:
        made = together()
    except Exception:
        if len(group) == 1:
            raise
    else:
        yield from zip(group, made, strict=True)
        return
    failed: Exception | None = None
    for one in group:
        try:
            (run,) = perform([one])
        except Exception as error:
            failed = failed or error
        else:
            yield one, run
    if failed is not None:
        raise failed


def _groups(some: Sequence[PlannedCell], most: int) -> list[Group]:
    """Cells that learn from the same samples, at most so many together and about as many in each; others alone."""
    alike: dict[str, list[PlannedCell]] = {}
    for one in some:
        alike.setdefault(one.cell.samples_key or one.digest, []).append(one)
    of_each = [(group, -(-len(group) // -(-len(group) // most))) for group in alike.values()]
    return [group[i : i + size] for group, size in of_each for i in range(0, len(group), size)]


def _seconds(some: Sequence[PlannedCell]) -> float:
    return sum(one.seconds for one in some)


def _job(some: Sequence[tuple[dict[str, Any], Path]], number: int, again: bool) -> list[runs.Run]:
    built = [(build(settings), folder) for settings, folder in some]

    def count(k: int, _: float) -> None:
        _counted[number] = k * len(built)

    with processes.busy:
        return execute.perform_missing(built, again=again, quiet=True, progress=count)


def _begin(counted: Any, parent: int) -> None:
    """In a new process: only the one that started it is interrupted, and told of iterations."""
    global _counted
    processes.begin(parent)
    _counted = counted


@contextmanager
def _pool(number: int, counted: Any) -> Iterator[ProcessPoolExecutor]:
    """`processes.pool`, in which commands are recorded as this one."""
    before = os.environ.get(provenance.COMMAND)
    os.environ[provenance.COMMAND] = provenance.command()
    try:
        with processes.pool(number, _begin, counted, os.getpid()) as pool:
            yield pool
    finally:
        if before is None:
            del os.environ[provenance.COMMAND]


def _report(started: float, number: int, total: int, label: str) -> None:
    text = f"{label}: done, {time.monotonic() - started:.0f} s elapsed"
    live = sys.stderr.isatty()
    sys.stderr.write(f"\r\033[K{text[:150]}{chr(10) if number == total else ''}" if live else f"{text}\n")
    sys.stderr.flush()
