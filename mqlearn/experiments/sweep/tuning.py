"""`mqlearn run -m experiment=tuning`: Optuna's sweeper, once for each algorithm, each with the same budget.

Tuning and reporting never share a seed: the streams of runs with different `seed` are disjoint.
"""

import contextlib
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mqlearn.checks import check_int
from mqlearn.errors import SettingError, nearest
from mqlearn.experiments import processes
from mqlearn.experiments.jobs import OBJECTIVE, hydra_main
from mqlearn.experiments.progress import COMPILING, duration
from mqlearn.experiments.settings import compose
from mqlearn.experiments.settings.cell import build
from mqlearn.experiments.settings.override_commands import command_of
from mqlearn.experiments.sweep.plan import planned_cell
from mqlearn.paths import cores, outputs_folder

_JOBS = ("hydra.launcher.n_jobs", "hydra.sweeper.n_jobs")
_SIDE_BY_SIDE = [f"hydra/launcher={compose.LAUNCHER}", "n_workers=1"]


def run(settings: dict[str, Any], overrides: Sequence[str], config_dir: str | None) -> int:
    """Tune; print the best settings of each algorithm, and the command of the run that reports it."""
    tuning, trials = settings["tuning"], _trials(settings)
    flags = ["-m", *(["--config-dir", config_dir] if config_dir else [])]
    jobs = _at_once(overrides)
    hydras, overrides = _hydras(overrides), [text for text in overrides if not _is_hydras(text)]
    results = {}
    os.environ[OBJECTIVE] = tuning["metric"]
    with contextlib.ExitStack() as ends:
        ends.callback(os.environ.pop, OBJECTIVE)
        if jobs > 1:
            ends.enter_context(processes.ending_workers())
        for algorithm, space in tuning["spaces"].items():
            chosen = [*overrides, f"algorithm={algorithm}"]
            build(compose.compose(chosen, config_dir))
            sampler = ["hydra/sweeper=optuna", f"hydra.sweeper.n_jobs={jobs}"]
            sampler += ["hydra/launcher=basic"] if jobs == 1 else [*_SIDE_BY_SIDE, f"hydra.launcher.n_jobs={jobs}"]
            sampler += [f"hydra.sweeper.n_trials={trials}", f"hydra.sweeper.sampler.seed={settings['seed']}"]
            searched = [f"{setting}={words}" for setting, words in space.items()]
            sys.stderr.write(f"tuning {algorithm}: {trials} trials\n")
            hydra_main([*flags, *chosen, *hydras, *sampler, *searched])
            results[algorithm] = _result(outputs_folder() / "runs" / "optimization_results.yaml")
    lines = []
    for algorithm, (best, value) in results.items():
        own = [f"{key}={number}" for key, number in best.items()]
        lines.append(f"{algorithm}: {tuning['metric']} {value:.4g} with {' '.join(own)}")
        lines.append(f"  report: {report_of([*overrides, f'algorithm={algorithm}', *own], config_dir)}")
    print("\n".join(lines))
    return 0


def preview(settings: dict[str, Any], overrides: Sequence[str], config_dir: str | None) -> str:
    """What `run` would do, as far as it is known before: each trial's settings are chosen after those before it."""
    trials, jobs = _trials(settings), _at_once(overrides)
    own = [text for text in overrides if not _is_hydras(text)]
    lines, seconds = [], 0.0
    for algorithm, space in settings["tuning"]["spaces"].items():
        (job,) = compose.jobs([[*own, f"algorithm={algorithm}"]], config_dir, multirun=False)
        seconds += trials * planned_cell(job, job.overrides, "", "").seconds
        lines.append(f"  {algorithm}: {', '.join(f'{setting} in {words}' for setting, words in space.items())}")
    total = trials * len(lines)
    each = f"{settings['n_seeds']} seeds and {settings['iterations']} iterations"
    return "\n".join(
        [
            f"{total} trials, {trials} of each of {len(lines)} algorithms, {jobs} at a time: {each}",
            *lines,
            f"about {duration(5 + seconds / jobs)} (rough: as with the settings of the yamls; {COMPILING})",
            f"Which values are tried, Optuna decides trial by trial, for the least {settings['tuning']['metric']}.",
            "Nothing was created.",
        ]
    )


def _trials(settings: dict[str, Any]) -> int:
    """How many trials each algorithm gets. Raises SettingError for what cannot be tuned."""
    from mqlearn.learning.metric_kinds import BUILT_IN, MORE_IS_BETTER

    tuning = settings["tuning"]
    if settings["seed"] == tuning["reporting_seed"]:
        expected = f"must differ from tuning.reporting_seed={tuning['reporting_seed']}: rules tuned on the seeds of a "
        raise SettingError("seed", settings["seed"], expected + "report look better than they are")
    trials = check_int("tuning.trials", tuning["trials"], 1, written=True)
    errors = [name for name in (*BUILT_IN, *(settings["metrics"] or ())) if name not in MORE_IS_BETTER]
    if tuning["metric"] not in errors:
        expected = f"must be one of {', '.join(errors)}: the least is the best"
        raise SettingError("tuning.metric", tuning["metric"], expected + nearest(str(tuning["metric"]), errors))
    return trials


def _at_once(overrides: Sequence[str]) -> int:
    """How many trials run side by side: hydra.launcher.n_jobs or hydra.sweeper.n_jobs. Raises SettingError."""
    given = {key: value for key, _, value in (text.partition("=") for text in overrides) if key in _JOBS}
    jobs = {key: check_int(key, value, -1, written=True) for key, value in given.items()}
    for key, number in jobs.items():
        if number == 0:
            raise SettingError(key, 0, "must be a number of trials at once; -1 is one a core")
        if number != (first := next(iter(jobs.values()))):
            raise SettingError(key, number, f"must be {first}, as {next(iter(jobs))} is: give one of them")
    number = next(iter(jobs.values()), 1)
    return number if number > 0 else cores()


def _hydras(overrides: Sequence[str]) -> list[str]:
    """What is Hydra's among some overrides, but for the number of trials at once."""
    return [text for text in overrides if _is_hydras(text) and text.partition("=")[0] not in _JOBS]


def _is_hydras(text: str) -> bool:
    return text.lstrip("+~").startswith(("hydra.", "hydra/"))


def report_of(overrides: Sequence[str], config_dir: str | None) -> str:
    """The command of the run that reports a tuned setting: on the reporting seed, with as many seeds as a plain run."""
    settings = compose.compose(overrides, config_dir)
    given = any(text.startswith("n_seeds=") for text in overrides)
    n_seeds = settings["n_seeds"] if given else compose.compose([])["n_seeds"]
    settings = build(settings).settings | {"seed": settings["tuning"]["reporting_seed"], "n_seeds": n_seeds}
    return command_of(settings, config_dir, more=[f"seed={settings['seed']}"])


def _result(path: Path) -> tuple[dict[str, Any], float]:
    from omegaconf import OmegaConf

    content: Any = OmegaConf.to_container(OmegaConf.load(path))
    return json.loads(json.dumps(content["best_params"])), content["best_value"]


def settings_of(overrides: Sequence[str], config_dir: str | None) -> dict[str, Any] | None:
    """The settings of an experiment that tunes, or None."""
    names = [text for text in overrides if text.partition("=")[0].lstrip("+") == "experiment"]
    if not names or "," in names[-1]:
        return None
    settings = compose.compose([text for text in overrides if not text.startswith("hydra")], config_dir)
    return settings if settings.get("tuning") else None
