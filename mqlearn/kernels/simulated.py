"""Linear features where Gymnasium makes the steps: the iterations of `linear` from recorded transitions.

What an iteration looks at are rows of three observations, A pairs each: two for the visited pairs of this iteration and
the last one by turns, one for the next observation.
"""

from pathlib import Path

import numpy as np

from mqlearn.jit import compiled, inlined
from mqlearn.kernels.chain import Sample
from mqlearn.kernels.linear import project
from mqlearn.kernels.momentum import (
    B_NEXT,
    D,
    Entries,
    Options,
    Previous,
    descend,
    enter_segment,
    greedy_estimate,
    momentum_segments,
)
from mqlearn.problems import tiles
from mqlearn.problems.tiles import tile_columns

_TILES = Path(str(tiles.__file__)).read_bytes()  # what is compiled into `simulated_linear` from elsewhere
_S, _T, _LENGTH, _ENDS = range(6, 10)  # further columns of a plan: see `momentum_plan`
_NEXT, _TERMINAL = 2, 3  # numbers of observations


@compiled(short=True)
def momentum_plan(weights, same_sample, longest):
    """(n, 10): the plan of `momentum`; s and t; length of the segment that begins here; whether it ends here.

    longest: iterations of a segment, at most.
    """
    n = weights.shape[0]
    plan = np.zeros((n, 10))
    ends = np.empty(n, np.int64)
    for done in range(0, n, longest):
        some = weights[done : done + longest]
        start = 0
        for segment in range(momentum_segments(some, same_sample, plan[done:], ends)):
            plan[done + start, _LENGTH] = ends[segment] - start
            plan[done + ends[segment] - 1, _ENDS] = 1.0
            start = ends[segment]
    for i in range(n):
        plan[i, _S] = weights[i, 2]
        plan[i, _T] = weights[i, 3]
    return plan


@inlined
def _spread(rows, observation, index, value, n_actions):
    """The features of one observation as rows of its pairs: feature i and action u are column i A + u."""
    active, values = rows
    for u in range(n_actions):
        row = observation * n_actions + u
        for f in range(index.shape[0]):
            active[row, f] = index[f] * n_actions + u
            values[row, f] = value[f]


@compiled(short=True, depends=_TILES)
def simulated_linear(
    parameters,
    last,
    rows,
    recorded,
    encoder,
    index,
    value,
    first,
    stop,
    discount,
    options,
    radius,
    k,
    lane,
    seed,
    stream,
    operator,
    temperature,
):
    """Iterations of one lane from recorded transitions, in O(active features) each; returns what is greedy after them.

    Called at every step of a walk that sees what is learned, where handing over named tuples would cost a quarter of
    the step: tuples are plain here. parameters: (3, d) theta, v, sums, see `momentum.Parameters`; (z, w, .) between the
    rows of a segment.   last: (2,) as there.   rows: columns (3 A, F) uint32 and values (3 A, F), see above.
    recorded: `plan` of the block, see `momentum_plan`; transitions (n, 2 K + 3), each an observation, the next one,
    action, reward, whether the next one is terminal; `place` (1, K), where the greedy action is wanted.   encoder:
    `grid` and `tiles` of `tile_columns`; tiles 0: another encoding.   index, value: (2 m + 1, F), the features of m
    transitions, two each, and of `place`; with tile coding index is scratch and value is constant.   first, stop:
    iterations of the block. options: see `momentum.Options`.   radius: of the projection, which asks for segments of
    one iteration in the plan. k, lane, seed, stream: where ties at `place` draw from.   operator: None for Bellman's.
    temperature: see `asynchronous.greedy_pair`.
    """
    plan, transitions, place = recorded
    grid, tiles = encoder
    options = Options(options[0], options[1])
    active, values = rows
    n_axes = place.shape[1]
    n_actions = active.shape[0] // 3
    z, w, total = parameters[0], parameters[1], parameters[2]
    block = np.uint64(n_actions)
    offsets = (np.uint64(0), block, block * np.uint64(2), block * np.uint64(3), block * np.uint64(3))
    phi = Entries(active.reshape(active.size), values.reshape(values.size), np.uint64(active.shape[1]), False)
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
        if plan[i, _LENGTH] > 0.0:
            enter_segment(z, w, total, plan[i], plan[i, _LENGTH])
        here = 1 if 0 <= last_pair < n_actions else 0
        _spread(rows, here, index[a], value[a], n_actions)
        y = np.uint64(_TERMINAL)
        if transitions[i, 2 * n_axes + 2] == 0.0:
            y = np.uint64(_NEXT)
            _spread(rows, _NEXT, index[a + 1], value[a + 1], n_actions)
        sample = Sample(np.uint64(here * n_actions) + np.uint64(transitions[i, 2 * n_axes]), y, reward)
        previous = Previous(last_pair, last_delta)
        s, t = plan[i, _S], plan[i, _T]
        last_delta = descend(z, w, total, plan, i, phi, offsets, discount, previous, sample, s, t, options, operator)
        last_pair = np.int64(sample.pair)
        if plan[i, _ENDS] != 0.0:
            for j in range(w.shape[0]):
                w[j] *= plan[i, B_NEXT]
            shrink = project(z, w, radius)
            if shrink != 1.0:
                for j in range(z.shape[0]):
                    total[j] -= z[j] / shrink - z[j]
    last[0] = np.float64(last_pair)
    last[1] = last_delta
    d = 0.0
    if stop < plan.shape[0]:
        if plan[stop, _LENGTH] > 0.0:
            enter_segment(z, w, total, plan[stop], plan[stop, _LENGTH])
            plan[stop, _LENGTH] = 0.0  # it has been entered
        d = plan[stop, D]
    at = 2 * (stop - first)
    if tiles > 0:
        at = 0
        tile_columns(place, grid, tiles, index[:1])
    _spread(rows, _NEXT, index[at], value[at], n_actions)
    scratch = np.empty(active.shape[0])
    greedy = greedy_estimate(z, w, d, phi, scratch, offsets, np.uint64(_NEXT), k, lane, seed, stream, temperature)
    return np.int64(greedy - np.uint64(_NEXT) * block)
