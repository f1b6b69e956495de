"""mqlearn: a bench on which Q-learning rules are compared against the exact optimum.

The public names are imported at their first use: so the command line starts at once, and says how many threads NumPy
may take before NumPy is there. What ships as a choice of conf/ is public without a line here: the lists below tell type
checkers its type.
"""

from typing import TYPE_CHECKING, Any

from mqlearn import source_text
from mqlearn.experiments.settings import earlier_versions, targets

if TYPE_CHECKING:
    from mqlearn.algorithms import (
        PID,
        Adam,
        AMSGrad,
        AveragingQ,
        CertaintyEquivalence,
        DoubleQ,
        ExpectedSarsa,
        Halpern,
        HalpernDirect,
        Maxmin,
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
        Sarsa,
        SpeedyQ,
        SpeedyQPrinted,
        Stateful,
        TwoStep,
        VarianceReduced,
        WeightedQ,
        Zap,
        averaged,
        clipped,
        minibatch,
        solve,
        times,
    )
    from mqlearn.algorithms.operators import (
        Advantage,
        Bellman,
        Boltzmann,
        Expected,
        Mellowmax,
        Numbers,
        Operator,
        Relative,
        Relaxed,
        Robust,
        Soft,
        Truncated,
    )
    from mqlearn.algorithms.step_sizes import (
        Constant,
        Harmonic,
        InverseSqrt,
        Matched,
        Polynomial,
        RescaledLinear,
        Switched,
        ToZero,
    )
    from mqlearn.analysis.decisions.decide import decide
    from mqlearn.analysis.library import Comparison, Runs, compare, load
    from mqlearn.analysis.result_files import read
    from mqlearn.cli.library import bench
    from mqlearn.cli.sweep_in_memory import sweep
    from mqlearn.errors import SettingError
    from mqlearn.learners import Linear
    from mqlearn.learning.asked_metrics import (
        first_action_greedy,
        first_at_start,
        largest_at_start,
        q_bias,
        reward_a_step,
        span_error,
    )
    from mqlearn.learning.loop import Result, run, run_together
    from mqlearn.learning.metrics import v_error_l2
    from mqlearn.problems.arrays import from_arrays
    from mqlearn.problems.classic import (
        azar_linear,
        bias,
        chain_walk,
        chain_walk_walls,
        combination_lock,
        cone,
        deep_sea,
        dense_random,
        double_chain,
        estimation_bias,
        forest,
        gambler,
        garnet,
        garnet_fixed,
        inventory,
        lower_bound,
        machine,
        noisy_grid,
        one_state,
        queue,
        recurring_cliff,
        river_swim,
        roulette,
        six_state,
        slip_grid,
        strens_chain,
        truncation_example,
        two_state,
        windy_grid,
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
    from mqlearn.problems.feature_rows import Features
    from mqlearn.problems.features import aggregation, from_function, from_matrix, mean_reward, one_hot
    from mqlearn.problems.mdp import FiniteMDP
    from mqlearn.problems.model_files import from_file
    from mqlearn.problems.solvers import optimal
    from mqlearn.sampling.evaluation import Evaluation
    from mqlearn.sampling.modes import IID, Markovian, Pairs, Replay, Sampling, Synchronous
    from mqlearn.sampling.recorded import Recorded

__all__ = [
    "IID",
    "PID",
    "AMSGrad",
    "Adam",
    "Advantage",
    "AveragingQ",
    "Bellman",
    "Boltzmann",
    "CertaintyEquivalence",
    "Comparison",
    "Constant",
    "DoubleQ",
    "Evaluation",
    "Expected",
    "ExpectedSarsa",
    "Features",
    "FiniteMDP",
    "Halpern",
    "HalpernDirect",
    "Harmonic",
    "InverseSqrt",
    "Linear",
    "Markovian",
    "Matched",
    "Maxmin",
    "Mellowmax",
    "MoVI",
    "MomentumQ",
    "MomentumQLinear",
    "NeSA",
    "Nesterov",
    "Numbers",
    "Operator",
    "Pairs",
    "Periodic",
    "Phased",
    "PolSA",
    "Polynomial",
    "QLearning",
    "Recorded",
    "Relative",
    "Relaxed",
    "Replay",
    "RescaledLinear",
    "Residual",
    "Result",
    "Robust",
    "RootSA",
    "Rule",
    "Runs",
    "Sampling",
    "Sarsa",
    "SettingError",
    "Soft",
    "SpeedyQ",
    "SpeedyQPrinted",
    "Stateful",
    "Switched",
    "Synchronous",
    "ToZero",
    "Truncated",
    "TwoStep",
    "VarianceReduced",
    "WeightedQ",
    "Zap",
    "aggregation",
    "averaged",
    "azar_linear",
    "bench",
    "bias",
    "chain_walk",
    "chain_walk_walls",
    "cliff_walking",
    "clipped",
    "combination_lock",
    "compare",
    "cone",
    "decide",
    "deep_sea",
    "dense_random",
    "double_chain",
    "estimation_bias",
    "first_action_greedy",
    "first_at_start",
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
    "largest_at_start",
    "load",
    "lower_bound",
    "machine",
    "mean_reward",
    "minibatch",
    "noisy_grid",
    "one_hot",
    "one_state",
    "optimal",
    "q_bias",
    "queue",
    "rbf",
    "read",
    "recurring_cliff",
    "reward_a_step",
    "river_swim",
    "roulette",
    "run",
    "run_together",
    "simulator",
    "six_state",
    "slip_grid",
    "solve",
    "span_error",
    "strens_chain",
    "sweep",
    "taxi",
    "tile_coding",
    "times",
    "truncation_example",
    "two_state",
    "v_error_l2",
    "windy_grid",
]

# Public name -> the module of ours that has it; names of what ships as a choice of conf/: `targets`.
_PLACES = {
    name: f"mqlearn.{module}"
    for module, names in {
        "algorithms": "Rule Stateful averaged clipped minibatch solve times",
        "algorithms.operators": "Numbers Operator",
        "analysis.library": "Comparison Runs compare load",
        "analysis.result_files": "read",
        "analysis.decisions.decide": "decide",
        "cli.library": "bench",
        "cli.sweep_in_memory": "sweep",
        "errors": "SettingError",
        "learning.loop": "Result run run_together",
        "sampling.modes": "Sampling",
        "problems.arrays": "from_arrays",
        "problems.environments": "from_gymnasium simulator",
        "problems.feature_rows": "Features",
        "problems.features": "from_function",
        "problems.mdp": "FiniteMDP",
        "problems.solvers": "optimal",
    }.items()
    for name in names.split()
}

earlier_versions.let_import()
source_text.watch()


def __getattr__(name: str) -> Any:
    """A public name, kept from its first use on: of the table, or of what ships."""
    place = f"{_PLACES[name]}.{name}" if name in _PLACES else None if name.startswith("_") else targets.public(name)
    if place is None:
        raise AttributeError(f"module 'mqlearn' has no attribute {name!r}")
    value = globals()[name] = targets.find(place)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *targets.names()})
