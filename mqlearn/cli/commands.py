"""The verbs of the command line; each takes its arguments and returns an exit code."""

import json
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from mqlearn.checks import TRUTH
from mqlearn.cli.arguments import CONFIG_DIR, Options, only, parse, refuse_finished, take, take_existing
from mqlearn.errors import SettingError
from mqlearn.experiments.execute import describe, perform, tracker
from mqlearn.experiments.jobs import check_place, hydra_main, too_long
from mqlearn.experiments.settings import compose
from mqlearn.experiments.settings.cell import build, build_environment
from mqlearn.paths import outputs_folder

_SHOWN_BY_HYDRA = ("-c", "--cfg", "-i", "--info", "--hydra-help")


def run(arguments: Sequence[str]) -> int:
    """`mqlearn run`: validate every cell before anything is created, then let Hydra run them."""
    if any(argument.split("=")[0] in _SHOWN_BY_HYDRA for argument in arguments):
        folders = [after for flag, after in pairwise((*arguments, "")) if flag in CONFIG_DIR]
        folders += [text.partition("=")[2] for text in arguments if text.startswith("--config-dir=")]
        overrides = [text for text in arguments if "=" in text and not text.startswith("-")]
        compose.check(overrides, folders[0] if folders else None)
        return hydra_main([*(text for text in arguments if text not in overrides), *overrides])
    options = parse(arguments, flags=("-m", "--multirun", "-r", "--run"), values=CONFIG_DIR)
    from mqlearn.experiments import processes
    from mqlearn.experiments.sweep import command as sweeps

    preview, existing = _truth("preview", take(options, "preview") or "false"), take_existing(options)
    flags = ["--multirun"] if options.multirun else []
    folder = [] if options.config_dir is None else ["--config-dir", options.config_dir]
    arguments = [*flags, *folder, *options.overrides]  # in this order: Hydra takes no flags between overrides
    if options.multirun or preview:
        return sweeps.run(arguments, options, preview=preview, existing=existing or "skip")
    (job,) = compose.jobs([options.overrides], options.config_dir, multirun=False)
    named = [text for text in options.overrides if text.startswith("hydra.run.dir=")]
    if named and too_long(job.folder):  # as with hydra.job.override_dirname and a large map
        sys.stderr.write("mqlearn: hydra.run.dir: too long for the name of a folder; named by digest instead\n")
        arguments = [text for text in arguments if text not in named]
        (job,) = compose.jobs(
            [[text for text in options.overrides if text not in named]], options.config_dir, multirun=False
        )
    check_place(job)
    done = sweeps.finished_run(job) if existing in ("skip", "error") else None
    if existing == "error":
        refuse_finished(int(done is not None), 1)
    if done is not None:
        print(f"finished already (existing=rerun repeats it)\n{describe(done)}")
        return 0
    _warn_of_cells(options)
    with processes.ending_promptly(lambda: None):
        return hydra_main(arguments)


def _warn_of_cells(options: Options) -> None:
    """Say that an experiment's curves are not what a single run runs."""
    if not any(text.startswith("experiment=") for text in options.overrides):
        return
    spec = compose.compose(options.overrides, options.config_dir).get("figure") or {}
    if cells := len(spec.get("grid") or [""]) * len(spec.get("curves") or []):
        sys.stderr.write(f"warning: this is one run; the {cells} cells of this experiment are run by mqlearn run -m\n")


def _truth(setting: str, text: str) -> bool:
    if text.lower() not in TRUTH:
        raise SettingError(setting, text, "must be true or false")
    return TRUTH[text.lower()]


# --- the other verbs ----------------------------------------------------------------------------------------------


def truth(arguments: Sequence[str]) -> int:
    """`mqlearn truth`: the exact optimum of an environment."""
    from mqlearn.problems.mdp import FiniteMDP
    from mqlearn.problems.prospects import report

    options = parse(arguments, flags=("--json",), values=CONFIG_DIR)
    settings = compose.compose(options.overrides, options.config_dir)
    mdp = build_environment(settings)
    if not isinstance(mdp, FiniteMDP):  # said first: other settings may not suit such an environment either
        reason = "no exact model: its optimum and errors against it are not available"
        if mdp.n_observations is not None:
            reason += "; env.estimate=STEPS makes one from steps"
        raise SettingError("env", mdp.name, reason)
    facts, warnings = report(build(settings).mdp)
    if "--json" in options.given:
        print(json.dumps(facts))
    else:
        shown = {name: "none: no goal can be reached" if value is None else value for name, value in facts.items()}
        print("\n".join(f"{name.replace('_', ' '):22} {value}" for name, value in shown.items()))
    for warning in warnings:
        sys.stderr.write(f"warning: {warning}\n")
    return 0


def rerun(arguments: Sequence[str]) -> int:
    """`mqlearn rerun`: repeat a run from its record alone; 1 if the numbers differ."""
    import tempfile

    from mqlearn.storage import array_comparison, runs, tracking

    options = parse(arguments)
    if not options.overrides or "=" in options.overrides[0]:
        raise SettingError("rerun", " ".join(arguments), "must name a run folder or an MLflow run id first")
    source, *overrides = options.overrides
    only("rerun", overrides, ("tracking", "n_workers"))
    changes = compose.compose(["tracking=mlflow", *overrides])
    if Path(source).is_dir():
        recorded = runs.load(source)
    else:
        recorded = tracking.find(tracker(changes).uri or "", source, outputs_folder())
    where = {"tracking": {"name": "none"}, "n_workers": changes["n_workers"]}
    cell = build({**changes, **recorded.settings, **where})  # defaults for what is newer than the record
    if cell.digest != recorded.digest:
        sys.stderr.write(
            f"warning: the digest is now {cell.digest[:16]}, not {recorded.digest[:16]}: the numerics version "
            f"({recorded.summary.get('numerics_version')}) or a module in use has changed\n"
        )
    with tempfile.TemporaryDirectory(prefix="mqlearn-") as folder:
        repeated = perform(cell, Path(folder) / "run", tracker(cell.settings))
        there = array_comparison.of_run(recorded)
        measured = array_comparison.of_run(repeated)
        compared = array_comparison.compare(
            {name: array for name, array in measured.items() if name in there},  # not what is newer than the record
            there,
            sides=("the repetition", "the record"),
            place=array_comparison.place_in(recorded),
        )
    if compared.verdict != "same":
        print(f"different: {', '.join(compared.names)} of {recorded.name}\n  first {compared.difference}")
        return 1
    print(f"the same numbers, bit for bit: {recorded.name}")
    return 0


def upload(arguments: Sequence[str]) -> int:
    """`mqlearn upload`: deliver run folders to the store, each once."""
    from mqlearn.storage import runs, tracking

    options = parse(arguments)
    folders = [argument for argument in options.overrides if Path(argument).exists() or "=" not in argument]
    overrides = [argument for argument in options.overrides if argument not in folders]
    if not folders:
        raise SettingError("upload", " ".join(arguments), "must name at least one run folder")
    only("upload", overrides, ("tracking",))
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
    from mqlearn.storage import tracking

    options = parse(arguments)
    port = next((argument[5:] for argument in options.overrides if argument.startswith("port=")), "5000")
    if not port.isdigit() or not 0 < int(port) < 65536:
        raise SettingError("port", port, "must be a whole number from 1 to 65535")
    overrides = [argument for argument in options.overrides if not argument.startswith("port=")]
    only("ui", overrides, ("tracking", "port"))
    uri = tracker(compose.compose(["tracking=mlflow", *overrides])).uri
    tracking.open_ui(uri or "", port=int(port))
    return 0


def figure(arguments: Sequence[str]) -> int:
    """`mqlearn figure NAME`: run what is missing, then draw."""
    from mqlearn.analysis.figures import make

    options = parse(arguments, flags=("--check", "--store"), values=CONFIG_DIR)
    if not options.overrides or "=" in options.overrides[0]:
        raise SettingError("figure", " ".join(arguments), "must name a figure first, for example figure1")
    band, existing = take(options, "band"), take_existing(options) or "skip"
    name, *overrides = options.overrides
    given = {flag: f"--{flag}" in options.given for flag in ("check", "store")}
    return make.figure(name, overrides, options.config_dir, band=band, existing=existing, **given)


__all__ = ["figure", "rerun", "run", "truth", "ui", "upload"]
