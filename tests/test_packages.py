"""Which package may import which, without a circle and by short paths, and where the heavy libraries are imported."""

import ast
import functools
import graphlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from mqlearn.paths import PACKAGE

BASE = {
    "errors",
    "finding",
    "checks",
    "files",
    "paths",
    "jit",
    "formulas",
    "linear_solves",
    "rounding",
    "source_text",
}
# Package -> those that it may import from.
BELOW = {"algorithms": set(), "problems": set(), "storage": set()}
BELOW["kernels"] = {"algorithms", "problems"}
BELOW["sampling"] = {*BELOW["kernels"], "kernels"}
BELOW["theory"] = {*BELOW["kernels"], "sampling"}
BELOW["stateful"] = {*BELOW["kernels"], "kernels"}
BELOW["learners"] = {*BELOW["sampling"], "sampling", "stateful"}
BELOW["simulators"] = {*BELOW["learners"], "learners"}
BELOW["learning"] = {*BELOW["simulators"], "simulators"}
BELOW["experiments"] = {*BELOW["learning"], "learning", "theory", "storage"}
BELOW["analysis"] = {*BELOW["experiments"], "experiments"}
BELOW["suites"] = {*BELOW["analysis"], "analysis"}
BELOW["cli"] = {*BELOW["suites"], "suites"}
# Modules on the longest path of imports inside a package. Settings of experiments stand on each other as they are
# composed, built and named, and sweeps on all of that: command, launch, sweep, override_commands, compose, cell,
# identity, instantiate, targets, earlier_versions.
LONGEST = dict.fromkeys(BELOW, 8) | {"experiments": 10}
ONLY_IN = {
    "hydra": ("experiments",),
    "mlflow": ("storage",),
    "matplotlib": ("analysis/figures", "suites/leaderboard/figure"),
}


@functools.cache
def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


@functools.cache
def imports(file: Path) -> tuple[str, ...]:
    """The modules that a file imports, anywhere in it, by their full names."""
    return tuple(imported(ast.walk(parsed(file))))


def imported(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def name_of(file: Path) -> str:
    """The full name of a module; of a package, that of the folder."""
    parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = [file for file in sorted(PACKAGE.rglob("*.py")) if file.name != "__main__.py" and file.parent != PACKAGE]


def package(file: Path) -> str:
    return file.relative_to(PACKAGE).parts[0]


def test_there_are_fourteen_packages_and_few_base_modules():
    folders = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()}
    base = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__", "__main__"}
    assert folders == set(BELOW)
    assert base <= BASE and len(base) <= 10


@pytest.mark.parametrize("name", sorted(BELOW))
def test_a_package_imports_only_what_lies_below_it(name):
    may = {name, *BASE, *BELOW[name]}
    wrong = [
        f"{file.relative_to(PACKAGE)}: {module}"
        for file in FILES
        if package(file) == name
        for module in imports(file)
        if module.startswith("mqlearn.") and module.split(".")[1] not in may
    ]
    assert not wrong


def test_analysis_and_leaderboards_never_start_a_run():
    wrong = [
        f"{file.relative_to(PACKAGE)}: {module}"
        for file in FILES
        if file.relative_to(PACKAGE).as_posix().startswith(("analysis/", "suites/leaderboard/"))
        for module in imports(file)
        if module.startswith(
            (
                "mqlearn.experiments.execute",
                "mqlearn.experiments.run_missing",
                "mqlearn.suites.own",
                "mqlearn.suites.run_suite",
                "mqlearn.suites.trials",
                "mqlearn.experiments.sweep",
            )
        )
    ]
    assert not wrong


@pytest.mark.parametrize("library", sorted(ONLY_IN))
def test_a_heavy_library_is_imported_in_its_own_place_only(library):
    wrong = [
        str(file.relative_to(PACKAGE))
        for file in FILES
        if library in {module.partition(".")[0] for module in imports(file)}
        and not file.relative_to(PACKAGE).as_posix().startswith(ONLY_IN[library])
    ]
    assert not wrong


def test_no_modules_import_each_other_in_a_circle():
    """Imports within functions count too; what a package's __init__ names of its modules does not."""
    known = {".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts): file for file in FILES}
    graph = {name: {*imports(file)} | {one.rpartition(".")[0] for one in imports(file)} for name, file in known.items()}
    graphlib.TopologicalSorter({name: found & known.keys() - {name} for name, found in graph.items()}).prepare()


@pytest.mark.parametrize("name", sorted(BELOW))
def test_the_longest_path_of_imports_inside_a_package_is_short(name):
    """Of imports at the top of a module; those for type checkers alone stand in an `if`, and do not count."""
    modules = {name_of(file): file for file in FILES if package(file) == name}
    below = {}
    for module, file in modules.items():
        found = set(imported(parsed(file).body))
        # `from package import module` is of the module, `from module import name` of the module too
        below[module] = {one if one in modules else one.rpartition(".")[0] for one in found} & modules.keys() - {module}
    longest: dict[str, tuple[str, ...]] = {}
    for module in graphlib.TopologicalSorter(below).static_order():
        longest[module] = (module, *max((longest[one] for one in below[module]), key=len, default=()))
    path = max(longest.values(), key=len)
    assert len(path) <= LONGEST[name], " -> ".join(path)
