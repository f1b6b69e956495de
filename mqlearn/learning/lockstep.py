"""Rules side by side: part after part of the seeds, a block of iterations at a time."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from mqlearn.algorithms.rule import Rule
from mqlearn.algorithms.stateful import Stateful
from mqlearn.finding import Finding
from mqlearn.learners import Learner, advanced, most_together, move_together
from mqlearn.learning.record import Ended, Recorder
from mqlearn.sampling.chains import Samples
from mqlearn.sampling.recorded import RecordedSamples

DIVERGED = 1e100  # a parameter beyond this, or not finite, is divergence


@dataclass
class RuleRun:
    """One rule on its way: what is recorded of it, what is said before it runs, and the seconds that it learned."""

    rule: Rule | Stateful
    recorder: Recorder
    findings: list[Finding]
    seconds: float = 0.0


@dataclass
class SeedBatch:
    """Some seeds: the samples that rules share, if they do, and the learner of each rule that has seeds left."""

    samples: Samples | RecordedSamples | None
    learners: dict[int, Any]  # by the number of the rule

    def advance(self, k: int, n: int, weights: Sequence[np.ndarray]) -> tuple[dict[int, list[Ended]], np.ndarray]:
        """Iterations k .. k + n - 1; the seeds that diverged, by rule, and the seconds of drawing and of each rule."""
        ended, seconds = {}, np.zeros(1 + len(weights))
        if self.samples is not None and self.learners:
            started = time.perf_counter()
            self.samples.draw(n)
            seconds[0] = time.perf_counter() - started
        for numbers in self._groups(weights):
            started = time.perf_counter()
            gone = _advance([self.learners[i] for i in numbers], k, n, [weights[i] for i in numbers])
            ended |= dict(zip(numbers, gone, strict=True))
            seconds[[1 + i for i in numbers]] = (time.perf_counter() - started) / len(numbers)
            for i in numbers:
                if not self.learners[i].lanes.size:
                    del self.learners[i]
        if self.samples is not None:
            self.samples.forget()
        return ended, seconds

    def compile(self, rules: Sequence[Rule | Stateful]) -> None:
        """Have all that `advance` needs compiled, by no iterations."""
        for numbers in self._groups([rule.weights(0, 1) for rule in rules]):
            some = [self.learners[i] for i in numbers]
            weights = [rules[i].weights(*one.rows(0, 0)) for i, one in zip(numbers, some, strict=True)]
            _move(some, 0, 0, weights)

    def _groups(self, weights: Sequence[np.ndarray]) -> list[list[int]]:
        """The numbers of the rules, those in one list that one loop moves at once."""
        if len(self.learners) == 1:
            return [list(self.learners)]
        groups: list[list[int]] = []
        joined: dict[bytes, list[int]] = {}  # by their seeds
        for number, learner in self.learners.items():
            most = most_together(learner, weights[number])
            if most == 1:
                groups.append([number])
                continue
            group = joined.get(seeds := learner.lanes.tobytes())
            if group is None or len(group) == most:
                group = joined[seeds] = []
                groups.append(group)
            group.append(number)
        return groups


def learners_of(parts: Sequence[SeedBatch], number: int) -> list[Any]:
    """The learners of one rule."""
    return [part.learners[number] for part in parts if number in part.learners]


def advance(pool: ThreadPoolExecutor, parts: Sequence[SeedBatch], courses: Sequence[RuleRun], k: int, n: int) -> None:
    """Iterations k .. k + n - 1 of all rules."""
    started = time.perf_counter()
    weights = []
    for number, course in enumerate(courses):
        ranges = [learner.rows(k, n) for learner in learners_of(parts, number)]
        row = min((row for row, _ in ranges), default=0)
        weights.append(course.rule.weights(row, max((stop for _, stop in ranges), default=0)))
    busy = np.zeros(1 + len(courses))
    for ended, seconds in pool.map(partial(SeedBatch.advance, k=k, n=n, weights=weights), parts):
        for number, gone in ended.items():
            courses[number].recorder.ended += gone
        busy += seconds
    elapsed = time.perf_counter() - started
    for course, own in zip(courses, busy[1:], strict=True):
        if own > 0:  # what the rule would have taken alone
            course.seconds += elapsed * float((busy[0] + own) / busy.sum())


def _advance(some: Sequence[Learner], k: int, n: int, weights: Sequence[np.ndarray]) -> list[list[Ended]]:
    """Advance learners, in one loop if they are several, and take out the seeds of each that diverged."""
    before = [learner.copy() for learner in some]
    _move(some, k, n, weights)
    return [_taken_out(*each, k, n) for each in zip(some, before, weights, strict=True)]


def _move(some: Sequence[Any], k: int, n: int, weights: Sequence[np.ndarray]) -> None:
    if len(some) == 1:
        advanced(some[0], k, n, weights[0])
    else:
        move_together(some, k, n, weights)


def _taken_out(learner: Learner, before: Learner, weights: np.ndarray, k: int, n: int) -> list[Ended]:
    """Take out the seeds that diverged; their step is found by replaying the block."""
    diverged = ~(learner.largest() <= DIVERGED)
    ended = []
    for lane in np.flatnonzero(diverged):
        first = before.copy()
        first.keep(np.arange(before.lanes.size) == lane)
        sound, bad, last = 0, n, first
        while bad - sound > 1:
            middle = (sound + bad) // 2
            trial = first.copy()
            advanced(trial, k, middle, weights)
            if trial.largest()[0] <= DIVERGED:
                sound, last = middle, trial
            else:
                bad = middle
        ended.append(Ended(int(before.lanes[lane]), k + bad, last, last.chain_state()))
    if ended:
        learner.keep(~diverged)
    return ended
