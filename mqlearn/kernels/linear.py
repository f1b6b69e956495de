"""Linear features from samples of a model: by the lazy form of `momentum`, or as the equation stands, projected."""

import numpy as np

from mqlearn.jit import compiled, inlined
from mqlearn.kernels.chain import (
    EPSILON_GREEDY,
    Packed,
    chain_words,
    enter,
    leave,
    move,
    pack,
    read,
)
from mqlearn.kernels.momentum import (
    TO_SUM,
    B,
    D,
    Previous,
    descend,
    difference,
    enter_segment,
    entries,
    greedy_estimate,
    leave_segment,
    momentum_segments,
)
from mqlearn.kernels.random import CHUNK


@compiled
def linear_from_samples(parameters, model, features, samples, weights, options, discount, operator=None):
    """Algorithm 2 in the four numbers `weights` (n, 4) from samples (L, n), in O(active features) an iteration.

    parameters: `Parameters`.   model: `chain.Model`.   features: `Features`.   options: `Options`.   operator:
    `operators.Operator`, or None.
    """
    offsets, successors, rewards, _, shift = model
    # All that `read` needs.
    reading = Packed(offsets, successors, rewards, shift, (np.uint64(1) << shift) - np.uint64(1))
    phi = entries(features)
    plan = np.empty((CHUNK, 6))
    ends = np.empty(CHUNK, np.int64)
    for done in range(0, weights.shape[0], CHUNK):
        some = weights[done : done + CHUNK]
        n_segments = momentum_segments(some, options.same_sample, plan, ends)
        for lane in range(parameters.theta.shape[0]):
            z, w, total = parameters.theta[lane], parameters.v[lane], parameters.sums[lane]
            last, own = parameters.last[lane], samples[lane, done : done + CHUNK]
            start = np.int64(0)  # of 0 alone numba would compile `_learn` once more, for nothing
            for segment in range(n_segments):
                end = ends[segment]
                enter_segment(z, w, total, plan[start], end - start)
                _learn(z, w, total, plan, some, phi, reading, discount, last, options, own, start, end, operator)
                leave_segment(w, plan[end - 1])
                start = end


@compiled
def _learn(z, w, total, plan, weights, phi, model, discount, last, options, samples, begin, end, operator):
    """The iterations of rows begin .. end - 1, of one segment; `last` (2,) keeps pair and temporal difference."""
    last_pair = np.int64(last[0])
    last_delta = last[1]
    first = np.uint64(begin)
    plain = operator is None and phi.ones
    if plain and end - begin > 1 and plan[begin, B] == 0.0 and not weights[begin:end, 3].any():
        # Nothing is carried on but by the last iteration.
        first = np.uint64(end - 1)
        last_delta = _descend_plainly(z, total, plan, weights, phi.columns, model, discount, samples, begin, first)
        last_pair = np.int64(read(samples[first - np.uint64(1)], model).pair)
    for i in range(first, np.uint64(end)):
        sample = read(samples[i], model)
        previous = Previous(last_pair, last_delta)
        s, t = weights[i, 2], weights[i, 3]
        last_delta = descend(
            z, w, total, plan, i, phi, model.offsets, discount, previous, sample, s, t, options, operator
        )  # fmt: skip
        last_pair = np.int64(sample.pair)
    last[0] = np.float64(last_pair)
    last[1] = last_delta


@compiled
def _descend_plainly(theta, total, plan, weights, columns, model, discount, samples, begin, end):
    """`descend` at rows begin .. end - 1 where theta moves by -s g_k alone, and a pair has one feature, of value 1."""
    offsets = model.offsets
    delta = 0.0
    for i in range(np.uint64(begin), np.uint64(end)):
        pair, y, reward = read(samples[i], model)
        ahead = _largest_parameter(theta, columns, offsets[y], offsets[y + np.uint64(1)])
        j = np.uint64(columns[pair])
        delta = theta[j] - reward - discount * ahead
        step = -weights[i, 2] * delta
        theta[j] += step
        total[j] += step * plan[i, TO_SUM]
    return delta


@inlined
def _largest_parameter(theta, columns, first, end):
    """max_v Phi(y, v)'theta where a pair has one feature, of value 1."""
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
    _ = theta.size + columns.size  # as in `chain.move`
    return best


@compiled
def linear_adaptive(parameters, model, chain, features, walks, weights, options, discount, k, operator=None):
    """`linear_from_samples` for chains that see what is learned: iterations k, k + 1, ..."""
    packed = pack(model)
    offsets = packed.offsets
    phi = entries(features)
    lanes, seed, streams = walks.lanes, walks.seed, walks.streams
    words = np.empty((8, CHUNK), np.uint32)
    plan = np.empty((CHUNK, 6))
    ends = np.empty(CHUNK, np.int64)
    scratch = np.empty(features.active.shape[0])
    for done in range(0, weights.shape[0], CHUNK):
        some = weights[done : done + CHUNK]
        n_segments = momentum_segments(some, options.same_sample, plan, ends)
        for lane in range(parameters.theta.shape[0]):
            z, w, total = parameters.theta[lane], parameters.v[lane], parameters.sums[lane]
            last = parameters.last[lane]
            state, buffer, visits = walks.states[lane], walks.buffers[lane], walks.visits[lane]
            first = k + done
            chain_words(chain, state, buffer, first, some.shape[0], lanes[lane], seed, streams, words)
            walk = enter(state, buffer)
            last_pair = np.int64(last[0])
            last_delta = last[1]
            start = 0
            for segment in range(n_segments):
                end = ends[segment]
                enter_segment(z, w, total, plan[start], end - start)
                for i in range(start, end):  # one loop: calls at every iteration would cost as much as the iteration
                    greedy = greedy_estimate(
                        z, w, plan[i, D], phi, scratch, offsets, walk.state, first + i, lanes[lane], seed, streams.ties,
                        chain.temperature,
                    )  # fmt: skip
                    walk, drawn = move(packed, chain, walk, buffer, visits, greedy, first + i, words, i)
                    sample = read(drawn, packed)
                    row = np.uint64(i)
                    previous = Previous(last_pair, last_delta)
                    s, t = some[row, 2], some[row, 3]
                    last_delta = descend(
                        z, w, total, plan, i, phi, offsets, discount, previous, sample, s, t, options, operator
                    )  # fmt: skip
                    last_pair = np.int64(sample.pair)
                leave_segment(w, plan[end - 1])
                start = end
            leave(state, walk)
            last[0] = np.float64(last_pair)
            last[1] = last_delta


@compiled
def _difference(z, w, d, features, offsets, sample, discount, operator):
    """`momentum.difference` where a call does no harm: it compiles once."""
    return difference(z, w, d, features, offsets, sample, discount, operator)


@compiled
def project(theta, v, radius):
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


@compiled
def linear_dense(parameters, model, chain, features, walks, weights, options, radius, discount, k, operator=None):
    """`linear_adaptive` as the equation stands, for any chain, in O(d) an iteration, projected on ||theta|| <= radius.

    The literal twin, and what runs when a projection is asked for.
    """
    offsets = model.offsets
    packed = pack(model)
    adaptive = chain.behaviour == EPSILON_GREEDY
    phi = entries(features)
    columns, values, n_active, _ = phi
    lanes, seed, streams = walks.lanes, walks.seed, walks.streams
    words = np.empty((8, CHUNK), np.uint32)
    theta_prev = np.empty(parameters.theta.shape[1])
    scratch = np.empty(features.active.shape[0])
    for done in range(0, weights.shape[0], CHUNK):
        n = min(CHUNK, weights.shape[0] - done)
        for lane in range(parameters.theta.shape[0]):
            theta, v, total = parameters.theta[lane], parameters.v[lane], parameters.sums[lane]
            last = parameters.last[lane]
            state, buffer, visits = walks.states[lane], walks.buffers[lane], walks.visits[lane]
            chain_words(chain, state, buffer, k + done, n, lanes[lane], seed, streams, words)
            walk = enter(state, buffer)
            last_pair = np.int64(last[0])
            last_delta = last[1]
            for i in range(n):
                greedy = np.uint64(0)
                if adaptive:
                    greedy = greedy_estimate(
                        theta, v, 0.0, phi, scratch, offsets, walk.state, k + done + i, lanes[lane], seed, streams.ties,
                        chain.temperature,
                    )  # fmt: skip
                walk, drawn = move(packed, chain, walk, buffer, visits, greedy, k + done + i, words, i)
                sample = read(drawn, packed)
                pair = sample.pair
                delta = _difference(theta, v, 0.0, phi, offsets, sample, discount, operator)
                s = weights[done + i, 2]
                t = weights[done + i, 3]
                beta = -(weights[done + i, 1] + t)
                step = -s * delta
                if options.same_sample:
                    for j in range(theta.shape[0]):
                        theta_prev[j] = theta[j] - v[j]
                    step -= t * _difference(theta_prev, v, 0.0, phi, offsets, sample, discount, operator)
                for j in range(theta.shape[0]):
                    v[j] *= beta
                if not options.same_sample:
                    if last_pair < 0:
                        if not options.zero_first:
                            step -= t * delta
                    else:
                        for f in range(np.uint64(last_pair) * n_active, np.uint64(last_pair + 1) * n_active):
                            v[columns[f]] -= t * last_delta * values[f]
                for f in range(pair * n_active, (pair + np.uint64(1)) * n_active):
                    v[columns[f]] += step * values[f]
                for j in range(theta.shape[0]):
                    theta[j] += v[j]
                project(theta, v, radius)
                for j in range(theta.shape[0]):
                    total[j] += theta[j]
                last_pair = np.int64(pair)
                last_delta = delta
            leave(state, walk)
            last[0] = np.float64(last_pair)
            last[1] = last_delta
