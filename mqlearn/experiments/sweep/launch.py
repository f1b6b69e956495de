"""The jobs of a sweep: launched through Hydra's launcher, and again where a worker died."""

import os
from collections.abc import Callable, Sequence
from typing import Any

from mqlearn.experiments import processes
from mqlearn.experiments.jobs import hydra_main
from mqlearn.experiments.plan import PlannedCell
from mqlearn.experiments.sweep import journal
from mqlearn.experiments.sweep.sweep import Sweep
from mqlearn.storage.store import shown


def launch(sweep: Sweep, arguments: Sequence[str]) -> None:
    """Let Hydra set up its launcher, which then carries out the sweep."""
    from mqlearn.experiments.sweep import sweeper

    sweeper.register(lambda launch: _carry_out(sweep, launch))
    try:
        hydra_main(arguments)
    finally:
        if sweep.launcher == "joblib":  # workers keep the environment of the sweep that they were started for
            processes.end_workers()


def _carry_out(sweep: Sweep, launch: Callable[..., Any]) -> None:
    """Launch what is missing until each cell is done or has failed.

    A worker that dies may take the whole launch with it. Cells that never started are launched again. One of those
    that were under way killed it: they are tried again, each alone, so that it can only take itself.
    """
    waiting, alone = [one for one in sweep.missing if one.number not in journal.states(sweep.folder)], []
    while waiting:
        # submitit's local executor has no limit of its own, and starts all that it gets at once
        batch = waiting[: os.cpu_count()] if sweep.launcher == "submitit_local" else waiting
        error = _attempt(sweep, launch, batch)
        states = journal.states(sweep.folder)
        alone += [one for one in batch if states.get(one.number, {}).get("state") in ("running", "killed")]
        left = [one for one in waiting if one.number not in states]
        if len(left) == len(waiting):
            for one in left:
                reason = journal.first_line(error) if error else "the launcher did not run it"
                journal.mark(sweep.folder, one.record(), "failed", error=reason)
            break
        waiting = left
    for one in alone:
        error = _attempt(sweep, launch, [one])
        state = journal.states(sweep.folder).get(one.number, {}).get("state")
        if state not in ("done", "failed"):
            reason = "its process died twice, the second time alone (killed, or out of memory?)"
            detail = f" ({type(error).__name__})" if error else ""
            journal.mark(sweep.folder, one.record(), "failed", error=reason + detail)


def _attempt(sweep: Sweep, launch: Callable[..., Any], members: Sequence[PlannedCell]) -> Exception | None:
    """One launch; what went wrong with it as a whole, if anything did. All its jobs have ended then."""
    jobs = []
    for one in members:
        where = {"hydra.sweep.dir": one.root, "hydra.sweep.subdir": one.subfolder}
        passed = {journal.SWEEP: str(sweep.folder), journal.CELL: str(one.number)}
        if one.uri != (one.uri and shown(one.uri)):
            passed[journal.STORE] = one.uri or ""
        where |= {f"hydra.job.env_set.{key}": value for key, value in passed.items()}
        jobs.append([f"{key}={value}" for key, value in where.items()])
    with processes.submitted(sweep.launcher) as handed:
        try:
            returned = launch(jobs, initial_job_idx=members[0].number - 1)
        except Exception as error:  # of any launcher: a worker died
            handed.wait()
            return error
    failed = [one._return_value for one in returned if isinstance(one._return_value, Exception)]
    return failed[0] if failed else None
