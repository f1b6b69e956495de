"""The jobs of Hydra: where each is written, and what it runs."""

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mqlearn.errors import SettingError, SettingErrors
from mqlearn.experiments.execute import (
    Tracker,
    before_run,
    claimed,
    estimated_seconds,
    finished,
    of_problem,
    perform,
    tracker,
)
from mqlearn.experiments.presentation import printed
from mqlearn.experiments.presentation.printed import describe
from mqlearn.experiments.progress import COMPILING, duration
from mqlearn.experiments.provenance import COMMAND, command
from mqlearn.experiments.settings import compose, identity, loader, own_choices, plugins
from mqlearn.experiments.settings.cell import Cell, build
from mqlearn.experiments.settings.hydra_errors import hydra_errors
from mqlearn.finding import Finding, each_once
from mqlearn.paths import CONF, cores, outputs_folder
from mqlearn.storage import lookup, runs

_LONG = 3600.0  # seconds: what a run may take without a word beforehand
OBJECTIVE = "MQLEARN_OBJECTIVE"  # environment variable: the metric that a job returns to Optuna

_refused: dict[int, list[SettingError]] = {}  # by jobs in this process, whose id is the key


def too_long(folder: Path) -> bool:
    return any(len(os.fsencode(part)) > 255 for part in folder.parts)


def check_place(job: compose.Job) -> Tracker:
    """Its tracker. Raises SettingError if a run cannot be tracked as asked for, or not be written to the folder that
    Hydra makes."""
    track = tracker(job.cell.settings)
    track.check()
    if too_long(job.folder):
        raise SettingError("hydra.run.dir", job.folder, "is too long for the name of a folder")
    runs.check_target(job.folder, job.cell.digest, identity.digest_of)
    above = next(place for place in (job.folder, *job.folder.parents) if place.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        expected = f"cannot be made: {above} is not a folder that can be written to"
        raise SettingError("hydra.run.dir", job.folder, expected)
    return track


def finished_run(job: compose.Job) -> Any:
    """The finished run of a job; None if there is none, or if its folder is damaged, and is to be made again."""
    track, digest = tracker(job.cell.settings), job.cell.digest
    if runs.look(job.folder, digest, identity.digest_of)[1]:
        return None
    found = lookup.finished_or_on_disk(
        outputs_folder(), track.experiment, store=track.uri, digests=[digest], digest_of=identity.digest_of
    )
    return found.get(digest)


def hydra_main(arguments: Sequence[str]) -> int:
    """Hand over to Hydra; what Hydra or a job refuses is raised here, without a traceback."""
    import hydra

    compose.register_resolvers()
    own_choices.go_first()
    loader.leave_out_nulls()
    os.environ["HYDRA_FULL_ERROR"] = "1"  # else Hydra prints its errors itself, and exits with 1
    _refused[os.getpid()] = refused = []
    start = hydra.main(config_path=str(CONF), config_name="config", version_base=compose.VERSION_BASE)
    with _environment(arguments):
        given, sys.argv = sys.argv, ["mqlearn", *map(loader.for_hydra, arguments)]
        try:
            start(_job)()
        finally:
            sys.argv = given
    if refused:
        raise SettingErrors.one_of(refused)
    return 0


def run_one(job: compose.Job, *, skip: bool) -> None:
    """Run a job that was composed and built, as Hydra would: in its folder, its environment, with its callbacks.

    skip: take the run of its cell if another process has finished it by now.
    """
    from hydra._internal.callbacks import Callbacks
    from hydra.core.utils import run_job
    from hydra.types import HydraContext

    refused: list[SettingError] = []

    def task(_: Any) -> None:
        try:
            _carried_out(job.cell, skip=skip)
        except SettingError as error:
            refused.append(error)

    with _environment(job.overrides):
        callbacks = Callbacks(job.config)
        callbacks.on_run_start(config=job.config, config_name="config")
        context: Any = HydraContext(None, callbacks)  # type: ignore  # its loader is for launchers
        done = run_job(task, job.config, job_dir_key="hydra.run.dir", job_subdir_key=None, hydra_context=context)
        callbacks.on_run_end(config=job.config, config_name="config", job_return=done)
        _ = done.return_value  # raises what the job has raised
    if refused:
        raise refused[0]


@contextlib.contextmanager
def _environment(arguments: Sequence[str]) -> Iterator[None]:
    """What jobs find in their environment; what Hydra or the system refuses is raised as a SettingError."""
    os.environ["MQLEARN_OUTPUTS"] = str(outputs_folder())  # made absolute once, for all workers
    os.environ[COMMAND] = command()
    try:
        with hydra_errors([argument for argument in arguments if "=" in argument]):
            yield
    except OSError as error:
        chosen = [text.partition("=")[2] for text in arguments if text.startswith("hydra.run.dir=")]
        setting, folder = ("hydra.run.dir", chosen[-1]) if chosen else ("MQLEARN_OUTPUTS", str(outputs_folder()))
        if error.filename is not None and (Path(folder).absolute() / "runs").is_relative_to(error.filename):
            raise SettingError(setting, folder, f"no folder can be made there: {error.strerror}") from None
        raise
    finally:
        del os.environ[COMMAND]


def _job(configuration: Any) -> float | None:
    """One job of a multirun, in this process or a worker."""
    from mqlearn.experiments.sweep import journal

    compose.register_resolvers()
    try:
        if journal.SWEEP in os.environ:
            with _folder():
                journal.job()
            return None
        return _objective(_carried_out(build(compose.plain(configuration)), skip=False))
    except SettingError as error:
        if os.getpid() not in _refused:  # a worker
            raise
        _refused[os.getpid()].append(error)
        return None


@plugins.own_code()
def _carried_out(cell: Cell, *, skip: bool) -> Any:
    """The run of a cell in the folder that Hydra made for it, tracked and described."""
    with _folder() as folder:
        run_done, said = _once(cell, folder, skip)
        with contextlib.suppress(BrokenPipeError):  # of a worker: its run is done
            print(said + describe(run_done), flush=True)
        return run_done


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """The output directory of Hydra's job, which becomes the run folder; it is taken away if nothing came of it."""
    from hydra.core.hydra_config import HydraConfig

    runtime = HydraConfig.get().runtime
    folder = Path(runtime.output_dir)
    os.chdir(runtime.cwd)  # hydra.job.chdir=true or not: files and stores are named from where the user is
    try:
        yield folder
    finally:
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def _once(cell: Cell, folder: Path, skip: bool) -> tuple[Any, str]:
    """The run of a cell, and what is said before it is described.

    Who had to wait for another process takes what that one made of the cell.
    """
    track = tracker(cell.settings)
    with claimed([cell]) as waited:
        before = finished(folder, cell.digest, track) if waited or skip else None
        if before is not None:
            return track.log(before), f"finished already{', by another process' * waited}\n"
        known, found = _announced(cell)
        return track.log(perform(cell, folder, track, known=known, findings=found), again=not skip), ""


def _announced(cell: Cell) -> tuple[dict[str, Any], list[Finding]]:
    """Say before a run what can be reached at best, and what speaks against it; both join its summary."""
    known, found = of_problem(cell)
    if known:
        facts = known["optimum"]
        success = facts["success_probability"]
        best = f"at best value {facts['start_value']:.6g} at the start"
        goal = "" if success is None else f", probability of reaching a goal {success:.6g}"
        print(f"{cell.mdp.name}, discount {cell.mdp.discount:g}: {best}{goal}")
    found = each_once([*found, *before_run(cell)])
    n_cores = cores()
    seconds = estimated_seconds(cell) / min(n_cores, cell.settings["n_workers"] or n_cores)
    if seconds > _LONG:
        sys.stderr.write(f"about {duration(seconds)} of learning on this machine, {COMPILING}; Ctrl-C ends it\n")
    printed.warn(found)
    sys.stdout.flush()
    return known, found


def _objective(run_done: Any) -> float | None:
    """What a job returns to Optuna: the final mean of the metric, infinite where a seed diverged."""
    metric = os.environ.get(OBJECTIVE)
    if metric is None:
        return None
    final = run_done.summary["final"].get(metric)
    if final is None:
        known = ", ".join(run_done.summary["final"])
        raise SettingError("tuning.metric", metric, f"must be one of {known}")
    return float("inf") if run_done.diverged or final["mean"] is None else final["mean"]
