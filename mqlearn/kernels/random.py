"""Random numbers: Philox4x32-10, a pure function of a key and a counter, so that any number can be had at any time.

(Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3".) The key is (seed, stream), the counter
(word, k low, k high, seed index) with the iteration k in two halves; each counter gives four uniform 32-bit words. So
the numbers of one seed do not depend on other seeds, on workers, or on how many numbers were drawn before, and two
rules that draw at the same counters see the same samples (common random numbers).
"""

from typing import NamedTuple

import numpy as np

from mqlearn.jit import compiled, inlined

# Streams of one seed, never to be renumbered: they decide every number that mqlearn computes.
STREAMS = {
    "synchronous": 0,
    "initial": 1,
    "chain": 2,
    "choices": 3,
    "warm_up": 4,
    "warm_up_choices": 5,
    "evaluation_uniform": 6,
    "evaluation_start": 7,
    "ties": 8,
    "simulator": 9,
    "again": 10,
    "batch": 11,
    "own": 12,
}

CHUNK = 4096  # iterations for which random words are made at a time

_MULTIPLIER_0 = np.uint64(0xD2511F53)
_MULTIPLIER_1 = np.uint64(0xCD9E8D57)
_WEYL_0 = np.uint32(0x9E3779B9)
_WEYL_1 = np.uint32(0xBB67AE85)
HALF = np.uint64(32)
LOW = np.uint64(0xFFFFFFFF)


class ChainStreams(NamedTuple):
    """The streams (uint32) that a sampling chain draws from: its moves, further choices, ties of greedy actions."""

    moves: np.uint32
    choices: np.uint32
    ties: np.uint32


@inlined
def philox(c0, c1, c2, c3, key0, key1):
    """Four uniform 32-bit words for one counter (uint32 arguments)."""
    for _ in range(10):
        product0 = np.uint64(c0) * _MULTIPLIER_0
        product1 = np.uint64(c2) * _MULTIPLIER_1
        c0 = np.uint32(product1 >> HALF) ^ c1 ^ key0
        c1 = np.uint32(product1)
        c2 = np.uint32(product0 >> HALF) ^ c3 ^ key1
        c3 = np.uint32(product0)
        key0 = np.uint32(key0 + _WEYL_0)
        key1 = np.uint32(key1 + _WEYL_1)
    return c0, c1, c2, c3


@compiled(apart=True)
def philox_counters(words, first, k, lanes, seed, stream, out):
    """`philox` at the counters (words[i] + first, k, lanes[i]), into `out` (4, n) uint32; words, lanes (n,).

    Those are uint64, though 32 bits would do: so four counters fill a vector, not eight. Multiplying vectors of 512
    bits makes a processor slow down, and the updates between two calls with it.
    """
    step = np.uint64(k)
    k_low = np.uint32(step)
    k_high = np.uint32(step >> HALF)
    out0, out1, out2, out3 = out[0], out[1], out[2], out[3]
    for i in range(words.shape[0]):
        word = np.uint32(words[i] + first)
        w0, w1, w2, w3 = philox(word, k_low, k_high, np.uint32(lanes[i]), seed, stream)
        out0[i] = w0
        out1[i] = w1
        out2[i] = w2
        out3[i] = w3


@compiled
def philox_steps(k, n, lane, seed, stream, out):
    """`philox` at counter (0, k + i, lane) for i < n, into `out` (4, n or more)."""
    out0, out1, out2, out3 = out[0], out[1], out[2], out[3]
    for i in range(n):
        step = np.uint64(k + i)
        w0, w1, w2, w3 = philox(np.uint32(0), np.uint32(step), np.uint32(step >> HALF), np.uint32(lane), seed, stream)
        out0[i] = w0
        out1[i] = w1
        out2[i] = w2
        out3[i] = w3


@compiled
def lane_words(k, n, lane, seed, stream):
    """(4, n) words of a stream of one lane in iterations k .. k + n - 1."""
    out = np.empty((4, n), np.uint32)
    philox_steps(k, n, lane, seed, stream, out)
    return out


@inlined
def below(word, n):
    """A uniform whole number below n from a 32-bit word."""
    return (np.uint64(word) * np.uint64(n)) >> HALF
