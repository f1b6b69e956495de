"""A run whose seeds come in turn: first some, then more, and what it leaves is that of a run that had them all at once.

Seed i depends on nothing but its number, so only the seeds that lack are run. The learners stay, and so the results are
assembled of all seeds, as in `loop`.
"""

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mqlearn.errors import SettingError
from mqlearn.learning.lockstep import RuleRun, SeedBatch
from mqlearn.learning.loop import compile_all, result_of, walk
from mqlearn.learning.record import Result
from mqlearn.learning.run_state import RunState, build_run, deal_more
from mqlearn.learning.setup import AnyRule, Environment, Setup, validated
from mqlearn.learning.warm_start import of_parameters, of_tables
from mqlearn.paths import cores

_AXES = {"q0": 3, "theta0": 2}  # of an array with a start for each seed


class SeedsInTurn:
    """Rules on seeds 0, 1, ... of one problem, which learn from the same samples. settings: of `mqlearn.run`.

    Rules may have different numbers of seeds. Not for several threads at a time. Raises SettingError for settings that
    `mqlearn.run` refuses.
    """

    def __init__(self, mdp: Environment, rules: Sequence[AnyRule], **settings: Any) -> None:
        self._starts = {name: settings[name] for name in _AXES if _of_each_seed(name, settings.get(name))}
        setup = validated(mdp, n_seeds=1, **settings | self._of_first(1))
        self.setup: Setup = setup.of_rule(rules[0])
        for rule in rules:
            if setup.of_rule(rule).operator.operator != self.setup.operator.operator:
                expected = f"must have the fixed point of {type(rules[0]).__name__}: other errors are not comparable"
                raise SettingError("rules", type(rule).__name__, expected)
        self.rules = [self.setup.ready(rule) for rule in rules]
        self.n_seeds = [0] * len(self.rules)
        self._made: RunState | None = None

    def upto(self, n_seeds: int, numbers: Sequence[int]) -> None:
        """Run the rules of these numbers on the seeds that they lack, up to n_seeds of each."""
        by_first: dict[int, list[int]] = {}
        for number in numbers:
            if self.n_seeds[number] < n_seeds:
                by_first.setdefault(self.n_seeds[number], []).append(number)
        for first, some in by_first.items():
            self._more(first, n_seeds, some)

    def result(self, number: int) -> Result:
        """What a rule has left so far. Its arrays are new ones at every call."""
        assert self._made is not None
        setup = self._setup_of(self.n_seeds[number])
        found = result_of(setup, self._made, number, self.rules[number])
        return replace(found, curves={name: curve.copy() for name, curve in found.curves.items()})

    def check(self, n_seeds: int) -> None:
        """Raise SettingError unless there is a start for so many seeds."""
        self._setup_of(n_seeds)

    def _of_first(self, n_seeds: int) -> dict[str, Any]:
        """Where the first seeds start, of what was given for each seed."""
        return {name: given if isinstance(given, Result) else given[:n_seeds] for name, given in self._starts.items()}

    def _setup_of(self, n_seeds: int) -> Setup:
        """The setup with so many seeds, each with its own start. Raises SettingError where there are not as many."""
        made, starts = replace(self.setup, n_seeds=n_seeds), self._of_first(n_seeds)
        if "q0" in starts:
            made = replace(made, q0=of_tables(starts["q0"], made.mdp, n_seeds))
        if "theta0" in starts:
            made = replace(made, theta0=of_parameters(starts["theta0"], made.features, n_seeds))
        return made

    def _more(self, first: int, n_seeds: int, numbers: Sequence[int]) -> None:
        setup = self._setup_of(n_seeds)
        for number in numbers:
            setup.check_rule(self.rules[number])
        # What is measured by has room for as many seeds; what the earlier ones left is kept, and stays as it is until
        # these seeds are whole: an interruption, or an error, leaves the earlier ones.
        made, before = build_run(setup, self.rules, deal=False), self._made
        if before is not None:
            made = replace(made, courses=[_apart(course) for course in before.courses])
        for number, course in enumerate(made.courses):
            course.recorder.more(n_seeds if number in numbers else self.n_seeds[number])
        dealt = deal_more(setup, {number: self.rules[number] for number in numbers}, first)
        parts = [one for part in dealt for one in _by_rule(part)]
        workers = cores() if setup.n_workers is None and len(dealt) < len(parts) else made.workers
        now = replace(made, parts=parts, workers=min(workers, len(parts)))
        compile_all(now)
        walk(setup, now)
        # A part has no samples left to draw; what it learned is needed still.
        kept = [replace(part, samples=None) for part in parts]
        self._made = replace(now, parts=[*(before.parts if before else ()), *kept])
        for number in numbers:
            self.n_seeds[number] = n_seeds


def _of_each_seed(name: str, given: Any) -> bool:
    """Whether a start is given for each seed: a result, or an array with an axis of seeds."""
    if isinstance(given, Result):
        return True
    with contextlib.suppress(TypeError, ValueError):  # what is no array is refused as ever
        return isinstance(given, list | np.ndarray) and np.asarray(given, np.float64).ndim == _AXES[name]
    return False


def _apart(course: RuleRun) -> RuleRun:
    """What was recorded of a rule, with what further seeds change in place copied."""
    old = course.recorder
    sums = {column: (total.copy(), n) for column, (total, n) in old.error_sums.items()}
    kept = {"curves": {**old.curves}, "ended": [*old.ended], "error_sums": sums, "mean_path": [*old.mean_path]}
    return replace(course, recorder=replace(old, **kept), findings=[*course.findings])


def _by_rule(part: SeedBatch) -> list[SeedBatch]:
    """A part for each rule where they share no samples: few seeds are a part or two, and rules go side by side."""
    if part.samples is not None:
        return [part]
    return [replace(part, learners={number: learner}) for number, learner in part.learners.items()]
