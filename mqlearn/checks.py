"""What a value must be: a finite number, a whole number, one of some words, a switch, a distribution. Each once.

Values come from Python, from a yaml file or from a command line. Those that raise take the name of the setting first
and raise SettingError, which names the setting, the value and what is admissible.
"""

import dataclasses
import functools
import math
import os
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Real
from typing import Any

import numpy as np

from mqlearn.errors import SettingError, nearest

# YAML files read on and off as truth values, Hydra's command line as texts.
_WHOLE = (int, int | None, "int", "int | None")  # annotations of whole numbers
_NOTHING = object()
_LONGEST = 200  # letters of a setting at the prompt
OUTCOME_BYTES = 100  # of an outcome of a model while it is made and solved
TRUTH = {"on": True, "off": False, "yes": True, "no": False, "true": True, "false": False}


def plain_number(value: Any) -> int | float | None:
    """A real number as Python's own int or float, None for all else (a truth value and a text are none).

    It may be one of NumPy's or of another library's, an array without axes, a fraction or a decimal.
    """
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        value = None if np.any(getattr(value, "mask", False)) else value.item()
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real | Decimal):
        return None
    try:
        if isinstance(value, Integral) or (isinstance(value, Fraction | Decimal) and value == int(value)):
            return int(value)
        return float(value)
    except (ValueError, OverflowError):  # a decimal that is none, or beyond all floats
        return None


def finite_number(value: object) -> float | None:
    """The value as a float, or None when it is not a finite real number, see `plain_number`."""
    number = plain_number(value)
    try:
        return float(number) if number is not None and math.isfinite(number) else None
    except OverflowError:
        return None


def _shown(value: Any) -> str:
    """A value in one line: an array by its shape."""
    if isinstance(value, np.ndarray):
        return f"array {value.shape}"
    text = repr(value)
    return text if len(text) <= _LONGEST and "\n" not in text else f"{type(value).__name__} of {len(value)}"


class PlainNumbers:
    """Base of objects with settings, which are dataclasses: numbers of any kind are kept as Python's own, 1e3 as an int
    where a whole number is due.

    So nothing that is computed, printed or recorded later meets another kind.
    """

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        if "__post_init__" in cls.__dict__:
            cls.__post_init__ = _with_plain_numbers(cls.__dict__["__post_init__"])
        if cls.__repr__ is PlainNumbers.__repr__:  # else a dataclass would write one, with whole arrays
            cls.__repr__ = PlainNumbers.__repr__

    def __repr__(self) -> str:
        """One line: its settings, and what it was given in the place of what its class has."""
        names = [field.name for field in dataclasses.fields(self)] if dataclasses.is_dataclass(self) else []
        given = vars(self)
        names += [
            name
            for name, value in given.items()
            if name not in names and name[0] != "_" and value is not getattr(type(self), name, _NOTHING)
        ]
        return f"{type(self).__name__}({', '.join(f'{name}={_shown(getattr(self, name))}' for name in names)})"

    def __post_init__(self) -> None:
        _make_plain(self)

    def without_effect(self) -> dict[str, str]:
        """Settings that have no effect beside the others: name -> why. Who changed one of them is told so."""
        return {}


def _with_plain_numbers(check: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(check)
    def plain_then_checked(self: Any, *given: Any, **named: Any) -> None:
        _make_plain(self)
        check(self, *given, **named)

    return plain_then_checked


def _make_plain(settings: Any) -> None:
    for field in dataclasses.fields(settings) if dataclasses.is_dataclass(settings) else ():
        number = plain_number(value := getattr(settings, field.name, None))
        if number is None:
            continue
        if field.type in _WHOLE and math.isfinite(number) and number == int(number):
            number = int(number)
        if type(value) is not type(number):
            object.__setattr__(settings, field.name, number)


def within(name: str, value: object, low: float, high: float = math.inf, *, ends: str = "()") -> None:
    """Refuse what is no number between low and high; `ends` says which of them belong to it: (), [), (] or []."""
    number = finite_number(value)
    above = number is not None and (low < number or (number == low and ends[0] == "["))
    below = number is not None and (number < high or (number == high and ends[1] == "]"))
    if not (above and below):
        raise SettingError(name, value, f"must be a number in {ends[0]}{low:g}, {high:g}{ends[1]}")


def discounted(discount: object, name: str, value: object, instead: str) -> None:
    """Refuse at a discount of 1 what exists below it alone, as what has 1/(1 - discount) in it.

    instead: what can be chosen there. Raises SettingError.
    """
    if finite_number(discount) == 1:
        raise SettingError(name, value, f"needs a discount below 1: {instead}")


def finite(name: str, value: object) -> float:
    """The value as a float, if it is a finite number. Raises SettingError."""
    number = finite_number(value)
    if number is None:
        raise SettingError(name, value, "must be a finite number")
    return number


def check_probability(name: str, value: object) -> float:
    """The value as a float, if it is a number from 0 to 1. Raises SettingError."""
    number = finite_number(value)
    if number is None or not 0 <= number <= 1:
        raise SettingError(name, value, "must be a number from 0 to 1")
    return number


def check_int(
    name: str,
    value: Any,
    low: int,
    high: int | None = None,
    *,
    of: str = "",
    why: str = "",
    null: str | None = None,
    written: bool = False,
) -> Any:
    """The value as an int from `low` to `high`, both included; 1e3 is whole too. Raises SettingError.

    of: what is counted.   why: said after the bounds.   null: None is admissible too, and stands for this.
    written: the value comes from a file or a command line, where texts are numbers too.
    """
    if null is not None and value is None:
        return None
    number = plain_number(_written(value) if written else value)
    if number is not None and math.isfinite(number) and number == int(number):
        number = int(number)
        if number >= low and (high is None or number <= high):
            return number
    bound = f"at least {low}" if high is None else f"from {low} to {high if high < 10**10 else format(high, 'g')}"
    expected = f"must be a whole number{of and f' of {of}'}, {bound}"
    raise SettingError(name, value, expected + why + (f", or null for {null}" if null else ""))


def fits_memory(name: str, value: int, n_bytes: Callable[[int], float], what: str) -> None:
    """Refuse a size of which n_bytes(value), which grows with it, is more than this machine's memory.

    what: that would be as large. Raises SettingError, which names the largest size that is admissible.
    """
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if n_bytes(value) <= memory:
        return
    fits, large = 0, value
    while large - fits > 1:
        middle = (fits + large) // 2
        fits, large = (middle, large) if n_bytes(middle) <= memory else (fits, middle)
    sizes = f"{what} would take {n_bytes(value) / 2**30:.3g} GiB, this machine has {memory / 2**30:.3g} GiB"
    raise SettingError(name, value, f"must be at most {fits} here: {sizes}")


def choice(name: str, value: Any, options: Sequence[str], more: str = "") -> Any:
    """The value, which is one of some words. Raises SettingError, with the nearest; `more` is said after the words."""
    if not isinstance(value, str) or value not in options:
        *others, last = options
        words = f"{', '.join(others)} or {last}" if others else last
        raise SettingError(name, value, f"must be {words}{more}{nearest(str(value), options)}")
    return value


def check_bool(name: str, value: Any) -> bool:
    """A truth value, or one of the words that yaml has for it (yes, no, on, off, true, false). Raises SettingError."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if not isinstance(value, str) or value.lower() not in TRUTH:
        raise SettingError(name, value, "must be true or false")
    return TRUTH[value.lower()]


def are_distributions(probabilities: Any, allowed: Any = True, rounding: float = 1e-9) -> np.ndarray:
    """Whether each row (last axis) is a distribution: none below 0, 0 where not `allowed`, the sum 1 but for rounding.

    probabilities (..., n), `allowed` broadcast to them; the answer is (...), bool. NaN is no probability.
    """
    values = np.asarray(probabilities, dtype=float)
    possible = ((values >= 0) & (np.asarray(allowed) | (values == 0))).all(axis=-1)
    return possible & (np.abs(values.sum(axis=-1) - 1) <= rounding)


def differ(first: Any, second: Any) -> bool:
    """Whether two answers of one function are not the same numbers: arrays, or mappings of them."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return first.keys() != second.keys() or any(differ(first[key], second[key]) for key in first)
    try:
        return not np.array_equal(np.asarray(first, np.float64), np.asarray(second, np.float64), equal_nan=True)
    except (TypeError, ValueError):
        return False  # no numbers, which is told elsewhere


def _written(value: Any) -> Any:
    """The number that a text is, '1e3' or '1000'; all else as it is."""
    if isinstance(value, str):
        try:
            return float(value) if not value.strip().isdigit() else int(value)
        except ValueError:
            return value
    return value
