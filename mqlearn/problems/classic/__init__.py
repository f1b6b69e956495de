"""The small problems of the field, written out, each with values of V* that are known.

Each is a function of its sizes and its discount, whose default is the usual one, and a yaml of the same name. Where the
literature has dialects, the dialect is a setting and part of the model's name. A terminal state that is no state of the
source comes last. Values, not policies, are what to compare where optimal actions tie.
"""

from mqlearn.problems.classic.chains import (
    azar_linear,
    chain_walk,
    chain_walk_walls,
    combination_lock,
    double_chain,
    forest,
    river_swim,
    strens_chain,
    two_state,
)
from mqlearn.problems.classic.graphs import lower_bound, six_state
from mqlearn.problems.classic.grids import deep_sea, noisy_grid, recurring_cliff, slip_grid, windy_grid
from mqlearn.problems.classic.operations import gambler, inventory, machine, queue
from mqlearn.problems.classic.random_mdps import dense_random, garnet, garnet_fixed
from mqlearn.problems.classic.small import bias, cone, estimation_bias, one_state, roulette, truncation_example

__all__ = [
    "azar_linear",
    "bias",
    "chain_walk",
    "chain_walk_walls",
    "combination_lock",
    "cone",
    "deep_sea",
    "dense_random",
    "double_chain",
    "estimation_bias",
    "forest",
    "gambler",
    "garnet",
    "garnet_fixed",
    "inventory",
    "lower_bound",
    "machine",
    "noisy_grid",
    "one_state",
    "queue",
    "recurring_cliff",
    "river_swim",
    "roulette",
    "six_state",
    "slip_grid",
    "strens_chain",
    "truncation_example",
    "two_state",
    "windy_grid",
]
