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
    forest,
    river_swim,
    strens_chain,
    two_state,
)
from mqlearn.problems.classic.graphs import lower_bound, six_state
from mqlearn.problems.classic.grids import deep_sea, noisy_grid, recurring_cliff
from mqlearn.problems.classic.operations import gambler, inventory, machine, queue
from mqlearn.problems.classic.random_mdps import garnet, garnet_fixed

__all__ = [
    "azar_linear",
    "chain_walk",
    "chain_walk_walls",
    "combination_lock",
    "deep_sea",
    "forest",
    "gambler",
    "garnet",
    "garnet_fixed",
    "inventory",
    "lower_bound",
    "machine",
    "noisy_grid",
    "queue",
    "recurring_cliff",
    "river_swim",
    "six_state",
    "strens_chain",
    "two_state",
]
