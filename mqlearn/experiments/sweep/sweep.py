"""A sweep: its cells, which of them are done, and what is recorded of it."""

import contextlib
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from mqlearn.experiments.plan import PlannedCell
from mqlearn.experiments.presentation.names import plain_label
from mqlearn.experiments.provenance import versions
from mqlearn.experiments.settings import identity
from mqlearn.experiments.settings.override_commands import command
from mqlearn.experiments.sweep import index, journal
from mqlearn.experiments.sweep.told import Told
from mqlearn.paths import outputs_folder
from mqlearn.storage import formats, runs


@dataclass
class Sweep:
    """A sweep under way."""

    id: str
    cells: list[PlannedCell]
    command: str
    launcher: str
    existing: str
    config_dir: str | None
    added: list[str]  # overrides that all jobs get
    done: dict[int, runs.Run] = field(default_factory=dict)  # before it began, by number
    per_job: int = 1  # cells that a job of the launcher carries out
    damaged: dict[int, str] = field(default_factory=dict)  # what was wrong with folders that are made again, by number
    problems: list[str] = field(default_factory=list)
    deleted: set[int] = field(default_factory=set)  # of `done`, whose records were deleted in the store
    untracked: bool = False  # whether a run is whole and not in its store, or nobody knows
    unwritten: dict[int, dict[str, Any]] = field(default_factory=dict)  # states that the disk did not take, by number

    @property
    def folder(self) -> Path:
        return journal.sweeps(outputs_folder()) / self.id

    @property
    def missing(self) -> list[PlannedCell]:
        return [one for one in self.cells if one.number not in self.done]

    def tell(self, one: PlannedCell, state: str, **more: Any) -> None:
        """`journal.mark`, but nothing is lost where the disk is full."""
        try:
            journal.mark(self.folder, one.record(), state, **more)
        except OSError:
            self.unwritten[one.number] = {"state": state, **more}

    def told(self) -> dict[int, dict[str, Any]]:
        """What was said last of each cell that was begun, by number."""
        return self.said.states() | self.unwritten

    @cached_property
    def said(self) -> Told:
        """What is known of its states."""
        return Told(self.folder)

    @cached_property
    def labels(self) -> dict[int, str]:
        """By number: the name of a cell, with what was swept where several cells have that name."""
        names = journal.told_apart([(one.name, plain_label(one.label)) for one in self.cells])
        return {one.number: name for one, name in zip(self.cells, names, strict=True)}

    def place(self, one: PlannedCell) -> Path:
        """The folder of a cell's run: where it is, if it was done before, else where it is to be."""
        done = self.done.get(one.number)
        return one.folder if done is None else done.folder

    def rerun(self, one: PlannedCell) -> str:
        """The command line that runs just this cell."""
        own = [text for text in one.overrides if not _is_hydra(text)]
        return command("run", own, self.config_dir)

    def record(self, one: PlannedCell) -> dict[str, Any]:
        """What plan.json holds of a cell."""
        kept = one.record() | {"folder": str(self.place(one)), "command": self.rerun(one)}
        kept |= {"done_before": one.number in self.done, "tracked": one.uri is not None}
        done = self.done.get(one.number)
        return kept | ({"diverged": done.diverged} if done is not None and done.diverged else {})

    def write_plan(self, **more: Any) -> None:
        """plan.json: all cells; and its index."""
        records = list(map(self.record, self.cells))
        path = self._write(journal.PLAN, records, **more)
        with contextlib.suppress(OSError):
            index.write(path, self._head() | more, records)

    def write_job(self, members: Sequence[PlannedCell]) -> Path:
        """A plan of some cells alone, for the job that carries them out."""
        (self.folder / journal.JOBS).mkdir(exist_ok=True)
        return self._write(f"{journal.JOBS}/{members[0].number}.json", list(map(self.record, members)))

    def _write(self, name: str, records: Sequence[dict[str, Any]], **more: Any) -> Path:
        journal.write_plan(self.folder / name, self._head() | more, records)
        return self.folder / name

    def _head(self) -> dict[str, Any]:
        head = {"id": self.id, "started": journal.now(), "command": self.command, "launcher": self.launcher}
        head |= {"existing": self.existing, "pid": os.getpid(), "host": socket.gethostname()}
        return head | {"digest_version": identity.DIGEST_VERSION, formats.KEY: formats.FORMAT, "versions": versions()}


def _is_hydra(text: str) -> bool:
    return text.lstrip("+~").startswith(("hydra.", "hydra/"))
