"""Linear solves and products for rules, in an order of operations that is fixed.

A library's solver adds in an order of its own, which may depend on its threads; here the same numbers give the same
bits everywhere. Plain Python, which learning compiles: quick there, slow for large matrices elsewhere.
"""

import numpy as np


def solve(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """x of a x = b, by Gaussian elimination with the largest pivot of each column (Golub, Van Loan 2013, 3.4).

    a: (n, n).   b: (n,).   Returns (n,), not finite where a is singular.

    >>> mq.solve(np.array([[2.0, 0.0], [1.0, 1.0]]), np.array([4.0, 5.0])).tolist()
    [2.0, 3.0]
    """
    n = np.uint64(b.shape[0])  # places that cannot be negative, which compiled code would ask at each of them
    left = a.copy()
    x = b.copy()
    for i in range(n):
        below = i + np.uint64(1)
        pivot = i
        for row in range(below, n):
            if abs(left[row, i]) > abs(left[pivot, i]):
                pivot = row
        if pivot != i:
            for j in range(i, n):
                left[i, j], left[pivot, j] = left[pivot, j], left[i, j]
            x[i], x[pivot] = x[pivot], x[i]
        if left[i, i] == 0.0:
            x[:] = np.nan
            return x
        for row in range(below, n):
            factor = left[row, i] / left[i, i]
            if factor != 0.0:
                for j in range(below, n):
                    left[row, j] -= factor * left[i, j]
                x[row] -= factor * x[i]
    for i in range(b.shape[0] - 1, -1, -1):
        x[i] /= left[i, i]
        for row in range(i):
            x[row] -= left[row, i] * x[i]
    return x


def times(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a b, each entry added from the left.   a: (m, n).   b: (n,).   Returns (m,).

    Rules with state use it, and `solve`, in their steps: compiled, and the same bits on every machine.

    >>> mq.times(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, 10.0])).tolist()
    [21.0, 43.0]
    """
    out = np.zeros(a.shape[0])
    for i in range(a.shape[0]):
        total = 0.0
        for j in range(a.shape[1]):
            total += a[i, j] * b[j]
        out[i] = total
    return out
