"""Oracles of tabular rules whose steps or gains adapt to the errors seen: see oracles.py for the conventions."""

from dataclasses import dataclass

import numpy as np
from oracles import Draws, Problem, Trace, target, wainwright


@dataclass(frozen=True)
class Gains:
    """PID gains of one pair."""

    kp: float = 1.0
    ki: float = 0.0
    kd: float = 0.0


def pid(problem: Problem, draws: Draws, iterations: int, gains=Gains(), mu=None, al0=0.05, be=0.95) -> Trace:
    """B = T_k q - q, u = be z + al0 B; from old values q += mu (kp B + ki u + kd (q - q')), z = (1-mu) z + mu u,
    q' = (1-mu) q' + mu q (Bedaywi, Rakhsha, Farahmand 2024). z_0 = 0, q'_0 = q_0, mu rescaled by default.
    """
    mu = mu or wainwright(problem)
    q, z, slow, trace = problem.q0(), np.zeros(problem.n), problem.q0(), Trace()
    for k in range(iterations):
        t = target(problem, draws.sample(k), q)
        for i in t:
            b = t[i] - q[i]
            u = be * z[i] + al0 * b
            old = q[i]
            q[i] = old + mu(k) * (gains.kp * b + gains.ki * u + gains.kd * (old - slow[i]))
            z[i] = (1 - mu(k)) * z[i] + mu(k) * u
            slow[i] = (1 - mu(k)) * slow[i] + mu(k) * old
        trace.add(q)
    return trace


def pid_adaptive(
    problem: Problem,
    draws: Draws,
    iterations: int,
    eta=1e-4,
    lam=0.0,
    eps=0.1,
    mu=None,
    al0=0.05,
    be=0.95,
    previous_draw=False,
    common=False,
) -> Trace:
    """PID with gains of each pair adapted at its visits, before its step, from copies before the pair's last step.
    common: there is one of each gain, for all pairs.

    Bold = T_k of the copies, minus the copy, on the present draw (`previous_draw`: the pair's last B, 0 at first);
    B2 = .5 B2 + .5 Bold^2, N = eps + B2;  kp = 1 + (1-lam)(kp-1) + eta B Bold/N;
    kd = (1-lam) kd + eta B (qold - q'old)/N;  ki = (1-lam) ki + eta B (be zold + al0 Bold)/N.
    """
    n, mu = problem.n, mu or wainwright(problem)
    q, z, slow, trace = problem.q0(), np.zeros(n), problem.q0(), Trace()
    q_old, z_old, slow_old, last = q.copy(), z.copy(), slow.copy(), np.zeros(n)
    kp, ki, kd, squares = np.ones(n), np.zeros(n), np.zeros(n), np.zeros(n)
    for k in range(iterations):
        sample, m = draws.sample(k), mu(k)
        t, t_old = target(problem, sample, q), target(problem, sample, q_old)
        for i in sample:
            b = t[i] - q[i]
            b_old = last[i] if previous_draw else t_old[i] - q_old[i]
            squares[i] = 0.5 * squares[i] + 0.5 * b_old**2
            scale, own = eta * b / (eps + squares[i]), 0 if common else i
            kp[own] = 1 + (1 - lam) * (kp[own] - 1) + scale * b_old
            kd[own] = (1 - lam) * kd[own] + scale * (q_old[i] - slow_old[i])
            ki[own] = (1 - lam) * ki[own] + scale * (be * z_old[i] + al0 * b_old)
            q_old[i], z_old[i], slow_old[i], last[i] = q[i], z[i], slow[i], b
            u = be * z[i] + al0 * b
            q[i] = q_old[i] + m * (kp[own] * b + ki[own] * u + kd[own] * (q_old[i] - slow_old[i]))
            z[i] = (1 - m) * z_old[i] + m * u
            slow[i] = (1 - m) * slow_old[i] + m * q_old[i]
        trace.add(q)
    return trace


def adam(problem: Problem, draws: Draws, iterations: int, a0=0.1, b1=0.9, b2=0.999, eps=1e-8) -> Trace:
    """e = q - T_k q at visited pairs, 0 at others; m = b1 m + (1-b1) e, v = b2 v + (1-b2) e^2, both corrected for their
    start; q -= al m/(sqrt(v)+eps), al = a0/sqrt(k+1). Every entry moves at every iteration.
    """
    q, m, v, trace = problem.q0(), np.zeros(problem.n), np.zeros(problem.n), Trace()
    for k in range(iterations):
        t = target(problem, draws.sample(k), q)
        for i in range(problem.n):
            e = q[i] - t[i] if i in t else 0.0
            m[i] = b1 * m[i] + (1 - b1) * e
            v[i] = b2 * v[i] + (1 - b2) * e**2
            first, second = m[i] / (1 - b1 ** (k + 1)), v[i] / (1 - b2 ** (k + 1))
            q[i] -= a0 / np.sqrt(k + 1) * first / (np.sqrt(second) + eps)
        trace.add(q)
    return trace


def amsgrad(
    problem: Problem, draws: Draws, iterations: int, a0=0.01, b1=0.9, decay=1.0, b2=0.999, restart=100, form="adam"
) -> Trace:
    """e as for Adam; m = b1_k m + (1-b1_k) e, b1_k = b1 decay^k; vmax = max(vmax, v); q -= al m/sqrt(vmax), nothing
    where vmax = 0; every `restart` steps m = 0; al = a0/sqrt(k+1) (Weng et al. 2020). Every entry moves, always.

    `form`: v = b2 v + (1-b2) e^2 (adam), or b2 vmax + (1-b2) e^2 (maximum).
    """
    q, m, v, largest, trace = problem.q0(), *(np.zeros(problem.n) for _ in range(3)), Trace()
    for k in range(iterations):
        if k % restart == 0:
            m[:] = 0.0
        beta = b1 * decay**k
        t = target(problem, draws.sample(k), q)
        for i in range(problem.n):
            e = q[i] - t[i] if i in t else 0.0
            m[i] = beta * m[i] + (1 - beta) * e
            v[i] = b2 * (v[i] if form == "adam" else largest[i]) + (1 - b2) * e**2
            largest[i] = max(largest[i], v[i])
            if largest[i] > 0:
                q[i] -= a0 / np.sqrt(k + 1) * m[i] / np.sqrt(largest[i])
        trace.add(q)
    return trace
