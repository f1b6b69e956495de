"""Learning rules written a second time, from their equations alone: what the package's rules are tested against.

Nothing of the package is imported, and nothing is fast: explicit loops over pairs, one function a rule.
A rule sees `sample(k)`: for each visited pair its draws (y, r) of iteration k. Synchronous sampling visits every pair,
asynchronous sampling one; several draws of a pair are a minibatch, of which the sampled operator is the mean:

    T_k Q(x,u) = mean of r + g max_v Q(y,v),   0 in place of the maximum where y is terminal.

Iteration k = 0, 1, 2, ... makes table k+1 from table k, with Q_{-1} = Q_0. All pairs move together, from the old table;
pairs that are not visited keep what they have. Ties: the first action. Rules with linear features: oracles_linear.py.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil

import numpy as np

Table = np.ndarray
Sample = dict[int, list[tuple[int, float]]]
Step = Callable[[int], float]


@dataclass(frozen=True)
class Problem:
    """Pairs (x,u) in the order of a table's entries, terminal flags of the states, discount, and Q_0 (0 by default)."""

    pairs: list[tuple[int, int]]
    terminal: list[bool]
    discount: float
    initial: Table | None = None

    @property
    def n(self) -> int:
        return len(self.pairs)

    def q0(self) -> Table:
        return np.zeros(self.n) if self.initial is None else np.array(self.initial, float)

    def greedy(self, q: Table, y: int) -> int | None:
        """The pair of the greedy action at y, None at a terminal state."""
        if self.terminal[y]:
            return None
        at_y = [j for j, (x, _) in enumerate(self.pairs) if x == y]
        return max(at_y, key=lambda j: q[j])  # max() keeps the first of equals


@dataclass(frozen=True)
class Draws:
    """What iteration k draws: `sample(k)`, a second independent successor of each draw, four uniforms for coins."""

    sample: Callable[[int], Sample]
    again: Callable[[int], dict[int, list[int]]]
    uniforms: Callable[[int], list[float]]


@dataclass
class Trace:
    """Tables after each iteration: the one that is compared with Q*, and the one that greedy actions are taken from."""

    estimate: list[Table] = field(default_factory=list)
    acting: list[Table] = field(default_factory=list)

    def add(self, estimate: Table, acting: Table | None = None) -> None:
        self.estimate.append(estimate.copy())
        self.acting.append((estimate if acting is None else acting).copy())


def synchronous(draw, draw_again=None, uniforms=None) -> Draws:
    """`draw(k)` returns y and r, of shape (n,), or (N, n) for minibatches of N; `draw_again(k)` returns y' alike."""

    def sample(k):
        y, r = (np.atleast_2d(part) for part in draw(k))
        return {i: [(int(y[b, i]), float(r[b, i])) for b in range(len(y))] for i in range(y.shape[1])}

    def again(k):
        assert draw_again is not None
        y = np.atleast_2d(draw_again(k))
        return {i: [int(y[b, i]) for b in range(len(y))] for i in range(y.shape[1])}

    return Draws(sample, again, uniforms or (lambda k: [0.0] * 4))


def asynchronous(transitions, again=None, uniforms=None) -> Draws:
    """`transitions[k]` is (pair, y, r); `again[k]` a second successor of that pair."""

    def sample(k):
        i, y, r = transitions[k]
        return {i: [(y, r)]}

    def second(k):
        assert again is not None
        return {transitions[k][0]: [again[k]]}

    return Draws(sample, second, uniforms or (lambda k: [0.0] * 4))


def target(problem: Problem, sample: Sample, q: Table, by: Table | None = None) -> dict[int, float]:
    """T_k q at the visited pairs; with `by`, the value at y is q's, of the greedy action of `by`."""
    result = {}
    for i, draws in sample.items():
        total = 0.0
        for y, r in draws:
            best = problem.greedy(q if by is None else by, y)
            total += r + problem.discount * (0.0 if best is None else q[best])
        result[i] = total / len(draws)
    return result


def greedy_rows(problem: Problem, sample: Sample, q: Table) -> Table:
    """Phat_k S_greedy(q), (n, n): row i is the mean of the unit rows of (y, greedy action) over the draws of i."""
    matrix = np.zeros((problem.n, problem.n))
    for i, draws in sample.items():
        for y, _ in draws:
            best = problem.greedy(q, y)
            if best is not None:
                matrix[i, best] += 1 / len(draws)
    return matrix


def harmonic(k: int) -> float:
    return 1 / (k + 1)


def rescaled(c: float) -> Step:
    """1/(1 + (k+1)/c); the rescaled linear step has c = 1/(1-g)."""
    return lambda k: 1 / (1 + (k + 1) / c)


def wainwright(problem: Problem) -> Step:
    """The rescaled linear step 1/(1 + (1-g)(k+1))."""
    return lambda k: 1 / (1 + (1 - problem.discount) * (k + 1))


def q_learning(problem: Problem, draws: Draws, iterations: int, step: Step = harmonic) -> Trace:
    """Q += al (T_k Q - Q) (Watkins)."""
    q, trace = problem.q0(), Trace()
    for k in range(iterations):
        t = target(problem, draws.sample(k), q)
        for i in t:
            q[i] = q[i] + step(k) * (t[i] - q[i])
        trace.add(q)
    return trace


def four_numbers(problem: Problem, draws: Draws, iterations: int, numbers) -> Trace:
    """Q_{k+1} = p Q_k + q Q_{k-1} + s T_k Q_k + t T_k Q_{k-1}, `numbers(k)` = (p, q, s, t)."""
    now, before, trace = problem.q0(), problem.q0(), Trace()
    for k in range(iterations):
        sample = draws.sample(k)
        p, q, s, t = numbers(k)
        new_target, old_target = target(problem, sample, now), target(problem, sample, before)
        after = now.copy()
        for i in sample:
            after[i] = p * now[i] + q * before[i] + s * new_target[i] + t * old_target[i]
        before, now = now, after
        trace.add(now)
    return trace


def speedy_q(problem: Problem, draws: Draws, iterations: int, form: str = "azar", step: Step = harmonic) -> Trace:
    """Q_k + al (T_k Q_{k-1} - Q_k) + (1-al)(T_k Q_k - T_k Q_{k-1}) (Azar et al. 2011); `printed` has T_k Q_k first."""
    now, before, trace = problem.q0(), problem.q0(), Trace()
    for k in range(iterations):
        sample, al = draws.sample(k), step(k)
        new, old = target(problem, sample, now), target(problem, sample, before)
        after = now.copy()
        for i in sample:
            first = old[i] if form == "azar" else new[i]
            after[i] = now[i] + al * (first - now[i]) + (1 - al) * (new[i] - old[i])
        before, now = now, after
        trace.add(now)
    return trace


def momentum_q(problem: Problem, draws: Draws, iterations: int, m: float = 2, shifted: bool = False) -> Trace:
    """Algorithm 1 literally; shifted: k + m in place of k in a, b and c."""

    def numbers(k):
        j = k + m if shifted else k
        return 1 / (j + 1), j - m - 1, (-j * j + (m + 1) * j + 1) / (j + 1)

    return template(problem, draws, iterations, numbers)


def momentum_q_linear(
    problem: Problem, draws: Draws, iterations: int, beta=0.8, lam=0.999, phi=0.5, step: Step = harmonic
) -> Trace:
    """Algorithm 2 on tables: b = phi beta lam^k, c = (1 - phi) beta lam^k."""

    def numbers(k):
        momentum = beta * lam**k
        return step(k), phi * momentum, (1 - phi) * momentum

    return template(problem, draws, iterations, numbers)


def template(problem: Problem, draws: Draws, iterations: int, numbers) -> Trace:
    """The paper, 3.1, literally: S_k, P_k and P_k + b (P_k - S_k) + c (Q_k - Q_{k-1}), `numbers(k)` = (a, b, c)."""
    now, before, trace = problem.q0(), problem.q0(), Trace()
    for k in range(iterations):
        a, b, c = numbers(k)
        sample = draws.sample(k)
        new, old = target(problem, sample, now), target(problem, sample, before)
        after = now.copy()
        for i in sample:
            s_k = (1 - a) * before[i] + a * old[i]
            p_k = (1 - a) * now[i] + a * new[i]
            after[i] = p_k + b * (p_k - s_k) + c * (now[i] - before[i])
        before, now = now, after
        trace.add(now)
    return trace


def nesa(problem: Problem, draws: Draws, iterations: int, zeta: float = 0.1, step: Step = harmonic) -> Trace:
    """Q_k + (Q_k - Q_{k-1}) + zeta [f_k(Q_k) - f_k(Q_{k-1})] + zeta al f_k(Q_k), f_k(Q) = T_k Q - Q (Devraj et al.)."""
    now, before, trace = problem.q0(), problem.q0(), Trace()
    for k in range(iterations):
        sample, al = draws.sample(k), step(k)
        new, old = target(problem, sample, now), target(problem, sample, before)
        after = now.copy()
        for i in sample:
            f_now, f_before = new[i] - now[i], old[i] - before[i]
            after[i] = now[i] + (now[i] - before[i]) + zeta * (f_now - f_before) + zeta * al * f_now
        before, now = now, after
        trace.add(now)
    return trace


def root_sa(problem: Problem, draws: Draws, iterations: int, eta: float = 0.1, burn_in: int = 1) -> Trace:
    """v = f_k(Q_k) + (1-al)(v - f_k(Q_{k-1})), Q += eta v, al = 1/(k+1) (Mou et al. 2022).

    With a burn-in Q stays at Q_0 until v is the mean of `burn_in` draws of f(Q_0); from there al = 1/(k + burn_in).
    """
    now, before, v, trace = problem.q0(), problem.q0(), np.zeros(problem.n), Trace()
    for k in range(iterations):
        sample, al = draws.sample(k), harmonic(k)
        new, old = target(problem, sample, now), target(problem, sample, before)
        after = now.copy()
        for i in sample:
            v[i] = (new[i] - now[i]) + (1 - al) * (v[i] - (old[i] - before[i]))
            if k >= burn_in - 1:
                after[i] = now[i] + eta * v[i]
        before, now = now, after
        trace.add(now)
    return trace


def root_sa_numbers(eta: float = 0.1):
    """The four numbers of root-SA, for `four_numbers`."""

    def numbers(k):
        al = harmonic(k)
        return 2 - al - eta, -(1 - al) * (1 - eta), eta, -eta * (1 - al)

    return numbers


def halpern_direct(problem: Problem, draws: Draws, iterations: int, be: Step = lambda k: 1 / (k + 2)) -> Trace:
    """Q = be Q_0 + (1-be) T_k Q; does not converge with single draws."""
    q, start, trace = problem.q0(), problem.q0(), Trace()
    for k in range(iterations):
        t = target(problem, draws.sample(k), q)
        for i in t:
            q[i] = be(k) * start[i] + (1 - be(k)) * t[i]
        trace.add(q)
    return trace


def halpern_difference(problem: Problem, draws: Draws, iterations: int, be: Step = harmonic, first=None) -> Trace:
    """Q_{k+1} = rho Q_k + (1-be_{k+1}) T_k Q_k - rho (1-be_k) T_k Q_{k-1}, rho = be_{k+1}/be_k.

    The first step is be_1 Q_0 + (1-be_1) T_0 Q_0; `first` replaces its be_1 (0: the first step is T_0 Q_0).
    """
    now, before, trace = problem.q0(), problem.q0(), Trace()
    for k in range(iterations):
        sample = draws.sample(k)
        new, old = target(problem, sample, now), target(problem, sample, before)
        after = now.copy()
        for i in sample:
            if k == 0:
                weight = be(1) if first is None else first
                after[i] = weight * now[i] + (1 - weight) * new[i]
            else:
                rho = be(k + 1) / be(k)
                after[i] = rho * now[i] + (1 - be(k + 1)) * new[i] - rho * (1 - be(k)) * old[i]
        before, now = now, after
        trace.add(now)
    return trace


def phased_draws(problem: Problem) -> Callable[[int], int]:
    """N_l = ceil(10 g^-2l), l = 0, 1, ..."""
    return lambda phase: ceil(10 * problem.discount ** (-2 * phase))


def epoch_steps(problem: Problem) -> int:
    """K = ceil(10/(1-g)): 100, not 101, at g = .9, where the quotient is 100 plus a rounding error."""
    return ceil(round(10 / (1 - problem.discount), 9))
