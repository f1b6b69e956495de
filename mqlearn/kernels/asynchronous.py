"""Tables that learn from one visited pair an iteration: alone (`pair`), or in rounds over all reachable pairs."""

import math
from typing import NamedTuple

import numpy as np

from mqlearn.jit import compiled, inlined
from mqlearn.kernels.chain import EPSILON_GREEDY, Packed, chain_words, enter, leave, move, pack, read
from mqlearn.kernels.operators import learn_by, target_of
from mqlearn.kernels.random import CHUNK, HALF, below, philox


class Tables(NamedTuple):
    """Tables of L seeds that move at the visited pair.

    q: (L, pairs).   last: (L, 2), the pair of the previous iteration and its value before: Q_{k-1} differs from Q_k
    there alone.   counts: (L, pairs) int64 updates of each pair, or of its state, at the first pair of that.
    """

    q: np.ndarray
    last: np.ndarray
    counts: np.ndarray


class Rounds(NamedTuple):
    """Tables of L seeds that move in rounds.

    q, q_prev: (L, pairs), Q_k and Q_{k-1}.   sums: (L, 2, pairs) of the targets T Q_k and T Q_{k-1} in this round.
    counts: (L, pairs) int64 visits in it.   rounds: (L, 2) rounds ended, pairs still wanted.
    """

    q: np.ndarray
    q_prev: np.ndarray
    sums: np.ndarray
    counts: np.ndarray
    rounds: np.ndarray


@inlined
def _own_word(k, lane, seed, stream):
    """The third word of iteration k of a stream."""
    step = np.uint64(k)
    _, _, word, _ = philox(np.uint32(0), np.uint32(step), np.uint32(step >> HALF), np.uint32(lane), seed, stream)
    return word


@compiled
def _boltzmann_pair(q, offsets, x, k, lane, seed, stream, temperature):
    """A pair of state x, drawn with probabilities proportional to exp(q/T), T the temperature at iteration k.

    Of exp((q - max q)/T), which cannot overflow; the largest is 1. The first pair is taken up to which they sum to more
    than the word's share of them all: the last sum is the whole, so that there is one, unless q is no number.
    """
    first = offsets[x]
    end = offsets[x + np.uint64(1)]
    start, last, iterations = temperature
    heat = last if k >= iterations else start + (last - start) * (k / iterations)  # start + (last - start) may be 0
    best = first
    for pair in range(first + np.uint64(1), end):
        best = pair if q[pair] > q[best] else best
    largest = q[best]
    total = 0.0
    for pair in range(first, end):
        total += math.exp((q[pair] - largest) / heat)
    share = _own_word(k, lane, seed, stream) / 4294967296.0 * total
    reached = 0.0
    for pair in range(first, end):
        reached += math.exp((q[pair] - largest) / heat)
        if reached > share:
            return pair
    return best


@inlined
def _largest(q, offsets, y):
    """max_v q(y, v), 0 at a state without pairs."""
    first = offsets[y]
    end = offsets[y + np.uint64(1)]
    if first == end:
        return 0.0
    best = q[first]
    for pair in range(first + np.uint64(1), end):
        best = max(best, q[pair])
    return best


@compiled
def greedy_pair(q, offsets, x, k, lane, seed, stream, temperature=None):
    """The greedy pair of state x at iteration k; ties are broken by a random word, at this iteration's counter.

    temperature: (first, last, iterations), for the pair that a Boltzmann behaviour draws by this word; None, which
    compiles without it.
    """
    if temperature is not None:
        return _boltzmann_pair(q, offsets, x, k, lane, seed, stream, temperature)
    best = offsets[x]
    ties = 1
    for pair in range(best + np.uint64(1), offsets[x + np.uint64(1)]):
        if q[pair] > q[best]:
            best = pair
            ties = 1
        elif q[pair] == q[best]:
            ties += 1
    if ties > 1:
        word = _own_word(k, lane, seed, stream)
        left = below(word, ties)
        largest = q[best]
        while left > 0:
            best += np.uint64(1)
            if q[best] == largest:
                left -= np.uint64(1)
    return best


@inlined
def _learn(table, last_pair, last_value, offsets, pair, y, reward, weights, row, discount):
    """One transition by the four numbers of a row of the weights; returns the value that the pair had before.

    last_pair, last_value: where Q_{k-1} differs from Q_k, and what it holds there.
    """
    value = table[pair]
    value_prev = last_value if pair == last_pair else value
    v = 0.0
    v_prev = 0.0
    first = offsets[y]
    end = offsets[y + np.uint64(1)]
    if first < end:
        v = table[first]
        v_prev = last_value if first == last_pair else v
    for ahead in range(first + np.uint64(1), end):
        present = table[ahead]
        previous = last_value if ahead == last_pair else present
        v = present if present > v else v
        v_prev = previous if previous > v_prev else v_prev
    s = weights[row, 2]
    t = weights[row, 3]
    target = (s + t) * reward + discount * (s * v + t * v_prev)
    table[pair] = weights[row, 0] * value + weights[row, 1] * value_prev + target
    _ = table.size + offsets.size + weights.size  # as in `chain.move`
    return value


@compiled
def asynchronous_table(tables, model, chain, walks, weights, local, discount, k, n_all, operator=None, firsts=None):
    """Iterations k .. k + n_all - 1 of a rule of the four-number family at the visited pair alone.

    tables: `Tables`; model, chain, walks: see `chain.samples`.   weights: (rows, 4), row 0 is iteration k; with `local`
    the clock of a pair is its own count of updates, and row 0 is count 0.   operator: `operators.Operator`, or None.
    firsts: (pairs,) uint64, the first pair of the state of each, where the clock is that of the state; None, which
    compiles without it: of the pair.
    """
    offsets = model.offsets
    packed = pack(model)
    adaptive = chain.behaviour == EPSILON_GREEDY
    lanes, seed, streams = walks.lanes, walks.seed, walks.streams
    words = np.empty((8, CHUNK), np.uint32)
    for done in range(0, n_all, CHUNK):
        n = min(CHUNK, n_all - done)
        for lane in range(tables.q.shape[0]):
            table, last, count = tables.q[lane], tables.last[lane], tables.counts[lane]
            state, buffer, visits = walks.states[lane], walks.buffers[lane], walks.visits[lane]
            chain_words(chain, state, buffer, k + done, n, lanes[lane], seed, streams, words)
            walk = enter(state, buffer)
            last_pair = np.uint64(last[0])
            last_value = last[1]
            for i in range(n):
                greedy = np.uint64(0)
                if adaptive:
                    greedy = greedy_pair(
                        table, offsets, walk.state, k + done + i, lanes[lane], seed, streams.ties, chain.temperature
                    )
                walk, sample = move(packed, chain, walk, buffer, visits, greedy, k + done + i, words, i)
                pair, y, reward = read(sample, packed)
                counted = pair
                if firsts is not None:
                    counted = firsts[pair]
                row = np.uint64(count[counted] if local else done + i)
                count[counted] += 1
                if operator is None:
                    last_value = _learn(table, last_pair, last_value, offsets, pair, y, reward, weights, row, discount)
                else:
                    now = weights[row]
                    last_value = learn_by(table, last_pair, last_value, offsets, pair, y, reward, now, operator)
                last_pair = pair
            leave(state, walk)
            last[0] = np.float64(last_pair)
            last[1] = last_value


@compiled
def table_from_samples(tables, model, samples, weights, local, discount, operator=None, firsts=None):
    """`asynchronous_table` from samples (L, n) that rules share: the same numbers."""
    offsets, successors, rewards, _, shift = model
    # All that `read` needs.
    reading = Packed(offsets, successors, rewards, shift, (np.uint64(1) << shift) - np.uint64(1))
    for lane in range(tables.q.shape[0]):
        table, last, count, own = tables.q[lane], tables.last[lane], tables.counts[lane], samples[lane]
        last_pair = np.uint64(last[0])
        last_value = last[1]
        for i in range(own.shape[0]):
            pair, y, reward = read(own[i], reading)
            counted = pair
            if firsts is not None:
                counted = firsts[pair]
            row = np.uint64(count[counted] if local else i)
            count[counted] += 1
            if operator is None:
                last_value = _learn(table, last_pair, last_value, offsets, pair, y, reward, weights, row, discount)
            else:
                last_value = learn_by(table, last_pair, last_value, offsets, pair, y, reward, weights[row], operator)
            last_pair = pair
        last[0] = np.float64(last_pair)
        last[1] = last_value


@compiled
def asynchronous_rounds(tables, wanted, model, chain, walks, weights, discount, k, n_all, operator=None):
    """Rounds (Azar et al. 2011): Q_k and Q_{k-1} rest, and each pair's targets are averaged, until all were visited.

    tables: `Rounds`.   wanted: (pairs,) bool, what a round waits for.   weights: (rounds that may end, 4), from round
    0.   The rest as in `asynchronous_table`.
    """
    offsets = model.offsets
    packed = pack(model)
    adaptive = chain.behaviour == EPSILON_GREEDY
    lanes, seed, streams = walks.lanes, walks.seed, walks.streams
    words = np.empty((8, CHUNK), np.uint32)
    n_wanted = wanted.sum()
    for done in range(0, n_all, CHUNK):
        n = min(CHUNK, n_all - done)
        for lane in range(tables.q.shape[0]):
            table, table_prev, count = tables.q[lane], tables.q_prev[lane], tables.counts[lane]
            sum_now, sum_prev, rounds = tables.sums[lane, 0], tables.sums[lane, 1], tables.rounds[lane]
            state, buffer, visits = walks.states[lane], walks.buffers[lane], walks.visits[lane]
            chain_words(chain, state, buffer, k + done, n, lanes[lane], seed, streams, words)
            walk = enter(state, buffer)
            for i in range(n):
                greedy = np.uint64(0)
                if adaptive:
                    greedy = greedy_pair(
                        table, offsets, walk.state, k + done + i, lanes[lane], seed, streams.ties, chain.temperature
                    )
                walk, sample = move(packed, chain, walk, buffer, visits, greedy, k + done + i, words, i)
                pair, y, reward = read(sample, packed)
                if operator is None:
                    sum_now[pair] += reward + discount * _largest(table, offsets, y)
                    sum_prev[pair] += reward + discount * _largest(table_prev, offsets, y)
                else:
                    sum_now[pair] += target_of(table, table, offsets, pair, y, reward, operator)
                    sum_prev[pair] += target_of(table_prev, table_prev, offsets, pair, y, reward, operator)
                if count[pair] == 0 and wanted[pair]:
                    rounds[1] -= 1
                count[pair] += 1
                if rounds[1] == 0:
                    _end_round(table, table_prev, sum_now, sum_prev, count, weights[rounds[0]])
                    rounds[0] += 1
                    rounds[1] = n_wanted
            leave(state, walk)


@compiled
def _end_round(table, table_prev, sum_now, sum_prev, count, weights):
    """All visited pairs move by the means of their targets, and the next round begins."""
    for j in range(table.shape[0]):
        value = table[j]
        if count[j] > 0:
            target = weights[2] * sum_now[j] + weights[3] * sum_prev[j]
            value = weights[0] * table[j] + weights[1] * table_prev[j] + target / count[j]
        table_prev[j] = table[j]
        table[j] = value
        count[j] = 0
        sum_now[j] = 0.0
        sum_prev[j] = 0.0
