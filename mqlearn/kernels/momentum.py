"""Linear features with momentum (Algorithm 2 of the paper in the four numbers of the template), in O(active features).

    theta_{k+1} = theta_k + v_{k+1},   v_{k+1} = beta_k v_k + h_k,   beta_k = -(b + t),   h_k = -s g_k - t g_{k-1}.

The gradient g has as many entries as features are active, but v moves all of theta in every iteration. A change of
variables avoids that. Over a segment a .. e of iterations let B_a = 1, B_{k+1} = beta_k B_k, and D_k = B_{k+1} + ... +
B_e. Then z = theta + (D/B) v and w = v/B change only where h_k does,

    z += h D_k/B_{k+1},   w += h/B_{k+1},   while   theta = z - D w.

So an iteration costs O(active features), whatever beta_k. Here are the plan of the segments and what one iteration
does; `linear` and `simulated` loop over it.
"""

from typing import NamedTuple

import numpy as np

from mqlearn.jit import compiled, inlined
from mqlearn.kernels.asynchronous import greedy_pair
from mqlearn.kernels.operators import state_value, target

# Columns of a plan: B_k, D_k, 1/B_{k+1}, D_k/B_{k+1}, what a unit of h_k adds to theta_{k+1} + ... + theta_e, B_{k+1}.
B, D, TO_W, TO_Z, TO_SUM, B_NEXT = range(6)


class Parameters(NamedTuple):
    """What is learned of L seeds with d features.

    theta, v: (L, d), theta_k and theta_k - theta_{k-1}.   sums: (L, d), theta_1 + ... + theta_k.   last: (L, 2), pair
    and temporal difference of the previous iteration; pair -1: none yet.
    """

    theta: np.ndarray
    v: np.ndarray
    sums: np.ndarray
    last: np.ndarray


class Features(NamedTuple):
    """Active features of the pairs: their columns (pairs, F) uint32 and values (pairs, F)."""

    active: np.ndarray
    values: np.ndarray


class Entries(NamedTuple):
    """`Features` as the loops read them: columns and values in one row, how many a pair, whether all are one 1."""

    columns: np.ndarray
    values: np.ndarray
    n_active: np.uint64
    ones: bool


class Options(NamedTuple):
    """same_sample: g_{k-1} is g at theta_{k-1} on the current sample, else the gradient of the previous iteration.

    zero_first: g_{-1} = 0, else g_{-1} = g_0.
    """

    same_sample: bool
    zero_first: bool


class Previous(NamedTuple):
    """Pair and temporal difference of the iteration before; pair -1: none."""

    pair: np.int64
    delta: float


@compiled
def entries(features):
    """`Features` as `Entries`."""
    active, values = features
    ones = active.shape[1] == 1
    for pair in range(values.shape[0]):
        ones &= values[pair, 0] == 1.0
    return Entries(active.reshape(active.size), values.reshape(values.size), np.uint64(active.shape[1]), ones)


# --- the plan -------------------------------------------------------------------------------------------------------


@compiled
def momentum_segments(weights, same_sample, plan, ends):
    """The segments of `weights` (n, 4): fills `plan` (n, 6 or more) and `ends` (n,), returns how many there are.

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
                plan[k, B] = 0.0
                plan[k, D] = 0.0
                plan[k, TO_W] = 1.0 if k == end - 1 else 0.0
                plan[k, TO_Z] = 1.0
                plan[k, TO_SUM] = end - k
                plan[k, B_NEXT] = 1.0
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
                plan[end, B] = b
                plan[end, B_NEXT] = following
                b = following
                end += 1
            d = 0.0
            sums = 0.0
            for k in range(end - 1, start - 1, -1):
                following = plan[k, B_NEXT]
                d += following
                sums += following * (end - k)
                plan[k, D] = d
                plan[k, TO_W] = 1.0 / following
                plan[k, TO_Z] = d / following
                plan[k, TO_SUM] = sums / following
        ends[n_segments] = end
        n_segments += 1
        start = end
    return n_segments


@compiled
def enter_segment(z, w, total, row, length):
    """From (theta, v) to (z, w) at the start of a segment, where B = 1 unless B = 0 says that v is forgotten.

    total: the sum of theta_1, theta_2, ..., to which the segment's `length` iterations are added in advance.
    """
    d = row[D]
    m = row[TO_SUM] * row[B_NEXT]
    if row[B] == 0.0:
        w[:] = 0.0
    for j in range(z.shape[0]):
        total[j] += length * z[j]
        total[j] += m * w[j]
        z[j] += d * w[j]


@compiled
def leave_segment(w, row):
    """From w to v after a segment, of which `row` is the last one; theta is z there already."""
    for j in range(w.shape[0]):
        w[j] *= row[B_NEXT]


# --- one iteration --------------------------------------------------------------------------------------------------


@inlined
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
    _ = columns.size + values.size + z.size + w.size  # as in `chain.move`
    return total


@inlined
def _largest_estimate(z, w, d, features, first, end):
    """max_v Phi(y, v)'theta over the pairs first .. end - 1, 0 where there are none."""
    columns, ones = features.columns, features.ones
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
    _ = features.columns.size + features.values.size + columns.size + z.size + w.size  # as in `chain.move`
    return best


@compiled
def _value_by(z, w, d, features, first, end, operator):
    """V of the state of pairs first .. end - 1, of an operator other than Bellman's."""
    values = np.empty(end - first)
    for pair in range(first, end):
        values[pair - first] = _estimate(z, w, d, features, pair)
    return state_value(values, values, np.uint64(0), end - first, operator)


@compiled
def _target_by(z, w, d, features, offsets, sample, operator):
    """The target of an operator other than Bellman's. Only those without s."""
    pair, y, reward = sample
    ahead = _value_by(z, w, d, features, offsets[y], offsets[y + np.uint64(1)], operator)
    here, own = 0.0, 0.0
    if operator.here != 0.0:
        x = operator.states[pair]
        here = _value_by(z, w, d, features, offsets[x], offsets[x + np.uint64(1)], operator)
    if operator.own != 0.0:
        own = _estimate(z, w, d, features, pair)
    return target(operator, reward, ahead, here, own, 0.0)


@inlined
def difference(z, w, d, features, offsets, sample, discount, operator):
    """Temporal difference Phi(pair)'theta - r - g max_v Phi(y, v)'theta with theta = z - d w; of an operator other than
    Bellman's, with its target."""
    pair, y, reward = sample
    if operator is None:
        ahead = _largest_estimate(z, w, d, features, offsets[y], offsets[y + np.uint64(1)])
        delta = _estimate(z, w, d, features, pair) - reward - discount * ahead
    else:
        wanted = _target_by(z, w, d, features, offsets, sample, operator)
        delta = _estimate(z, w, d, features, pair) - wanted
    return delta


@compiled
def greedy_estimate(z, w, d, features, scratch, offsets, x, k, lane, seed, stream, temperature=None):
    """`asynchronous.greedy_pair` for estimates; scratch (pairs,)."""
    for pair in range(offsets[x], offsets[x + np.uint64(1)]):
        scratch[pair] = _estimate(z, w, d, features, pair)
    return greedy_pair(scratch, offsets, x, k, lane, seed, stream, temperature)


@inlined
def _touch(z, w, total, features, pair, step, plan, i):
    """Add h = step Phi(pair) at row i of the plan."""
    columns, values, n_active, ones = features
    to_w = step * plan[i, TO_W]
    to_z = step * plan[i, TO_Z]
    to_total = step * plan[i, TO_SUM]
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
    _ = columns.size + values.size + z.size + w.size + total.size + plan.size  # as in `chain.move`


@inlined
def descend(z, w, total, plan, i, features, offsets, discount, previous, sample, s, t, options, operator):
    """The iteration of row i of the plan, once: from theta_k to theta_{k+1}. Returns the temporal difference.

    previous: `Previous`.   sample: `chain.Sample`.   s, t: of the rule's weights.   operator: None for Bellman's.
    No function is called here that is not inlined: it could raise, and references would be counted at every iteration.
    """
    d = plan[i, D]
    delta = difference(z, w, d, features, offsets, sample, discount, operator)
    step = -s * delta
    if options.same_sample:
        d_prev = d + plan[i, B]  # theta_{k-1} = theta_k - v_k = z - (D + B) w
        step -= t * difference(z, w, d_prev, features, offsets, sample, discount, operator)
    elif previous.pair < 0:
        if not options.zero_first:
            step -= t * delta
    elif t != 0.0:
        _touch(z, w, total, features, np.uint64(previous.pair), -t * previous.delta, plan, i)
    _touch(z, w, total, features, sample.pair, step, plan, i)
    # As in `chain.move`.
    _ = z.size + w.size + total.size + plan.size + features.columns.size + features.values.size + len(offsets)
    return delta
