"""Sweeps of dynamic programming over all states, compiled: what `sweeps` repeats until values rest.

`order` (n,) uint32 are the states that are swept, in turn. Where `made` is another array than v, all see the values from
before the sweep (Jacobi); where it is v itself, each sees those that are new already (Gauss and Seidel). A sweep returns
the least and the largest change, and the largest relative to the size of a value.
"""

import numpy as np

from mqlearn.jit import compiled


@compiled
def improve(v, made, policy, order, learned, successors, probabilities, rewards, discount):
    """made = max_u R(x, u) + g sum_b p_b v(y_b), and `policy` (S,) the first action that attains it."""
    low, high, relative = np.inf, -np.inf, 0.0
    for i in range(order.shape[0]):
        x = order[i]
        best, chosen = -np.inf, np.int32(0)
        for u in range(learned.shape[1]):
            if learned[x, u]:
                ahead = 0.0
                for b in range(successors.shape[2]):
                    ahead += probabilities[x, u, b] * v[successors[x, u, b]]
                value = rewards[x, u] + discount * ahead
                if value > best:
                    best, chosen = value, np.int32(u)
        change = best - v[x]
        low, high = min(low, change), max(high, change)
        if change != 0.0:
            relative = max(relative, abs(change) / max(abs(best), abs(v[x])))
        policy[x] = chosen
        made[x] = best
    return low, high, relative


@compiled
def evaluate(v, made, policy, order, successors, probabilities, rewards, discount):
    """made = R(x, u) + g sum_b p_b v(y_b) of the actions of `policy` (S,)."""
    low, high = np.inf, -np.inf
    for i in range(order.shape[0]):
        x = order[i]
        u = policy[x]
        ahead = 0.0
        for b in range(successors.shape[2]):
            ahead += probabilities[x, u, b] * v[successors[x, u, b]]
        value = rewards[x, u] + discount * ahead
        change = value - v[x]
        low, high = min(low, change), max(high, change)
        made[x] = value
    return low, high


@compiled
def evaluate_rows(v, made, order, first, successors, probabilities, rewards, discount):
    """made = r(x) + g sum_y p(y) v(y) of a chain: the successors of x are those from first[x] to first[x + 1]."""
    low, high, relative = np.inf, -np.inf, 0.0
    for i in range(order.shape[0]):
        x = order[i]
        ahead = 0.0
        for place in range(first[x], first[x + 1]):
            ahead += probabilities[place] * v[successors[place]]
        value = rewards[x] + discount * ahead
        change = value - v[x]
        low, high = min(low, change), max(high, change)
        if change != 0.0:
            relative = max(relative, abs(change) / max(abs(value), abs(v[x])))
        made[x] = value
    return low, high, relative
