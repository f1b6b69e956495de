import numpy as np
import pytest

import mqlearn as mq
from mqlearn.analysis.coverage import UPDATES, measured_coverage, n_affordable
from mqlearn.learning.mean_paths import mean_paths
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


def shaped() -> mq.FiniteMDP:
    """Five states, g = .9, with rewards r + g V*(y) - V*(x): V* is 0 then, and a start at 0 is a start near Q*."""
    plain = mq.garnet_fixed(5, 2, 2, discount=0.9)
    v = mq.optimal(plain).v
    p, r = np.zeros((5, 2, 5)), np.zeros((5, 2, 5))
    for x, u, b in np.ndindex(5, 2, 2):
        y = plain.successors[x, u, b]
        p[x, u, y] += plain.probabilities[x, u, b]
        r[x, u, y] = plain.rewards[x, u, b] + 0.9 * v[y] - v[x]
    return mq.from_arrays(p, r, discount=0.9)


def covered_by_definition(p, r, g, w, last, n_seeds, rng) -> np.ndarray:
    """(S, A): share of runs whose interval covers Q*, by value iteration; all means are kept, V_T as it is defined."""
    star = np.zeros(p.shape[:2])
    for _ in range(1000):
        star = (p * (r + g * star.max(1))).sum(2)
    edges = p.cumsum(2)
    q, total, path = np.zeros((n_seeds, *star.shape)), 0.0, []
    x, u = np.indices(star.shape)
    for k in range(1, last + 1):
        y = (rng.random((n_seeds, *star.shape))[..., None] > edges).sum(3)
        q = q + k**-w * (r[x, u, y] + g * np.take_along_axis(q.max(2), y.reshape(n_seeds, -1), 1).reshape(y.shape) - q)
        total = total + q
        path.append(total / k)
    v = sum((s + 1) ** 2 * (path[s] - path[-1]) ** 2 for s in range(last)) / last**2
    return (np.abs(path[-1] - star) <= 6.747 * np.sqrt(v / last)).mean(0)


@pytest.mark.parametrize(("start", "low", "high"), [("near", 0.7, 0.92), ("far", 0.98, 1.0)])
def test_the_coverage_that_is_told_is_that_of_runs_written_from_the_equations(start, low, high):
    """From a start near Q* intervals of 95 % cover far too seldom, from a far one nearly always."""
    mdp = shaped() if start == "near" else mq.garnet_fixed(5, 2, 2, discount=0.9)
    rule = mq.averaged(mq.QLearning()).with_step_size(mq.Polynomial(exponent=0.6))
    told = measured_coverage(mdp, rule, checkpoint_iterations(2000, "log", 100), 0.95, mean_reward=False)
    p, r = np.zeros((5, 2, 5)), np.zeros((5, 2, 5))
    for x, u in np.ndindex(5, 2):
        for b in range(mdp.successors.shape[2]):
            p[x, u, mdp.successors[x, u, b]] += mdp.probabilities[x, u, b]
            r[x, u, mdp.successors[x, u, b]] = mdp.rewards[x, u, b]
    each = covered_by_definition(p, r, 0.9, 0.6, 2000, 400, np.random.default_rng(3))
    assert low <= each.mean() <= high
    assert told.n_seeds == 400 and told.least <= told.mean
    # 400 seeds each, whose pairs go together, so as for one pair; and .01 for the integral over checkpoints.
    error = 4 * np.sqrt(2 * each.mean() * (1 - each.mean()) / 400)
    assert abs(told.mean - each.mean()) <= error + 0.01


def test_the_paths_are_those_of_the_runs():
    mdp = mq.garnet_fixed(3, 2, 2, discount=0.6)
    rule = mq.averaged(mq.QLearning()).with_step_size(mq.Polynomial(exponent=0.6))
    few_checkpoints = np.array([0, 1, 7, 5000])
    settings = {"iterations": 5000, "n_seeds": 3, "seed": 2, "reward": "sampled", "q0": 1.5}
    result = mq.run(mdp, rule, checkpoints="log", n_checkpoints=30, **settings)
    paths = mean_paths(mdp, rule, result.iteration, np.arange(3), seed=2, q0=1.5, mean_reward=False)
    assert result.mean_path is not None and (paths[:, 0] == result.mean_path).all()
    few = mean_paths(mdp, rule, few_checkpoints, np.array([2]), seed=2, q0=1.5, mean_reward=False)
    assert (few[-1, 0] == paths[-1, 2]).all()


def test_where_coverage_would_take_too_long_there_is_no_interval():
    mdp = mq.garnet_fixed(5, 2, 2, discount=0.9)
    most = int(UPDATES / 100 / len(mdp.pairs))
    assert n_affordable(mdp, most) == 100 and n_affordable(mdp, 1) == 400
    with pytest.raises(mq.SettingError, match="none is told without its coverage"):
        n_affordable(mdp, most + 1)
