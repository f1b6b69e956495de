"""The cells of a multirun: each validated, known by its digest, with its folder and its place in the sweep."""

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from mqlearn.errors import SettingError
from mqlearn.experiments.jobs import check_place, too_long
from mqlearn.experiments.plan import PlannedCell, expand
from mqlearn.experiments.presentation.names import of_problem
from mqlearn.experiments.progress import Counting
from mqlearn.experiments.settings import compose


def plan(overrides: Sequence[str], added: Sequence[str], config_dir: str | None) -> list[PlannedCell]:
    """All cells of a multirun; an experiment yaml with curves stands for its cells. Raises one SettingError."""
    expanded: list[tuple[list[str], str, str]] = []
    lists = compose.sweep(overrides, config_dir)
    common = set.intersection(*map(set, lists))
    for base in lists:
        swept = " ".join(text for text in base if text not in common)
        if any(text.partition("=")[0].lstrip("+") == "experiment" for text in base):
            settings = compose.compose([*base, *added], config_dir)
            if (settings.get("figure") or {}).get("curves"):
                places = expand(settings["figure"], base)
                expanded += [(one, " ".join([label, *[swept] * bool(swept)]), panel) for panel, label, one in places]
                continue
        expanded.append((base, swept, ""))
    labels = {(*own, *added): (tuple(own), label, panel) for own, label, panel in expanded}

    every = [(*own, *added) for own, _, _ in expanded]
    with Counting("planned", len(every), "cells") as count:

        def keep(job: compose.Job) -> PlannedCell:
            cell = planned_cell(_short_named(job), *labels[job.overrides])
            count(1)
            return cell

        planned = compose.jobs(every, config_dir, multirun=True, keep=keep)
    named = [text for text in overrides if text.startswith("hydra.sweep.subdir=")]
    if named and any(one.subfolder.endswith(one.digest[:16]) for one in planned):  # see _short_named
        sys.stderr.write("mqlearn: hydra.sweep.subdir: too long for the name of a folder; named by digest instead\n")
    unique = {(one.experiment, one.digest): one for one in reversed(planned)}
    if len(expanded) == len(lists):  # an experiment yaml may name a cell in two panels
        _refuse_repetitions(planned, overrides)
    kept = [one for one in planned if unique[one.experiment, one.digest] is one]
    folders = Counter(one.folder for one in kept)
    for one in kept:
        if folders[one.folder] > 1:
            raise SettingError("hydra.sweep.subdir", one.subfolder, "is the folder of several cells: name them apart")
    return [replace(one, number=number) for number, one in enumerate(kept, 1)]


def planned_cell(job: compose.Job, overrides: tuple[str, ...], label: str, panel: str) -> PlannedCell:
    """A job as a cell of a plan. Raises SettingError if its run cannot be tracked or written."""
    settings, track = job.cell.settings, check_place(job)
    mdp, n_seeds = job.cell.mdp, settings["n_seeds"]
    table = getattr(mdp, "n_states", 1) * getattr(mdp, "n_actions", 1)
    size = 8 * (n_seeds * (5 * settings["n_checkpoints"] + table) + 20 * table)
    rows = 0 if track.uri is None else 16_300 + 200 * min(settings["n_checkpoints"], 20)  # of the store
    problem = f"{of_problem(settings['env'])} discount={settings['discount']:g} {settings['sampling']['name']}"
    return PlannedCell.of(
        job.cell,
        panel or problem,
        label or job.cell.name,
        overrides=overrides,
        root=str(job.root),
        subfolder=str(job.folder.relative_to(job.root)),
        bytes=size * (1 if track.uri is None else 2) + rows,
    )


def _short_named(job: compose.Job) -> compose.Job:
    """A folder named after all overrides may be too long for the system: its digest then names it."""
    if not too_long(job.folder):
        return job
    return replace(job, folder=job.root / job.cell.subfolder)


def _refuse_repetitions(planned: Sequence[PlannedCell], overrides: Sequence[str]) -> None:
    """Raise SettingError if two jobs of a sweep are the same cell: the same numbers, counted twice."""
    first: dict[tuple[str, str], int] = {}
    for number, one in enumerate(planned, 1):
        name = (one.experiment, one.digest)
        if name in first:
            given = {text.replace("\\", "") for text in one.overrides}  # Hydra escapes what it hands on
            swept = [text for text in overrides if text.replace("\\", "") not in given]
            setting, _, value = (swept or list(overrides))[0].partition("=")
            expected = f"must differ from job to job, but jobs {first[name]} and {number} are the same cell"
            raise SettingError(setting, value, f"{expected} ({one.name})")
        first[name] = number
