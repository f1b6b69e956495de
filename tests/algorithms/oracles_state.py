"""Oracles of tabular rules that keep more than Q_k and Q_{k-1}: see oracles.py for the conventions."""

import numpy as np
from oracles import (
    Draws,
    Problem,
    Step,
    Table,
    Trace,
    epoch_steps,
    greedy_rows,
    harmonic,
    phased_draws,
    rescaled,
    target,
    wainwright,
)


def double_q(
    problem: Problem, draws: Draws, iterations: int, clock="twice", step: Step = harmonic, exponent=0.8
) -> Trace:
    """Heads (first uniform below 1/2): a += al (r + g b(y, argmax a(y,.)) - a); tails: exchanged (van Hasselt 2010).

    `twice`: al = min(1, 2/(1+(1-g)(k+1))); `own`: n^-exponent of the table's own count of the pair; `global`: `step`.
    """
    a, b, trace = problem.q0(), problem.q0(), Trace()
    counts = {"a": np.zeros(problem.n), "b": np.zeros(problem.n)}
    for k in range(iterations):
        heads = draws.uniforms(k)[0] < 0.5
        moved, other, count = (a, b, counts["a"]) if heads else (b, a, counts["b"])
        t = target(problem, draws.sample(k), other, by=moved)
        for i in t:
            count[i] += 1
            if clock == "own":
                al = count[i] ** -exponent
            elif clock == "twice":
                al = min(1.0, 2 / (1 + (1 - problem.discount) * (k + 1)))
            else:
                al = step(k)
            moved[i] = moved[i] + al * (t[i] - moved[i])
        trace.add((a + b) / 2)
    return trace


def maxmin(
    problem: Problem, draws: Draws, iterations: int, n=2, factor: float | None = None, step: Step | None = None
) -> Trace:
    """Table floor(n u), u the first uniform, moves to r + g max_v min_j Q_j(y, v) (Lan et al. 2020); measured: min_j.

    The step is min(1, n/(1+(1-g)(k+1))), or min(1, factor step(k)).
    """
    tables, trace = [problem.q0() for _ in range(n)], Trace()
    for k in range(iterations):
        least = np.min(tables, axis=0)
        moved = tables[int(draws.uniforms(k)[0] * n)]
        rescaled = 1 / (1 + (1 - problem.discount) * (k + 1))
        al = min(1.0, (n if factor is None else factor) * (rescaled if step is None else step(k)))
        t = target(problem, draws.sample(k), least)
        for i in t:
            moved[i] = moved[i] + al * (t[i] - moved[i])
        trace.add(np.min(tables, axis=0))
    return trace


def zap(problem: Problem, draws: Draws, iterations: int, rho=0.85, start=1.0, shift=1, step: Step = harmonic) -> Trace:
    """Synchronous: M += gam (I - g Phat_k S_greedy(q) - M), q += al M^-1 (T_k q - q), the new M (Devraj, Meyn 2017).

    M_0 = start I, gam = (k+shift)^-rho. The authors start at 10 I with shift 2.
    """
    q, trace = problem.q0(), Trace()
    gain = start * np.eye(problem.n)
    for k in range(iterations):
        sample, gam = draws.sample(k), (k + shift) ** -rho
        jacobian = np.eye(problem.n) - problem.discount * greedy_rows(problem, sample, q)
        gain = gain + gam * (jacobian - gain)
        t = target(problem, sample, q)
        difference = np.array([t[i] - q[i] for i in range(problem.n)])
        q = q + step(k) * np.linalg.solve(gain, difference)
        trace.add(q)
    return trace


def zap_asynchronous(
    problem: Problem, draws: Draws, iterations: int, rho=0.85, start=10.0, shift=2, step: Step = harmonic
) -> Trace:
    """A += gam (psi (g psi' - psi)' - A), q -= al A^-1 psi d, the new A; psi the unit vector of the visited pair.

    A_0 = -start I, gam = (k+shift)^-rho. All entries move.
    """
    q, trace = problem.q0(), Trace()
    gain = -start * np.eye(problem.n)
    for k in range(iterations):
        ((i, [(y, r)]),) = draws.sample(k).items()
        best = problem.greedy(q, y)
        now = np.zeros((problem.n, problem.n))
        now[i, i] -= 1
        if best is not None:
            now[i, best] += problem.discount
        gain = gain + (k + shift) ** -rho * (now - gain)
        direction = np.zeros(problem.n)
        direction[i] = r + (0.0 if best is None else problem.discount * q[best]) - q[i]
        q = q - step(k) * np.linalg.solve(gain, direction)
        trace.add(q)
    return trace


def polsa(problem: Problem, draws: Draws, iterations: int, zeta=0.1, rho=0.85, step: Step = harmonic) -> Trace:
    """A += gam (A_k - A), D = (I + zeta A) D + zeta al (T_k q - q), q += D; new A, new D (Devraj, Busic, Meyn 2019).

    A_k = -I + g Phat_k S_greedy(q), gam = (k+1)^-rho, A_0 = -I. Asynchronously A_k has the visited row only.
    """
    q, change, trace = problem.q0(), np.zeros(problem.n), Trace()
    matrix = -np.eye(problem.n)
    for k in range(iterations):
        sample = draws.sample(k)
        now = problem.discount * greedy_rows(problem, sample, q)
        for i in sample:
            now[i, i] -= 1
        matrix = matrix + (k + 1) ** -rho * (now - matrix)
        t = target(problem, sample, q)
        difference = np.zeros(problem.n)
        for i in sample:
            difference[i] = t[i] - q[i]
        change = change + zeta * (matrix @ change) + zeta * step(k) * difference
        q = q + change
        trace.add(q)
    return trace


def residual_gradient(problem: Problem, draws: Draws, iterations: int, w: float = 1.0, step=None) -> Trace:
    """d = T_k q - q, q(x,u) += al d, q(y', argmax q(y',.)) -= w al g d; y' independent of y (Baird 1995).

    All from the old table. The reward is that of y; nothing is written where y' is terminal; default step rescaled.
    """
    q, trace, step = problem.q0(), Trace(), step or wainwright(problem)
    for k in range(iterations):
        sample, again, al = draws.sample(k), draws.again(k), step(k)
        t, new = target(problem, sample, q), q.copy()
        for i in sample:
            d = t[i] - q[i]
            new[i] += al * d
            for y in again[i]:
                best = problem.greedy(q, y)
                if best is not None:
                    new[best] -= w * al * problem.discount * d / len(again[i])
        q = new
        trace.add(q)
    return trace


def phased(problem: Problem, draws: Draws, iterations: int, phase_draws=None) -> Trace:
    """Phase l: q_{l+1} = mean of N_l draws of T_k q_l (Kearns, Singh 1999). Estimate: the last finished table."""
    phase_draws = phase_draws or phased_draws(problem)
    q, total, trace = problem.q0(), np.zeros(problem.n), Trace()
    phase, seen = 0, 0
    for k in range(iterations):
        t = target(problem, draws.sample(k), q)
        for i in t:
            total[i] += t[i]
        seen += 1
        if seen == phase_draws(phase):
            q, total = total / seen, np.zeros(problem.n)
            phase, seen = phase + 1, 0
        trace.add(q)
    return trace


def periodic(problem: Problem, draws: Draws, iterations: int, period=400, step: Step = lambda t: 1 / (4 + t)) -> Trace:
    """`period` steps q += al_t (r + g max qbar(y) - q), then qbar = q and t = 0 (Lee, He 2020). Estimate: qbar."""
    q, frozen, trace = problem.q0(), problem.q0(), Trace()
    for k in range(iterations):
        t = target(problem, draws.sample(k), frozen)
        for i in t:
            q[i] = q[i] + step(k % period) * (t[i] - q[i])
        if (k + 1) % period == 0:
            frozen = q.copy()
        trace.add(frozen, acting=frozen)
    return trace


def variance_reduced(problem: Problem, draws: Draws, iterations: int, first=50, steps=None) -> Trace:
    """Epoch m = 1, 2, ...: anchor = q; Ttil = mean of N_m draws of T(anchor); then `steps` times, j = 1, 2, ...,
    q = (1-l) q + l [T_k q - T_k anchor + Ttil], l = 1/(1+(1-g)j); N_m = first 4^m (Wainwright 2019).

    Estimate: the table of the last whole epoch.
    """
    steps = epoch_steps(problem) if steps is None else steps
    q, anchor, mean, trace = problem.q0(), problem.q0(), np.zeros(problem.n), Trace()
    epoch, seen = 1, 0
    for k in range(iterations):
        sample, batch = draws.sample(k), first * 4**epoch
        at_anchor = target(problem, sample, anchor)
        seen += 1
        if seen <= batch:
            for i in sample:
                mean[i] += at_anchor[i] / batch
        else:
            share = 1 / (1 + (1 - problem.discount) * (seen - batch))
            t = target(problem, sample, q)
            for i in sample:
                q[i] = (1 - share) * q[i] + share * (t[i] - at_anchor[i] + mean[i])
        if seen == batch + steps:
            anchor, mean = q.copy(), np.zeros(problem.n)
            epoch, seen = epoch + 1, 0
        trace.add(anchor)
    return trace


def movi(
    problem: Problem, draws: Draws, iterations: int, step: Step = lambda k: 1.0, keep_start=True, everywhere=True
) -> Trace:
    """q += al (r + g q(y, argmax h(y,.)) - q), h = b h + (1-b) q, the new q (momentum value iteration).

    b = (k+1)/(k+2), or k/(k+1), which drops q_0 from the mean. h is measured and acts. `everywhere` False: only the
    visited entry of h moves.
    """
    q, h, trace = problem.q0(), problem.q0(), Trace()
    for k in range(iterations):
        b = (k + 1) / (k + 2) if keep_start else k / (k + 1)
        t = target(problem, draws.sample(k), q, by=h)
        for i in t:
            q[i] = q[i] + step(k) * (t[i] - q[i])
        for i in range(problem.n) if everywhere else t:
            h[i] = b * h[i] + (1 - b) * q[i]
        trace.add(h)
    return trace


def nesterov(problem: Problem, draws: Draws, iterations: int, step=None, a=None) -> Trace:
    """h = q + b (q - q_prev), q = h + a al (T_k h - h), b = (1-sqrt(1-g^2))/g; a = 1-b unless given.

    The momentum moves all entries, the target the visited ones.
    """
    g = problem.discount
    b = (1 - np.sqrt(1 - g * g)) / g
    a, step = 1 - b if a is None else a, step or wainwright(problem)
    q, before, trace = problem.q0(), problem.q0(), Trace()
    for k in range(iterations):
        h = q + b * (q - before)
        t = target(problem, draws.sample(k), h)
        after = h.copy()
        for i in t:
            after[i] = h[i] + a * step(k) * (t[i] - h[i])
        before, q = q, after
        trace.add(q)
    return trace


def averaging_q(problem: Problem, draws: Draws, iterations: int, step=None, d: float = 1.0) -> Trace:
    """From both old tables: a += al (r + g max b(y) - a) at visited pairs, b += al d (a - b) everywhere (Lee, He).

    Step resc(2/(1-g)). Estimate: b.
    """
    a, b, trace, step = problem.q0(), problem.q0(), Trace(), step or rescaled(2 / (1 - problem.discount))
    for k in range(iterations):
        t = target(problem, draws.sample(k), b)
        new_a, new_b = a.copy(), b.copy()
        for i in t:
            new_a[i] = a[i] + step(k) * (t[i] - a[i])
        for i in range(problem.n):
            new_b[i] = b[i] + step(k) * d * (a[i] - b[i])
        a, b = new_a, new_b
        trace.add(b)
    return trace


def polyak_ruppert(trace: Trace, start: int = 0) -> list[Table]:
    """Mean of the tables that iterations k >= start made; before the first of them, the iterate itself."""
    result = []
    for k, table in enumerate(trace.estimate):
        result.append(np.mean(trace.estimate[start : k + 1], axis=0) if k >= start else table)
    return result
