"""The text of a rule's step: where it stands, what its names mean, and how a mistake in it is told."""

import ast
import builtins
import math
from collections.abc import Iterable
from types import FunctionType, ModuleType
from typing import Any, NoReturn

import numpy as np

import mqlearn.linear_solves
from mqlearn import source_text
from mqlearn.algorithms.operators import Operator
from mqlearn.algorithms.stateful import Stateful
from mqlearn.errors import SettingError, nearest

_SOLVES = {name: getattr(mqlearn.linear_solves, name) for name in ("solve", "times")}
BUILT_IN = ("abs", "bool", "float", "int", "len", "max", "min", "range", "round")


def no_name(name: str, names: Iterable[str]) -> str:
    """That neither a number nor an array of the state has a name, and which there are."""
    known = list(names)
    has = f"there is {', '.join(known)}" if known else "there is none"
    return f"there is no {name}{nearest(name, known)}; {has}, and what depends on k comes from numbers(self, k)"


class Step:
    """The statements of `step`, or of another method, and its parameters by their own names."""

    def __init__(self, rule: Stateful, method: str = "step") -> None:
        self.rule = rule
        self.function: Any = vars(rule).get(method, getattr(type(rule), method))
        try:
            tree, _ = source_text.of_function(self.function)
        except source_text.NoText as error:
            expected = f"the text of {method}() cannot be read ({error}), so it cannot be compiled: write it in a file"
            raise SettingError("algorithm", self.name, f"{expected}, or set compiled = False") from None
        self.file, self.first = self.function.__code__.co_filename, tree.lineno
        if hasattr(self.function, "__wrapped__"):
            self.refuse(tree, f"{method}() is what a decorator has made, and cannot be compiled: set compiled = False")
        names = [argument.arg for argument in tree.args.args]
        if len(names) != (4 if method == "step" else 2):
            self.refuse(tree, "step() takes self, the state, the sample and the numbers: step(self, z, s, c)")
        self.self, self.z, self.s, self.c = [*names, "", ""][:4]
        self.body = _without_return(self, tree.body) if method == "step" else tree.body

    @property
    def name(self) -> str:
        return type(self.rule).__name__

    def line(self, node: ast.AST) -> int:
        """The line of a node in its file."""
        return getattr(node, "lineno", self.first)

    def refuse(self, node: ast.AST, reason: str) -> NoReturn:
        """Raise a SettingError that names file and line."""
        raise SettingError("algorithm", self.name, f"{reason} ({self.file}, line {self.line(node)})")

    def meaning(self, node: ast.Name) -> Any:
        """The object that a name of the file stands for."""
        found = surroundings(self.function).get(node.id, missing)
        if found is missing and node.id in BUILT_IN:
            return getattr(builtins, node.id)
        if found is missing:
            self.refuse(node, f"there is no {node.id}")
        return found

    def field(self, node: ast.Attribute) -> Any:
        """The value of self.NAME. Raises SettingError for what a compiled step cannot read."""
        if node.attr in ("step_size", "alpha", "numbers", "weights"):
            self.refuse(node, f"self.{node.attr} in step(): hand on what depends on k by numbers(), and read c.NAME")
        value = getattr(self.rule, node.attr, missing)
        if value is missing:
            self.refuse(node, f"there is no self.{node.attr}")
        if isinstance(value, np.generic):
            value = value.item()
        if not isinstance(value, bool | int | float | str | None):
            kind = "a method" if callable(value) else f"a {type(value).__name__}"
            self.refuse(node, f"self.{node.attr} is {kind}; step() reads numbers of self: keep arrays in the state")
        return value


missing = object()


def surroundings(function: FunctionType) -> dict[str, Any]:
    """The objects that the global and enclosed names of a function stand for."""
    names = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    return {**function.__globals__, **{name: cell.cell_contents for name, cell in names.items()}}


def of_module(value: Any) -> str | None:
    """How a module is called in generated text; None if step() may not call it."""
    return {np: "np", math: "math"}.get(value) if isinstance(value, ModuleType) else None


def solver(value: Any) -> str | None:
    """The name of one of our linear solves; None for everything else."""
    return next((name for name, function in _SOLVES.items() if value is function), None)


# Functions, and verbs of a sample, whose bits a compiled step has from Python's: see `inexact`.
_EXACT = {
    "value", "best", "target", "add", "move", "add_best", "follow", "add_jacobian", "add_gradient", "solve", "times",
    *BUILT_IN,
    "absolute", "all", "any", "argmax", "argmin", "ceil", "copy", "empty", "empty_like", "floor", "fmax", "fmin",
    "full", "full_like", "isfinite", "isnan", "maximum", "minimum", "ones", "ones_like", "sign", "sqrt", "square",
    "uint64", "where", "zeros", "zeros_like",
}  # fmt: skip
_ROUNDED = (ast.Pow, ast.MatMult, ast.Mod, ast.FloorDiv)


def inexact(rule: Stateful) -> bool:
    """Whether the compiled and the plain form of a rule may differ, to 1e-12: by powers, exp, sums and the like."""
    methods = [getattr(type(rule), name) for name in ("step", "estimate", "acting")]
    return any(_inexact(one, set()) for one in methods if one.__module__ != Stateful.__module__)


def inexact_value(operator: Operator) -> bool:
    """The same of V of an operator."""
    return not operator.greedy and _inexact(type(operator).value, set())


def _inexact(function: FunctionType, seen: set[FunctionType]) -> bool:
    seen.add(function)
    try:
        nodes = list(ast.walk(source_text.of_function(function)[0]))
    except source_text.NoText:
        return True  # who knows
    if any(isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, _ROUNDED) for node in nodes):
        return True
    names = surroundings(function)
    for node in nodes:
        if isinstance(node, ast.Call):
            called = names.get(node.func.id) if isinstance(node.func, ast.Name) else None
            if isinstance(called, FunctionType) and solver(called) is None:
                if called not in seen and _inexact(called, seen):
                    return True
            elif getattr(node.func, "attr", getattr(node.func, "id", None)) not in _EXACT:
                return True
    return False


def _without_return(step: Step, body: list[ast.stmt]) -> list[ast.stmt]:
    """Statements with `if test: ...; return` written as if and else, since a step becomes part of a loop."""
    kept: list[ast.stmt] = []
    for i, node in enumerate(body):
        if isinstance(node, ast.Return):
            if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
                step.refuse(node, "step() returns nothing: it moves the state")
            return kept
        if isinstance(node, ast.If) and isinstance(node.body[-1], ast.Return) and not node.orelse:
            rest = _without_return(step, body[i + 1 :])
            node = ast.copy_location(ast.If(node.test, node.body[:-1] or [ast.Pass()], rest or [ast.Pass()]), node)
            return [*kept, node]
        for inner in ast.walk(node):
            if isinstance(inner, ast.Return):
                step.refuse(inner, "return may end a step or an `if` of it, no more: write if and else")
        kept.append(node)
    return kept
