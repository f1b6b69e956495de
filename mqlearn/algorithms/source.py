"""What the code itself says of a rule: its words and its equation, as text."""

import functools
import inspect
from typing import Any

from mqlearn.algorithms.rule import Rule
from mqlearn.algorithms.stateful import Stateful

_METHODS = ("update", "init", "numbers", "step", "estimate", "acting", "samples_per_iteration")


def words(thing: Any) -> str:
    """The documentation of a function, class or module."""
    return inspect.cleandoc(thing.__doc__ or "not given")


def text(thing: Any) -> str:
    """The source text of a function or class, shifted to the left."""
    try:
        found = inspect.getsource(getattr(thing, "fget", thing))  # of a property, its function
    except (OSError, TypeError):
        return "(no source text: not defined in a file)"
    return inspect.cleandoc("\n" + found)


def defines(kind: type, name: str) -> bool:
    """Whether a rule's class defines a method itself, or inherits it from another rule than the base."""
    return any(name in vars(base) for base in kind.__mro__ if base not in (Rule, Stateful, object))


@functools.lru_cache(maxsize=64)
def equation(kind: type) -> tuple[str, ...]:
    """The source texts of the methods that make a rule, its update first."""
    return tuple(text(getattr(kind, name)) for name in _METHODS if defines(kind, name))
