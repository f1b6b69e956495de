"""What a `_target_` of ours may name: one table, public name -> where the object lies, by group of the configuration.

Nothing else of the package is called for a `_target_`, and nothing is imported before it is asked for. A setting of a
group that is made from a `_target_` itself, such as `step_size.base`, is of its group.
"""

import importlib
import sys
from collections.abc import Iterable
from typing import Any

from mqlearn.experiments.settings import earlier_versions


def _of(places: dict[str, Iterable[str]]) -> dict[str, str]:
    return {name: f"mqlearn.{module}.{name}" for module, names in places.items() for name in names}


_GRIDS = ("frozen_lake", "frozen_lake_random", "frozen_lake_blocks")
_CHAINS = ("azar_linear", "chain_walk", "chain_walk_walls", "combination_lock", "forest", "river_swim", "strens_chain",
           "two_state")  # fmt: skip
TARGETS: dict[str, dict[str, str]] = {
    "env": _of({
        "problems.environments.frozen_lake": _GRIDS,
        "problems.environments.gymnasium": ("by_id", "cliff_walking", "taxi"),
        "problems.classic.chains": _CHAINS,
        "problems.classic.graphs": ("lower_bound", "six_state"),
        "problems.classic.grids": ("deep_sea", "noisy_grid", "recurring_cliff"),
        "problems.classic.operations": ("gambler", "inventory", "machine", "queue"),
        "problems.classic.random_mdps": ("garnet", "garnet_fixed"),
        "problems.model_files": ("from_file",),
    }),
    "algorithm": _of({
        "algorithms.adam": ("Adam",),
        "algorithms.amsgrad": ("AMSGrad",),
        "algorithms.averaging_q": ("AveragingQ",),
        "algorithms.double_q": ("DoubleQ",),
        "algorithms.halpern": ("Halpern", "HalpernDirect"),
        "algorithms.momentum_q": ("MomentumQ",),
        "algorithms.momentum_q_linear": ("MomentumQLinear",),
        "algorithms.movi": ("MoVI",),
        "algorithms.nesa": ("NeSA",),
        "algorithms.nesterov": ("Nesterov",),
        "algorithms.periodic": ("Periodic",),
        "algorithms.phased": ("Phased",),
        "algorithms.pid": ("PID",),
        "algorithms.polsa": ("PolSA",),
        "algorithms.q_learning": ("QLearning",),
        "algorithms.residual": ("Residual",),
        "algorithms.root_sa": ("RootSA",),
        "algorithms.speedy_q": ("SpeedyQ", "SpeedyQPrinted"),
        "algorithms.variance_reduced": ("VarianceReduced",),
        "algorithms.zap": ("Zap",),
    }),
    "operator": _of({
        "algorithms.operators": (
            "Advantage", "Bellman", "Mellowmax", "Relative", "Relaxed", "Robust", "Soft", "Truncated",
        ),
    }),
    "step_size": _of({
        "algorithms.step_sizes": ("Constant", "Harmonic", "InverseSqrt", "Matched", "Polynomial", "RescaledLinear"),
    }),
    "sampling": _of({
        "learning.recorded": ("Recorded",),
        "learning.sampling": ("IID", "Markovian", "Replay", "Synchronous"),
    }),
    "features": _of({
        "problems.features": ("aggregation", "from_matrix", "one_hot", "tabular"),
        "problems.encodings": ("fourier", "rbf", "tile_coding"),
    }),
    "evaluation": _of({"learning.metrics": ("Evaluation",)}),
    "linear": _of({"learning.learners": ("Linear",)}),
}  # fmt: skip


def location(group: str, path: str) -> str | None:
    """Where the object that `path` names lies, by its public name or one of today or of before; None if it is none of
    the group's. Nothing is imported."""
    module, _, name = earlier_versions.present(path).rpartition(".")
    place = TARGETS.get(group.partition(".")[0], {}).get(name, "")
    return place if place.startswith(f"{module}.") and module.partition(".")[0] == "mqlearn" else None


def find(place: str) -> Any:
    """The object at a location of the table."""
    module, _, name = place.rpartition(".")
    return getattr(sys.modules.get(module) or importlib.import_module(module), name)
