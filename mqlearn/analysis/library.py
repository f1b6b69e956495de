"""Finished runs and results for Python and notebooks: `mq.load` finds runs, `mq.compare` asks who is better."""

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, SupportsIndex, TypedDict, Unpack, overload

from mqlearn.analysis.comparison import selection
from mqlearn.analysis.in_memory import LoadedRun, as_run, named
from mqlearn.errors import SettingError
from mqlearn.learning.record import Result
from mqlearn.paths import outputs_folder
from mqlearn.storage import runs

__all__ = ["Comparison", "LoadedRun", "Runs", "compare", "load"]


class Asked(TypedDict, total=False):
    """What may be asked of every pair, as on the command line; see `comparison.seed_values.Question`."""

    summary: Literal["error", "area", "time", "return"]
    metric: str | None
    axis: Literal["iterations", "samples"]
    at: int | None
    epsilon: float | None
    diverged: Literal["worst", "censored", "excluded"]
    level: float
    interval: Literal["auto", "bca", "percentile", "t"]
    margin: float | None


class Runs(list[LoadedRun]):
    """Finished runs: a list, which is one table, one figure or one comparison.

    iterable: of runs.

    >>> runs = mq.sweep({"two": mq.two_state()}, {"Q": mq.QLearning(), "S": mq.SpeedyQ()}, iterations=50, n_seeds=6)
    >>> runs
    Runs(2 runs: Q, S on two)
    >>> table = runs.frame()
    >>> sorted({"env", "algorithm", "metric", "seed", "iteration", "samples", "value"} - {*table.columns})
    []
    """

    def __repr__(self) -> str:
        rules, problems = (
            list(dict.fromkeys(str(run.settings[group]["name"]) for run in self)) for group in ("algorithm", "env")
        )
        on = f": {_few(rules)} on {_few(problems)}" if self else ""
        return f"Runs({len(self)} run{'s' * (len(self) != 1)}{on})"

    @overload
    def __getitem__(self, key: SupportsIndex) -> LoadedRun: ...

    @overload
    def __getitem__(self, key: slice) -> "Runs": ...

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        return Runs(found) if isinstance(key, slice) else found

    # A list takes a list of anything; runs take runs alone.
    def __add__(self, other: Any) -> "Runs":  # type: ignore[override]
        return Runs(super().__add__(other))

    def __radd__(self, other: list[LoadedRun]) -> "Runs":
        return Runs([*other, *self])

    def frame(self) -> Any:
        """One tidy pandas table, as `mqlearn export` writes it: a row for each metric, seed and checkpoint of a run."""
        import pandas

        from mqlearn.analysis import tidy

        if not self:
            return pandas.DataFrame()
        table = tidy.Table(self)
        blocks = [pandas.DataFrame(block) for block in table.blocks()]
        return pandas.concat(blocks, ignore_index=True)

    def plot(self, metric: str | None = None, axis: str | None = None) -> Any:
        """A Matplotlib figure: a panel for each problem, in it mean and 95 % interval of each run.

        metric: by default the first that all have.   axis: "iterations" or "samples", by default samples where rules
        take different numbers of them an iteration. Raises SettingError for a metric or an axis that there is not.
        """
        from mqlearn.analysis.figures import quick_panels

        return quick_panels.plot(self, metric, axis)

    def compare(
        self, *, against: str | None = None, allow_mixed: bool = False, **question: Unpack[Asked]
    ) -> "Comparison":
        """`mq.compare` of these runs."""
        return compare(self, against=against, allow_mixed=allow_mixed, **question)


def _few(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 4 else f"{', '.join(names[:3])} and {len(names) - 3} more"


class Comparison(list[dict[str, Any]]):
    """Verdicts: a list of dicts, one a pair, as `mqlearn compare --json` writes them; at the prompt the sentences.

    rows: the verdicts.   text: what `mqlearn compare` prints.   notes: what must be said of runs that are not compared.
    """

    def __init__(self, rows: Iterable[dict[str, Any]], text: str = "", notes: Sequence[str] = ()) -> None:
        super().__init__(rows)
        self.text: str = text
        self.notes: tuple[str, ...] = tuple(notes)

    def __repr__(self) -> str:
        from mqlearn.analysis.comparison import wording

        return "\n".join([*wording.sentences(self), *(f"note: {note}" for note in self.notes)])

    def frame(self) -> Any:
        """A pandas table with a row for each pair."""
        import pandas

        return pandas.DataFrame(list(self))


def load(what: str | Path) -> Runs:
    """The finished runs of an experiment, or the one of a run folder.

    what: an experiment's name, looked for in the outputs folder; or a folder, as a Path or a text with a separator
    ("./run"). What does not count, such as a damaged folder, is a warning. Raises SettingError.

    >>> runs = mq.load("figure1")  # doctest: +SKIP
    >>> runs[0].settings["algorithm"]["name"], runs[0].curves["q_error"].shape  # doctest: +SKIP
    """
    if isinstance(what, Path) or (isinstance(what, str) and {"/", os.sep, os.altsep} & {*what}):
        found = [runs.load(what)]
    elif isinstance(what, str):
        selected = selection.find(outputs_folder(), [what])
        found = list(selected.runs)
        for note in selected.notes:
            warnings.warn(note, stacklevel=2)
    else:
        raise SettingError("load", what, "must be an experiment's name, or a run folder with a separator in it")
    return Runs(map(_loaded, found))


def _loaded(run: runs.Run) -> LoadedRun:
    """With its settings, where they were read to find it: to read them takes a third of the time that a run takes."""
    made = LoadedRun(run.folder, run.summary)
    made.__dict__.update({name: value for name, value in run.__dict__.items() if name == "settings"})
    return made


def compare(
    some: Iterable[runs.Run | Result] | Mapping[str, runs.Run | Result],
    *,
    against: str | None = None,
    allow_mixed: bool = False,
    **question: Unpack[Asked],
) -> Comparison:
    """Which of some results or runs is better: the verdicts on all pairs, as `mqlearn compare` gives them.

    some: results of `mq.run`, or runs of `mq.load` and `mq.sweep`, as a list or by name.   against: one rule that all
    others are compared with, by its label or digest; "best" of a problem, picked on other seeds; "all", which must be
    said for more than 200 runs of one problem.   allow_mixed: pairs across problems and points of a grid too; of
    results also of different seeds, samples and lengths.   question: summary, metric, axis, at, epsilon, diverged,
    level, interval, margin (a factor above 1, within which rules are equal), as on the command line.

    Seeds are paired where both saw the same samples; p is corrected by Holm, with a margin by Bonferroni. Raises
    SettingError, also for results of different problems, samples, seeds or numbers of iterations.

    >>> lake = mq.frozen_lake("4x4")
    >>> rules = {"Q-learning": mq.QLearning(), "SpeedyQ": mq.SpeedyQ()}
    >>> mq.compare({name: mq.run(lake, rule, iterations=500, n_seeds=8) for name, rule in rules.items()})
    SpeedyQ is better than Q-learning (q_error at k = 500: 0.03302 against 0.07761, p 0.00781, 8 paired seeds).
    """
    from mqlearn.analysis.comparison import comparison, run_tables, tables
    from mqlearn.analysis.comparison.in_memory import check_alike, labelled
    from mqlearn.analysis.comparison.labels import entries
    from mqlearn.analysis.comparison.pairing import answers, asked, on_axis
    from mqlearn.analysis.comparison.seed_values import Question

    try:
        about = Question(**question)
    except TypeError as error:
        raise SettingError("compare", ", ".join(question), f"unknown or ill-typed question ({error})") from None
    several = list(named(some))
    strict = any(isinstance(one, Result) for _, one in several)  # each was given by hand: none is left out
    given = [(name, _run_of(one, name)) for name, one in several]
    found = [run for _, run in given]
    if strict and not allow_mixed:
        check_alike(given, about)
    stand = selection.Found(tuple(found)) if strict else selection.latest_runs(found, about.summary)
    once = selection.equal_once(stand.runs, by_point=not allow_mixed)
    if len(once.runs) < 2:
        told = [run.name for run in found]
        raise SettingError("some", told, f"needs two different results or runs{', and has one' * bool(told)}")
    if "axis" not in question:
        about, lead = on_axis(about, once.runs)
    else:
        lead = ""
    within = entries(once.runs, about.summary, by_point=not allow_mixed)
    made = labelled(within, {run: name for name, run in given if name is not None})
    try:
        wanted, told = asked(made, about, against, mixed=allow_mixed)
    except SettingError as error:
        if error.setting != "selection":  # as the command line calls them
            raise
        raise SettingError("some", error.value, error.admissible.replace("mixed=true", "mixed=True")) from None
    verdicts = answers(wanted, about)
    rows = runs.plain([comparison.row(verdict) for verdict in verdicts], finite=True)
    notes = [*stand.notes, *once.notes]
    heads = run_tables.runs(made, about)
    text = tables.terminal(verdicts, about, heads=heads, notes=notes, lead="\n".join(filter(None, (lead, told))))
    return Comparison(rows, text, notes)


def _run_of(one: Any, name: str | None) -> runs.Run:
    """A run, or a result as one. Raises SettingError for anything else."""
    if isinstance(one, runs.Run):
        return one
    if isinstance(one, Result):
        return as_run(one, rule=name)
    raise SettingError("some", one, "must be results of mq.run, or runs of mq.load and mq.sweep")
