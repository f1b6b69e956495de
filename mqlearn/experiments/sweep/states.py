"""What state a cell is in, decided in one place: for `mqlearn status`, and for the table and the audit of a sweep.

What is kept of its run comes first, a process that is at it second, and what was said of it last.
"""

import contextlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mqlearn.experiments import execute
from mqlearn.experiments.settings import identity
from mqlearn.experiments.sweep import journal
from mqlearn.experiments.sweep.sweep import Sweep
from mqlearn.storage import locks, looked, runs
from mqlearn.storage.store import Recorded

WORDS = ("finished", "diverged", "running", "failed", "killed", "damaged", "missing")


class State(NamedTuple):
    """word: one of WORDS. error: why it failed, was killed or is damaged. run: the whole run on this disk, if it was
    read. diverged: seed -> iteration, of a run on this disk."""

    word: str
    error: str | None = None
    run: runs.Run | None = None
    diverged: Mapping[int, int] = {}


class Disk:
    """What is in an outputs folder: each folder of runs, and that of the claims, is listed once.

    known: which runs need not be read again, if any.
    """

    def __init__(self, outputs: Path, known: looked.Looked | None = None) -> None:
        self._names: dict[str, frozenset[str]] = {}
        self._locks = locks.folder(outputs)
        self._claims = frozenset(_listed(self._locks))
        self._known = known

    def has(self, folder: str) -> bool:
        """Whether there is anything of this name."""
        parent, _, name = folder.rpartition("/")
        if parent not in self._names:
            self._names[parent] = frozenset(_listed(Path(parent)))
        return not name or name in self._names[parent]

    def run(self, cell: Mapping[str, Any], *, now: bool = False) -> tuple[State | None, str]:
        """The whole run of a cell, else what is wrong with its folder.   now: also if it was made since the listing."""
        folder, digest = cell["folder"], cell["digest"]
        if not (now or self.has(folder)):
            return None, ""
        if self._known is not None and (known := self._known.run(folder, digest)):
            return State(known[0], diverged=known[1]), ""
        run, damage = runs.look(Path(folder), digest, identity.digest_of)
        if run is None:
            return None, damage
        if self._known is not None:
            self._known.keep(folder, digest, run)
        return State(run.status, run=run, diverged=run.diverged), ""

    def is_claimed(self, cell: Mapping[str, Any]) -> bool:
        """Whether a process is at a cell now, or was when this began and still is."""
        words = execute.claim(cell["experiment"], cell["digest"])
        return locks.name(words) in self._claims and locks.is_claimed(self._locks, *words)


def _listed(folder: Path) -> list[str]:
    with contextlib.suppress(OSError, ValueError):
        return [entry.name for entry in os.scandir(folder)]
    return []


def state(
    disk: Disk,
    cell: Mapping[str, Any],
    tell: Callable[[], Mapping[str, Any]],
    stored: Recorded | None = None,
    *,
    ended: bool = False,
) -> State:
    """The state of a cell of a plan (`digest`, `experiment`, `folder`).

    tell: what its job said (`journal.states`), asked where nothing else decides. stored: its run in the store. ended:
    whether the sweep that said it is over.
    """
    run, damage = disk.run(cell)
    if run is not None:
        return run
    if stored is not None and stored.status == "FINISHED" and not damage:
        return State(stored.outcome or "finished")
    if disk.is_claimed(cell):
        return State("running")
    said = tell()
    if said.get("state") == "done" and (made := disk.run(cell, now=True)[0]) is not None:
        return made
    if said.get("state") == "running":
        return State("killed", "its process died") if ended or not journal.alive(said) else State("running")
    if said.get("state") in ("failed", "killed"):
        return State(said["state"], said.get("error"))
    if damage:
        return State("damaged", f"{cell['folder']}: {damage}")
    if stored is not None and stored.status in ("FAILED", "KILLED"):
        return State(stored.status.lower(), stored.error or None)
    return State("missing")  # among these: states that say done, of runs whose files and record are gone


def settled(sweep: Sweep, outputs: Path) -> dict[int, dict[str, Any]]:
    """What is told of each cell that a sweep was to run and began, by number, now that it has ended."""
    told = sweep.told()
    disk = Disk(outputs)
    for one in sweep.missing:
        said = told.get(one.number, {})
        if said.get("state") == "done" and one.number not in sweep.damaged:
            continue
        cell = {"experiment": one.experiment, "digest": one.digest, "folder": str(one.folder)}
        now = state(disk, cell, lambda said=said: said, ended=True)
        if now.run is not None:
            told[one.number] = {**said, **journal.outcome(now.run), "state": "done"}
        elif now.word != "missing" and said:
            told[one.number] = {**said, "state": now.word, "error": now.error or said.get("error", "")}
    return told
