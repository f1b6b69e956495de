"""Counts of what sampled pairs led to, from the samples that other rules learn from; exact plans on these counts.

A plan is policy iteration on the model that the counts make. Its systems are solved within the envelope of the model,
as in `exact`, for one seed at a time: seeds end after different numbers of improvements.
"""

import numpy as np

from mqlearn.jit import compiled, inlined
from mqlearn.kernels.exact import _envelope
from mqlearn.kernels.random import CHUNK, HALF, below, philox_steps
from mqlearn.kernels.successors import spread, sweep_words

_EPS = float(np.finfo(np.float64).eps)
_IMPROVEMENTS = 100  # of a plan; what it is worth then says its certified error


@compiled
def count_sweeps(counts, model, n, k, lanes, seed, stream):
    """Add the outcomes of all pairs in iterations k .. k + n - 1 to `counts` (L, pairs, B) int64.

    model: `successors.SweepModel`.   lanes: (L,) uint32 seed indices.   seed, stream: of the words.
    """
    n_outcomes, n_pairs = model.thresholds.shape
    if n_outcomes == 1:
        counts += n
        return
    each = model.counters.shape[0] // model.steps
    words, u = np.empty(4 * model.counters.shape[0], np.uint32), np.empty(model.room, np.uint32)
    beyond = np.empty((n_outcomes + 1, n_pairs), np.int64)  # draws of outcome b or a later one
    for lane in range(counts.shape[0]):
        beyond[:] = 0
        beyond[0] = n
        for done in range(0, n, model.steps):
            sweep_words(model.counters, model.ahead, 0, k + done, lanes[lane], seed, stream, words)
            for i in range(min(model.steps, n - done)):
                spread(words, 4 * each * i, model.reuse, model.powers, u)
                _add_sweep(beyond, model.thresholds, u)
        for pair in range(n_pairs):
            for b in range(n_outcomes):
                counts[lane, pair, b] += beyond[b, pair] - beyond[b + 1, pair]


@compiled(apart=True)
def _add_sweep(beyond, thresholds, u):
    """One draw of all pairs, by their words."""
    for b in range(1, thresholds.shape[0]):
        for pair in range(thresholds.shape[1]):
            beyond[b, pair] += np.int64(u[pair] >= thresholds[b, pair])


@compiled
def count_samples(counts, samples, counted, shift):
    """Add samples (L, n) to `counts` (L, pairs, B) int64, those whose `counted` (L, n) is not 0."""
    mask = (np.uint64(1) << shift) - np.uint64(1)
    for lane in range(samples.shape[0]):
        own = counts[lane]
        for i in range(samples.shape[1]):
            if counted[lane, i] != 0:
                transition = samples[lane, i] >> HALF
                own[transition >> shift, transition & mask] += 1


@compiled
def first_draws(seen, first, draws, k, lanes, seed, stream, out):
    """Whether iterations k, k + 1, ... draw a transition from the buffer that was never drawn before: `out` (L, n).

    seen: (L, capacity) int64, the step of the chain whose transition was drawn last from each place, plus 1.   first:
    steps of the chain before iteration 0.   draws: iterations for each further step. Which place is drawn follows
    from k and a word alone, as in `chain.move`.
    """
    words = np.empty((4, CHUNK), np.uint32)
    capacity = np.int64(seen.shape[1])
    for lane in range(out.shape[0]):
        for done in range(0, out.shape[1], CHUNK):
            n = min(CHUNK, out.shape[1] - done)
            philox_steps(k + done, n, lanes[lane], seed, stream, words)
            for i in range(n):
                steps = np.int64(first + (k + done + i) // draws + 1)  # the chain has made
                place = np.int64(below(words[3, i], np.uint64(min(steps, capacity))))
                step = steps - (steps - 1 - place) % capacity  # the last one that was written there, from 1 on
                out[lane, done + i] = np.uint8(seen[lane, place] != step)
                seen[lane, place] = step


@compiled
def plans(q, policy, counts, q0, model, discount):
    """Q* of the models that the counts make, into `q` (L, pairs); pairs without a count keep `q0` (L, pairs).

    policy: (L, states) int64, the pair of each state that the plan starts from and ends with, any at terminal ones.
    counts: (L, pairs, B).   model: `chain.Model`, whose successors and rewards the outcomes have.
    Returns bounds (L,) on the largest error of each plan, rounding included (Banach).
    """
    low, high = _envelope(model)
    n_states, n_pairs, n_outcomes = low.shape[0], q.shape[1], model.successors.shape[1]
    share, reward, seen = np.zeros((n_pairs, n_outcomes)), np.zeros(n_pairs), np.zeros(n_pairs, np.bool_)
    system, v, slack = np.empty((n_states, n_states)), np.empty(n_states), np.empty(n_states)
    errors = np.empty(q.shape[0])
    for lane in range(q.shape[0]):
        _estimate(share, reward, seen, counts[lane], model.rewards)
        table, chosen = q[lane], policy[lane]
        table[:] = q0[lane]
        for _ in range(_IMPROVEMENTS):
            _evaluate(system, v, chosen, share, reward, seen, q0[lane], model, low, high, discount)
            _back_up(table, slack, v, share, reward, seen, model, discount)
            if not _improve(chosen, table, slack, model.offsets):
                break
        # Among actions that are equal up to rounding the first: so the bits do not depend on where a plan began.
        if _settle(chosen, table, slack, model.offsets):
            _evaluate(system, v, chosen, share, reward, seen, q0[lane], model, low, high, discount)
            _back_up(table, slack, v, share, reward, seen, model, discount)
        errors[lane] = _certified(table, v, share, reward, seen, model, discount)
    return errors


@compiled
def _estimate(share, reward, seen, counts, rewards):
    """Shares of the outcomes (pairs, B) and mean rewards (pairs,) of the counts, and which pairs have any."""
    for pair in range(counts.shape[0]):
        total = 0
        for b in range(counts.shape[1]):
            total += counts[pair, b]
        seen[pair] = total > 0
        paid = 0.0
        for b in range(counts.shape[1]):
            share[pair, b] = counts[pair, b] / total if total > 0 else 0.0
            paid += counts[pair, b] * rewards[pair, b]
        reward[pair] = paid / total if total > 0 else 0.0


@compiled(apart=True)
def _evaluate(system, v, policy, share, reward, seen, q0, model, low, high, discount):
    """The values v (states,) of a policy: of (I - g P) v = r; a pair without a count is worth q0."""
    n_states = v.shape[0]
    for x in range(n_states):
        for y in range(np.int64(low[x]), np.int64(high[x]) + 1):
            system[x, y] = 0.0
        system[x, x] = 1.0
        v[x] = 0.0
        if model.offsets[x] < model.offsets[x + 1]:
            pair = policy[x]
            if seen[pair]:
                v[x] = reward[pair]
                for b in range(share.shape[1]):
                    system[x, model.successors[pair, b]] -= discount * share[pair, b]
            else:
                v[x] = q0[pair]
    # No pivot is looked for: the diagonal dominates, see `exact`.
    for x in range(n_states):
        for above in range(np.int64(low[x]), x):
            if system[x, above] != 0.0:
                factor = system[x, above] / system[above, above]
                for y in range(above + 1, np.int64(high[above]) + 1):
                    system[x, y] -= factor * system[above, y]
                v[x] -= factor * v[above]
    for back in range(1, n_states + 1):
        x = n_states - back
        for y in range(x + 1, np.int64(high[x]) + 1):
            v[x] -= system[x, y] * v[y]
        v[x] /= system[x, x]


@inlined
def _ahead(v, share, reward, model, discount, pair):
    """r + g E v(y) of a pair, and the size of what is added there."""
    total, size = 0.0, 0.0
    for b in range(share.shape[1]):
        value = share[pair, b] * v[model.successors[pair, b]]
        total += value
        size += abs(value)
    return reward[pair] + discount * total, abs(reward[pair]) + discount * size


@compiled
def _back_up(table, slack, v, share, reward, seen, model, discount):
    """T v into `table` (pairs,) where there are counts; into `slack` (states,) how far rounding tells ties apart."""
    for x in range(v.shape[0]):
        largest = 0.0
        for pair in range(model.offsets[x], model.offsets[x + 1]):
            size = abs(table[pair])
            if seen[pair]:
                table[pair], size = _ahead(v, share, reward, model, discount, pair)
            largest = max(largest, size)
        slack[x] = 64 * _EPS * largest


@compiled
def _improve(policy, table, slack, offsets):
    """The greedy policy, where it is better than the present one beyond rounding; whether it is anywhere."""
    improved = False
    for x in range(slack.shape[0]):
        if offsets[x] < offsets[x + 1]:
            best = policy[x]
            for pair in range(offsets[x], offsets[x + 1]):
                if table[pair] > table[best]:
                    best = np.int64(pair)
            if table[best] > table[policy[x]] + slack[x]:
                policy[x] = best
                improved = True
    return improved


@compiled
def _settle(policy, table, slack, offsets):
    """The first of the actions that are as good as the best up to rounding; whether any state has another than now."""
    changed = False
    for x in range(slack.shape[0]):
        if offsets[x] < offsets[x + 1]:
            largest = table[offsets[x]]
            for pair in range(offsets[x], offsets[x + 1]):
                largest = max(largest, table[pair])
            pair = np.int64(offsets[x])
            while table[pair] < largest - slack[x]:
                pair += 1
            changed = changed or pair != policy[x]
            policy[x] = pair
    return changed


@compiled
def _certified(table, v, share, reward, seen, model, discount):
    """A bound on the error of a table: the largest |T q - q| over 1 - g, rounding included; v becomes max q."""
    wrong, largest_sum = 0.0, 0.0
    for x in range(v.shape[0]):
        v[x] = 0.0
        if model.offsets[x] < model.offsets[x + 1]:
            v[x] = table[model.offsets[x]]
            for pair in range(model.offsets[x], model.offsets[x + 1]):
                v[x] = max(v[x], table[pair])
    terms = share.shape[1]
    for pair in range(table.shape[0]):
        if seen[pair]:
            value, size = _ahead(v, share, reward, model, discount, pair)
            wrong = max(wrong, abs(value - table[pair]) + (2 * terms + 6) * _EPS * size)
            total = 0.0
            for b in range(terms):
                total += share[pair, b]
            largest_sum = max(largest_sum, total)
    contraction = discount * largest_sum * (1 + (terms + 2) * _EPS)
    return wrong / (1 - contraction) if contraction < 1 else np.inf
