"""The plan of the house: which room may import which, and where the heavy libraries are imported."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqlearn.paths import PACKAGE

GROUND = {
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
BELOW = {
    "algorithms": set(),
    "problems": set(),
    "learning": {"algorithms", "problems"},
    "theory": {"algorithms", "problems"},
    "storage": set(),
    "experiments": {"algorithms", "problems", "learning", "theory", "storage"},
    "analysis": {"algorithms", "problems", "learning", "theory", "storage", "experiments"},
    "cli": {"algorithms", "problems", "learning", "theory", "storage", "experiments", "analysis"},
}
ONLY_IN = {
    "hydra": ("experiments",),
    "mlflow": ("storage",),
    "matplotlib": ("analysis/figures",),
}


def imports(file: Path) -> Iterator[str]:
    """The modules that a file imports, anywhere in it, by their full names."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


FILES = [file for file in sorted(PACKAGE.rglob("*.py")) if file.name != "__main__.py" and file.parent != PACKAGE]


def room(file: Path) -> str:
    return file.relative_to(PACKAGE).parts[0]


def test_the_house_has_eight_rooms_and_few_ground_files():
    folders = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()}
    ground = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__", "__main__"}
    assert folders == set(BELOW)
    assert ground <= GROUND and len(ground) <= 10


@pytest.mark.parametrize("name", sorted(BELOW))
def test_a_room_imports_only_what_lies_below_it(name):
    may = {name, *GROUND, *BELOW[name]}
    wrong = [
        f"{file.relative_to(PACKAGE)}: {module}"
        for file in FILES
        if room(file) == name
        for module in imports(file)
        if module.startswith("mqlearn.") and module.split(".")[1] not in may
    ]
    assert not wrong


def test_analysis_never_starts_a_run():
    wrong = [
        f"{file.relative_to(PACKAGE)}: {module}"
        for file in FILES
        if room(file) == "analysis"
        for module in imports(file)
        if module.startswith(
            (
                "mqlearn.experiments.execute",
                "mqlearn.experiments.run_missing",
                "mqlearn.experiments.suite.own",
                "mqlearn.experiments.suite.run_suite",
                "mqlearn.experiments.suite.trials",
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
