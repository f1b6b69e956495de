"""What a value must be, each kind of value checked in one place."""

import math
from collections.abc import Callable
from numbers import Real
from typing import Any

from mqlearn.errors import SettingError, nearest

# YAML files read on and off as truth values, Hydra's command line as texts.
TRUTH = {"on": True, "off": False, "yes": True, "no": False, "true": True, "false": False}


def finite_number(value: object) -> float | None:
    """The value as a float, or None when it is not a finite real number (a truth value is none)."""
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        return None
    return float(value)


def within(name: str, value: object, low: float, high: float = math.inf, *, ends: str = "()") -> None:
    """Refuse what is no number between low and high; `ends` says which of them belong to it: (), [), (] or []."""
    number = finite_number(value)
    above = number is not None and (low < number or (number == low and ends[0] == "["))
    below = number is not None and (number < high or (number == high and ends[1] == "]"))
    if not (above and below):
        raise SettingError(name, value, f"must be a number in {ends[0]}{low:g}, {high:g}{ends[1]}")


def switch(name: str, value: object) -> None:
    """Refuse what is no truth value."""
    if not isinstance(value, bool):
        raise SettingError(name, value, "must be true or false")


def whole(low: int, high: int | None = None, *, optional: bool = False) -> Callable[[str, Any], int | None]:
    def kind(name: str, value: Any) -> int | None:
        if optional and value is None:
            return None
        number = finite_number(value)
        bound = f"at least {low}" if high is None else f"from {low} to {high if high < 10**10 else format(high, 'g')}"
        if number is None or number != int(number) or number < low or (high is not None and number > high):
            raise SettingError(name, value, f"must be a whole number, {bound}")
        return int(number)

    return kind


def choice(*options: str) -> Callable[[str, Any], str]:
    def kind(name: str, value: Any) -> str:
        if value not in options:
            raise SettingError(name, value, f"must be {' or '.join(options)}{nearest(str(value), options)}")
        return value

    return kind
