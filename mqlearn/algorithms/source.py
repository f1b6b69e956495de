"""What the code itself says of a rule: its words and its equation, as text."""

import ast
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
    """The source texts of the methods that make a rule, its update first; without types, which say nothing of it."""
    return tuple(_untyped(text(getattr(kind, name))) for name in _METHODS if defines(kind, name))


def _untyped(method: str) -> str:
    """The text of a method without the types of its head, and else as it is."""
    try:
        function = ast.parse(method).body[0]
    except SyntaxError:  # no text of a method
        return method
    if not isinstance(function, ast.FunctionDef) or not function.body:
        return method
    first = function.body[0].lineno - 1
    head, body = method.splitlines()[:first], method.splitlines()[first:]
    if ":" not in "".join(head) or any("#" in line for line in head):
        return method
    for part in (*function.args.args, *function.args.kwonlyargs):
        part.annotation = None
    function.returns = None
    decorators = [line for line in head if line.startswith("@")]
    return "\n".join([*decorators, f"def {function.name}({ast.unparse(function.args)}):", *body])
