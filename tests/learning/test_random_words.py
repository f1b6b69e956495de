"""Random words: Philox as published, and what a word draws can happen."""

import numpy as np
import pytest
import twins
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_cases import lottery
from random_mdps import random_mdp

from mqlearn import kernels
from mqlearn.sampling.modes import IID, Markovian, Replay
from mqlearn.sampling.tables import outcome_tables

slow_machine = settings(deadline=None, max_examples=40)

# Philox4x32-10 in the known answers of Random123. (numpy.random.Philox is another one, with 64-bit words.)
KNOWN = [
    ("00000000 00000000 00000000 00000000 00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344 a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


@pytest.mark.parametrize(("given_words", "answer"), KNOWN, ids=["zeros", "ones", "pi"])
def test_philox_gives_the_published_answers(given_words, answer):
    word, k_low, k_high, lane, seed, stream = (int(text, 16) for text in given_words.split())
    expected = [int(text, 16) for text in answer.split()]
    k = int(np.array(k_high << 32 | k_low, np.uint64).astype(np.int64))
    out = np.empty((4, 1), np.uint32)
    counters = np.array([word], np.uint64), np.uint32(0), k, np.array([lane], np.uint64)
    kernels.philox_counters(*counters, np.uint32(seed), np.uint32(stream), out)
    assert out[:, 0].tolist() == expected
    assert twins.philox((word, k_low, k_high, lane), (seed, stream)).tolist() == expected


def test_streams_have_numbers_of_their_own():
    assert len(set(kernels.STREAMS.values())) == len(kernels.STREAMS)


@st.composite
def shares(draw) -> np.ndarray:
    """Probabilities with zeros anywhere, among them sums that are whole numbers of 2^-32."""
    n = draw(st.integers(1, 6))
    entry = st.one_of(st.just(0.0), st.sampled_from([1.0, 2.0, 3.0, 8.0]), st.floats(1e-12, 1))
    p = np.array(draw(st.lists(entry, min_size=n, max_size=n)))
    p[draw(st.integers(0, n - 1))] += draw(st.sampled_from([0.25, 1.0]))
    return p / p.sum()


@settings(deadline=None, max_examples=300)
@given(shares())
def test_no_word_leads_to_an_impossible_outcome(p):
    mdp = lottery(len(p), p, n_pairs=1)
    _, reward, edges = outcome_tables(mdp, False)
    corners = edges[0].astype(np.int64)
    for word in {0, 2**32 - 1, *corners, *(corners - 1), *(corners + 1)} - {-1, 2**32}:
        b = max(c for c in range(len(p)) if c == 0 or word >= edges[0, c])
        assert p[int(reward[0, b])] > 0, f"word {word} of {p}"


@pytest.mark.parametrize("first", [1 / 16, 1 / 4, 3 / 8])
def test_rounding_opens_no_gap_for_an_impossible_outcome(first):
    """`first` is a whole number of 2^-32, and the edge of the third outcome must not come to lie one word above it."""
    for c in np.linspace(0.01, 0.99 - first, 300):
        _, _, edges = outcome_tables(lottery(4, np.array([first, 0.0, c, 1 - first - c]), n_pairs=1), False)
        assert edges[0, 2] <= edges[0, 1], f"word {edges[0, 1]} is drawn with c = {c}"


@slow_machine
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.sampled_from([Markovian, IID, Replay]))
def test_every_drawn_transition_can_happen(seed, base, mode):
    mdp = random_mdp(seed, 5, 3, base, 0.9, "mixed")
    sampling = mode(start="uniform", restart_probability=0.2)
    pairs, b = twins.drawn(mdp, sampling, 400, lane=seed % 7, seed=seed)
    x, u = mdp.pairs[pairs].T
    y, r, _ = outcome_tables(mdp, False)
    for i in range(len(pairs)):
        same = (mdp.successors[x[i], u[i]] == y[pairs[i], b[i]]) & (mdp.rewards[x[i], u[i]] == r[pairs[i], b[i]])
        assert mdp.probabilities[x[i], u[i]][same].sum() > 0
    assert mdp.learned[x, u].all()
