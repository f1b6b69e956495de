"""Bellman's optimality operator."""

import re
from dataclasses import dataclass
from typing import ClassVar

from mqlearn.algorithms.operators.operator import Operator


@dataclass(frozen=True)
class Bellman(Operator):
    """Bellman's optimality operator, the target of every rule unless another one is asked for.

        r + g max_v Q(y, v)

    Fixed point Q*; it contracts by g.
    """

    with_features: ClassVar[bool] = True
    needs_discount: ClassVar[bool] = False


BELLMAN = Bellman()


def is_bellman(operator: Operator) -> bool:
    """Whether it is Bellman's."""
    return type(operator) is Bellman


def name_of(operator: Operator) -> str:
    """The name of its config group: expected_sarsa of ExpectedSarsa."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(operator).__name__).lower()
