"""What rules with state of their own learn from: all pairs of one seed, second successors, further ones of a minibatch.

All pairs of an iteration are drawn from the words at which `synchronous` draws them, so that every rule sees the same
successors. The words of several iterations are made at a time: those of one seed and one iteration are too few to fill
vectors.
"""

from typing import NamedTuple

import numpy as np

from mqlearn.jit import compiled
from mqlearn.kernels.lanes import EIGHT, all_lanes, load, store
from mqlearn.kernels.random import HALF, philox

_ONE, _STEP = np.uint64(1), np.uint64(EIGHT)
DIGITS = 2 * EIGHT  # of a word at most, by `sampling.tables.digits_of_words`


class SweepModel(NamedTuple):
    """A model of which all pairs of one seed are sampled; what `synchronous.AllPairs` holds, in another order.

    offsets: (states + 1,) uint64.   successors: (B, pairs) uint32.   rewards, thresholds: (B, pairs), as in
    `chain.Model`.   fours: (open,) uint64, the states that have pairs if each of them has four, as on most grids; else
    none.   reuse: uint64, how many pairs in a row one word serves, at least 1.   powers: (DIGITS,) uint32, what
    moves a word to the digit of each of them, and zeros.   room: of the words of all pairs, see `spread`.
    counters, ahead: (C steps,) uint64, of the words: C counters for each of `steps` iterations, and how many iterations
    ahead each is.   steps: that words are made for at a time.   alike: whether all rewards of a pair are equal.
    """

    offsets: np.ndarray
    successors: np.ndarray
    rewards: np.ndarray
    thresholds: np.ndarray
    fours: np.ndarray
    reuse: np.uint64
    powers: np.ndarray
    room: int
    counters: np.ndarray
    ahead: np.ndarray
    steps: int
    alike: bool


@compiled(apart=True)
def sweep_words(counters, ahead, first, k, lane, seed, stream, out):
    """The words of iterations k, k + 1, ... of one seed, into `out` (4 C steps,) uint32, iteration by iteration.

    first: the counter of an iteration to begin with, C b for draw b of a minibatch.
    """
    for i in range(counters.shape[0]):
        step = np.uint64(k) + ahead[i]
        word = np.uint32(counters[i] + np.uint64(first))
        w0, w1, w2, w3 = philox(word, np.uint32(step), np.uint32(step >> HALF), np.uint32(lane), seed, stream)
        out[4 * i] = w0
        out[4 * i + 1] = w1
        out[4 * i + 2] = w2
        out[4 * i + 3] = w3


@compiled(apart=True)
def spread(words, first, reuse, powers, u):
    """One word a pair, into u (room,) uint32: those from number `first` on, each moved to its digits.

    reuse, powers: of a `SweepModel`. What is written beyond the digits of a word, the next word overwrites.
    """
    if reuse == _ONE:
        for pair in range(u.shape[0]):
            u[pair] = words[first + pair]
        return
    begin, end = load(powers, np.uint64(0)), load(powers, _STEP)
    for group in range((np.uint64(u.shape[0]) - np.uint64(DIGITS)) // reuse + _ONE):
        word = all_lanes(words[np.uint64(first) + group])
        store(u, group * reuse, word * begin)
        store(u, group * reuse + _STEP, word * end)


@compiled(apart=True)
def sweep(successors, thresholds, u, y):
    """The outcomes of all pairs by their words u, into y (pairs,).

    successors, thresholds: of a `SweepModel`; rewards in place of successors give what the same outcomes pay.
    """
    # Load first, choose then: a load under a condition is a branch, and these cannot be foreseen.
    if successors.shape[0] == 3:  # as on slippery ice: one pass
        for pair in range(y.shape[0]):
            a, b, c = successors[0, pair], successors[1, pair], successors[2, pair]
            a = b if u[pair] >= thresholds[1, pair] else a
            y[pair] = c if u[pair] >= thresholds[2, pair] else a
        return
    for pair in range(y.shape[0]):
        y[pair] = successors[0, pair]
    for outcome in range(1, successors.shape[0]):
        for pair in range(y.shape[0]):
            a, b = y[pair], successors[outcome, pair]
            y[pair] = b if u[pair] >= thresholds[outcome, pair] else a


@compiled
def sweep_once(model, first, k, lane, seed, stream, y, r):
    """The successors and rewards of all pairs in iteration k, by words of a stream that begin at counter `first`."""
    each = model.counters.shape[0] // model.steps
    words, u = np.empty(4 * each, np.uint32), np.empty(model.room, np.uint32)
    sweep_words(model.counters[:each], model.ahead[:each], first, k, lane, seed, stream, words)
    spread(words, 0, model.reuse, model.powers, u)
    sweep(model.successors, model.thresholds, u, y)
    sweep(model.rewards, model.thresholds, u, r)


@compiled
def further_successors(model, pair, k, lane, seed, stream, y, r):
    """Independent successors of one pair in iteration k, into y (N,) int64, and what they would pay, into r (N,).

    model: `chain.Model`.
    """
    step = np.uint64(k)
    low, high = np.uint32(step), np.uint32(step >> HALF)
    w0, w1, w2, w3 = np.uint64(0), np.uint64(0), np.uint64(0), np.uint64(0)
    for draw in range(y.shape[0]):
        if draw & 3 == 0:
            w0, w1, w2, w3 = philox(np.uint32(draw >> 2), low, high, np.uint32(lane), seed, stream)
        word = np.uint32(w0)
        w0, w1, w2 = w1, w2, w3  # the next one's turn
        b = 0
        for c in range(1, model.successors.shape[1]):
            b = c if word >= model.thresholds[pair, c] else b
        y[draw] = model.successors[pair, b]
        r[draw] = model.rewards[pair, b]
