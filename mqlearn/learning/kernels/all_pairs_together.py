"""Several rules on tables, all pairs in every iteration, from the same samples in one loop.

Which successor a pair goes to is drawn, and told from the others, once for all rules. Eight seeds at a time pass
through all iterations; row `pair` of a block holds the eight values of each rule side by side. Each rule has the
operations of `synchronous` in their order, and its bits.
"""

from typing import NamedTuple

import numpy as np

from mqlearn.jit import compiled, inlined
from mqlearn.learning.kernels.lanes import EIGHT, aligned, all_lanes, larger, load, mark, store, where
from mqlearn.learning.kernels.random import philox_counters
from mqlearn.learning.kernels.synchronous import block_of

_STEP = np.uint64(EIGHT)
_ONE, _FOUR = np.uint64(1), np.uint64(4)
# Rows of the numbers (5, R) of an iteration, which loops have as one row: of Q_k and Q_{k-1}; of both targets together;
# of either, times the discount.
_Q, _Q_PREV, _ST, _AHEAD, _AHEAD_PREV = (np.uint64(i) for i in range(5))


class _Tables(NamedTuple):
    """Blocks of all rules: q, q_prev (pairs x rules x 8,); v, v_prev, w (states x rules x 8,), as in `synchronous`."""

    q: np.ndarray
    q_prev: np.ndarray
    v: np.ndarray
    v_prev: np.ndarray
    w: np.ndarray


@compiled
def synchronous_together(q, q_prev, model, weights, discount, k, lanes, seed, stream):
    """Iterations k, k + 1, ... of all pairs and lanes by R rules, one row of `weights` (R, n, 4) each.

    q, q_prev: (R, L, pairs), Q_k and Q_{k-1}, which become Q_{k+n}, Q_{k+n-1}.   model: `synchronous.AllPairs`.
    lanes: (L,) uint32 seed indices.   seed, stream: uint32, where random words are drawn.
    """
    n_rules, n, n_states = q.shape[0], weights.shape[1], model.offsets.shape[0] - 1
    numbers, size = np.zeros(5 * n_rules), n_states * n_rules * EIGHT
    marks = np.zeros(EIGHT * model.successors.shape[1], np.int64)
    on_ice = _on_ice(model)
    for begin in range(0, q.shape[1] if n > 0 else 0, EIGHT):
        block = block_of(model, lanes[begin : begin + EIGHT], EIGHT)
        now, before = _gathered(q[:, begin : begin + EIGHT]), _gathered(q_prev[:, begin : begin + EIGHT])
        v, v_prev, w = aligned(size), aligned(size), aligned(size)
        numbers[:] = 0.0
        _look_ahead(before, v_prev, v, w, model.offsets, numbers, np.uint64(n_rules))  # only for max_u Q_{k-1}
        one, two = _Tables(now, before, v, v_prev, w), _Tables(before, now, v_prev, v, w)
        for i in range(n):
            _set(numbers, weights[:, i], discount)
            _iterate(one if i % 2 == 0 else two, block, model, on_ice, numbers, marks, k + i, seed, stream)
        if n % 2 == 1:
            now, before = before, now
        _scattered(now, q[:, begin : begin + EIGHT])
        _scattered(before, q_prev[:, begin : begin + EIGHT])


@compiled
def _on_ice(model):
    """Whether every pair has three successors and one reward, as on slippery ice with mean rewards."""
    successors, rewards = model.successors, model.rewards
    alike = successors.shape[1] == 3
    for pair in range(rewards.shape[0]):
        for b in range(1, rewards.shape[1]):
            alike &= rewards[pair, b] == rewards[pair, 0]
    return alike


@compiled
def _set(numbers, weights, discount):
    """The numbers of an iteration from the rules' weights (R, 4)."""
    n_rules = np.uint64(weights.shape[0])
    for rule in range(n_rules):
        q, q_prev, s, t = weights[rule, 0], weights[rule, 1], weights[rule, 2], weights[rule, 3]
        numbers[_Q * n_rules + rule], numbers[_Q_PREV * n_rules + rule] = q, q_prev
        numbers[_ST * n_rules + rule] = s + t
        numbers[_AHEAD * n_rules + rule], numbers[_AHEAD_PREV * n_rules + rule] = discount * s, discount * t


@compiled
def _iterate(tables, block, model, on_ice, numbers, marks, k, seed, stream):
    """One iteration of all pairs by all rules: writes Q_{k+1} over `q_prev` and max_u Q_k over `v_prev`."""
    q, q_prev, v, v_prev, w = tables
    n_rules = np.uint64(numbers.shape[0] // 5)
    _look_ahead(q, v, v_prev, w, model.offsets, numbers, n_rules)
    n_lanes, _, counters, lanes, words, flat = block
    n_pairs, width = np.uint64(model.successors.shape[0]), np.uint64(words.shape[1])
    # Whose turn it is among the words, as in `synchronous._iterate`: a function for both would count references.
    first, column, row = np.uint32(0), width, np.uint64(3)
    begin = np.uint64(0)
    while begin < n_pairs:
        end = n_pairs
        if model.reuse > 0:
            end = min(end, begin + np.uint64(model.reuse))
            row = (row + _ONE) & np.uint64(3)
            if row == 0:
                column += n_lanes
                if column >= width:
                    philox_counters(counters, first, k, lanes, seed, stream, words)
                    first = np.uint32(first + width // n_lanes)
                    column = np.uint64(0)
        at = np.uint64(0) if model.reuse == 0 else row * width + column
        if on_ice:
            _update_on_ice(q, q_prev, w, flat, at, marks, numbers, model, begin, end)
        else:
            _update(q, q_prev, w, flat, at, marks, numbers, model, begin, end)
        begin = end


@inlined
def _largest_of(q, at, row, n):
    """The largest of n >= 1 values of each lane, which lie a row apart from place `at` on."""
    largest = load(q, at)
    if n == _FOUR:  # as on grids: no loop
        largest = larger(largest, load(q, at + row))
        largest = larger(largest, load(q, at + row + row))
        largest = larger(largest, load(q, at + row + row + row))
    else:
        for i in range(_ONE, n):
            largest = larger(largest, load(q, at + i * row))
    return largest


@compiled(apart=True)
def _look_ahead(q, v, v_prev, w, offsets, numbers, n_rules):
    """`synchronous._look_ahead` of all rules."""
    row = n_rules * _STEP
    for x in range(np.uint64(offsets.shape[0] - 1)):
        first = offsets[x]
        end = offsets[x + _ONE]
        if first < end:
            for rule in range(n_rules):
                s = all_lanes(numbers[_AHEAD * n_rules + rule])
                t = all_lanes(numbers[_AHEAD_PREV * n_rules + rule])
                at = x * row + rule * _STEP
                largest = _largest_of(q, first * row + rule * _STEP, row, end - first)
                store(v_prev, at, largest)
                store(w, at, s * largest + t * load(v, at))


@compiled(apart=True)
def _update_on_ice(q, q_prev, w, words, at, marks, numbers, model, begin, end):
    """`_update` where `_on_ice`."""
    _, successors, rewards, thresholds, _, base = model
    digit, n_rules = np.uint32(1), np.uint64(numbers.shape[0] // 5)
    for pair in range(begin, end):
        u = load(words, at) * all_lanes(digit)
        mark(marks, np.uint64(0), u, all_lanes(thresholds[pair, 1]))
        mark(marks, _STEP, u, all_lanes(thresholds[pair, 2]))
        y0, y1, y2 = successors[pair, 0], successors[pair, 1], successors[pair, 2]
        _move_on_ice(q, q_prev, w, marks, numbers, n_rules, pair, y0, y1, y2, rewards[pair, 0])
        digit = np.uint32(digit * base)


@compiled(apart=True)
def _move_on_ice(q, q_prev, w, marks, numbers, n_rules, pair, y0, y1, y2, reward):
    """Q_{k+1} over `q_prev` of a pair by all rules."""
    row = n_rules * _STEP
    own, y0, y1, y2 = pair * row, np.uint64(y0) * row, np.uint64(y1) * row, np.uint64(y2) * row
    for rule in range(n_rules):
        lane = rule * _STEP
        ahead = where(marks, np.uint64(0), load(w, y1 + lane), load(w, y0 + lane))
        ahead = where(marks, _STEP, load(w, y2 + lane), ahead)
        target = ahead + all_lanes(numbers[_ST * n_rules + rule] * reward)
        _add(q, q_prev, own + lane, numbers, n_rules, rule, target)


@compiled(apart=True)
def _update(q, q_prev, w, words, at, marks, numbers, model, begin, end):
    """Q_{k+1} over `q_prev` for the pairs begin .. end - 1 (uint64), which share the words from place `at`."""
    _, successors, rewards, thresholds, _, base = model
    digit, n_rules = np.uint32(1), np.uint64(numbers.shape[0] // 5)  # whose turn it is of the digits of a word
    for pair in range(begin, end):
        u = load(words, at) * all_lanes(digit)
        for b in range(_ONE, np.uint64(successors.shape[1])):
            mark(marks, b * _STEP, u, all_lanes(thresholds[pair, b]))
        _move(q, q_prev, w, marks, numbers, n_rules, pair, successors, rewards)
        digit = np.uint32(digit * base)


@compiled(apart=True)
def _move(q, q_prev, w, marks, numbers, n_rules, pair, successors, rewards):
    """Q_{k+1} over `q_prev` of a pair by all rules."""
    row = n_rules * _STEP
    for rule in range(n_rules):
        lane, st = rule * _STEP, numbers[_ST * n_rules + rule]
        target = load(w, np.uint64(successors[pair, 0]) * row + lane) + all_lanes(st * rewards[pair, 0])
        for b in range(_ONE, np.uint64(successors.shape[1])):
            other = load(w, np.uint64(successors[pair, b]) * row + lane) + all_lanes(st * rewards[pair, b])
            target = where(marks, b * _STEP, other, target)
        _add(q, q_prev, pair * row + lane, numbers, n_rules, rule, target)


@inlined
def _add(q, q_prev, at, numbers, n_rules, rule, target):
    """`synchronous._move` of one rule."""
    old = all_lanes(numbers[_Q * n_rules + rule]) * load(q, at)
    store(q_prev, at, old + all_lanes(numbers[_Q_PREV * n_rules + rule]) * load(q_prev, at) + target)


@compiled
def _gathered(q):
    """Tables (R, n, pairs) of n <= 8 seeds as a block: (pairs x R x 8,); what is beyond the last seed is that one."""
    n_rules, n = q.shape[0], q.shape[1]
    block = aligned(q.shape[2] * n_rules * EIGHT)
    for pair in range(q.shape[2]):
        for rule in range(n_rules):
            for lane in range(EIGHT):
                block[(pair * n_rules + rule) * EIGHT + lane] = q[rule, min(lane, n - 1), pair]
    return block


@compiled
def _scattered(block, q):
    """The other way."""
    n_rules = q.shape[0]
    for rule in range(n_rules):
        for lane in range(q.shape[1]):
            for pair in range(q.shape[2]):
                q[rule, lane, pair] = block[(pair * n_rules + rule) * EIGHT + lane]
