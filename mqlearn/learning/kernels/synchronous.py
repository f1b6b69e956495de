"""All pairs in every iteration (the paper's Algorithm 1), for any rule of the four-number family.

Q_{k+1}(x, u) = a Q_k + b Q_{k-1} + s T_k Q_k + t T_k Q_{k-1}, where both empirical operators see one sampled successor
y, so that one look-up of W(y) = s g max_v Q_k(y, v) + t g max_v Q_{k-1}(y, v) does for both.

A *lane* is one seed of a run. Tables lie as (pairs, lanes): neighbouring numbers belong to neighbouring seeds, and the
inner loops vectorise. A lane's numbers do not depend on which lanes are computed beside it. Numbers of rows are
unsigned, because a signed computed index stops numba's vectorisation.
"""

from typing import NamedTuple

import numpy as np

from mqlearn.jit import compiled
from mqlearn.learning.kernels.random import philox_counters

_COUNTERS = 32  # of random words that are made at a time


class AllPairs(NamedTuple):
    """A model of which every pair is sampled in every iteration; offsets .. thresholds as in `chain.Model`.

    reuse: how many pairs one random word serves. With more than one the B successors of every pair are equally likely,
    and u -> base u mod 2^32 moves a word to its next digit. With 0 nothing is random.   base: B, uint32.
    """

    offsets: np.ndarray
    successors: np.ndarray
    rewards: np.ndarray
    thresholds: np.ndarray
    reuse: int
    base: np.uint32


class _Scratch(NamedTuple):
    """Arrays that an iteration works with.

    w: (states, lanes), W.   target: (lanes,).   counters, lanes: (counters x lanes,) uint64, of the random words.
    words: (4, counters x lanes) uint32.
    """

    w: np.ndarray
    target: np.ndarray
    counters: np.ndarray
    lanes: np.ndarray
    words: np.ndarray


class _Weights(NamedTuple):
    """The four numbers of a rule at one iteration: of Q_k, Q_{k-1}, T_k Q_k and T_k Q_{k-1}."""

    q: float
    q_prev: float
    s: float
    t: float


@compiled(apart=True)
def _look_ahead(q, v, v_prev, w, offsets, s_discount, t_discount):
    """W once a state, from Q_k and v = max_u Q_{k-1}; max_u Q_k goes to v_prev.

    Terminal states have no pairs: there v, v_prev and w are 0 and stay so.
    """
    n_lanes = q.shape[1]
    for x in range(w.shape[0]):
        first = offsets[x]
        end = offsets[x + 1]
        if end - first == np.uint64(4):  # most grids: one pass over the four rows
            q0, q1, q2, q3 = q[first], q[first + np.uint64(1)], q[first + np.uint64(2)], q[first + np.uint64(3)]
            for lane in range(n_lanes):
                # One instruction each, which max() does not become.
                largest = q0[lane]
                largest = q1[lane] if q1[lane] > largest else largest
                largest = q2[lane] if q2[lane] > largest else largest
                largest = q3[lane] if q3[lane] > largest else largest
                v_prev[x, lane] = largest
                w[x, lane] = s_discount * largest + t_discount * v[x, lane]
        elif first < end:
            for lane in range(n_lanes):
                v_prev[x, lane] = q[first, lane]
            for pair in range(first + np.uint64(1), end):
                for lane in range(n_lanes):
                    v_prev[x, lane] = max(v_prev[x, lane], q[pair, lane])
            for lane in range(n_lanes):
                w[x, lane] = s_discount * v_prev[x, lane] + t_discount * v[x, lane]


@compiled(apart=True)
def _update_pairs(q, q_prev, w, words, row, column, target, model, weights, begin, end):
    """Q_{k+1} over `q_prev` for the pairs begin .. end - 1 (uint64), which share the words at `row` and `column`."""
    _, successors, rewards, thresholds, _, base = model
    w_q, w_prev, s, t = weights
    n_lanes = q.shape[1]
    power = np.uint32(1)  # says which digit of the words has its turn
    for pair in range(begin, end):
        y0 = np.uint64(successors[pair, 0])
        r0 = (s + t) * rewards[pair, 0]
        for lane in range(n_lanes):
            target[lane] = w[y0, lane] + r0
        for b in range(1, successors.shape[1]):
            y = np.uint64(successors[pair, b])
            r = (s + t) * rewards[pair, b]
            threshold = thresholds[pair, b]
            for lane in range(n_lanes):
                # Load first, choose then: a load under a condition is not vectorised.
                e0 = target[lane]
                e1 = w[y, lane] + r
                u = np.uint32(words[row, column + np.uint64(lane)] * power)
                target[lane] = e1 if u >= threshold else e0
        for lane in range(n_lanes):
            q_prev[pair, lane] = w_q * q[pair, lane] + w_prev * q_prev[pair, lane] + target[lane]
        power = np.uint32(power * base)


@compiled(apart=True)
def _update_pairs_of_three(q, q_prev, w, words, row, column, model, weights, begin, end):
    """`_update_pairs` with three successors, as on slippery ice: one pass over the lanes."""
    _, successors, rewards, thresholds, _, base = model
    w_q, w_prev, s, t = weights
    n_lanes = q.shape[1]
    power = np.uint32(1)
    for pair in range(begin, end):
        y0 = np.uint64(successors[pair, 0])
        y1 = np.uint64(successors[pair, 1])
        y2 = np.uint64(successors[pair, 2])
        r0 = (s + t) * rewards[pair, 0]
        r1 = (s + t) * rewards[pair, 1]
        r2 = (s + t) * rewards[pair, 2]
        threshold1 = thresholds[pair, 1]
        threshold2 = thresholds[pair, 2]
        for lane in range(n_lanes):
            e0 = w[y0, lane] + r0
            e1 = w[y1, lane] + r1
            e2 = w[y2, lane] + r2
            u = np.uint32(words[row, column + np.uint64(lane)] * power)
            e = e1 if u >= threshold1 else e0
            e = e2 if u >= threshold2 else e
            q_prev[pair, lane] = w_q * q[pair, lane] + w_prev * q_prev[pair, lane] + e
        power = np.uint32(power * base)


@compiled(apart=True)
def _iterate(q, q_prev, v, v_prev, scratch, model, weights, discount, k, seed, stream):
    """One iteration of all pairs: writes Q_{k+1} over `q_prev` and max_u Q_k over `v_prev`."""
    offsets, successors, _, _, reuse, _ = model
    w, target, counters, lanes, words = scratch
    _look_ahead(q, v, v_prev, w, offsets, discount * weights.s, discount * weights.t)
    n_pairs, n_lanes = np.uint64(q.shape[0]), np.uint64(q.shape[1])
    # Words lie as (4, counters x lanes): `row` and `column` say whose turn it is.
    first = np.uint32(0)
    column = np.uint64(words.shape[1])
    row = np.uint64(3)
    begin = np.uint64(0)
    while begin < n_pairs:
        end = n_pairs
        if reuse > 0:
            end = min(end, begin + np.uint64(reuse))
            row = (row + np.uint64(1)) & np.uint64(3)
            if row == 0:
                column += n_lanes
                if column >= np.uint64(words.shape[1]):
                    philox_counters(counters, first, k, lanes, seed, stream, words)
                    first = np.uint32(first + np.uint64(counters.shape[0]) // n_lanes)
                    column = np.uint64(0)
        if successors.shape[1] == 3:
            _update_pairs_of_three(q, q_prev, w, words, row, column, model, weights, begin, end)
        else:
            _update_pairs(q, q_prev, w, words, row, column, target, model, weights, begin, end)
        begin = end


@compiled
def _row(weights, i):
    return _Weights(weights[i, 0], weights[i, 1], weights[i, 2], weights[i, 3])


@compiled
def synchronous(q, q_prev, model, weights, discount, k, lanes, seed, stream):
    """Iterations k, k + 1, ... of all pairs and lanes, one row of `weights` (n, 4) each.

    q, q_prev: (pairs, lanes), Q_k and Q_{k-1}; overwritten. After an even number of rows `q` holds the last iterate
    and `q_prev` the one before, after an odd number the other way round.   model: `AllPairs`.   lanes: (lanes,) uint32
    seed indices.   seed, stream: uint32, where random words are drawn.
    """
    n_states = model.offsets.shape[0] - 1
    n_pairs, n_lanes = q.shape
    v = np.zeros((n_states, n_lanes))
    v_prev = np.zeros((n_states, n_lanes))
    # Random words are made for many counters at once: the lanes of one are too few to fill vectors.
    n_counters = min(_COUNTERS, n_pairs // (4 * max(1, model.reuse)) + 1)
    counters, own = np.empty(n_counters * n_lanes, np.uint64), np.empty(n_counters * n_lanes, np.uint64)
    for i in range(n_counters * n_lanes):
        counters[i] = i // n_lanes
        own[i] = lanes[i % n_lanes]
    words = np.zeros((4, n_counters * n_lanes), np.uint32)
    scratch = _Scratch(np.zeros((n_states, n_lanes)), np.zeros(n_lanes), counters, own, words)
    _look_ahead(q_prev, v_prev, v, scratch.w, model.offsets, 0.0, 0.0)  # only for the maxima of Q_{k-1}
    n = weights.shape[0]
    # Two steps a turn with the roles exchanged: swapping the arrays in a loop hides from the compiler that they differ.
    for i in range(0, n - 1, 2):
        _iterate(q, q_prev, v, v_prev, scratch, model, _row(weights, i), discount, k + i, seed, stream)
        _iterate(q_prev, q, v_prev, v, scratch, model, _row(weights, i + 1), discount, k + i + 1, seed, stream)
    if n % 2 == 1:
        _iterate(q, q_prev, v, v_prev, scratch, model, _row(weights, n - 1), discount, k + n - 1, seed, stream)
