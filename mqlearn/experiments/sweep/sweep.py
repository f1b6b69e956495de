"""A sweep: its cells, which of them are done, and what is recorded of it."""

import os
import shlex
import socket
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from mqlearn.experiments.sweep import journal
from mqlearn.experiments.sweep.plan import Planned
from mqlearn.paths import outputs_folder
from mqlearn.storage import runs
from mqlearn.storage.store import shown


@dataclass
class Sweep:
    """A sweep under way."""

    id: str
    cells: list[Planned]
    command: str
    launcher: str
    existing: str
    config_dir: str | None
    added: list[str]  # overrides that all jobs get
    done: dict[int, runs.Run] = field(default_factory=dict)  # before it began, by number
    damaged: dict[int, str] = field(default_factory=dict)  # what was wrong with folders that are made again, by number
    problems: list[str] = field(default_factory=list)
    unwritten: dict[int, dict[str, Any]] = field(default_factory=dict)  # states that the disk did not take, by number

    @property
    def folder(self) -> Path:
        return journal.sweeps(outputs_folder()) / self.id

    @property
    def missing(self) -> list[Planned]:
        return [one for one in self.cells if one.number not in self.done]

    def tell(self, one: Planned, state: str, **more: Any) -> None:
        """`journal.mark`, but nothing is lost where the disk is full."""
        try:
            journal.mark(self.folder, asdict(one), state, **more)
        except OSError:
            self.unwritten[one.number] = {"state": state, **more}

    def told(self) -> dict[int, dict[str, Any]]:
        """What was said last of each cell that was begun, by number."""
        return journal.states(self.folder) | self.unwritten

    @cached_property
    def labels(self) -> dict[int, str]:
        """By number: the name of a cell, with what was swept where several cells have that name."""
        names = journal.told_apart([(one.name, one.cell) for one in self.cells])
        return {one.number: name for one, name in zip(self.cells, names, strict=True)}

    def rerun(self, one: Planned) -> str:
        """The command line that runs just this cell."""
        own = [text for text in one.overrides if not _is_hydra(text)]
        where = ["--config-dir", self.config_dir] if self.config_dir else []
        return shlex.join(["mqlearn", "run", *where, *map(shown, own)])

    def record(self, one: Planned) -> dict[str, Any]:
        """What plan.json holds of a cell: nothing secret."""
        kept = {
            key: value for key, value in asdict(one).items() if key not in ("uri", "per_seed", "work", "bytes", "root")
        }
        kept |= {"overrides": list(map(shown, one.overrides)), "folder": str(one.folder), "command": self.rerun(one)}
        return kept | {"done_before": one.number in self.done, "tracked": one.uri is not None}

    def write_plan(self, **more: Any) -> None:
        head = {"id": self.id, "started": journal.now(), "command": self.command, "launcher": self.launcher}
        head |= {"existing": self.existing, "pid": os.getpid(), "host": socket.gethostname()}
        journal.write_json(self.folder / journal.PLAN, head | more | {"cells": list(map(self.record, self.cells))})


def _is_hydra(text: str) -> bool:
    return text.lstrip("+~").startswith(("hydra.", "hydra/"))
