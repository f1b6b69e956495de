"""Which numbers are the same bits on every machine, and how far the others may lie apart.

IEEE 754 fixes the bits of + - * / and of the square root, and our kernels carry them out in an order of their own: what
is made of these alone is the same bits everywhere. A library chooses its order, its fused operations and its
polynomials by the processor. What has come through one is a number: the same within UNIT times the condition of what
was computed times its size. Which arrays of a run are which is derived from its objects (`mqlearn.learning.rounded`).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mqlearn.errors import SettingError

UNIT = 1e-12  # about 4500 roundings: a sum of as many terms, or a solve of as many unknowns
SOLVES, POWERS, OWN_CODE, SUMS = "linear solves", "powers and the like", "code of its own", "sums in another order"


@dataclass(frozen=True)
class Rounding:
    """What two machines may make of one number.

    through: SOLVES (LAPACK, BLAS, SuperLU), POWERS (libm), OWN_CODE of a user, of which nothing is known, SUMS.
    condition: by how much the computation enlarges a relative rounding.   scale: the size of what it computed with,
    where what is compared is a difference of such numbers; else 0.
    """

    through: tuple[str, ...]
    condition: float = 1.0
    scale: float = 0.0

    @property
    def within(self) -> float:
        """The tolerance, relative to the scale or to the value, if that is larger."""
        return UNIT * self.condition


# Of what a figure shows: other hardware and other versions of libraries may change it by so much, and it is no other.
STATISTICS = Rounding((SUMS, SOLVES, POWERS), condition=1e6)


def joined(parts: Iterable[Rounding | None]) -> Rounding | None:
    """Of a number that is made of several; None: the same bits everywhere."""
    some = [part for part in parts if part is not None]
    if not some:
        return None
    through = tuple(dict.fromkeys(name for part in some for name in part.through))
    return Rounding(through, max(part.condition for part in some), max(part.scale for part in some))


def of_discount(discount: float) -> float:
    """A bound on the condition of (I - discount P) v = r in the sup norm, for any stochastic P: (1 + g) / (1 - g)."""
    return (1 + discount) / (1 - discount)


def inverse_norm(solve: Callable[..., np.ndarray], n: int) -> float:
    """An estimate of the 1-norm of the inverse of a matrix (n, n), from below, mostly to a factor of 3 (Hager 1984).

    solve: (b) -> x of A x = b, and (b, "T") of A' x = b.
    """
    x, largest = np.full(n, 1.0 / n), 0.0
    for _ in range(5):
        y = solve(x)
        largest = max(largest, float(np.abs(y).sum()))
        z = solve(np.where(y < 0, -1.0, 1.0), "T")
        j = int(np.abs(z).argmax())
        if abs(z[j]) <= z @ x:
            break
        x = 1.0 * (np.arange(n) == j)
    return largest


# --- what a function of arrays has called ---------------------------------------------------------------------------

_EXACT = {
    "add", "subtract", "multiply", "divide", "negative", "positive", "absolute", "fabs", "sqrt", "square",
    "reciprocal", "sign", "copysign", "floor", "ceil", "rint", "trunc", "maximum", "minimum", "fmax", "fmin",
    "clip", "greater", "greater_equal", "less", "less_equal", "equal", "not_equal", "logical_and", "logical_or",
    "logical_not", "isfinite", "isnan", "where", "full_like", "zeros_like", "ones_like", "empty_like", "copyto",
    "broadcast_to", "reshape", "ravel", "copy", "atleast_1d", "stack", "concatenate", "shape", "ndim", "size",
    "max", "amax", "min", "amin", "searchsorted", "any", "all", "round", "around", "floor_divide", "remainder",
    "cumsum", "take", "isin", "count_nonzero",
}  # fmt: skip


class _Watched(np.ndarray):
    """An array that notes which functions of NumPy see it, or what is made of it."""

    seen: set[str]

    def __array_finalize__(self, other: Any) -> None:
        self.seen = getattr(other, "seen", set())

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **named: Any) -> Any:
        self.seen.add(ufunc.__name__)
        plain = {name: _unwatched(value) for name, value in named.items()}
        return self._watch(getattr(ufunc, method)(*map(_unwatched, inputs), **plain))

    def __array_function__(self, function: Any, types: Any, arguments: Any, named: Any) -> Any:
        self.seen.add(function.__name__)
        plain = {name: _unwatched(value) for name, value in named.items()}
        return self._watch(function(*_unwatched(arguments), **plain))

    def __float__(self) -> float:
        self.seen.add("float")  # for the mathematics of Python, which nobody watches
        return float(self.view(np.ndarray))

    def _watch(self, result: Any) -> Any:
        if not isinstance(result, np.ndarray | np.generic) or result.dtype.kind != "f":
            return result
        made = np.asarray(result).view(_Watched)
        made.seen = self.seen
        return made


def _unwatched(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return type(value)(map(_unwatched, value))
    return value.view(np.ndarray) if isinstance(value, _Watched) else value


def has_powers(function: Callable[[np.ndarray], Any], k: np.ndarray) -> bool:
    """Whether a function of k, an array, calls more than what IEEE 754 fixes: powers, exp, sin and the like.

    Python's own floats are not seen: a constant such as 0.9**0.5 counts as given.
    """
    watched = k.view(_Watched)
    watched.seen = set()
    try:
        with np.errstate(all="ignore"):
            function(watched)
    except (TypeError, ValueError, SettingError):  # it takes no such array: nobody knows
        return True
    return not watched.seen <= _EXACT
