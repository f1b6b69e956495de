"""Weighted Q-learning (D'Eramo, Restelli, Nuara 2016, "Estimating the maximum expected value through Gaussian
approximation"; the equation is that of others' program, MushroomRL)."""

import math
from dataclasses import dataclass

import numpy as np

from mqlearn.algorithms.stateful import Stateful
from mqlearn.algorithms.step_sizes import RescaledLinear

_MODULUS = 2147483647.0  # Lehmer's generator, exact in float64
_UNSEEN = 1e10  # standard deviation of a pair that has moved less than twice, the source's


def _start(uniform):
    """The first number of a generator, from a uniform one."""
    return math.floor(1.0 + uniform * (_MODULUS - 2.0))


def _next(number):
    return (16807.0 * number) % _MODULUS


@dataclass(frozen=True)
class WeightedQ(Stateful):
    """Q(x, u) += a (r + g sum_v P(v) Q(y, v) - Q(x, u)), P(v) the probability that v is the best by N(Q(y, v), sd^2).

    sd^2 = w (S - Q^2), S the running mean of squared targets with the same steps, and w = W2/W1^2, W1 and W2 the sums
    of the weights that targets have in Q and of their squares; 10^20 before the second move of a pair. The source takes
    P from 1000 draws; here one draw of all normals says which v is worth the next target, which has the same mean. In
    the program that was read w is W2/(2 W1), presumably meant as W1^2. The step size is ours.
    """

    draws_own = True
    modes = ("asynchronous",)

    def own_step_size(self, discount):
        return RescaledLinear(discount)

    def init(self, q0):
        names = ("squares", "sum", "sum_of_squares", "moves")
        return {
            "q": q0, "deviation": np.full_like(q0, _UNSEEN), "drawn": np.zeros_like(q0),
            **{name: np.zeros_like(q0) for name in names},
        }  # fmt: skip

    def step(self, z, s, c):
        first = _start(s.uniform[0])
        second = _start(s.uniform[1])
        for j in range(len(z.q)):
            first = _next(first)
            second = _next(second)
            length = math.sqrt(-2.0 * math.log(first / _MODULUS))
            z.drawn[j] = z.q[j] + z.deviation[j] * length * math.cos(2.0 * math.pi * second / _MODULUS)
        target = s.target(z.q, z.drawn)
        s.move(z.q, target, c.alpha)
        s.move(z.squares, target * target, c.alpha)
        s.move(z.sum, 1.0, c.alpha)
        s.add(z.sum_of_squares, ((1.0 - c.alpha) ** 2 - 1.0) * s.value(z.sum_of_squares) + c.alpha**2)
        s.add(z.moves, 1.0)
        if s.value(z.moves) > 1:
            w = s.value(z.sum_of_squares) / s.value(z.sum) ** 2
            variance = max(w * (s.value(z.squares) - s.value(z.q) ** 2), 1e-10)
            s.move(z.deviation, math.sqrt(variance), 1.0)
