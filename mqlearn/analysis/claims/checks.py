"""Does a claim hold? Checks of finished runs, each under its conditions, and the verdict that they give together.

A check holds, fails (the data say the opposite at the level of the tests) or stays open (not shown). A claim is
reproduced if all its checks hold, not reproduced if none does, and conditional otherwise; "conditional" is said with
the share that holds. Checks that stand aside are told beside the verdict and do not decide it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from mqlearn.errors import SettingError
from mqlearn.storage.runs import Run

HOLDS, FAILS, OPEN = "holds", "fails", "open"
VERDICTS = ("reproduced", "not_reproduced", "conditional")
LEVEL = 0.05


class Seen(NamedTuple):
    """A finished run with its cell and label."""

    run: Run
    cell: Any
    label: str


# (conditions, label) -> the run; conditions map each factor to one level.
Look = Callable[[Mapping[str, str], str], Seen]


@dataclass(frozen=True)
class ClaimCheck:
    """conditions: what distinguishes it from the other checks of its claim; evidence: plain data; aside: it does not
    decide the verdict."""

    conditions: dict[str, str]
    outcome: str
    evidence: dict[str, Any] = field(default_factory=dict)
    aside: bool = False


def verdict(checks: Sequence[ClaimCheck]) -> str:
    """reproduced: all hold; not_reproduced: none does; conditional: some do. Raises SettingError without checks."""
    holding, total = holding_of(checks)
    if not total:
        raise SettingError("checks", "", "must not be empty: nothing was tested")
    return VERDICTS[0] if holding == total else VERDICTS[2] if holding else VERDICTS[1]


def holding_of(checks: Sequence[ClaimCheck]) -> tuple[int, int]:
    """How many of the checks that decide hold, and how many there are."""
    deciding = [check for check in checks if not check.aside]
    return sum(check.outcome == HOLDS for check in deciding), len(deciding)


def conditions(
    checks: Sequence[ClaimCheck], by: Sequence[str] = (), *, depth: int = 3, within: Mapping[str, str] | None = None
) -> list[str]:
    """Where the checks hold and where they do not, in words: a tree of at most `depth` splits.

    It is split by the factors of `by` in their order, then by the one that separates best; levels that agree make one
    line.
    """
    within = dict(within or {})
    checks = [check for check in checks if not check.aside]
    holding = sum(check.outcome == HOLDS for check in checks)
    factors = {
        name: list(dict.fromkeys(check.conditions[name] for check in checks))
        for name in dict.fromkeys(name for check in checks for name in check.conditions)
        if name not in within and all(name in check.conditions for check in checks)
    }
    factors = {name: levels for name, levels in factors.items() if len(levels) > 1}
    if holding in (0, len(checks)) or depth == 0 or not factors:
        return [_line(checks, within)]

    def part(name: str, level: str) -> list[ClaimCheck]:
        return [check for check in checks if check.conditions[name] == level]

    def impurity(name: str) -> float:
        shares = [np.mean([c.outcome == HOLDS for c in part(name, level)]) for level in factors[name]]
        sizes = [len(part(name, level)) for level in factors[name]]
        return float(sum(size * share * (1 - share) for size, share in zip(sizes, shares, strict=True)))

    best = next((name for name in by if name in factors), None) or min(factors, key=impurity)
    alike: dict[Any, list[str]] = {}
    for level in factors[best]:
        some = sum(check.outcome == HOLDS for check in part(best, level))
        pure = some in (0, len(part(best, level)))
        alike.setdefault(some > 0 if pure else level, []).append(level)
    lines = []
    for levels in alike.values():
        members = [check for check in checks if check.conditions[best] in levels]
        lines += conditions(members, by, depth=depth - 1, within={**within, best: _joined(levels)})
    return lines


def _joined(levels: Sequence[str]) -> str:
    """The levels as a list, without repeating the first word that they share."""
    first = {level.partition(" ")[0] for level in levels}
    if len(levels) > 1 and len(first) == 1 and all(" " in level for level in levels):
        return f"{first.pop()} {', '.join(level.partition(' ')[2] for level in levels)}"
    return "; ".join(levels) if any("," in level for level in levels) else ", ".join(levels)


def _line(checks: Sequence[ClaimCheck], within: Mapping[str, str]) -> str:
    holding, total = sum(check.outcome == HOLDS for check in checks), len(checks)
    opposite = sum(check.outcome == FAILS for check in checks)
    what = "holds" if holding == total else "holds in part" if holding else "does not hold"
    counted = f"{holding} of {total}" + (f", {opposite} the other way" if opposite else "")
    where = ", ".join(level if name in _PLAIN else f"{name} {level}" for name, level in within.items())
    return f"{what} ({counted}): {where or 'everywhere'}"


_PLAIN = ("rule", "map", "quantity")  # factors whose levels speak for themselves


def quantity(spec: Mapping[str, Any]) -> dict[str, str]:
    """What a check looks at, as a condition; empty if its claim looks at one thing."""
    return {} if spec["quantity"] is None else {"quantity": spec["quantity"]}


def looked_at(
    spec: Mapping[str, Any], places: Sequence[Mapping[str, str]], look: Look
) -> list[tuple[dict[str, str], Seen]]:
    """Conditions and run of each check."""
    of = [(dict(place), str(label)) for place in places for label in spec["of"]]
    return [({**here, **quantity(spec), "rule": label}, look(here, label)) for here, label in of]


def level_of_each(spec: Mapping[str, Any], places: Sequence[Mapping[str, str]]) -> float:
    """The level of each interval of a check, so that all hold together at 1 - the level of the claim (Bonferroni)."""
    return 1 - spec["level"] / (len(places) * len(spec["of"]))
