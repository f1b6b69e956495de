"""Eight lanes as one value: vectors of floats or of random words, for the loops over the seeds of a run.

LLVM turns a plain loop over lanes into vectors only where it is long, and pays for its beginning and its end: twenty
seeds cost as much as forty. Here vectors are asked for, and LLVM makes of them whatever registers the processor has.
Each lane is added, multiplied and compared by itself, so the numbers are those of a plain loop, bit for bit.

    load(array, at)         eight numbers from place `at` (uint64) of an array of one axis: float64, or uint32 words
    store(array, at, x)     the same the other way
    all_lanes(x)            one number in all lanes
    x + y, x - y, x * y, x / y   lane by lane; of words x * y alone, modulo 2^32
    larger(x, y)            y where y > x, else x
    choose(u, edge, x, y)   x where u >= edge, else y; u and edge are words
    mark(marks, at, u, edge)   the same question, answered once: -1 for yes, 0 for no, in eight int64 from place `at`
    where(marks, at, x, y)  x where it was answered by yes, else y
    aligned(n)              n zeros that begin at a line of memory: a vector that crosses two takes twice the time
    load_four, store_four, four_alike, larger_four   the same for four floats: states side by side, or rules

Where nothing is compiled, arrays of eight numbers stand for vectors.
"""

import operator
from typing import Any

import numpy as np
from llvmlite import ir
from numba import extending as numba_extending
from numba import types
from numba.core.typing import templates

from mqlearn.jit import compiled, instruction

EIGHT = 8  # lanes of a vector
FOUR = 4  # of a short one

extending: Any = numba_extending  # type checkers would ask for the context, which numba gives
_NUMBER = ir.IntType(32)


class _Floats(types.Type):
    vector = ir.VectorType(ir.DoubleType(), EIGHT)


class _Words(types.Type):
    vector = ir.VectorType(_NUMBER, EIGHT)


class _Four(types.Type):
    vector = ir.VectorType(ir.DoubleType(), FOUR)


FLOATS, WORDS, FOUR_FLOATS = _Floats(name="eight floats"), _Words(name="eight words"), _Four(name="four floats")


class _Model(extending.models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, kind.vector)


for _kind in (_Floats, _Words, _Four):
    extending.register_model(_kind)(_Model)


def _operator(symbol: Any, kind: Any, instruction: str) -> None:
    """`x symbol y` for two vectors of a kind is one instruction of LLVM."""

    class Template(templates.ConcreteTemplate):
        cases = (templates.signature(kind, kind, kind),)

    templates.infer_global(symbol)(Template)  # pyright: ignore[reportOptionalCall] it says that it returns nothing

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return getattr(builder, instruction)(*arguments)

    extending.lower_builtin(symbol, type(kind), type(kind))(generate)


_operator(operator.add, FLOATS, "fadd")
_operator(operator.sub, FLOATS, "fsub")
_operator(operator.mul, FLOATS, "fmul")
_operator(operator.truediv, FLOATS, "fdiv")
_operator(operator.mul, WORDS, "mul")
_operator(operator.add, FOUR_FLOATS, "fadd")
_operator(operator.sub, FOUR_FLOATS, "fsub")
_operator(operator.mul, FOUR_FLOATS, "fmul")


def _place(context: Any, builder: Any, signature: Any, arguments: Any, vector: Any) -> Any:
    """Where place `at` of an array is, the first two arguments, as a pointer to a vector."""
    data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
    return builder.bitcast(builder.gep(data, [arguments[1]]), vector.as_pointer())


@instruction(lambda array, at: array[int(at) : int(at) + EIGHT].copy())
def load(context: Any, array: Any, at: Any) -> Any:
    """Eight numbers from place `at` of an array."""
    kind = WORDS if array.dtype == types.uint32 else FLOATS

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value = builder.load(_place(context, builder, signature, arguments, kind.vector))
        value.align = array.dtype.bitwidth // 8
        return value

    return kind(array, types.uint64), generate


def _store(array: np.ndarray, at: Any, value: np.ndarray) -> None:
    array[int(at) : int(at) + EIGHT] = value


@instruction(_store)
def store(context: Any, array: Any, at: Any, value: Any) -> Any:
    """Eight numbers to place `at` of an array."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _place(context, builder, signature, arguments, value.vector)
        builder.store(arguments[2], place).align = array.dtype.bitwidth // 8
        return context.get_dummy_value()

    return types.void(array, types.uint64, value), generate


@instruction(lambda array, at: array[int(at) : int(at) + FOUR].copy())
def load_four(context: Any, array: Any, at: Any) -> Any:
    """Four floats from place `at` of an array."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value = builder.load(_place(context, builder, signature, arguments, FOUR_FLOATS.vector))
        value.align = array.dtype.bitwidth // 8
        return value

    return FOUR_FLOATS(array, types.uint64), generate


def _store_four(array: np.ndarray, at: Any, value: np.ndarray) -> None:
    array[int(at) : int(at) + FOUR] = value


@instruction(_store_four)
def store_four(context: Any, array: Any, at: Any, value: Any) -> Any:
    """Four floats to place `at` of an array."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _place(context, builder, signature, arguments, FOUR_FLOATS.vector)
        builder.store(arguments[2], place).align = array.dtype.bitwidth // 8
        return context.get_dummy_value()

    return types.void(array, types.uint64, FOUR_FLOATS), generate


@instruction(lambda number: np.full(FOUR, number))
def four_alike(context: Any, number: Any) -> Any:
    """One float64 in all four."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        empty = ir.Constant(FOUR_FLOATS.vector, ir.Undefined)
        first = builder.insert_element(empty, arguments[0], _NUMBER(0))
        mask = ir.Constant(ir.VectorType(_NUMBER, FOUR), [0] * FOUR)
        return builder.shuffle_vector(first, empty, mask)

    return FOUR_FLOATS(types.float64), generate


@instruction(lambda number: np.full(EIGHT, number))
def all_lanes(context: Any, number: Any) -> Any:
    """One float64 or uint32 in all lanes."""
    kind = WORDS if number == types.uint32 else FLOATS

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        empty = ir.Constant(kind.vector, ir.Undefined)
        first = builder.insert_element(empty, arguments[0], _NUMBER(0))
        return builder.shuffle_vector(first, empty, ir.Constant(WORDS.vector, [0] * EIGHT))

    return kind(types.uint32 if kind is WORDS else types.float64), generate


@instruction(lambda x, y: np.where(y > x, y, x))
def larger(context: Any, x: Any, y: Any) -> Any:
    """y where y > x, else x."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        x, y = arguments
        return builder.select(builder.fcmp_ordered(">", y, x), y, x)

    return FLOATS(FLOATS, FLOATS), generate


@instruction(lambda x, y: np.where(y > x, y, x))
def larger_four(context: Any, x: Any, y: Any) -> Any:
    """y where y > x, else x, of four."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        x, y = arguments
        return builder.select(builder.fcmp_ordered(">", y, x), y, x)

    return FOUR_FLOATS(FOUR_FLOATS, FOUR_FLOATS), generate


@instruction(lambda u, edge, x, y: np.where(u >= edge, x, y))
def choose(context: Any, u: Any, edge: Any, x: Any, y: Any) -> Any:
    """x where u >= edge, else y."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        u, edge, x, y = arguments
        return builder.select(builder.icmp_unsigned(">=", u, edge), x, y)

    return FLOATS(WORDS, WORDS, FLOATS, FLOATS), generate


_MARKS = ir.VectorType(ir.IntType(64), EIGHT)  # as wide as floats: what tells them apart is not widened again and again


def _mark(marks: np.ndarray, at: Any, u: np.ndarray, edge: np.ndarray) -> None:
    marks[int(at) : int(at) + EIGHT] = -(u >= edge).astype(np.int64)


@instruction(_mark)
def mark(context: Any, marks: Any, at: Any, u: Any, edge: Any) -> Any:
    """-1 where u >= edge, else 0, to place `at` of an int64 array."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, _, u, edge = arguments
        answers = builder.sext(builder.icmp_unsigned(">=", u, edge), _MARKS)
        builder.store(answers, _place(context, builder, signature, arguments, _MARKS)).align = 8
        return context.get_dummy_value()

    return types.void(marks, types.uint64, WORDS, WORDS), generate


@instruction(lambda marks, at, x, y: np.where(marks[int(at) : int(at) + EIGHT] < 0, x, y))
def where(context: Any, marks: Any, at: Any, x: Any, y: Any) -> Any:
    """x where the mark from place `at` on is -1, else y."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        answers = builder.load(_place(context, builder, signature, arguments, _MARKS))
        answers.align = 8
        return builder.select(
            builder.icmp_signed("<", answers, ir.Constant(_MARKS, [0] * EIGHT)), arguments[2], arguments[3]
        )

    return FLOATS(marks, types.uint64, FLOATS, FLOATS), generate


@compiled
def aligned(n):
    """(n,) zeros that begin at a multiple of 64 bytes."""
    raw = np.zeros(n + EIGHT)
    first = -(raw.ctypes.data // 8) % EIGHT
    return raw[first : first + n]
