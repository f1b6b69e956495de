"""Whether an operator is what it says, found out before a run: on random tables, and compiled against its own text."""

import functools
from typing import Any

import numpy as np

from mqlearn.algorithms.operators import SCALARS, Numbers, Operator, name_of
from mqlearn.checks import differ
from mqlearn.errors import SettingError, check_methods, user_code

_TRIALS = 40  # pairs of random values of states of up to five actions
_ROUNDING = 1e-9
_AGREE = 1e-12  # how far the compiled formula may be from its text, relative to the values


def check_operator_formula(operator: Operator, facts: Any) -> None:
    """`check_formula` of an operator of the user's, compiled too. Ours are tested in the package."""
    if type(operator).__module__.partition(".")[0] != "mqlearn":
        check_methods("operator", operator, Operator)
        check_formula(operator, facts, compiled=True)


def check_formula(operator: Operator, facts: Any, *, compiled: bool = False) -> None:
    """Refuse an operator that is none. Raises SettingError, naming the part and the figure.

    Its five numbers, what s is, and V: a number, the same `compiled` as it stands, and with the numbers a contraction
    by what `contraction` says. facts: of the problem.
    """
    name = name_of(operator)
    if operator.scalar not in SCALARS:
        raise SettingError("operator", name, f"says scalar={operator.scalar!r}, and s is one of {', '.join(SCALARS)}")
    with user_code("operator", f"{name}.numbers"):
        numbers = operator.numbers(facts.discount)
        again = operator.numbers(facts.discount)
    if differ(numbers, again):
        expected = "gives other numbers() when it is asked again: they must follow from the discount"
        raise SettingError("operator", name, expected)
    if not isinstance(numbers, Numbers) or not np.isfinite(np.array(numbers, np.float64)).all():
        expected = f"must give finite mq.Numbers(reward, ahead, here, own, common) in numbers(), not {numbers!r}"
        raise SettingError("operator", name, expected)
    steepest = 1.0 if operator.greedy else _steepest(operator, compiled)
    with user_code("operator", f"{name}.contraction"):
        claimed = operator.contraction(facts)
    if claimed is None:
        return
    # T moves by at most this where V does by at most `steepest`; s by 1, or by V's.
    common = abs(numbers.common) * {"none": 0.0, "mean": 1.0, "least": steepest}[operator.scalar]
    found = (abs(numbers.ahead) + abs(numbers.here)) * steepest + abs(numbers.own) + common
    if operator.scalar == "none" and not found <= claimed * (1 + _ROUNDING):
        expected = (
            f"is no contraction by {claimed:.6g}, as contraction() says: on random tables its V moved {steepest:.6g} "
            f"times as far as the values, so that its target may move {found:.6g} times as far; mend value() or "
            "numbers(), or return None from contraction() if none is proven"
        )
        raise SettingError("operator", name, expected)


@functools.lru_cache(maxsize=256)
def _steepest(operator: Operator, compiled: bool) -> float:
    """How far V moved at most, as a share of how far the values did, over random values. Raises SettingError."""
    name, random = name_of(operator), np.random.default_rng(0)
    largest = 0.0
    for trial in range(_TRIALS):
        size = 10.0 ** random.integers(-2, 3)
        q = random.normal(size=1 + trial % 5) * size
        other = q + random.uniform(-1, 1, len(q)) * size * 10.0 ** random.integers(-2, 1)
        first, second = _value(operator, name, q), _value(operator, name, other)
        largest = max(largest, abs(first - second) / np.abs(q - other).max())
    if compiled:
        _check_compiled(operator, name, random)
    return largest


def _check_compiled(operator: Operator, name: str, random: np.random.Generator) -> None:
    from mqlearn import formulas

    try:
        formula = formulas.compiled(operator)
    except Exception as error:  # of numba, which has many
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        said = next((line for line in lines if "Error" not in line), lines[0] if lines else type(error).__name__)
        may_use = "value() may use numbers of self, Python's arithmetic, and NumPy on q and by"
        expected = f"cannot be compiled: {said[:200]}; {may_use}"
        raise SettingError("operator", name, expected) from error
    for trial in range(_TRIALS):
        q = random.normal(size=1 + trial % 5)
        plain, compiled = _value(operator, name, q), formulas.value(formula, q)
        if not abs(plain - compiled) <= _AGREE * max(1.0, np.abs(q).max()):
            expected = (
                f"gives V = {compiled!r} compiled and {plain!r} as Python, of {q.tolist()}: write it without state"
            )
            raise SettingError("operator", name, expected)


def _value(operator: Operator, name: str, q: np.ndarray) -> float:
    with user_code("operator", f"{name}.value"):
        v, again = operator.value(q, q), operator.value(q, q)
    if differ(v, again):
        raise SettingError("operator", name, "gives another value() when it is called again: it must follow from q")
    try:
        number = float(v)
    except (TypeError, ValueError):
        number = np.nan
    if not np.isfinite(number):
        raise SettingError("operator", name, f"must give one finite number in value(), not {v!r}, of {q.tolist()}")
    return number
