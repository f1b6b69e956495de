"""Dotted names of before, and what they are now, for records, users' yaml files, and imports.

A record or a yaml may hold them (`_target_`, `metrics`, `figure.module`), and a script may import them: all go through
this one table.
"""

import importlib
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

# A module or a whole dotted name -> its present one; the longest that fits counts.
PRESENT: dict[str, str] = {
    "mqlearn.algorithms.base": "mqlearn.algorithms.rule",
    "mqlearn.claims": "mqlearn.analysis.claims",
    "mqlearn.encodings": "mqlearn.problems.encodings",
    "mqlearn.environments": "mqlearn.problems.environments",
    "mqlearn.experiment": "mqlearn.learning.loop",
    "mqlearn.features": "mqlearn.problems.features",
    "mqlearn.figures": "mqlearn.analysis.figures",
    "mqlearn.fixed_points": "mqlearn.problems.fixed_points",
    "mqlearn.learners": "mqlearn.learning.learners",
    "mqlearn.mdp": "mqlearn.problems.mdp",
    "mqlearn.metrics": "mqlearn.learning.metrics",
    "mqlearn.power": "mqlearn.analysis.statistics.power",
    "mqlearn.runs": "mqlearn.storage.runs",
    "mqlearn.sampling": "mqlearn.learning.sampling",
    "mqlearn.significance": "mqlearn.analysis.statistics.significance",
    "mqlearn.simulation": "mqlearn.learning.simulation",
    "mqlearn.solvers": "mqlearn.problems.solvers",
    "mqlearn.statistics": "mqlearn.analysis.statistics.intervals",
    "mqlearn.step_sizes": "mqlearn.algorithms.step_sizes",
    "mqlearn.survival": "mqlearn.analysis.statistics.survival",
    "mqlearn.tracking": "mqlearn.storage.tracking",
    "mqlearn.verdict": "mqlearn.analysis.comparison",
}


def present(path: str) -> str:
    """The dotted name by which the object called `path` is found now."""
    head, tail = path, ""
    while head:
        if head in PRESENT:
            return PRESENT[head] + tail
        head, dot, last = head.rpartition(".")
        tail = f"{dot}{last}{tail}"
    return path


class _OldModules(MetaPathFinder, Loader):
    """Imports a module of before as the present one: one module under two names, never a second copy of it."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if not fullname.startswith("mqlearn.") or present(fullname) == fullname:
            return None
        return ModuleSpec(fullname, self)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(present(spec.name))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None  # the import has set it to that of the old name
        module.__spec__ = module.__spec__.loader_state


def let_import() -> None:
    """Let modules of before be imported. It comes first: a package of before would find its modules a second time."""
    sys.meta_path.insert(0, _OldModules())
