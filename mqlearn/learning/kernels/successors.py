"""What rules with state of their own learn from: all pairs of one seed, second successors, further ones of a minibatch.

All pairs of an iteration are drawn from the words at which `synchronous` draws them, so that every rule sees the same
successors. The words of several iterations are made at a time: those of one seed and one iteration are too few to fill
vectors.
"""

from typing import NamedTuple

import numpy as np

from mqlearn.jit import compiled
from mqlearn.learning.kernels.random import HALF, philox


class SweepModel(NamedTuple):
    """A model of which all pairs of one seed are sampled; what `synchronous.AllPairs` holds, outcome by outcome.

    offsets: (states + 1,) uint64.   successors: (B, pairs) uint32.   rewards, thresholds: (B, pairs), as in
    `chain.Model`.   place, power: (pairs,) uint32, where the word of a pair lies among those of an iteration, and what
    moves it to the digit of the pair.   counters, ahead: (C steps,) uint64, of the words: C counters for each of
    `steps` iterations, and how many iterations ahead each is.   alike: whether all rewards of a pair are equal.
    """

    offsets: np.ndarray
    successors: np.ndarray
    rewards: np.ndarray
    thresholds: np.ndarray
    place: np.ndarray
    power: np.ndarray
    counters: np.ndarray
    ahead: np.ndarray
    steps: int
    alike: bool


@compiled(apart=True)
def sweep_words(counters, ahead, first, k, lane, seed, stream, out):
    """The words of iterations k, k + 1, ... of one seed, into `out` (4, C steps) uint32.

    first: the counter of an iteration to begin with, C b for draw b of a minibatch.
    """
    out0, out1, out2, out3 = out[0], out[1], out[2], out[3]
    for i in range(counters.shape[0]):
        step = np.uint64(k) + ahead[i]
        word = np.uint32(counters[i] + np.uint64(first))
        w0, w1, w2, w3 = philox(word, np.uint32(step), np.uint32(step >> HALF), np.uint32(lane), seed, stream)
        out0[i] = w0
        out1[i] = w1
        out2[i] = w2
        out3[i] = w3


@compiled(apart=True)
def sweep(model, words, i, y, r):
    """The successors and rewards of all pairs in iteration i of those of the words, into y (pairs,) uint32 and r."""
    successors, rewards, thresholds = model.successors, model.rewards, model.thresholds
    place, power = model.place, model.power
    shift = np.uint32(i * (model.counters.shape[0] // model.steps))
    row = words.reshape(words.size)
    n_pairs = y.shape[0]
    if successors.shape[0] == 3:
        y0, y1, y2 = successors[0], successors[1], successors[2]
        from1, from2 = thresholds[1], thresholds[2]
        for pair in range(n_pairs):
            u = np.uint32(row[np.uint64(place[pair] + shift)] * power[pair])
            to = y1[pair] if u >= from1[pair] else y0[pair]
            y[pair] = y2[pair] if u >= from2[pair] else to
    else:
        y[:] = successors[0]
        for b in range(1, successors.shape[0]):
            for pair in range(n_pairs):
                u = np.uint32(row[np.uint64(place[pair] + shift)] * power[pair])
                y[pair] = successors[b, pair] if u >= thresholds[b, pair] else y[pair]
    r[:] = rewards[0]
    if not model.alike:
        for b in range(1, successors.shape[0]):
            for pair in range(n_pairs):
                u = np.uint32(row[np.uint64(place[pair] + shift)] * power[pair])
                r[pair] = rewards[b, pair] if u >= thresholds[b, pair] else r[pair]


@compiled
def sweep_once(model, first, k, lane, seed, stream, words, y, r):
    """`sweep` of iteration k alone, by words of a stream that begin at counter `first`; words: scratch."""
    each = model.counters.shape[0] // model.steps
    sweep_words(model.counters[:each], model.ahead[:each], first, k, lane, seed, stream, words)
    sweep(model, words, 0, y, r)


@compiled
def further_successors(model, pair, k, lane, seed, stream, y, r):
    """Independent successors of one pair in iteration k, into y (N,) int64, and what they would pay, into r (N,).

    model: `chain.Model`.
    """
    step = np.uint64(k)
    words = np.empty(4, np.uint32)
    for draw in range(y.shape[0]):
        if draw & 3 == 0:
            counter, high = np.uint32(draw >> 2), np.uint32(step >> HALF)
            w0, w1, w2, w3 = philox(counter, np.uint32(step), high, np.uint32(lane), seed, stream)
            words[0], words[1], words[2], words[3] = w0, w1, w2, w3
        word = words[draw & 3]
        b = 0
        for c in range(1, model.successors.shape[1]):
            b = c if word >= model.thresholds[pair, c] else b
        y[draw] = model.successors[pair, b]
        r[draw] = model.rewards[pair, b]
