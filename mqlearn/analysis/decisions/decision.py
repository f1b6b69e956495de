"""What a sequential decision is: of each pair a verdict with its seeds, look and bound, and the words for all of it."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from mqlearn.analysis.decisions import design
from mqlearn.learning.record import Result

DECIDED = "decided_by"  # in the summary of a run: the file of the decision that its number of seeds comes from
A_BETTER, B_BETTER, EQUAL, SAME, UNDECIDED = "a_better", "b_better", "equal", "same", "undecided"


@dataclass(frozen=True)
class PairDecision:
    """One pair of rules.

    verdict: a_better, b_better; equal (within the margin); same (the same curves, bit for bit, in every seed so far:
    it stopped there, and decides nothing); undecided.   seeds: of each of the two, at the last look on the pair, which
    was number `look` (1, 2, ...).   mean_a, mean_b: of what was asked, over these seeds; of times geometric.
    difference: mean of a - b, of times of log a - log b, as are bound and detectable.   p: of the last look alone,
    two-sided; it is not corrected, neither for looks nor for pairs.   bound: what |difference| had to exceed at the
    last look for the strictest level, infinite where no outcome could.   detectable: undecided, the |difference| that
    the last look would have found with probability 0.8.   fixed: the seeds that a fixed design needs for this
    difference (power 0.8, the same level and family), as far as these seeds tell; at a look that decides, the
    difference is rather too large, so this is rather too small.   saved: of these, or of the budget where it is
    smaller.   reason: why it stopped.   predicted: seeds that theory expects a fixed design to need, None where it
    says nothing.   within: better, and by less than the margin.   of_times: whether times are compared.
    """

    a: str
    b: str
    verdict: str
    seeds: int
    look: int
    mean_a: float
    mean_b: float
    difference: float
    p: float
    bound: float
    detectable: float | None
    fixed: int | None
    saved: int | None
    reason: str
    predicted: int | None = None
    within: bool = False
    of_times: bool = False

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        n = f"after {self.seeds} seeds"
        if self.verdict in (A_BETTER, B_BETTER):
            first, second = (self.a, self.b) if self.verdict == A_BETTER else (self.b, self.a)
            small = ", by less than the margin" * self.within
            return f"{first} is better than {second}{small}, {n}"
        if self.verdict == EQUAL:
            return f"{self.a} and {self.b} are equal within the margin, {n}"
        if self.verdict == SAME:
            return f"{self.a} and {self.b} have the same curves in every seed, {n}"
        found = ""
        if self.detectable is not None:
            size = (
                f"factor of {math.exp(self.detectable):.3g}"
                if self.of_times
                else f"difference of {self.detectable:.3g}"
            )
            found = f"; a {size} would have been found with probability 0.8"
        return f"undecided between {self.a} and {self.b} {n}{found}"


@dataclass(frozen=True, repr=False, eq=False)
class Decision:
    """Which of some rules are better, by as few seeds as it took. `mqlearn.decide` makes it.

    pairs: of the asked ones each with its verdict.   results: name -> `Result` of all seeds that a rule ran, bit for
    bit those of `mqlearn.run` with as many.   looks: at how many seeds it was looked.   error: of the whole decision,
    over all looks and pairs.   margin, most: as asked.   asked: what was compared, in words.   prediction: what theory
    said before the first run.   notes: what a user should know.

    The numbers of seeds depend on what they showed: a test of these results as if their number had been fixed has
    another error than it says. So `results` say it among their facts, and `mqlearn.compare` of them does.
    """

    pairs: tuple[PairDecision, ...]
    results: dict[str, Result]
    looks: tuple[int, ...]
    error: float
    margin: float | None
    most: int
    asked: str
    prediction: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    _going_on: Callable[..., "Decision"] | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        n = sum(pair.verdict not in (SAME, UNDECIDED) for pair in self.pairs)
        seeds = max((pair.seeds for pair in self.pairs), default=0)
        first = f": {self.pairs[0].sentence}" if len(self.pairs) == 1 else ""
        return f"Decision({n} of {len(self.pairs)} pairs decided, {seeds} seeds at most{first})"

    def __str__(self) -> str:
        lines = [*self.prediction, *(f"{pair.sentence} ({_numbers(pair)})." for pair in self.pairs), self.method]
        return "\n".join([*lines, *self.notes])

    @property
    def method(self) -> str:
        """How it was decided, in words for a paper."""
        return method_words(self.asked, self.looks, self.error, len(self.pairs), self.margin, self.most)

    @property
    def undecided(self) -> tuple[PairDecision, ...]:
        """The pairs that the budget did not decide."""
        return tuple(pair for pair in self.pairs if pair.verdict == UNDECIDED)

    def frame(self) -> Any:
        """A pandas table with a row for each pair: its sentence, and what `PairDecision` has."""
        import pandas

        rows = [{**asdict(pair), "sentence": pair.sentence} for pair in self.pairs]
        spent = {"error": self.error, "spent": [self.error * design.share(pair.seeds) for pair in self.pairs]}
        return pandas.DataFrame(rows).assign(**spent)

    def more(self, most: int, looks: Any = None) -> "Decision":
        """Go on where it stopped, with a larger budget: the same question, looks and error, further looks after those.

        That is admissible after what this decision has shown, since what a look may spend does not depend on the
        budget. Looks must not be chosen by what seeds showed elsewhere, as in a run of your own: seed i is the same
        there. Pairs that were decided stay so. Raises SettingError for a budget, or looks, that do not lie beyond those
        there were.
        """
        assert self._going_on is not None
        return self._going_on(most, looks)


def method_words(asked: str, looks: Sequence[int], error: float, pairs: int, margin: float | None, most: int) -> str:
    """How some pairs were decided in sequence, in words for a paper."""
    told = [f"{n} ({100 * design.share(n):.0f} %)" for n in looks]
    at = ", ".join(told if len(told) <= 8 else [*told[:3], "...", told[-1]])
    equal = f"; equality within a factor of {margin:g} by two one-sided tests" if margin else ""
    return (
        f"Sequential: {asked} compared by group-sequential sign-flip tests on common seeds, looks at {at} "
        f"seeds (in brackets, the part of the error {error:g} spent by then, n/(n + {design.HALF:g})), over "
        f"{pairs} pair{'s' * (pairs != 1)} by closed Bonferroni tests{equal}; at most {most} seeds. The error "
        "is that of differences that are symmetric, about 0 or the margin; of skewed ones with such means it is more."
    )


def _numbers(pair: PairDecision) -> str:
    told = f"{pair.mean_a:.4g} and {pair.mean_b:.4g}, p {pair.p:.2g} at look {pair.look}"
    if pair.verdict != UNDECIDED and pair.fixed is not None and pair.saved is not None:
        saved = f", {pair.saved} saved" if pair.saved > 0 else ""
        told += f"; a fixed design needs about {pair.fixed}{saved}"
    return f"{told}; {pair.reason}" if pair.verdict in (SAME, UNDECIDED) else told
