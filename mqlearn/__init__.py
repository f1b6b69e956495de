"""mqlearn: a bench on which Q-learning rules are compared against the exact optimum."""

from typing import TYPE_CHECKING, Any

from mqlearn.algorithms import (
    PID,
    Adam,
    AMSGrad,
    AveragingQ,
    DoubleQ,
    Halpern,
    HalpernDirect,
    MomentumQ,
    MomentumQLinear,
    MoVI,
    NeSA,
    Nesterov,
    Periodic,
    Phased,
    PolSA,
    QLearning,
    Residual,
    RootSA,
    Rule,
    SpeedyQ,
    Stateful,
    VarianceReduced,
    Zap,
    averaged,
    minibatch,
)
from mqlearn.algorithms.step_sizes import Constant, Harmonic, InverseSqrt, Matched, Polynomial, RescaledLinear
from mqlearn.errors import SettingError
from mqlearn.experiments.settings import old_names
from mqlearn.learning.learners import Linear
from mqlearn.learning.loop import Result, run, run_together
from mqlearn.learning.metrics import Evaluation
from mqlearn.learning.recorded import Recorded
from mqlearn.learning.sampling import IID, Markovian, Replay, Synchronous
from mqlearn.linear_solves import solve, times
from mqlearn.problems.arrays import from_arrays
from mqlearn.problems.classic import (
    azar_linear,
    chain_walk,
    chain_walk_walls,
    combination_lock,
    deep_sea,
    forest,
    gambler,
    garnet,
    garnet_fixed,
    inventory,
    lower_bound,
    machine,
    noisy_grid,
    queue,
    recurring_cliff,
    river_swim,
    six_state,
    strens_chain,
    two_state,
)
from mqlearn.problems.encodings import fourier, rbf, tile_coding
from mqlearn.problems.environments import (
    cliff_walking,
    from_gymnasium,
    frozen_lake,
    frozen_lake_blocks,
    frozen_lake_random,
    simulator,
    taxi,
)
from mqlearn.problems.features import Features, aggregation, from_function, from_matrix, one_hot
from mqlearn.problems.mdp import FiniteMDP
from mqlearn.problems.model_files import from_file
from mqlearn.problems.solvers import optimal

old_names.let_import()

if TYPE_CHECKING:
    from mqlearn.analysis.library import compare, load

__all__ = [
    "IID",
    "PID",
    "AMSGrad",
    "Adam",
    "AveragingQ",
    "Constant",
    "DoubleQ",
    "Evaluation",
    "Features",
    "FiniteMDP",
    "Halpern",
    "HalpernDirect",
    "Harmonic",
    "InverseSqrt",
    "Linear",
    "Markovian",
    "Matched",
    "MoVI",
    "MomentumQ",
    "MomentumQLinear",
    "NeSA",
    "Nesterov",
    "Periodic",
    "Phased",
    "PolSA",
    "Polynomial",
    "QLearning",
    "Recorded",
    "Replay",
    "RescaledLinear",
    "Residual",
    "Result",
    "RootSA",
    "Rule",
    "SettingError",
    "SpeedyQ",
    "Stateful",
    "Synchronous",
    "VarianceReduced",
    "Zap",
    "aggregation",
    "averaged",
    "azar_linear",
    "chain_walk",
    "chain_walk_walls",
    "cliff_walking",
    "combination_lock",
    "compare",
    "deep_sea",
    "forest",
    "fourier",
    "from_arrays",
    "from_file",
    "from_function",
    "from_gymnasium",
    "from_matrix",
    "frozen_lake",
    "frozen_lake_blocks",
    "frozen_lake_random",
    "gambler",
    "garnet",
    "garnet_fixed",
    "inventory",
    "load",
    "lower_bound",
    "machine",
    "minibatch",
    "noisy_grid",
    "one_hot",
    "optimal",
    "queue",
    "rbf",
    "recurring_cliff",
    "river_swim",
    "run",
    "run_together",
    "simulator",
    "six_state",
    "solve",
    "strens_chain",
    "taxi",
    "tile_coding",
    "times",
    "two_state",
]


def __getattr__(name: str) -> Any:
    """What reads finished runs, imported at its first use."""
    if name not in ("load", "compare"):
        raise AttributeError(f"module 'mqlearn' has no attribute {name!r}")
    from mqlearn.analysis import library

    return getattr(library, name)


def _plot(self: Result, metric: str | None = None) -> Any:
    """A Matplotlib figure: mean and 95 % interval of a metric, by default the first, against the iteration."""
    from mqlearn.analysis.figures import quick

    return quick.plot(self.iteration, self.curves, metric)


Result.plot = _plot
