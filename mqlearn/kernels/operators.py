"""Operators other than Bellman's: targets of five numbers and V, a formula of a state's values.

    target(x, u, y) = reward r + ahead V(y) + here V(x) + own Q(x, u) + common s

Kernels that know operators take one as their last argument. None is Bellman's: a type of its own, for which they are
compiled apart.
"""

from typing import Any, NamedTuple

import numpy as np

from mqlearn.algorithms.operators import Numbers
from mqlearn.formulas import call_slopes, call_value
from mqlearn.jit import compiled, inlined

NONE, MEAN, LEAST = 0, 1, 2

target: Any = inlined(Numbers.target)


class Operator(NamedTuple):
    """An operator on a model.

    greedy: whether V is the largest value; else `value` and `slopes` are the addresses of its formula, see
    `mqlearn.formulas`.   reward .. common: the five numbers.   scalar: what s is, NONE to LEAST; `terminals`: whether
    terminal states, of V 0, count for the least.   states: (pairs,) uint64, whose pairs these are.
    """

    greedy: bool
    value: Any
    slopes: Any
    reward: float
    ahead: float
    here: float
    own: float
    common: float
    scalar: int
    terminals: bool
    states: np.ndarray


@inlined
def _greedy(by, first, end):
    """The first greedy pair of a state that has some."""
    greedy = first
    for pair in range(first + np.uint64(1), end):
        greedy = pair if by[pair] > by[greedy] else greedy
    _ = by.size  # as in `chain.move`
    return greedy


@compiled
def state_value(q, by, first, end, operator):
    """V from the values q[first] .. q[end - 1] of a state, 0 if there are none.

    by: q itself, but for rules that choose by another table.
    """
    if first >= end:
        return 0.0
    if not operator.greedy:
        return call_value(operator.value, q, by, first, np.int64(end - first))
    return q[_greedy(by, first, end)]


@compiled
def table_values(q, by, offsets, operator, v):
    """V of all states (S,) of a table q (pairs,), into v."""
    for x in range(np.uint64(v.shape[0])):
        v[x] = state_value(q, by, offsets[x], offsets[x + np.uint64(1)], operator)


@compiled(apart=True)
def largest_values(q, offsets, fours, v):
    """max_u q(x, u) of all states, Bellman's V, into v (S,), where that of states without pairs stays.

    fours: of a `successors.SweepModel`.
    """
    for j in range(np.uint64(fours.shape[0])):  # two comparisons wait for nothing, and no state is asked what it has
        first = np.uint64(4) * j
        a, b = q[first], q[first + np.uint64(1)]
        c, d = q[first + np.uint64(2)], q[first + np.uint64(3)]
        a = b if b > a else a
        c = d if d > c else c
        v[fours[j]] = c if c > a else a
    for x in range(np.uint64(0 if fours.shape[0] > 0 else v.shape[0])):
        first = offsets[x]
        end = offsets[x + np.uint64(1)]
        if first < end:
            largest = q[first]
            for pair in range(first + np.uint64(1), end):
                largest = q[pair] if q[pair] > largest else largest
            v[x] = largest


@compiled(apart=True)
def greedy_values(q, by, offsets, fours, v):
    """The same where another table chooses: q at the greedy pairs of `by`."""
    for j in range(np.uint64(fours.shape[0])):
        first = np.uint64(4) * j
        a, b = by[first], by[first + np.uint64(1)]
        c, d = by[first + np.uint64(2)], by[first + np.uint64(3)]
        of_a, of_b = q[first], q[first + np.uint64(1)]
        of_c, of_d = q[first + np.uint64(2)], q[first + np.uint64(3)]
        of_a = of_b if b > a else of_a
        of_c = of_d if d > c else of_c
        a = b if b > a else a
        c = d if d > c else c
        v[fours[j]] = of_c if c > a else of_a
    for x in range(np.uint64(0 if fours.shape[0] > 0 else v.shape[0])):
        first = offsets[x]
        end = offsets[x + np.uint64(1)]
        if first < end:
            v[x] = q[_greedy(by, first, end)]


@compiled
def greedy_pairs(by, offsets, pairs):
    """The greedy pair of each state, -1 where there are none, into `pairs` (S,) int64."""
    for x in range(np.uint64(pairs.shape[0])):
        first = offsets[x]
        end = offsets[x + np.uint64(1)]
        pairs[x] = np.int64(_greedy(by, first, end)) if first < end else -1


@compiled
def scalar_of(q, v, offsets, operator):
    """s of a table q (pairs,) with V of its states (S,), which only the least V looks at."""
    if operator.scalar == NONE:
        return 0.0
    if operator.scalar == MEAN:
        total = 0.0
        for pair in range(q.shape[0]):
            total += q[pair]
        return total / q.shape[0]
    least = np.inf
    for x in range(np.uint64(offsets.shape[0] - 1)):
        if operator.terminals or offsets[x] < offsets[x + np.uint64(1)]:
            least = min(least, v[x])
    return least


@compiled
def target_of(q, by, offsets, pair, y, reward, operator):
    """The target of one transition at a table q (pairs,), greedy in `by`."""
    ahead = state_value(q, by, offsets[y], offsets[y + np.uint64(1)], operator)
    here, own, s = 0.0, 0.0, 0.0
    if operator.here != 0.0:
        x = operator.states[pair]
        here = state_value(q, by, offsets[x], offsets[x + np.uint64(1)], operator)
    if operator.own != 0.0:
        own = q[pair]
    if operator.scalar != NONE:
        v = np.empty(offsets.shape[0] - 1 if operator.scalar == LEAST else 0)
        table_values(q, by, offsets, operator, v)
        s = scalar_of(q, v, offsets, operator)
    return target(operator, reward, ahead, here, own, s)


@compiled
def learn_by(table, last_pair, last_value, offsets, pair, y, reward, weights, operator):
    """One transition by the four numbers `weights`; returns the value that the pair had before.

    last_pair, last_value: where Q_{k-1} differs from Q_k, and what it holds there.
    """
    value = table[pair]
    change = weights[0] * value
    change += weights[2] * target_of(table, table, offsets, pair, y, reward, operator)
    if weights[1] != 0.0 or weights[3] != 0.0:
        present = table[last_pair]
        table[last_pair] = last_value  # for a moment, the table is Q_{k-1}
        change += weights[1] * table[pair]
        if weights[3] != 0.0:
            change += weights[3] * target_of(table, table, offsets, pair, y, reward, operator)
        table[last_pair] = present
    table[pair] = change
    return value


# --- derivatives in a table q (pairs,) ------------------------------------------------------------------------------


@compiled
def state_slopes(q, first, end, operator, slopes):
    """dV/dq of a state, into slopes[first] .. slopes[end - 1]; at a maximum that of the first greedy pair."""
    if first >= end:
        return
    if not operator.greedy:
        call_slopes(operator.slopes, q, slopes, first, np.int64(end - first))
        return
    slopes[first:end] = 0.0
    slopes[_greedy(q, first, end)] = 1.0


@compiled
def add_target_slopes(to, factor, slopes, offsets, pair, y, operator):
    """to += factor dT/dq of the target T of one transition, but for s. slopes: right at y and at the pair's state."""
    for other in range(offsets[y], offsets[y + np.uint64(1)]):
        to[other] += factor * operator.ahead * slopes[other]
    if operator.here != 0.0:
        x = operator.states[pair]
        for other in range(offsets[x], offsets[x + np.uint64(1)]):
            to[other] += factor * operator.here * slopes[other]
    if operator.own != 0.0:
        to[pair] += factor * operator.own


@compiled
def common_slopes(q, offsets, operator, slopes):
    """common ds/dq, into slopes (pairs,): even for a mean, that of the state of least V, the first if some tie."""
    slopes[:] = 0.0
    if operator.scalar == MEAN:
        slopes[:] = operator.common / q.shape[0]
    if operator.scalar != LEAST:
        return
    least, z = np.inf, np.uint64(0)
    for x in range(np.uint64(offsets.shape[0] - 1)):
        first = offsets[x]
        end = offsets[x + np.uint64(1)]
        if first < end or operator.terminals:
            v = state_value(q, q, first, end, operator)
            z = x if v < least else z
            least = min(least, v)
    state_slopes(q, offsets[z], offsets[z + np.uint64(1)], operator, slopes)
    slopes *= operator.common


# --- linear features ------------------------------------------------------------------------------------------------


@compiled
def estimates(theta, columns, values, n_active, offsets, x, out):
    """Phi(x, u)'theta of the pairs of state x, into their places of out (pairs,)."""
    for pair in range(offsets[x], offsets[x + np.uint64(1)]):
        at = pair * n_active
        total = theta[np.uint64(columns[at])] * values[at]
        for f in range(at + np.uint64(1), at + n_active):
            total += values[f] * theta[np.uint64(columns[f])]
        out[pair] = total


# --- all pairs of a block of seeds: row `pair` of a table holds the values of all lanes -----------------------------


@compiled
def block_values(q, v, n_lanes, offsets, operator):
    """V of every state and lane, into v (states x lanes,); that of terminal states stays."""
    own = np.empty(0)  # the values of a state
    for x in range(np.uint64(offsets.shape[0] - 1)):
        first = offsets[x]
        end = offsets[x + np.uint64(1)]
        if first == end:
            continue
        at = x * n_lanes
        if not operator.greedy:
            if own.shape[0] < end - first:
                own = np.empty(np.int64(end - first))
            for lane in range(n_lanes):
                for pair in range(first, end):
                    own[pair - first] = q[pair * n_lanes + lane]
                v[at + lane] = call_value(operator.value, own, own, np.uint64(0), np.int64(end - first))
            continue
        for lane in range(n_lanes):
            v[at + lane] = q[first * n_lanes + lane]
        for pair in range(first + np.uint64(1), end):
            for lane in range(n_lanes):
                other = q[pair * n_lanes + lane]
                v[at + lane] = other if other > v[at + lane] else v[at + lane]


@compiled
def look_ahead_by(q, q_prev, v, v_prev, w, n_lanes, offsets, s, t, operator):
    """What a successor adds to a target, W = ahead (s V_k + t V_{k-1}) + common (s s_k + t s_{k-1}), once a state.

    v: V of Q_{k-1}; that of Q_k goes to v_prev. At terminal states the first term is 0.
    """
    block_values(q, v_prev, n_lanes, offsets, operator)
    for i in range(w.shape[0]):
        w[i] = operator.ahead * (s * v_prev[i] + t * v[i])
    if operator.scalar != NONE:
        step = np.int64(n_lanes)
        for lane in range(n_lanes):
            at = np.int64(lane)
            both = s * (operator.common * scalar_of(q[at::step], v_prev[at::step], offsets, operator))
            both += t * (operator.common * scalar_of(q_prev[at::step], v[at::step], offsets, operator))
            for x in range(np.uint64(w.shape[0]) // n_lanes):
                w[x * n_lanes + lane] += both


@compiled
def add_own_state(q, v, v_prev, n_lanes, s, t, operator):
    """here (s V_k + t V_{k-1}) of each pair's own state, added to a block q; v: V of Q_{k-1}, v_prev: of Q_k."""
    for pair in range(np.uint64(operator.states.shape[0])):
        at = operator.states[pair] * n_lanes
        for lane in range(n_lanes):
            q[pair * n_lanes + lane] += operator.here * (s * v_prev[at + lane] + t * v[at + lane])
