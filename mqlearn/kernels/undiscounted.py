"""Undiscounted values of greedy policies, some of which never end.

As `exact.policy_values`, but that I - P is singular where a policy may go on for ever. Such states are found by their
moves and left out. What they are worth is -inf: problems with a discount of 1 have it so (`mqlearn.problems.endings`).
"""

import numpy as np

from mqlearn.jit import compiled
from mqlearn.kernels.exact import _STEP, _assemble, _envelope, _greedy_shares, _solve
from mqlearn.kernels.lanes import EIGHT, aligned


@compiled
def undiscounted_values(q, model):
    """(L,): value at the start of the greedy policies of tables q (L, pairs), uniform among equal best actions; -inf of
    one that may go on for ever from a first state."""
    n_states = model.offsets.shape[0] - 1
    low, high = _envelope(model)
    shares, endless = aligned(q.shape[1] * EIGHT), np.empty(n_states, np.uint8)
    system, v = aligned(n_states * n_states * EIGHT), aligned(n_states * EIGHT)
    values = np.zeros(q.shape[0])
    for begin in range(0, q.shape[0], EIGHT):
        end = min(begin + EIGHT, q.shape[0])
        _greedy_shares(q[begin:end], model.offsets, shares)
        for lane in range(end - begin):
            _mark_endless(endless, shares, lane, model)
            for x in range(n_states):
                if endless[x] != 0:
                    if model.start[x] > 0.0:
                        values[begin + lane] = -np.inf
                    for pair in range(model.offsets[x], model.offsets[x + 1]):
                        shares[pair * _STEP + np.uint64(lane)] = 0.0
        _assemble(system, v, shares, model, low, high)
        _solve(system, v, low, high)
        for lane in range(end - begin):
            for x in range(n_states):
                values[begin + lane] += model.start[x] * v[x * EIGHT + lane]
    return values


@compiled
def _mark_endless(endless, shares, lane, model):
    """Marks (states,) uint8 of what a policy may go on from for ever: what does not come to an end, and what leads to
    that."""
    for x in range(endless.shape[0]):
        endless[x] = model.offsets[x] < model.offsets[x + 1]
    _spread(endless, np.uint8(0), shares, lane, model)
    _spread(endless, np.uint8(1), shares, lane, model)


@compiled
def _spread(endless, mark, shares, lane, model):
    """Give a mark to all states from which a policy may come to one that has it."""
    changed = True
    while changed:
        changed = False
        for back in range(endless.shape[0]):
            x = endless.shape[0] - 1 - back
            if endless[x] != mark and _may_come_to(endless, mark, shares, lane, model, x):
                endless[x] = mark
                changed = True


@compiled
def _may_come_to(endless, mark, shares, lane, model, x):
    for pair in range(model.offsets[x], model.offsets[x + 1]):
        if shares[pair * _STEP + np.uint64(lane)] > 0.0:
            for b in range(model.successors.shape[1]):
                if model.probabilities[pair, b] > 0.0 and endless[model.successors[pair, b]] == mark:
                    return True
    return False
