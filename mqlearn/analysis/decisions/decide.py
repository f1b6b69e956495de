"""`mq.decide`: seeds in turn, a look at them, and more seeds of the rules that are in an undecided pair."""

import copy
import inspect
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mqlearn.algorithms.rule import Rule
from mqlearn.algorithms.stateful import Stateful
from mqlearn.analysis import axis as axes
from mqlearn.analysis.comparison import seed_values
from mqlearn.analysis.comparison.seed_values import Question
from mqlearn.analysis.decisions import design, prediction
from mqlearn.analysis.decisions.decision import (
    A_BETTER,
    B_BETTER,
    DECIDED,
    EQUAL,
    SAME,
    UNDECIDED,
    Decision,
    PairDecision,
)
from mqlearn.analysis.decisions.paired import Paired, paired
from mqlearn.analysis.decisions.plan import MOST, Plan, asked_pairs, check_margin, named_rules
from mqlearn.analysis.statistics import power
from mqlearn.errors import KeywordError, SettingError, nearest
from mqlearn.learning.in_turn import SeedsInTurn
from mqlearn.learning.record import Result
from mqlearn.learning.setup import RunSettings, validated
from mqlearn.storage.runs import Run

_QUESTION = ("summary", "metric", "at", "epsilon", "diverged", "axis")


def decide(
    mdp: Any,
    rules: Mapping[str, Rule | Stateful] | Sequence[Rule | Stateful],
    *,
    iterations: int,
    error: float = 0.05,
    margin: float | None = None,
    looks: Sequence[int] | None = None,
    most: int = MOST,
    against: str | None = None,
    **settings: Any,
) -> Decision:
    """Run rules on common seeds until it is decided which are better, or until `most` seeds did not decide it.

    mdp, iterations: as of `mqlearn.run`.   rules: name -> rule, or a list.   error: the chance of any false decision,
    over all looks and pairs, where differences are symmetric, as those of two equal rules are; of rules with the same
    mean whose differences are skewed it is larger, most so at few seeds.   margin: a factor above 1; two rules are
    equal if the mean of neither is `margin` times that of the other, and a pair that is shown to be equal stops too.
    Means that are not above 0, as of many returns, are never shown to be equal. Without it no verdict is ever that
    there is no difference.   looks: at how many seeds it is looked, by default 10, 15, 20, ...; the first one at least
    as many as can show a difference; not to be chosen by what these seeds showed elsewhere.   most: seeds of each rule,
    at most; a pair without any difference goes on to there, unless all curves of both are the same, bit for bit: that
    stops it (`same`), and decides nothing.   against: one of the names, with which all others are
    compared; by default all pairs are asked.   settings: of `mqlearn.run`, but for n_seeds; and of the question, as
    `mqlearn.compare` has them: summary, metric, at, epsilon, diverged, axis.

    The seeds are those of a run with a fixed number of them. A second decision on the same seeds, by another metric
    say, is a second question: each has its own error.
    Raises SettingError for a value that is not admissible.

    >>> rules = {"plain": mq.QLearning(), "speedy": mq.SpeedyQ()}
    >>> mq.decide(mq.frozen_lake("4x4"), rules, iterations=1000)
    Decision(1 of 1 pairs decided, 10 seeds at most: speedy is better than plain, after 10 seeds)
    """
    named = named_rules(rules)
    _check_keywords(settings)
    question = Question(**{name: settings.pop(name) for name in _QUESTION if name in settings})
    if "n_seeds" in settings:
        expected = "is what a decision finds out; give most= for how many there may be"
        raise SettingError("n_seeds", settings["n_seeds"], expected)
    pairs = asked_pairs(list(named), against)
    plan = Plan.checked(len(pairs), error, margin, looks, most)
    validated(mdp, iterations=iterations, n_seeds=plan.most, **settings)
    check_margin(plan.margin, question, mdp)
    turn = SeedsInTurn(mdp, list(named.values()), iterations=iterations, **settings)
    state = State(list(named), pairs, plan, question, turn)
    state.predict(told=settings.get("progress"))
    return state.decided()


def _check_keywords(settings: Mapping[str, Any]) -> None:
    """Raise KeywordError for a keyword that is none of `decide`."""
    known = {*RunSettings.__annotations__, *_QUESTION, *inspect.signature(decide).parameters} - {"settings", "n_seeds"}
    for name, value in settings.items():
        if name in ("level", "interval"):
            raise KeywordError(name, value, "of a decision is error=" if name == "level" else "is of no decision")
        if name not in known | {"n_seeds"}:
            raise KeywordError(name, value, f"is no setting of mq.decide{nearest(name, known)}")


@dataclass
class State:
    """A decision on its way. done: the last answer on each pair.   asked: in words, from the first look on.

    keep: called with the answer after each look, so that what was looked at is known whatever comes then.
    """

    names: list[str]
    pairs: list[tuple[int, int]]
    plan: Plan
    question: Question
    turn: Any  # SeedsInTurn, or what has the same verbs
    tests: design.Family = field(init=False)
    done: dict[int, PairDecision] = field(default_factory=dict)
    looks: tuple[int, ...] = ()
    asked: str = ""
    notes: tuple[str, ...] = ()
    predicted: dict[int, tuple[int | None, str]] = field(default_factory=dict)
    skewed: dict[int, str] = field(default_factory=dict)
    keep: Callable[[Decision], None] | None = None

    def __post_init__(self) -> None:
        self.tests = design.Family(len(self.pairs), self.plan.error, margins=self.plan.margin is not None)

    def predict(self, told: Any = None) -> None:
        """What theory expects, before the first run; `told` says it at once, on stderr."""
        if self.question.summary != "error" or self.question.metric not in (None, "q_error") or self.question.at:
            return
        expected = prediction.errors(self.turn.setup, self.turn.rules)
        for number, (i, j) in enumerate(self.pairs):
            first, second = expected[i], expected[j]
            if first is not None and second is not None:
                needed = prediction.seeds(first, second, self.plan.error / len(self.pairs))
                text = prediction.words(self.names[i], self.names[j], first, second, needed)
                self.predicted[number] = needed, text
                if told:
                    sys.stderr.write(f"{text}\n")

    def decided(self) -> Decision:
        """Look after look, until every pair is decided or the budget ends."""
        for n in self.plan.looks:
            left = [number for number in range(len(self.pairs)) if self._open(number)]
            if not left:
                break
            rules = sorted({rule for number in left for rule in self.pairs[number]})
            self.turn.upto(n, rules)
            views = {rule: view(self.turn.result(rule), self.names[rule], n) for rule in rules}
            self._look(n, left, views)
            if self.keep is not None:
                self.keep(self.answer())
        found = self.answer()
        results = {name: _marked(self.turn.result(rule), found.method) for rule, name in enumerate(self.names)}
        return replace(found, results=results)

    def answer(self) -> Decision:
        """What is decided by now, after a look at least; without results."""
        return Decision(
            tuple(self.done[number] for number in range(len(self.pairs))),
            {},
            self.looks,
            self.plan.error,
            self.plan.margin,
            self.plan.most,
            self.asked,
            tuple(text for _, text in self.predicted.values()),
            (*self.notes, *self.skewed.values()),
            self.more,
        )

    def more(self, most: int, looks: Any = None) -> Decision:
        """`Decision.more`: this state stays as it is."""
        if looks is None and self.plan.own:
            raise SettingError("looks", None, "must be given, as they were before")
        plan = Plan.checked(self.plan.pairs, self.plan.error, self.plan.margin, looks, most, self.looks[-1])
        self.turn.check(plan.most)
        going = copy.copy(self)
        going.tests, going.done, going.plan, going.skewed = self.tests.copy(), {**self.done}, plan, {**self.skewed}
        return going.decided()

    def _open(self, number: int) -> bool:
        return number not in self.done or self.done[number].verdict == UNDECIDED

    def _look(self, n: int, left: Sequence[int], views: Mapping[int, Run]) -> None:
        if not self.asked:
            self._begin(list(views.values()))
        question = self.question
        metric = question.metric or ""
        found: dict[int, Paired] = {}
        for number in left:
            a, b = (views[rule] for rule in self.pairs[number])
            found[number] = paired(question, metric, a, b)
        self.looks = (*self.looks, n)
        margin = self.plan.margin
        shown, equal = self.tests.look(n, {number: one.tested(margin) for number, one in found.items()})
        for number, one in found.items():
            self.done[number] = self._answer(number, n, one, bool(shown[number]), bool(equal[number]))

    def _begin(self, views: list[Run]) -> None:
        question = resolved(self.question, views)
        assert question.at is not None
        if question.axis != self.question.axis:
            told = f"Counted in samples, since {axes.WHY}; axis='iterations' with at= asks by iterations."
            self.notes = (*self.notes, told)
        self.question = question
        what = {"error": "", "area": "mean ", "return": "", "time": f"time to {question.epsilon:g} of " if
                question.epsilon else ""}[question.summary]  # fmt: skip
        self.asked = f"{what}{question.metric} at {axes.words(question.axis, question.at)}"

    def _answer(self, number: int, n: int, seen: Paired, shown: bool, equal: bool) -> PairDecision:
        x, y, d, used = seen.x[seen.used], seen.y[seen.used], seen.difference, seen.used
        i, j = self.pairs[number]
        bound, level = self.tests.bound(number), self.plan.error / len(self.pairs)
        verdict, reason, detectable = UNDECIDED, f"the budget of {self.plan.most} seeds ended", None
        if shown:
            verdict = A_BETTER if (d.mean() < 0) == self.question.less_is_better else B_BETTER
            reason = "a difference was shown"
        elif equal:
            verdict, reason = EQUAL, f"equal within a factor of {self.plan.margin:g}"
        elif not used.any():
            reason = "no seed of the pair is finite"
        elif seen.identical:
            may = 1 - 0.05 ** (1 / n)  # the exact 95 % bound of a share of which n seeds had none
            verdict, reason = SAME, f"bit for bit, which is no test: up to {100 * may:.0f} % of seeds may differ"
        elif seen.late.all():
            reason += f", and neither arrived by {axes.words(self.question.axis, self.question.at or 0)} in any seed"
        elif self.plan.margin and not self.question.is_ratio and min(x.mean(), y.mean()) <= 0:
            reason += ", and of means that are not both above 0 a margin, which is a factor, says nothing"
        elif not d.any():
            reason += ", and all differences are 0, from which nothing follows"
        elif math.isfinite(bound):
            detectable = bound + 0.8416 * float(d.std(ddof=1)) / math.sqrt(n)  # the 0.8 quantile of a normal mean
        if (shown or equal) and abs(skew := seen.skewness) > 1:
            self.skewed[number] = (
                f"The differences of {self.names[i]} and {self.names[j]} are skewed (skewness {skew:.2g}). The error "
                "is that of symmetric ones: with few seeds, skewed ones of the same mean more often seem different."
            )
        fixed = saved = None
        if shown:
            fixed = power.seeds_needed(x, y, paired=True, level=level)
            saved = None if fixed is None else min(fixed, self.plan.most) - n
        mean_a, mean_b, mean_d = (float(value.mean()) if used.any() else math.nan for value in (x, y, d[used]))
        if self.question.is_ratio:
            mean_a, mean_b = math.exp(mean_a), math.exp(mean_b)
        predicted, p = self.predicted.get(number, (None, ""))[0], float(self.tests.p[number, 0])
        told = p, bound, detectable, fixed, saved, reason, predicted, shown and equal, self.question.is_ratio
        return PairDecision(self.names[i], self.names[j], verdict, n, len(self.looks), mean_a, mean_b, mean_d, *told)


def _marked(result: Any, method: str) -> Any:
    """A result that says where its number of seeds is from."""
    return replace(result, facts=result.facts | {DECIDED: method}) if isinstance(result, Result) else result


def resolved(question: Question, views: Sequence[Run]) -> Question:
    """The question with its axis, metric and place, where it left them to what the runs have. Raises SettingError."""
    if question.axis == "iterations" and axes.usual([views]) == "samples" and question.at is None:
        question = replace(question, axis="samples")
    metric = seed_values.metric_of(question, *views)
    return replace(question, metric=metric, at=seed_values.horizon(question, metric, *views))


def view(result: Any, name: str, n: int) -> Run:
    """The first n seeds of a `Result`, as comparisons read a run on disk."""
    gone = {str(seed): step for seed, step in result.diverged.items() if seed < n}
    made = Run(Path(name), {"digest": "", "name": name, "status": result.status, "diverged": gone})
    curves = {metric: curve[:n] for metric, curve in result.curves.items()}
    samples = {} if result.samples is None else {"samples": result.samples}  # of an earlier version's record
    vars(made).update(curves={"iteration": result.iteration, **samples, **curves}, settings={"n_seeds": n})
    return made
