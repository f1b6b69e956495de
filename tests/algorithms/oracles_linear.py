"""Oracles of the rules with linear features, on one transition (pair, y, r) an iteration: see oracles.py.

Row i of `phi` (n, d) holds the features of pair i, Q = phi theta, theta_0 = 0. With psi = phi[i] and psi' the features
of the greedy action at y (0 at a terminal y), d(theta) = r + g psi' theta - psi theta. Each rule returns the vectors
that are measured. Momentum, means and gains move all coordinates, features only their own.
"""

import numpy as np
from oracles import Draws, Problem, Step, harmonic, rescaled, wainwright

Vectors = list[np.ndarray]


def features(problem: Problem, phi, theta, y: int) -> np.ndarray:
    """psi': features of the greedy action of theta at y; 0 at a terminal y."""
    best = problem.greedy(phi @ theta, y)
    return np.zeros(phi.shape[1]) if best is None else phi[best]


def difference(problem: Problem, phi, theta, i: int, y: int, r: float, by=None) -> float:
    """d(theta); with `by`, the greedy action is that of `by`."""
    after = features(problem, phi, theta if by is None else by, y)
    return r + problem.discount * (after @ theta) - phi[i] @ theta


def transition(draws: Draws, k: int) -> tuple[int, int, float]:
    ((i, [(y, r)]),) = draws.sample(k).items()
    return i, y, r


def q_linear(problem: Problem, phi, draws: Draws, iterations: int, step: Step = harmonic) -> Vectors:
    """theta += al psi d."""
    theta, result = np.zeros(phi.shape[1]), []
    for k in range(iterations):
        i, y, r = transition(draws, k)
        theta = theta + step(k) * phi[i] * difference(problem, phi, theta, i, y, r)
        result.append(theta)
    return result


def momentum_linear(
    problem: Problem, phi, draws: Draws, iterations: int, a: Step, b: Step, c: Step, same_sample=False
) -> Vectors:
    """theta_{k+1} = theta_k + (b+c)(theta_k - theta_{k-1}) - a (1+b) g_k + a b g_{k-1}, g = -psi d; g_{-1} = g_0.

    g_{k-1} is stored, or taken at theta_{k-1} on the present transition.
    """
    now, before, stored, result = np.zeros(phi.shape[1]), np.zeros(phi.shape[1]), None, []
    for k in range(iterations):
        i, y, r = transition(draws, k)
        gradient = -phi[i] * difference(problem, phi, now, i, y, r)
        if same_sample:
            stored = -phi[i] * difference(problem, phi, before, i, y, r)
        elif stored is None:
            stored = gradient
        after = now + (b(k) + c(k)) * (now - before) - a(k) * (1 + b(k)) * gradient + a(k) * b(k) * stored
        before, now, stored = now, after, gradient
        result.append(now)
    return result


def numbers_linear(problem: Problem, phi, draws: Draws, iterations: int, numbers, same_sample=True) -> Vectors:
    """theta - (q+t)(theta - theta_{k-1}) - s g_k - t g_{k-1}, `numbers(k)` = (p, q, s, t); g_{-1} = g_0."""
    now, before, stored, result = np.zeros(phi.shape[1]), np.zeros(phi.shape[1]), None, []
    for k in range(iterations):
        i, y, r = transition(draws, k)
        _, q, s, t = numbers(k)
        gradient = -phi[i] * difference(problem, phi, now, i, y, r)
        if same_sample:
            stored = -phi[i] * difference(problem, phi, before, i, y, r)
        elif stored is None:
            stored = gradient
        after = now - (q + t) * (now - before) - s * gradient - t * stored
        before, now, stored = now, after, gradient
        result.append(now)
    return result


def root_sa_linear(problem: Problem, phi, draws: Draws, iterations: int, eta=0.1) -> Vectors:
    """v = f_k(theta_k) + (1-al)(v - f_k(theta_{k-1})), theta += eta v, f_k = psi d, al = 1/(k+1)."""
    now, before, v, result = np.zeros(phi.shape[1]), np.zeros(phi.shape[1]), np.zeros(phi.shape[1]), []
    for k in range(iterations):
        i, y, r = transition(draws, k)
        old = phi[i] * difference(problem, phi, before, i, y, r)
        v = phi[i] * difference(problem, phi, now, i, y, r) + (1 - harmonic(k)) * (v - old)
        before, now = now, now + eta * v
        result.append(now)
    return result


def double_linear(problem: Problem, phi, draws: Draws, iterations: int, step=None) -> Vectors:
    """Heads: a += al psi (r + g Q_b(y, argmax Q_a(y,.)) - psi a); tails: exchanged. Estimate (a+b)/2."""
    a, b, result = np.zeros(phi.shape[1]), np.zeros(phi.shape[1]), []
    for k in range(iterations):
        i, y, r = transition(draws, k)
        al = min(1.0, 2 / (1 + (1 - problem.discount) * (k + 1))) if step is None else step(k)
        moved, other = (a, b) if draws.uniforms(k)[0] < 0.5 else (b, a)
        after = features(problem, phi, moved, y)
        moved += al * phi[i] * (r + problem.discount * (after @ other) - phi[i] @ moved)
        result.append((a + b) / 2)
    return result


def zap_linear(
    problem: Problem,
    phi,
    draws: Draws,
    iterations: int,
    rho=0.85,
    start=10.0,
    shift=2,
    step: Step = harmonic,
    ridge=0.0,
) -> Vectors:
    """A += gam (psi (g psi' - psi)' - A), theta -= al (A - ridge I)^-1 psi d, the new A; A_0 = -start I,
    gam = (k+shift)^-rho.
    """
    d = phi.shape[1]
    theta, gain, result = np.zeros(d), -start * np.eye(d), []
    for k in range(iterations):
        i, y, r = transition(draws, k)
        row = problem.discount * features(problem, phi, theta, y) - phi[i]
        gain = gain + (k + shift) ** -rho * (np.outer(phi[i], row) - gain)
        direction = phi[i] * difference(problem, phi, theta, i, y, r)
        theta = theta - step(k) * np.linalg.solve(gain - ridge * np.eye(d), direction)
        result.append(theta)
    return result


def polsa_linear(problem: Problem, phi, draws: Draws, iterations: int, zeta=0.1, rho=0.85, step=harmonic) -> Vectors:
    """A += gam (psi (g psi' - psi)' - A), D = (I + zeta A) D + zeta al psi d, theta += D; A_0 = -I."""
    d = phi.shape[1]
    theta, change, matrix, result = np.zeros(d), np.zeros(d), -np.eye(d), []
    for k in range(iterations):
        i, y, r = transition(draws, k)
        row = problem.discount * features(problem, phi, theta, y) - phi[i]
        matrix = matrix + (k + 1) ** -rho * (np.outer(phi[i], row) - matrix)
        direction = phi[i] * difference(problem, phi, theta, i, y, r)
        change = change + zeta * (matrix @ change) + zeta * step(k) * direction
        theta = theta + change
        result.append(theta)
    return result


def residual_linear(problem: Problem, phi, draws: Draws, iterations: int, w=1.0, step=None) -> Vectors:
    """theta += al d (psi - w g psi''), psi'' the features of the greedy action at the second successor."""
    theta, result, step = np.zeros(phi.shape[1]), [], step or wainwright(problem)
    for k in range(iterations):
        i, y, r = transition(draws, k)
        again = features(problem, phi, theta, draws.again(k)[i][0])
        d = difference(problem, phi, theta, i, y, r)
        theta = theta + step(k) * d * (phi[i] - w * problem.discount * again)
        result.append(theta)
    return result


def periodic_linear(problem: Problem, phi, draws: Draws, iterations: int, period=400, step=lambda t: 1 / (4 + t)):
    """theta += al_t psi (r + g max of frozen - psi theta), frozen = theta every `period`. Estimate: frozen."""
    theta, frozen, result = np.zeros(phi.shape[1]), np.zeros(phi.shape[1]), []
    for k in range(iterations):
        i, y, r = transition(draws, k)
        after = features(problem, phi, frozen, y)
        d = r + problem.discount * (after @ frozen) - phi[i] @ theta
        theta = theta + step(k % period) * phi[i] * d
        frozen = theta if (k + 1) % period == 0 else frozen
        result.append(frozen)
    return result


def movi_linear(problem: Problem, phi, draws: Draws, iterations: int, step=lambda k: 1.0, keep_start=True) -> Vectors:
    """theta += al psi (r + g Q(y, argmax h(y,.)) - psi theta), h = b h + (1-b) theta. Estimate: h."""
    theta, h, result = np.zeros(phi.shape[1]), np.zeros(phi.shape[1]), []
    for k in range(iterations):
        i, y, r = transition(draws, k)
        b = (k + 1) / (k + 2) if keep_start else k / (k + 1)
        theta = theta + step(k) * phi[i] * difference(problem, phi, theta, i, y, r, by=h)
        h = b * h + (1 - b) * theta
        result.append(h)
    return result


def nesterov_linear(problem: Problem, phi, draws: Draws, iterations: int, step=None, a=None) -> Vectors:
    """h = theta + b (theta - theta_prev), theta = h + a al psi d(h)."""
    g = problem.discount
    b = (1 - np.sqrt(1 - g * g)) / g
    a, step = 1 - b if a is None else a, step or wainwright(problem)
    theta, before, result = np.zeros(phi.shape[1]), np.zeros(phi.shape[1]), []
    for k in range(iterations):
        i, y, r = transition(draws, k)
        h = theta + b * (theta - before)
        before, theta = theta, h + a * step(k) * phi[i] * difference(problem, phi, h, i, y, r)
        result.append(theta)
    return result


def averaging_linear(problem: Problem, phi, draws: Draws, iterations: int, step=None, d: float = 1.0) -> Vectors:
    """From both old vectors: a += al psi (r + g max Q_b(y,.) - psi a), b += al d (a - b). Estimate: b."""
    a, b, result, step = (
        np.zeros(phi.shape[1]),
        np.zeros(phi.shape[1]),
        [],
        step or rescaled(2 / (1 - problem.discount)),
    )
    for k in range(iterations):
        i, y, r = transition(draws, k)
        error = r + problem.discount * (features(problem, phi, b, y) @ b) - phi[i] @ a
        a, b = a + step(k) * phi[i] * error, b + step(k) * d * (a - b)
        result.append(b)
    return result


def adam_linear(problem: Problem, phi, draws: Draws, iterations: int, a0=0.1, b1=0.9, b2=0.999, eps=1e-8) -> Vectors:
    """Adam on the gradient -psi d, every coordinate at every iteration, al = a0/sqrt(k+1)."""
    theta, m, v, result = *(np.zeros(phi.shape[1]) for _ in range(3)), []
    for k in range(iterations):
        i, y, r = transition(draws, k)
        e = -phi[i] * difference(problem, phi, theta, i, y, r)
        m, v = b1 * m + (1 - b1) * e, b2 * v + (1 - b2) * e**2
        first, second = m / (1 - b1 ** (k + 1)), v / (1 - b2 ** (k + 1))
        theta = theta - a0 / np.sqrt(k + 1) * first / (np.sqrt(second) + eps)
        result.append(theta)
    return result


def amsgrad_linear(
    problem: Problem, phi, draws: Draws, iterations: int, a0=0.01, b1=0.9, decay=1.0, b2=0.999, restart=100, form="adam"
) -> Vectors:
    """AMSGrad with restart on the gradient -psi d, every coordinate at every iteration; see `amsgrad`."""
    d = phi.shape[1]
    theta, m, v, largest, result = *(np.zeros(d) for _ in range(4)), []
    for k in range(iterations):
        i, y, r = transition(draws, k)
        if k % restart == 0:
            m = np.zeros(d)
        e = -phi[i] * difference(problem, phi, theta, i, y, r)
        beta = b1 * decay**k
        m = beta * m + (1 - beta) * e
        v = b2 * (v if form == "adam" else largest) + (1 - b2) * e**2
        largest = np.maximum(largest, v)
        theta = theta.copy()
        for j in range(d):
            if largest[j] > 0:
                theta[j] -= a0 / np.sqrt(k + 1) * m[j] / np.sqrt(largest[j])
        result.append(theta)
    return result
