"""Samples as the kernels number them: ((pair << shift) | outcome) << 32 | 2 y + paid, see `kernels.chain`."""

from typing import NamedTuple

import numpy as np

_HALF, _LOW = np.uint64(32), np.uint64(2**32 - 1)


class Unpacked(NamedTuple):
    """What arrays of numbers stand for: pair, outcome and next state y, int64, and paid, bool: r is not 0."""

    pair: np.ndarray
    outcome: np.ndarray
    y: np.ndarray
    paid: np.ndarray


def pack(pair: np.ndarray, outcome: np.ndarray, y: np.ndarray, paid: np.ndarray, shift: np.uint64) -> np.ndarray:
    """The numbers (uint64). shift: bits of an outcome."""
    transition = (pair.astype(np.uint64) << shift) | outcome.astype(np.uint64)
    return (transition << _HALF) | (np.uint64(2) * y.astype(np.uint64) + paid.astype(np.uint64))


def unpack(numbers: np.ndarray, shift: np.uint64) -> Unpacked:
    """The inverse of `pack`, of numbers (uint64) of any shape."""
    transition, to = numbers >> _HALF, numbers & _LOW
    outcome = transition & ((np.uint64(1) << shift) - np.uint64(1))
    pair, outcome, y = (part.astype(np.int64) for part in (transition >> shift, outcome, to >> np.uint64(1)))
    return Unpacked(pair, outcome, y, (to & np.uint64(1)).astype(bool))
