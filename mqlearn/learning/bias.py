"""What Markovian sampling adds to an update, measured: E (g_k - gbar(theta_k))'(theta_k - theta*), over seeds.

And how far the memory of replay is from the stationary distribution of its chain. Both from the samples that a run with
these settings learns from.
"""

from typing import Any

import numpy as np

from mqlearn.algorithms.rule import Rule
from mqlearn.learners import Linear, start
from mqlearn.learners.initial import Initial
from mqlearn.problems.feature_rows import Features
from mqlearn.problems.mdp import FiniteMDP, bellman, state_values
from mqlearn.sampling.chains import Chain, Samples
from mqlearn.sampling.modes import Sampling
from mqlearn.sampling.sample_numbers import unpack

_BLOCK = 4096  # iterations whose samples are held at a time


def measured_bias(
    mdp: FiniteMDP, features: Features, linear: Linear, sampling: Any, rule: Rule, mu: np.ndarray, root: np.ndarray,
    iteration: np.ndarray, *, n_seeds: int, seed: int = 0, theta0: Initial = 0.0, mean_reward: bool = False,
) -> np.ndarray:  # fmt: skip
    """(n_seeds, C): (g_k - gbar(theta_k))'(theta_k - theta*) of each seed at these iterations (C,), increasing.

    rule: with its step size.   sampling: non-adaptive.   mu (S, A): of the samples, for gbar.   root (d,): theta*.
    """
    lanes = np.arange(n_seeds, dtype=np.uint32)
    learner: Any = start(mdp, sampling, features, linear, seed, theta0, mean_reward, lanes, rule=rule)
    samples = Samples(Chain(mdp, sampling, lanes, seed, mean_reward))  # those that the learner draws too
    found, done = [], 0

    def advance(n: int) -> None:
        nonlocal done
        samples.draw(n)
        learner.advance(done, n, rule.weights(*learner.rows(done, n)))
        done += n

    for k in np.asarray(iteration).tolist():
        while done < k:
            advance(min(_BLOCK, k - done))
        theta = learner.theta.copy()
        advance(1)
        numbers = samples.block(k, 1, np.arange(n_seeds))[:, 0]
        with np.errstate(over="ignore", invalid="ignore"):  # of a seed that diverges
            difference = _gradients(mdp, features, samples.chain.model, numbers, theta)
            difference -= _mean_gradients(mdp, features, mu, theta)
            found.append((difference * (theta - root)).sum(1))
    return np.stack(found, axis=1)


def _gradients(mdp: FiniteMDP, features: Features, model: Any, numbers: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """(L, d): g of one sample a seed."""
    pair, outcome, y, _ = unpack(numbers, model.shift)
    table, row = features.table(mdp, theta), np.arange(len(theta))
    x, u = mdp.pairs[pair].T
    best = state_values(mdp, table)[row, y]
    error = table[row, x, u] - model.rewards[pair, outcome] - mdp.discount * best
    return error[:, None] * features.matrix()[pair].toarray()


def _mean_gradients(mdp: FiniteMDP, features: Features, mu: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """(L, d): gbar of each theta."""
    x, u = mdp.pairs.T
    table = features.table(mdp, theta)
    return (mu * (table - bellman(mdp, table)))[:, x, u] @ features.matrix()


def replay_distance(
    mdp: FiniteMDP, sampling: Sampling, mu: np.ndarray, iteration: np.ndarray, *, n_seeds: int, seed: int = 0
) -> np.ndarray:
    """(n_seeds, C): total variation between the pairs in the memory after so many iterations (C,) and mu (S, A).

    A memory of N independent draws is away too, by about sqrt(n/(2 pi N)) for n equally likely pairs.   NaN while it is
    empty.
    """
    x, u = mdp.pairs.T
    samples = Samples(Chain(mdp, sampling, np.arange(n_seeds, dtype=np.uint32), seed, mean_reward=False))
    chain, found, done = samples.chain, [], 0
    for k in np.asarray(iteration).tolist():
        while done < k:
            samples.draw(min(_BLOCK, k - done))
            done = samples.k
        stored = np.minimum(chain.states[:, 2], chain.buffers.shape[1])
        pairs = unpack(chain.buffers, chain.model.shift).pair
        counts = [np.bincount(pairs[lane, :n], minlength=len(x)) for lane, n in enumerate(stored)]
        share = np.array(counts) / np.where(stored == 0, np.nan, stored)[:, None]
        found.append(np.abs(share - mu[x, u]).sum(1) / 2)
    return np.stack(found, axis=1)
