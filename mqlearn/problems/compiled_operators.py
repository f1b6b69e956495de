"""An operator's formula over all states of exact tables: the one that kernels call, in a loop of its own."""

from typing import Any

import numpy as np

from mqlearn import formulas
from mqlearn.formulas import call_slopes, call_value
from mqlearn.jit import compiled
from mqlearn.problems.mdp import FiniteMDP


def values(mdp: FiniteMDP, operator: Any, q: np.ndarray) -> np.ndarray:
    """V (..., S) of tables q (..., S, A), 0 at terminal states."""
    tables = _tables(mdp, q)
    v = np.zeros((len(tables), mdp.n_states))
    _values(formulas.compiled(operator).value, tables, mdp.pair_offsets, v)
    return v.reshape((*q.shape[:-2], mdp.n_states))


def slopes(mdp: FiniteMDP, operator: Any, q: np.ndarray) -> np.ndarray:
    """(S, A): the derivative of V in the values of its own state, 0 at pairs not learned. q (S, A)."""
    (table,) = _tables(mdp, q)
    found = np.empty(len(table))
    _slopes(formulas.compiled(operator).slopes, table, mdp.pair_offsets, found)
    to = np.zeros(q.shape)
    to[mdp.learned] = found
    return to


def _tables(mdp: FiniteMDP, q: np.ndarray) -> np.ndarray:
    """(n, pairs): tables (..., S, A) as their learned pairs."""
    return np.ascontiguousarray(q[..., mdp.learned].reshape(-1, len(mdp.pairs)), dtype=np.float64)


@compiled
def _values(value, tables, offsets, v):
    for row in range(tables.shape[0]):
        for x in range(v.shape[1]):
            n = offsets[x + 1] - offsets[x]
            if n > 0:
                v[row, x] = call_value(value, tables[row], tables[row], np.uint64(offsets[x]), np.int64(n))


@compiled
def _slopes(slopes, table, offsets, found):
    for x in range(offsets.shape[0] - 1):
        n = offsets[x + 1] - offsets[x]
        if n > 0:
            call_slopes(slopes, table, found, np.uint64(offsets[x]), np.int64(n))
