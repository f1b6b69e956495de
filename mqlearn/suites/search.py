"""The search that tunes a rule: a compass search over its numbers, 15 settings in all, the same for every rule.

It begins with the default. A poll tries the two neighbours of the best setting so far along one number, a step to
either side; a first step is a factor of 4, or what the axis says. If a neighbour is better it is the best from then on,
and the step doubles where nothing beyond it has been tried. If none is, the step halves; on a plateau it doubles, as
long as it was never halved. Numbers whose best value is the largest or the smallest of those tried are polled first,
then those that were polled longest ago.
"""

from collections.abc import Sequence

from mqlearn.suites.axes import Axis

SETTINGS = 15  # of each rule, its default among them
_LEAST_STEP, _MOST_STEP = 1 / 64, 64.0  # in units of the first
_PLATEAU = 1e-3  # of log10 of the error

Point = tuple[float, ...]


class Search:
    """Points (a value an axis) to try: `ask` for the next ones, and `tell` their areas; less is better."""

    def __init__(self, axes: Sequence[Axis], start: Point) -> None:
        self.axes, self.start = tuple(axes), start
        self.tried: dict[Point, float] = {}
        self._steps = [1.0] * len(self.axes)
        self._polls = [0] * len(self.axes)  # the number of the last poll of each axis
        self._polling = 0  # the axis that is being polled

    @property
    def best(self) -> Point:
        """The best point so far, the first of equals."""
        return min(self.tried, key=lambda point: self.tried[point])

    def near(self) -> list[Point]:
        """The points a first step from the default."""
        return [
            (*self.start[:number], axis.value(self.start[number], sign), *self.start[number + 1 :])
            for number, axis in enumerate(self.axes)
            for sign in (-1.0, 1.0)
        ]

    def ask(self) -> list[Point]:
        """The next points; none when the search is over."""
        if not self.tried:
            return [self.start]
        room = SETTINGS - len(self.tried)
        while room > 0 and self.axes and max(self._steps) >= _LEAST_STEP:
            self._polling = min(range(len(self.axes)), key=lambda axis: (not self._at_end(axis), self._polls[axis]))
            self._polls[self._polling] = max(self._polls) + 1
            new = self._neighbours(self._polling, self._steps[self._polling])
            if new:
                return new[:room]
            self._steps[self._polling] /= 2
        return self._farther()[:room] if room > 0 else []

    def tell(self, points: Sequence[Point], areas: Sequence[float]) -> None:
        """The areas of points; infinite for one that cannot be run."""
        before = self.best if self.tried else None
        self.tried |= dict(zip(points, areas, strict=True))
        if before is None or not self.axes:
            return
        if self.best == before:
            self._steps[self._polling] *= 2 if self._on_plateau(points) else 1 / 2
        elif self._at_end(self._polling):
            self._steps[self._polling] = min(2 * self._steps[self._polling], _MOST_STEP)

    def _on_plateau(self, points: Sequence[Point]) -> bool:
        """Whether the points of a poll are as good as the best, before any step was halved."""
        far = 1 <= self._steps[self._polling] < _MOST_STEP
        return far and all(self.tried[point] - self.tried[self.best] < _PLATEAU for point in points)

    def ends(self) -> list[str]:
        """The settings whose best value is the last that was tried on a side, where no limit is."""
        return [axis.setting for number, axis in enumerate(self.axes) if self._at_end(number)]

    def _at_end(self, number: int) -> bool:
        value, values = self.best[number], [point[number] for point in self.tried]
        return value in (min(values), max(values)) and not self.axes[number].at_limit(value)

    def _neighbours(self, number: int, step: float) -> list[Point]:
        """Points that have not been tried, a step to either side of the best one along an axis."""
        axis, start, best = self.axes[number], self.start[number], self.best
        there = axis.steps(start, best[number])
        values = [axis.value(start, there + sign * step) for sign in (-1, 1)]
        points = [(*best[:number], value, *best[number + 1 :]) for value in values]
        return [point for point in dict.fromkeys(points) if point not in self.tried]

    def _farther(self) -> list[Point]:
        """The nearest points that are left when no step is: of whole numbers, few lie between two."""
        for steps in range(1, round(_MOST_STEP / _LEAST_STEP)):
            for number in range(len(self.axes)):
                if new := self._neighbours(number, _LEAST_STEP * steps):
                    return new
        return []
