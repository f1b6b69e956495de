"""What a function, a class or an object of the user's comes from, as it is in memory, in one digest.

That is its text and all that the text reads: enclosed and global names, defaults, what an object holds, and the same of
the functions among these. A text alone is not enough: one factory makes functions of one text and of different numbers.
"""

import dataclasses
import dis
import functools
import hashlib
import inspect
import json
import sys
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from mqlearn import source_text
from mqlearn.checks import plain_number
from mqlearn.experiments.settings import identity
from mqlearn.paths import is_users
from mqlearn.stateful.source import surroundings

_OURS = ("mqlearn", "builtins", "numpy")


def digest(thing: Any) -> str:
    """SHA-256 of anything, taken apart."""
    return _sha(json.dumps(_told(thing, {}), sort_keys=True).encode())


def text_digest(thing: Any) -> str:
    """The same of a function or a class without what it encloses, which `held` gives."""
    seen: dict[int, Any] = {}
    told = _function(thing, seen, enclosed=False) if isinstance(thing, FunctionType) else _told(thing, seen)
    return _sha(json.dumps(told, sort_keys=True).encode())


def of_user(kind: Any) -> bool:
    """Whether a function or a class is the user's: neither ours, nor of Python's library, nor installed."""
    module = getattr(kind, "__module__", None) or ""
    if module.partition(".")[0] in (*_OURS, *sys.stdlib_module_names) and module != "__main__":
        return False
    if isinstance(kind, type):
        codes = [code for value in vars(kind).values() if (code := getattr(_plain_form(value), "__code__", None))]
    else:
        codes = [code] if (code := getattr(kind, "__code__", None)) else []
    files = [code.co_filename for code in codes if isinstance(code, CodeType)]
    if not files and isinstance(kind, type):  # without methods, or of an extension
        file = getattr(sys.modules.get(module), "__file__", None)
        return file is None or is_users(file)
    return any(not file.endswith(".py") or is_users(file) for file in files)


def held(thing: Any) -> dict[str, Any]:
    """Name -> value of what a function encloses and has as defaults, or an object has as attributes."""
    if isinstance(thing, functools.partial):
        return {"func": thing.func, "args": thing.args, "keywords": thing.keywords}
    if isinstance(thing, MethodType):
        return {"self": thing.__self__, **held(thing.__func__)}
    if isinstance(thing, FunctionType):
        named = thing.__code__.co_varnames[: thing.__code__.co_argcount]
        defaults = thing.__defaults__ or ()
        given = dict(zip(named[len(named) - len(defaults) :], defaults, strict=True)) | (thing.__kwdefaults__ or {})
        return given | _enclosed(thing)
    found = {field.name: getattr(thing, field.name, None) for field in _fields(thing)}
    if not found or of_user(type(thing)):  # what else one of ours has is what it keeps ready
        slots = [name for kind in type(thing).__mro__ for name in np.atleast_1d(getattr(kind, "__slots__", ()))]
        found |= {str(name): getattr(thing, name) for name in slots if hasattr(thing, name) and name != "__dict__"}
        found |= getattr(thing, "__dict__", {})
    return found


# --- taken apart --------------------------------------------------------------------------------------------------


def _told(value: Any, seen: dict[int, Any]) -> Any:
    """As plain data. seen: what has been told, by its id, and kept so that no other object gets the id."""
    if value is None or isinstance(value, bool | str):
        return value
    if (number := plain_number(value)) is not None:
        return identity.canonical(number)
    if isinstance(value, np.ndarray) and value.dtype != object:
        return ["array", [*value.shape], value.dtype.str, _sha(np.ascontiguousarray(value).tobytes())]
    if isinstance(value, ModuleType):
        return ["module", value.__name__]
    if id(value) in seen:
        return ["told", [*seen].index(id(value))]
    seen[id(value)] = value
    if isinstance(value, list | tuple | np.ndarray):
        return [_told(one, seen) for one in value]
    if isinstance(value, set | frozenset):
        return sorted((_told(one, seen) for one in value), key=repr)
    if isinstance(value, Mapping):
        return [[_told(key, seen), _told(one, seen)] for key, one in value.items()]
    value = _plain_form(value)
    if isinstance(value, FunctionType):
        return _function(value, seen)
    if isinstance(value, type):
        return _class(value, seen)
    if inspect.isroutine(value) and not isinstance(value, MethodType):
        return _name(value)
    if type(value).__module__ == "builtins" and not isinstance(value, MethodType):
        return repr(value) if type(value).__repr__ is not object.__repr__ else _name(type(value))
    return [_told(type(value), seen), [[name, _told(one, seen)] for name, one in sorted(held(value).items())]]


def _function(function: FunctionType, seen: dict[int, Any], *, enclosed: bool = True, text: bool = True) -> Any:
    if not of_user(function):
        return _name(function)
    told: list[Any] = [_name(function), _text(function) if text else None]
    read = {name: value for name, value in surroundings_read(function).items() if name not in _enclosed(function)}
    for names in (read, held(function) if enclosed else {}):
        told.append([[name, _told(value, seen)] for name, value in sorted(names.items())])
    return told


def _class(kind: type, seen: dict[int, Any]) -> Any:
    if not of_user(kind):
        return _name(kind)
    try:
        text = source_text.of_class(kind)
    except source_text.NoText:
        text = ""
    told: list[Any] = [_name(kind), text, [_told(base, seen) for base in kind.__bases__ if of_user(base)]]
    for name, value in sorted(vars(kind).items()):
        value = _plain_form(value)
        if isinstance(value, FunctionType):
            made = value.__code__.co_filename == "<string>" and name.startswith("__")  # by dataclass
            if of_user(value) and not made:
                told.append([name, _function(value, seen, text=not text)])
        elif not name.startswith("__") and name != "_abc_impl" and not inspect.isdatadescriptor(value):
            told.append([name, _told(value, seen)])
    return told


def surroundings_read(function: FunctionType) -> dict[str, Any]:
    """The global and enclosed names that a function or one within it reads, with what they stand for."""
    names = {name for code in _codes(function.__code__) for name in _read(code)}
    try:
        known = surroundings(function)
    except ValueError:  # an enclosed name without a value as yet
        known = {**function.__globals__, **_enclosed(function)}
    return {name: known[name] for name in names if name in known}


def _read(code: CodeType) -> Iterator[str]:
    for one in dis.get_instructions(code):
        if one.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"):
            yield str(one.argval)


def _enclosed(function: FunctionType) -> dict[str, Any]:
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue
    return {name: value for name, value in found.items() if name != "__class__"}


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _codes(one)


def _text(function: FunctionType) -> Any:
    """Its text; its compiled code, where no text is known."""
    try:
        return source_text.of_function(function)[1]
    except source_text.NoText:
        return [
            [
                code.co_code.hex(),
                [*code.co_names],
                [repr(one) for one in code.co_consts if not isinstance(one, CodeType)],
            ]
            for code in _codes(function.__code__)
        ]


def _plain_form(value: Any) -> Any:
    """The function of a static or class method, of a property, and of what Numba has compiled."""
    if isinstance(value, property):
        return value.fget
    if isinstance(value, staticmethod | classmethod):
        return value.__func__
    return getattr(value, "py_func", value)


def _fields(thing: Any) -> tuple[Any, ...]:
    return dataclasses.fields(thing) if dataclasses.is_dataclass(thing) and not isinstance(thing, type) else ()


def _name(thing: Any) -> str:
    return f"{getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', repr(type(thing)))}"


def _sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
