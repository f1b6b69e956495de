"""Up to four rules on linear features from the same samples, in one loop: of rules that move by -s_k g_k alone.

An iteration of one rule waits for memory and for its own last step, and looks its sample up; four of them wait and look
up once. Their parameters lie side by side, four of a column in one vector, so each rule has the operations of
`linear._descend_plainly` in their order, and its bits.
"""

import numpy as np

from mqlearn.jit import compiled
from mqlearn.kernels.chain import Packed, read
from mqlearn.kernels.lanes import FOUR, aligned, four_alike, larger_four, load_four, store_four
from mqlearn.kernels.random import CHUNK

_FOUR = np.uint64(FOUR)
_ONE = np.uint64(1)


@compiled
def linear_together(theta, v, sums, last, model, columns, samples, steps, discount):
    """Iterations of four rules whose pairs have one feature each, of value 1, from samples (L, n).

    theta, v, sums, last: `momentum.Parameters` as tuples of one array a rule.   model: `chain.Model`.   columns:
    (pairs,) uint32.   steps: (n, 4), -s_k of each rule.
    """
    offsets, successors, rewards, _, shift = model
    reading = Packed(offsets, successors, rewards, shift, (_ONE << shift) - _ONE)
    n_features, n = theta[0].shape[1], samples.shape[1]
    z, total = aligned(FOUR * n_features), aligned(FOUR * n_features)
    delta, step, flat = aligned(FOUR), aligned(FOUR), steps.reshape(steps.size)
    for lane in range(samples.shape[0] if n > 0 else 0):
        for rule in range(FOUR):
            _spread(z, theta[rule][lane], rule)
            _spread(total, sums[rule][lane], rule)
        for done in range(0, n, CHUNK):
            end = min(done + CHUNK, n)
            _add_in_advance(total, z, end - done)
            _descend(z, total, reading, columns, samples[lane], flat, discount, done, end, delta, step)
        pair = read(samples[lane, n - 1], reading).pair
        for rule in range(FOUR):
            _gather(theta[rule][lane], z, rule)
            _gather(sums[rule][lane], total, rule)
            v[rule][lane, :] = 0.0
            v[rule][lane, columns[pair]] += step[rule]
            last[rule][lane, 0] = np.float64(pair)
            last[rule][lane, 1] = delta[rule]


@compiled(apart=True)
def _spread(wide, narrow, rule):
    for j in range(narrow.shape[0]):
        wide[FOUR * j + rule] = narrow[j]


@compiled(apart=True)
def _gather(narrow, wide, rule):
    for j in range(narrow.shape[0]):
        narrow[j] = wide[FOUR * j + rule]


@compiled(apart=True)
def _add_in_advance(total, z, length):
    """`momentum.enter_segment` where v is forgotten."""
    for j in range(z.shape[0]):
        total[j] += length * z[j]


@compiled(apart=True)
def _descend(z, total, model, columns, samples, steps, discount, begin, end, delta, step):
    """Iterations begin .. end - 1; the last temporal differences and steps go to `delta`, `step` (4,)."""
    offsets, zero, g = model.offsets, four_alike(0.0), four_alike(discount)
    change, difference = zero, zero
    for i in range(np.uint64(begin), np.uint64(end)):
        pair, y, reward = read(samples[i], model)
        first, stop = offsets[y], offsets[y + _ONE]
        best = zero
        if stop - first == _FOUR:
            a = load_four(z, np.uint64(columns[first]) * _FOUR)
            b = load_four(z, np.uint64(columns[first + _ONE]) * _FOUR)
            c = load_four(z, np.uint64(columns[first + np.uint64(2)]) * _FOUR)
            d = load_four(z, np.uint64(columns[first + np.uint64(3)]) * _FOUR)
            best = larger_four(larger_four(a, b), larger_four(c, d))
        elif first < stop:
            best = load_four(z, np.uint64(columns[first]) * _FOUR)
            for other in range(first + _ONE, stop):
                best = larger_four(best, load_four(z, np.uint64(columns[other]) * _FOUR))
        j = np.uint64(columns[pair]) * _FOUR
        own = load_four(z, j)
        difference = own - four_alike(reward) - g * best
        change = load_four(steps, i * _FOUR) * difference
        store_four(z, j, own + change)
        store_four(total, j, load_four(total, j) + change * four_alike(np.float64(np.uint64(end) - i)))
    store_four(delta, np.uint64(0), difference)
    store_four(step, np.uint64(0), change)
