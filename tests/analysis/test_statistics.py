"""Intervals over seeds: against SciPy, against coverage, and where there is none."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from mqlearn.analysis.statistics.intervals import mean_interval
from mqlearn.errors import SettingError

tables = hnp.arrays(
    np.float64,
    hnp.array_shapes(min_dims=2, max_dims=2, min_side=2, max_side=8),
    elements=st.floats(-1e3, 1e3, allow_subnormal=False),
)


@settings(max_examples=50, deadline=None)
@given(tables)
def test_the_interval_is_scipys_t_interval(x):
    n = len(x)
    spread = x.std(axis=0, ddof=1)
    mean, low, high, finite = mean_interval(x, "ci95")
    half = stats.t.ppf(0.975, n - 1) * spread / np.sqrt(n)
    scale = 1e-12 * (1 + np.abs(x).max())
    assert np.all(finite == n)
    np.testing.assert_allclose(mean, x.mean(axis=0), atol=scale)
    np.testing.assert_allclose(low, x.mean(axis=0) - half, atol=scale)
    np.testing.assert_allclose(high, x.mean(axis=0) + half, atol=scale)
    _, low, high, _ = mean_interval(x, "std")
    np.testing.assert_allclose(high - low, 2 * spread, atol=scale)


def test_the_interval_covers_the_mean_in_95_of_100_samples():
    x = np.random.default_rng(3).exponential(size=(40, 20_000))
    _, low, high, _ = mean_interval(x)
    assert np.mean((low <= 1) & (high >= 1)) == pytest.approx(0.93, abs=0.025)  # skewed: a little below 0.95
    x = np.random.default_rng(4).normal(size=(3, 20_000))
    _, low, high, _ = mean_interval(x)
    assert np.mean((low <= 0) & (high >= 0)) == pytest.approx(0.95, abs=0.006)


def test_one_seed_has_a_mean_and_no_interval():
    mean, low, high, finite = mean_interval(np.array([[1.0, 2.0]]))
    assert mean.tolist() == [1.0, 2.0]
    assert np.isnan(low).all() and np.isnan(high).all()
    assert finite.tolist() == [1, 1]


@pytest.mark.parametrize("kind", ["ci95", "std"])
def test_diverged_seeds_leave_the_mean_of_the_others_and_are_counted(kind):
    x = np.random.default_rng(1).random((6, 4))
    x[1, 2:] = np.nan
    x[4, 2:] = np.inf
    x[:, 3] = np.nan
    mean, low, high, finite = mean_interval(x, kind)
    alone = mean_interval(x[[0, 2, 3, 5]][:, :3], kind)
    assert finite.tolist() == [6, 6, 4, 0]
    assert (mean[2], low[2], high[2]) == (alone.mean[2], alone.low[2], alone.high[2])
    assert np.isnan([mean[3], low[3], high[3]]).all()


@settings(max_examples=50, deadline=None)
@given(tables)
def test_a_column_does_not_depend_on_its_neighbours_or_on_memory_order(x):
    whole = mean_interval(x)
    swapped = mean_interval(np.asfortranarray(x))
    for column in range(x.shape[1]):
        one = mean_interval(x[:, column : column + 1])
        for a, b, c in zip(whole, one, swapped, strict=True):
            assert a[column] == b[0] == c[column]


@pytest.mark.parametrize("size", [1e300, 1e-300, 5e-324])
def test_extreme_magnitudes_neither_overflow_nor_vanish(size):
    x = size * np.array([[1.0], [3.0], [5.0]])
    mean, low, high, _ = mean_interval(x, "std")
    assert mean[0] == pytest.approx(3 * size, rel=1e-14)
    assert (high - low)[0] == pytest.approx(4 * size, rel=1e-14)


@pytest.mark.parametrize(("shape", "kind"), [((3, 2), "ci59"), ((3,), "ci95"), ((0, 3), "std")])
def test_a_wrong_kind_or_shape_is_one_clear_message(shape, kind):
    with pytest.raises(SettingError, match=r"did you mean 'ci95'|at least one seed"):
        mean_interval(np.ones(shape), kind)
