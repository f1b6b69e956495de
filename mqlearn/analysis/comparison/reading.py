"""What a question reads of the runs of a pair: of each run once, however many pairs it is in."""

from collections.abc import Hashable
from functools import cache
from typing import NamedTuple

import numpy as np

from mqlearn.analysis import axis as axes
from mqlearn.analysis.comparison.common_numbers import pairing
from mqlearn.analysis.comparison.labels import Entry
from mqlearn.analysis.comparison.seed_values import (
    Question,
    SeedValues,
    checkpoint,
    horizon,
    is_deterministic,
    measured_at,
    metric_of,
    seed_values,
)
from mqlearn.storage.runs import Run


class Read(NamedTuple):
    """A pair, read. x (n,), y (m,): what is tested; own: the checkpoint of each run; constant: whether its seed has no
    effect; scale: the largest value at the start, of which differences may be rounding."""

    entries: tuple[Entry, Entry]
    metric: str
    at: int
    own: tuple[int, int]
    paired: bool
    why: str
    values: tuple[SeedValues, SeedValues]
    x: np.ndarray
    y: np.ndarray
    constant: tuple[bool, bool]
    scale: float

    @property
    def deterministic(self) -> bool:
        return all(self.constant)

    @property
    def n_finite(self) -> int:
        """Pairs with both seeds finite, or the smaller of the two counts."""
        a, b = (values.finite for values in self.values)
        return int((a & b).sum()) if self.paired else int(min(a.sum(), b.sum()))


class Reader:
    """Reads pairs for one question. What a run, or a kind of pairs, gives is kept as long as the reader."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self._horizons: dict[Hashable, int] = {}
        self._metrics: dict[Hashable, str] = {}
        self._names = cache(lambda run: frozenset(run.curves))
        self._measured = cache(self._measured_of)
        self._checkpoint = cache(lambda metric, at, run: checkpoint(question, metric, at, run))
        self._constant = cache(is_deterministic)
        self._scale = cache(lambda run, metric: float(np.abs(run.curves[metric][:, 0]).max()))
        self._alone = cache(self._alone_of)

    def read(self, a: Entry, b: Entry) -> Read:
        """Raises SettingError if the runs cannot answer the question."""
        question = self.question
        metric = self._metric(a.run, b.run)
        at = self._horizon(metric, a.run, b.run)
        own = (self._checkpoint(metric, at, a.run), self._checkpoint(metric, at, b.run))
        paired, why = pairing(a.run, b.run)
        shared = min(a.run.settings["n_seeds"], b.run.settings["n_seeds"]) if paired else None
        first, second = (self._alone(run, metric, at, shared) for run in (a.run, b.run))
        if first is None or second is None:
            first, second = seed_values(question, metric, at, a.run, b.run, shared)
        x, y = first.values, second.values
        if paired and not (first.used.all() and second.used.all()):
            x, y = x[first.used & second.used], y[first.used & second.used]
        elif not paired:
            x, y = x[first.used], y[second.used]
        constant = (self._constant(a.run, metric), self._constant(b.run, metric))
        scale = max(self._scale(a.run, metric), self._scale(b.run, metric))
        return Read((a, b), metric, at, own, paired, why, (first, second), x, y, constant, scale)

    def _metric(self, a: Run, b: Run) -> str:
        kind = self._names(a), self._names(b)
        if kind not in self._metrics:
            self._metrics[kind] = metric_of(self.question, a, b)
        return self._metrics[kind]

    def _horizon(self, metric: str, a: Run, b: Run) -> int:
        """Runs with the same checkpoints have the same one."""
        kind = self._measured(a, metric), self._measured(b, metric)
        if kind not in self._horizons:
            self._horizons[kind] = horizon(self.question, metric, a, b)
        return self._horizons[kind]

    def _measured_of(self, run: Run, metric: str) -> Hashable:
        position = axes.positions(run, self.question.axis)
        return metric, int(position[-1]), measured_at(run, metric, self.question.axis).tobytes()

    def _alone_of(self, run: Run, metric: str, at: int, n: int | None) -> SeedValues | None:
        """The values of a run that do not depend on its rival; None if they do, since a seed has diverged."""
        found, _ = seed_values(self.question, metric, at, run, run, n)
        return found if self.question.summary == "time" or found.finite.all() else None
