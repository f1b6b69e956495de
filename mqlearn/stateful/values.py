"""What an expression of a step becomes: code for a loop, and its kind.

A step is rewritten for one seed and one iteration. Tables of the state are rows of one array `z`, so that a table that
is chosen while it runs is the number of a row; other arrays keep their shape. Every value has a kind:

number      one number
table       a row of z, or a local array like one; its code says which
pairs       synchronously what a verb gives, one number a pair; its code gives that of pair p
vector      arithmetic with whole tables; its code gives entry p
array       any other array, or what is not known

What is `pairs` or `vector` is written into a loop over p, with no array in between.
"""

import ast
from dataclasses import dataclass

NUMBER, TABLE, PAIRS, VECTOR, ARRAY = "number", "table", "pairs", "vector", "array"


@dataclass(frozen=True)
class Value:
    """A lowered expression. constant: whether its code holds no name, so that a test on it is decided at once."""

    kind: str
    code: str
    constant: bool = False

    @property
    def row(self) -> bool:
        """Whether the code is the number of a row of z."""
        return self.code.isdigit() or self.code.startswith("t_")

    def at(self, index: str) -> str:
        """The code of entry `index` of a table."""
        return f"z[{self.code}, {index}]" if self.row else f"{self.code}[{index}]"

    @property
    def entry(self) -> str:
        """The code of entry p, or of the number."""
        return self.at("p") if self.kind == TABLE else self.code

    @property
    def whole(self) -> str:
        """The code of a table as an array."""
        return f"z[{self.code}]" if self.kind == TABLE and self.row else self.code


class Layout:
    """Which arrays of a state, of these `shapes`, lie in z as rows, `tables`, and how many axes the `others` have."""

    def __init__(self, shapes: dict[str, tuple[int, ...]], n: int) -> None:
        self.shapes = shapes
        self.tables: list[str] = [name for name, shape in shapes.items() if shape == (n,)]
        self.others: dict[str, int] = {name: len(shape) for name, shape in shapes.items() if shape != (n,)}


def is_all(node: ast.expr) -> bool:
    """Whether an index is [:] or [...]."""
    if isinstance(node, ast.Constant):
        return node.value is ...
    return isinstance(node, ast.Slice) and node.lower is None and node.upper is None and node.step is None
