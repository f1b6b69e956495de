"""What the code itself says of a rule: its words and its equation, as text."""

import inspect
from typing import Any

from mqlearn import source_text
from mqlearn.algorithms.rule import Rule
from mqlearn.algorithms.stateful import Stateful

_METHODS = ("update", "init", "numbers", "step", "estimate", "acting", "samples_per_iteration")


def words(thing: Any) -> str:
    """The documentation of a function, class or module."""
    return inspect.cleandoc(thing.__doc__ or "not given")


def text(thing: Any) -> str:
    """The source text of a function or class as it was imported, shifted to the left."""
    try:
        thing = getattr(thing, "fget", thing)  # of a property, its function
        found = source_text.of_class(thing) if isinstance(thing, type) else source_text.of_function(thing)[1]
    except source_text.NoText as error:
        return f"(no source text: {error})"
    return inspect.cleandoc("\n" + found)


def defines(kind: type, name: str) -> bool:
    """Whether a rule's class defines a method itself, or inherits it from another rule than the base."""
    return any(name in vars(base) for base in kind.__mro__ if base not in (Rule, Stateful, object))


def equation(kind: type) -> tuple[str, ...]:
    """The source texts of the methods that make a rule, its update first."""
    return tuple(text(getattr(kind, name)) for name in _METHODS if defines(kind, name))
