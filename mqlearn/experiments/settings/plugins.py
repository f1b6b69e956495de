"""The user's own modules: named on the user's own command line, imported from their files, told by their source text.

A module is looked for in the current folder, then in that of --config-dir, then among what is installed. Its file never
takes the place of one of Python's or of an installed module for anybody else, whatever its name; what lies beside it is
found by the user's modules, after all that is installed. A module that a record names is not imported for that.
"""

import contextlib
import hashlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from mqlearn import source_text
from mqlearn.errors import SettingError, raised, users_lines
from mqlearn.paths import followed

FOLDERS = "MQLEARN_MODULES"  # environment variable: where else modules are looked for, for worker processes too
_RENAMED = "mqlearn_plugin_"  # before the name of a module that Python or something installed has, too
_named: dict[str, ModuleType] = {}  # by the user, since `forget`
_ours: dict[str, ModuleType] = {}  # imported from a file of the user's, by the name in sys.modules
_expected: dict[str, str] = {}  # in a worker: the digests of the modules' texts where it was started


def load(names: Any) -> dict[str, ModuleType]:
    """Import the modules that the user names. Raises SettingError for what cannot be imported."""
    found = {name: _imported_from_file(name) for name in _checked(names)}
    for name in found.keys() & _expected.keys():
        if _expected[name] != source_digest(found[name]):
            expected = f"has changed since the command began ({found[name].__file__}, or what it imports beside it)"
            raise SettingError("plugins", name, f"{expected}; start it again")
        del _expected[name]
    _named.update(found)
    return found


def in_memory() -> dict[str, str]:
    """The digests of the texts of all modules that the user has named here, for workers to `expect`."""
    return {name: source_digest(module) for name, module in _named.items()}


def expect(digests: Mapping[str, str]) -> None:
    """In a worker: refuse a module that is read later than its parent has read it, and from another text."""
    _expected.update(digests)


def known(names: Any) -> dict[str, ModuleType]:
    """The modules that a record names, as far as the user has named them too. Raises SettingError for others."""
    for name in _checked(names):
        if name not in _named:
            expected = "is a module of the user's that this run was made with; it is imported only if you name it too"
            raise SettingError("plugins", name, f"{expected}: plugins=[{name}]")
    return {name: _named[name] for name in names}


def forget() -> None:
    """At the start of a command line: nothing has been named yet."""
    _named.clear()


def search(config_dir: str | Path | None) -> None:
    """Look for modules in the current folder and in this one, in this process and in those that it starts."""
    folders = [Path.cwd(), *([] if config_dir is None else [followed(config_dir)])]
    os.environ[FOLDERS] = os.pathsep.join(map(str, folders))


@contextlib.contextmanager
def own_code() -> Iterator[None]:
    """Around all that may call the user's modules, if only in a method that nobody thinks of.

    What these raise, sys.exit too, becomes a SettingError of one line; a fault of ours keeps its traceback.
    """
    try:
        yield
    except SettingError:
        raise
    except (Exception, SystemExit) as error:
        lines = [(frame, number) for frame, number in users_lines(error) if _is_users(frame)]
        if not lines:
            raise
        code, module = lines[0][0].f_code, lines[0][0].f_globals["__name__"]
        said = f"{code.co_qualname}() {raised(error, lines[-1])}"
        raise SettingError("plugins", module.removeprefix(_RENAMED), said) from error


def _is_users(frame: FrameType) -> bool:
    name = frame.f_globals.get("__name__", "")
    return is_beside(name) or name in _named


def _folders() -> list[str]:
    return list(dict.fromkeys([str(Path.cwd()), *filter(None, os.environ.get(FOLDERS, "").split(os.pathsep))]))


class _Beside(MetaPathFinder):
    """Finds what lies beside the user's modules. It is asked last."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return source_text.kept(PathFinder.find_spec(fullname, _folders())) if path is None and _ours else None


sys.meta_path.append(_Beside())


def is_beside(module_name: str) -> bool:
    """Whether a module that was imported lies where the user's modules are looked for."""
    file = getattr(sys.modules.get(module_name), "__file__", None)
    return file is not None and any(followed(file).is_relative_to(followed(one)) for one in _folders())


def _checked(names: Any) -> list[str]:
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) and name for name in names):
        raise SettingError("plugins", names, "must be a list of names of modules: plugins=[my_module]")
    return list(names)


def _imported_from_file(name: str) -> ModuleType:
    package, _, inner = name.partition(".")
    if package == "mqlearn":
        raise SettingError("plugins", name, "is no module of yours")
    try:
        found = PathFinder.find_spec(package, _folders()) if package.isidentifier() else None
        if found is None or found.origin is None:
            if package in _ours:
                _drop(package)
            module = importlib.import_module(name)
        else:
            module = _module(package, found.origin)
            module = importlib.import_module(f"{module.__name__}.{inner}") if inner else module
    except (Exception, SystemExit) as error:
        where = "" if isinstance(error, ModuleNotFoundError) else f" at {_place(error)}"
        reason = f"{type(error).__name__}{where}: {error}"
        places = " and ".join(_folders())
        raise SettingError("plugins", name, f"cannot be imported; it is looked for in {places} ({reason})") from None
    if not getattr(module, "__file__", None):
        raise SettingError("plugins", name, "is not a module with a source file")
    return module


def _module(name: str, file: str) -> ModuleType:
    """The module in a file; under a name of its own in sys.modules if another module has the name."""
    if _is_of_others(name, file):
        name = f"{_RENAMED}{name}"
    if name in sys.modules and _same_file(sys.modules[name], file):
        return sys.modules[name]
    _drop(name)
    spec = source_text.kept(importlib.util.spec_from_file_location(name, file))
    assert spec is not None and spec.loader is not None  # it was found
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = _ours[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name], _ours[name]
        raise
    return module


def _drop(name: str) -> None:
    """Forget a module of another folder, and what lies within it."""
    for old in [one for one in sys.modules if one == name or one.startswith(f"{name}.")]:
        del sys.modules[old]


def _is_of_others(name: str, file: str) -> bool:
    """Whether Python or something installed has a module of this name, or one that is no file of the user's."""
    if name in sys.stdlib_module_names:
        return True
    there = sys.modules.get(name)
    if there is not None:
        return there is not _ours.get(name) and not _same_file(there, file)
    spec = PathFinder.find_spec(name)
    return spec is not None and spec.origin is not None and os.path.realpath(spec.origin) != os.path.realpath(file)


def _same_file(module: ModuleType, file: str) -> bool:
    own = getattr(module, "__file__", None)
    return own is not None and os.path.realpath(own) == os.path.realpath(file)


# --- source text --------------------------------------------------------------------------------------------------


def source_digest(module: ModuleType) -> str:
    """SHA-256 of the source text of a module and of the modules beside it that it imports, as they were imported.

    Raises SettingError for a file that has changed, if what was imported of it is not known.
    """
    try:
        texts = source_text.sources(module)
    except source_text.NoText as error:
        raise SettingError("plugins", module.__name__, str(error)) from None
    code = hashlib.sha256()
    for _, text in sorted(texts.items()):
        code.update(hashlib.sha256(text).digest())
    return code.hexdigest()


def _place(error: BaseException) -> str:
    """File and line at which importing a module failed."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}, line {error.lineno}"
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "?" if trace is None else f"{trace.tb_frame.f_code.co_filename}, line {trace.tb_lineno}"


def is_own(module_name: str, plugins: Iterable[str]) -> bool:
    """Whether a module is one of these plugins or lies in one."""
    return any(module_name == own or module_name.startswith(f"{own}.") for own in plugins)
