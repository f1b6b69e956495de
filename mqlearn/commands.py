"""The verbs of the command line; each takes its arguments and returns an exit code."""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mqlearn import compose, config
from mqlearn.config import Cell
from mqlearn.errors import SettingError, nearest

_HYDRA_FLAGS = (
    "-c",
    "--cfg",
    "-i",
    "--info",
    "-sc",
    "--shell-completion",
    "--hydra-help",
    "--version",
    "-p",
    "--package",
)
_refused: list[SettingError] = []


def run(arguments: Sequence[str]) -> int:
    """`mqlearn run`: validate every cell before anything is created, then let Hydra run them."""
    if any(argument.split("=")[0] in _HYDRA_FLAGS for argument in arguments):
        return hydra_main(arguments)
    options = _options(arguments, flags=("-m", "--multirun", "-r", "--run"), values=("--config-dir", "-cd"))
    jobs = compose.sweep(options.overrides) if options.multirun else [options.overrides]
    cells = [config.build(settings) for settings in compose.compose_all(jobs, options.config_dir)]
    for cell in cells:
        tracker(cell.settings)
    return hydra_main(arguments)


def hydra_main(arguments: Sequence[str]) -> int:
    """Hand over to Hydra; what a job refused is raised here, without Hydra's traceback."""
    import hydra

    compose.register_resolvers()
    os.environ["MQLEARN_OUTPUTS"] = str(config.outputs_folder())  # made absolute once, for all workers
    sys.argv = ["mqlearn", *arguments]
    with compose.hydra_errors():
        hydra.main(config_path=str(config.CONF), config_name="config", version_base=compose.VERSION_BASE)(
            _job
        )()
    if _refused:
        raise _refused.pop()
    return 0


def _job(configuration: Any) -> None:
    """One job of Hydra, in this process or a worker: its output directory becomes the run folder."""
    from hydra.core.hydra_config import HydraConfig

    compose.register_resolvers()
    folder = Path(HydraConfig.get().runtime.output_dir)
    try:
        cell = config.build(compose.plain(configuration))
        track = tracker(cell.settings)
        run_done = track.log(perform(cell, folder, track))
    except SettingError as error:
        _refused.append(error)
    else:
        print(describe(run_done))
    finally:
        if folder.is_dir() and not any(folder.iterdir()):  # Hydra made it; nothing came of it
            folder.rmdir()


# --- one cell -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tracker:
    """Where finished runs are tracked; uri None: nowhere."""

    uri: str | None
    experiment: str
    per_seed: bool

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
        except tracking.TrackingError as error:
            sys.stderr.write(
                f"mqlearn: not tracked: {error}\nThe run is complete in {run_done.folder}; deliver it with\n"
                f"  mqlearn upload '{run_done.folder}'\n"
            )
        return runs.load(run_done.folder)


def tracker(settings: dict[str, Any]) -> Tracker:
    """The tracker that some settings name. Raises SettingError for an address that is no store's."""
    node = settings["tracking"]
    kinds = ("mlflow", "none")
    if node["name"] not in kinds:
        raise SettingError(
            "tracking", node["name"], f"must be mlflow or none{nearest(str(node['name']), kinds)}"
        )
    uri = None
    if node["name"] == "mlflow":
        from mqlearn import tracking

        uri = tracking.resolve_uri(
            node["uri"], os.environ.get("MLFLOW_TRACKING_URI"), config.outputs_folder()
        )
    return Tracker(uri, settings["experiment"]["name"], bool(node["per_seed"]))


def perform(cell: Cell, folder: Path, track: Tracker, label: str | None = None) -> Any:
    """Run a cell and write its folder; the store is opened while the kernels run, the caller logs the run."""
    from mqlearn import runs
    from mqlearn.progress import Progress

    runs.check_target(folder, cell.digest)
    with ThreadPoolExecutor(1) as pool:
        ready = pool.submit(_quietly, track.prepare)
        with Progress(label or cell.name, cell.settings["iterations"]) as progress:
            result = cell.run(progress)
        for warning in result.warnings:
            sys.stderr.write(f"warning: {warning}\n")
        written = runs.write(
            folder,
            settings=cell.settings,
            digest=cell.digest,
            name=cell.name,
            result=result,
            extra=_circumstances(result),
        )
        ready.result()
    return written


def _quietly(prepare: Callable[[], None]) -> None:
    """A store that cannot be opened is met again, and reported, when the run is logged."""
    from mqlearn.tracking import TrackingError

    try:
        prepare()
    except TrackingError:
        return


def _circumstances(result: Any) -> dict[str, Any]:
    """What the summary records beside the numbers."""
    from mqlearn.experiment import NUMERICS_VERSION

    return {
        "reward": result.reward,
        **result.facts,
        "warnings": list(result.warnings),
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
    """This command line, to be typed again."""
    import shlex

    return shlex.join(["mqlearn", *sys.argv[1:]])


def describe(run_done: Any) -> str:
    """What is printed when a run ends."""
    summary = run_done.summary
    lines = [f"{run_done.name}: {run_done.status}, {summary['seconds']:.2f} s of learning"]
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
        lines.append(f"  MLflow run {summary['mlflow_run_id']}; mqlearn ui shows it")
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
            raise SettingError("flag", argument, f"must be one of {', '.join([*flags, *values])}")
        else:
            options.overrides.append(argument)
    return options


# --- the other verbs ----------------------------------------------------------------------------------------------


def truth(arguments: Sequence[str]) -> int:
    """`mqlearn truth`: the exact optimum of an environment."""
    from mqlearn.truth import report

    options = _options(arguments, flags=("--json",), values=("--config-dir",))
    cell = config.build(compose.compose(options.overrides, options.config_dir))
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
    changes = compose.compose(["tracking=mlflow", *overrides])
    if Path(source).is_dir():
        recorded = runs.load(source)
    else:
        recorded = tracking.find(tracker(changes).uri or "", source, config.outputs_folder())
    cell = config.build(
        {
            **recorded.settings,
            "tracking": {**changes["tracking"], "name": "none"},
            "n_workers": changes["n_workers"],
        }
    )
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
    uri = tracker(compose.compose(["tracking=mlflow", *overrides])).uri
    tracking.open_ui(uri or "", port=int(port))
    return 0


def figure(arguments: Sequence[str]) -> int:
    """`mqlearn figure NAME`: run what is missing, then draw."""
    from mqlearn.figures import make

    options = _options(arguments, flags=("--check",), values=("--config-dir",))
    if not options.overrides or "=" in options.overrides[0]:
        raise SettingError("figure", " ".join(arguments), "must name a figure first, for example figure1")
    name, *overrides = options.overrides
    return make.figure(name, overrides, options.config_dir, check="--check" in options.given)


__all__ = ["figure", "rerun", "run", "truth", "ui", "upload"]
