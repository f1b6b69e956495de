"""What the verbs of a sample become: how they are called. Their loops: `sweep_verbs`, `point_verbs`."""

import ast
import difflib
from typing import Any

from mqlearn.algorithms.operators import BELLMAN, Operator, is_bellman
from mqlearn.errors import nearest
from mqlearn.stateful.reference import ADD_BEST, not_for
from mqlearn.stateful.text import Text
from mqlearn.stateful.values import ARRAY, NUMBER, TABLE, VECTOR, Value

_SIGNATURES = {
    "value": ("q",), "best": ("q", "by"), "target": ("q", "by"), "add": ("q", "change"), "move": ("q", "to", "share"),
    "add_best": ("q", "change", "by"), "follow": ("later", "q"), "add_jacobian": ("matrix", "q", "weight"),
    "add_gradient": ("q", "weight", "change", "by"),
}  # fmt: skip
_VALUES = ("value", "best", "target")


def no_verb(name: str) -> str:
    """That a sample has nothing of this name, and all that it has, the most alike first."""
    words = sorted([*_SIGNATURES, "again", "uniform", "discount", "single"])
    words.sort(key=lambda word: -difflib.SequenceMatcher(None, word, name).ratio())
    return f"a sample has no verb {name}{nearest(name, words)}; it has {', '.join(words)}"


class Verbs:
    """What is common to all modes. Abstract."""

    text: Text
    single: bool  # whether a sample is one transition

    def __init__(self, batch: int, operator: Operator = BELLMAN) -> None:
        self.batch = batch
        self.operator, self.plain = operator, is_bellman(operator)
        self.averaged = False  # whether what verbs write is noted in `sums`, see `PointVerbs`
        self.uses: set[str] = set()  # of again, uniform
        self.coins: set[int] = set()  # the uniforms that are read by their numbers
        self.followed: list[str] | None = None  # the lists of entries that `follow` has yet to copy, once one is noted

    def statement(self, node: ast.stmt, who: tuple[str, bool], arguments: list[Value], named: dict[str, Value]) -> None:
        name, again = who
        if name in _VALUES:
            return  # asked for nothing
        given = self._given(node, name, again, arguments, named)
        getattr(self, f"_{name}")(node, again, **given)

    def value(self, node: ast.expr, who: tuple[str, bool], arguments: list[Value], named: dict[str, Value]) -> Value:
        name, again = who
        if name in _SIGNATURES and name not in _VALUES:
            self.text.step.refuse(node, f"s.{name} changes a table, and is nothing to calculate with")
        given = self._given(node, name, again, arguments, named)
        return getattr(self, f"_{name}")(node, again, **given)

    def _given(
        self, node: Any, name: str, again: bool, arguments: list[Value], named: dict[str, Value]
    ) -> dict[str, Value]:
        refuse = self.text.step.refuse
        if name not in _SIGNATURES:
            refuse(node, no_verb(name))
        if again:
            self.uses.add("again")
        parameters = _SIGNATURES[name]
        given = dict(zip(parameters, arguments, strict=False)) | named
        wanted = [one for one in parameters if one != "by"]
        if len(arguments) > len(parameters) or set(given) - set(parameters) or not set(wanted) <= set(given):
            refuse(node, f"s.{name} takes {', '.join(parameters)}")
        for key in ("q", "by", "later"):
            if key in given and given[key].kind not in (TABLE, ARRAY):
                refuse(node, f"s.{name} needs a table of the state for {key}")
        for key in ("change", "to", "share", "weight"):
            if key in given and given[key].kind in (TABLE, VECTOR):
                refuse(node, f"s.{name} takes what verbs give for {key}, not a whole table: read it by s.value")
        if "by" in parameters:
            given.setdefault("by", given["q"])
        if not self.plain and name == "add_best":
            raise not_for(self.operator, ADD_BEST)
        return given

    def attribute(self, node: ast.Attribute) -> Value:
        if node.attr == "discount":
            return Value(NUMBER, "discount")
        if node.attr == "single":
            return Value(NUMBER, repr(self.single), constant=True)
        if node.attr == "uniform":
            if not self.text.step.rule.draws_own:
                self.text.step.refuse(node, "s.uniform is drawn for rules that say draws_own = True only")
            self.uses.add("uniform")
            return Value(ARRAY, "uniform")
        known = node.attr in _SIGNATURES
        expected = f"s.{node.attr} is a verb, to be called" if known else no_verb(node.attr)
        return self.text.step.refuse(node, expected)

    def coin(self, number: int) -> Value:
        """s.uniform[number]."""
        self.coins.add(number)
        return Value(NUMBER, f"uniform_{number}")
