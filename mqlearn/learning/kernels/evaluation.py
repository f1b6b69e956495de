"""How good greedy policies are: returns of simulated episodes, and exact probabilities of reaching a goal in time."""

from typing import NamedTuple

import numpy as np

from mqlearn.jit import compiled
from mqlearn.learning.kernels.chain import pack
from mqlearn.learning.kernels.random import below, philox_steps

_BATCH = 64  # moves for which random words are made at a time


class Episodes(NamedTuple):
    """Greedy episodes: first states and their alias table, goal flags (states,), how many, and moves at most."""

    starts: np.ndarray
    keep: np.ndarray
    alias: np.ndarray
    goal: np.ndarray
    number: int
    limit: int


@compiled
def greedy_returns(values, model, episodes, lanes, seed, stream):
    """Undiscounted returns of greedy episodes (L,), and goals entered (L,): sums over the episodes of each lane.

    Equal best actions are chosen uniformly anew at each visit. values: (L, pairs) estimates.   model: `chain.Model`.
    episodes: `Episodes`.   An episode's randomness depends on its number and its lane alone.
    """
    starts, keep, alias, goal, number, limit = episodes
    offsets, rows, rewards, _, _ = pack(model)
    returns, goals = np.empty(values.shape[0]), np.empty(values.shape[0])
    n_states = offsets.shape[0] - 1
    n_outcomes = np.uint64(rewards.shape[1])
    words = np.empty((4, _BATCH), np.uint32)
    best = np.empty(n_states, np.uint32)  # a best pair of each state, and how many there are
    ties = np.empty(n_states, np.uint32)
    for lane in range(values.shape[0]):
        for x in range(n_states):
            ties[x] = 0
            for pair in range(offsets[x], offsets[x + 1]):
                if ties[x] == 0 or values[lane, pair] > values[lane, best[x]]:
                    best[x] = pair
                    ties[x] = 1
                elif values[lane, pair] == values[lane, best[x]]:
                    ties[x] += 1
        total = 0.0
        reached = 0
        for episode in range(number):
            counter = np.int64(episode) << np.int64(32)
            x = np.uint64(0)
            for move in range(limit + 1):
                i = move % _BATCH
                if i == 0:
                    n = min(_BATCH, limit + 1 - move)
                    philox_steps(counter + move, n, lanes[lane], seed, stream, words)
                if move == 0:
                    j = below(words[2, i], starts.shape[0])
                    x = np.uint64(starts[j]) if words[3, i] < keep[j] else np.uint64(starts[alias[j]])
                    continue
                pair = np.uint64(best[x])
                to = np.uint64(0)
                word = words[1, i]
                if ties[x] > 1:
                    left = below(words[0, i], ties[x])
                    largest = values[lane, pair]
                    while left > 0:
                        pair += np.uint64(1)
                        if values[lane, pair] == largest:
                            left -= np.uint64(1)
                b = np.uint64(0)
                for c in range(np.uint64(1), n_outcomes):
                    b = c if word >= rows[pair, n_outcomes - np.uint64(1) + c] else b
                to = np.uint64(rows[pair, b])
                if to & np.uint64(1):
                    total += rewards[pair, b]
                x = to >> np.uint64(1)
                if ties[x] == 0:  # terminal
                    if goal[x] != 0:
                        reached += 1
                    break
        returns[lane] = total
        goals[lane] = reached
    return returns, goals


@compiled
def success_within(policy, model, probabilities, goal, steps):
    """(S,): probability that a stochastic policy reaches a goal in at most `steps` moves.

    policy: (pairs,) probabilities of the pairs.   probabilities: (pairs, B).
    """
    offsets, successors, _, _, _ = model
    n_states = offsets.shape[0] - 1
    n_outcomes = successors.shape[1]
    # The chain of the policy as a sparse matrix. Rows anew: first the states with one pair, nearly all, entry by entry
    # side by side; then those with several; then those that stay as they are.
    place = np.empty(n_states, np.uint32)
    chosen = np.empty(n_states, np.uint32)
    n_rows, n_short = np.uint64(0), np.uint64(0)
    for wanted in range(3):
        for x in range(n_states):
            several = 0
            for pair in range(offsets[x], offsets[x + 1]):
                if policy[pair] > 0.0:
                    several += 1
                    if several == 1:
                        chosen[x] = pair
            kind = 2 if goal[x] != 0 or several == 0 else (0 if several == 1 else 1)
            if kind == wanted:
                place[x] = n_rows
                n_rows += np.uint64(1)
        if wanted == 0:
            n_short = n_rows
        if wanted == 1:
            n_moving = n_rows
    columns = np.empty((n_outcomes, n_short), np.uint32)
    shares = np.empty((n_outcomes, n_short))
    size = np.int64(0)
    for x in range(n_states):
        if place[x] >= n_short and place[x] < n_moving:
            for pair in range(offsets[x], offsets[x + 1]):
                size += n_outcomes * (policy[pair] > 0.0)
    long_columns = np.empty(size, np.uint32)
    long_shares = np.empty(size)
    ends = np.zeros(n_moving - n_short + np.uint64(1), np.uint64)
    now = np.zeros(n_states)
    n = np.uint64(0)
    for x in range(n_states):
        row = np.uint64(place[x])
        if row < n_short:
            pair = np.uint64(chosen[x])
            for b in range(n_outcomes):
                columns[b, row] = place[successors[pair, b]]
                shares[b, row] = policy[pair] * probabilities[pair, b]
        elif row < n_moving:
            for pair in range(offsets[x], offsets[x + 1]):
                if policy[pair] > 0.0:
                    for b in range(n_outcomes):
                        long_columns[n] = place[successors[pair, b]]
                        long_shares[n] = policy[pair] * probabilities[pair, b]
                        n += np.uint64(1)
            ends[row - n_short + np.uint64(1)] = n  # rows of one kind keep the order of the states
        elif goal[x] != 0:
            now[row] = 1.0
    alike = n_outcomes == 3 and n_short > 0
    for row in range(n_short):
        for b in range(n_outcomes):
            alike &= shares[b, row] == shares[b, 0]
    following = now.copy()
    for step in range(steps):
        if alike:
            _three_alike(now, following, columns[0], columns[1], columns[2], shares[0, 0], shares[1, 0], shares[2, 0])
        elif n_outcomes == 3:
            _three_each(now, following, columns[0], columns[1], columns[2], shares[0], shares[1], shares[2])
        else:
            for row in range(n_short):
                total = 0.0
                for b in range(n_outcomes):
                    total += shares[b, row] * now[np.uint64(columns[b, row])]
                following[row] = total
        for row in range(n_moving - n_short):
            total = 0.0
            for entry in range(ends[row], ends[row + np.uint64(1)]):
                total += long_shares[entry] * now[np.uint64(long_columns[entry])]
            following[n_short + row] = total
        now, following = following, now
        if step % _BATCH == 0:
            same = True
            for row in range(n_moving):
                same &= now[row] == following[row]
            if same:  # nothing will change any more
                break
    reached = np.empty(n_states)
    for x in range(n_states):
        reached[x] = now[place[x]]
    return reached


@compiled
def _three_each(now, following, columns0, columns1, columns2, shares0, shares1, shares2):
    """following = P now, for rows of three entries."""
    for row in range(columns0.shape[0]):
        total = shares0[row] * now[np.uint64(columns0[row])]
        total += shares1[row] * now[np.uint64(columns1[row])]
        total += shares2[row] * now[np.uint64(columns2[row])]
        following[row] = total


@compiled
def _three_alike(now, following, columns0, columns1, columns2, share0, share1, share2):
    """`_three_each` where all rows have the same shares, which then are not read anew for each."""
    for row in range(columns0.shape[0]):
        total = share0 * now[np.uint64(columns0[row])]
        total += share1 * now[np.uint64(columns1[row])]
        total += share2 * now[np.uint64(columns2[row])]
        following[row] = total
