"""Sweeps of dynamic programming, compiled: what `sweeps` repeats until values rest.

States are numbered in the order of the sweep, the terminal ones come after the others and keep their value 0. Where
`made` is another array than v, all states see the values from before the sweep (Jacobi); where it is v itself, each
sees those that are new already (Gauss and Seidel). A sweep returns the least and the largest change, and the largest
relative to the size of a value.
"""

import numpy as np

from mqlearn.jit import compiled


@compiled
def improve(v, made, chosen, successors, probabilities, rewards, discount):
    """made(x) = max_u of r(x, u) + g sum_b p_b v(y_b), and the row of the first action that attains it.

    successors, probabilities (n, A, B), rewards (n, A), -inf where an action is not admissible.   chosen: rows as
    `evaluate` takes them, which are written.
    """
    n, n_actions, n_successors = successors.shape
    ahead_of, weights, paid = chosen
    low, high, relative = np.inf, -np.inf, 0.0
    for x in range(n):
        best, action = -np.inf, 0
        for u in range(n_actions):
            ahead = 0.0
            for b in range(n_successors):
                ahead += probabilities[x, u, b] * v[successors[x, u, b]]
            value = rewards[x, u] + discount * ahead
            if value > best:
                best, action = value, u
        for b in range(n_successors):
            ahead_of[x * n_successors + b] = successors[x, action, b]
            weights[x * n_successors + b] = probabilities[x, action, b]
        paid[x] = rewards[x, action]
        change = best - v[x]
        low, high = min(low, change), max(high, change)
        if change != 0.0:
            relative = max(relative, abs(change) / max(abs(best), abs(v[x])))
        made[x] = best
    return low, high, relative


@compiled
def evaluate(v, made, first, chosen, discount):
    """made(x) = r(x) + g sum_y p(y) v(y) of a chain: the successors of x are those from first[x] to first[x + 1].

    first (n + 1,).   chosen: successors and probabilities, of all states in turn, and rewards (n,).
    """
    successors, probabilities, rewards = chosen
    low, high, relative = np.inf, -np.inf, 0.0
    for x in range(rewards.shape[0]):
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
