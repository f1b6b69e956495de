"""What rules with state of their own learn from: all pairs of one seed, second successors, further ones of a minibatch.

All pairs of an iteration are drawn from the words at which `synchronous` draws them, so that every rule sees the same
successors. The words of several iterations are made at a time: those of one seed and one iteration are too few to fill
vectors.
"""

from typing import NamedTuple

import numpy as np

from mqlearn.jit import compiled
from mqlearn.kernels.random import HALF, philox


class SweepModel(NamedTuple):
    """A model of which all pairs of one seed are sampled; what `synchronous.AllPairs` holds, in another order.

    One word serves R pairs in a row, by its digits: the words of G groups serve G pairs for each digit. Outcomes lie
    digit by digit, so that those of neighbouring words are chosen side by side.

    offsets: (states + 1,) uint64.   successors: (B, R G) uint32.   rewards, thresholds: (B, R G), as in `chain.Model`.
    place: (pairs,) uint32, where each pair lies among them.   powers: (R,) uint32, what moves a word to its digits.
    counters, ahead: (C steps,) uint64, of the words: C counters for each of `steps` iterations, and how many iterations
    ahead each is.   steps: that words are made for at a time.   alike: whether all rewards of a pair are equal.
    """

    offsets: np.ndarray
    successors: np.ndarray
    rewards: np.ndarray
    thresholds: np.ndarray
    place: np.ndarray
    powers: np.ndarray
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
def sweep(successors, thresholds, powers, place, words, first, chosen, y):
    """The outcomes of all pairs, into y (pairs,), by the words from number `first` on; chosen: scratch, (R G,).

    successors .. place: of a `SweepModel`; rewards in place of successors give what the same outcomes pay.
    """
    n_groups = chosen.shape[0] // powers.shape[0]
    for digit in range(powers.shape[0]):
        power, start = powers[digit], digit * n_groups
        # Load first, choose then: a load under a condition is a branch, and these cannot be foreseen.
        if successors.shape[0] == 3 and powers.shape[0] > 1:  # as on slippery ice: one pass, the same shares everywhere
            second, third = thresholds[1, 0], thresholds[2, 0]
            for group in range(n_groups):
                a, b, c = successors[0, start + group], successors[1, start + group], successors[2, start + group]
                u = np.uint32(words[first + group] * power)
                a = b if u >= second else a
                chosen[start + group] = c if u >= third else a
        else:
            for group in range(n_groups):
                chosen[start + group] = successors[0, start + group]
            for outcome in range(1, successors.shape[0]):
                for group in range(n_groups):
                    a, b = chosen[start + group], successors[outcome, start + group]
                    threshold = thresholds[outcome, start + group]
                    u = np.uint32(words[first + group] * power)
                    chosen[start + group] = b if u >= threshold else a
    for pair in range(y.shape[0]):
        y[pair] = chosen[place[pair]]


@compiled
def sweep_once(model, first, k, lane, seed, stream, y, r):
    """The successors and rewards of all pairs in iteration k, by words of a stream that begin at counter `first`."""
    each = model.counters.shape[0] // model.steps
    size = model.successors.shape[1]
    words = np.empty(4 * each, np.uint32)
    sweep_words(model.counters[:each], model.ahead[:each], first, k, lane, seed, stream, words)
    chosen, paid = np.empty(size, np.uint32), np.empty(size)
    sweep(model.successors, model.thresholds, model.powers, model.place, words, 0, chosen, y)
    sweep(model.rewards, model.thresholds, model.powers, model.place, words, 0, paid, r)


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
