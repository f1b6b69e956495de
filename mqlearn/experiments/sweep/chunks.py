"""How many cells of a sweep a job of its launcher carries out, one after the other in one process.

A job costs a process, its imports and a place in a queue; its cells share all that, and models and kernels too.
"""

import functools
import math
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from mqlearn.checks import check_int
from mqlearn.errors import SettingError
from mqlearn.experiments.plan import PlannedCell

SETTING = "hydra.sweeper.cells_per_job"
AUTO = "auto"
_OVERHEAD = 0.3  # seconds of a cell beside its learning
_MOST_SECONDS = {"submitit_slurm": 600.0}  # that the cells of a job should take; elsewhere:
_USUAL_SECONDS = 20.0
_ARRAY = 1000  # jobs of an array, where the cluster does not tell what it takes


def wanted(value: Any, cells: int) -> int | str:
    """The setting. Raises SettingError.   cells: how many the sweep has."""
    if value in (None, AUTO):
        return AUTO
    try:
        number = check_int(SETTING, value, 1, written=True)
    except SettingError:
        number = 0
    if not 1 <= number <= cells:
        raise SettingError(SETTING, value, f"must be auto, or a whole number from 1 to {cells}, the cells of the sweep")
    return number


def size(cells: Sequence[PlannedCell], launcher: str, per_job: int | str, composed: Mapping[str, str]) -> int:
    """How many of these cells a job gets.

    auto: as many as keep all places busy with several jobs each, and a job no longer than some minutes; on Slurm so
    many that they fit into one array, if that is possible.
    composed: settings of the launcher by key, of yamls and of the command line.
    """
    if isinstance(per_job, int):
        return per_job
    if launcher in ("basic", "submitit_local") or not cells:  # which start no process, and one a cell
        return 1
    seconds = sum(one.seconds + _OVERHEAD for one in cells) / len(cells)
    most = min(
        _MOST_SECONDS.get(launcher, _USUAL_SECONDS), 20 * _number(composed.get("hydra.launcher.timeout_min"), 60)
    )
    short = max(1, int(most / seconds))
    if launcher == "submitit_slurm":
        width = min(_number(composed.get("hydra.launcher.array_parallelism"), 256), most_jobs(launcher))
    else:
        width = 4 * _number(composed.get("hydra.launcher.n_jobs"), os.cpu_count() or 1)
    return min(short, math.ceil(len(cells) / width))


@functools.lru_cache(maxsize=4)
def most_jobs(launcher: str) -> int:
    """How many jobs one launch may hold."""
    if launcher == "submitit_local":  # submitit's local executor has no limit of its own, and starts all that it gets
        return os.cpu_count() or 1
    if launcher != "submitit_slurm" or shutil.which("scontrol") is None:
        return _ARRAY if launcher == "submitit_slurm" else 10**9
    try:
        told = subprocess.run(["scontrol", "show", "config"], capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return _ARRAY
    found = re.search(r"^MaxArraySize\s*=\s*(\d+)", told.stdout, re.MULTILINE)
    return max(1, int(found[1]) - 1) if found else _ARRAY


def divided(cells: Sequence[PlannedCell], number: int) -> list[Sequence[PlannedCell]]:
    """The cells in groups of so many, in their order."""
    return [cells[first : first + number] for first in range(0, len(cells), number)]


def _number(text: str | None, usual: int) -> int:
    return int(text) if text is not None and text.isdecimal() and int(text) else usual
