"""Rules that learn from a transition when they know what follows it, written a second time from their equations."""

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
