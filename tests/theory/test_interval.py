import numpy as np
import pytest

import mqlearn as mq
from mqlearn.learning.setup import checkpoint_iterations
from mqlearn.theory.interval import QUANTILES, RandomScaling, from_checkpoints


def test_the_spread_of_the_path_equals_its_definition():
    path = np.random.default_rng(0).normal(5.0, 1.0, (50, 3)).cumsum(0)
    scaling = RandomScaling()
    for q in path:
        scaling.add(q)
    means = path.cumsum(0) / np.arange(1, 51)[:, None]
    v = sum(s**2 * (means[s - 1] - means[-1]) ** 2 for s in range(1, 51)) / 50**2
    low, high = scaling.interval(0.9)
    np.testing.assert_allclose((low + high) / 2, means[-1], rtol=1e-12)
    np.testing.assert_allclose((high - low) / 2, 5.323 * np.sqrt(v / 50), rtol=1e-9)


def test_the_quantiles_are_those_of_brownian_motion():
    rng, n = np.random.default_rng(1), 20_000
    steps = rng.normal(size=(n, 500)) / np.sqrt(500)
    w = steps.cumsum(1)
    bridge = w - np.arange(1, 501) / 500 * w[:, -1:]
    t = np.abs(w[:, -1]) / np.sqrt((bridge**2).mean(1))
    for level, quantile in QUANTILES.items():
        assert abs((t <= quantile).mean() - level) < 4 * np.sqrt(level * (1 - level) / n)


def test_the_interval_of_a_mean_of_independent_numbers_covers_as_often_as_it_says():
    rng, scaling, n = np.random.default_rng(4), RandomScaling(), 5000
    for _ in range(1000):
        scaling.add(3.0 + rng.exponential(size=n))
    for level in QUANTILES:
        low, high = scaling.interval(level)
        assert abs(((low <= 4) & (high >= 4)).mean() - level) < 4 * np.sqrt(level * (1 - level) / n)


def test_intervals_of_averaged_q_learning_cover_the_optimum_about_as_often_as_they_say():
    """500 runs of synchronous Q-learning with step k^-0.6, in plain NumPy. At finite T the coverage is not exact."""
    mdp, n_seeds, last = mq.garnet_fixed(3, 2, 2, discount=0.6), 500, 4000
    star = mq.optimal(mdp).q
    rng = np.random.default_rng(2)
    edges = mdp.probabilities.cumsum(2)
    q, scaling = np.zeros((n_seeds, *star.shape)), RandomScaling()
    x, u = np.indices(star.shape)
    total, seen, means = np.zeros_like(q), checkpoint_iterations(last, "log", 60), [np.zeros_like(q)]
    for k in range(last):
        b = np.minimum((rng.random((n_seeds, *star.shape))[..., None] >= edges).sum(-1), 1)
        ahead = q.max(2)[np.arange(n_seeds)[:, None, None], mdp.successors[x, u, b]]
        q = q + (k + 1.0) ** -0.6 * (mdp.rewards[x, u, b] + 0.6 * ahead - q)
        scaling.add(q)
        total += q
        if k + 1 in seen:
            means.append(total / (k + 1))
    low, high = scaling.interval(0.95)
    ends = np.array([from_checkpoints(seen, np.array(means)[:, seed]) for seed in range(n_seeds)])
    by_checkpoints = ((ends[:, 0] <= star) & (star <= ends[:, 1])).mean(0)
    assert (np.abs(by_checkpoints - 0.95) < 0.04).all(), by_checkpoints
    np.testing.assert_allclose(ends[:, 1] - ends[:, 0], high - low, rtol=0.2)  # of 60 checkpoints, for each seed
    covered = ((low <= star) & (star <= high)).mean(0)
    assert (np.abs(covered - 0.95) < 0.04).all(), covered  # one standard error is 0.01
    assert (high - low).mean() < 0.2


def test_what_cannot_be_answered_is_refused():
    scaling = RandomScaling()
    scaling.add(np.zeros(2))
    with pytest.raises(mq.SettingError, match="two iterates"):
        scaling.interval()
    scaling.add(np.zeros(2))
    with pytest.raises(mq.SettingError, match=r"0\.8, 0\.9"):
        scaling.interval(0.5)
    with pytest.raises(mq.SettingError, match="at least 20 checkpoints after the start"):
        from_checkpoints(np.arange(20), np.zeros((20, 2, 2)))
