"""`mq.sweep`: rules on problems from Python, in parallel, without files."""

import inspect
import itertools
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from mqlearn.analysis.in_memory import as_run
from mqlearn.analysis.library import Runs
from mqlearn.checks import check_int
from mqlearn.errors import SettingError, nearest
from mqlearn.experiments.settings.described import plain
from mqlearn.experiments.settings.own_code import held
from mqlearn.learning.loop import run_together
from mqlearn.learning.setup import AnyRule, Environment, RunSettings, validated
from mqlearn.paths import cores

_OF_ALL = ("n_workers", "progress")  # one for the whole sweep
_OF_PROBLEM = ("discount", "reward", "q0", "theta0", "sampling", "features", "operator")  # rivals share them anyway


@dataclass(frozen=True)
class _Job:
    """The rules on one problem with one point of the grid: they learn from the same samples."""

    problem: str
    mdp: Environment
    settings: dict[str, Any]
    words: str
    point: str  # of the grid


def sweep(
    problems: Mapping[str, Environment],
    rules: Mapping[str, AnyRule],
    *,
    grid: Mapping[str, Sequence[Any]] | None = None,
    **settings: Unpack[RunSettings],
) -> Runs:
    """Run every rule on every problem, at every point of a grid, on the same seeds.

    problems, rules: name -> object.   grid: setting of `mq.run`, or "discount", -> its values; all combinations are
    run.   settings: of `mq.run`, for all.   n_workers: threads for the whole sweep, by default one a core.
    progress: True for a bar over the cells, or a function called with (cells done, error of the last one).

    What it returns is what `mq.load` returns: `mq.compare` of it answers within each problem and point of the grid, and
    across points with `allow_mixed=True`; `.frame()` is one table, `.plot()` one figure. No number depends on the
    workers, and each run is that of `mq.run`. Raises SettingError before the first run for whatever is not admissible.

    >>> runs = mq.sweep(
    ...     {"two": mq.two_state()},
    ...     {"Q": mq.QLearning(), "Speedy": mq.SpeedyQ()},
    ...     grid={"step_size": [mq.Harmonic(), mq.Constant(0.2)]},
    ...     iterations=50,
    ...     n_seeds=6,
    ... )
    >>> len(runs), runs[0].curves["q_error"].shape[0]
    (4, 6)
    """
    shared: dict[str, Any] = {**settings}
    progress = shared.pop("progress", None)
    wanted = check_int("n_workers", shared.pop("n_workers", None), 1, null="one thread a core")
    workers = cores() if wanted is None else wanted
    _check_names(problems, rules)
    jobs = list(_jobs(problems, grid or {}, shared))
    for job in jobs:
        _check(job, rules)
    told = _told(progress, len(jobs) * len(rules))
    at_once = max(1, min(workers, len(jobs)))

    def run(job: _Job) -> list[Any]:
        made = run_together(job.mdp, rules.values(), n_workers=max(1, workers // at_once), **job.settings)
        return [as_run(one, job.problem, name, job.point) for name, one in zip(rules, made, strict=True)]

    found = Runs()
    with ThreadPoolExecutor(at_once) as pool:
        for runs in pool.map(run, jobs):
            found += runs
            last = runs[-1].curves.get("q_error")
            told(len(found), float("nan") if last is None else float(last[:, -1].mean()))
    return found


def _check_names(problems: Any, rules: Any) -> None:
    for setting, given, example in (
        ("problems", problems, '{"4x4": mq.frozen_lake("4x4")}'),
        ("rules", rules, '{"Q-learning": mq.QLearning()}'),
    ):
        if not isinstance(given, Mapping) or not given or not all(isinstance(name, str) for name in given):
            raise SettingError(setting, given, f"must be a mapping from names to objects, such as {example}")
    for name, rule in rules.items():
        if not isinstance(rule, AnyRule):
            raise SettingError(f"rules[{name!r}]", rule, "must be a rule, such as mq.QLearning()")
    for name, mdp in problems.items():
        if not isinstance(mdp, Environment):
            raise SettingError(f"problems[{name!r}]", mdp, "must be an environment, such as mq.frozen_lake()")


def _jobs(problems: Mapping[str, Any], grid: Any, shared: dict[str, Any]) -> Iterator[_Job]:
    """Raises SettingError for a grid that is none."""
    known = [name for name in RunSettings.__annotations__ if name not in _OF_ALL] + ["discount"]
    if not isinstance(grid, Mapping):
        raise SettingError("grid", grid, 'must be a mapping from settings to lists, such as {"discount": [0.9, 0.99]}')
    lists: dict[str, list[Any]] = {}
    for name, values in grid.items():
        if name not in known:
            raise SettingError("grid", name, f"must be a setting of mq.run or discount{nearest(str(name), known)}")
        if name in shared:
            raise SettingError("grid", name, "is given for all runs too: leave one of them out")
        if isinstance(values, str) or not hasattr(values, "__iter__") or not (several := list(values)):
            raise SettingError(f"grid[{name!r}]", values, "must be a list of values")
        lists[name] = several
    axes = [list(zip(_words(name, values), values, strict=True)) for name, values in lists.items()]
    for problem, mdp in problems.items():
        for told in itertools.product(*axes):
            own = {name: value for name, (_, value) in zip(lists, told, strict=True)}
            words = ", ".join([problem, *(word for word, _ in told)])
            point = ", ".join(word for name, (word, _) in zip(lists, told, strict=True) if name not in _OF_PROBLEM)
            at = own.pop("discount", None)
            settings = {**shared, **own}
            yield _Job(problem, mdp if at is None else mdp.with_discount(at), settings, words, point)


def _words(name: str, values: Sequence[Any]) -> list[str]:
    """Each value of a grid in words, and no two alike: without the address that the text of a function has."""
    told = [f"{name}={_shown(value)}" for value in values]
    return [f"{text} ({i})" if told.count(text) > 1 else text for i, text in enumerate(told, 1)]


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"array {value.shape}"
    if inspect.isroutine(value):
        told = [getattr(value, "__name__", "").strip("<>"), *(f"{k}={plain(v)}" for k, v in held(value).items())]
        return " ".join(told)
    return type(value).__name__ if type(value).__repr__ is object.__repr__ else repr(value)


def _check(job: _Job, rules: Mapping[str, AnyRule]) -> None:
    """Raise SettingError, which says of which cell, unless all its rules can be run."""
    rule = ""
    try:
        setup = validated(job.mdp, **job.settings)
        for name, one in rules.items():
            rule = f"{name} on "
            setup.ready(one)
    except SettingError as error:
        raise SettingError(error.setting, error.value, f"{error.admissible} ({rule}{job.words})") from None


def _told(progress: Any, total: int) -> Any:
    if progress is True:
        from mqlearn.learning.bar import Bar

        return Bar(total)
    if progress in (None, False):
        return lambda done, error: None
    if not callable(progress):
        raise SettingError("progress", progress, "must be True, or a function (cells done, error)")
    return progress
