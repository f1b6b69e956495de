"""Exact measures of tables: value and return of the greedy policy, and the distance from a table to T of it.

The value v of a policy solves (I - g P) v = R over the states. For a policy of a grid, P is a band around the diagonal;
for any model, elimination leaves zeros outside an envelope that all policies of the model share. No pivot is looked
for: |g P| sums to less than 1 in each row, so the diagonal dominates and stays dominant. The undiscounted return
v_t of t moves follows from v_t = R + P v_{t-1}, v_0 = 0. Eight tables are worked on at a time.
"""

from typing import NamedTuple

import numpy as np

from mqlearn.jit import compiled
from mqlearn.kernels.lanes import EIGHT, aligned, all_lanes, load, store

_STEP = np.uint64(EIGHT)
_LARGE = 4096  # states, from which the successors of eight chains leave the cache: few chains go one by one,
_ALONE = 2  # if they are at most so many


class Expectations(NamedTuple):
    """A model with its probabilities, over the learned pairs.

    offsets: (states + 1,) uint64, see `chain.Model`.   successors: (pairs, B) uint32.   probabilities: (pairs, B).
    rewards: (pairs,) mean rewards.   counted: (pairs,) bool, where errors count.   start: (states,) distribution.
    discount: g.
    """

    offsets: np.ndarray
    successors: np.ndarray
    probabilities: np.ndarray
    rewards: np.ndarray
    counted: np.ndarray
    start: np.ndarray
    discount: float


@compiled
def bellman_errors(q, model):
    """(L,): max over the counted pairs of |T q - q|, for tables q (L, pairs)."""
    n_states = model.offsets.shape[0] - 1
    errors, v = np.zeros(q.shape[0]), np.zeros(n_states)
    for lane in range(q.shape[0]):
        table = q[lane]
        for x in range(n_states):
            first, end = model.offsets[x], model.offsets[x + 1]
            if first < end:
                v[x] = table[first]
                for pair in range(first + np.uint64(1), end):
                    v[x] = max(v[x], table[pair])
        for pair in range(table.shape[0]):
            if model.counted[pair]:
                ahead = 0.0
                for b in range(model.successors.shape[1]):
                    ahead += model.probabilities[pair, b] * v[model.successors[pair, b]]
                error = abs(model.rewards[pair] + model.discount * ahead - table[pair])
                errors[lane] = max(errors[lane], error)
    return errors


@compiled
def policy_values(q, model):
    """(L,): value at the start of the greedy policies of tables q (L, pairs), uniform among equal best actions."""
    n_states = model.offsets.shape[0] - 1
    low, high = _envelope(model)
    shares = aligned(q.shape[1] * EIGHT)
    system, v = aligned(n_states * n_states * EIGHT), aligned(n_states * EIGHT)
    values = np.zeros(q.shape[0])
    for begin in range(0, q.shape[0], EIGHT):
        end = min(begin + EIGHT, q.shape[0])
        _greedy_shares(q[begin:end], model.offsets, shares)
        _assemble(system, v, shares, model, low, high)
        _solve(system, v, low, high)
        for lane in range(end - begin):
            for x in range(n_states):
                values[begin + lane] += model.start[x] * v[x * EIGHT + lane]
    return values


@compiled
def expected_returns(q, model, limit):
    """(L,): undiscounted return from the start of episodes of at most `limit` moves, under the same policies."""
    first, successors, places = successors_of(model)
    n_states = first.shape[0] - 1
    shares, chain = aligned(q.shape[1] * EIGHT), aligned(successors.shape[0] * EIGHT)
    reward, v, ahead = aligned(n_states * EIGHT), aligned(n_states * EIGHT), aligned(n_states * EIGHT)
    returns = np.zeros(q.shape[0])
    for begin in range(0, q.shape[0], EIGHT):
        end = min(begin + EIGHT, q.shape[0])
        _greedy_shares(q[begin:end], model.offsets, shares)
        _chain(chain, reward, shares, model, places)
        if end - begin <= _ALONE and n_states > _LARGE:
            for lane in range(end - begin):
                returns[begin + lane] = _return_of(lane, chain, reward, first, successors, model.start, limit)
            continue
        v[:] = 0.0
        for _ in range(limit):
            _move(ahead, v, reward, chain, first, successors)
            v, ahead = ahead, v
        for lane in range(end - begin):
            for x in range(n_states):
                returns[begin + lane] += model.start[x] * v[x * EIGHT + lane]
    return returns


@compiled
def _return_of(lane, chain, reward, first, successors, start, limit):
    """The return of one of eight chains: the same additions in the same order, without the zeros."""
    n_states = first.shape[0] - 1
    own = np.zeros(n_states + 1, np.uint64)
    to, p = np.zeros(successors.shape[0], np.uint32), np.zeros(successors.shape[0])
    n = np.uint64(0)
    for x in range(n_states):
        for place in range(first[x], first[x + 1]):
            value = chain[place * _STEP + np.uint64(lane)]
            if value != 0.0:
                to[n], p[n] = successors[place], value
                n += np.uint64(1)
        own[x + 1] = n
    r, v, ahead = np.zeros(n_states), np.zeros(n_states), np.zeros(n_states)
    for x in range(n_states):
        r[x] = reward[np.uint64(x) * _STEP + np.uint64(lane)]
    for _ in range(limit):
        for x in range(n_states):
            total = r[x]
            for place in range(own[x], own[x + 1]):
                total += p[place] * v[to[place]]
            ahead[x] = total
        v, ahead = ahead, v
    total = 0.0
    for x in range(n_states):
        total += start[x] * v[x]
    return total


@compiled
def successors_of(model):
    """The states that follow each state under any policy, each once.

    first: (states + 1,) where those of a state begin, the last their number.   successors: those of all states.
    places: (pairs, B) the places among these of the outcomes of a pair.
    """
    n_states = model.offsets.shape[0] - 1
    first, places = np.zeros(n_states + 1, np.uint64), np.zeros(model.successors.shape, np.uint64)
    successors, found = np.zeros(model.successors.size, np.uint64), np.full(n_states, -1)
    n = 0
    for x in range(n_states):
        for pair in range(model.offsets[x], model.offsets[x + 1]):
            for b in range(model.successors.shape[1]):
                y = model.successors[pair, b]
                if found[y] < np.int64(first[x]):
                    found[y] = n
                    successors[n] = y
                    n += 1
                places[pair, b] = found[y]
        first[x + 1] = n
    return first, successors[:n], places


@compiled
def _envelope(model):
    """First and last column (states,) of each row of I - g P that any policy, or elimination, fills."""
    n_states = model.offsets.shape[0] - 1
    low, high = np.arange(n_states).astype(np.uint64), np.arange(n_states).astype(np.uint64)
    for x in range(n_states):
        for pair in range(model.offsets[x], model.offsets[x + 1]):
            for b in range(model.successors.shape[1]):
                low[x] = min(low[x], np.uint64(model.successors[pair, b]))
                high[x] = max(high[x], np.uint64(model.successors[pair, b]))
        for above in range(low[x], x):
            high[x] = max(high[x], high[above])
    return low, high


@compiled
def _greedy_shares(q, offsets, shares):
    """Probabilities of the pairs under the greedy policies of at most eight tables, into `shares` (pairs x 8,)."""
    for lane in range(EIGHT):
        table = q[min(lane, q.shape[0] - 1)]
        for x in range(offsets.shape[0] - 1):
            first, end = offsets[x], offsets[x + 1]
            if first < end:
                largest = table[first]
                for pair in range(first + np.uint64(1), end):
                    largest = max(largest, table[pair])
                ties = 0
                for pair in range(first, end):
                    ties += table[pair] == largest
                for pair in range(first, end):
                    shares[pair * _STEP + np.uint64(lane)] = 1.0 / ties if table[pair] == largest else 0.0


@compiled(apart=True)
def _chain(chain, reward, shares, model, places):
    """P of the greedy policies into `chain` (successors x 8,), by place, and R into `reward` (states x 8,)."""
    one = np.uint64(1)
    chain[:] = 0.0
    for x in range(np.uint64(model.offsets.shape[0]) - one):
        total = all_lanes(0.0)
        for pair in range(model.offsets[x], model.offsets[x + one]):
            share = load(shares, pair * _STEP)
            total = total + share * all_lanes(model.rewards[pair])
            for b in range(places.shape[1]):
                at = places[pair, b] * _STEP
                store(chain, at, load(chain, at) + share * all_lanes(model.probabilities[pair, b]))
        store(reward, x * _STEP, total)


@compiled(apart=True)
def _move(ahead, v, reward, chain, first, successors):
    """ahead = R + P v, for eight chains."""
    one = np.uint64(1)
    for x in range(np.uint64(first.shape[0]) - one):
        total = load(reward, x * _STEP)
        for place in range(first[x], first[x + one]):
            total = total + load(chain, place * _STEP) * load(v, successors[place] * _STEP)
        store(ahead, x * _STEP, total)


@compiled(apart=True)
def _assemble(system, v, shares, model, low, high):
    """I - g P into `system` (states x states x 8,), and R into `v` (states x 8,)."""
    n_states = np.uint64(low.shape[0])
    zero = all_lanes(0.0)
    for x in range(n_states):
        row = x * n_states
        for y in range(low[x], high[x] + np.uint64(1)):
            store(system, (row + y) * _STEP, zero)
        store(system, (row + x) * _STEP, all_lanes(1.0))
        reward = zero
        for pair in range(model.offsets[x], model.offsets[x + np.uint64(1)]):
            share = load(shares, pair * _STEP)
            reward = reward + share * all_lanes(model.rewards[pair])
            for b in range(model.successors.shape[1]):
                at = (row + np.uint64(model.successors[pair, b])) * _STEP
                ahead = share * all_lanes(model.discount * model.probabilities[pair, b])
                store(system, at, load(system, at) - ahead)
        store(v, x * _STEP, reward)


@compiled(apart=True)
def _solve(system, v, low, high):
    """Gaussian elimination within the envelope, and back: `v` becomes the solution."""
    one = np.uint64(1)
    n_states = np.uint64(low.shape[0])
    for x in range(n_states):
        row = x * n_states
        right = load(v, x * _STEP)
        for above in range(low[x], x):
            other = above * n_states
            factor = load(system, (row + above) * _STEP) * load(system, (other + above) * _STEP)
            for y in range(above + one, high[above] + one):
                at = (row + y) * _STEP
                store(system, at, load(system, at) - factor * load(system, (other + y) * _STEP))
            right = right - factor * load(v, above * _STEP)
        store(v, x * _STEP, right)
        diagonal = (row + x) * _STEP
        store(system, diagonal, all_lanes(1.0) / load(system, diagonal))
    for back in range(one, n_states + one):
        x = n_states - back
        row = x * n_states
        right = load(v, x * _STEP)
        for y in range(x + one, high[x] + one):
            right = right - load(system, (row + y) * _STEP) * load(v, y * _STEP)
        store(v, x * _STEP, right * load(system, (row + x) * _STEP))
