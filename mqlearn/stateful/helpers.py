"""The functions that a step calls, as text for its module: their names mean there what they mean in memory."""

import ast
import builtins
import copy
import math
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any, NoReturn

import numpy as np

from mqlearn import source_text
from mqlearn.stateful.source import missing, solver, surroundings

Refuse = Callable[[str], NoReturn]


class Helpers:
    """The helpers of one module: each function once, by a name of its own, with what it calls in turn."""

    def __init__(self) -> None:
        self.names: dict[FunctionType, str] = {}
        self.texts: list[str] = []

    def name(self, function: FunctionType, refuse: Refuse) -> str:
        """The name that a function has in the module; its text is added. refuse: raises for what cannot be there."""
        if function not in self.names:
            plain = function.__name__ if function.__name__.isidentifier() else "lambda"
            self.names[function] = name = f"h{len(self.names)}_{plain}"
            try:
                node, _ = source_text.of_function(function)
            except source_text.NoText as error:
                refuse(f"the text of {function.__name__} cannot be read: {error}")
            self.texts.append(ast.unparse(_Resolved(self, function, node, refuse).definition(name)))
        return self.names[function]


class _Resolved(ast.NodeTransformer):
    """A function whose global and enclosed names are replaced by what they stand for in memory."""

    def __init__(self, helpers: Helpers, function: FunctionType, node: Any, refuse: Refuse) -> None:
        self.helpers, self.function, self.node = helpers, function, node
        self.names, self.refuse = surroundings(function), refuse
        stored = {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load)}
        self.own = stored | {one.arg for one in ast.walk(node) if isinstance(one, ast.arg)}

    def definition(self, name: str) -> ast.AST:
        """`def name(...)`, without decorators and annotations: the function in memory is what they have made."""
        node = copy.deepcopy(self.node)  # the tree of a file is shared
        arguments, body = node.args, [ast.Return(node.body)] if isinstance(node, ast.Lambda) else node.body
        for one in ast.walk(arguments):
            if isinstance(one, ast.arg):
                one.annotation = None
        arguments.defaults = [self._literal("a default", value) for value in self.function.__defaults__ or ()]
        if arguments.kwonlyargs or arguments.vararg or arguments.kwarg:
            self._refuse("a function that a compiled step calls takes plain parameters, without * and **")
        return ast.fix_missing_locations(ast.FunctionDef(name, arguments, [self.visit(one) for one in body], []))

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in self.own or not isinstance(node.ctx, ast.Load):
            return node
        value = self.names.get(node.id, missing)
        return node if value is missing and hasattr(builtins, node.id) else self._meaning(node, value)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        owner = self.names.get(node.value.id) if isinstance(node.value, ast.Name) else None
        if isinstance(owner, ModuleType) and owner not in (np, math) and ast.unparse(node.value) not in self.own:
            return self._meaning(node, getattr(owner, node.attr, missing))
        return self.generic_visit(node)

    def _meaning(self, node: ast.expr, value: Any) -> ast.AST:
        if value is missing:
            self._refuse(f"there is no {ast.unparse(node)}")
        for module in (np, math):
            if value is module:
                return ast.Name("np" if module is np else "math", ast.Load())
            name = getattr(value, "__name__", "")
            if callable(value) and getattr(module, name, None) is value:
                return ast.Attribute(ast.Name("np" if module is np else "math", ast.Load()), name, ast.Load())
        if getattr(builtins, getattr(value, "__name__", ""), missing) is value:
            return ast.Name(value.__name__, ast.Load())
        if (solved := solver(value)) is not None:
            return ast.Name(solved, ast.Load())
        if isinstance(value, FunctionType):
            return ast.Name(self.helpers.name(value, self.refuse), ast.Load())
        return self._literal(ast.unparse(node), value)

    def _literal(self, name: str, value: Any) -> ast.expr:
        value = value.item() if isinstance(value, np.generic) else value
        if not isinstance(value, bool | int | float | str | None):
            self._refuse(f"{name} is a {type(value).__name__}; a compiled step reads numbers, and calls functions")
        return ast.parse(literal(value), mode="eval").body

    def _refuse(self, reason: str) -> NoReturn:
        code = self.function.__code__
        self.refuse(f"{reason}, in {self.function.__name__} ({code.co_filename}, line {code.co_firstlineno})")


def literal(value: Any) -> str:
    """A number or a text as code."""
    return repr(value).replace("inf", "np.inf").replace("nan", "np.nan") if isinstance(value, float) else repr(value)
