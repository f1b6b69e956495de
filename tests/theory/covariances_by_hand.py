"""Literal forms of what the theory computes: pair by pair, by loops and Kronecker products, no code shared."""

import numpy as np


def noise_and_policy(mdp, v, policy, sampled):
    """Pairs, D (n,), P* (n, n) and the successors [(probability, column or None), ...] of each pair, by loops."""
    pairs = [(x, u) for x in range(mdp.n_states) for u in range(mdp.n_actions) if mdp.counted[x, u]]
    ahead, d = [], []
    for x, u in pairs:
        outcomes, targets = [], []
        for p, y, r in zip(mdp.probabilities[x, u], mdp.successors[x, u], mdp.rewards[x, u], strict=True):
            if p == 0:
                continue
            outcomes.append((p, None if mdp.terminal[y] else pairs.index((y, policy[y]))))
            targets.append((p, (r if sampled else 0.0) + mdp.discount * (0.0 if mdp.terminal[y] else v[y])))
        mean = sum(p * z for p, z in targets)
        d.append(sum(p * (z - mean) ** 2 for p, z in targets))
        ahead.append(outcomes)
    star = np.zeros((len(pairs), len(pairs)))
    for i, outcomes in enumerate(ahead):
        for p, j in outcomes:
            if j is not None:
                star[i, j] += p
    return pairs, np.array(d), star, ahead


def sigma(d, star, ahead, g, q, t, c, batch=1):
    """Sigma of the proposition: the lag by iterating its equation, Sigma by one linear system of n^2 unknowns."""
    n = len(d)
    h = -(q * np.eye(n) + t * g * star)
    sd, vs = np.zeros((n, n)), np.zeros(n)
    for _ in range(20_000):
        fed = np.zeros(n)
        for i, outcomes in enumerate(ahead):
            fed[i] = sum(p * sd[j, j] for p, j in outcomes if j is not None) - star[i] @ sd @ star[i]
        new = (c * c * d + g * g * t * t * fed) / batch
        sd_new = h @ sd @ h.T + np.diag(new)
        if np.abs(sd_new - sd).max() <= 1e-15 * max(np.abs(sd_new).max(), 1e-300) and np.allclose(new, vs, rtol=1e-14):
            break
        sd, vs = sd_new, new
    gain = np.linalg.inv(np.eye(n) - h)
    b = np.eye(n) / 2 - c * gain @ (np.eye(n) - g * star)
    return lyapunov(b, gain @ np.diag(vs) @ gain.T)


def lyapunov(b, v):
    """X with b X + X b' + v = 0."""
    one = np.eye(len(b))
    return np.linalg.solve(np.kron(b, one) + np.kron(one, b), -v.ravel()).reshape(v.shape)
