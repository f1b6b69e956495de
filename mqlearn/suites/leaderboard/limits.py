"""Which of the choices of tuned rules lie at a limit of what may be tried, and whose limit that is."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from mqlearn.suites import axes, rules
from mqlearn.suites.results import LEAGUES, Entry, Results

_SAME = 1e-5  # settings are written with six digits, and numbers that are tried have four
_TUNED = LEAGUES.index("tuned")


def counts(every: Sequence[Results], names: Sequence[str], config_dir: str | None = None) -> dict[str, Any]:
    """How many choices that the search moved from the default have a number at a limit.

    ours: at one of ours, which is no part of theory; by rule too.   theory: at one of theory or the rule's definition.
    either: at one of ours, or at an end of what was tried that no limit sets.
    """
    named = {name: {axis.setting: axis for axis in rules.axes_of(name, config_dir)} for name in names}
    told = {"ours": 0, "theory": 0, "either": 0, "rules": dict.fromkeys(names, 0)}
    for one in every:
        for name in names:
            entry = one.entries[name]
            if entry.reasons[_TUNED] is not None:
                continue
            ours, theory = _at(entry, named[name], one.facts["discount"])
            told["ours"] += ours
            told["theory"] += theory
            told["either"] += ours or bool(entry.ends)
            told["rules"][name] += ours
    return told | {"rules": {name: count for name, count in told["rules"].items() if count}}


def _at(entry: Entry, named: Mapping[str, axes.Axis], discount: float) -> tuple[bool, bool]:
    """Whether a choice has a number at a limit of ours, and whether at one of theory."""
    numbers, ours, theory = _numbers(entry.settings[entry.chosen]), False, False
    for setting in entry.tuned:
        axis = named.get(setting) or _usual(setting, entry.tuned)
        if axis is None or setting not in numbers:
            continue
        limits = vars(axis.at(discount))
        ends = [end for end in ("least", "most") if limits[end] is not None
                and math.isclose(numbers[setting], limits[end], rel_tol=_SAME)]  # fmt: skip
        ours |= any(end in axis.ours for end in ends)
        theory |= any(end not in axis.ours for end in ends)
    return ours, theory


def _usual(setting: str, tuned: Sequence[str]) -> axes.Axis | None:
    """The axis of a step size, whose exponent may be 0 where its size is tuned with it."""
    constant = setting == "step_size.exponent" and "step_size.first" in tuned
    return axes.FROM_CONSTANT if constant else axes.STEP_SIZE.get(setting)


def _numbers(overrides: Sequence[str]) -> dict[str, float]:
    """The numbers that overrides set, those of the step size by the names of its axes."""
    texts = dict(text.split("=", 1) for text in overrides if "." in text.partition("=")[0])
    numbers = {key: float(text) for key, text in texts.items()}
    if "step_size.offset" in numbers:
        horizon = numbers["step_size.offset"] + 1
        numbers |= {"step_size.horizon": horizon, "step_size.offset": horizon}
        numbers["step_size.first"] = numbers["step_size.scale"] / horizon ** numbers["step_size.exponent"]
    return numbers
