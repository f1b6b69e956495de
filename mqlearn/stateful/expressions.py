"""Expressions of a step as code for a loop."""

import ast
from functools import partial
from types import FunctionType
from typing import Any

import numpy as np

from mqlearn.stateful.helpers import Helpers, literal
from mqlearn.stateful.source import BUILT_IN, Step, no_name, of_module, solver
from mqlearn.stateful.values import ARRAY, NUMBER, PAIRS, TABLE, VECTOR, Layout, Value, is_all

_ENTRYWISE = {
    "abs", "absolute", "ceil", "exp", "expm1", "floor", "fmax", "fmin", "isfinite", "isnan", "log", "log1p", "maximum",
    "minimum", "power", "sign", "sqrt", "square", "tanh",
}  # fmt: skip
_REDUCED = {"all", "any", "argmax", "argmin", "dot", "max", "mean", "min", "prod", "sum"}


class Expressions:
    """Lowers expressions to code; what has to run before it becomes lines. Abstract: `text.Text` adds statements."""

    def __init__(self, step: Step, layout: "Layout", numbers: tuple[str, ...], verbs: Any) -> None:
        """numbers: their names.   verbs: of `verbs`."""
        self.step, self.verbs = step, verbs
        self.tables, self.others = layout.tables, layout.others
        self.dimensions: dict[str, int] = dict.fromkeys(layout.tables, 1) | layout.others
        self.numbers = numbers
        self.fields: list[str] = []  # of self, which are handed on as numbers
        self.helpers = Helpers()  # the user's own functions
        self.scratch: dict[str, str] = {}  # arrays that are made once: name -> how
        self.lines: list[tuple[int, str, int]] = []  # depth, text, line of the user's file
        self.locals: dict[str, str] = {}  # kinds
        self.makes_arrays = False  # whether a line may make an array, beyond those of `scratch`
        self.depth, self.count, self.now = 0, 0, step.first
        verbs.text = self

    # --- lines ------------------------------------------------------------------------------------------------------

    def put(self, *lines: str) -> None:
        """Lines at the present depth; leading spaces count."""
        self.lines += [(self.depth, line, self.now) for line in lines]

    def fresh(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def over_entries(self, line: str) -> None:
        self.put("for p in range(n):", f"    {line}")

    def array(self, made: str = "np.empty(n)") -> str:
        """A scratch array of its own."""
        name = self.fresh()
        self.scratch[name] = made
        return name

    def kept(self, value: Value) -> Value:
        """The same value in an array, or a number in a name, so that later changes of the state do not show."""
        if value.kind in (PAIRS, VECTOR):
            name = self.array()
            self.over_entries(f"{name}[p] = {value.code}")
            return Value(value.kind, f"{name}[p]")
        return value

    # --- expressions --------------------------------------------------------------------------------------------------

    def sample(self, node: ast.expr) -> tuple[str, bool] | None:
        """(verb, whether of s.again) of s.VERB or s.again.VERB; None for anything else."""
        if not isinstance(node, ast.Attribute):
            return None
        who = node.value
        again = isinstance(who, ast.Attribute) and who.attr == "again"
        who = who.value if again else who  # type: ignore[union-attr]  # `again` says that it is one
        return (node.attr, again) if isinstance(who, ast.Name) and who.id == self.step.s else None

    def arguments(self, call: ast.Call) -> tuple[list[Value], dict[str, Value]]:
        if any(isinstance(one, ast.Starred) for one in call.args) or any(one.arg is None for one in call.keywords):
            self.step.refuse(call, "a compiled step writes each argument")
        return [self.lower(one) for one in call.args], {str(one.arg): self.lower(one.value) for one in call.keywords}

    def lower(self, node: ast.expr) -> Value:
        """An expression as code; what has to run before it is put before it."""
        method = getattr(self, f"_of_{type(node).__name__.lower()}", None)
        if method is None:
            self.step.refuse(node, f"a compiled step cannot read {ast.unparse(node)}")
        return method(node)

    def _joined(self, node: ast.AST, *values: Value) -> str:
        kinds = {value.kind for value in values}
        if PAIRS in kinds and kinds & {TABLE, VECTOR}:
            self.step.refuse(
                node,
                f"{ast.unparse(node)} mixes what a verb gives with a whole table; they mean different things in other "
                "sampling modes: read the table by s.value",
            )
        if PAIRS in kinds:
            return PAIRS
        if ARRAY in kinds:
            return ARRAY
        return VECTOR if kinds & {TABLE, VECTOR} else NUMBER

    def _codes(self, node: ast.AST, *values: Value) -> tuple[str, list[str]]:
        """The kind of a combination, and the code of each part in it."""
        kind = self._joined(node, *values)
        if kind == ARRAY:
            self.makes_arrays = True
            return kind, [self._argument(one) for one in values]
        return kind, [one.entry for one in values]

    def _of_constant(self, node: ast.Constant) -> Value:
        if not isinstance(node.value, bool | int | float | str | None):
            self.step.refuse(node, f"a compiled step cannot read {node.value!r}")
        return Value(NUMBER, repr(node.value), constant=True)

    def _of_name(self, node: ast.Name) -> Value:
        if (kind := self.locals.get(node.id)) is not None:
            prefix = "t_" if kind == TABLE else "u_"
            return Value(kind, f"{prefix}{node.id}" + ("[p]" if kind in (PAIRS, VECTOR) else ""))
        if node.id in (self.step.z, self.step.s, self.step.c, self.step.self):
            self.step.refuse(node, f"a compiled step cannot hand on {node.id} as a whole")
        value = self.step.meaning(node)
        value = value.item() if isinstance(value, np.generic) else value
        if not isinstance(value, bool | int | float | str | None):
            kind = type(value).__name__
            self.step.refuse(node, f"{node.id} is a {kind}; step() reads numbers of its file: keep arrays in the state")
        return Value(NUMBER, literal(value), constant=True)

    def _of_attribute(self, node: ast.Attribute) -> Value:
        who, name = node.value, node.attr
        if isinstance(who, ast.Name) and who.id not in self.locals:
            if who.id == self.step.z:
                return self._of_state(node)
            if who.id == self.step.c:
                if name not in self.numbers:
                    self.step.refuse(node, no_name(f"c.{name}", (f"c.{one}" for one in self.numbers)))
                return Value(NUMBER, f"c_{name}")
            if who.id == self.step.self:
                value = self.step.field(node)
                if isinstance(value, float):
                    self.fields += [name] if name not in self.fields else []
                    return Value(NUMBER, f"f_{name}")
                return Value(NUMBER, literal(value), constant=True)
            if who.id == self.step.s:
                return self.verbs.attribute(node)
            if (module := of_module(self.step.meaning(who))) is not None:
                return Value(NUMBER, f"{module}.{name}")
        return Value(NUMBER if name in ("size", "ndim") else ARRAY, f"{self.lower(who).whole}.{name}")

    def _of_state(self, node: ast.Attribute) -> Value:
        if node.attr in self.tables:
            return Value(TABLE, str(self.tables.index(node.attr)))
        if node.attr not in self.others:
            self.step.refuse(node, no_name(f"z.{node.attr}", (f"z.{one}" for one in self.dimensions)))
        return Value(ARRAY, f"m_{node.attr}")

    def _of_subscript(self, node: ast.Subscript) -> Value:
        base = self.lower(node.value)
        if base.code == "uniform" and isinstance(node.slice, ast.Constant) and node.slice.value in range(4):
            return self.verbs.coin(node.slice.value)
        if base.kind == TABLE and is_all(node.slice):
            return Value(VECTOR, base.entry)
        if base.kind == PAIRS:
            self.step.refuse(node, f"{ast.unparse(node)} reads a single pair; use z.NAME[...] for a table's entry")
        code = self._argument(base)
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        single = not any(isinstance(part, ast.Slice) for part in parts)
        one_axis = base.kind in (TABLE, VECTOR)
        known = 1 if one_axis else self.dimensions.get(code.removeprefix("m_")) if code.startswith("m_") else None
        kind = NUMBER if single and known == len(parts) else ARRAY
        self.makes_arrays |= kind == ARRAY
        return Value(kind, f"{code}[{self._index(node.slice)}]")

    def _index(self, node: ast.expr) -> str:
        if isinstance(node, ast.Slice):
            parts = [node.lower, node.upper] + ([node.step] if node.step else [])
            return ":".join("" if part is None else self.lower(part).whole for part in parts)
        if isinstance(node, ast.Tuple):
            return ", ".join(self._index(part) for part in node.elts)
        return self.lower(node).whole

    def _of_binop(self, node: ast.BinOp) -> Value:
        left, right = self.lower(node.left), self.lower(node.right)
        kind, (a, b) = self._codes(node, left, right)
        return Value(kind, f"({a} {OPERATORS[type(node.op)]} {b})", left.constant and right.constant)

    def _of_unaryop(self, node: ast.UnaryOp) -> Value:
        value = self.lower(node.operand)
        kind, (code,) = self._codes(node, value)
        sign = {ast.USub: "-", ast.UAdd: "+", ast.Not: "not ", ast.Invert: "~"}[type(node.op)]
        return Value(kind, f"({sign}{code})", value.constant)

    def _of_compare(self, node: ast.Compare) -> Value:
        values = [self.lower(one) for one in [node.left, *node.comparators]]
        kind, codes = self._codes(node, *values)
        signs = [_COMPARED[type(one)] for one in node.ops]
        rest = " ".join(f"{sign} {code}" for sign, code in zip(signs, codes[1:], strict=True))
        return Value(kind, f"({codes[0]} {rest})", all(one.constant for one in values))

    def _of_boolop(self, node: ast.BoolOp) -> Value:
        values = [self.lower(one) for one in node.values]
        word = " and " if isinstance(node.op, ast.And) else " or "
        kind, codes = self._codes(node, *values)
        if kind != NUMBER:
            self.step.refuse(node, "`and` and `or` need single numbers; use np.where for each pair or entry")
        return Value(NUMBER, f"({word.join(codes)})", all(one.constant for one in values))

    def _of_ifexp(self, node: ast.IfExp) -> Value:
        test, a, b = self.lower(node.test), self.lower(node.body), self.lower(node.orelse)
        if test.constant:
            return a if eval(test.code, {}) else b
        if test.kind in (PAIRS, VECTOR):
            self.step.refuse(node, "`if` needs one number, and here is one for each pair: use np.where")
        if a.kind == b.kind == TABLE:
            return Value(TABLE, self._row(f"{a.code} if {test.code} else {b.code}"))
        kind, (first, second) = self._codes(node, a, b)
        return Value(kind, f"({first} if {test.code} else {second})")

    def _row(self, code: str) -> str:
        name = f"t_{self.fresh()}"
        self.put(f"{name} = {code}")
        return name

    def _of_call(self, node: ast.Call) -> Value:
        if (who := self.sample(node.func)) is not None:
            return self.verbs.value(node, who, *self.arguments(node))
        arguments, named = self.arguments(node)
        if isinstance(node.func, ast.Attribute):
            base = node.func.value
            found = None
            if isinstance(base, ast.Name) and base.id not in (*self.locals, self.step.z, self.step.c, self.step.self):
                found = self.step.meaning(base)
            if found is not None and not isinstance(found, bool | int | float | str):
                return self._called(node, getattr(found, node.func.attr, None), found, arguments, named)
            if isinstance(base, ast.Name) and base.id == self.step.self:
                self.step.field(node.func)
                self.step.refuse(node, f"step() cannot call self.{node.func.attr}: take a function of your file")
            owner = self.lower(base)
            if owner.kind == PAIRS:
                self.step.refuse(
                    node, f"{ast.unparse(node)}: what verbs give is a number in other modes, without methods"
                )
            code = f"{self._argument(owner)}.{self._call(node.func.attr, arguments, named)}"
            return Value(NUMBER if node.func.attr in _REDUCED else ARRAY, code)
        if not isinstance(node.func, ast.Name):
            self.step.refuse(node, f"a compiled step cannot call {ast.unparse(node.func)}")
        return self._called(node, self.step.meaning(node.func), None, arguments, named)

    def _called(
        self, node: ast.Call, function: Any, owner: Any, arguments: list[Value], named: dict[str, Value]
    ) -> Value:
        name = getattr(function, "__name__", "")
        entrywise = (of_module(owner) is not None or function is abs) and name in _ENTRYWISE
        if of_module(owner) == "np" and name == "where" and len(arguments) == 3 and not named:
            kind = self._joined(node, *arguments)
            if kind != ARRAY:
                test, a, b = (one.entry for one in arguments)
                return Value(kind, f"({a} if {test} else {b})")
        if entrywise and not named and self._joined(node, *arguments) != ARRAY:
            kind = self._joined(node, *arguments)
            called = name if function is abs else f"{of_module(owner)}.{name}"
            return Value(kind, f"{called}({', '.join(one.entry for one in arguments)})")
        if (solved := solver(function)) is not None:
            name, result = solved, self.fresh()
            kind = VECTOR if arguments[-1].kind in (TABLE, VECTOR) else ARRAY
            self.put(f"{result} = {self._call(name, arguments, named)}")
            return Value(kind, f"{result}[p]" if kind == VECTOR else result)
        if (module := of_module(owner)) is not None:
            called = f"{module}.{name}"
        elif isinstance(function, FunctionType):
            called = self.helpers.name(function, partial(self.step.refuse, node))
        elif owner is None and function.__class__.__name__ in ("builtin_function_or_method", "type"):
            called = name
        else:
            self.step.refuse(node, f"a compiled step cannot call {ast.unparse(node.func)}; or set compiled = False")
        if called == "len" and arguments and arguments[0].kind in (TABLE, VECTOR):
            return Value(NUMBER, "n")
        code = self._call(called, arguments, named)
        if any(one.kind == PAIRS for one in arguments):  # an array over the pairs, as in plain Python
            result = self.fresh()
            self.put(f"{result} = {code}")
            return Value(PAIRS, f"{result}[p]")
        own = function in self.helpers.names
        single = (owner is None and not own) or name in _REDUCED or of_module(owner) == "math"
        return Value(NUMBER if single else ARRAY, code)

    def _call(self, name: str, arguments: list[Value], named: dict[str, Value]) -> str:
        self.makes_arrays |= name not in BUILT_IN or any(one.kind != NUMBER for one in arguments)
        codes = [self._argument(one) for one in arguments]
        codes += [f"{key}={self._argument(one)}" for key, one in named.items()]
        return f"{name}({', '.join(codes)})"

    def _argument(self, value: Value) -> str:
        if value.kind not in (PAIRS, VECTOR):
            return value.whole
        name = value.code.removesuffix("[p]")
        return name if name.isidentifier() else self.kept(value).code.removesuffix("[p]")


OPERATORS: dict[type, str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**", ast.Mod: "%", ast.FloorDiv: "//",
    ast.MatMult: "@", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>",
}  # fmt: skip
_COMPARED: dict[type, str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=", ast.Is: "is",
    ast.IsNot: "is not",
}  # fmt: skip
