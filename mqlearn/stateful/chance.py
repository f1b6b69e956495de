"""Where code of a rule reads chance or a clock by itself, found by the names that it reads, as they stand in memory.

A number of a run is a function of (seed, stream, k, pair). A step is never called twice with the same state in a run,
so what it reads beside its sample is seen in no comparison, if it is read seldom: it is found here, in the functions
that it calls too.
"""

import dis
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

from mqlearn.paths import is_users
from mqlearn.stateful.source import surroundings

_MODULES = {"random", "numpy.random", "time", "datetime", "secrets", "uuid"}


class Chance(NamedTuple):
    """By which name chance or a clock is read, and in which line of which file."""

    name: str
    file: str
    line: int


def chance(function: Any, owner: Any = None, seen: set[int] | None = None) -> Chance | None:
    """Where a function of the user's, or one that it calls, reads chance or a clock; None if it does not.

    owner: the object whose method it is; what it reads of that is looked at too.
    """
    function = getattr(function, "__func__", getattr(function, "py_func", function))  # of a method, of Numba's
    seen = set() if seen is None else seen
    if not isinstance(function, FunctionType) or id(function) in seen or not _of_user(function.__code__):
        return None
    seen.add(id(function))
    try:
        names = surroundings(function)
    except ValueError:  # an enclosed name without a value as yet
        names = function.__globals__
    for code in _codes(function.__code__):
        for name, value, line in _read(code, names, owner):
            if _is_chance(value):
                return Chance(name, code.co_filename, line)
            if (found := chance(value, owner, seen)) is not None:
                return found
    return None


def _read(code: CodeType, names: dict[str, Any], owner: Any) -> Iterator[tuple[str, Any, int]]:
    """(words, object, line) of each NAME, MODULE.NAME and self.NAME that is read; of an import inside, the module."""
    first = code.co_varnames[0] if code.co_argcount else "self"
    words, value, line = "", None, code.co_firstlineno
    for one in dis.get_instructions(code):
        line = (one.positions and one.positions.lineno) or line
        name = one.argval[-1] if isinstance(one.argval, tuple) and one.argval else one.argval
        if one.opname in ("LOAD_ATTR", "LOAD_METHOD") and words:
            words, value = f"{words}.{name}", _attribute(value, str(name))
        elif one.opname.startswith(("LOAD_FAST", "LOAD_DEREF")) and owner is not None and name in (first, "self"):
            words, value = str(name), owner
            continue
        elif one.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF"):
            words, value = str(name), names.get(str(name))
        elif one.opname == "IMPORT_NAME":
            words, value = str(name), ModuleType(str(name))
        elif one.opname == "IMPORT_FROM":
            words, value = str(name), ModuleType(f"{words}.{name}" if words else str(name))
        else:
            words, value = "", None
        if words and value is not None:
            yield words, value, line
            if not isinstance(value, ModuleType):
                words = ""  # what an object has is its own affair


def _attribute(value: Any, name: str) -> Any:
    try:
        return getattr(value, name, None)
    except Exception:  # of a property of the user's: it is called elsewhere, and told there
        return None


def _is_chance(value: Any) -> bool:
    """Whether an object is a module or a generator of random numbers, or a clock, or a function or a class of one."""
    own = getattr(value, "__self__", value)  # of a bound method
    if isinstance(own, ModuleType):
        return own.__name__ in _MODULES or (own.__name__ == "posix" and getattr(value, "__name__", "") == "urandom")
    modules = [str(getattr(one, "__module__", None) or "") for one in (own, type(own))]
    return any(module == name or module.startswith(f"{name}.") for name in _MODULES for module in modules)


def _of_user(code: CodeType) -> bool:
    return code.co_filename[:1] == "<" or is_users(code.co_filename)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _codes(one)
