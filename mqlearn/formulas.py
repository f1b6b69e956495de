"""V of an operator, a small formula, as machine code that compiled loops call by its address.

A loop that called the formula itself would have to be compiled again for each one, and could not be kept on disk.
Here a formula is two methods of an object with numbers for fields, an `Operator` of `algorithms`; arrays hold the
values of one state:

    value(self, q, by) -> V        slopes(self, q) -> dV/dq

Compiled code sees `self` as a named tuple of these numbers, and nothing else of the object.
"""

import functools
from collections import namedtuple
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import carray, cfunc, njit, types  # pyright: ignore[reportPrivateImportUsage] of its manual

from mqlearn.jit import PLAIN, instruction


class Formula(NamedTuple):
    """value, slopes: addresses of machine code; without a compiler (NUMBA_DISABLE_JIT=1), Python functions."""

    value: Any
    slopes: Any


def fields(thing: Any) -> dict[str, float | bool]:
    """The numbers among the fields and class attributes of an object, by name: what compiled code sees of it."""
    named = {name: value for kind in reversed(type(thing).__mro__) for name, value in vars(kind).items()}
    found = {}
    for name, value in {**named, **vars(thing)}.items():
        if isinstance(value, bool | np.bool_) and not name.startswith("_"):
            found[name] = bool(value)
        elif isinstance(value, int | float | np.integer | np.floating) and not name.startswith("_"):
            found[name] = float(value)
    return found


@functools.lru_cache(maxsize=256)
def compiled(thing: Any) -> Formula:
    """The formula of an object (hashable) as machine code, compiled once a process: a fraction of a second, of which
    objects of one class share the most.

    Where the object has no `own_slopes`, its `differences(value, q)` take their place. Raises what numba raises for
    text that it cannot compile.
    """
    if PLAIN:
        return Formula(thing.value, thing.slopes)
    numbers = fields(thing)
    kind, value, slopes, apart = _methods(type(thing), tuple(numbers))
    seen = kind(**numbers)
    if not thing.own_slopes:
        at = njit(error_model="numpy")(lambda q, by: value(seen, q, by))
        slopes = njit(error_model="numpy")(lambda seen, q: apart(at, q))
    pointer = types.CPointer(types.float64)

    @cfunc(types.float64(pointer, pointer, types.intp))
    def value_of(q, by, n):
        return value(seen, carray(q, (n,)), carray(by, (n,)))

    @cfunc(types.void(pointer, pointer, types.intp))
    def slopes_of(q, out, n):
        found = slopes(seen, carray(q, (n,)))
        to = carray(out, (n,))
        for i in range(n):
            to[i] = found[i]

    _kept.extend((value_of, slopes_of))  # their code lives as long as they do
    return Formula(value_of.address, slopes_of.address)


_kept: list[Any] = []


@functools.lru_cache(maxsize=256)
def _methods(kind: Any, names: tuple[str, ...]) -> tuple[Any, Any, Any, Any]:
    """What compiled code sees of objects of a class, and `value`, `slopes`, `differences`, each compiled when used."""
    apart: Any = njit(error_model="numpy")
    return namedtuple(kind.__name__, names), apart(kind.value), apart(kind.slopes), apart(kind.differences)


def _called(returned: Any) -> Any:
    """What generates the call of machine code at an address, with places `first` of two arrays and n."""

    def called(context: Any, address: Any, first_array: Any, second_array: Any, first: Any, n: Any) -> Any:
        arrays = (first_array, second_array)
        if any(array.layout != "C" or array.ndim != 1 or array.dtype != types.float64 for array in arrays):
            return None

        def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            number = ir.DoubleType()
            places = [
                builder.gep(context.make_array(kind)(context, builder, array).data, [given[3]])
                for kind, array in zip(signature.args[1:3], given[1:3], strict=True)
            ]
            returns = number if returned == types.float64 else ir.VoidType()
            kind = ir.FunctionType(returns, [number.as_pointer(), number.as_pointer(), ir.IntType(64)])
            result = builder.call(builder.inttoptr(given[0], kind.as_pointer()), [*places, given[4]])
            return result if returned == types.float64 else context.get_dummy_value()

        return returned(types.int64, first_array, second_array, types.uint64, types.int64), generate

    return called


def _call_value(value: Any, q: np.ndarray, by: np.ndarray, first: int, n: int) -> float:
    return value(q[int(first) : int(first) + int(n)], by[int(first) : int(first) + int(n)])


def _call_slopes(slopes: Any, q: np.ndarray, out: np.ndarray, first: int, n: int) -> None:
    out[int(first) : int(first) + int(n)] = slopes(q[int(first) : int(first) + int(n)])


# call_value(value, q, by, first, n): V of the values first .. first + n - 1 of a table q, chosen by those of `by`.
# call_slopes(slopes, q, out, first, n): the derivative of V in these values, into the same places of `out`.
call_value: Any = instruction(_call_value)(_called(types.float64))
call_slopes: Any = instruction(_call_slopes)(_called(types.void))


@njit
def _value_at(address, q):
    return call_value(address, q, q, np.uint64(0), np.int64(q.shape[0]))


def value(formula: Formula, q: np.ndarray) -> float:
    """V of values q (n,), as compiled loops have it."""
    return _value_at(formula.value, q)
