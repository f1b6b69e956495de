"""What the cells of a sweep under way have said so far, without reading again what stays as it is.

A cell that is done stays so within its sweep. The command of the sweep reads each such file once, and adds its number
to outputs/sweeps/ID/done.txt, from which `mqlearn status` takes it: a line a cell, its number and the seeds that
diverged. The file is a help, and may be deleted.
"""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from mqlearn.experiments.sweep import journal
from mqlearn.files import text_of

DONE = "done.txt"


class Told:
    """States of the cells of one sweep, for the process that began it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.done: dict[int, dict[str, Any]] = {}
        self._kept: set[int] = set()

    def states(self) -> dict[int, dict[str, Any]]:
        """`journal.states`, where what is done was read once."""
        found = journal.states(self.folder, sorted(begun(self.folder) - self.done.keys()))
        self.done |= {number: state for number, state in found.items() if state["state"] == "done"}
        return self.done | found

    def keep(self) -> None:
        """Add what is done since the last time to DONE; what the disk refuses, the next one adds."""
        new = [number for number in list(self.done) if number not in self._kept]
        lines = [json.dumps([number, self.done[number].get("diverged") or {}]) for number in new]
        if lines:
            with suppress(OSError):
                with (self.folder / DONE).open("a", encoding="utf-8") as file:
                    file.write("".join(f"{line}\n" for line in lines))
                self._kept.update(new)


def begun(folder: Path) -> set[int]:
    """The numbers of the cells that have said anything, by one listing."""
    with suppress(OSError):
        names = [entry.name for entry in os.scandir(folder / "cells")]
        return {int(name[:-5]) for name in names if name.endswith(".json") and name[:-5].isdecimal()}
    return set()


def kept(folder: Path) -> dict[int, dict[str, int]]:
    """What `Told.keep` has written: by the numbers of done cells the seeds that diverged; nothing of a damaged file."""
    with suppress(OSError, ValueError, TypeError, RecursionError):
        text = text_of(folder / DONE)
        lines = text[: text.rfind("\n") + 1].splitlines()  # the last one may be half written
        pairs = json.loads(f"[{','.join(lines)}]")
        return {int(number): dict(seeds) for number, seeds in pairs}
    return {}
