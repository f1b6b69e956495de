"""A sweep of very many cells on a cluster that is played (`simulated.py`): what it costs beside the work, what is lost.

The real code plans (some cells, of which the others are copies), divides into jobs, writes and reads plans, claims,
marks, resumes, launches again and audits, on real files. Played are the processes, time, the disk's latency, the
store, and the run of a cell itself: a second of work, `beside` seconds of what mqlearn does for a cell (measured),
and a file for its run folder, written in as many operations as a real one.
"""

import contextlib
import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any
from unittest import mock

from mqlearn.experiments import execute, processes
from mqlearn.experiments.plan import PlannedCell
from mqlearn.experiments.settings.cell import run_cells
from mqlearn.experiments.sweep import audit, chunks, journal, launch
from mqlearn.experiments.sweep.plan import plan
from mqlearn.experiments.sweep.states import settled
from mqlearn.experiments.sweep.sweep import Sweep
from mqlearn.storage import locks, runs

from .measuring import Row, fastest
from .simulated import Cluster, Conditions
from .yardstick import Yardstick

_SETTINGS = ("env=two_state", "iterations=200", "n_checkpoints=10", "n_seeds=4", "tracking=none", "n_workers=1")
_REQUESTS = 8  # to the store for a run
_WORK = 1.0


@dataclass
class Outcome:
    """Of a played sweep. busy: slot-seconds; took: from the first job to the last; head: CPU seconds of the command."""

    cells: int
    jobs: int
    busy: float
    took: float
    head: float
    ideal: float
    lost: int
    twice: int
    died: int  # jobs
    begun: int
    operations: int
    said: str

    @property
    def overhead(self) -> float:
        """Slot-seconds beside the work, as a share of it."""
        return self.busy / (self.cells * _WORK) - 1


def cluster(_: Yardstick) -> Iterator[Row]:
    """100,000 cells of 1 s on 1,000 slots with nodes that die; a fifth of it under other conditions."""
    beside, operations = measured_beside(), measured_operations()
    few = Conditions(slots=200)
    for name, cells, on in (
        ("deaths", 100_000, Conditions(deaths=10)),
        ("quiet", 20_000, few),
        ("slow_disk", 20_000, replace(few, deaths=2, disk=0.005)),
        ("store", 20_000, replace(few, deaths=2, store=0.005)),
        ("slow_store", 20_000, replace(few, deaths=2, store=0.05)),
    ):
        done = played(cells, on, beside, operations)
        if done.lost or done.twice:
            raise SystemExit(f"{name}: {done.lost} cells lost, {done.twice} run twice")
        told = (
            f"work of {cells} cells in {done.jobs} jobs, {done.died} of them killed; 0 lost, 0 twice; the last ended "
        )
        told += f"after {done.took:.0f} s (work alone: {done.ideal:.0f}), the command took {done.head:.0f} CPU s"
        yield Row(f"cluster_{name}", done.busy, "slot s, beside work", told, done.overhead, 0.1)


def measured_beside(number: int = 20) -> float:
    """CPU seconds that a cell takes in a job that runs already, beside its learning: cells of no work, for real."""
    with _outputs():
        cells = plan([*_SETTINGS, f"seed=range(0,{number + 1})"], [], None)
        sweep = Sweep("20000101-000000-0000", cells, "", "submitit_slurm", "skip", None, [])
        (sweep.folder / "cells").mkdir(parents=True)
        for members in (cells[:1], cells[1:]):  # the first one imports and compiles
            started = time.process_time()
            with mock.patch.dict(os.environ, _environment(sweep, sweep.write_job(members))):
                journal.job()
        used = time.process_time() - started
        learning = fastest({"cell": lambda: run_cells([cells[0].cell])}, turns=3)["cell"]
        return max(0.0, used / number - learning)


def measured_operations() -> int:
    """Operations on the disk for the run folder of a cell: those that Python tells of, and two to flush a file."""
    with _outputs() as outputs:
        (cell,) = plan(_SETTINGS, [], None)
        result = run_cells([cell.cell])[0]
        on = Cluster(Conditions(), str(outputs), lambda: None, 1.0)
        with mock.patch.object(runs, "flush", lambda _: on.disk(2)), on.counting():
            runs.write(cell.folder, settings=cell.settings, digest=cell.digest, name=cell.name, result=result)
        return on.operations


def played(cells: int, on: Conditions, beside: float, operations: int) -> Outcome:
    """A sweep of so many cells under some conditions, with the CPU seconds and disk operations of each."""
    begun, ended = Counter[str](), Counter[str]()
    with _outputs() as outputs:
        sweep = Sweep("20000101-000000-0000", _planned(cells), "", "submitit_slurm", "skip", None, [])
        chosen = {"hydra.launcher.array_parallelism": str(on.slots)}
        sweep.per_job = chunks.size(sweep.cells, sweep.launcher, chunks.AUTO, chosen)
        (sweep.folder / "cells").mkdir(parents=True)
        (sweep.cells[0].folder.parent).mkdir(parents=True)
        ideal = cells * _WORK / on.slots
        played_on = Cluster(on, str(outputs), journal.job, ideal)

        def perform(_settings: Any, folder: Path, planned: Any, _plan: Any) -> runs.Run:
            begun[planned["digest"]] += 1
            played_on.sleep(beside + _WORK)
            played_on.disk(operations)
            folder.write_text(planned["digest"])
            ended[planned["digest"]] += 1
            played_on.sleep(0.0)  # a node may die between the run and what is said of it
            return _run(folder)

        def deliver(_: Any, run: runs.Run, **_more: Any) -> tuple[runs.Run, None]:
            played_on.sleep(_REQUESTS * on.store)
            return run, None

        with _played_by(played_on, perform, deliver):
            started = time.process_time()
            sweep.write_plan()
            in_jobs = time.process_time()
            launched = len(sweep.cells) / sweep.per_job
            launch._carry_out(sweep, played_on.launch)
            out_of_jobs = time.process_time()
            states = settled(sweep, outputs)
            said = audit.summary(sweep, states)
            head = time.process_time() - out_of_jobs + in_jobs - started
        there = sum(1 for _ in sweep.cells[0].folder.parent.iterdir())
        finished = sum(state["state"] == "done" for state in states.values())
    return Outcome(
        cells, -int(-launched // 1), played_on.busy, played_on.ended, head, ideal,
        lost=cells - min(there, finished), twice=sum(number > 1 for number in ended.values()), died=played_on.killed,
        begun=begun.total(), operations=played_on.operations, said=said,
    )  # fmt: skip


def _planned(number: int) -> list[PlannedCell]:
    """As many cells: some that were planned, and copies of them with other seeds and digests."""
    first = plan([*_SETTINGS, f"seed=range(0,{min(number, 20)})"], [], None)
    cells = []
    for seed in range(number):
        one = first[seed % len(first)]
        digest = sha256(str(seed).encode()).hexdigest()
        settings = {**one.settings, "seed": seed}
        more = {"label": f"seed={seed}", "settings": settings, "subfolder": f"default/{digest[:16]}"}
        cells.append(replace(one, number=seed + 1, digest=digest, seconds=_WORK, **more))
    return cells


def _run(folder: Path) -> runs.Run:
    summary = {"digest": folder.read_text(), "name": "", "status": "finished", "diverged": {}, "final": {}}
    return runs.Run(folder, summary | {"seconds": _WORK, "mlflow_run_id": None, "findings": [], "warnings": []})


@contextlib.contextmanager
def _played_by(on: Cluster, perform: Any, deliver: Any) -> Iterator[None]:
    """The real code with what is played in its place."""

    def there(folder: Path, digest: str | None = None, *_: Any) -> runs.Run | None:
        run = _run(folder) if folder.is_file() else None
        return run if run is None or digest in (None, run.digest) else None

    release, mark, record_killed = locks._release, journal.mark, journal.record_killed

    def released(path: Path, descriptor: int | None) -> None:
        if on.dying and descriptor is not None:
            os.close(descriptor)
        else:
            release(path, descriptor)

    def living(handler: Any) -> Any:
        return lambda *arguments, **named: None if on.dying else handler(*arguments, **named)

    with contextlib.ExitStack() as stack:
        for place, name, new in (
            (journal, "_run", perform),
            (execute, "finished", lambda folder, digest, _: there(folder, digest)),
            (execute.Tracker, "deliver", deliver),
            (runs, "look", lambda folder, *more: (there(folder, *more), "")),
            (runs, "complete", there),
            (os, "fsync", lambda _: on.disk()),
            (locks, "_release", released),
            (journal, "mark", living(mark)),
            (journal, "record_killed", living(record_killed)),
            (processes, "submitted", lambda _: contextlib.nullcontext(mock.Mock())),
            (chunks, "most_jobs", lambda _: 1000),
        ):
            stack.enter_context(mock.patch.object(place, name, new))
        yield


@contextlib.contextmanager
def _outputs() -> Iterator[Path]:
    """An outputs folder in memory, where the system has one: the disk's time is played."""
    memory = Path("/dev/shm")
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None))
        stack.enter_context(mock.patch.dict(os.environ, {"MQLEARN_OUTPUTS": folder}))
        yield Path(folder)


def _environment(sweep: Sweep, job: Path) -> dict[str, str]:
    return {journal.SWEEP: str(sweep.folder), journal.JOB: str(job)}
