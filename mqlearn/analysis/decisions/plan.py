"""What is asked of a decision: its rules, its pairs and its looks, each checked before anything runs."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mqlearn.analysis.decisions import design
from mqlearn.checks import check_int, finite_number
from mqlearn.errors import SettingError, nearest
from mqlearn.learning.setup import checked_rules
from mqlearn.problems.mdp import FiniteMDP

MOST = 200


def named_rules(rules: Any) -> dict[str, Any]:
    """Name -> rule. Raises SettingError for what is no rule, or fewer than two."""
    if isinstance(rules, Mapping):
        checked_rules(list(rules.values()))
        named = {str(name): rule for name, rule in rules.items()}
    else:
        several = checked_rules(rules)
        plain = [type(rule).__name__ for rule in several]
        wanted = [name if plain.count(name) == 1 else repr(rule) for name, rule in zip(plain, several, strict=True)]
        named = {}
        for name, rule in zip(wanted, several, strict=True):
            number = next(i for i in itertools.count(1) if (name if i == 1 else f"{name} ({i})") not in named)
            named[name if number == 1 else f"{name} ({number})"] = rule
    if len(named) < 2:
        raise SettingError("rules", ", ".join(named) or "none", "must be two rules at least")
    return named


def asked_pairs(names: Sequence[str], against: str | None) -> list[tuple[int, int]]:
    """The pairs of rules that are asked, by number. Raises SettingError."""
    if against is None:
        pairs = list(itertools.combinations(range(len(names)), 2))
    elif against in names:
        rival = list(names).index(against)
        pairs = [(number, rival) for number in range(len(names)) if number != rival]
    else:
        raise SettingError("against", against, f"must be one of {', '.join(names)}{nearest(str(against), names)}")
    if len(pairs) > design.MOST_PAIRS:
        expected = f"make {len(pairs)} pairs, and a decision has {design.MOST_PAIRS} at most: give against="
        raise SettingError("rules", f"{len(names)} rules", expected)
    return pairs


def check_margin(margin: float | None, question: Any, mdp: Any) -> None:
    """Raise SettingError for a margin of returns that cannot be above 0: a factor says nothing of them."""
    if margin is not None and question.summary == "return" and isinstance(mdp, FiniteMDP):
        largest = float(mdp.rewards[mdp.probabilities > 0].max(initial=-np.inf))
        if largest <= 0:
            expected = f"is a factor of means above 0, and no reward is (the largest is {largest:g}): leave it out"
            raise SettingError("margin", margin, expected)


@dataclass(frozen=True)
class Plan:
    """error, margin, most: as asked.   looks: numbers of seeds, increasing.   own: whether the user gave them."""

    pairs: int
    error: float
    margin: float | None
    looks: tuple[int, ...]
    most: int
    own: bool

    @classmethod
    def checked(cls, pairs: int, error: Any, margin: Any, looks: Any, most: Any, done: int = 0) -> "Plan":
        """The looks beyond `done` seeds. Raises SettingError for what is not admissible."""
        number, most = finite_number(error), check_int("most", most, 1)
        if number is None or not 0 < number < 1:
            raise SettingError("error", error, "must be a number strictly between 0 and 1")
        if number < design.least_error(pairs):
            raise SettingError("error", error, f"must be at least {design.least_error(pairs):.2g} with {pairs} pairs")
        factor = finite_number(margin) if margin is not None else None
        if margin is not None and (factor is None or factor <= 1):
            raise SettingError("margin", margin, "must be a factor above 1, such as 1.1, or None")
        fewest = design.fewest(number, pairs)
        if looks is None:
            first = max(design.FIRST, fewest)
            if not done and most < first:
                expected = f"must be at least {first}, the first look" + _why(fewest, number, pairs)
                raise SettingError("most", most, expected)
            if done and most <= done:
                raise SettingError("most", most, f"must be more than the {done} seeds that there are")
            return cls(pairs, number, factor, design.usual_looks(number, pairs, most, done), most, own=False)
        if isinstance(looks, str) or not hasattr(looks, "__iter__") or not (wanted := list(looks)):
            raise SettingError("looks", looks, "must be a list of numbers of seeds")
        own = tuple(check_int("looks", one, 1) for one in wanted)
        if any(one >= other for one, other in itertools.pairwise(own)):
            raise SettingError("looks", wanted, "must be increasing numbers of seeds")
        if done and own[0] <= done:
            raise SettingError("looks", wanted, f"must begin beyond the {done} seeds that there are")
        if own[0] < fewest:
            raise SettingError("looks", wanted, f"must begin at {fewest} or more{_why(fewest, number, pairs)}")
        if most < own[0]:
            raise SettingError("most", most, f"must be at least {own[0]}, the first look")
        return cls(pairs, number, factor, tuple(one for one in own if one <= most), most, own=True)


def _why(fewest: int, error: float, pairs: int) -> str:
    spent = design.share(fewest - 1) * error / pairs
    return (
        f": {fewest - 1} paired seeds cannot show a difference, their least p is {2.0 ** (2 - fewest):.3g} and "
        f"{spent:.2g} of the error is spent by then on one of {pairs} pair{'s' * (pairs != 1)}"
    )
