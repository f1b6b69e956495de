"""Sampling chains: one seed's walk through a model, one sample an iteration, with a buffer to replay from or not.

A transition is the number (pair << shift) | outcome; a sample is (transition << 32) | to, where `to` is twice the next
state plus whether there is a reward. Buffers hold samples: what is drawn from them lies far apart, and looking up its
next state would wait for memory once more.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types

from mqlearn.jit import compiled, inlined, instruction
from mqlearn.kernels.random import CHUNK, HALF, LOW, ChainStreams, below, philox_steps

MARKOVIAN, REPLAY, IID = 0, 1, 2
UNIFORM, TABLE, EPSILON_GREEDY = 0, 1, 2
_AHEAD = 32  # iterations between asking for a sample of a buffer and reading it


class Model(NamedTuple):
    """Transitions of the learned pairs, which lie state by state.

    offsets: (states + 1,) uint64, the first pair of each state; a terminal state has none.   successors: (pairs, B)
    uint32.   rewards: (pairs, B).   thresholds: (pairs, B) uint32; outcome b of a pair is taken when a 32-bit word lies
    in [threshold b, threshold b + 1).   shift: bits of an outcome's number.
    """

    offsets: np.ndarray
    successors: np.ndarray
    rewards: np.ndarray
    thresholds: np.ndarray
    shift: np.uint64


class Packed(NamedTuple):
    """A `Model` as the loops read it.

    rows: (pairs, 2 B - 1) uint32, the B numbers `to`, then the thresholds 1 .. B - 1: a step of a chain that roams a
    large model waits for one line of memory, not for three.   mask: of an outcome's number.
    """

    offsets: np.ndarray
    rows: np.ndarray
    rewards: np.ndarray
    shift: np.uint64
    mask: np.uint64


class ChainTables(NamedTuple):
    """How a chain moves.

    mode: MARKOVIAN, REPLAY or IID.   period: iterations a step (replay draws so often from the buffer).
    behaviour: UNIFORM, TABLE or EPSILON_GREEDY.   edges: (pairs,) uint64, lower edges of the pairs' shares of a word.
    starts, keep, alias: first states of an episode and their alias table.   restart: an episode ends when a word is
    below.   limit: moves of an episode, 0 for no limit.   epsilon: first and last exploration rate, iterations between.
    temperature: likewise, see `asynchronous.greedy_pair`; None, for which the loops are compiled apart: greedy.   goal:
    (states,) uint8.   pair_keep, pair_alias: alias table of the stationary distribution of the pairs, for IID.
    """

    mode: int
    period: int
    behaviour: int
    edges: np.ndarray
    starts: np.ndarray
    keep: np.ndarray
    alias: np.ndarray
    restart: int
    limit: int
    epsilon: tuple[float, float, float]
    goal: np.ndarray
    pair_keep: np.ndarray
    pair_alias: np.ndarray
    temperature: tuple[float, float, float] | None


class Walks(NamedTuple):
    """The chains of L seeds on their way.

    states: (L, 6) int64, see `Walk`.   buffers: (L, capacity) uint64, rings of samples.   visits: (L, pairs) int32 of
    each pair by the chain.   lanes: (L,) uint32 seed indices.   seed, streams: keys of their random numbers.
    """

    states: np.ndarray
    buffers: np.ndarray
    visits: np.ndarray
    lanes: np.ndarray
    seed: np.uint32
    streams: ChainStreams


class Walk(NamedTuple):
    """One chain: its state, moves of this episode, steps, episodes ended, goals entered, transitions with a reward.

    place: in its buffer, where the next sample goes.
    """

    state: np.uint64
    moves: int
    steps: int
    episodes: int
    goals: int
    paid: int
    place: np.uint64


class Sample(NamedTuple):
    """What an iteration learns from: a pair, the state after it (terminal ones have no pairs), and the reward."""

    pair: np.uint64
    state: np.uint64
    reward: float


@compiled
def pack(model):
    """A `Model` as `Packed`."""
    offsets, successors, rewards, thresholds, shift = model
    n_outcomes = successors.shape[1]
    rows = np.zeros((successors.shape[0], 2 * n_outcomes - 1), np.uint32)
    for pair in range(successors.shape[0]):
        for b in range(n_outcomes):
            rows[pair, b] = np.uint32(2 * np.uint64(successors[pair, b]) + np.uint64(rewards[pair, b] != 0.0))
        for b in range(1, n_outcomes):
            rows[pair, n_outcomes - 1 + b] = thresholds[pair, b]
    return Packed(offsets, rows, rewards, shift, (np.uint64(1) << shift) - np.uint64(1))


@instruction(lambda array, index: None)
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


@compiled
def chain_words(chain, state, buffer, k, n, lane, seed, streams, out):
    """The random words of a chain for iterations k .. k + n - 1, into `out` (8, n or more): four of each stream.

    What they will draw from a buffer lies far apart: it is asked for before it is read, the first of it here.
    """
    philox_steps(k, n, lane, seed, streams.moves, out[:4])
    if chain.mode == REPLAY or chain.behaviour == EPSILON_GREEDY or chain.restart > 0:
        philox_steps(k, n, lane, seed, streams.choices, out[4:])
        if chain.epsilon[2] < -1.5 and chain.epsilon[0] != 0.5:
            _as_of_root(chain.epsilon[0], n, out[4])
    if chain.mode == REPLAY:
        drawn = out[7]
        stored = min(np.uint64(state[2]), np.uint64(buffer.shape[0]))
        for i in range(min(n, _AHEAD)):
            _prefetch(buffer, below(drawn[i], stored))


@compiled
def _as_of_root(power, n_words, words):
    """Words u 2^32 that explore at the rate 1/n^power, as those that do at 1/sqrt(n): u < n^-power is u^(1/(2 power))
    < n^-1/2. So the loop of `move` has one power, and takes no longer for another."""
    for i in range(n_words):
        words[i] = np.uint32(4294967296.0 * (words[i] / 4294967296.0) ** (0.5 / power))


@inlined
def enter(state, buffer):
    """The walk whose six numbers are in `state`, as local variables."""
    steps = state[2]
    place = np.uint64(steps % buffer.shape[0])
    return Walk(np.uint64(state[0]), state[1], steps, state[3], state[4], state[5], place)


@inlined
def leave(state, walk):
    """Write them back."""
    state[0] = np.int64(walk.state)
    state[1], state[2], state[3], state[4], state[5] = walk.moves, walk.steps, walk.episodes, walk.goals, walk.paid


@inlined
def exploration(epsilon, k, visits, first, count):
    """Exploration rate at iteration k: epsilon[0] to epsilon[1], linearly in epsilon[2] iterations; then constant.

    Of -1 iterations: 1/log(k + 2), at most 1 (`sampling.protocol.LOGARITHMIC`).   Of -2: 1/sqrt(n), n the visits of the
    state whose pairs are first .. first + count - 1, this one included (`sampling.protocol.BY_VISITS`); another power
    than the root is in the words that it is compared with: see `_as_of_root`.
    """
    if epsilon[2] < -1.5:
        n = 1
        for pair in range(first, first + count):
            n += visits[pair]
        return 1.0 / math.sqrt(n)
    if epsilon[2] < 0:
        return min(1.0, 1.0 / math.log(k + 2.0))
    return epsilon[0] + (epsilon[1] - epsilon[0]) * min(1.0, k / epsilon[2])


@inlined
def move(model, chain, walk, buffer, visits, greedy, k, words, i):
    """Iteration k of a chain with the words of column i: its walk afterwards, and the sample to learn from.

    model: `Packed`.   greedy: the pair that a greedy behaviour chooses.
    """
    offsets, rows, _, shift, _ = model
    (
        mode, period, behaviour, edges, starts, keep, alias, restart, limit, epsilon, goal, pair_keep, pair_alias, _,
    ) = chain  # fmt: skip
    x, moves, steps, episodes, goals, paid, place = walk
    pair, b, to = np.uint64(0), np.uint64(0), np.uint64(0)
    turn = mode != REPLAY or period == 1 or k % period == 0
    if turn:
        first = offsets[x]
        count = offsets[x + np.uint64(1)] - first
        if mode == IID:
            pair = below(words[0, i], pair_keep.shape[0])
            if words[3, i] >= pair_keep[pair]:
                pair = np.uint64(pair_alias[pair])
        elif behaviour == TABLE:
            pair = first
            while pair + np.uint64(1) < first + count and words[0, i] >= edges[pair + np.uint64(1)]:
                pair += np.uint64(1)
        elif behaviour == UNIFORM or words[4, i] < exploration(epsilon, k, visits, first, count) * 4294967296.0:
            pair = first + below(words[0, i], count)
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
            j = below(words[2, i], starts.shape[0])
            x = np.uint64(starts[j]) if words[3, i] < keep[j] else np.uint64(starts[alias[j]])
        else:
            x = y
    sample = (((pair << shift) | b) << HALF) | to
    if mode == REPLAY:
        capacity = np.uint64(buffer.shape[0])
        if turn:
            buffer[place] = sample
            place += np.uint64(1)
            if place == capacity:
                place = np.uint64(0)
        stored = min(np.uint64(steps), capacity)
        if i + _AHEAD < words.shape[1]:
            _prefetch(buffer, below(words[7, i + _AHEAD], stored))
        sample = buffer[below(words[7, i], stored)]
    # Every array is named once more where all branches have met: else numba counts its references in each of them.
    _ = (
        offsets.size + rows.size + edges.size + starts.size + keep.size + alias.size + goal.size + pair_keep.size
        + pair_alias.size + buffer.size + visits.size + words.size
    )  # fmt: skip
    return Walk(x, moves, steps, episodes, goals, paid, place), sample


@inlined
def read(sample, model):
    """The `Sample` of a number; model: `Packed`."""
    _, _, rewards, shift, mask = model
    pair = sample >> (HALF + shift)
    reward = 0.0
    if sample & np.uint64(1):
        reward = rewards[pair, (sample >> HALF) & mask]
    _ = rewards.size  # as in `move`
    return Sample(pair, (sample & LOW) >> np.uint64(1), reward)


@compiled
def samples(model, chain, walks, k, out):
    """The samples (uint64) of iterations k .. k + n - 1, into `out` (L, n), under a non-adaptive behaviour.

    model: `Model`.   chain: `ChainTables`.   walks: `Walks`, which move on.
    """
    packed = pack(model)
    words, others = np.empty((8, CHUNK), np.uint32), np.empty((8, CHUNK), np.uint32)
    seed, streams = walks.seed, walks.streams
    for lane in range(0, out.shape[0], 2):  # two side by side: a step of a chain waits for memory, and for the last one
        second = min(lane + 1, out.shape[0] - 1)
        state, buffer, visits, own = walks.states[lane], walks.buffers[lane], walks.visits[lane], out[lane]
        state2, buffer2 = walks.states[second], walks.buffers[second]
        visits2, own2 = walks.visits[second], out[second]
        for done in range(0, own.shape[0], CHUNK):
            n, first = min(CHUNK, own.shape[0] - done), k + done
            chain_words(chain, state, buffer, first, n, walks.lanes[lane], seed, streams, words)
            walk = enter(state, buffer)
            if second == lane:
                for i in range(n):
                    walk, sample = move(packed, chain, walk, buffer, visits, np.uint64(0), first + i, words, i)
                    own[done + i] = sample
            else:
                chain_words(chain, state2, buffer2, first, n, walks.lanes[second], seed, streams, others)
                walk2 = enter(state2, buffer2)
                for i in range(n):
                    walk, sample = move(packed, chain, walk, buffer, visits, np.uint64(0), first + i, words, i)
                    walk2, sample2 = move(packed, chain, walk2, buffer2, visits2, np.uint64(0), first + i, others, i)
                    own[done + i] = sample
                    own2[done + i] = sample2
                leave(state2, walk2)
            leave(state, walk)


@compiled
def sample_greedily(model, chain, walks, greedy, k, out):
    """The samples (uint64) of iteration k alone, into `out` (L, 1), of chains that act greedily where they exploit.

    greedy: (L,) uint64, the greedy pairs where the chains are. The rest as in `samples`.
    """
    packed = pack(model)
    words = np.empty((8, 1), np.uint32)
    for lane in range(out.shape[0]):
        state, buffer, visits = walks.states[lane], walks.buffers[lane], walks.visits[lane]
        chain_words(chain, state, buffer, k, 1, walks.lanes[lane], walks.seed, walks.streams, words)
        walk = enter(state, buffer)
        walk, sample = move(packed, chain, walk, buffer, visits, greedy[lane], k, words, 0)
        out[lane, 0] = sample
        leave(state, walk)
