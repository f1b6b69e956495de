"""The source text of the user's code as it was imported: what is in memory counts, whatever its file says by now.

A file of the user's is read once when it is imported, and compiled from what was read (no .pyc in between): its text
and what runs agree by construction. What was imported before mqlearn, or by another's import hook, is read then or when
a rule's class is made, and is compared with memory by the compiled code of its functions before it is believed. Of a
file that was imported twice both texts are kept: classes of the first may live on. Cells of notebooks have their text
in `linecache`. Compiled code is compared within this interpreter alone, and is part of no digest.
"""

import __future__

import ast
import functools
import importlib.util
import inspect
import linecache
import os
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from mqlearn.paths import INSTALLED, PACKAGE, is_users

_NOT_SHOWN = "cannot be shown to be what is in memory: it has changed since it was imported; start Python anew"


class NoText(LookupError):
    """The text of what is in memory is not known. The message names the file, and says why."""


class _Held(NamedTuple):
    """The text of a module, the spec that it was imported by, and whether it was compiled from this very text."""

    spec: ModuleSpec | None
    text: bytes
    sure: bool


_held: WeakKeyDictionary[ModuleType, _Held] = WeakKeyDictionary()
_versions: dict[str, list[bytes]] = {}  # of a file, as imported or seen; the newest last
_imports = 0


def imports() -> int:
    """How many imports of the user's files there have been: what was built from modules holds until the next."""
    return _imports


# --- at import ----------------------------------------------------------------------------------------------------


class _Loader(SourceFileLoader):
    """Compiles a file of the user's from the bytes that it keeps."""

    def get_code(self, fullname: str) -> CodeType:
        self.text = bytes(self.get_data(self.path))
        return self.source_to_code(self.text, self.path)

    def exec_module(self, module: ModuleType) -> None:
        global _imports
        _imports += 1
        _held.pop(module, None)  # of a reload that fails on its way nothing is known
        super().exec_module(module)
        _note(self.path, self.text)
        _held[module] = _Held(module.__spec__, self.text, sure=True)


class _Finder(MetaPathFinder):
    """Finds what `PathFinder` would, whose turn is next."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return None if fullname.startswith("mqlearn.") else kept(PathFinder.find_spec(fullname, path, target))


def kept(spec: ModuleSpec | None) -> ModuleSpec | None:
    """A spec by which the text of a module is kept, if it is a file of the user's."""
    if spec is not None and type(spec.loader) is SourceFileLoader and _is_users(spec.loader.path):
        spec.loader = _Loader(spec.loader.name, spec.loader.path)
    return spec


def watch() -> None:
    """Keep the text of the user's modules from now on, and read that of those which are there."""
    place = sys.meta_path.index(PathFinder) if PathFinder in sys.meta_path else len(sys.meta_path)
    sys.meta_path.insert(place, _Finder())
    for module in list(sys.modules.values()):
        file: Any = getattr(module, "__dict__", {}).get("__file__")
        if isinstance(module, ModuleType) and _is_users(file) and (text := _on_disk(file)) is not None:
            _note(file, text)
            _held[module] = _Held(module.__spec__, text, sure=False)


def keep(kind: type) -> None:
    """Read the file of a class that is being made, if the import of its module has not done so."""
    codes = (getattr(value, "__code__", None) for value in vars(kind).values())
    file = next((code.co_filename for code in codes if code is not None), "")
    if sys.modules.get(kind.__module__) not in _held and _is_users(file) and (text := _on_disk(file)) is not None:
        _note(file, text)


def _note(file: str, text: bytes) -> None:
    versions = _versions.setdefault(_real(file), [])
    versions[:] = [*(one for one in versions if one != text), text]


@functools.cache
def _real(file: str) -> str:
    """One name for a file; of a relative one, as it is found first."""
    return os.path.realpath(file)


def _is_users(file: Any) -> bool:
    return isinstance(file, str) and is_users(file)


def _on_disk(file: str) -> bytes | None:
    try:
        return Path(file).read_bytes()
    except OSError:
        return None


# --- of what is in memory -----------------------------------------------------------------------------------------


def of_function(function: Any) -> tuple[Any, str]:
    """The node and the text, shifted to the left, of a function as it is in memory. Raises NoText."""
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        raise NoText("it is no function of Python's")
    text = _version_of([code], getattr(function, "__globals__", {}))
    found = _functions(text).get((code.co_firstlineno, code.co_name), [])
    if len(found) != 1:
        raise NoText(f"{code.co_filename}, line {code.co_firstlineno} does not tell it from others")
    lines = _decoded(text).split("\n")[code.co_firstlineno - 1 : found[0].end_lineno]
    return found[0], textwrap.dedent("\n".join(lines)) + "\n"


def of_class(kind: type) -> str:
    """The text of a class as it is in memory. Raises NoText."""
    own = [value for value in vars(kind).values() if getattr(value, "__module__", None) == kind.__module__]
    functions = [inspect.unwrap(value) if callable(value) else value for value in own]  # as a base class may wrap them
    codes = [code for value in functions if (code := getattr(value, "__code__", None)) and code.co_filename[:1] != "<"]
    module = sys.modules.get(kind.__module__)
    text = _version_of(codes, vars(module)) if codes and module else of_module(module)
    found = [node for node in ast.walk(_tree(text)) if isinstance(node, ast.ClassDef) and node.name == kind.__name__]
    line = codes[0].co_firstlineno if codes else 0
    node = next((one for one in found if one.lineno <= line <= (one.end_lineno or 0)), found[-1] if found else None)
    if node is None:
        raise NoText(f"{kind.__qualname__} is made by other code than a class statement")
    return "\n".join(_decoded(text).split("\n")[_first_line(node) - 1 : node.end_lineno])


def of_module(module: ModuleType | None) -> bytes:
    """The text that a module was imported from. Raises NoText."""
    file = getattr(module, "__file__", None)
    if module is None or file is None:
        raise NoText("it lies in no file")
    held = _held.get(module)
    if held is not None and held.spec is module.__spec__:
        if not held.sure and not _agrees(module, held.text):
            raise NoText(f"{file} {_NOT_SHOWN}")
        return held.text
    texts = {*_versions.get(_real(file), ()), *filter(None, [_on_disk(file)])}
    fitting = [text for text in texts if _agrees(module, text)]
    if len(fitting) != 1:
        raise NoText(f"{file} {_NOT_SHOWN if texts else 'cannot be read'}")
    _note(file, fitting[0])
    _held[module] = _Held(module.__spec__, fitting[0], sure=True)
    return fitting[0]


def sources(module: ModuleType) -> dict[Path, bytes]:
    """The texts of a module and of the modules beside it that it imports, at any depth, by their files. Raises NoText.

    Beside it: in the folder of its file, or of its outermost package; of an installed one, in that package only.
    """
    outermost = sys.modules.get(module.__name__.partition(".")[0], module)
    file = Path(str(outermost.__file__)).resolve()
    folder = file.parent.parent if file.name == "__init__.py" else file.parent
    if {*INSTALLED} & {*folder.parts}:
        folder = file.parent if file.name == "__init__.py" else file
    found: dict[Path, bytes] = {}
    pending = [module]
    while pending:
        one = pending.pop()
        file = Path(getattr(one, "__file__", None) or "").resolve()
        own = file.suffix == ".py" and file.is_relative_to(folder) and not file.is_relative_to(PACKAGE)
        if own and file not in found and not {*INSTALLED} & {*file.relative_to(folder).parts}:
            found[file] = of_module(one)
            pending += [sys.modules[name] for name in _imported(found[file], file, one) if name in sys.modules]
    return found


def changed(things: Iterable[Any]) -> list[str]:
    """A warning for each file that objects, classes, functions or modules come from and that has changed since."""
    names = {name for thing in things for name in _modules_of(thing)}
    warned: dict[str, None] = {}
    for module in (sys.modules[name] for name in sorted(names) if name in sys.modules):
        if not _is_users(getattr(module, "__file__", None)):
            continue
        try:
            files = [str(file) for file, text in sources(module).items() if _on_disk(str(file)) != text]
        except NoText as error:
            warned[str(error)] = None
            continue
        told = "has changed since it was imported; what was imported counts, until it is imported anew"
        warned |= dict.fromkeys(f"{file} {told}" for file in files)
    return list(warned)


def _modules_of(thing: Any) -> Iterator[str]:
    if isinstance(thing, ModuleType):
        yield thing.__name__
    elif isinstance(thing, type) or inspect.isroutine(thing):
        yield from (one.__module__ for one in getattr(thing, "__mro__", [thing]) if one.__module__)
    else:
        yield from _modules_of(type(thing))


# --- texts and code -----------------------------------------------------------------------------------------------


def _version_of(codes: Sequence[CodeType], names: dict[str, Any]) -> bytes | str:
    """The text that functions were compiled from; those of another file than the first are left out. Raises NoText."""
    file = codes[0].co_filename
    codes = [code for code in codes if code.co_filename == file]
    held = list(reversed(_versions.get(_real(file), ())))
    for text in held:
        if _compiles_to(text, codes):
            return text
    seen = _on_disk(file)
    seen = "".join(linecache.getlines(file, names)) if seen is None and not held else seen
    if not seen:
        raise NoText(f"{file} {_NOT_SHOWN}" if held else "it is written in no file")
    if not _compiles_to(seen, codes):
        raise NoText(f"{file} {_NOT_SHOWN}")
    if isinstance(seen, bytes):
        _note(file, seen)
    return seen


def _agrees(module: ModuleType, text: bytes) -> bool:
    """Whether the functions of a module are compiled from a text."""
    file, codes = _real(str(module.__file__)), _codes_in(vars(module), module.__name__)
    return _compiles_to(text, [code for code in codes if _real(code.co_filename) == file])


def _codes_in(names: Any, module: str) -> Iterator[CodeType]:
    for value in list(names.values()):
        value = getattr(value, "__func__", getattr(value, "fget", value))  # of methods and properties
        value = inspect.unwrap(value) if callable(value) else value
        if isinstance(code := getattr(value, "__code__", None), CodeType):
            yield code
        elif isinstance(value, type) and value.__module__ == module:
            yield from _codes_in(vars(value), module)


def _compiles_to(text: bytes | str, codes: Iterable[CodeType]) -> bool:
    return all(code in _codes(text, code.co_flags & __future__.annotations.compiler_flag) for code in codes)


@functools.lru_cache(maxsize=64)
def _codes(text: bytes | str, flags: int) -> frozenset[CodeType]:
    """All functions of a text; none if it is not Python. Equal are those of the same lines, names and constants."""
    try:
        pending = [compile(text, "?", "exec", flags | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)]
    except (SyntaxError, ValueError):
        return frozenset()
    found: set[CodeType] = set()
    while pending:
        found.add(code := pending.pop())
        pending += [one for one in code.co_consts if isinstance(one, CodeType)]
    return frozenset(found)


@functools.lru_cache(maxsize=64)
def _tree(text: bytes | str) -> ast.Module:
    return ast.parse(text)


@functools.lru_cache(maxsize=64)
def _functions(text: bytes | str) -> dict[tuple[int, str], list[Any]]:
    """The functions of a text by their first lines and names."""
    found: dict[tuple[int, str], list[Any]] = {}
    for node in ast.walk(_tree(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            name = "<lambda>" if isinstance(node, ast.Lambda) else node.name
            found.setdefault((_first_line(node), name), []).append(node)
    return found


def _decoded(text: bytes | str) -> str:
    return text if isinstance(text, str) else importlib.util.decode_source(text)


def _first_line(node: Any) -> int:
    """The line of a statement, or of its first decorator."""
    return min([getattr(node, "lineno", 0), *(one.lineno for one in getattr(node, "decorator_list", ()))])


def _imported(text: bytes, file: Path, module: ModuleType) -> Iterator[str]:
    """Names of modules that a source text may import, its own packages included."""
    package = module.__name__ if file.name == "__init__.py" else module.__name__.rpartition(".")[0]
    names = [module.__name__]
    for node in ast.walk(_tree(text)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = importlib.util.resolve_name("." * node.level + (node.module or ""), package or None)
            names += [base, *(f"{base}.{alias.name}" for alias in node.names)]
    for name in names:
        parts = name.split(".")
        yield from (".".join(parts[:length]) for length in range(1, len(parts) + 1))
