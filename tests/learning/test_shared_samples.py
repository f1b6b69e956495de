"""Samples that rules share are drawn once and given again."""

import numpy as np
import pytest
from kernel_cases import LAKE

from mqlearn.sampling.chains import Chain, Samples
from mqlearn.sampling.modes import Markovian, Replay


@pytest.mark.parametrize("sampling", [Markovian(restart_probability=0.1), Replay(capacity=30, warm_up=7)], ids=repr)
def test_samples_are_drawn_once_and_given_again(sampling):
    lanes, every = np.arange(3, dtype=np.uint32), np.arange(3)
    samples = Samples(Chain(LAKE, sampling, lanes, 0, False))
    samples.draw(60)
    first = samples.block(0, 60, every)
    assert samples.block(0, 60, every) is first
    first = first.copy()
    np.testing.assert_array_equal(samples.block(0, 25, np.array([0, 2])), first[[0, 2], :25])
    second = samples.block(60, 40, every).copy()
    whole = Samples(Chain(LAKE, sampling, lanes, 0, False))
    np.testing.assert_array_equal(np.hstack([first, second]), whole.block(0, 100, every))
    np.testing.assert_array_equal(samples.block(70, 10, every), second[:, 10:20])  # in the middle
    for k, n in ((0, 60), (60, 41), (101, 1)):  # forgotten, not drawn so far, ahead
        with pytest.raises(ValueError, match=r"were asked for, 60 \.\. 99 are there"):
            samples.block(k, n, every)
    samples.forget()
    with pytest.raises(ValueError, match=r"60 \.\. 99 were asked for"):
        samples.block(60, 40, every)
    assert samples.block(100, 1, every).shape == (3, 1)


@pytest.mark.parametrize("k", [60, 75, 100])
@pytest.mark.parametrize("rows", [[0, 1, 2], [2], [0, 2]])
def test_the_chains_of_samples_are_known_at_every_iteration_of_the_last_block(k, rows):
    sampling = Replay(capacity=30, start="uniform", warm_up=9, draws=2, restart_probability=0.1)
    samples = Samples(Chain(LAKE, sampling, np.arange(3, dtype=np.uint32), 0, False))
    for n in (60, 40):
        samples.draw(n)
    states, visits = samples.chain_state(k, np.array(rows))
    alone = Samples(Chain(LAKE, sampling, np.array(rows, np.uint32), 0, False))
    alone.draw(k)
    np.testing.assert_array_equal(states, alone.chain.states)
    np.testing.assert_array_equal(visits, alone.chain.visits)
    assert (samples.k, samples.chain.visits.sum()) == (100, 3 * (100 // 2 + sampling.warm_up))
