"""What state a cell is in, decided in one place: for `mqlearn status`, and for the table and the audit of a sweep.

What is kept of its run comes first, a process that is at it second, and what was said of it last.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mqlearn.experiments import execute
from mqlearn.experiments.settings import identity
from mqlearn.experiments.sweep import journal
from mqlearn.experiments.sweep.sweep import Sweep
from mqlearn.storage import locks, runs
from mqlearn.storage.store import Recorded

WORDS = ("finished", "diverged", "running", "failed", "killed", "damaged", "missing")


class State(NamedTuple):
    """word: one of WORDS. error: why it failed, was killed or is damaged. run: the whole run on this disk."""

    word: str
    error: str | None = None
    run: runs.Run | None = None


def state(
    outputs: Path,
    cell: Mapping[str, Any],
    said: Mapping[str, Any] | None = None,
    stored: Recorded | None = None,
    *,
    ended: bool = False,
) -> State:
    """The state of a cell of a plan (`digest`, `experiment`, `folder`).

    said: by its job (`journal.states`). stored: its run in the store. ended: whether the sweep that said it is over.
    """
    said = said or {}
    run, damage = runs.look(Path(cell["folder"]), cell["digest"], identity.digest_of)
    if run is not None:
        return State(run.status, run=run)
    if stored is not None and stored.status == "FINISHED" and not damage:
        return State(stored.outcome or "finished")
    if locks.is_claimed(locks.folder(outputs), *execute.claim(cell["experiment"], cell["digest"])):
        return State("running")
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
    for one in sweep.missing:
        said = told.get(one.number, {})
        if said.get("state") == "done" and one.number not in sweep.damaged:
            continue
        cell = {"experiment": one.experiment, "digest": one.digest, "folder": str(one.folder)}
        now = state(outputs, cell, said, ended=True)
        if now.run is not None:
            told[one.number] = {**said, **journal.outcome(now.run), "state": "done"}
        elif now.word != "missing" and said:
            told[one.number] = {**said, "state": now.word, "error": now.error or said.get("error", "")}
    return told
