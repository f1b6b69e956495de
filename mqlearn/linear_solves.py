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


def inverse(a: np.ndarray) -> np.ndarray:
    """The inverse of a (n, n), by Gauss and Jordan in place with the largest pivot of each column (Higham 2002, 14.4).

    Not finite where a is singular.
    """
    n = np.uint64(a.shape[0])
    left = a.copy()
    order = np.empty(a.shape[0], np.int64)
    for i in range(n):
        pivot = i
        for row in range(i, n):
            if abs(left[row, i]) > abs(left[pivot, i]):
                pivot = row
        order[i] = pivot
        if pivot != i:
            for j in range(n):
                left[i, j], left[pivot, j] = left[pivot, j], left[i, j]
        largest = left[i, i]
        if largest == 0.0:
            left[:] = np.nan
            return left
        left[i, i] = 1.0
        for j in range(n):
            left[i, j] /= largest
        for row in range(n):
            factor = left[row, i]
            if row != i and factor != 0.0:
                left[row, i] = 0.0
                for j in range(n):
                    left[row, j] -= factor * left[i, j]
    for i in range(a.shape[0] - 1, -1, -1):  # rows that changed places are columns of the inverse
        pivot = order[i]
        if pivot != i:
            for row in range(n):
                left[row, i], left[row, pivot] = left[row, pivot], left[row, i]
    return left


def move_inverse(b: np.ndarray, weight: float, u: np.ndarray, v: np.ndarray) -> bool:
    """Make b (n, n), the inverse of some A, that of A + weight u v', in place (Sherman and Morrison 1950).

    Returns False, and leaves b as it is, where that would cost more than four digits, or the sum is singular: then A
    has to be inverted. It costs n^2, of u and v (n,) what is not 0 counts.
    """
    n = np.uint64(b.shape[0])
    c, r = np.zeros(b.shape[0]), np.zeros(b.shape[0])  # b u, and v' b
    for j in range(n):
        x = u[j]
        if x != 0.0:
            for i in range(n):
                c[i] += b[i, j] * x
    slope = 0.0
    for i in range(n):
        x = v[i]
        if x != 0.0:
            slope += x * c[i]
            for j in range(n):
                r[j] += x * b[i, j]
    divisor = 1.0 + weight * slope
    if not 1e-4 < abs(divisor) < 1e4:
        return False
    for i in range(n):
        x = weight * c[i] / divisor
        if x != 0.0:
            for j in range(n):
                b[i, j] -= x * r[j]
    return True


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
