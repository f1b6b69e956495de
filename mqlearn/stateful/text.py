"""Statements of a step as lines of a loop."""

import ast

from mqlearn.stateful.expressions import OPERATORS, Expressions
from mqlearn.stateful.values import ARRAY, NUMBER, PAIRS, TABLE, VECTOR, Value, is_all


class Text(Expressions):
    """The lines of a step, with the lines of the user's file that they come from."""

    def block(self, body: list[ast.stmt]) -> None:
        before = len(self.lines)
        for node in body:
            self.now: int = self.step.line(node)
            method = getattr(self, f"_{type(node).__name__.lower()}", None)
            if method is None:
                self.step.refuse(node, f"a compiled step knows no {type(node).__name__.lower()} statement")
            method(node)
        if len(self.lines) == before:
            self.put("pass")

    def _inner(self, body: list[ast.stmt]) -> None:
        self.depth += 1
        self.block(body)
        self.depth -= 1

    def _pass(self, node: ast.Pass) -> None:
        pass

    def _break(self, node: ast.Break) -> None:
        self.put("break")

    def _continue(self, node: ast.Continue) -> None:
        self.put("continue")

    def _expr(self, node: ast.Expr) -> None:
        call = node.value
        if isinstance(call, ast.Constant):
            return  # a docstring
        if isinstance(call, ast.Call) and (who := self.sample(call.func)) is not None:
            self.verbs.statement(node, who, *self.arguments(call))
            return
        self.put(self.lower(call).whole)

    def _if(self, node: ast.If) -> None:
        test = self.lower(node.test)
        if test.kind in (PAIRS, VECTOR):
            self.step.refuse(node, "an `if` needs one number, and here is one for each pair: use np.where")
        if test.constant:
            self.block(node.body if eval(test.code, {}) else node.orelse or [ast.Pass()])
            return
        self.put(f"if {test.code}:")
        self._inner(node.body)
        if node.orelse:
            self.put("else:")
            self._inner(node.orelse)

    def _for(self, node: ast.For) -> None:
        if not isinstance(node.target, ast.Name) or node.orelse:
            self.step.refuse(node, "a loop of a compiled step is `for NAME in ...:`")
        self.locals[node.target.id] = NUMBER
        self.put(f"for u_{node.target.id} in {self.lower(node.iter).whole}:")
        self._inner(node.body)

    def _while(self, node: ast.While) -> None:
        before = len(self.lines)
        test = self.lower(node.test)
        if len(self.lines) > before or test.kind in (PAIRS, VECTOR):
            self.step.refuse(node, "a `while` of a compiled step may not ask a verb")
        self.put(f"while {test.code}:")
        self._inner(node.body)

    def _annassign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._store(node.target, self.lower(node.value), node)

    def _assign(self, node: ast.Assign) -> None:
        if len(node.targets) != 1:
            self.step.refuse(node, "a compiled step assigns to one name at a time")
        target, value = node.targets[0], node.value
        if not isinstance(target, ast.Tuple):
            self._store(target, self.lower(value), node)
            return
        names = target.elts
        chosen = [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]
        if not all(isinstance(part, ast.Tuple) and len(part.elts) == len(names) for part in chosen):
            self.step.refuse(node, "names and values must be as many, side by side: a, b = x, y")
        if isinstance(value, ast.IfExp):
            test, first, second = value.test, value.body.elts, value.orelse.elts  # type: ignore[attr-defined]  # tuples
            asked = ast.copy_location(ast.Name("asked", ast.Load()), test)
            self._store(ast.Name("asked", ast.Store()), self.lower(test), node)
            entries: list[ast.expr] = [
                ast.copy_location(ast.IfExp(asked, a, b), value) for a, b in zip(first, second, strict=True)
            ]
        else:
            entries = value.elts  # type: ignore[attr-defined]  # a tuple
        made = [self.kept(self.lower(entry)) for entry in entries]
        held = []
        for one in made:  # all are read before any is written
            if one.kind in (NUMBER, TABLE) and not one.constant and len(made) > 1:
                name = f"t_{self.fresh()}" if one.kind == TABLE else self.fresh()
                self.put(f"{name} = {one.code}")
                one = Value(one.kind, name)
            held.append(one)
        for name, one in zip(names, held, strict=True):
            self._store(name, one, node)

    def _store(self, target: ast.expr, value: Value, node: ast.stmt) -> None:
        if isinstance(target, ast.Name):
            name, kind = target.id, value.kind
            known = self.locals.get(name, kind)
            if known != kind:
                self.step.refuse(node, f"{name} holds a {kind} here and a {known} elsewhere: take two names")
            self.locals[name] = kind
            if kind in (PAIRS, VECTOR):
                self.scratch[f"u_{name}"] = "np.empty(n)"
                self.over_entries(f"u_{name}[p] = {value.code}")
            elif kind == TABLE and value.whole != value.code:
                self.put(f"t_{name} = {value.code}")
            elif kind == TABLE:
                self.step.refuse(node, f"{name} would be a second name of an array")
            else:
                self.put(f"u_{name} = {value.code}")
        elif isinstance(target, ast.Subscript):
            self._store_entries(target, value, "=", node)
        else:
            self.step.refuse(node, f"step() replaces {ast.unparse(target)}; change it in place: ...[:] = ...")

    def _augassign(self, node: ast.AugAssign) -> None:
        operator = f"{OPERATORS[type(node.op)]}="
        value = self.lower(node.value)
        if isinstance(node.target, ast.Name) and self.locals.get(node.target.id) not in (TABLE, ARRAY, None):
            now = self.lower(ast.copy_location(ast.Name(node.target.id, ast.Load()), node))
            code = f"({now.code} {operator[:-1]} {value.entry})"
            self._store(node.target, Value(self._joined(node, now, value), code), node)
        else:
            self._store_entries(node.target, value, operator, node)

    def _store_entries(self, target: ast.expr, value: Value, operator: str, node: ast.stmt) -> None:
        """target[...] op= value, or an array op= value."""
        whole = not isinstance(target, ast.Subscript) or is_all(target.slice)
        base = self.lower(target.value if isinstance(target, ast.Subscript) else target)
        if base.kind not in (TABLE, ARRAY):
            self.step.refuse(node, f"{ast.unparse(target)} is no array that can be changed")
        if value.kind == PAIRS:
            self.step.refuse(
                node,
                f"{ast.unparse(target)} is a whole table and {ast.unparse(node.value)} a sample's; "  # type: ignore  # a statement with a value
                "they mean different things in other sampling modes: use s.add or s.move",
            )
        if whole and base.kind == TABLE and value.kind in (NUMBER, VECTOR, TABLE):
            self.over_entries(f"{base.entry} {operator} {value.entry}")
            return
        code = self.kept(value).code.removesuffix("[p]") if value.kind == VECTOR else value.whole
        self.makes_arrays = True
        if whole and base.kind == ARRAY and operator != "=":
            self.put(f"{base.code} {operator} {code}")
            return
        index = ":" if whole else self._index(target.slice)  # type: ignore[union-attr]  # not whole: a subscript
        self.put(f"{base.whole}[{index}] {operator} {code}")
