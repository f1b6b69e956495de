"""Every compiled function, in this one file: numba's cache notices edits of the file that it compiles, and of no other.

Conventions. A *lane* is one seed of a run; tables lie as (pairs, lanes), so that neighbouring numbers belong to
neighbouring seeds and the inner loops vectorise. No fastmath: a lane's numbers do not depend on which lanes
are computed beside it. Row numbers are unsigned, because a signed computed index stops numba's vectorisation.

Randomness is Philox4x32-10 (Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3"): a pure
function of key (seed, stream) and counter (word, k low, k high, seed index), four 32-bit words a call.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

# Streams of one seed, never to be renumbered: they decide every number that mqlearn computes.
STREAMS = {
    "synchronous": 0,
    "initial": 1,
    "chain": 2,
    "choices": 3,
    "warm_up": 4,
    "warm_up_choices": 5,
    "evaluation_uniform": 6,
    "evaluation_start": 7,
    "ties": 8,
    "simulator": 9,
}

_MULTIPLIER_0 = np.uint64(0xD2511F53)
_MULTIPLIER_1 = np.uint64(0xCD9E8D57)
_WEYL_0 = np.uint32(0x9E3779B9)
_WEYL_1 = np.uint32(0xBB67AE85)
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


def _compiled(function: Callable, nogil: bool = True, **options: Any) -> Any:
    """Compile without the GIL, cached on disk where a cache can be written (not in a read-only home).

    NumPy's error model: a division that may raise is a way out of a loop, on which references have to be counted.
    """
    try:
        return njit(nogil=nogil, error_model="numpy", cache=True, **options)(function)
    except RuntimeError:
        return njit(nogil=nogil, error_model="numpy", **options)(function)


def _compiled_short(function: Callable) -> Any:
    """For calls of a microsecond between steps in Python: there, giving up the GIL costs more than the call."""
    return _compiled(function, nogil=False)


def _apart() -> dict[str, Any]:
    """Options of numba for a function whose array arguments never overlap: LLVM then need not expect that they do.

    Numba has the flag but no option for it, so a compiler of our own sets it; a numba without it compiles as usual.
    """
    try:
        from numba.core.compiler import Compiler, Flags

        if "noalias" not in Flags.options:
            return {}
    except (ImportError, AttributeError):
        return {}

    class Apart(Compiler):
        def __init__(self, typingctx, targetctx, library, args, return_type, flags, locals):
            flags.noalias = True
            super().__init__(typingctx, targetctx, library, args, return_type, flags, locals)

    return {"pipeline_class": Apart}


@intrinsic
def _prefetch(context: Any, array: Any, index: Any) -> Any:
    """Ask for the line of memory of array[index], a uint64, and go on: only a load would wait for it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        place = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(8).as_pointer())
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [place.type, number, number, number])
        for_reading, near, data_cache = number(0), number(3), number(1)
        function = builder.module.declare_intrinsic("llvm.prefetch", [place.type], kind)
        builder.call(function, [place, for_reading, near, data_cache])
        return context.get_dummy_value()

    return types.void(array, types.uint64), generate


# Inlined by numba itself: left to LLVM, the call stays in the loop over lanes and keeps it from being vectorised.
@njit(inline="always")
def philox(c0, c1, c2, c3, key0, key1):
    """Four uniform 32-bit words for one counter (uint32 arguments)."""
    for _ in range(10):
        product0 = np.uint64(c0) * _MULTIPLIER_0
        product1 = np.uint64(c2) * _MULTIPLIER_1
        c0 = np.uint32(product1 >> _HALF) ^ c1 ^ key0
        c1 = np.uint32(product1)
        c2 = np.uint32(product0 >> _HALF) ^ c3 ^ key1
        c3 = np.uint32(product0)
        key0 = np.uint32(key0 + _WEYL_0)
        key1 = np.uint32(key1 + _WEYL_1)
    return c0, c1, c2, c3


@partial(_compiled, **_apart())
def philox_counters(words, first, k, lanes, seed, stream, out):
    """`philox` at the counters (words[i] + first, k, lanes[i]), into `out` (4, n) uint32; words, lanes (n,).

    Those are uint64, though 32 bits would do: so four counters fill a vector, not eight. Multiplying vectors of 512
    bits makes a processor slow down, and the updates between two calls with it.
    """
    k_low = np.uint32(k)
    k_high = np.uint32(k >> 32)
    out0, out1, out2, out3 = out[0], out[1], out[2], out[3]
    for i in range(words.shape[0]):
        word = np.uint32(words[i] + first)
        w0, w1, w2, w3 = philox(word, k_low, k_high, np.uint32(lanes[i]), seed, stream)
        out0[i] = w0
        out1[i] = w1
        out2[i] = w2
        out3[i] = w3


@partial(_compiled, **_apart())
def _look_ahead(q, v, v_prev, w, offsets, s_discount, t_discount):
    """One look-up a sample: w(y) = s g max_v Q_k(y, v) + t g max_v Q_{k-1}(y, v), once a state; max Q_k goes to v_prev.

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


@partial(_compiled, **_apart())
def _update_pairs(q, q_prev, w, words, row, column, target, model, w_q, w_prev, reward_weight, begin, end):
    """Q_{k+1} over `q_prev` for the pairs begin .. end - 1 (uint64), which share the words at `row` and `column`."""
    _, successors, rewards, thresholds, _, base = model
    n_lanes = q.shape[1]
    power = np.uint32(1)  # says which digit of the words has its turn
    for pair in range(begin, end):
        y0 = np.uint64(successors[pair, 0])
        r0 = reward_weight * rewards[pair, 0]
        for lane in range(n_lanes):
            target[lane] = w[y0, lane] + r0
        for b in range(1, successors.shape[1]):
            y = np.uint64(successors[pair, b])
            r = reward_weight * rewards[pair, b]
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


@partial(_compiled, **_apart())
def _update_pairs_of_three(q, q_prev, w, words, row, column, model, w_q, w_prev, reward_weight, begin, end):
    """`_update_pairs` with three successors, as on slippery ice: one pass over the lanes."""
    _, successors, rewards, thresholds, _, base = model
    n_lanes = q.shape[1]
    power = np.uint32(1)
    for pair in range(begin, end):
        y0 = np.uint64(successors[pair, 0])
        y1 = np.uint64(successors[pair, 1])
        y2 = np.uint64(successors[pair, 2])
        r0 = reward_weight * rewards[pair, 0]
        r1 = reward_weight * rewards[pair, 1]
        r2 = reward_weight * rewards[pair, 2]
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


@partial(_compiled, **_apart())
def _synchronous_step(q, q_prev, v, v_prev, scratch, model, weights, discount, k, seed, stream):
    """One iteration of all pairs: writes Q_{k+1} over `q_prev` and max_u Q_k over `v_prev`."""
    offsets, successors, _, _, reuse, _ = model
    w, target, counters, lanes, words = scratch
    w_q, w_prev, s, t = weights
    _look_ahead(q, v, v_prev, w, offsets, discount * s, discount * t)
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
            _update_pairs_of_three(q, q_prev, w, words, row, column, model, w_q, w_prev, s + t, begin, end)
        else:
            _update_pairs(q, q_prev, w, words, row, column, target, model, w_q, w_prev, s + t, begin, end)
        begin = end


@_compiled
def synchronous(q, q_prev, model, weights, discount, k, lanes, seed, stream):
    """Iterations k, k+1, ... of a rule of the four-number family, all pairs and lanes, one row of `weights` each.

    q, q_prev: (pairs, lanes), Q_k and Q_{k-1}; overwritten. After an even number of rows `q` holds the last iterate
    and `q_prev` the one before, after an odd number the other way round.
    model: (offsets (states + 1,) uint64, successors (pairs, B) uint32, rewards (pairs, B), thresholds (pairs, B)
    uint32, reuse, base). Successor b of a pair is taken when its 32-bit uniform lies in [threshold b, threshold b+1).
    With `reuse` > 1 the successors are equally likely, and one word serves that many pairs: u -> base u mod 2^32 moves
    to its next digit. With `reuse` 0 nothing is random.
    """
    n_states = model[0].shape[0] - 1
    n_pairs, n_lanes = q.shape
    v = np.zeros((n_states, n_lanes))
    v_prev = np.zeros((n_states, n_lanes))
    # Random words are made for many counters at once: the lanes of one are too few to fill vectors.
    n_counters = min(_COUNTERS, n_pairs // (4 * max(1, model[4])) + 1)
    counters, own = np.empty(n_counters * n_lanes, np.uint64), np.empty(n_counters * n_lanes, np.uint64)
    for i in range(n_counters * n_lanes):
        counters[i] = i // n_lanes
        own[i] = lanes[i % n_lanes]
    words = np.zeros((4, n_counters * n_lanes), np.uint32)
    scratch = (np.zeros((n_states, n_lanes)), np.zeros(n_lanes), counters, own, words)
    _look_ahead(q_prev, v_prev, v, scratch[0], model[0], 0.0, 0.0)  # only for the maxima of Q_{k-1}
    n = weights.shape[0]
    # Two steps a turn with the roles exchanged: swapping the arrays in a loop hides from the compiler that they differ.
    for i in range(0, n - 1, 2):
        now = (weights[i, 0], weights[i, 1], weights[i, 2], weights[i, 3])
        _synchronous_step(q, q_prev, v, v_prev, scratch, model, now, discount, k + i, seed, stream)
        now = (weights[i + 1, 0], weights[i + 1, 1], weights[i + 1, 2], weights[i + 1, 3])
        _synchronous_step(q_prev, q, v_prev, v, scratch, model, now, discount, k + i + 1, seed, stream)
    if n % 2 == 1:
        now = (weights[n - 1, 0], weights[n - 1, 1], weights[n - 1, 2], weights[n - 1, 3])
        _synchronous_step(q, q_prev, v, v_prev, scratch, model, now, discount, k + n - 1, seed, stream)


# --- one sample an iteration ---------------------------------------------------------------------------------------
#
# A transition is the number (pair << shift) | outcome; a sample is (transition << 32) | to, with `to` as in `_packed`.
# Buffers hold samples: what is drawn lies far apart, and looking its successor up would wait for memory once more.
# A lane's chain keeps six whole numbers:
# state, steps of this episode, steps of the chain, episodes ended, goals entered, transitions with a reward.
#
# model: (offsets (states + 1,) uint64, successors (pairs, B) uint32, rewards (pairs, B), thresholds (pairs, B) uint32,
#   shift).   chain: see `mqlearn.learning.sampling`, where it is built.

CHUNK = 4096  # iterations for which random words are made at a time
_COUNTERS = 32  # of random words that are made at a time for synchronous steps
_BATCH = 64  # moves of an evaluation episode, likewise
MARKOVIAN, REPLAY, IID = 0, 1, 2
UNIFORM, TABLE, EPSILON_GREEDY = 0, 1, 2
NO_STREAMS = (np.uint32(0), np.uint32(0), np.uint32(0))


@_compiled
def _philox_steps(k, n, lane, seed, stream, out):
    """`philox` at counter (0, k + i, lane) for i < n, into `out` (4, n or more)."""
    out0, out1, out2, out3 = out[0], out[1], out[2], out[3]
    for i in range(n):
        step = np.uint64(k + i)
        w0, w1, w2, w3 = philox(np.uint32(0), np.uint32(step), np.uint32(step >> _HALF), np.uint32(lane), seed, stream)
        out0[i] = w0
        out1[i] = w1
        out2[i] = w2
        out3[i] = w3


@njit(inline="always")
def _below(word, n):
    """A uniform whole number below n from a 32-bit word."""
    return (np.uint64(word) * np.uint64(n)) >> _HALF


@njit(inline="always")
def _epsilon(epsilon, k):
    """Exploration rate at iteration k: epsilon[0] to epsilon[1], linearly in epsilon[2] iterations; then constant."""
    return epsilon[0] + (epsilon[1] - epsilon[0]) * min(1.0, k / epsilon[2])


@_compiled
def _packed(model):
    """The model as the loops read it: (offsets, rows (pairs, 2 B - 1) uint32, rewards, shift, mask).

    A row holds the B successors, twice the state plus whether there is a reward, and the thresholds 1 .. B - 1: a step
    of a chain that roams a large model waits for one line of memory, not for three.
    """
    offsets, successors, rewards, thresholds, shift = model
    n_outcomes = successors.shape[1]
    rows = np.zeros((successors.shape[0], 2 * n_outcomes - 1), np.uint32)
    for pair in range(successors.shape[0]):
        for b in range(n_outcomes):
            rows[pair, b] = np.uint32(2 * np.uint64(successors[pair, b]) + np.uint64(rewards[pair, b] != 0.0))
        for b in range(1, n_outcomes):
            rows[pair, n_outcomes - 1 + b] = thresholds[pair, b]
    return offsets, rows, rewards, shift, (np.uint64(1) << shift) - np.uint64(1)


@_compiled
def _words(chain, state, buffer, k, n, lane, seed, streams, out):
    """The random words of a chain for iterations k .. k + n - 1, into `out` (8, n or more): four of each stream.

    What they will draw from a buffer lies far apart: it is asked for here, long before it is read.
    """
    mode, behaviour, restart = chain[0], chain[2], chain[7]
    _philox_steps(k, n, lane, seed, streams[0], out[:4])
    if mode == REPLAY or behaviour == EPSILON_GREEDY or restart > 0:
        _philox_steps(k, n, lane, seed, streams[1], out[4:])
    if mode == REPLAY:
        drawn = out[7]
        stored = min(np.uint64(state[2]), np.uint64(buffer.shape[0]))
        for i in range(n):
            _prefetch(buffer, _below(drawn[i], stored))  # pyright: ignore[reportCallIssue] numba gives the context


@njit(inline="always")
def _enter(state, buffer):
    """The six numbers of a chain, and the place in its buffer that comes next, as local variables."""
    steps = state[2]
    return np.uint64(state[0]), state[1], steps, state[3], state[4], state[5], np.uint64(steps % buffer.shape[0])


@njit(inline="always")
def _leave(state, now):
    """Write them back."""
    state[0] = np.int64(now[0])
    state[1], state[2], state[3], state[4], state[5] = now[1], now[2], now[3], now[4], now[5]


@njit(inline="always")
def _move(model, chain, now, buffer, visits, greedy, k, words, i):
    """Iteration k of a chain with the words of column i: its state afterwards, and the sample to learn from.

    greedy: the pair that a greedy behaviour chooses.
    """
    offsets, rows, _, shift, _ = model
    (
        mode, period, behaviour, edges, starts, keep, alias, restart, limit, epsilon, goal, pair_keep, pair_alias,
    ) = chain  # fmt: skip
    x, moves, steps, episodes, goals, paid, place = now
    pair, b, to = np.uint64(0), np.uint64(0), np.uint64(0)
    turn = mode != REPLAY or period == 1 or k % period == 0
    if turn:
        first = offsets[x]
        count = offsets[x + np.uint64(1)] - first
        if mode == IID:
            pair = _below(words[0, i], pair_keep.shape[0])
            if words[3, i] >= pair_keep[pair]:
                pair = np.uint64(pair_alias[pair])
        elif behaviour == TABLE:
            pair = first
            while pair + np.uint64(1) < first + count and words[0, i] >= edges[pair + np.uint64(1)]:
                pair += np.uint64(1)
        elif behaviour == UNIFORM or words[4, i] < _epsilon(epsilon, k) * 4294967296.0:
            pair = first + _below(words[0, i], count)
        else:
            pair = np.uint64(greedy)
        n_outcomes = (rows.shape[1] + 1) // 2
        word = words[1, i]
        if n_outcomes == 3:
            b = np.uint64(1) if word >= rows[pair, 3] else b
            b = np.uint64(2) if word >= rows[pair, 4] else b
        else:
            for c in range(1, n_outcomes):
                b = np.uint64(c) if word >= rows[pair, n_outcomes - 1 + c] else b
        to = np.uint64(rows[pair, b])
        y = to >> np.uint64(1)
        visits[pair] += 1
        steps += 1
        paid += np.int64(to & np.uint64(1))
        ended = offsets[y] == offsets[y + np.uint64(1)]
        if ended:
            if goal[y] != 0:
                goals += 1
        else:
            moves += 1
            # Neither a restart nor a time limit is a terminal state: the transition keeps its true successor.
            ended = (restart > 0 and words[5, i] < restart) or (limit > 0 and moves >= limit)
        if ended:
            episodes += 1
            moves = 0
            j = _below(words[2, i], starts.shape[0])
            x = np.uint64(starts[j]) if words[3, i] < keep[j] else np.uint64(starts[alias[j]])
        else:
            x = y
    sample = (((pair << shift) | b) << _HALF) | to
    if mode == REPLAY:
        capacity = np.uint64(buffer.shape[0])
        if turn:
            buffer[place] = sample
            place += np.uint64(1)
            if place == capacity:
                place = np.uint64(0)
        sample = buffer[_below(words[7, i], min(np.uint64(steps), capacity))]
    # Every array is named once more where all branches have met: else numba counts its references in each of them.
    _ = (
        offsets.size + rows.size + edges.size + starts.size + keep.size + alias.size + goal.size + pair_keep.size
        + pair_alias.size + buffer.size + visits.size + words.size
    )  # fmt: skip
    return (x, moves, steps, episodes, goals, paid, place), sample


@njit(inline="always")
def _read(sample, model):
    """Pair, next state and reward of a sample."""
    _, _, rewards, shift, mask = model
    pair = sample >> (_HALF + shift)
    reward = 0.0
    if sample & np.uint64(1):
        reward = rewards[pair, (sample >> _HALF) & mask]
    _ = rewards.size  # as in `_move`
    return pair, (sample & _LOW) >> np.uint64(1), reward


@_compiled
def samples(model, chain, states, buffers, visits, k, lanes, seed, streams, out):
    """What chains that do not see what is learned give to learn from in iterations k .. k + n - 1, into `out` (L, n).

    states: (L, 6).   buffers: (L, capacity) uint64 rings.   visits: (L, pairs) of the chains.   out: uint64 samples.
    """
    packed = _packed(model)
    words = np.empty((8, CHUNK), np.uint32)
    for lane in range(out.shape[0]):
        state, buffer, visited, own = states[lane], buffers[lane], visits[lane], out[lane]
        for done in range(0, own.shape[0], CHUNK):
            n = min(CHUNK, own.shape[0] - done)
            _words(chain, state, buffer, k + done, n, lanes[lane], seed, streams, words)
            now = _enter(state, buffer)
            for i in range(n):
                now, sample = _move(packed, chain, now, buffer, visited, np.uint64(0), k + done + i, words, i)
                own[done + i] = sample
            _leave(state, now)


@njit(inline="always")
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


@_compiled
def _greedy_pair(q, offsets, x, k, lane, seed, stream):
    """The pair that a greedy behaviour chooses at iteration k, equal ones by a word of a stream of their own."""
    best = offsets[x]
    ties = 1
    for pair in range(best + np.uint64(1), offsets[x + np.uint64(1)]):
        if q[pair] > q[best]:
            best = pair
            ties = 1
        elif q[pair] == q[best]:
            ties += 1
    if ties > 1:
        step = np.uint64(k)
        _, _, word, _ = philox(np.uint32(0), np.uint32(step), np.uint32(step >> _HALF), np.uint32(lane), seed, stream)
        left = _below(word, ties)
        largest = q[best]
        while left > 0:
            best += np.uint64(1)
            if q[best] == largest:
                left -= np.uint64(1)
    return best


@_compiled
def asynchronous_table(
    q, last, model, chain, states, buffers, visits, counts, weights, local, discount, k, n_all, lanes, seed, streams
):
    """Iterations k, k+1, ... of the `pair` form: the visited pair alone moves.

    Q_{k-1} is the table before the previous iteration; it differs from Q_k in one pair, which `last` remembers.
    q: (L, pairs).   last: (L, 2) pair and its value before.   states: (L, 6).   visits: (L, pairs) of the chain.
    counts: (L, pairs) updates of each pair; with `local` they are the clock: `weights` (rows, 4) then starts at count
    0, otherwise at iteration k.
    """
    offsets = model[0]
    packed = _packed(model)
    adaptive = chain[2] == EPSILON_GREEDY
    words = np.empty((8, CHUNK), np.uint32)
    for done in range(0, n_all, CHUNK):
        n = min(CHUNK, n_all - done)
        for lane in range(q.shape[0]):
            table, buffer, visited, count = q[lane], buffers[lane], visits[lane], counts[lane]
            _words(chain, states[lane], buffer, k + done, n, lanes[lane], seed, streams, words)
            now = _enter(states[lane], buffer)
            last_pair = np.uint64(last[lane, 0])
            last_value = last[lane, 1]
            for i in range(n):
                greedy = np.uint64(0)
                if adaptive:
                    greedy = _greedy_pair(table, offsets, now[0], k + done + i, lanes[lane], seed, streams[2])
                now, sample = _move(packed, chain, now, buffer, visited, greedy, k + done + i, words, i)
                pair, y, reward = _read(sample, packed)
                row = np.uint64(count[pair] if local else done + i)
                count[pair] += 1
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
                last_pair = pair
                last_value = value
            _leave(states[lane], now)
            last[lane, 0] = np.float64(last_pair)
            last[lane, 1] = last_value


@_compiled
def asynchronous_rounds(
    q, q_prev, sums, model, chain, states, buffers, visits, counts, rounds, wanted, weights, discount, k, n_all, lanes,
    seed, streams,
):  # fmt: skip
    """Rounds as in Azar et al. 2011: Q_k, Q_{k-1} rest, and each pair's targets are averaged, until all were visited.

    sums: (L, 2, pairs) of T Q_k and T Q_{k-1} in this round; counts: (L, pairs) visits in it.
    rounds: (L, 2) rounds ended, pairs still wanted.   wanted: (pairs,) the pairs that a round waits for.
    weights: (rounds that may end, 4), from round 0.
    """
    offsets = model[0]
    packed = _packed(model)
    adaptive = chain[2] == EPSILON_GREEDY
    words = np.empty((8, CHUNK), np.uint32)
    n_wanted = wanted.sum()
    for done in range(0, n_all, CHUNK):
        n = min(CHUNK, n_all - done)
        for lane in range(q.shape[0]):
            table, table_prev, buffer, visited, count = q[lane], q_prev[lane], buffers[lane], visits[lane], counts[lane]
            sum_now, sum_prev = sums[lane, 0], sums[lane, 1]
            _words(chain, states[lane], buffer, k + done, n, lanes[lane], seed, streams, words)
            now = _enter(states[lane], buffer)
            for i in range(n):
                greedy = np.uint64(0)
                if adaptive:
                    greedy = _greedy_pair(table, offsets, now[0], k + done + i, lanes[lane], seed, streams[2])
                now, sample = _move(packed, chain, now, buffer, visited, greedy, k + done + i, words, i)
                pair, y, reward = _read(sample, packed)
                sum_now[pair] += reward + discount * _largest(table, offsets, y)
                sum_prev[pair] += reward + discount * _largest(table_prev, offsets, y)
                if count[pair] == 0 and wanted[pair]:
                    rounds[lane, 1] -= 1
                count[pair] += 1
                if rounds[lane, 1] == 0:
                    row = rounds[lane, 0]
                    for j in range(table.shape[0]):
                        value = table[j]
                        if count[j] > 0:
                            target = weights[row, 2] * sum_now[j] + weights[row, 3] * sum_prev[j]
                            value = weights[row, 0] * table[j] + weights[row, 1] * table_prev[j] + target / count[j]
                        table_prev[j] = table[j]
                        table[j] = value
                        count[j] = 0
                        sum_now[j] = 0.0
                        sum_prev[j] = 0.0
                    rounds[lane, 0] += 1
                    rounds[lane, 1] = n_wanted
            _leave(states[lane], now)


# --- linear features ------------------------------------------------------------------------------------------------
#
# theta_{k+1} = theta_k + v_{k+1},   v_{k+1} = beta_k v_k + h_k,   beta_k = -(q + t),   h_k = -s g_k - t g_{k-1}:
# Algorithm 2 in the four numbers of the template. h_k has as many entries as features are active. With B_s = 1,
# B_{k+1} = beta_k B_k and D_k = B_{k+1} + ... + B_e over a segment s .. e of iterations, z = theta + (D/B) v and
# w = v/B change only where h_k does, z += h D_k/B_{k+1}, w += h/B_{k+1}, while theta = z - D w. So an iteration
# costs O(active features), whatever beta_k.


@_compiled
def momentum_segments(weights, same_sample, table, ends):
    """The change of variables for `weights` (n, 4): fills `table` (n, 6) and `ends` (n,), returns how many segments.

    table[k]: B_k, D_k, 1/B_{k+1}, D_k/B_{k+1}, M_k (what a unit of h_k adds to theta_{k+1} + ... + theta_e), B_{k+1}.
    A segment ends before B leaves [1e-190, 1e190] (h may reach 1e100, and h/B must not overflow) or D grows beyond 1e4
    (z - D w would lose digits). Where |beta| stays below 1e-17, v is the last h alone: there D = 0 and w counts only
    its last addition; B = 0 marks it.
    """
    n = weights.shape[0]
    n_segments = 0
    start = 0
    while start < n:
        end = start
        while end < n and abs(weights[end, 1] + weights[end, 3]) < 1e-17:
            if same_sample and weights[end, 3] != 0.0:
                break
            end += 1
        if end > start:
            for k in range(start, end):
                table[k, 0] = 0.0
                table[k, 1] = 0.0
                table[k, 2] = 1.0 if k == end - 1 else 0.0
                table[k, 3] = 1.0
                table[k, 4] = end - k
                table[k, 5] = 1.0
        else:
            b = 1.0
            total = 0.0
            while end < n:
                beta = -(weights[end, 1] + weights[end, 3])
                if abs(beta) < 1e-30:
                    beta = 1e-30  # forgets v all the same, and B stays invertible
                following = b * beta
                total += abs(following)
                if end > start and (abs(following) < 1e-190 or abs(following) > 1e190 or total > 1e4):
                    break
                table[end, 0] = b
                table[end, 5] = following
                b = following
                end += 1
            d = 0.0
            sums = 0.0
            for k in range(end - 1, start - 1, -1):
                following = table[k, 5]
                d += following
                sums += following * (end - k)
                table[k, 1] = d
                table[k, 2] = 1.0 / following
                table[k, 3] = d / following
                table[k, 4] = sums / following
        ends[n_segments] = end
        n_segments += 1
        start = end
    return n_segments


@njit(inline="always")
def _estimate(z, w, d, features, pair):
    """Phi(pair)'theta with theta = z - d w."""
    columns, values, n_active, ones = features
    at = pair * n_active
    j = np.uint64(columns[at])
    total = z[j] - d * w[j]
    if not ones:
        total *= values[at]
        for f in range(at + np.uint64(1), at + n_active):
            j = np.uint64(columns[f])
            total += values[f] * (z[j] - d * w[j])
    _ = columns.size + values.size + z.size + w.size  # as in `_move`
    return total


@njit(inline="always")
def _largest_estimate(z, w, d, features, first, end):
    """max_v Phi(y, v)'theta over the pairs first .. end - 1, 0 where there are none."""
    columns, ones = features[0], features[3]
    best = 0.0
    if first < end:
        best = _estimate(z, w, d, features, first)
    if ones:
        for pair in range(first + np.uint64(1), end):
            j = np.uint64(columns[pair])
            other = z[j] - d * w[j]
            best = other if other > best else best
    else:
        for pair in range(first + np.uint64(1), end):
            other = _estimate(z, w, d, features, pair)
            best = other if other > best else best
    _ = features[0].size + features[1].size + columns.size + z.size + w.size  # as in `_move`
    return best


@njit(inline="always")
def _difference(z, w, d, features, offsets, pair, y, reward, discount):
    """Temporal difference Phi(pair)'theta - r - g max_v Phi(y, v)'theta with theta = z - d w."""
    ahead = _largest_estimate(z, w, d, features, offsets[y], offsets[y + np.uint64(1)])
    return _estimate(z, w, d, features, pair) - reward - discount * ahead


@_compiled
def _difference_called(z, w, d, features, offsets, pair, y, reward, discount):
    """`_difference` where a call does no harm: it compiles once."""
    return _difference(z, w, d, features, offsets, pair, y, reward, discount)


@_compiled
def _entries(active, values):
    """Features as the loops read them: columns and values in one row, entries a pair, whether all are one single 1."""
    ones = active.shape[1] == 1
    for pair in range(values.shape[0]):
        ones &= values[pair, 0] == 1.0
    return active.reshape(active.size), values.reshape(values.size), np.uint64(active.shape[1]), ones


@_compiled
def _greedy_estimate(z, w, d, features, scratch, offsets, x, k, lane, seed, stream):
    """`_greedy_pair` for estimates; scratch (pairs,)."""
    for pair in range(offsets[x], offsets[x + np.uint64(1)]):
        scratch[pair] = _estimate(z, w, d, features, pair)
    return _greedy_pair(scratch, offsets, x, k, lane, seed, stream)


@_compiled
def linear_from_samples(theta, v, sums, last, model, features, samples, weights, options, discount):
    """Algorithm 2 in the four numbers from samples (L, n), in O(active features) an iteration.

    theta, v: (L, d), theta_k and theta_k - theta_{k-1}.   sums: (L, d), theta_1 + ... + theta_k.
    last: (L, 2) pair and temporal difference of the previous iteration; pair -1: none yet.
    features: (active (pairs, F) uint32, values (pairs, F)).
    options: (same_sample, zero_first): g_{k-1} is g at theta_{k-1} on the current sample, else the stored gradient;
    whether g_{-1} = 0, else g_{-1} = g_0.
    """
    offsets, successors, rewards, _, shift = model
    reading = (offsets, successors, rewards, shift, (np.uint64(1) << shift) - np.uint64(1))  # all that `_read` needs
    phi = _entries(features[0], features[1])
    table = np.empty((CHUNK, 6))
    ends = np.empty(CHUNK, np.int64)
    for done in range(0, weights.shape[0], CHUNK):
        some = weights[done : done + CHUNK]
        n_segments = momentum_segments(some, options[0], table, ends)
        for lane in range(theta.shape[0]):
            z, w, total, own = theta[lane], v[lane], sums[lane], samples[lane, done : done + CHUNK]
            start = 0
            for segment in range(n_segments):
                end = ends[segment]
                _enter_segment(z, w, total, table[start], end - start)
                _learn(z, w, total, table, some, phi, reading, discount, last[lane], options, own, start, end)
                _leave_segment(w, table[end - 1])
                start = end


@_compiled
def linear_adaptive(
    theta, v, sums, last, model, chain, features, states, buffers, visits, weights, options, discount, k, lanes, seed,
    streams,
):  # fmt: skip
    """`linear_from_samples` for chains that see what is learned (epsilon-greedy): iterations k, k + 1, ..."""
    packed = _packed(model)
    offsets = packed[0]
    phi = _entries(features[0], features[1])
    words = np.empty((8, CHUNK), np.uint32)
    table = np.empty((CHUNK, 6))
    ends = np.empty(CHUNK, np.int64)
    scratch = np.empty(features[0].shape[0])
    for done in range(0, weights.shape[0], CHUNK):
        some = weights[done : done + CHUNK]
        n_segments = momentum_segments(some, options[0], table, ends)
        for lane in range(theta.shape[0]):
            z, w, total, buffer, visited = theta[lane], v[lane], sums[lane], buffers[lane], visits[lane]
            first = k + done
            _words(chain, states[lane], buffer, first, some.shape[0], lanes[lane], seed, streams, words)
            now = _enter(states[lane], buffer)
            last_pair = np.int64(last[lane, 0])
            last_delta = last[lane, 1]
            start = 0
            for segment in range(n_segments):
                end = ends[segment]
                _enter_segment(z, w, total, table[start], end - start)
                for i in range(start, end):  # one loop: calls at every iteration would cost as much as the iteration
                    greedy = _greedy_estimate(
                        z, w, table[i, 1], phi, scratch, offsets, now[0], first + i, lanes[lane], seed, streams[2]
                    )
                    now, drawn = _move(packed, chain, now, buffer, visited, greedy, first + i, words, i)
                    sample = _read(drawn, packed)
                    row = np.uint64(i)
                    previous = (last_pair, last_delta)
                    s_t = (some[row, 2], some[row, 3])
                    last_delta = _descend(z, w, total, table, i, phi, offsets, discount, previous, sample, s_t, options)
                    last_pair = np.int64(sample[0])
                _leave_segment(w, table[end - 1])
                start = end
            _leave(states[lane], now)
            last[lane, 0] = np.float64(last_pair)
            last[lane, 1] = last_delta


@_compiled
def _enter_segment(z, w, total, row, length):
    """From (theta, v) to (z, w) at the start of a segment, where B = 1 unless B = 0 says that v is forgotten."""
    d = row[1]
    m = row[4] * row[5]
    if row[0] == 0.0:
        w[:] = 0.0
    for j in range(z.shape[0]):
        total[j] += length * z[j]
        total[j] += m * w[j]
        z[j] += d * w[j]


@_compiled
def _leave_segment(w, row):
    """From w to v after a segment, of which `row` is the last one; theta is z there already."""
    for j in range(w.shape[0]):
        w[j] *= row[5]


@njit(inline="always")
def _touch(z, w, total, features, pair, step, table, i):
    """Add h = step Phi(pair) at row i of the table."""
    columns, values, n_active, ones = features
    to_w = step * table[i, 2]
    to_z = step * table[i, 3]
    to_total = step * table[i, 4]
    at = pair * n_active
    if ones:
        j = np.uint64(columns[at])
        w[j] += to_w
        z[j] += to_z
        total[j] += to_total
    else:
        for f in range(at, at + n_active):
            j = np.uint64(columns[f])
            x = values[f]
            w[j] += x * to_w
            z[j] += x * to_z
            total[j] += x * to_total
    _ = columns.size + values.size + z.size + w.size + total.size + table.size  # as in `_move`


@njit(inline="always")
def _descend(z, w, total, table, i, phi, offsets, discount, previous, sample, s_t, options):
    """The iteration of row i of the table, once: from theta_k to theta_{k+1}. Returns the temporal difference.

    previous: pair and difference of iteration k - 1.   sample: pair, next state, reward.   s_t: of its weights.
    No function is called here that is not inlined: it could raise, and references would be counted at every iteration.
    """
    last_pair, last_delta = previous
    pair, y, reward = sample
    s, t = s_t
    same_sample, zero_first = options
    d = table[i, 1]
    delta = _difference(z, w, d, phi, offsets, pair, y, reward, discount)
    step = -s * delta
    if same_sample:
        d_prev = d + table[i, 0]  # theta_{k-1} = theta_k - v_k = z - (D + B) w
        step -= t * _difference(z, w, d_prev, phi, offsets, pair, y, reward, discount)
    elif last_pair < 0:
        if not zero_first:
            step -= t * delta
    elif t != 0.0:
        _touch(z, w, total, phi, np.uint64(last_pair), -t * last_delta, table, i)
    _touch(z, w, total, phi, pair, step, table, i)
    _ = z.size + w.size + total.size + table.size + phi[0].size + phi[1].size + len(offsets)  # as in `_move`
    return delta


@njit(inline="always")
def _largest_parameter(theta, columns, first, end):
    """`_largest_estimate` where a pair has one feature, of value 1."""
    best = 0.0
    if end - first == np.uint64(4):  # most grids: two comparisons wait for nothing
        a = theta[np.uint64(columns[first])]
        b = theta[np.uint64(columns[first + np.uint64(1)])]
        c = theta[np.uint64(columns[first + np.uint64(2)])]
        d = theta[np.uint64(columns[first + np.uint64(3)])]
        a = b if b > a else a
        c = d if d > c else c
        best = c if c > a else a
    elif first < end:
        best = theta[np.uint64(columns[first])]
        for pair in range(first + np.uint64(1), end):
            other = theta[np.uint64(columns[pair])]
            best = other if other > best else best
    _ = theta.size + columns.size  # as in `_move`
    return best


@_compiled
def _descend_plainly(theta, total, table, weights, columns, model, discount, samples, begin, end):
    """`_descend` at rows begin .. end - 1 where theta moves by -s g_k alone, and a pair has one feature, of value 1."""
    offsets = model[0]
    delta = 0.0
    for i in range(np.uint64(begin), np.uint64(end)):
        pair, y, reward = _read(samples[i], model)
        ahead = _largest_parameter(theta, columns, offsets[y], offsets[y + np.uint64(1)])
        j = np.uint64(columns[pair])
        delta = theta[j] - reward - discount * ahead
        step = -weights[i, 2] * delta
        theta[j] += step
        total[j] += step * table[i, 4]
    return delta


@_compiled
def _learn(z, w, total, table, weights, phi, model, discount, last, options, samples, begin, end):
    """The iterations of rows begin .. end - 1, of one segment; `last` (2,) keeps pair and temporal difference."""
    last_pair = np.int64(last[0])
    last_delta = last[1]
    first = np.uint64(begin)
    if end - begin > 1 and phi[3] and table[begin, 0] == 0.0 and not weights[begin:end, 3].any():
        # Nothing is carried on but by the last iteration.
        first = np.uint64(end - 1)
        last_delta = _descend_plainly(z, total, table, weights, phi[0], model, discount, samples, begin, first)
        last_pair = np.int64(_read(samples[first - np.uint64(1)], model)[0])
    for i in range(first, np.uint64(end)):
        sample = _read(samples[i], model)
        previous = (last_pair, last_delta)
        s_t = (weights[i, 2], weights[i, 3])
        last_delta = _descend(z, w, total, table, i, phi, model[0], discount, previous, sample, s_t, options)
        last_pair = np.int64(sample[0])
    last[0] = np.float64(last_pair)
    last[1] = last_delta


@_compiled
def _project(theta, v, radius):
    """theta_{k+1} onto the ball of this radius, and v_{k+1} with it; how much theta has been shrunk."""
    shrink = 1.0
    if radius < np.inf:
        norm = 0.0
        for j in range(theta.shape[0]):
            norm += theta[j] * theta[j]
        if norm > radius * radius:
            shrink = radius / np.sqrt(norm)
            for j in range(theta.shape[0]):
                before = theta[j] - v[j]
                theta[j] *= shrink
                v[j] = theta[j] - before
    return shrink


@_compiled
def linear_dense(
    theta, v, sums, last, model, chain, features, states, buffers, visits, weights, options, radius, discount, k, lanes,
    seed, streams,
):  # fmt: skip
    """`linear_adaptive` as the equation stands, for any chain, in O(d) an iteration, projected on ||theta|| <= radius.

    The literal twin, and what runs when a projection is asked for.
    """
    offsets = model[0]
    packed = _packed(model)
    adaptive = chain[2] == EPSILON_GREEDY
    phi = _entries(features[0], features[1])
    columns, values, n_active, _ = phi
    same_sample, zero_first = options
    words = np.empty((8, CHUNK), np.uint32)
    theta_prev = np.empty(theta.shape[1])
    scratch = np.empty(features[0].shape[0])
    for done in range(0, weights.shape[0], CHUNK):
        n = min(CHUNK, weights.shape[0] - done)
        for lane in range(theta.shape[0]):
            here, change, total, buffer, visited = theta[lane], v[lane], sums[lane], buffers[lane], visits[lane]
            _words(chain, states[lane], buffer, k + done, n, lanes[lane], seed, streams, words)
            now = _enter(states[lane], buffer)
            last_pair = np.int64(last[lane, 0])
            last_delta = last[lane, 1]
            for i in range(n):
                greedy = np.uint64(0)
                if adaptive:
                    greedy = _greedy_estimate(
                        here, change, 0.0, phi, scratch, offsets, now[0], k + done + i, lanes[lane], seed, streams[2]
                    )
                now, sample = _move(packed, chain, now, buffer, visited, greedy, k + done + i, words, i)
                pair, y, reward = _read(sample, packed)
                delta = _difference_called(here, change, 0.0, phi, offsets, pair, y, reward, discount)
                s = weights[done + i, 2]
                t = weights[done + i, 3]
                beta = -(weights[done + i, 1] + t)
                step = -s * delta
                if same_sample:
                    for j in range(here.shape[0]):
                        theta_prev[j] = here[j] - change[j]
                    step -= t * _difference_called(theta_prev, change, 0.0, phi, offsets, pair, y, reward, discount)
                for j in range(here.shape[0]):
                    change[j] *= beta
                if not same_sample:
                    if last_pair < 0:
                        if not zero_first:
                            step -= t * delta
                    else:
                        for f in range(np.uint64(last_pair) * n_active, np.uint64(last_pair + 1) * n_active):
                            change[columns[f]] -= t * last_delta * values[f]
                for f in range(pair * n_active, (pair + np.uint64(1)) * n_active):
                    change[columns[f]] += step * values[f]
                for j in range(here.shape[0]):
                    here[j] += change[j]
                _project(here, change, radius)
                for j in range(here.shape[0]):
                    total[j] += here[j]
                last_pair = np.int64(pair)
                last_delta = delta
            _leave(states[lane], now)
            last[lane, 0] = np.float64(last_pair)
            last[lane, 1] = last_delta


# --- simulators -----------------------------------------------------------------------------------------------------
#
# The same iterations where Gymnasium makes the steps. What is looked at are rows of three observations, A pairs each:
# two for the visited pairs of this iteration and the last one by turns, one for the next observation.

_NEXT, _TERMINAL = 2, 3


@_compiled
def lane_words(k, n, lane, seed, stream):
    """(4, n) words of a stream of one lane in iterations k .. k + n - 1."""
    out = np.empty((4, n), np.uint32)
    _philox_steps(k, n, lane, seed, stream, out)
    return out


@_compiled
def tile_columns(points, grid, tiles, out):
    """Tile coding: the active tile of each tiling at points (n, K), into `out` (n, tilings) int64.

    grid: (2 + tilings, K): lower end and width of the box, then the displacement of each tiling in tiles. A point
    outside the box is moved to its edge; one that is no number has the tile 0 and the result is False.
    """
    n_axes = points.shape[1]
    below_one = 1.0 - 2.0**-53
    sound = True  # whether all are numbers
    for i in range(points.shape[0]):
        for tiling in range(grid.shape[0] - 2):
            column = 0
            stride = 1
            for j in range(n_axes):
                x = (points[i, j] - grid[0, j]) / grid[1, j]
                if x != x:
                    sound = False
                x = min(x, below_one) if x > 0.0 else 0.0
                column += np.int64(x * tiles + grid[2 + tiling, j]) * stride
                stride *= tiles + 1
            out[i, tiling] = tiling * stride + column
    return sound


@_compiled_short
def momentum_plan(weights, same_sample, longest):
    """(n, 10): the rows of `momentum_segments`; s and t; length of the segment that begins here; whether it ends here.

    longest: iterations of a segment, at most.
    """
    n = weights.shape[0]
    plan = np.zeros((n, 10))
    ends = np.empty(n, np.int64)
    for done in range(0, n, longest):
        some = weights[done : done + longest]
        start = 0
        for segment in range(momentum_segments(some, same_sample, plan[done:], ends)):
            plan[done + start, 8] = ends[segment] - start
            plan[done + ends[segment] - 1, 9] = 1.0
            start = ends[segment]
    for i in range(n):
        plan[i, 6] = weights[i, 2]
        plan[i, 7] = weights[i, 3]
    return plan


@njit(inline="always")
def _spread(active, values, place, index, value, n_actions):
    """The features of one observation as rows of its pairs: feature i and action u are column i A + u."""
    for u in range(n_actions):
        row = place * n_actions + u
        for f in range(index.shape[0]):
            active[row, f] = index[f] * n_actions + u
            values[row, f] = value[f]


@_compiled_short
def simulated_linear(
    parameters, last, plan, rows, transitions, place, encoder, index, value, first, stop, discount, options, radius, k,
    lane, seed, stream,
):  # fmt: skip
    """Iterations of one lane from recorded transitions, in O(active features) each; returns what is greedy after them.

    parameters: (3, d) theta, v, sums as in `linear_from_samples`; (z, w, .) between the rows of a segment.
    last: (2,) as there.   plan: `momentum_plan` of the block.   rows: (active (3 A, F) uint32, values (3 A, F)).
    transitions: (n, 2 K + 3) observation, next one, action, reward, whether the next one is terminal.
    place: (1, K) where the greedy action is wanted.   encoder: (grid, tiles), see `tile_columns`; tiles 0: the features
    are in index, value (2 m + 1, F): those of m transitions, two each, and of `place`; otherwise value is constant and
    index scratch.   first, stop: iterations of the block.   radius: of the projection, which asks for segments of one
    iteration in the plan.   k, lane, seed, stream: where ties at `place` draw from.
    """
    grid, tiles = encoder
    active, values = rows
    n_axes = place.shape[1]
    n_actions = active.shape[0] // 3
    z, w, total = parameters[0], parameters[1], parameters[2]
    block = np.uint64(n_actions)
    offsets = (np.uint64(0), block, block * np.uint64(2), block * np.uint64(3), block * np.uint64(3))
    phi = (active.reshape(active.size), values.reshape(values.size), np.uint64(active.shape[1]), False)
    last_pair = np.int64(last[0])
    last_delta = last[1]
    for i in range(first, stop):
        a = 2 * (i - first)
        reward = transitions[i, 2 * n_axes + 1]
        if tiles > 0:
            a = 0
            points = transitions[i, : 2 * n_axes].reshape((2, n_axes))
            if not tile_columns(points, grid, tiles, index[:2]):
                reward = np.nan  # the observation is no number: neither is what is learned from it
        if plan[i, 8] > 0.0:
            _enter_segment(z, w, total, plan[i], plan[i, 8])
        here = 1 if 0 <= last_pair < n_actions else 0
        _spread(active, values, here, index[a], value[a], n_actions)
        y = np.uint64(_TERMINAL)
        if transitions[i, 2 * n_axes + 2] == 0.0:
            y = np.uint64(_NEXT)
            _spread(active, values, _NEXT, index[a + 1], value[a + 1], n_actions)
        pair = np.uint64(here * n_actions) + np.uint64(transitions[i, 2 * n_axes])
        previous = (last_pair, last_delta)
        s_t = (plan[i, 6], plan[i, 7])
        last_delta = _descend(
            z, w, total, plan, i, phi, offsets, discount, previous, (pair, y, reward), s_t, options
        )  # fmt: skip
        last_pair = np.int64(pair)
        if plan[i, 9] != 0.0:
            for j in range(w.shape[0]):
                w[j] *= plan[i, 5]
            shrink = _project(z, w, radius)
            if shrink != 1.0:
                for j in range(z.shape[0]):
                    total[j] -= z[j] / shrink - z[j]
    last[0] = np.float64(last_pair)
    last[1] = last_delta
    d = 0.0
    if stop < plan.shape[0]:
        if plan[stop, 8] > 0.0:
            _enter_segment(z, w, total, plan[stop], plan[stop, 8])
            plan[stop, 8] = 0.0  # it has been entered
        d = plan[stop, 1]
    at = 2 * (stop - first)
    if tiles > 0:
        at = 0
        tile_columns(place, grid, tiles, index[:1])
    _spread(active, values, _NEXT, index[at], value[at], n_actions)
    scratch = np.empty(active.shape[0])
    greedy = _greedy_estimate(z, w, d, phi, scratch, offsets, np.uint64(_NEXT), k, lane, seed, stream)
    return np.int64(greedy - np.uint64(_NEXT) * block)


# --- evaluation -----------------------------------------------------------------------------------------------------


@_compiled
def greedy_returns(values, model, goal, starts, keep, alias, episodes, limit, lanes, seed, stream, returns, goals):
    """Undiscounted return of greedy episodes on the model, equal best actions chosen uniformly anew at each visit.

    values: (L, pairs) estimates.   returns, goals: (L,) sums over `episodes` episodes of at most `limit` moves.
    An episode's randomness depends on its number and its lane alone.
    """
    offsets, rows, rewards, _, _ = _packed(model)
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
        for episode in range(episodes):
            counter = np.int64(episode) << np.int64(32)
            x = np.uint64(0)
            for move in range(limit + 1):
                i = move % _BATCH
                if i == 0:
                    n = min(_BATCH, limit + 1 - move)
                    _philox_steps(counter + move, n, lanes[lane], seed, stream, words)
                if move == 0:
                    j = _below(words[2, i], starts.shape[0])
                    x = np.uint64(starts[j]) if words[3, i] < keep[j] else np.uint64(starts[alias[j]])
                    continue
                pair = np.uint64(best[x])
                to = np.uint64(0)
                word = words[1, i]
                if ties[x] > 1:
                    left = _below(words[0, i], ties[x])
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


@_compiled
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


@_compiled
def _three_each(now, following, columns0, columns1, columns2, shares0, shares1, shares2):
    """following = P now, for rows of three entries."""
    for row in range(columns0.shape[0]):
        total = shares0[row] * now[np.uint64(columns0[row])]
        total += shares1[row] * now[np.uint64(columns1[row])]
        total += shares2[row] * now[np.uint64(columns2[row])]
        following[row] = total


@_compiled
def _three_alike(now, following, columns0, columns1, columns2, share0, share1, share2):
    """`_three_each` where all rows have the same shares, which then are not read anew for each."""
    for row in range(columns0.shape[0]):
        total = share0 * now[np.uint64(columns0[row])]
        total += share1 * now[np.uint64(columns1[row])]
        total += share2 * now[np.uint64(columns2[row])]
        following[row] = total
