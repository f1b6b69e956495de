"""The verbs of the command line; each takes its arguments and returns an exit code."""

import contextlib
import functools
import json
import os
import platform
import shlex
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from mqlearn import compose, config
from mqlearn.config import Cell
from mqlearn.errors import SettingError, nearest
from mqlearn.targets import SettingErrors

_SHOWN_BY_HYDRA = ("-c", "--cfg", "-i", "--info", "--hydra-help")
_CONFIG_DIR = ("--config-dir", "-cd")
_COMMAND = "MQLEARN_COMMAND"  # environment variable: the command line, for workers
_refused: dict[int, list[SettingError]] = {}  # by jobs in this process, whose id is the key


def run(arguments: Sequence[str]) -> int:
    """`mqlearn run`: validate every cell before anything is created, then let Hydra run them."""
    if any(argument.split("=")[0] in _SHOWN_BY_HYDRA for argument in arguments):
        folders = [after for flag, after in pairwise((*arguments, "")) if flag in _CONFIG_DIR]
        folders += [text.partition("=")[2] for text in arguments if text.startswith("--config-dir=")]
        overrides = [text for text in arguments if "=" in text and not text.startswith("-")]
        compose.check(overrides, folders[0] if folders else None)
        return hydra_main(arguments)
    options = _options(arguments, flags=("-m", "--multirun", "-r", "--run"), values=_CONFIG_DIR)
    jobs = compose.jobs(options.overrides, options.config_dir, multirun=options.multirun)
    named = [text for text in options.overrides if text.startswith(("hydra.run.dir=", "hydra.sweep.subdir="))]
    if named and any(_too_long(job.folder) for job in jobs):  # as with hydra.job.override_dirname and a large map
        names = " and ".join(text.partition("=")[0] for text in named)
        sys.stderr.write(f"mqlearn: {names}: too long for the name of a folder; named by digest instead\n")
        arguments = [argument for argument in arguments if argument not in named]
        overrides = [text for text in options.overrides if text not in named]
        jobs = compose.jobs(overrides, options.config_dir, multirun=options.multirun)
    _refuse_repetitions(jobs, options.overrides)
    SettingErrors.collect(functools.partial(_check_place, job) for job in jobs)
    code = hydra_main(arguments)
    _hide_passwords(jobs)
    return code


def _too_long(folder: Path) -> bool:
    return any(len(os.fsencode(part)) > 255 for part in folder.parts)


def _refuse_repetitions(jobs: Sequence[compose.Job], overrides: Sequence[str]) -> None:
    """Raise SettingError if two jobs of a sweep are the same cell: the same numbers, counted twice (SE-01)."""
    first: dict[Any, int] = {}
    for number, job in enumerate(jobs, 1):
        name = (job.cell.settings["experiment"]["name"], job.cell.digest)
        if name in first:
            setting, _, value = next(text for text in overrides if text not in job.overrides).partition("=")
            expected = f"must differ from job to job, but jobs {first[name]} and {number} are the same cell"
            raise SettingError(setting, value, f"{expected} ({job.cell.name})")
        first[name] = number


def _check_place(job: compose.Job) -> None:
    """Raise SettingError if a run cannot be tracked as asked for, or not be written to the folder that Hydra makes."""
    from mqlearn import runs

    tracker(job.cell.settings)
    if _too_long(job.folder):
        raise SettingError("hydra.run.dir", job.folder, "is too long for the name of a folder")
    runs.check_target(job.folder, job.cell.digest)
    above = next(place for place in (job.folder, *job.folder.parents) if place.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        expected = f"cannot be made: {above} is not a folder that can be written to"
        raise SettingError("hydra.run.dir", job.folder, expected)


def _hide_passwords(jobs: Sequence[compose.Job]) -> None:
    """Take the passwords of stores out of what Hydra's sweeper writes down."""
    from mqlearn.store import shown

    uris = {str(job.cell.settings["tracking"]["uri"]) for job in jobs}
    for file in {job.root / "multirun.yaml" for job in jobs}:
        if any(uri != shown(uri) for uri in uris) and file.is_file():
            text = file.read_text(encoding="utf-8")
            for uri in uris:
                text = text.replace(uri, shown(uri))
            file.write_text(text, encoding="utf-8")


def hydra_main(arguments: Sequence[str]) -> int:
    """Hand over to Hydra; what Hydra or a job refuses is raised here, without a traceback."""
    import hydra

    from mqlearn.store import shown

    compose.register_resolvers()
    os.environ["MQLEARN_OUTPUTS"] = str(config.outputs_folder())  # made absolute once, for all workers
    os.environ["HYDRA_FULL_ERROR"] = "1"  # else Hydra prints its errors itself, and exits with 1
    os.environ[_COMMAND] = shlex.join(["mqlearn", "run", *map(shown, arguments)])
    given, sys.argv = sys.argv, ["mqlearn", *arguments]
    _refused[os.getpid()] = refused = []
    start = hydra.main(config_path=str(config.CONF), config_name="config", version_base=compose.VERSION_BASE)
    try:
        with compose.hydra_errors([argument for argument in arguments if "=" in argument]):
            start(_job)()
    finally:
        sys.argv = given
        del os.environ[_COMMAND]
    if refused:
        raise SettingErrors.one_of(refused)
    return 0


def _job(configuration: Any) -> None:
    """One job of Hydra, in this process or a worker: its output directory becomes the run folder."""
    from hydra.core.hydra_config import HydraConfig

    compose.register_resolvers()
    runtime = HydraConfig.get().runtime
    folder = Path(runtime.output_dir)
    os.chdir(runtime.cwd)  # hydra.job.chdir=true or not: files and stores are named from where the user is
    try:
        cell = config.build(compose.plain(configuration))
        track = tracker(cell.settings)
        run_done = track.log(perform(cell, folder, track, known=_prospects(cell)))
    except SettingError as error:
        if os.getpid() not in _refused:  # a worker
            raise
        _refused[os.getpid()].append(error)
    else:
        with contextlib.suppress(BrokenPipeError):  # met again when the command line ends
            print(describe(run_done), flush=True)
    finally:
        if folder.is_dir() and not any(folder.iterdir()):  # Hydra made it; nothing came of it
            folder.rmdir()


def _prospects(cell: Cell) -> dict[str, Any]:
    """Say before a run what can be reached at best, and warn if that is next to nothing (FL-08); for the summary."""
    from mqlearn.mdp import FiniteMDP
    from mqlearn.truth import prospects

    if not isinstance(cell.mdp, FiniteMDP):
        return {}
    facts, warned = prospects(cell.mdp)
    success = facts["success_probability"]
    goal = "" if success is None else f", probability of reaching a goal {success:.6g}"
    print(f"{cell.mdp.name}, discount {cell.mdp.discount:g}: at best value {facts['start_value']:.6g} at the start{goal}")
    for text in warned:
        sys.stderr.write(f"warning: {text}\n")
    sys.stdout.flush()
    return {"optimum": facts, "warnings": warned}


# --- one cell -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tracker:
    """Where finished runs are tracked; uri None: nowhere."""

    uri: str | None
    experiment: str
    per_seed: bool
    named: bool = False  # by the setting tracking.uri

    def prepare(self) -> None:
        from mqlearn import tracking

        if self.uri is not None:
            tracking.prepare(self.uri, self.experiment, outputs=config.outputs_folder())

    def log(self, run_done: Any) -> Any:
        """The run with its id in the store; if the store fails, as it was, and a message says what to do."""
        from mqlearn import runs, tracking

        if self.uri is None:
            return run_done
        try:
            tracking.log(run_done, self.uri, self.experiment, self.per_seed)
        except (tracking.TrackingError, SettingError) as error:
            uri = f" tracking.uri={shlex.quote(self.uri)}" if self.named else ""
            sys.stderr.write(
                f"mqlearn: not tracked: {error}\nThe run is complete in {run_done.folder}; deliver it with\n"
                f"  mqlearn upload {shlex.quote(str(run_done.folder))}{tracking.shown(uri)}\n"
            )
        return runs.load(run_done.folder)


def tracker(settings: dict[str, Any]) -> Tracker:
    """The tracker that some settings name. Raises SettingError for an address that is no store's."""
    node, name = config.tracking(settings["tracking"]), settings["experiment"]["name"]
    if node["name"] == "none":
        return Tracker(None, name, False)
    from mqlearn import tracking

    if name == "Default":
        raise SettingError("experiment.name", name, "is MLflow's own, where stray runs land: choose another name")
    uri = tracking.resolve_uri(node["uri"], os.environ.get("MLFLOW_TRACKING_URI"), config.outputs_folder())
    return Tracker(uri, name, node["per_seed"], node["uri"] is not None)


def perform(
    cell: Cell, folder: Path, track: Tracker, label: str | None = None, known: dict[str, Any] | None = None
) -> Any:
    """Run a cell and write its folder; the store is opened while the kernels run, the caller logs the run.

    `known` joins the summary; its warnings have been shown.
    """
    from mqlearn import runs
    from mqlearn.progress import Progress
    from mqlearn.store import shown

    runs.check_target(folder, cell.digest)
    # Shown when MLflow is imported beside another thread that handles warnings; no proxy is used here.
    warnings.filterwarnings("ignore", "SOCKS support in urllib3")
    with ThreadPoolExecutor(1) as pool:
        ready = pool.submit(_quietly, track.prepare)
        with Progress(label or cell.name, cell.settings["iterations"]) as progress:
            result = cell.run(progress)
        for warning in result.warnings:
            sys.stderr.write(f"warning: {warning}\n")
        tracked = cell.settings["tracking"]
        written = runs.write(
            folder,
            settings=cell.settings | {"tracking": tracked | {"uri": tracked["uri"] and shown(tracked["uri"])}},
            digest=cell.digest,
            name=cell.name,
            result=result,
            extra=_circumstances(result, known or {}),
        )
        ready.result()
    return written


def _quietly(prepare: Callable[[], None]) -> None:
    """A store that cannot be opened is met again, and reported, when the run is logged."""
    from mqlearn.tracking import TrackingError

    with contextlib.suppress(TrackingError, SettingError):
        prepare()


def _circumstances(result: Any, known: dict[str, Any]) -> dict[str, Any]:
    """What the summary records beside the numbers."""
    from mqlearn.experiment import NUMERICS_VERSION

    return {
        "reward": result.reward,
        **known,
        **result.facts,
        "warnings": [*known.get("warnings", []), *result.warnings],
        "numerics_version": NUMERICS_VERSION,
        "versions": versions(),
        "git_commit": git_commit(),
        "command": command(),
    }


def versions() -> dict[str, str]:
    """Versions of the interpreter and of what computes the numbers."""
    from importlib.metadata import version

    names = ("mqlearn", "numpy", "scipy", "numba", "gymnasium")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}


def git_commit() -> str | None:
    """Commit of the clone that this package runs from, with a mark if the tree has changes; None elsewhere."""
    root = config.PACKAGE.parent
    if not (root / ".git").exists():
        return None
    try:
        call = ["git", "-C", str(root), "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"]
        return subprocess.run(call, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def command() -> str:
    """The command line that led here, to be typed again; passwords are left out."""
    from mqlearn.store import shown

    return os.environ.get(_COMMAND) or shlex.join(["mqlearn", *map(shown, sys.argv[1:])])


def describe(run_done: Any) -> str:
    """What is printed when a run ends."""
    summary = run_done.summary
    outcome = f", {summary['outcome']}" if "outcome" in summary else ""
    lines = [f"{run_done.name}: {run_done.status}{outcome}, {summary['seconds']:.2f} s of learning"]
    n_seeds = run_done.settings["n_seeds"]
    for metric, final in summary["final"].items():
        if final["mean"] is None:
            continue
        interval = "no interval" if final["low"] is None else f"[{final['low']:.4g}, {final['high']:.4g}]"
        lines.append(f"  {metric:14} {final['mean']:.6g}  {interval}")
    if summary["final"]:
        lines.append(
            f"  at k = {run_done.settings['iterations']}: mean, 95 % interval of the mean, {n_seeds} seeds"
        )
    for seed, step in run_done.diverged.items():
        lines.append(f"  seed {seed} diverged at step {step}")
    lines.append(f"  folder {run_done.folder}")
    if summary["mlflow_run_id"]:
        uri = run_done.settings["tracking"]["uri"]
        viewer = shlex.join(["mqlearn", "ui", *([f"tracking.uri={uri}"] if uri else [])])
        lines.append(f"  MLflow run {summary['mlflow_run_id']}; `{viewer}` shows it")
    return "\n".join(lines)


# --- arguments ----------------------------------------------------------------------------------------------------


@dataclass
class Options:
    """Arguments of a verb: flags, --config-dir, and the overrides for Hydra."""

    overrides: list[str] = field(default_factory=list)
    given: set[str] = field(default_factory=set)
    config_dir: str | None = None

    @property
    def multirun(self) -> bool:
        return bool({"-m", "--multirun"} & self.given)


def _options(arguments: Sequence[str], *, flags: Sequence[str] = (), values: Sequence[str] = ()) -> Options:
    options = Options()
    rest = iter(arguments)
    for argument in rest:
        name, _, value = argument.partition("=")
        if name in values:
            options.config_dir = value or next(rest, "")
        elif argument in flags:
            options.given.add(argument)
        elif argument.startswith("-"):
            known = ", ".join([*flags, *values])
            expected = f"must be one of {known}" if known else "there are no flags here"
            raise SettingError("flag", argument, expected + nearest(name, [*flags, *values]))
        else:
            options.overrides.append(argument)
    return options


def _only(verb: str, overrides: Sequence[str], groups: Sequence[str]) -> None:
    """Raise SettingError for overrides that a verb would not heed."""
    for text in overrides:
        key, _, value = text.partition("=")
        if key.lstrip("+~").partition(".")[0] not in groups:
            expected = f"has no effect on `mqlearn {verb}`; only {' and '.join(groups)} can be set"
            raise SettingError(key, value, expected)


# --- the other verbs ----------------------------------------------------------------------------------------------


def truth(arguments: Sequence[str]) -> int:
    """`mqlearn truth`: the exact optimum of an environment."""
    from mqlearn.mdp import FiniteMDP
    from mqlearn.truth import report

    options = _options(arguments, flags=("--json",), values=_CONFIG_DIR)
    cell = config.build(compose.compose(options.overrides, options.config_dir))
    if not isinstance(cell.mdp, FiniteMDP):
        reason = "no exact model: its optimum and errors against it are not available"
        raise SettingError("env", cell.mdp.name, reason)
    facts, warnings = report(cell.mdp)
    if "--json" in options.given:
        print(json.dumps(facts))
    else:
        print("\n".join(f"{name.replace('_', ' '):22} {value}" for name, value in facts.items()))
    for warning in warnings:
        sys.stderr.write(f"warning: {warning}\n")
    return 0


def rerun(arguments: Sequence[str]) -> int:
    """`mqlearn rerun`: repeat a run from its record alone; 1 if the numbers differ."""
    import tempfile

    import numpy as np

    from mqlearn import runs, tracking

    options = _options(arguments)
    if not options.overrides or "=" in options.overrides[0]:
        raise SettingError("rerun", " ".join(arguments), "must name a run folder or an MLflow run id first")
    source, *overrides = options.overrides
    _only("rerun", overrides, ("tracking", "n_workers"))
    changes = compose.compose(["tracking=mlflow", *overrides])
    if Path(source).is_dir():
        recorded = runs.load(source)
    else:
        recorded = tracking.find(tracker(changes).uri or "", source, config.outputs_folder())
    where = {"tracking": {"name": "none"}, "n_workers": changes["n_workers"]}
    cell = config.build({**changes, **recorded.settings, **where})  # defaults for what is newer than the record
    if cell.digest != recorded.digest:
        sys.stderr.write(
            f"warning: the digest is now {cell.digest[:16]}, not {recorded.digest[:16]}: the numerics version "
            f"({recorded.summary.get('numerics_version')}) or a module in use has changed\n"
        )
    with tempfile.TemporaryDirectory(prefix="mqlearn-") as folder:
        repeated = perform(cell, Path(folder) / "run", tracker(cell.settings))
        different = [
            f"{kind} {name}"
            for kind, old, new in (
                ("curve", recorded.curves, repeated.curves),
                ("table", recorded.tables, repeated.tables),
            )
            for name in {*old, *new}
            if name not in old or name not in new or not np.array_equal(old[name], new[name], equal_nan=True)
        ]
    if different:
        print(f"different: {', '.join(sorted(different))} of {recorded.name}")
        return 1
    print(f"the same numbers, bit for bit: {recorded.name}")
    return 0


def upload(arguments: Sequence[str]) -> int:
    """`mqlearn upload`: deliver run folders to the store, each once."""
    from mqlearn import runs, tracking

    options = _options(arguments)
    folders = [argument for argument in options.overrides if Path(argument).exists() or "=" not in argument]
    overrides = [argument for argument in options.overrides if argument not in folders]
    if not folders:
        raise SettingError("upload", " ".join(arguments), "must name at least one run folder")
    _only("upload", overrides, ("tracking",))
    settings = compose.compose(["tracking=mlflow", *overrides])
    for folder in folders:
        settings["experiment"] = runs.load(folder).settings["experiment"]
        track = tracker(settings)
        try:
            track.prepare()
            run_id = tracking.upload(folder, track.uri or "", track.experiment, track.per_seed)
        except tracking.TrackingError as error:
            sys.stderr.write(f"mqlearn: not delivered: {error}\n")
            return 1
        print(f"{folder}: MLflow run {run_id}")
    return 0


def ui(arguments: Sequence[str]) -> int:
    """`mqlearn ui`: the MLflow UI on the store."""
    from mqlearn import tracking

    options = _options(arguments)
    port = next((argument[5:] for argument in options.overrides if argument.startswith("port=")), "5000")
    if not port.isdigit() or not 0 < int(port) < 65536:
        raise SettingError("port", port, "must be a whole number from 1 to 65535")
    overrides = [argument for argument in options.overrides if not argument.startswith("port=")]
    _only("ui", overrides, ("tracking", "port"))
    uri = tracker(compose.compose(["tracking=mlflow", *overrides])).uri
    tracking.open_ui(uri or "", port=int(port))
    return 0


def figure(arguments: Sequence[str]) -> int:
    """`mqlearn figure NAME`: run what is missing, then draw."""
    from mqlearn.figures import make

    options = _options(arguments, flags=("--check",), values=_CONFIG_DIR)
    if not options.overrides or "=" in options.overrides[0]:
        raise SettingError("figure", " ".join(arguments), "must name a figure first, for example figure1")
    name, *overrides = options.overrides
    return make.figure(name, overrides, options.config_dir, check="--check" in options.given)


__all__ = ["figure", "rerun", "run", "truth", "ui", "upload"]
