"""The user's own modules: imported from the current directory too, and named by their source text."""

import ast
import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from mqlearn.errors import SettingError
from mqlearn.paths import PACKAGE

_INSTALLED = ("site-packages", "dist-packages")


def load(names: Any) -> dict[str, ModuleType]:
    """Import the user's modules by name. Raises SettingError for what cannot be imported."""
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) and name for name in names):
        raise SettingError("plugins", names, "must be a list of names of modules: plugins=[my_module]")
    here = str(Path.cwd())
    if names and here not in sys.path:
        sys.path.insert(0, here)
    modules = {}
    for name in names:
        try:
            modules[name] = importlib.import_module(name)
        except Exception as error:
            where = "" if isinstance(error, ModuleNotFoundError) else f" at {_place(error)}"
            reason = f"{type(error).__name__}{where}: {error}"
            raise SettingError("plugins", name, f"cannot be imported; it is looked for in {here} ({reason})") from None
        if not getattr(modules[name], "__file__", None):
            raise SettingError("plugins", name, "is not a module with a source file")
    return modules


def source_digest(module: ModuleType) -> str:
    """SHA-256 of the source text of a module and of the modules beside it that it imports, at any depth.

    Beside it: in the folder of its file, or of its outermost package; of an installed one, in that package only.
    """
    code = hashlib.sha256()
    for file in sorted(_sources(module)):
        code.update(hashlib.sha256(file.read_bytes()).digest())
    return code.hexdigest()


def _sources(module: ModuleType) -> set[Path]:
    outermost = sys.modules[module.__name__.partition(".")[0]]
    file = Path(str(outermost.__file__)).resolve()
    place = file.parent.parent if file.name == "__init__.py" else file.parent
    if set(_INSTALLED) & set(place.parts):
        place = file.parent if file.name == "__init__.py" else file
    found: set[Path] = set()
    pending = [module]
    while pending:
        one = pending.pop()
        file = Path(getattr(one, "__file__", None) or "").resolve()
        own = file.suffix == ".py" and file.is_relative_to(place) and not file.is_relative_to(PACKAGE)
        if own and file not in found and not set(_INSTALLED) & set(file.relative_to(place).parts):
            found.add(file)
            pending += [sys.modules[name] for name in _imported(file, one) if name in sys.modules]
    return found


def _imported(file: Path, module: ModuleType) -> Iterator[str]:
    """Names of modules that a source file may import, its own packages included."""
    package = module.__name__ if file.name == "__init__.py" else module.__name__.rpartition(".")[0]
    names = [module.__name__]
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = importlib.util.resolve_name("." * node.level + (node.module or ""), package or None)
            names += [base, *(f"{base}.{alias.name}" for alias in node.names)]
    for name in names:
        parts = name.split(".")
        yield from (".".join(parts[:length]) for length in range(1, len(parts) + 1))


def _place(error: Exception) -> str:
    """File and line at which importing a module failed."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}, line {error.lineno}"
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "?" if trace is None else f"{trace.tb_frame.f_code.co_filename}, line {trace.tb_lineno}"


def is_own(module_name: str, plugins: Iterable[str]) -> bool:
    """Whether a module is mqlearn's or lies in one of the user's plugins."""
    return any(module_name == own or module_name.startswith(f"{own}.") for own in ("mqlearn", *plugins))
