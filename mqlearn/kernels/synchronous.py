"""All pairs in every iteration (the paper's Algorithm 1), for any rule of the four-number family.

Q_{k+1}(x, u) = a Q_k + b Q_{k-1} + s T_k Q_k + t T_k Q_{k-1}, where both empirical operators see one sampled successor
y, so that one look-up of W(y) = s g max_v Q_k(y, v) + t g max_v Q_{k-1}(y, v) does for both.

Seeds ("lanes") are computed in blocks that fit the cache, each through all iterations before the next one, so that any
number of them costs what a few do. In a block, row `pair` of a table holds that pair's values of all lanes, as many as
fill whole vectors of eight (`lanes`); those beyond the last seed are copies of it. A lane's numbers do not depend on
which lanes are computed beside it.
"""

from typing import NamedTuple

import numpy as np

from mqlearn.jit import compiled, inlined
from mqlearn.kernels.lanes import EIGHT, aligned, all_lanes, choose, larger, load, store
from mqlearn.kernels.operators import add_own_state, block_values, look_ahead_by
from mqlearn.kernels.random import philox_counters

_COUNTERS = 32  # of random words that are made at a time
_CACHE = 2**20  # bytes of a block: the second level of today's processors
_FEW, _MANY = 24, 64  # lanes of a block, at least and at most
_STEP = np.uint64(EIGHT)


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


class Block(NamedTuple):
    """What the lanes of a block share. n_lanes: uint64, a multiple of eight.

    w: (states x lanes,), W.   counters, lanes: (counters x lanes,) uint64, of the random words.   words: (4, counters x
    lanes) uint32, and `flat`, the same in one row.
    """

    n_lanes: np.uint64
    w: np.ndarray
    counters: np.ndarray
    lanes: np.ndarray
    words: np.ndarray
    flat: np.ndarray


class _Weights(NamedTuple):
    """The four numbers of a rule at one iteration: of Q_k, Q_{k-1}, T_k Q_k and T_k Q_{k-1}."""

    q: float
    q_prev: float
    s: float
    t: float


@compiled(apart=True)
def _look_ahead(q, v, v_prev, w, n_lanes, offsets, s_discount, t_discount):
    """W once a state, from Q_k and v = max_u Q_{k-1}; max_u Q_k goes to v_prev.

    Terminal states have no pairs: there v, v_prev and w are 0 and stay so.
    """
    s, t = all_lanes(s_discount), all_lanes(t_discount)
    for x in range(np.uint64(offsets.shape[0] - 1)):
        first = offsets[x]
        end = offsets[x + np.uint64(1)]
        if first < end:
            at = x * n_lanes
            for lane in range(np.uint64(0), n_lanes, _STEP):
                largest = load(q, first * n_lanes + lane)
                for pair in range(first + np.uint64(1), end):
                    largest = larger(largest, load(q, pair * n_lanes + lane))
                store(v_prev, at + lane, largest)
                store(w, at + lane, s * largest + t * load(v, at + lane))


@inlined
def _move(q, q_prev, at, w_q, w_prev, target):
    """Q_{k+1} over `q_prev` for eight lanes of a pair."""
    store(q_prev, at, w_q * load(q, at) + w_prev * load(q_prev, at) + target)


@inlined
def _words_at(number, n_lanes, words):
    """Where the words number 0, 1, ... of all lanes begin; they lie as (4, counters x lanes)."""
    return (number & np.uint64(3)) * (np.uint64(words.shape[0]) >> np.uint64(2)) + (number >> np.uint64(2)) * n_lanes


@compiled(apart=True)
def _update_pairs(q, q_prev, w, n_lanes, words, model, weights, begin, end):
    """Q_{k+1} over `q_prev` for the pairs begin .. end - 1 (uint64), by the words from number 0 on."""
    _, successors, rewards, thresholds, _, base = model
    w_q, w_prev, st = all_lanes(weights.q), all_lanes(weights.q_prev), weights.s + weights.t
    n_outcomes = np.uint64(successors.shape[1])
    share = np.uint64(model.reuse) if model.reuse > 0 else end - begin
    number = np.uint64(0)
    for first in range(begin, end, share):
        at = _words_at(number, n_lanes, words)
        number += np.uint64(1)
        power = np.uint32(1)  # says which digit of the words has its turn
        for pair in range(first, min(first + share, end)):
            digit = all_lanes(power)
            for lane in range(np.uint64(0), n_lanes, _STEP):
                u = load(words, at + lane) * digit
                y = np.uint64(successors[pair, 0])
                target = load(w, y * n_lanes + lane) + all_lanes(st * rewards[pair, 0])
                for b in range(np.uint64(1), n_outcomes):
                    y = np.uint64(successors[pair, b])
                    other = load(w, y * n_lanes + lane) + all_lanes(st * rewards[pair, b])
                    target = choose(u, all_lanes(thresholds[pair, b]), other, target)
                _move(q, q_prev, pair * n_lanes + lane, w_q, w_prev, target)
            power = np.uint32(power * base)


@compiled(apart=True)
def _update_pairs_of_three(q, q_prev, w, n_lanes, words, model, weights, begin, end):
    """`_update_pairs` with three successors, as on slippery ice."""
    _, successors, rewards, thresholds, _, base = model
    w_q, w_prev, st = all_lanes(weights.q), all_lanes(weights.q_prev), weights.s + weights.t
    share = np.uint64(model.reuse)
    number = np.uint64(0)
    for first in range(begin, end, share):
        at = _words_at(number, n_lanes, words)
        number += np.uint64(1)
        # Pairs that share words have the same shares.
        edge1, edge2 = all_lanes(thresholds[first, 1]), all_lanes(thresholds[first, 2])
        power = np.uint32(1)
        for pair in range(first, min(first + share, end)):
            y0 = np.uint64(successors[pair, 0]) * n_lanes
            y1 = np.uint64(successors[pair, 1]) * n_lanes
            y2 = np.uint64(successors[pair, 2]) * n_lanes
            r0 = all_lanes(st * rewards[pair, 0])
            r1 = all_lanes(st * rewards[pair, 1])
            r2 = all_lanes(st * rewards[pair, 2])
            digit = all_lanes(power)
            for lane in range(np.uint64(0), n_lanes, _STEP):
                u = load(words, at + lane) * digit
                target = choose(u, edge1, load(w, y1 + lane) + r1, load(w, y0 + lane) + r0)
                target = choose(u, edge2, load(w, y2 + lane) + r2, target)
                _move(q, q_prev, pair * n_lanes + lane, w_q, w_prev, target)
            power = np.uint32(power * base)


@compiled(apart=True)
def _iterate(q, q_prev, v, v_prev, block, model, rule_weights, discount, k, seed, stream, operator):
    """One iteration of all pairs: writes Q_{k+1} over `q_prev` and max_u Q_k over `v_prev`."""
    n_lanes, w, counters, lanes, words, flat = block
    if operator is None:
        weights = rule_weights
        _look_ahead(q, v, v_prev, w, n_lanes, model.offsets, discount * weights.s, discount * weights.t)
    else:
        weights = _weights_by(rule_weights, operator)
        look_ahead_by(q, q_prev, v, v_prev, w, n_lanes, model.offsets, rule_weights.s, rule_weights.t, operator)
    n_pairs = np.uint64(model.successors.shape[0])
    n_counters = np.uint64(words.shape[1]) // n_lanes
    served = n_pairs if model.reuse == 0 else np.uint64(4 * model.reuse) * n_counters  # by the words of one turn
    first = np.uint32(0)
    for begin in range(np.uint64(0), n_pairs, served):
        end = min(begin + served, n_pairs)
        if model.reuse > 0:
            philox_counters(counters, first, k, lanes, seed, stream, words)
            first = np.uint32(first + n_counters)
        if model.successors.shape[1] == 3:
            _update_pairs_of_three(q, q_prev, w, n_lanes, flat, model, weights, begin, end)
        else:
            _update_pairs(q, q_prev, w, n_lanes, flat, model, weights, begin, end)
    if operator is not None:
        add_own_state(q_prev, v, v_prev, n_lanes, rule_weights.s, rule_weights.t, operator)


@compiled
def _weights_by(weights, operator):
    """The four numbers where targets hold `reward` r and `own` Q besides what is ahead."""
    own, paid = operator.own, operator.reward
    return _Weights(
        weights.q + own * weights.s, weights.q_prev + own * weights.t, paid * weights.s, paid * weights.t
    )  # fmt: skip


@compiled
def _row(weights, i):
    return _Weights(weights[i, 0], weights[i, 1], weights[i, 2], weights[i, 3])


@compiled
def block_of(model, lanes, n_lanes):
    """A `Block` of these lanes (n,), n <= n_lanes."""
    n_pairs = model.successors.shape[0]
    # Random words are made for many counters at once: the lanes of one are too few to keep a processor busy.
    n_counters = min(_COUNTERS, n_pairs // (4 * max(1, model.reuse)) + 1)
    counters, own = np.empty(n_counters * n_lanes, np.uint64), np.empty(n_counters * n_lanes, np.uint64)
    for i in range(n_counters * n_lanes):
        counters[i] = i // n_lanes
        own[i] = lanes[min(i % n_lanes, lanes.shape[0] - 1)]
    words = np.zeros((4, n_counters * n_lanes), np.uint32)
    w = aligned((model.offsets.shape[0] - 1) * n_lanes)
    return Block(np.uint64(n_lanes), w, counters, own, words, words.reshape(words.size))


@compiled
def _gathered(q, n_lanes):
    """Tables (n, pairs) as a block: (pairs x n_lanes,)."""
    block = aligned(q.shape[1] * n_lanes)
    for pair in range(q.shape[1]):
        for lane in range(n_lanes):
            block[pair * n_lanes + lane] = q[min(lane, q.shape[0] - 1), pair]
    return block


@compiled
def _scattered(block, n_lanes, q):
    """The other way."""
    for lane in range(q.shape[0]):
        for pair in range(q.shape[1]):
            q[lane, pair] = block[pair * n_lanes + lane]


@compiled
def synchronous(q, q_prev, model, weights, discount, k, lanes, seed, stream, operator=None):
    """Iterations k, k + 1, ... of all pairs and lanes, one row of `weights` (n, 4) each.

    q, q_prev: (L, pairs), Q_k and Q_{k-1}, which become Q_{k+n}, Q_{k+n-1}.   model: `AllPairs`.   lanes: (L,) uint32
    seed indices.   seed, stream: uint32, where random words are drawn.   operator: `operators.Operator`, or None.
    """
    n, n_states, n_pairs = weights.shape[0], model.offsets.shape[0] - 1, q.shape[1]
    if n == 0:
        return
    together = _CACHE // (8 * (2 * n_pairs + 3 * n_states)) // EIGHT * EIGHT
    together = min(max(together, _FEW), _MANY)
    for begin in range(0, q.shape[0], together):
        end = min(begin + together, q.shape[0])
        n_lanes = -(-(end - begin) // EIGHT) * EIGHT
        block = block_of(model, lanes[begin:end], n_lanes)
        now, before = _gathered(q[begin:end], n_lanes), _gathered(q_prev[begin:end], n_lanes)
        v, v_prev = aligned(n_states * n_lanes), aligned(n_states * n_lanes)
        if operator is None:
            _look_ahead(before, v_prev, v, block.w, block.n_lanes, model.offsets, 0.0, 0.0)  # only for max_u Q_{k-1}
        else:
            block_values(before, v, block.n_lanes, model.offsets, operator)
        # Two steps a turn with the roles exchanged: swapping arrays in a loop hides from the compiler that they differ.
        for i in range(0, n - 1, 2):
            one, two = _row(weights, i), _row(weights, i + 1)
            _iterate(now, before, v, v_prev, block, model, one, discount, k + i, seed, stream, operator)
            _iterate(before, now, v_prev, v, block, model, two, discount, k + i + 1, seed, stream, operator)
        if n % 2 == 1:
            one = _row(weights, n - 1)
            _iterate(now, before, v, v_prev, block, model, one, discount, k + n - 1, seed, stream, operator)
            now, before = before, now
        _scattered(now, n_lanes, q[begin:end])
        _scattered(before, n_lanes, q_prev[begin:end])
