"""Small finished runs for tests of comparisons, and views on them."""

from pathlib import Path
from types import SimpleNamespace

from mqlearn.analysis.comparison import comparison, selection
from mqlearn.experiments import execute
from mqlearn.experiments.settings import compose
from mqlearn.experiments.settings.cell import build
from mqlearn.storage import runs

SMALL = ("n_checkpoints=12", "tracking=none")
MADE = {  # experiment: overrides of `mqlearn run -m`
    "small": ("algorithm=q_learning,speedy_q,nesa", "env=frozen_lake_4x4,frozen_lake_8x8", "iterations=300",
              "n_seeds=12"),
    "three": ("algorithm=q_learning,speedy_q", "iterations=100", "n_seeds=3"),
    "six": ("algorithm=q_learning,speedy_q,nesa", "iterations=100", "n_seeds=6"),
    "one": ("algorithm=q_learning,speedy_q", "iterations=100", "n_seeds=1"),
    "exact": ("algorithm=speedy_q", "algorithm.form=azar,printed", "env.slippery=false", "iterations=100", "n_seeds=3"),
    "greedy": ("algorithm=q_learning,speedy_q", "sampling=markovian", "sampling.behaviour=epsilon_greedy", "n_seeds=7",
               "iterations=200", "evaluation.episodes=20"),
}  # fmt: skip


def performed(folder: Path, jobs: list[list[str]]) -> Path:
    """An outputs folder with the runs of some lists of overrides."""
    for settings in compose.compose_all(jobs):
        cell = build(settings)
        nowhere = execute.Tracker(None, cell.settings["experiment"]["name"], False)
        execute.perform(cell, folder / "runs" / cell.subfolder, nowhere)
    return folder


def of(made: Path, name: str, **wanted) -> runs.Run:
    found = selection.find(made, [name]).runs
    (run,) = selection.select(found, [f"{key.replace('__', '.')}={value}" for key, value in wanted.items()])
    return run


def rewritten(run: runs.Run, folder: Path, *, curve=None, metric="q_error", diverged=None, **changes) -> runs.Run:
    """The run with one other curve alone, written by the program's own writer under another digest."""
    curves = {metric: run.curves[metric] if curve is None else curve}
    result = SimpleNamespace(iteration=run.curves["iteration"], curves=curves, diverged=diverged or {}, seconds=0.0)
    settings = {**run.settings, **changes}
    extra = {"numerics_version": run.summary["numerics_version"]}
    return runs.write(folder, settings=settings, digest=folder.name, name=run.name, result=result, extra=extra)


def of_settings(settings) -> runs.Run:
    """A run of which no more is known than its settings."""
    run = runs.Run(Path(), {"numerics_version": 1, "digest": "0" * 64})
    run.__dict__["settings"] = settings
    return run


def answered(pairs) -> list[SimpleNamespace]:
    """The verdicts on some pairs as plain data, by attribute."""
    return [SimpleNamespace(**comparison.row(one)) for one in comparison.decide(pairs)]
