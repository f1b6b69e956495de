"""`mqlearn run -m`: plan all cells, run what is missing, account for every one of them.

Hydra composes, and its launchers run the jobs; this module decides which, looks at what is on disk when they have
ended, however they ended, and launches again what a dead worker took with it.
"""

import contextlib
import importlib.util
import os
import re
import secrets
import shlex
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from mqlearn import cells, commands, compose, config, journal, processes, runs, tuning
from mqlearn.arguments import Options, refuse_finished
from mqlearn.errors import SettingError
from mqlearn.plans import expand
from mqlearn.store import TrackingError, experiment_id, running, shown

_EXTRAS = {
    "submitit_local": ("slurm", "hydra_plugins.hydra_submitit_launcher"),
    "submitit_slurm": ("slurm", "hydra_plugins.hydra_submitit_launcher"),
    "ray": ("ray", "hydra_plugins.hydra_ray_launcher"),
    "optuna": ("optuna", "hydra_plugins.hydra_optuna_sweeper"),
}


@dataclass(frozen=True)
class Planned:
    """One cell of a sweep, without its arrays. cell, group: tags; subfolder: below `root`, Hydra's sweep folder."""

    number: int
    digest: str
    name: str
    overrides: tuple[str, ...]
    experiment: str
    cell: str
    group: str
    root: str
    subfolder: str
    settings: dict[str, Any]
    uri: str | None
    per_seed: bool
    n_seeds: int
    work: float
    bytes: int

    @property
    def folder(self) -> Path:
        return Path(self.root) / self.subfolder

    @property
    def track(self) -> "cells.Tracker":
        return cells.Tracker(self.uri, self.experiment, self.per_seed)


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
    problems: list[str] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        return journal.sweeps(config.outputs_folder()) / self.id

    @property
    def missing(self) -> list[Planned]:
        return [one for one in self.cells if one.number not in self.done]

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


def finished_run(job: compose.Job) -> runs.Run | None:
    """The finished run of a job, if there is one."""
    track, outputs = cells.tracker(job.cell.settings), config.outputs_folder()
    found = runs.select(outputs, track.experiment, store=track.uri, digests=[job.cell.digest])
    return found.get(job.cell.digest)


def run(arguments: Sequence[str], options: Options, *, preview: bool, existing: str) -> int:
    """`mqlearn run -m`: 1 if a cell failed, else 0. Raises SettingError before anything is created."""
    chosen = {text.partition("=")[0]: text.partition("=")[2] for text in options.overrides}
    for setting in ("hydra/launcher", "hydra/sweeper"):
        extra, module = _EXTRAS.get(chosen.get(setting, ""), ("", ""))
        if extra and not _installed(module):
            expected = f"needs the extra {extra}: pip install 'mqlearn[{extra}]'"
            raise SettingError(setting, chosen[setting], expected)
    if chosen.get("experiment") and not preview and len(compose.sweep(options.overrides, options.config_dir)) == 1:
        tuned = tuning.settings_of(options)
        if tuned is not None:
            if not _installed(_EXTRAS["optuna"][1]):
                raise SettingError("experiment", "tuning", "needs the extra optuna: pip install 'mqlearn[optuna]'")
            return tuning.run(tuned, options)
    if chosen.get("hydra/sweeper", "mqlearn") != "mqlearn":  # which decides itself what runs, one result at a time
        return commands.hydra_main(arguments)
    added, launcher = _defaults(chosen)
    name = _new_id()
    if launcher.startswith("submitit") and "hydra.launcher.submitit_folder" not in chosen:
        place = journal.sweeps(config.outputs_folder()) / name / "submitit" / "%j"
        added.append(f"hydra.launcher.submitit_folder={_quoted(str(place))}")
    planned = plan(options.overrides, added, options.config_dir)
    command = shlex.join(["mqlearn", "run", *map(shown, arguments)])
    sweep = Sweep(name, planned, command, launcher, existing, options.config_dir, added)
    kept: list[Planned] = []
    if existing != "rerun" or preview:
        kept = _find_done(sweep)
    if existing == "error" and not preview:
        refuse_finished(len(sweep.done) + len(kept), len(planned))
    if preview:
        print(_preview(sweep, kept, chosen))
        return 0
    return _execute(sweep, kept, [*arguments, *added])


def _execute(sweep: Sweep, kept: list[Planned], arguments: Sequence[str]) -> int:
    from mqlearn import audit

    interrupted = False
    with processes.ending_promptly(lambda: _mark_killed(sweep)):
        try:
            if sweep.missing:
                (sweep.folder / "cells").mkdir(parents=True)
                sweep.write_plan()
                _prepare_stores(sweep)
                _end_stale(sweep)
                _deliver(sweep, kept)
                with audit.watching(sweep):
                    _launch(sweep, arguments)
        except KeyboardInterrupt:
            interrupted = True
            _mark_killed(sweep)
        except OSError as error:
            raise SettingError("MQLEARN_OUTPUTS", sweep.folder, f"the sweep cannot be recorded: {error}") from error
    states = journal.states(sweep.folder)
    if sweep.folder.exists():
        if not interrupted:
            _end_stale(sweep)
        sweep.write_plan(ended=journal.now())
    print(audit.summary(sweep, states, interrupted=interrupted), flush=True)
    if interrupted:
        raise KeyboardInterrupt
    good = len(sweep.done) + sum(state["state"] == "done" for state in states.values())
    return 0 if good == len(sweep.cells) and not sweep.problems else 1


def plan(overrides: Sequence[str], added: Sequence[str], config_dir: str | None) -> list[Planned]:
    """All cells of a multirun; an experiment yaml with curves stands for its cells. Raises one SettingError."""
    expanded: list[tuple[list[str], str, str]] = []
    lists = compose.sweep(overrides, config_dir)
    common = set.intersection(*map(set, lists))
    for base in lists:
        swept = " ".join(shown(text) for text in base if text not in common)
        if any(text.partition("=")[0].lstrip("+") == "experiment" for text in base):
            settings = compose.compose(base, config_dir)
            if (settings.get("figure") or {}).get("curves"):
                places = expand(settings["figure"], base)
                expanded += [(one, " ".join([label, *[swept] * bool(swept)]), panel) for panel, label, one in places]
                continue
        expanded.append((base, swept, ""))
    labels = {(*own, *added): (tuple(own), label, panel) for own, label, panel in expanded}

    def keep(job: compose.Job) -> Planned:
        return _planned(_short_named(job), *labels[job.overrides])

    every = [(*own, *added) for own, _, _ in expanded]
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


def _planned(job: compose.Job, overrides: tuple[str, ...], label: str, panel: str) -> Planned:
    commands.check_place(job)
    settings, track = job.cell.settings, cells.tracker(job.cell.settings)
    mdp, n_seeds = job.cell.mdp, settings["n_seeds"]
    table = getattr(mdp, "n_states", 1) * getattr(mdp, "n_actions", 1)
    size = 8 * (n_seeds * (5 * settings["n_checkpoints"] + table) + 20 * table)
    rows = 0 if track.uri is None else 25 * settings["n_checkpoints"] * 100  # of the store
    problem = f"{settings['env']['name']} discount={settings['discount']:g} {settings['sampling']['name']}"
    return Planned(
        number=0,
        digest=job.cell.digest,
        name=job.cell.name,
        overrides=overrides,
        experiment=settings["experiment"]["name"],
        cell=label or job.cell.name,
        group=panel or problem,
        root=str(job.root),
        subfolder=str(job.folder.relative_to(job.root)),
        settings=cells.without_passwords(settings),
        uri=track.uri,
        per_seed=track.per_seed,
        n_seeds=n_seeds,
        work=cells.estimated_seconds(job.cell),
        bytes=size * (1 if track.uri is None else 2) + rows,
    )


def _short_named(job: compose.Job) -> compose.Job:
    """A folder named after all overrides may be too long for the system: its digest then names it."""
    if not commands.too_long(job.folder):
        return job
    return compose.Job(job.overrides, job.cell, job.root / job.cell.subfolder, job.root)


def _refuse_repetitions(planned: Sequence[Planned], overrides: Sequence[str]) -> None:
    """Raise SettingError if two jobs of a sweep are the same cell: the same numbers, counted twice (SE-01)."""
    first: dict[Any, int] = {}
    for number, one in enumerate(planned, 1):
        name = (one.experiment, one.digest)
        if name in first:
            given = {text.replace("\\", "") for text in one.overrides}  # Hydra escapes what it hands on
            swept = [text for text in overrides if text.replace("\\", "") not in given]
            setting, _, value = (swept or list(overrides))[0].partition("=")
            expected = f"must differ from job to job, but jobs {first[name]} and {number} are the same cell"
            raise SettingError(setting, value, f"{expected} ({one.name})")
        first[name] = number


def _defaults(chosen: dict[str, str]) -> tuple[list[str], str]:
    """Overrides that a multirun adds (joblib where there are cores, one thread a job), and the launcher."""
    added, launcher = [], chosen.get("hydra/launcher")
    if launcher is None:
        named = any(key.lstrip("+").startswith("hydra.launcher.") for key in chosen)
        launcher = "joblib" if named or (os.cpu_count() or 1) > 1 else "basic"
        added = [f"hydra/launcher={launcher}"]
    if launcher != "basic" and "n_workers" not in chosen:
        threads = chosen.get("hydra.launcher.cpus_per_task", "1")
        added.append(f"n_workers={threads if threads.isdigit() else 1}")
    return added, launcher


def _installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _new_id() -> str:
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"


def _is_hydra(text: str) -> bool:
    return text.lstrip("+~").startswith(("hydra.", "hydra/"))


def _stores(planned: Sequence[Planned]) -> dict[tuple[str | None, str], list[Planned]]:
    """Cells by store and experiment."""
    groups: dict[tuple[str | None, str], list[Planned]] = {}
    for one in planned:
        groups.setdefault((one.uri, one.experiment), []).append(one)
    return groups


def _find_done(sweep: Sweep) -> list[Planned]:
    """Fill sweep.done from the stores; the cells that are complete on disk and not in their store."""
    kept = []
    for (uri, experiment), members in _stores(sweep.cells).items():
        try:
            digests = [one.digest for one in members]
            found = runs.select(config.outputs_folder(), experiment, store=uri, digests=digests)
        except TrackingError as error:
            sys.stderr.write(f"mqlearn: {error}; finished runs are looked for on disk alone\n")
            found = {}
        for one in members:
            if one.digest in found:
                sweep.done[one.number] = found[one.digest]
            elif runs.is_complete(one.folder, one.digest):
                if uri is None:
                    sweep.done[one.number] = runs.load(one.folder)
                else:
                    kept.append(one)
    return kept


# --- before and after the jobs ------------------------------------------------------------------------------------


def _prepare_stores(sweep: Sweep) -> None:
    """Make stores, schemas and experiments, once, before any job."""
    for (uri, experiment), members in _stores(sweep.missing).items():
        if uri is not None and not experiment_id(uri, experiment):  # else it is there, and MLflow's import is spared
            try:
                members[0].track.prepare()
            except TrackingError as error:
                sys.stderr.write(f"mqlearn: {error}\nThe runs are kept on disk until they can be delivered.\n")


def _deliver(sweep: Sweep, kept: Sequence[Planned]) -> None:
    """Upload what is complete on disk and not in its store: it need not run again."""
    from mqlearn import tracking

    for one in kept:
        tags = journal.tags_of(sweep.id, asdict(one))
        try:
            tracking.upload(one.folder, one.uri or "", one.experiment, one.per_seed, tags=tags)
            problem = None
        except TrackingError as error:
            problem = str(error)
        run_kept = runs.load(one.folder)
        sweep.done[one.number] = run_kept
        if problem:
            more = {"not_tracked": problem}
            journal.mark(sweep.folder, asdict(one), "done", **journal.outcome(run_kept), **more)
            del sweep.done[one.number]


def _end_stale(sweep: Sweep) -> None:
    """End runs of these cells that a killed process left RUNNING in a store."""
    from mqlearn import tracking

    for (uri, experiment), members in _stores(sweep.cells).items():
        digests = {one.digest for one in members}
        with contextlib.suppress(TrackingError):
            stale = [] if uri is None else [run_id for digest, run_id in running(uri, experiment) if digest in digests]
            if uri is not None and stale:
                tracking.end_killed(uri, stale)


def _mark_killed(sweep: Sweep) -> None:
    states = journal.states(sweep.folder)
    for one in sweep.missing:
        if states.get(one.number, {}).get("state") == "running":
            journal.record_killed(sweep.folder, sweep.record(one))


# --- the jobs -----------------------------------------------------------------------------------------------------


def _launch(sweep: Sweep, arguments: Sequence[str]) -> None:
    """Let Hydra set up its launcher, which then carries out the sweep."""
    from mqlearn import sweeper

    sweeper.register(lambda launch: _carry_out(sweep, launch))
    try:
        commands.hydra_main(arguments)
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
                journal.mark(sweep.folder, asdict(one), "failed", error=reason)
            break
        waiting = left
    for one in alone:
        error = _attempt(sweep, launch, [one])
        state = journal.states(sweep.folder).get(one.number, {}).get("state")
        if state not in ("done", "failed"):
            reason = "its process died twice, the second time alone (killed, or out of memory?)"
            detail = f" ({type(error).__name__})" if error else ""
            journal.mark(sweep.folder, asdict(one), "failed", error=reason + detail)


def _attempt(sweep: Sweep, launch: Callable[..., Any], members: Sequence[Planned]) -> Exception | None:
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


def _quoted(text: str) -> str:
    """A value for Hydra's grammar, whatever it holds: backslashes are its escapes only where a quote follows."""
    return "'" + re.sub(r"(\\*)('|$)", lambda found: 2 * found[1] + found[2].replace("'", "\\'"), text) + "'"


# --- preview ------------------------------------------------------------------------------------------------------


def _preview(sweep: Sweep, kept: Sequence[Planned], chosen: dict[str, str]) -> str:
    missing = [one for one in sweep.missing if one not in kept]
    jobs = chosen.get("hydra.launcher.n_jobs", "-1")
    cores = os.cpu_count() or 1
    at_once = 1 if sweep.launcher == "basic" else int(jobs) if jobs.isdigit() and jobs != "0" else cores
    rates = [d.summary["seconds"] / one.work for one in sweep.cells if (d := sweep.done.get(one.number)) and one.work]
    rate = sorted(rates)[len(rates) // 2] if rates else 1.0
    seconds = 5 + sum(0.2 + rate * one.work for one in missing) / at_once if missing else 0
    source = f"from {len(rates)} finished runs of this sweep" if rates else "rough: no run of this sweep is finished"
    size = sum(one.bytes for one in missing) / 1e6
    lines = [
        f"{len(sweep.cells)} cells, {len(sweep.done)} done, {len(missing)} to run"
        + (f", {len(kept)} complete on disk to be delivered" if kept else ""),
        f"launcher {sweep.launcher}, {at_once} at a time; existing={sweep.existing}",
        f"about {_duration(seconds)} ({source}), about {size:.3g} MB of disk",
        f"experiment: {', '.join(sorted({one.experiment for one in sweep.cells}))}",
    ]
    shown_cells = sweep.cells[:5]
    lines += [f"  {one.number:4} {'done' if one.number in sweep.done else '    '} {one.name}" for one in shown_cells]
    if len(sweep.cells) > len(shown_cells):
        lines.append(f"  and {len(sweep.cells) - len(shown_cells)} more")
    lines.append("Nothing was created.")
    return "\n".join(lines)


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


__all__ = ["Planned", "Sweep", "finished_run", "plan", "run"]
