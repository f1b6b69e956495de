"""The numbers of a rule that a suite tunes: those of its step size, and its own that `tuning:` in its yaml names.

Each step size of ours is alpha_k = first (horizon/(k + horizon))^exponent. Which of these numbers are tuned follows
from its class, or from `tuning:`, which may name step_size.first, .horizon and .exponent, and step_size.offset: the
horizon, with first horizon^exponent kept, so that the same steps come later.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from mqlearn.algorithms.step_sizes import Constant, Harmonic, InverseSqrt, Polynomial, RescaledLinear
from mqlearn.checks import check_bool, choice, finite_number
from mqlearn.errors import SettingError, nearest

LIST_OF_BEFORE = (
    "must map the rule's own numbers to their limits, as in {algorithm.zeta: {most: 1}}, and no longer lists overrides"
)
_DIGITS = 6  # that a number of a setting has


@dataclass(frozen=True)
class Axis:
    """A number that is tuned.   setting: its name.   scale: "log", a step is a factor, or "linear", a difference.

    step: the first step.   least, most: limits, of theory or the rule's definition.   whole: a whole number.
    start: where the search begins, by default the rule's own value. least and most may be the text 1/discount.
    ours: which of the two limits is ours, where a rule would stand still or be another, and not one of theory.
    """

    setting: str
    scale: str = "log"
    step: float = 4.0
    least: float | str | None = None
    most: float | str | None = None
    whole: bool = False
    start: float | None = None
    ours: tuple[str, ...] = ()

    def at(self, discount: float) -> "Axis":
        """With limits that are numbers."""
        least, most = (1 / discount if end == "1/discount" else end for end in (self.least, self.most))
        return replace(self, least=least, most=most)

    def value(self, start: float, steps: float) -> float:
        """The number so many first steps away from `start`, within the limits and rounded as settings are written."""
        try:
            value = start * self.step**steps if self.scale == "log" else start + self.step * steps
        except OverflowError:
            value = 1e300
        return self.rounded(value)

    def rounded(self, value: float) -> float:
        low, high = (math.inf * sign if end is None else float(end) for sign, end in ((-1, self.least), (1, self.most)))
        value = float(f"{min(max(value, low), high):.4g}") if low < value < high else min(max(value, low), high)
        return float(round(value)) if self.whole else value

    def steps(self, start: float, value: float) -> float:
        """How many first steps from `start` to a value."""
        return math.log(value / start) / math.log(self.step) if self.scale == "log" else (value - start) / self.step

    def at_limit(self, value: float) -> bool:
        return value in (self.least, self.most)

    @property
    def searched(self) -> dict[str, Any]:
        """What decides which values are tried: all but whose the limits are."""
        return {name: value for name, value in vars(self).items() if name != "ours"}


# --- step sizes ---------------------------------------------------------------------------------------------------

# Steps that never fall are 1 throughout, and without noise several rules are then value iteration.
STEP_SIZE = {
    "step_size.first": Axis("step_size.first"),
    "step_size.horizon": Axis("step_size.horizon", least=1.0, most=1e9, ours=("most",)),
    "step_size.exponent": Axis("step_size.exponent", "linear", 0.25, least=0.01, most=1.0, ours=("least",)),
    "step_size.offset": Axis("step_size.offset", least=1.0, most=1e9, ours=("most",)),
}
FROM_CONSTANT = replace(STEP_SIZE["step_size.exponent"], least=0.0, ours=())


@dataclass(frozen=True)
class Form:
    """alpha_k = first (horizon/(k + horizon))^exponent, at most cap where there is one, which stays."""

    first: float
    horizon: float
    exponent: float
    cap: float | None = None

    @classmethod
    def of(cls, step_size: Any) -> "Form | None":
        """That of a step size of ours; None for another."""
        match step_size:
            case Harmonic():
                return cls(1 / (1 + step_size.offset), 1 + step_size.offset, 1.0)
            case RescaledLinear():
                horizon = round(1 / (1 - step_size.discount), 9)
                return cls(horizon / (1 + horizon), 1 + horizon, 1.0)
            case Polynomial():
                horizon = 1 + step_size.offset
                first = step_size.scale / horizon**step_size.exponent
                return cls(first, horizon, step_size.exponent, step_size.cap)
            case InverseSqrt():
                return cls(step_size.alpha, step_size.h, 0.5)
            case Constant():
                return cls(step_size.alpha, 1.0, 0.0)
        return None

    def with_numbers(self, numbers: Mapping[str, float]) -> "Form":
        """With the values of axes, by their settings."""
        named = {setting.partition(".")[2]: value for setting, value in numbers.items()}
        offset = named.pop("offset", None)
        form = Form(**{**vars(self), **named})
        if offset is None:
            return form
        return replace(form, first=form.first * (form.horizon / offset) ** form.exponent, horizon=offset)

    def overrides(self) -> tuple[str, ...]:
        """As choices of a run."""
        numbers = {
            "exponent": self.exponent, "scale": self.first * self.horizon**self.exponent, "offset": self.horizon - 1
        }  # fmt: skip
        numbers |= {} if self.cap is None else {"cap": self.cap}
        return ("step_size=polynomial", *(f"step_size.{key}={value:.{_DIGITS}g}" for key, value in numbers.items()))


def of_step_size(step_size: Any) -> tuple[Axis, ...]:
    """The two numbers of a step size that are tuned, the more important one first; none if it is not of ours."""
    if isinstance(step_size, InverseSqrt):
        return STEP_SIZE["step_size.first"], STEP_SIZE["step_size.horizon"]
    if isinstance(step_size, Constant):
        return STEP_SIZE["step_size.first"], FROM_CONSTANT
    if isinstance(step_size, Harmonic | RescaledLinear | Polynomial):
        return STEP_SIZE["step_size.horizon"], STEP_SIZE["step_size.exponent"]
    return ()


def of_rule(tuning: Sequence[Axis] | None, step_size: Any) -> tuple[Axis, ...]:
    """What is tuned of a rule: its own numbers and the first of its step size, or both of that if it has none."""
    usual = of_step_size(step_size)
    if not tuning:
        return usual if tuning is None else ()
    own = tuple(axis for axis in tuning if axis.setting.startswith("algorithm."))
    if len(own) == len(tuning):
        return (*usual[:1], *own)
    return tuple(axis for axis in tuning if axis in own or (axis != NO_STEP_SIZE and usual))


# --- `tuning:` of a yaml ------------------------------------------------------------------------------------------


def read(rule: str, given: Any) -> tuple[Axis, ...] | None:
    """The axes under `tuning:`; None without. Raises SettingError.

    `step_size: none` says that the step size has no effect.
    """
    if given is None:
        return None
    if not isinstance(given, dict):
        raise SettingError(f"{rule}.tuning", given, LIST_OF_BEFORE)
    axes = [_axis(f"{rule}.tuning", str(setting), about) for setting, about in given.items() if setting != "step_size"]
    if given.get("step_size", "none") != "none":
        raise SettingError(f"{rule}.tuning.step_size", given["step_size"], "must be none, or name step_size.horizon")
    if "step_size" not in given or not axes:
        return tuple(axes)
    return (*axes, NO_STEP_SIZE)


NO_STEP_SIZE = Axis("step_size.none")


def _axis(place: str, setting: str, about: Any) -> Axis:
    if not setting.startswith("algorithm.") and setting not in STEP_SIZE:
        expected = f"must be algorithm.NAME or one of {', '.join(STEP_SIZE)}{nearest(setting, STEP_SIZE)}"
        raise SettingError(place, setting, expected)
    place, about = f"{place}.{setting}", {} if about is None else about
    known = [field.name for field in fields(Axis) if field.name != "setting"]
    if not isinstance(about, dict):
        raise SettingError(place, about, f"must be a mapping of some of {', '.join(known)}")
    for key, value in about.items():
        if key not in known:
            raise SettingError(f"{place}.{key}", value, f"there is no such key{nearest(str(key), known)}")
        if key == "scale":
            choice(f"{place}.{key}", value, ("log", "linear"))
        elif key == "whole":
            check_bool(f"{place}.{key}", value)
        elif key == "ours":
            if not isinstance(value, list) or not {*map(str, value)} <= {"least", "most"}:
                raise SettingError(
                    f"{place}.{key}", value, "must be a list of least and most, the limits that are ours"
                )
        elif not (key in ("least", "most") and value == "1/discount") and finite_number(value) is None:
            raise SettingError(f"{place}.{key}", value, "must be a number")
    usual = vars(STEP_SIZE[setting]) if setting in STEP_SIZE else {"setting": setting}
    axis = Axis(**{**usual, **about, "ours": tuple(about.get("ours", usual.get("ours", ())))})
    if axis.step <= (1 if axis.scale == "log" else 0):
        raise SettingError(f"{place}.step", axis.step, "must be above 1, or above 0 on a linear scale")
    return axis
