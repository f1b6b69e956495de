"""Sums over the powers of a greedy policy's chain, v <- R + P v, for models of many states, one policy at a time.

Two of them: the probability of a goal within so many moves, where R = 0 and v stays 1 at goals, and the expected
undiscounted return. Of the first, where the reward of a move is that probability of entering a goal, the discounted
value follows: v_t - v_{t-1} is the reward of move t, so

    V = sum_t g^{t-1} (v_t - v_{t-1}) = (1 - g) (v_1 + g v_2 + ... + g^{N-1} v_N) + g^N v_N + rest,

all terms of one sign, where 0 <= rest <= g^N / (1 - g) max (v_N - v_{N-1}), the maximum over the states that the
policy reaches from the start: they are closed under P.

Of a grid, P has few rows that are not like the one before: four states side by side with the same action lead to
states side by side. These rows are one vector operation, in the order of operations of a row by itself.
"""

from typing import NamedTuple

import numpy as np

from mqlearn.jit import compiled
from mqlearn.kernels.exact import successors_of
from mqlearn.kernels.lanes import FOUR, four_alike, load_four, store_four

_LOOK = 64  # moves between looks at whether anything changes still
_PATTERNS = 8  # of shares that fours may have
_THREE = 3  # entries of their rows
_SMALL = 1e-14  # of the value: what its rest may be


class _Rows(NamedTuple):
    """P row by row: entries first[x] .. first[x + 1] - 1 of `columns` and `shares` are those of state x."""

    first: np.ndarray
    columns: np.ndarray
    shares: np.ndarray


class _Fours(NamedTuple):
    """Rows as `_move` reads them.

    at, columns0 to columns2: (m,) uint32, first of four states, and of the states that each of their three outcomes
    leads to; those with the shares `patterns` (p, 3) of number i end before ends[i].   others: the states of all other
    rows.
    """

    at: np.ndarray
    columns0: np.ndarray
    columns1: np.ndarray
    columns2: np.ndarray
    ends: np.ndarray
    patterns: np.ndarray
    others: np.ndarray


@compiled
def successes(q, model, probabilities, goal, steps, starts, start, discount, most):
    """(L, S): probability to reach a goal in at most `steps` moves, under the greedy policies of tables q (L, pairs),
    uniform among equal best actions; (L,): discounted value at the start, where the reward is 1 on entering a goal.

    model: `chain.Model`.   probabilities: (pairs, B).   goal: (states,) uint8.   starts, start: first states (uint32)
    that are not terminal, and their shares.   discount: 0 for no value, which then is 0; a value so small that its last
    digits would take more than `most` moves is NaN.
    """
    n_states = goal.shape[0]
    reached, values = np.empty((q.shape[0], n_states)), np.zeros(q.shape[0])
    shares, open_states = np.empty(q.shape[1]), np.empty(n_states, np.uint8)
    for lane in range(q.shape[0]):
        _greedy_shares(q[lane], model.offsets, shares)
        rows = _outcome_rows(shares, model, probabilities, goal)
        fours = _fours(rows)
        _reachable(open_states, rows, starts)
        now = goal.astype(np.float64)
        following = now.copy()
        weight, total, change, before = 1.0, 0.0, 0.0, 0.0
        t = 0
        while True:
            if t == steps:
                reached[lane] = now
            if t >= steps and discount == 0.0:
                break
            if t >= steps and t > 0 and t % _LOOK == 0:
                rest, small = weight / (1.0 - discount) * change, _SMALL * ((1.0 - discount) * total + weight * before)
                further = np.log(rest / small) / -np.log(discount) if small > 0.0 else np.float64(t)
                if rest > small and t + further > most:
                    before = np.nan
                if not rest > small or np.isnan(before):
                    break
            _move(following, now, None, rows, fours)
            now, following = following, now
            t += 1
            if discount > 0.0:
                before = 0.0
                for i in range(starts.shape[0]):
                    before += start[i] * now[starts[i]]
                total += weight * before
                weight *= discount
            if t % _LOOK == 0:
                change, same = _changes(now, following, open_states)
                if same:  # nothing will change any more
                    if t <= steps:
                        reached[lane] = now
                    break
        if discount > 0.0:
            values[lane] = (1.0 - discount) * total + weight * before
    return reached, values


@compiled
def returns_of_many(q, model, limit):
    """`exact.expected_returns`, the same bits; quicker where eight policies leave the cache."""
    first, successors, places = successors_of(model)
    n_states = first.shape[0] - 1
    shares, chain, reward = np.empty(q.shape[1]), np.empty(successors.shape[0]), np.empty(n_states)
    returns = np.zeros(q.shape[0])
    for lane in range(q.shape[0]):
        _greedy_shares(q[lane], model.offsets, shares)
        chain[:] = 0.0
        reward[:] = 0.0
        for x in range(n_states):
            for pair in range(model.offsets[x], model.offsets[x + 1]):
                if shares[pair] > 0.0:
                    reward[x] += shares[pair] * model.rewards[pair]
                    for b in range(places.shape[1]):
                        chain[places[pair, b]] += shares[pair] * model.probabilities[pair, b]
        rows = _without_zeros(first, successors, chain)
        fours = _fours(rows)
        now, following = np.zeros(n_states), np.zeros(n_states)
        for _ in range(limit):
            _move(following, now, reward, rows, fours)
            now, following = following, now
        for x in range(n_states):
            returns[lane] += model.start[x] * now[x]
    return returns


# --- the chain of a policy ------------------------------------------------------------------------------------------


@compiled
def _greedy_shares(table, offsets, shares):
    """Probabilities of the pairs under the greedy policy of a table, into `shares` (pairs,)."""
    for x in range(offsets.shape[0] - 1):
        first, end = offsets[x], offsets[x + 1]
        if first < end:
            largest, ties = table[first], 0
            for pair in range(first + np.uint64(1), end):
                largest = max(largest, table[pair])
            for pair in range(first, end):
                ties += table[pair] == largest
            for pair in range(first, end):
                shares[pair] = 1.0 / ties if table[pair] == largest else 0.0


@compiled
def _outcome_rows(shares, model, probabilities, goal):
    """P in the order of pairs and outcomes; goals have no row."""
    n_states, n_outcomes = goal.shape[0], np.int64(probabilities.shape[1])
    first, size = np.zeros(n_states + 1, np.int64), 0
    for x in range(n_states):
        if goal[x] == 0:
            for pair in range(model.offsets[x], model.offsets[x + 1]):
                size += n_outcomes * (shares[pair] > 0.0)
        first[x + 1] = size
    columns, entries, n = np.empty(size, np.uint32), np.empty(size), 0
    for x in range(n_states):
        if goal[x] == 0:
            for pair in range(model.offsets[x], model.offsets[x + 1]):
                if shares[pair] > 0.0:
                    for b in range(n_outcomes):
                        columns[n] = model.successors[pair, b]
                        entries[n] = shares[pair] * probabilities[pair, b]
                        n += 1
    return _Rows(first, columns, entries)


@compiled
def _without_zeros(first, successors, chain):
    """P from its entries by place, without those that are 0."""
    n_states = first.shape[0] - 1
    kept, n = np.zeros(n_states + 1, np.int64), 0
    columns, entries = np.empty(chain.shape[0], np.uint32), np.empty(chain.shape[0])
    for x in range(n_states):
        for place in range(first[x], first[x + 1]):
            if chain[place] != 0.0:
                columns[n] = successors[place]
                entries[n] = chain[place]
                n += 1
        kept[x + 1] = n
    return _Rows(kept, columns, entries)


@compiled
def _fours(rows):
    """`_Fours` of rows: what can be done four at a time, the rest one by one."""
    n_states = rows.first.shape[0] - 1
    at, kind = np.empty(n_states, np.uint32), np.empty(n_states, np.int64)
    others, patterns, sizes = (
        np.empty(n_states, np.uint32),
        np.empty((_PATTERNS, _THREE)),
        np.zeros(_PATTERNS, np.int64),
    )
    m, n_others, n_patterns, x = 0, 0, 0, 0
    while x < n_states:
        if rows.first[x] == rows.first[x + 1]:
            x += 1
            continue
        found = -1
        if _side_by_side(rows, x):
            entry = rows.first[x]
            found = 0
            while found < n_patterns and not (
                patterns[found, 0] == rows.shares[entry]
                and patterns[found, 1] == rows.shares[entry + 1]
                and patterns[found, 2] == rows.shares[entry + 2]
            ):
                found += 1
            if found == n_patterns and n_patterns < _PATTERNS:
                patterns[n_patterns] = rows.shares[entry : entry + _THREE]
                n_patterns += 1
        if 0 <= found < n_patterns:
            at[m] = x
            kind[m] = found
            sizes[found] += 1
            m += 1
            x += FOUR
        else:
            others[n_others] = x
            n_others += 1
            x += 1
    ends = np.cumsum(sizes[:n_patterns])
    places = ends - sizes[:n_patterns]
    sorted_at, columns = np.empty(m, np.uint32), np.empty((_THREE, m), np.uint32)
    columns0, columns1, columns2 = columns[0], columns[1], columns[2]
    for i in range(m):
        place = places[kind[i]]
        places[kind[i]] += 1
        sorted_at[place] = at[i]
        for entry in range(_THREE):
            columns[entry, place] = rows.columns[rows.first[at[i]] + entry]
    return _Fours(sorted_at, columns0, columns1, columns2, ends, patterns[:n_patterns].copy(), others[:n_others].copy())


@compiled
def _side_by_side(rows, x):
    """Whether states x .. x + 3 have three entries each, with the same shares, and columns that go on by one."""
    first, columns, shares = rows
    if x + FOUR >= first.shape[0]:
        return False
    begin = first[x]
    for i in range(FOUR):
        if first[x + i + 1] - first[x + i] != _THREE:
            return False
        for entry in range(_THREE):
            here = begin + i * _THREE + entry
            if columns[here] != columns[begin + entry] + i or shares[here] != shares[begin + entry]:
                return False
    return True


@compiled
def _reachable(seen, rows, starts):
    """Marks (states,) uint8 of what a chain with these rows can reach from the starts."""
    seen[:] = 0
    left, n = np.empty(seen.shape[0], np.uint32), 0
    for x in starts:
        if seen[x] == 0:
            seen[x] = 1
            left[n] = x
            n += 1
    while n > 0:
        n -= 1
        x = left[n]
        for entry in range(rows.first[x], rows.first[x + 1]):
            y = rows.columns[entry]
            if rows.shares[entry] > 0.0 and seen[y] == 0:
                seen[y] = 1
                left[n] = y
                n += 1


# --- one move -------------------------------------------------------------------------------------------------------


@compiled
def _move(following, now, right, rows, fours):
    """following = right + P now; `right` None: without."""
    begin = 0
    for i in range(fours.ends.shape[0]):
        end, pattern = fours.ends[i], fours.patterns[i]
        at, columns0 = fours.at[begin:end], fours.columns0[begin:end]
        columns1, columns2 = fours.columns1[begin:end], fours.columns2[begin:end]
        _move_fours(following, now, right, at, columns0, columns1, columns2, pattern[0], pattern[1], pattern[2])
        begin = end
    _move_others(following, now, right, fours.others, rows.first, rows.columns, rows.shares)


@compiled(apart=True)
def _move_fours(following, now, right, at, columns0, columns1, columns2, share0, share1, share2):
    a, b, c = four_alike(share0), four_alike(share1), four_alike(share2)
    for i in range(np.uint64(at.shape[0])):
        x = np.uint64(at[i])
        total = a * load_four(now, np.uint64(columns0[i]))
        if right is not None:
            total = load_four(right, x) + total
        total = total + b * load_four(now, np.uint64(columns1[i]))
        total = total + c * load_four(now, np.uint64(columns2[i]))
        store_four(following, x, total)


@compiled(apart=True)
def _move_others(following, now, right, others, first, columns, shares):
    for i in range(np.uint64(others.shape[0])):
        x = np.uint64(others[i])
        total = 0.0
        if right is not None:
            total = right[x]
        for entry in range(np.uint64(first[x]), np.uint64(first[x + np.uint64(1)])):
            total += shares[entry] * now[np.uint64(columns[entry])]
        following[x] = total


@compiled
def _changes(now, before, counted):
    """The largest change at the states that count, and whether there is none at any state."""
    change, same = 0.0, True
    for x in range(now.shape[0]):
        same &= now[x] == before[x]
        if counted[x] != 0:
            change = max(change, now[x] - before[x])
    return change, same
