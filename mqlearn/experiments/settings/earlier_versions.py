"""What earlier versions wrote, and what it means now: in records, in users' yaml files, and in imports.

Dotted names that have moved (`_target_`, `metrics`, `figure.module`, imports), objects that took the place of others,
groups and settings that came later. Finished runs of every version stay readable. How long a name or a setting that
goes is kept beside its successor, and what is said meanwhile, stands in CHANGELOG.md.
"""

import importlib
import sys
from collections.abc import Mapping
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from mqlearn.errors import SettingError
from mqlearn.finding import Finding, unused

# A module or a whole dotted name -> its present one; the longest that fits counts.
PRESENT: dict[str, str] = {
    "mqlearn.algorithms.base": "mqlearn.algorithms.rule",
    "mqlearn.analysis.figures.leaderboard": "mqlearn.suites.leaderboard.figure",
    "mqlearn.analysis.leaderboard": "mqlearn.suites.leaderboard",
    "mqlearn.claims": "mqlearn.analysis.claims",
    "mqlearn.encodings": "mqlearn.problems.encodings",
    "mqlearn.environments": "mqlearn.problems.environments",
    "mqlearn.experiment": "mqlearn.learning.loop",
    "mqlearn.experiments.circumstances": "mqlearn.experiments.provenance",
    "mqlearn.experiments.presentation.shown": "mqlearn.experiments.presentation.mlflow_view",
    "mqlearn.experiments.settings.recipes": "mqlearn.experiments.settings.override_commands",
    "mqlearn.experiments.settings.refusals": "mqlearn.experiments.settings.hydra_errors",
    "mqlearn.experiments.suite": "mqlearn.suites",
    "mqlearn.features": "mqlearn.problems.features",
    "mqlearn.figures": "mqlearn.analysis.figures",
    "mqlearn.fixed_points": "mqlearn.problems.fixed_points",
    "mqlearn.learning.advice": "mqlearn.learning.run_warnings",
    "mqlearn.learning.assembly": "mqlearn.learning.run_state",
    "mqlearn.learning.chains": "mqlearn.sampling.chains",
    "mqlearn.learning.draw_tables": "mqlearn.sampling.tables",
    "mqlearn.learning.findings": "mqlearn.learning.diagnostics",
    "mqlearn.learning.initial": "mqlearn.learners.initial",
    "mqlearn.learning.kernels": "mqlearn.kernels",
    "mqlearn.learning.learners": "mqlearn.learners",
    "mqlearn.learning.metrics.Evaluation": "mqlearn.sampling.evaluation.Evaluation",
    "mqlearn.learning.operator_check": "mqlearn.learners.operator_check",
    "mqlearn.learning.operators": "mqlearn.learners.operators",
    "mqlearn.learning.recorded": "mqlearn.sampling.recorded",
    "mqlearn.learning.sample_numbers": "mqlearn.sampling.sample_numbers",
    "mqlearn.learning.sampling": "mqlearn.sampling.modes",
    "mqlearn.learning.sampling_check": "mqlearn.sampling.check",
    "mqlearn.learning.sampling_protocol": "mqlearn.sampling.protocol",
    "mqlearn.learning.sampling_tables": "mqlearn.sampling.tables",
    "mqlearn.learning.simulation": "mqlearn.simulators.linear",
    "mqlearn.learning.sources": "mqlearn.learners.sources",
    "mqlearn.learning.stateful": "mqlearn.stateful",
    "mqlearn.learning.stateful.learners": "mqlearn.learners.stateful",
    "mqlearn.learning.stateful.plain": "mqlearn.stateful.reference",
    "mqlearn.learning.stateful.simulated": "mqlearn.simulators.stateful",
    "mqlearn.learning.stateful.sweeps": "mqlearn.learners.stateful_sweeps",
    "mqlearn.learning.transitions": "mqlearn.sampling.transitions",
    "mqlearn.learning.without_model": "mqlearn.simulators.measure",
    "mqlearn.mdp": "mqlearn.problems.mdp",
    "mqlearn.metrics": "mqlearn.learning.metrics",
    "mqlearn.metrics.Evaluation": "mqlearn.sampling.evaluation.Evaluation",
    "mqlearn.power": "mqlearn.analysis.statistics.power",
    "mqlearn.problems.prospects": "mqlearn.problems.attainable_values",
    "mqlearn.runs": "mqlearn.storage.runs",
    "mqlearn.significance": "mqlearn.analysis.statistics.significance",
    "mqlearn.simulation": "mqlearn.simulators.linear",
    "mqlearn.solvers": "mqlearn.problems.solvers",
    "mqlearn.statistics": "mqlearn.analysis.statistics.intervals",
    "mqlearn.step_sizes": "mqlearn.algorithms.step_sizes",
    "mqlearn.storage.content": "mqlearn.storage.mlflow_payload",
    "mqlearn.storage.shapes": "mqlearn.storage.record_schema",
    "mqlearn.survival": "mqlearn.analysis.statistics.survival",
    "mqlearn.tracking": "mqlearn.storage.tracking",
    "mqlearn.verdict": "mqlearn.analysis.comparison",
}
# Settings that came after digests of version 2, with the value that stands for what was done before. They are no part
# of an identity while they have it: {"operator": "max", "algorithm.averaged": False}.
ADDED: dict[str, Any] = {
    "algorithm.averaged": False,
    "algorithm.batch": 1,
    "algorithm.burn_in": 0.0,
    "algorithm.clip": None,
    "algorithm.gains": "pair",
    "algorithm.refactor": 0,
    "env.bets": "alike",
    "env.estimate": None,
    "env.noise": 0.0,
    "env.start_distribution": None,
    "env.stay": 0.0,
    "env.tied": True,
    "evaluation.draws": "fixed",
    "operator": {"_target_": "mqlearn.Bellman"},
    "sampling.passes": 1,
    "sampling.power": 0.5,
    "sampling.resample": "none",
    "sampling.temperature": 1,
    "step_size.base.cap": None,
    "step_size.cap": None,
}
# Groups that came later, as they stand for what was done before.
_LATER = {"operator": {"_target_": "mqlearn.Bellman", "name": "bellman"}}
_CLOCKED = ("mqlearn.IID", "mqlearn.Markovian", "mqlearn.Recorded", "mqlearn.Replay")  # which clock=auto came to later
_FROM_FILE = ("mqlearn.from_file", "mqlearn.problems.model_files.from_file")
_SECOND = {"beta": None, "lam": 0.999, "phi": 0.5}  # settings of Algorithm 2, which MomentumQ once took
_MOMENTUM_Q = ("mqlearn.MomentumQ", "mqlearn.algorithms.MomentumQ", "mqlearn.algorithms.momentum_q.MomentumQ")
_ZAP = ("mqlearn.Zap", "mqlearn.algorithms.Zap", "mqlearn.algorithms.zap.Zap")


def present(path: str) -> str:
    """The dotted name by which the object called `path` is found now."""
    head, tail = path, ""
    while head:
        if head in PRESENT:
            return PRESENT[head] + tail
        head, dot, last = head.rpartition(".")
        tail = f"{dot}{last}{tail}"
    return path


def public_name(path: str) -> str:
    """The name of an object in a digest: without the module, if it is ours."""
    path = present(path)
    return f"mqlearn.{path.rpartition('.')[2]}" if path.startswith("mqlearn.") else path


def complete(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a record of any version with all groups of today."""
    return {**_LATER, **settings}


def of_record(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a record, with what was meant by a setting that it lacks where the default is another today."""
    sampling = settings.get("sampling")
    if not isinstance(sampling, Mapping) or public_name(str(sampling.get("_target_"))) not in _CLOCKED:
        return dict(settings)
    return {**settings, "sampling": before_auto(sampling)}


def before_auto(sampling: Mapping[str, Any]) -> dict[str, Any]:
    """Sampling of a record: one without a clock was made when iterations were counted."""
    return {**sampling, "clock": "global"} if sampling.get("clock", "auto") == "auto" else dict(sampling)


def successor(node: Mapping[str, Any]) -> dict[str, Any]:
    """A group's node by the object that does now what it says: MomentumQ with a beta is `MomentumQLinear`.

    The arrays of a recorded file without `axes` had the one order that there was, and Zap without `refactor` solved a
    system in each step.
    """
    if present(str(node["_target_"])) in _ZAP:
        return {"refactor": 0} | dict(node)
    if present(str(node["_target_"])) in _FROM_FILE and node.get("content") is not None:
        return {"axes": "xuy"} | dict(node)
    if not _SECOND.keys() & node.keys() or present(str(node["_target_"])) not in _MOMENTUM_Q:
        return dict(node)
    rest = {key: value for key, value in node.items() if key not in _SECOND}
    if node.get("beta") is None:
        return rest
    if rest.get("m") is not None:
        expected = "belongs to Algorithm 1, beta to Algorithm 2; give one of them"
        raise SettingError("algorithm.m", rest["m"], expected)
    rest = {key: value for key, value in rest.items() if key not in ("m", "shift")}
    return {**rest, "_target_": "mqlearn.MomentumQLinear", **{key: node.get(key, _SECOND[key]) for key in _SECOND}}


def without_effect(node: Any) -> list[Finding]:
    """For each setting of a group's node that its `successor` leaves out, and that is not its default."""
    if not isinstance(node, Mapping) or present(str(node.get("_target_"))) not in _MOMENTUM_Q:
        return []
    if node.get("beta") is None:
        plain, reason = _SECOND, "beta is null, which is Algorithm 1"
    else:
        plain, reason = {"shift": "auto"}, "with a beta it is Algorithm 2"
    return unused("algorithm", node, plain, reason)


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
