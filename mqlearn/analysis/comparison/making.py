"""Runs with the same settings need not be the same rule: its source, the model or the numerics may have changed."""

import json
from collections.abc import Sequence
from typing import Any

from mqlearn.experiments.settings import identity
from mqlearn.storage.runs import Run


def told_apart(members: Sequence[Run], extents: Sequence[Any]) -> list[list[Run]]:
    """Runs of equal settings, but for their extent (seeds, length, checkpoints), by what they were made of.

    That is the numerics version, and the model and the source text of the user's modules in use as far as a record has
    them; a record without them goes with the others if these agree. Two digests of one extent were made of different
    things whatever is recorded, unless a module that was not in use entered one of them.
    """
    known = {_made_of(run) for run in members if "made_of" in run.summary}
    common = next(iter(known)) if len(known) == 1 else ""
    parts: dict[Any, list[tuple[Run, Any]]] = {}
    for run, extent in zip(members, extents, strict=True):
        made_of = _made_of(run) if "made_of" in run.summary else common
        parts.setdefault((run.summary.get("numerics_version"), made_of), []).append((run, extent))
    groups: list[list[Run]] = []
    for part in parts.values():
        of_extent: dict[Any, set[str]] = {}
        for run, extent in part:
            if not _with_idle_modules(run):
                of_extent.setdefault(extent, set()).add(identity.digest_of(run))
        if max(map(len, of_extent.values()), default=1) == 1:
            groups.append([run for run, _ in part])
        else:
            groups += [[run] for run, _ in part]
    return groups


def note_on(groups: Sequence[Sequence[Run]]) -> str:
    """What must be said of runs of one name that were told apart: which, what differs, when made, how to select."""
    first = [max(group, key=lambda run: run.summary.get("ended") or "") for group in groups]
    what = [name for name, values in (
        ("numerics version", {run.summary.get("numerics_version") for run in first}),
        ("model", {json.dumps(_part(run, "model")) for run in first}),
        ("source", {json.dumps(_part(run, "sources")) for run in first}),
    ) if len(values) > 1]  # fmt: skip
    listed = "; ".join(f"{run.digest[:8]}, made {_when(run)}" for run in first)
    differ = " and ".join(what) or "source or model"
    return (
        f"{first[0].name}: {len(groups)} runs of the same settings differ in {differ}, and are compared as different "
        f"rules: {listed} (select one by digest=)"
    )


def _made_of(run: Run) -> str:
    return json.dumps(identity.made_of(run), sort_keys=True)


def _with_idle_modules(run: Run) -> bool:
    """Whether a module entered the digest of a run that its record knows to be of no use to it."""
    return identity.made_of(run) not in (None, run.summary.get("made_of"))


def _part(run: Run, name: str) -> Any:
    return (identity.made_of(run) or {}).get(name)


def _when(run: Run) -> str:
    return str(run.summary.get("ended") or "at an unknown time")[:16].replace("T", " ")
