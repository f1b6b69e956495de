"""Finished runs for Python and notebooks: `mq.load` finds them, `mq.compare` asks who is better, `plot` draws one."""

import os
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mqlearn.checks import choice
from mqlearn.errors import SettingError
from mqlearn.learning.record import table_of_curves
from mqlearn.paths import outputs_folder
from mqlearn.storage import runs


@dataclass(frozen=True, eq=False, repr=False)
class LoadedRun(runs.Run):
    """A finished run: name, digest, status, summary, settings (nested dict), curves and tables (arrays), folder.

    curves: `iteration` (C,), `samples` (C,) if recorded, and each metric (n_seeds, C).
    """

    def __repr__(self) -> str:
        return f"Run({self.name!r}, {self.status}, {self.settings['n_seeds']} seeds, {self.folder})"

    def frame(self) -> Any:
        """A pandas table with a row for each seed and checkpoint: seed, iteration and a column for each metric."""
        return table_of_curves(self.curves["iteration"], self._metrics)

    def plot(self, metric: str | None = None, axis: str = "iterations") -> Any:
        """A Matplotlib figure: mean and 95 % interval of a metric, by default the first, against iterations or samples.

        Raises SettingError.
        """
        from mqlearn.analysis import axis as axes
        from mqlearn.analysis.figures import quick
        from mqlearn.experiments.settings.override_commands import operator_name

        operator = operator_name(self.settings)
        choice("axis", axis, axes.KINDS)
        return quick.plot({axis: axes.positions(self, axis)}, self._metrics, metric, axis, self.name, operator)

    @property
    def _metrics(self) -> dict[str, np.ndarray]:
        return {name: curve for name, curve in self.curves.items() if name not in runs.AXES}


def load(what: str | Path) -> list[LoadedRun]:
    """The finished runs of an experiment, or the one of a run folder.

    what: an experiment's name, looked for in the outputs folder; or a folder, as a Path or a text with a separator
    ("./run"). What does not count, such as a damaged folder, is a warning. Raises SettingError.

    >>> runs = mq.load("figure1")  # doctest: +SKIP
    >>> runs[0].settings["algorithm"]["name"], runs[0].curves["q_error"].shape  # doctest: +SKIP
    """
    from mqlearn.analysis.comparison import selection

    if isinstance(what, Path) or (isinstance(what, str) and {"/", os.sep, os.altsep} & {*what}):
        found = [runs.load(what)]
    elif isinstance(what, str):
        selected = selection.find(outputs_folder(), [what])
        found = list(selected.runs)
        for note in selected.notes:
            warnings.warn(note, stacklevel=2)
    else:
        raise SettingError("load", what, "must be an experiment's name, or a run folder with a separator in it")
    return [_loaded(run) for run in found]


def _loaded(run: runs.Run) -> LoadedRun:
    """With its settings, where they were read to find it: to read them takes a third of the time that a run takes."""
    made = LoadedRun(run.folder, run.summary)
    made.__dict__.update({name: value for name, value in run.__dict__.items() if name == "settings"})
    return made


def compare(
    some: Iterable[runs.Run], *, against: str | None = None, allow_mixed: bool = False, **question: Any
) -> list[dict[str, Any]]:
    """The verdicts on all pairs of rules among some runs, as `mqlearn compare --json` gives them.

    against: one rule that all others are compared with, by its label or digest; "best" of a problem, picked on other
    seeds; "all", which must be said for more than 200 runs of one problem.   allow_mixed: pairs across problems too.
    question: summary, metric, axis, at, epsilon, diverged, level, interval, as on the command line.

    Raises SettingError.

    >>> mq.compare(mq.load("figure1"), at=1000)  # doctest: +SKIP
    """
    from mqlearn.analysis.comparison import comparison, selection
    from mqlearn.analysis.comparison.labels import entries
    from mqlearn.analysis.comparison.pairing import answers, asked, on_axis
    from mqlearn.analysis.comparison.seed_values import Question

    try:
        about = Question(**question)
    except TypeError as error:
        raise SettingError("compare", ", ".join(question), f"unknown or ill-typed question ({error})") from None
    stand = selection.latest_runs(list(some), about.summary).runs
    if "axis" not in question:
        about, _ = on_axis(about, stand)
    made = entries(stand, about.summary)
    wanted, _ = asked(made, about, against, mixed=allow_mixed)
    verdicts = answers(wanted, about)
    return runs.plain([comparison.row(verdict) for verdict in verdicts], finite=True)
