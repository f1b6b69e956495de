"""The jobs of a sweep: launched through Hydra's launcher, and again where a worker died."""

import contextlib
import os
from collections.abc import Callable, Sequence
from typing import Any

from mqlearn.experiments import processes
from mqlearn.experiments.jobs import hydra_main
from mqlearn.experiments.plan import PlannedCell
from mqlearn.experiments.settings.plugins import FOLDERS
from mqlearn.experiments.sweep import chunks, journal
from mqlearn.experiments.sweep.sweep import Sweep
from mqlearn.storage import formats
from mqlearn.storage.passwords import Address, in_argument

_IN_VAIN = 5  # launches in a row in which no cell began
# Of the environment that jobs need: a cluster that runs already has one of its own. No secret goes this way, since
# launchers write it down: jobs inherit that with the environment, or their machine knows it.
_NEEDED = ("MQLEARN_OUTPUTS", FOLDERS, "MLFLOW_TRACKING_URI")


def launch(sweep: Sweep, arguments: Sequence[str]) -> None:
    """Let Hydra set up its launcher, which then carries out the sweep."""
    from mqlearn.experiments.sweep import sweeper

    sweeper.register(lambda launch: _carry_out(sweep, launch))
    # workers keep the environment of the sweep that they were started for
    with processes.ending_workers() if sweep.launcher == "joblib" else contextlib.nullcontext():
        hydra_main(arguments)


def _carry_out(sweep: Sweep, launch: Callable[..., Any]) -> None:
    """Launch what is missing until each cell is done or has failed.

    A worker that dies may take the whole launch with it. Cells that never started are launched again, if need be a
    few times with none of them begun. One of those that were under way killed it: they are tried again, each alone,
    so that it can only take itself.
    """
    told = sweep.told()
    waiting, alone = [one for one in sweep.missing if one.number not in told], []
    in_vain = 0
    while waiting:
        batch = waiting[: sweep.per_job * chunks.most_jobs(sweep.launcher)]
        error = _attempt(sweep, launch, chunks.divided(batch, sweep.per_job))
        states = sweep.told()
        alone += [one for one in batch if states.get(one.number, {}).get("state") in ("running", "killed")]
        left = [one for one in waiting if one.number not in states]
        in_vain = in_vain + 1 if len(left) == len(waiting) else 0
        if in_vain == _IN_VAIN or (in_vain and (error is None or isinstance(error, formats.OtherVersion))):
            for one in left:
                reason = journal.first_line(error) if error else "the launcher did not run it"
                sweep.tell(one, "failed", error=reason)
            break
        waiting = left
    most = chunks.most_jobs(sweep.launcher) if sweep.launcher.startswith("submitit") else 1  # else one takes the others
    for batch in chunks.divided(alone, most):
        error = _attempt(sweep, launch, [[one] for one in batch])
        states = sweep.told()
        for one in batch:
            if states.get(one.number, {}).get("state") not in ("done", "failed"):
                reason = "its process died twice, the second time alone (killed, or out of memory?)"
                detail = f" ({type(error).__name__})" if error else ""
                refused = isinstance(error, OSError) and error.errno is not None  # as a full disk does
                sweep.tell(one, "failed", error=journal.first_line(error) if refused and error else reason + detail)


def _attempt(sweep: Sweep, launch: Callable[..., Any], groups: Sequence[Sequence[PlannedCell]]) -> Exception | None:
    """One launch, a job for each group of cells; what went wrong with it as a whole, if anything did. All its jobs have
    ended then."""
    jobs = []
    for members in groups:
        one = members[0]  # whose folder Hydra makes for the job
        where = {"hydra.sweep.dir": one.root, "hydra.sweep.subdir": one.subfolder}
        passed = {key: os.environ[key] for key in _NEEDED if key in os.environ}
        passed = {key: value for key, value in passed.items() if in_argument(value) == value}
        passed |= {journal.SWEEP: str(sweep.folder), journal.JOB: str(sweep.write_job(members))}
        if one.uri is not None and Address(one.uri).is_secret:
            passed[journal.STORE] = str(one.uri)
        where |= {f"hydra.job.env_set.{key}": value for key, value in passed.items()}
        jobs.append([f"{key}={value}" for key, value in where.items()])
    with processes.submitted(sweep.launcher) as handed:
        try:
            returned = launch(jobs, initial_job_idx=groups[0][0].number - 1)
        except Exception as error:  # of any launcher: a worker died
            handed.wait()
            if sweep.launcher == "joblib":
                processes.end_workers()  # and with it the pool, which is made anew
            return error
    failed = [one._return_value for one in returned if isinstance(one._return_value, Exception)]
    return failed[0] if failed else None
