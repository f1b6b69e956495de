"""mqlearn: a bench on which Q-learning rules are compared against the exact optimum."""

from typing import TYPE_CHECKING, Any

from mqlearn.algorithms import MomentumQ, NeSA, QLearning, Rule, SpeedyQ
from mqlearn.algorithms.step_sizes import Constant, Harmonic, InverseSqrt, Matched, Polynomial, RescaledLinear
from mqlearn.errors import SettingError
from mqlearn.learning.learners import Linear
from mqlearn.learning.loop import Result, run, run_together
from mqlearn.learning.metrics import Evaluation
from mqlearn.learning.sampling import IID, Markovian, Replay, Synchronous
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
from mqlearn.problems.solvers import optimal

if TYPE_CHECKING:
    from mqlearn.analysis.library import compare, load

__all__ = [
    "IID",
    "Constant",
    "Evaluation",
    "Features",
    "FiniteMDP",
    "Harmonic",
    "InverseSqrt",
    "Linear",
    "Markovian",
    "Matched",
    "MomentumQ",
    "NeSA",
    "Polynomial",
    "QLearning",
    "Replay",
    "RescaledLinear",
    "Result",
    "Rule",
    "SettingError",
    "SpeedyQ",
    "Synchronous",
    "aggregation",
    "cliff_walking",
    "compare",
    "fourier",
    "from_function",
    "from_gymnasium",
    "from_matrix",
    "frozen_lake",
    "frozen_lake_blocks",
    "frozen_lake_random",
    "load",
    "one_hot",
    "optimal",
    "rbf",
    "run",
    "run_together",
    "simulator",
    "taxi",
    "tile_coding",
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
