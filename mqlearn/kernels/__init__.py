"""Every compiled function: the inner loops of learning and of evaluation. Importing this imports numba.

random        counter-based random words, and the streams of a seed
synchronous   all pairs in every iteration
all_pairs_together  several rules in one loop over the same samples of all pairs
successors    what rules with state of their own learn from: all pairs of one seed, second and further successors
chain         sampling chains: one sample an iteration, with replay or without
asynchronous  tables that move at the visited pair, or in rounds
operators     targets of operators other than Bellman's
momentum      linear features with momentum in O(active features): plan, and one iteration
linear        loops over it on a model, and the dense twin with a projection
together      four rules without momentum in one loop over the same samples
simulated     the same from transitions of Gymnasium
evaluation    returns of greedy policies
exact         their values and expected returns, and Bellman errors
undiscounted  their values without a discount
powers        their expected returns and success probabilities for many states
counting      counts of what was sampled, and exact plans on them
lanes         eight seeds as one value, for the loops over seeds

A *lane* is one seed of a run. The numbers of a lane depend on no other lane. All files share one stamp (`mqlearn.jit`):
an edit of any of them compiles all anew.
"""

from mqlearn.jit import telling as telling  # of what is being compiled
from mqlearn.kernels.all_pairs_together import synchronous_together
from mqlearn.kernels.asynchronous import (
    Rounds,
    Tables,
    asynchronous_rounds,
    asynchronous_table,
    table_from_samples,
)
from mqlearn.kernels.chain import (
    EPSILON_GREEDY,
    IID,
    MARKOVIAN,
    REPLAY,
    TABLE,
    UNIFORM,
    ChainTables,
    Model,
    Walks,
    sample_greedily,
    samples,
)
from mqlearn.kernels.counting import count_samples, count_sweeps, first_draws, plans
from mqlearn.kernels.evaluation import Drawn, Episodes, greedy_returns
from mqlearn.kernels.exact import Expectations, bellman_errors, expected_returns, policy_values
from mqlearn.kernels.linear import linear_adaptive, linear_dense, linear_from_samples
from mqlearn.kernels.momentum import Features, Options, Parameters
from mqlearn.kernels.operators import Operator
from mqlearn.kernels.powers import returns_of_many, successes
from mqlearn.kernels.random import CHUNK, STREAMS, ChainStreams, lane_words, philox_counters
from mqlearn.kernels.simulated import momentum_plan, simulated_linear
from mqlearn.kernels.successors import SweepModel, further_successors, sweep_once
from mqlearn.kernels.synchronous import AllPairs, synchronous
from mqlearn.kernels.together import linear_together
from mqlearn.kernels.undiscounted import undiscounted_values

__all__ = [
    "CHUNK",
    "EPSILON_GREEDY",
    "IID",
    "MARKOVIAN",
    "REPLAY",
    "STREAMS",
    "TABLE",
    "UNIFORM",
    "AllPairs",
    "ChainStreams",
    "ChainTables",
    "Drawn",
    "Episodes",
    "Expectations",
    "Features",
    "Model",
    "Operator",
    "Options",
    "Parameters",
    "Rounds",
    "SweepModel",
    "Tables",
    "Walks",
    "asynchronous_rounds",
    "asynchronous_table",
    "bellman_errors",
    "count_samples",
    "count_sweeps",
    "expected_returns",
    "first_draws",
    "further_successors",
    "greedy_returns",
    "lane_words",
    "linear_adaptive",
    "linear_dense",
    "linear_from_samples",
    "linear_together",
    "momentum_plan",
    "philox_counters",
    "plans",
    "policy_values",
    "returns_of_many",
    "sample_greedily",
    "samples",
    "simulated_linear",
    "successes",
    "sweep_once",
    "synchronous",
    "synchronous_together",
    "table_from_samples",
    "undiscounted_values",
]
