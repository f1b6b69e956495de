"""Elimination of states, compiled: what `elimination` repeats for each policy.

States are numbered in the order in which they go; n is the end of all, behind the last. A state that goes leaves its
moves to those that stay: where it is entered, one comes to each of them with the share that is kept in its row, and
earns on the way what is kept as `earned`. Which shares can be other than 0 is known before, by the elimination tree of
the moves of all actions (Liu 1990; Davis 2006, chapter 4): the row of x lies in that of its parent.
"""

import numpy as np

from mqlearn.jit import compiled

_ONE = np.uint64(1)  # places that cannot be negative, which compiled code would ask at each of them
_TIE = 64 * float(np.finfo(float).eps)  # relative: an action is kept that is as good as any up to rounding


@compiled
def tree(first, to, n):
    """parent (n,) of each state, n for roots, and sizes (n,): how many shares its row can have.

    first (n + 1,), to: the neighbours of the states in turn, by moves either way.
    """
    parent, above, mark = np.empty(n, np.uint32), np.empty(n, np.uint32), np.empty(n, np.uint32)
    sizes = np.zeros(n, np.uint64)
    for x in range(n):
        parent[x], above[x], mark[x] = n, n, n
        for place in range(first[x], first[x + _ONE]):
            k = np.uint64(to[place])
            while k < x:
                following = np.uint64(above[k])
                above[k] = x
                if following == n:
                    parent[k] = x
                k = following
    for x in range(n):
        for place in range(first[x], first[x + _ONE]):
            k = np.uint64(to[place])
            while k < x and mark[k] != x:
                mark[k] = x
                sizes[k] += _ONE
                k = np.uint64(parent[k])
    return parent, sizes


@compiled
def rows(first, to, parent, at):
    """ahead: the states whose shares the row of x keeps, from at[x] to at[x + 1]. behind: the states in whose rows x
    is, from before[x] to before[x + 1]."""
    n = np.uint64(parent.shape[0])
    ahead, behind = np.empty(at[n], np.uint32), np.empty(at[n], np.uint32)
    mark, free = np.empty(n, np.uint32), at.copy()
    before = np.zeros(parent.shape[0] + 1, np.uint64)
    for x in range(n):
        mark[x] = n
        before[x + _ONE] = before[x]
        for place in range(first[x], first[x + _ONE]):
            k = np.uint64(to[place])
            while k < x and mark[k] != x:
                mark[k] = x
                ahead[free[k]] = x
                free[k] += _ONE
                before[x + _ONE] += _ONE
                k = np.uint64(parent[k])
    free = before.copy()
    for k in range(n):
        for place in range(at[k], at[k + _ONE]):
            x = np.uint64(ahead[place])
            behind[free[x]] = k
            free[x] += _ONE
    return ahead, before, behind


@compiled
def eliminate(stale, parent, joined, at, ahead, before, behind, shares, earned, first, chosen, discount):
    """Make anew the rows of the states that are stale (n + 1,) bool, and of all that stand on them: shares, and earned
    (2, n), the rewards on the way and the share of ends.

    joined (n,) bool: of which states the row has the places of the next row, and the next state.   first, chosen: a
    chain, as `compiled_sweeps.evaluate` takes it, n for moves to an end.

    A state is left with one minus the probability to stay. That is a sum of the other shares, so nothing is ever
    subtracted, and each share is right in its own digits whatever the chain (Grassmann, Taksar and Heyman 1985).
    """
    n = np.uint64(parent.shape[0])
    successors, probabilities, rewards = chosen
    w = np.zeros(parent.shape[0] + 1)
    for x in range(n):
        if not stale[x]:
            continue
        stale[x], stale[parent[x]] = False, True
        total = 0.0
        for place in range(first[x], first[x + _ONE]):
            w[successors[place]] += discount * probabilities[place]
            total += probabilities[place]
        reward = rewards[x]
        ends = w[n] + max(0.0, 1.0 - discount * total)
        w[n] = 0.0
        i, last = before[x], before[x + _ONE]
        while i < last:
            k = np.uint64(behind[i])
            share = w[k]
            i += _ONE
            if share == 0.0:
                continue
            w[k] = 0.0
            reward += share * earned[0, k]
            ends += share * earned[1, k]
            start, stop, other = at[k], at[k + _ONE], k + _ONE
            if other < x and joined[k]:  # the row of the next state has the same places, but for its own: both at once
                more = w[other] + share * shares[start]
                w[other] = 0.0
                reward += more * earned[0, other]
                ends += more * earned[1, other]
                i += _ONE
                start += _ONE
                for j in range(stop - start):
                    w[ahead[stop + j]] += share * shares[start + j] + more * shares[stop + j]
            else:
                for j in range(start, stop):
                    w[ahead[j]] += share * shares[j]
        w[x] = 0.0
        leaves = ends
        for j in range(at[x], at[x + _ONE]):
            leaves += w[ahead[j]]
        scale = 1.0 / leaves if leaves > 0.0 else 0.0
        for j in range(at[x], at[x + _ONE]):
            shares[j] = scale * w[ahead[j]]
            w[ahead[j]] = 0.0
        earned[0, x] = scale * reward
        earned[1, x] = scale * ends if leaves > 0.0 else 1.0  # who comes to where nobody leaves earns no more


@compiled
def substitute(v, at, ahead, shares, earned):
    """v(x) of all states, the last first: what is earned, and the values of those that stay."""
    n = np.uint64(earned.shape[1])
    for i in range(n):
        x = n - _ONE - i
        value = earned[0, x]
        for j in range(at[x], at[x + _ONE]):
            value += shares[j] * v[ahead[j]]
        v[x] = value


@compiled
def switch(v, policy, stale, chosen, successors, probabilities, rewards, discount):
    """Give each state the first action of largest r + g sum_b p_b v(y_b), if that is more than its own; how many.

    successors, probabilities (n, A, B), rewards (n, A): -inf where an action is not admissible. What changes is
    written to policy (n,), to the rows `chosen` of B outcomes each, and marked as stale.
    """
    n, n_actions, n_successors = successors.shape
    ahead_of, weights, paid = chosen
    switched = 0
    for x in range(n):
        best, size, own, action = -np.inf, 0.0, -np.inf, policy[x]
        for u in range(n_actions):
            ahead, around = 0.0, 0.0
            for b in range(n_successors):
                value = probabilities[x, u, b] * v[successors[x, u, b]]
                ahead += value
                around += abs(value)
            value = rewards[x, u] + discount * ahead
            if u == policy[x]:
                own = value
            if value > best:
                best, size, action = value, abs(rewards[x, u]) + discount * around, u
        if action != policy[x] and best > own + _TIE * size:
            switched += 1
            policy[x], stale[x] = action, True
            for b in range(n_successors):
                ahead_of[x * n_successors + b] = successors[x, action, b]
                weights[x * n_successors + b] = probabilities[x, action, b]
            paid[x] = rewards[x, action]
    return switched
