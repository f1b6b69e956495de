"""The two axes on which runs are read: iterations k, and samples, the transitions that a seed has learned from.

A synchronous iteration learns from one transition of every state-action pair, an asynchronous one from a single
transition; a rule that draws a second successor takes twice as many, a minibatch of N takes N times as many.
"""

from collections.abc import Iterable, Sequence
from typing import Literal
from weakref import WeakKeyDictionary

import numpy as np

from mqlearn.errors import SettingError
from mqlearn.storage.runs import Run

Axis = Literal["iterations", "samples"]
KINDS: tuple[Axis, ...] = ("iterations", "samples")
LABELS: dict[str, str] = {"iterations": r"iteration $k$", "samples": "samples"}  # of a figure's axis
COLUMNS: dict[str, str] = {"iterations": "iteration", "samples": "samples"}  # in files of numbers
WHY = "the rules take different numbers of samples an iteration"


def positions(run: Run, axis: str) -> np.ndarray:
    """(C,) int64: the checkpoints of a run on an axis.

    Samples that an earlier version did not record follow from the settings. Raises SettingError where they do not.
    """
    iteration = run.curves["iteration"]
    if axis == "iterations":
        return iteration
    return run.curves["samples"] if "samples" in run.curves else iteration * _from_settings(run)


def samples(run: Run) -> np.ndarray | None:
    """(C,) int64: the checkpoints of a run in samples; None where a record does not tell them and its settings cannot.

    They cannot where a module of the user's is not here.
    """
    try:
        return positions(run, "samples")
    except SettingError:
        return None


def ends(run: Run, axis: str) -> np.ndarray:
    """(n_seeds,) f8: where on an axis a seed diverged, infinite for a seed that did not."""
    found = np.full(run.settings["n_seeds"], np.inf)
    if run.diverged:
        steps = np.array([*run.diverged.values()], np.float64)
        found[[*run.diverged]] = np.interp(steps, run.curves["iteration"], positions(run, axis))
    return found


def usual(groups: Iterable[Sequence[Run]]) -> Axis:
    """The axis on which groups of rivals are read unless one is asked for.

    Samples if rivals take different numbers of samples an iteration, else iterations.
    """
    return "samples" if any(_differ(group) for group in groups) else "iterations"


def words(axis: str, at: int | float | str) -> str:
    """A place on an axis in words."""
    return f"{at} samples" if axis == "samples" else f"k = {at}"


def _differ(group: Sequence[Run]) -> bool:
    if not any("samples" in run.curves for run in group):  # of a version whose rules all took the same
        return False
    rates = set()
    for run in group:
        found = samples(run)
        if found is not None:  # an unknown rate is no reason to change the axis
            rates.add(float(found[-1] / max(1, run.curves["iteration"][-1])))
    return len(rates - {0.0}) > 1


_known: WeakKeyDictionary[Run, int] = WeakKeyDictionary()


def _from_settings(run: Run) -> int:
    """Samples an iteration of a record that does not tell them."""
    from mqlearn.experiments.settings.cell import rebuild_for_reading
    from mqlearn.learning.setup import samples_an_iteration

    if run not in _known:
        try:
            cell = rebuild_for_reading(run.settings)
        except SettingError as error:
            expected = f"cannot be had of {run.name}, whose record does not tell them: {error}"
            raise SettingError("axis", "samples", expected) from None
        arguments = cell.run_arguments
        _known[run] = samples_an_iteration(arguments["rule"], cell.mdp, arguments["sampling"])
    return _known[run]
