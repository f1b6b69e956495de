"""The compiled synchronous loop: its NumPy twin, and the frequencies of its draws."""

import dataclasses

import numpy as np
import pytest
import twins
from kernel_cases import Numbers, lottery
from random_mdps import random_mdp
from scipy.stats import chisquare

from mqlearn import jit
from mqlearn.algorithms import MomentumQ, Rule
from mqlearn.problems.environments import frozen_lake
from mqlearn.problems.mdp import FiniteMDP
from mqlearn.sampling.modes import Synchronous


def random_model(base: int, equal: bool, seed: int = 1) -> FiniteMDP:
    mdp = random_mdp(seed, 9, 3, base, 0.9, "mixed")
    return dataclasses.replace(mdp, probabilities=np.full_like(mdp.probabilities, 1 / base)) if equal else mdp


class Sampled(Rule):
    """Q_{k+1} = T_k Q_k: the draws themselves."""

    def update(self, k, q, q_prev, target, target_prev):
        return target + 0 * k


MODELS = {
    "deterministic": frozen_lake("4x4", slippery=False),
    "thirds": frozen_lake("4x4"),
    "unequal thirds": frozen_lake("4x4", success_rate=0.8),
    "halves": random_model(2, equal=True),
    "fifths": random_model(5, equal=True),
    "unequal halves": random_model(2, equal=False),
    "unequal fifths": random_model(5, equal=False),
    "sixteenths": random_model(16, equal=True),
}


@pytest.mark.parametrize("mean_reward", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_synchronous_is_its_numpy_twin(name, mean_reward):
    mdp, rule, lanes, seed = MODELS[name], Numbers(), np.array([0, 1, 5, 11, 2**32 - 1], np.uint32), 3
    learner = twins.learner(mdp, Synchronous(), lanes, seed=seed, initial=(-1.0, 1.0), mean_reward=mean_reward)
    x, u = mdp.pairs.T
    q = q_prev = learner.tables()[:, x, u].T
    assert np.ptp(q) > 1
    twins.advance(learner, rule, 1, 6, 0, 1, 30)  # even and odd blocks
    steps = zip(rule.weights(0, 38), twins.synchronous_outcomes(mdp, seed, lanes, 38), strict=True)
    for (w_q, w_prev, s, t), outcomes in steps:
        target, target_prev = (twins.sampled_operator(mdp, table, outcomes, mean_reward) for table in (q, q_prev))
        q, q_prev = w_q * q + w_prev * q_prev + s * target + t * target_prev, q
    np.testing.assert_allclose(learner.tables()[:, x, u].T, q, rtol=1e-12, atol=1e-13)
    np.testing.assert_array_equal(learner.largest(), np.abs(learner.tables()).max(axis=(1, 2)))


def draws(mdp: FiniteMDP, n_lanes: int, n: int) -> np.ndarray:
    """(n, pairs, lanes) outcomes of the lottery, read off the tables."""
    learner = twins.learner(mdp, Synchronous(), np.arange(n_lanes))
    seen = []
    for k in range(n):
        learner.advance(k, 1, Sampled().weights(k, k + 1))
        seen.append(learner.tables()[:, 0].T)
    return np.stack(seen).astype(int)


@pytest.mark.parametrize(
    "p",
    [
        np.full(2, 1 / 2),
        np.full(3, 1 / 3),
        np.full(5, 1 / 5),
        np.array([0.1, 0.8, 0.1]),
        np.array([0.05, 0.0, 0.6, 0.35]),
    ],
    ids=str,
)
def test_synchronous_draws_have_the_frequencies_of_the_model(p):
    """Each pair by itself; two pairs that share a word or lie in neighbouring words; one pair at two iterations."""
    b = draws(lottery(len(p), p), n_lanes=64, n=400)
    possible = p > 0
    for pair in range(b.shape[1]):
        counts = np.bincount(b[:, pair].ravel(), minlength=len(p))
        assert counts[~possible].sum() == 0
        assert chisquare(counts[possible], p[possible] * counts.sum()).pvalue > 1e-5
    joint = np.outer(p, p).ravel()
    couples = [(b[:, i], b[:, j]) for i, j in [(0, 1), (0, 9), (9, 10), (15, 16), (3, 22)]]
    couples += [(b[:-1, 4], b[1:, 4]), (b[:, 4, :-1], b[:, 4, 1:])]
    for one, other in couples:
        counts = np.bincount((one * len(p) + other).ravel(), minlength=len(joint))
        assert chisquare(counts[joint > 0], joint[joint > 0] * counts.sum()).pvalue > 1e-5


def test_lanes_do_not_depend_on_their_neighbours():
    mdp, rule = frozen_lake("4x4"), MomentumQ()
    together = twins.advance(twins.learner(mdp, Synchronous(), np.arange(13)), rule, 77).tables()
    alone = twins.advance(twins.learner(mdp, Synchronous(), [7]), rule, 40, 37).tables()
    np.testing.assert_array_equal(together[7], alone[0])


def test_the_locked_numba_can_be_told_that_tables_do_not_overlap():
    """Without that the synchronous kernel is right all the same, but slower: nobody would notice."""
    assert jit.without_overlap()
