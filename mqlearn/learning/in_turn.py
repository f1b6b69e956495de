"""A run whose seeds come in turn: first some, then more, and what it leaves is that of a run that had them all at once.

Seed i depends on nothing but its number, so only the seeds that lack are run. The learners stay, and so the results are
assembled of all seeds, as in `loop`.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mqlearn.errors import SettingError
from mqlearn.learning.lockstep import SeedBatch
from mqlearn.learning.loop import compile_all, result_of, walk
from mqlearn.learning.record import Result
from mqlearn.learning.run_state import RunState, build_run, deal_more
from mqlearn.learning.setup import AnyRule, Environment, Setup, validated
from mqlearn.paths import cores


class SeedsInTurn:
    """Rules on seeds 0, 1, ... of one problem, which learn from the same samples. settings: of `mqlearn.run`.

    Rules may have different numbers of seeds. Not for several threads at a time. Raises SettingError for settings that
    `mqlearn.run` refuses.
    """

    def __init__(self, mdp: Environment, rules: Sequence[AnyRule], **settings: Any) -> None:
        setup = validated(mdp, n_seeds=1, **settings)
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
        setup = replace(self.setup, n_seeds=self.n_seeds[number])
        found = result_of(setup, self._made, number, self.rules[number])
        return replace(found, curves={name: curve.copy() for name, curve in found.curves.items()})

    def _more(self, first: int, n_seeds: int, numbers: Sequence[int]) -> None:
        setup = replace(self.setup, n_seeds=n_seeds)
        for number in numbers:
            setup.check_rule(self.rules[number])
        # What is measured by has room for as many seeds; what the earlier ones left is kept.
        made, before = build_run(setup, self.rules, deal=False), self._made
        if before is not None:
            made = replace(made, courses=before.courses)
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


def _by_rule(part: SeedBatch) -> list[SeedBatch]:
    """A part for each rule where they share no samples: few seeds are a part or two, and rules go side by side."""
    if part.samples is not None:
        return [part]
    return [replace(part, learners={number: learner}) for number, learner in part.learners.items()]
