"""`mqlearn run`: one cell, or with -m a sweep of them. Every cell is validated before anything is created."""

import itertools
import os
import sys
from collections.abc import Sequence
from itertools import pairwise

from mqlearn.checks import choice
from mqlearn.cli.arguments import CONFIG_DIR, Options, parse, take, take_existing, take_switch
from mqlearn.errors import SettingError
from mqlearn.experiments import forecast, processes
from mqlearn.experiments.jobs import check_place, finished_run, hydra_main, run_one, too_long
from mqlearn.experiments.plan import refuse_finished
from mqlearn.experiments.presentation.printed import describe
from mqlearn.experiments.settings import compose
from mqlearn.experiments.sweep import command as sweeps
from mqlearn.paths import outputs_folder
from mqlearn.problems.mdp import FiniteMDP

_SHOWN = {
    ("-c", "--cfg"): ("job", "hydra", "all"),
    ("-i", "--info"): ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath"),
}
_WITHOUT_EFFECT = ("MLFLOW_EXPERIMENT_ID", "MLFLOW_RUN_ID", "MLFLOW_RUN_NAME", "MLFLOW_TAGS")
_SHOWN_BY_HYDRA = ("-c", "--cfg", "-i", "--info", "--hydra-help")


def run(arguments: Sequence[str]) -> int:
    """`mqlearn run`: 0, or as `sweep.command.run` says. Raises SettingError before anything is created."""
    if any(argument.split("=")[0] in _SHOWN_BY_HYDRA for argument in arguments):
        return _shown_by_hydra(arguments)
    options = parse(arguments, flags=("-m", "--multirun", "-r", "--run"), values=CONFIG_DIR)
    _mode(options)
    _warn_of_names(options)
    preview, existing = take_switch(options, "preview"), take_existing(options)
    if not options.multirun:
        return _single(options, existing or "rerun", preview=preview)
    flags = ["--multirun"] if options.multirun else []
    folder = [] if options.config_dir is None else ["--config-dir", options.config_dir]
    given = [*flags, *folder, *options.overrides]  # in this order: Hydra takes no flags between overrides
    return sweeps.run(given, options.overrides, options.config_dir, preview=preview, existing=existing or "skip")


def _single(options: Options, existing: str, *, preview: bool) -> int:
    """One cell: composed, validated and built once, then run."""
    (job,) = compose.jobs([options.overrides], options.config_dir, multirun=False)
    if too_long(job.folder) and any(text.startswith("hydra.run.dir=") for text in options.overrides):
        # as with hydra.job.override_dirname and a large map
        sys.stderr.write("mqlearn: hydra.run.dir: too long for the name of a folder; named by digest instead\n")
        job = job.placed(outputs_folder() / "runs" / job.cell.subfolder)
    check_place(job).check_format()
    done = None if existing == "rerun" else finished_run(job)
    if preview:
        _warn_of_cells(job)
        if isinstance(job.cell.mdp, FiniteMDP):
            forecast.tell(forecast.of_cell(job.cell), job.cell.mdp)
        print(sweeps.preview_of_run(job, done or finished_run(job), existing))
        return 0
    if existing == "error":
        refuse_finished(int(done is not None), 1)
    if done is not None:
        print(f"finished already (existing=rerun repeats it)\n{describe(done)}")
        return 0
    _warn_of_cells(job)
    with processes.ending_promptly(lambda: None):
        run_one(job, skip=existing == "skip")
    return 0


def _warn_of_cells(job: compose.Job) -> None:
    """Say that an experiment's curves, and what its yaml sweeps, are not what a single run runs."""
    if job.config.hydra.sweeper.get("params"):
        sys.stderr.write("warning: this is one run; hydra.sweeper.params of a yaml are swept by mqlearn run -m\n")
    if cells := len(job.figure.get("grid") or [""]) * len(job.figure.get("curves") or []):
        sys.stderr.write(f"warning: this is one run; the {cells} cells of this experiment are run by mqlearn run -m\n")


def _mode(options: Options) -> None:
    """`hydra.mode=MULTIRUN`, as an experiment of Hydra's may say it, is -m. Raises SettingError."""
    mode = take(options, "hydra.mode")
    if mode is not None:
        mode = choice("hydra.mode", mode.upper(), ("RUN", "MULTIRUN"))
        if mode == "RUN" and options.multirun:
            raise SettingError("hydra.mode", mode, "does not go with -m, which makes a sweep")
        if mode == "MULTIRUN":
            options.given.add("-m")


def _warn_of_names(options: Options) -> None:
    """Say that MLflow's variables name no experiment and no run here: settings do, and they name the folders too."""
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME")
    if name and not any(text.startswith(("experiment=", "experiment.name=")) for text in options.overrides):
        sys.stderr.write(f"warning: MLFLOW_EXPERIMENT_NAME is not used; write experiment.name='{name}'\n")
    if others := [variable for variable in _WITHOUT_EFFECT if os.environ.get(variable)]:
        sys.stderr.write(f"warning: {', '.join(others)} not used: a run is named by its settings\n")


def _shown_by_hydra(arguments: Sequence[str]) -> int:
    for (flags, known), (flag, after) in itertools.product(_SHOWN.items(), pairwise((*arguments, ""))):
        name, equals, value = flag.partition("=")
        if name in flags and not (name in ("-i", "--info") and not equals and not after):
            choice(name, value if equals else after, known)
    folders = [after for flag, after in pairwise((*arguments, "")) if flag in CONFIG_DIR]
    folders += [text.partition("=")[2] for text in arguments if text.startswith("--config-dir=")]
    overrides = [text for text in arguments if "=" in text and not text.startswith("-")]
    taken = compose.check(overrides, folders[0] if folders else None)
    try:
        return hydra_main([*(text for text in arguments if text not in overrides), *taken])
    except SystemExit as ended:  # Hydra has said what it does not like
        return 2 if ended.code else 0
