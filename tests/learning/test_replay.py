"""Replay: what its buffer holds, and what is drawn from it."""

import numpy as np
import twins
from kernel_cases import LAKE
from scipy.stats import chisquare
from twins import run

from mqlearn.algorithms import QLearning
from mqlearn.learners import AsynchronousTable
from mqlearn.sampling.chains import Chain
from mqlearn.sampling.modes import Markovian, Replay


def test_replay_draws_hold_what_was_pushed_and_is_still_there():
    """Every draw is one of the last `capacity` transitions of the chain, which is the Markovian one."""
    n, capacity = 3000, 40
    drawn = np.stack(twins.drawn(LAKE, Replay(capacity=capacity), n))
    pushed = np.stack(twins.drawn(LAKE, Markovian(), n))
    ages = []
    for i in range(n):
        held = pushed[:, max(0, i + 1 - capacity) : i + 1]
        same = (held == drawn[:, i : i + 1]).all(axis=0)
        assert same.any()
        ages.append(same)
    assert (drawn[:, 0] == pushed[:, 0]).all()  # there was no other
    assert np.mean([same[-1] for same in ages[capacity:]]) < 0.3  # not always the newest


def test_replay_draws_are_uniform_over_the_buffer():
    """40 different transitions in a buffer of 40: each is drawn as often as any other."""
    capacity = 40
    chain = Chain(LAKE, Replay(capacity=capacity, draws=capacity), np.array([3], np.uint32), 0, False)
    learner = AsynchronousTable(chain, 0.0, "global")
    chain.states[0, 2] = capacity * 1000  # the buffer is full
    _, successors, rewards, _, shift = chain.model
    first = np.arange(capacity, dtype=np.uint64)  # the first outcome of the pairs 0 .. 39, as the ring keeps it
    leads_to = 2 * successors[:capacity, 0].astype(np.uint64) + (rewards[:capacity, 0] != 0)
    chain.buffers[0] = first << np.uint64(shift + 32) | leads_to
    weights = np.tile([1.0, 0.0, 0.0, 0.0], (1, 1))
    for k in range(1, 39 * 500):
        if k % capacity:  # at the others the chain would push
            learner.advance(k, 1, weights)
    assert chisquare(learner.counts[0, :capacity]).pvalue > 0.001


def test_warm_up_fills_the_buffer_and_is_counted():
    sampling = Replay(capacity=500, warm_up=200, draws=10)
    learner = twins.learner(LAKE, sampling, range(3))
    assert (learner.chain.states[:, 2] == 200).all()
    assert (learner.chain.visits.sum(axis=1) == 200).all()
    twins.advance(learner, QLearning(), 95)
    assert (learner.chain.states[:, 2] == 210).all()
    assert (learner.counts.sum(axis=1) == 95).all()
    result = run(LAKE, QLearning(), iterations=95, n_seeds=3, sampling=sampling, n_checkpoints=3)
    assert result.facts["chain_steps"] == 630


def test_without_warm_up_the_first_draw_is_the_first_transition():
    sampling = Replay(capacity=50)
    pairs, b = twins.drawn(LAKE, sampling, 1, lane=4)
    chain_pairs, chain_b = twins.drawn(LAKE, Markovian(), 1, lane=4)
    assert (pairs[0], b[0]) == (chain_pairs[0], chain_b[0])
