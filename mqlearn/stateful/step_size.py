"""Whether a rule uses its step size: found out by asking for its numbers, and from the text of a step with state."""

import ast
import functools
from types import CodeType
from typing import Any

import numpy as np

from mqlearn import source_text
from mqlearn.algorithms.rule import Rule
from mqlearn.algorithms.stateful import Stateful
from mqlearn.algorithms.step_sizes import Constant

_ITERATIONS = 20  # that are asked for, of a rule of four numbers
_LATE = np.concatenate([np.arange(1000.0), [1e4, 1e5, 1e6]])
_METHODS = ("step", "init", "estimate", "acting")
_OF_SELF = ("step_size", "alpha", "numbers", "weights")  # by which a method may come to the step size itself


def scheduled(rule: Stateful) -> list[str]:
    """The names of the numbers that change with k by more than the step size, as they do at a constant one.

    Looked at are many k, and those beside the whole numbers of the rule, such as a period.
    """
    whole = np.array([value for value in vars(rule).values() if type(value) is int and value > 0], np.float64)
    k = np.unique(np.concatenate([_LATE, whole - 1, whole, whole + 1]))
    numbers = rule.with_step_size(Constant(0.25)).numbers(k)
    return [name for name, given in numbers.items() if len(np.unique(np.broadcast_to(given, k.shape))) > 1]


def uses_step_size(rule: Rule | Stateful) -> bool:
    """Whether any number of a rule can depend on its step size; true where that cannot be seen."""
    if isinstance(rule, Rule):
        try:
            other = rule.with_step_size(lambda k: rule.step_size(k) / 2)
            return not np.array_equal(rule.weights(0, _ITERATIONS), other.weights(0, _ITERATIONS), equal_nan=True)
        except Exception:  # of the user's update, as below
            return True
    if rule.plans:
        return False
    methods = [getattr(type(rule), name) for name in _METHODS if name == "step" or _own(rule, name)]
    try:
        read = _numbers_read(tuple(methods), tuple(one.__code__ for one in methods))
        return read is None or bool(read & _moved_numbers(rule.at(rule.discount)))
    except Exception:  # of the user's functions, which a run calls and refuses by name
        return True


def _own(rule: Stateful, name: str) -> bool:
    return getattr(type(rule), name) is not getattr(Stateful, name)


@functools.lru_cache(maxsize=256)
def _numbers_read(methods: tuple[Any, ...], codes: tuple[CodeType, ...]) -> set[str] | None:
    """The numbers that a step, the first of some methods, reads; None if one may come to the step size otherwise."""
    nodes = [source_text.of_function(one)[0] for one in methods]
    step = nodes[0]
    if any(_reads(node, 0) & {*_OF_SELF} or _hands_on(node, 0) for node in nodes):
        return None
    return None if len(step.args.args) != 4 or _hands_on(step, 3) else _reads(step, 3)


def _moved_numbers(rule: Stateful) -> set[str]:
    """The names of the numbers that another step size makes others."""
    k = np.arange(20.0)

    def numbers(factor: float) -> dict[str, Any]:
        step_size: Any = rule.step_size
        return dict(rule.with_step_size(lambda k: factor * step_size(k)).numbers(k))

    given, half = numbers(1.0), numbers(0.5)
    return {name for name in given if not np.array_equal(given[name], half[name], equal_nan=True)}


def _reads(node: Any, parameter: int) -> set[str]:
    """The attributes that a method reads of one of its parameters."""
    name = node.args.args[parameter].arg
    return {attribute for owner, attribute in _attributes(node) if owner == name}


def _hands_on(node: Any, parameter: int) -> bool:
    """Whether a method uses one of its parameters otherwise than by attributes: as a whole, or as super() does."""
    name = node.args.args[parameter].arg
    names = [one.id for one in ast.walk(node) if isinstance(one, ast.Name)]
    return names.count(name) > sum(owner == name for owner, _ in _attributes(node)) or "super" in names


def _attributes(node: Any) -> list[tuple[str, str]]:
    """(NAME, ATTRIBUTE) of each NAME.ATTRIBUTE of a method."""
    return [
        (one.value.id, one.attr)
        for one in ast.walk(node)
        if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name)
    ]
