"""Rules that learn from a transition when they know what follows it, written a second time from their equations."""

import math

import numpy as np
from oracles import Draws, Problem, Step, Trace, wainwright


def sarsa(problem: Problem, draws: Draws, iterations: int, step: Step | None = None) -> Trace:
    """Q(x,u) += a (r + g Q(x',u') - Q(x,u)), (x',u') the pair of the next draw; r alone where y is terminal."""
    step = step or wainwright(problem)
    q, trace, before = problem.q0(), Trace(), None
    for k in range(iterations):
        ((pair, ((y, r),)),) = draws.sample(k).items()
        if before is not None:
            j, paid, al = before
            q[j] = q[j] + al * (paid + problem.discount * q[pair] - q[j])
        before = (pair, r, step(k))
        if problem.terminal[y]:
            q[pair] = q[pair] + step(k) * (r - q[pair])
            before = None
        trace.add(q)
    return trace


def two_step(
    problem: Problem, draws: Draws, iterations: int, weight=1.0, horizon=1000.0, step: Step | None = None
) -> Trace:
    """Q(x,u) += a (r + g (max_v Q(y,v) + th (r' + g max_v Q(y',v))) - Q(x,u)), (r', y') of the next draw."""
    q, trace, before, g = problem.q0(), Trace(), None, problem.discount

    def largest(y: int) -> float:
        best = problem.greedy(q, y)
        return 0.0 if best is None else q[best]

    for k in range(iterations):
        ((pair, ((y, r),)),) = draws.sample(k).items()
        if before is not None:
            j, paid, al, th, ahead = before
            q[j] = q[j] + al * (paid + g * (largest(ahead) + th * (r + g * largest(y))) - q[j])
        al = (k + 3) ** -0.501 if step is None else step(k)
        before = (pair, r, al, weight * horizon / (k + 1 + horizon), y)
        if problem.terminal[y]:
            q[pair] = q[pair] + al * (r - q[pair])
            before = None
        trace.add(q)
    return trace


def weighted_q(problem: Problem, draws: Draws, iterations: int, step: Step | None = None) -> Trace:
    """Q += a (r + g Q(y,v) - Q), v the largest draw of N(Q(y,v), sd^2); sd^2 = (W2/W1^2)(S - Q^2), at first 1e20.

    The normals: sqrt(-2 log a) cos(2 pi b), a and b of two of Lehmer's generators, 16807 x mod 2^31 - 1, one number a
    pair, from the first two uniforms of the iteration.
    """
    step = step or wainwright(problem)
    q, trace = problem.q0(), Trace()
    sd, seen = np.full(problem.n, 1e10), [list[tuple[float, float]]() for _ in range(problem.n)]
    modulus = 2**31 - 1
    for k in range(iterations):
        a, b = (int(1 + u * (modulus - 2)) for u in draws.uniforms(k)[:2])
        normals = []
        for _ in range(problem.n):
            a, b = 16807 * a % modulus, 16807 * b % modulus
            normals.append(math.sqrt(-2 * math.log(a / modulus)) * math.cos(2 * math.pi * b / modulus))
        ((pair, ((y, r),)),) = draws.sample(k).items()
        best = problem.greedy(q + sd * np.array(normals), y)
        target, al = r + problem.discount * (0.0 if best is None else q[best]), step(k)
        q[pair] = q[pair] + al * (target - q[pair])
        seen[pair] = [(weight * (1 - al), old) for weight, old in seen[pair]] + [(al, target)]  # weights in Q
        if len(seen[pair]) > 1:
            second = sum(weight * old**2 for weight, old in seen[pair])
            w1, w2 = (sum(weight**power for weight, _ in seen[pair]) for power in (1, 2))
            sd[pair] = math.sqrt(max(w2 / w1**2 * (second - q[pair] ** 2), 1e-10))
        trace.add(q)
    return trace
