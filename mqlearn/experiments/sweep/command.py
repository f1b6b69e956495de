"""`mqlearn run -m`: plan all cells, run what is missing, account for every one of them.

Hydra composes, and its launchers run the jobs; this package decides which, and looks at what is on disk when they have
ended, however they ended.
"""

import contextlib
import importlib.util
import os
import re
import secrets
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from mqlearn.errors import SettingError
from mqlearn.experiments import execute, processes
from mqlearn.experiments.jobs import hydra_main
from mqlearn.experiments.plan import PlannedCell, refuse_finished
from mqlearn.experiments.settings import compose, identity
from mqlearn.experiments.sweep import audit, chunks, journal, tuning
from mqlearn.experiments.sweep.launch import launch
from mqlearn.experiments.sweep.plan import plan, planned_cell
from mqlearn.experiments.sweep.preview import preview as preview_of
from mqlearn.experiments.sweep.states import settled
from mqlearn.experiments.sweep.sweep import Sweep
from mqlearn.paths import outputs_folder
from mqlearn.storage import deletion, locks, lookup, runs
from mqlearn.storage.connection import UNTRACKED, TrackingError
from mqlearn.storage.store import experiment_id, running

_EXTRAS = {
    "submitit_local": ("slurm", "hydra_plugins.hydra_submitit_launcher"),
    "submitit_slurm": ("slurm", "hydra_plugins.hydra_submitit_launcher"),
    "ray": ("ray", "hydra_plugins.hydra_ray_launcher"),
    "optuna": ("optuna", "hydra_plugins.hydra_optuna_sweeper"),
}


def _finished(experiment: str, uri: str | None, digests: Sequence[str]) -> dict[str, runs.Run]:
    return lookup.finished(outputs_folder(), experiment, store=uri, digests=digests, digest_of=identity.digest_of)


def run(
    arguments: Sequence[str], overrides: Sequence[str], config_dir: str | None, *, preview: bool, existing: str
) -> int:
    """A sweep: 1 if a cell failed, else UNTRACKED if a run was not tracked, else 0.

    Raises SettingError before anything is created.

    arguments: for Hydra, the overrides among them.   preview: print what would be done, and create nothing.
    existing: what to do with cells that are finished (`mqlearn.experiments.plan.EXISTING`).
    """
    chosen = {text.partition("=")[0]: text.partition("=")[2] for text in overrides}
    for setting in ("hydra/launcher", "hydra/sweeper"):
        extra, module = _EXTRAS.get(chosen.get(setting, ""), ("", ""))
        if extra and not _installed(module):
            expected = f"needs the extra {extra}: pip install '.[{extra}]' in the clone"
            raise SettingError(setting, chosen[setting], expected)
    _refuse_no_jobs(chosen)
    if chosen.get("experiment") and len(compose.sweep(overrides, config_dir)) == 1:
        tuned = tuning.settings_of(overrides, config_dir)
        if tuned is not None:
            if not _installed(_EXTRAS["optuna"][1]):
                expected = "needs the extra optuna: pip install '.[optuna]' in the clone"
                raise SettingError("experiment", "tuning", expected)
            if preview:
                print(tuning.preview(tuned, overrides, config_dir))
                return 0
            return tuning.run(tuned, overrides, config_dir)
    if chosen.get("hydra/sweeper") == "optuna":
        expected = "searches for the least of a metric, which experiment=tuning names (tuning.metric, tuning.spaces)"
        raise SettingError("hydra/sweeper", "optuna", f"{expected}: write mqlearn run -m experiment=tuning")
    if chosen.get("hydra/sweeper") == "basic":  # Hydra's own, whose jobs these are
        arguments = [text for text in arguments if text != "hydra/sweeper=basic"]
        overrides = [text for text in overrides if text != "hydra/sweeper=basic"]
    elif chosen.get("hydra/sweeper", "mqlearn") != "mqlearn":  # which decides itself what runs, one result at a time
        compose.sweep(overrides, config_dir)
        if preview:
            raise SettingError("preview", True, f"does not go with hydra/sweeper={chosen['hydra/sweeper']}")
        return hydra_main(arguments)
    of_yaml, own, per_job = compose.launcher(overrides, config_dir)
    composed = own | {key.lstrip("+"): value for key, value in chosen.items()}
    _refuse_no_jobs(composed)
    added, launcher = _defaults(chosen, of_yaml)
    name = _new_id()
    if launcher.startswith("submitit") and "hydra.launcher.submitit_folder" not in chosen:
        place = journal.sweeps(outputs_folder()) / name / "submitit" / "%j"
        added.append(f"hydra.launcher.submitit_folder={_quoted(str(place))}")
    planned = plan(overrides, added, config_dir)
    per_job = chunks.wanted(per_job, len(planned))
    for members in _stores(planned).values():
        members[0].track.check_format()
    command = shlex.join(["mqlearn", "run", *arguments])
    sweep = Sweep(name, planned, command, launcher, existing, config_dir, added)
    kept: dict[int, runs.Run] = {}
    if existing != "rerun" or preview:
        kept = _find_done(sweep)
    sweep.per_job = chunks.size([one for one in sweep.missing if one.number not in kept], launcher, per_job, composed)
    if existing == "error" and not preview:
        refuse_finished(len(sweep.done) + len(kept), len(planned))
    if preview:
        print(preview_of(sweep, kept, composed))
        return 0
    # Hydra composes a configuration of the sweep, too, in which a group that is swept has no settings: it gets a job's.
    flags = arguments[: len(arguments) - len(overrides)]
    return _execute(sweep, kept, [*flags, *planned[0].overrides, *added])


def _refuse_no_jobs(settings: Mapping[str, str]) -> None:
    if settings.get("hydra.launcher.n_jobs") == "0":
        raise SettingError("hydra.launcher.n_jobs", 0, "must be a number of jobs at once; -1 is one a core")


def preview_of_run(job: compose.Job, done: runs.Run | None, existing: str) -> str:
    """What a single run would do. done: the finished run of its cell."""
    one = replace(planned_cell(job, job.overrides, "", ""), number=1)
    words = ["mqlearn", "run", *job.overrides]
    sweep = Sweep("", [one], shlex.join(words), "basic", existing, None, [], {} if done is None else {1: done})
    return preview_of(sweep, {}, {})


def _execute(sweep: Sweep, kept: Mapping[int, runs.Run], arguments: Sequence[str]) -> int:
    interrupted, problem = False, ""
    with processes.ending_promptly(lambda: _mark_killed(sweep)):
        try:
            if sweep.missing:
                _begin(sweep)
                _deliver(sweep, kept)
                with audit.watching(sweep):
                    launch(sweep, arguments)
        except KeyboardInterrupt:
            interrupted = True
            _mark_killed(sweep)
        except OSError as error:
            problem = _told(error)
    states = settled(sweep, outputs_folder())
    try:
        if sweep.folder.exists():
            if not interrupted:
                _end_stale(sweep)
            sweep.write_plan(ended=journal.now())
    except OSError as error:
        problem = problem or _told(error)
    if problem:
        sweep.problems.append(f"the system refused {problem}")
    print(audit.summary(sweep, states, interrupted=interrupted), flush=True)
    if interrupted:
        raise KeyboardInterrupt
    good = len(sweep.done) + sum(state["state"] == "done" for state in states.values())
    if good != len(sweep.cells) or sweep.problems:
        return 1
    return UNTRACKED if sweep.untracked else 0


def _begin(sweep: Sweep) -> None:
    """Write the plan, and put in order what killed processes left. Raises SettingError where nothing can be written."""
    try:
        (sweep.folder / "cells").mkdir(parents=True)
        sweep.write_plan()
    except OSError as error:
        raise SettingError("MQLEARN_OUTPUTS", outputs_folder(), f"the system refused {_told(error)}") from error
    _prepare_stores(sweep)
    _end_stale(sweep)


def _told(error: OSError) -> str:
    """The path, if the system named one, and the reason that it gave."""
    place = " and ".join(str(name) for name in (error.filename, error.filename2) if name is not None)
    return f"{place or 'something'}: {error.strerror or error}"


def _defaults(chosen: dict[str, str], of_yaml: str | None) -> tuple[list[str], str]:
    """Overrides that a multirun adds (joblib where there are cores, one thread a job), and the launcher.

    of_yaml: the launcher that a yaml chooses.
    """
    added, launcher = [], chosen.get("hydra/launcher")
    if launcher is None:
        named = any(key.lstrip("+").startswith("hydra.launcher.") for key in chosen)
        launcher = of_yaml or (compose.LAUNCHER if named or (os.cpu_count() or 1) > 1 else "basic")
        added = [f"hydra/launcher={launcher}"]
    if launcher != "basic" and "n_workers" not in chosen:
        threads = chosen.get("hydra.launcher.cpus_per_task", "1")
        added.append(f"n_workers={threads if threads.isdigit() else 1}")
    memory = "hydra.launcher.ray.init.object_store_memory"
    given = {key.lstrip("+"): value for key, value in chosen.items()}
    if launcher == "ray" and given.get("hydra.launcher.ray.init.address", "null") != "null" and memory not in given:
        added.append(f"+{memory}=null")  # the launcher gives a size of its own, which a cluster that runs refuses
    return added, launcher


def _installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _new_id() -> str:
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"


def _stores(planned: Sequence[PlannedCell]) -> dict[tuple[str | None, str], list[PlannedCell]]:
    """Cells by store and experiment."""
    groups: dict[tuple[str | None, str], list[PlannedCell]] = {}
    for one in planned:
        groups.setdefault((one.uri, one.experiment), []).append(one)
    return groups


def _find_done(sweep: Sweep) -> dict[int, runs.Run]:
    """Fill sweep.done from the stores; by number, the runs that are complete on disk and not in their store.

    A run whose record was deleted there is done, as a person wanted it so.
    """
    kept: dict[int, runs.Run] = {}
    for (uri, experiment), members in _stores(sweep.cells).items():
        answers = uri is not None
        try:
            found = _finished(experiment, uri, [one.digest for one in members])
        except TrackingError as error:
            sys.stderr.write(f"mqlearn: {error}; finished runs are looked for on disk alone\n")
            found, answers = {}, False
        left = [one.digest for one in members if one.digest not in found]
        on_disk = _finished(experiment, None, left) if left and uri is not None else {}
        for one in members:
            run, damage = runs.look(one.folder, one.digest, identity.digest_of)
            if damage:
                sweep.damaged[one.number] = f"{one.folder}: {damage}"
            elif one.digest in found:
                sweep.done[one.number] = found[one.digest]
            elif run_kept := run or on_disk.get(one.digest):
                if gone := answers and _is_deleted(str(uri), run_kept):
                    sweep.deleted.add(one.number)
                (sweep.done if uri is None or gone else kept)[one.number] = run_kept
    return kept


def _is_deleted(uri: str, run: runs.Run) -> bool:
    """Whether the record of a run was deleted in its store: it is then left as it is."""
    recorded = run.summary.get("mlflow_run_id")
    with contextlib.suppress(TrackingError):  # met again, and told, when the run is delivered
        return bool(recorded) and deletion.is_deleted(uri, recorded, run.digest)
    return False


def _quoted(text: str) -> str:
    """A value for Hydra's grammar, whatever it holds: backslashes are its escapes only where a quote follows."""
    return "'" + re.sub(r"(\\*)('|$)", lambda found: 2 * found[1] + found[2].replace("'", "\\'"), text) + "'"


# --- before and after the jobs ------------------------------------------------------------------------------------


def _prepare_stores(sweep: Sweep) -> None:
    """Make stores, schemas and experiments, once, before any job."""
    for (uri, experiment), members in _stores(sweep.missing).items():
        if uri is not None and not experiment_id(uri, experiment):  # else it is there, and MLflow's import is spared
            try:
                members[0].track.prepare()
            except TrackingError as error:
                sys.stderr.write(f"mqlearn: {error}\nThe runs are kept on disk until they can be delivered.\n")


def _deliver(sweep: Sweep, kept: Mapping[int, runs.Run]) -> None:
    """Upload what is complete on disk and not in its store: it need not run again."""
    for one in [one for one in sweep.cells if one.number in kept]:
        run, problem = one.track.deliver(kept[one.number], tags=journal.tags_of(sweep.id, one.record()))
        if problem:
            sweep.tell(one, "done", **journal.outcome(run), not_tracked=problem)
        else:
            sweep.done[one.number] = run


def _end_stale(sweep: Sweep) -> None:
    """Put in order what killed processes left of these cells: runs RUNNING in a store, half-written folders."""
    from mqlearn.storage import tracking

    for (uri, experiment), members in _stores(sweep.cells).items():
        digests = {one.digest for one in members}
        with contextlib.suppress(TrackingError):
            for left in running(uri, experiment) if uri is not None else ():
                if identity.digest_in(left.folder, left.digest) in digests:
                    with tracking.record_at_once(uri or "", experiment, left.digest) as held:
                        if held:  # else it is being recorded now
                            tracking.end_killed(uri or "", experiment, left.digest)
    place = locks.folder(outputs_folder())
    half_written = {parent: runs.leftovers(parent) for parent in {one.folder.parent for one in sweep.cells}}
    for one in sweep.cells:
        if one.folder.name in half_written[one.folder.parent]:
            with locks.at_once(place, *execute.claim(one.experiment, one.digest)) as held:
                if held:
                    runs.clear(one.folder)


def _mark_killed(sweep: Sweep) -> None:
    states = sweep.told()
    for one in sweep.missing:
        if states.get(one.number, {}).get("state") == "running":
            with contextlib.suppress(OSError):
                journal.record_killed(sweep.folder, sweep.record(one))
