"""Tests, corrections, intervals and power over seeds: against SciPy, closed forms, hand values, known error rates."""

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from mqlearn.analysis.statistics import intervals
from mqlearn.analysis.statistics.intervals import (
    bootstrap_interval,
    difference_interval,
    generator,
    simultaneous_band,
)
from mqlearn.analysis.statistics.power import seeds_needed, seeds_to_reach
from mqlearn.analysis.statistics.significance import effect_size, holm, permutation, sign_flip, smallest_p, t_test
from mqlearn.errors import SettingError


def mean_difference(x, y, axis):
    return np.mean(x, axis=axis) - np.mean(y, axis=axis)


@pytest.mark.parametrize("n", [2, 5, 9, 12])
def test_sign_flip_is_scipys_exact_paired_permutation(n):
    a, b = np.random.default_rng(n).exponential(size=(2, n))
    wanted = stats.permutation_test((a, b), mean_difference, permutation_type="samples", n_resamples=10**9)
    assert sign_flip(a - b).p == pytest.approx(wanted.pvalue, rel=1e-12)


@pytest.mark.parametrize(("n", "m"), [(2, 2), (3, 3), (4, 7), (8, 6)])
def test_permutation_is_scipys_exact_unpaired_permutation(n, m):
    rng = np.random.default_rng(n)
    a, b = rng.exponential(size=n), rng.exponential(size=m) + 0.5
    wanted = stats.permutation_test((a, b), mean_difference, n_resamples=10**9)
    assert permutation(a, b).p == pytest.approx(wanted.pvalue, rel=1e-12)


def test_ties_count_as_reached_whatever_their_rounding():
    d = np.array([0.1, 0.2, 0.3, 0.6, -0.6])  # 0.1 + 0.2 + 0.3 is not 0.6 in doubles
    signs = np.array(np.meshgrid(*[[-1, 1]] * 5)).reshape(5, -1).T
    tenths = np.array([1, 2, 3, 6, -6])
    assert sign_flip(d).p == np.mean(np.abs(signs @ tenths) >= 6)


@pytest.mark.parametrize(("paired", "n", "least"), [
    (False, 3, 0.1), (False, 4, 0.0286), (True, 3, 0.25), (True, 5, 0.0625), (True, 6, 0.03125), (True, 1, 1.0),
])  # fmt: skip
def test_the_smallest_p_is_that_of_complete_separation(paired, n, least):
    a, b = np.arange(n) * 1e-3, 5 + np.arange(n) * 1e-4
    test = sign_flip(a - b) if paired else permutation(a, b)
    assert test.p == test.smallest == smallest_p(n, paired=paired) == pytest.approx(least, abs=4e-5)


def test_random_patterns_count_the_observed_one_and_repeat_exactly():
    d = np.random.default_rng(0).normal(1, 1, 40)
    once, again = sign_flip(d, resamples=199), sign_flip(d, resamples=199)
    assert once == again
    assert once.p == once.smallest == 1 / 200
    assert "199 random" in once.method
    a, b = d, d - 30
    assert permutation(a, b, resamples=199).p == permutation(a, b, resamples=199).smallest == 2 / 200
    exact, sampled = sign_flip(d[:15] - 0.8), sign_flip(d[:15] - 0.8, exact=0, resamples=20_000)
    assert sampled.p == pytest.approx(exact.p, abs=0.01)


def test_nothing_differs_p_is_one():
    same = np.array([1.0, 2.0, 3.0])
    assert sign_flip(same - same).p == permutation(same, same).p == 1
    assert sign_flip(np.array([1e-320, -1e-320])).p == 1


@pytest.mark.parametrize("paired", [True, False])
def test_a_against_a_says_yes_in_at_most_20_of_200_trials(paired):
    rng = np.random.default_rng(11)
    yes = 0
    for _ in range(200):
        a, b = rng.exponential(size=(2, 12)) + (rng.exponential(size=12) if paired else 0)
        test = sign_flip(a - b) if paired else permutation(a, b, resamples=999, exact=1000)
        yes += test.p <= 0.05
    assert 1 <= yes <= 20


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.2, math.nan, 0.9, 0.02]) == pytest.approx([0.4, math.nan, 0.9, 0.06], nan_ok=True)
    assert holm([0.6, 0.6]) == pytest.approx([1, 1])
    assert holm([]).size == 0


def test_effect_sizes_by_hand():
    a, b = np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.0, 2.0, 1.0, 3.0])
    d = np.array([1, 0, 2, 1])
    assert effect_size(a, b, paired=True) == pytest.approx(1 / math.sqrt(2 / 3))
    pooled = math.sqrt((5 + 5) / 6)
    assert effect_size(a, b, paired=False) == pytest.approx(d.mean() / pooled * (1 - 3 / 23))
    assert effect_size(a, a, paired=True) == 0
    assert effect_size(a + 1, a, paired=True) == math.inf
    assert math.isnan(effect_size(a[:1], b[:1], paired=True))


def test_t_tests_are_scipys():
    a, b = np.random.default_rng(5).normal(size=(2, 9))
    paired: Any = stats.ttest_rel(a, b)
    welch: Any = stats.ttest_ind(a, b[:6], equal_var=False)
    assert t_test(a, b, paired=True) == pytest.approx(paired.pvalue)
    assert t_test(a, b[:6], paired=False) == pytest.approx(welch.pvalue)
    assert math.isnan(t_test(a, a, paired=True))
    assert math.isnan(t_test(a[:1], b[:1], paired=True))


# --- intervals ----------------------------------------------------------------------------------------------------


def test_t_intervals_are_scipys():
    a, b = np.random.default_rng(5).normal(size=(2, 9))
    paired: Any = stats.ttest_rel(a, b)
    welch: Any = stats.ttest_ind(a, b[:6], equal_var=False)
    for found, wanted in (
        (difference_interval(a, b, paired=True, method="t"), paired.confidence_interval()),
        (difference_interval(a, b[:6], paired=False, method="t"), welch.confidence_interval()),
    ):
        assert found[1:3] == pytest.approx((wanted.low, wanted.high))


@pytest.mark.parametrize("method", ["bca", "percentile"])
@pytest.mark.parametrize("centre", ["mean", "median", "iqm"])
def test_bootstrap_intervals_are_scipys_and_whole_seeds_are_resampled(centre, method):
    x = np.random.default_rng(2).exponential(size=15)
    statistics = {"mean": np.mean, "median": np.median, "iqm": lambda y, axis: stats.trim_mean(y, 0.25, axis=axis)}
    statistic, name = statistics[centre], "BCa" if method == "bca" else "percentile"
    wanted = stats.bootstrap((x,), statistic, method=name, rng=generator("bootstrap"), n_resamples=9999, batch=500)
    found = bootstrap_interval(x, centre, method)
    assert found.value == pytest.approx(statistic(x, axis=0))
    assert found[1:3] == pytest.approx(tuple(wanted.confidence_interval), rel=1e-12)
    columns = bootstrap_interval(np.column_stack([x, 4 * x, x]), centre, method)
    assert columns.low[0] == columns.low[2] == columns.low[1] / 4


@pytest.mark.parametrize("method", ["t", "bca", "percentile"])
@pytest.mark.parametrize("n", [3, 5, 10, 20])
def test_intervals_cover_the_mean_as_often_as_is_said_beside_their_name(n, method):
    rng = np.random.default_rng(n)
    for skewed, said in zip((False, True), intervals.COVERAGE[method][n], strict=True):
        x = rng.normal(size=(n, 1500))
        x, mean = (np.exp(x), np.exp(0.5)) if skewed else (x, 0.0)
        found = bootstrap_interval(x, "mean", method, resamples=999)
        assert np.mean((found.low <= mean) & (mean <= found.high)) == pytest.approx(said, abs=0.03)


def test_few_seeds_get_the_t_interval_and_many_the_bootstrap():
    x = np.random.default_rng(0).lognormal(size=20)
    cases: list[tuple[int, Any]] = [(3, "t"), (14, "t"), (15, "bca"), (20, "bca")]
    for n, method in cases:
        assert intervals.bootstrap_interval(x[:n]) == intervals.bootstrap_interval(x[:n], method=method)
        for paired in (True, False):
            pair = x[:n], 2 * x[20 - n :]
            automatic = intervals.difference_interval(*pair, paired=paired)
            assert automatic == intervals.difference_interval(*pair, paired=paired, method=method)
    assert intervals.bootstrap_interval(x[:5], "median") == intervals.bootstrap_interval(x[:5], "median", "bca")


def test_one_seed_has_no_interval_equal_seeds_a_point_and_diverged_ones_do_not_count():
    one = bootstrap_interval(np.array([2.0]))
    assert one.value == 2 and math.isnan(one.low) and one.n_finite == 1
    assert bootstrap_interval(np.full(5, 0.1))[:3] == pytest.approx((0.1, 0.1, 0.1))
    x = np.random.default_rng(1).random((8, 2))
    x[[2, 5], 1] = np.nan, np.inf
    found = bootstrap_interval(x)
    assert found.n_finite.tolist() == [8, 6]
    alone = bootstrap_interval(x[[0, 1, 3, 4, 6, 7], 1])
    assert (found.value[1], found.low[1]) == pytest.approx((alone.value, alone.low))
    assert math.isnan(bootstrap_interval(np.array([np.nan])).value)


@pytest.mark.parametrize("size", [1e200, 1e-200])
def test_intervals_neither_overflow_nor_vanish(size):
    x = np.random.default_rng(1).random(8)
    plain, scaled = bootstrap_interval(x), bootstrap_interval(size * x)
    assert scaled[:3] == pytest.approx([size * part for part in plain[:3]], rel=0.02)


@pytest.mark.parametrize("arguments", [("maen",), ("mean", "bcaa"), ("median", "t")])
def test_a_wrong_word_is_one_clear_message(arguments):
    with pytest.raises(SettingError, match="must be"):
        bootstrap_interval(np.ones(3), *arguments)


def test_the_band_holds_the_whole_curve_as_often_as_stated():
    rng = np.random.default_rng(8)
    held = pointwise = 0
    for _ in range(150):
        x = np.cumsum(rng.normal(size=(20, 25)), axis=1)
        band = simultaneous_band(x, resamples=499)
        held += bool(np.all((band.low <= 0) & (band.high >= 0)))
        single = stats.t.ppf(0.975, 19) * x.std(axis=0, ddof=1) / math.sqrt(20)
        pointwise += bool(np.all(np.abs(x.mean(axis=0)) <= single))
    assert held / 150 >= 0.9
    assert pointwise / 150 < 0.9


def test_the_band_of_a_column_without_spread_is_a_point_and_two_seeds_have_none():
    x = np.random.default_rng(0).random((6, 3))
    x[:, 0] = 0.3
    band = simultaneous_band(x)
    assert band.low[0] == band.high[0] == pytest.approx(0.3)
    assert (band.low[1:] < band.mean[1:]).all()
    assert np.isnan(simultaneous_band(x[:2]).low).all()
    x[4, 2] = np.nan
    assert simultaneous_band(x).n_finite.tolist() == [5, 5, 5]


# --- power --------------------------------------------------------------------------------------------------------


def test_seeds_needed_is_the_known_sample_size_of_a_t_test():
    d = stats.norm.ppf((np.arange(4000) + 0.5) / 4000) + 0.5  # effect size 0.5: 34 pairs give power 0.8
    assert seeds_needed(d, np.zeros_like(d), paired=True) == pytest.approx(34, abs=4)
    a, b = d, d - 0.5  # the same, apart: 64 each
    assert seeds_needed(a, b, paired=False) == pytest.approx(65, abs=7)
    assert seeds_needed(d, np.zeros_like(d), paired=True, level=0.005) > 50  # type: ignore  # None would fail too


def test_a_clear_difference_needs_as_many_seeds_as_the_test_can_work_with():
    a, b = np.array([1.0, 1.1, 1.2]), np.array([5.0, 5.2, 5.1])
    assert seeds_needed(a, b, paired=True) == seeds_to_reach(0.05, paired=True) == 6
    assert seeds_needed(a, b, paired=False) == seeds_to_reach(0.05, paired=False) == 4
    assert seeds_needed(a, a, paired=True) is None
    assert seeds_needed(a[:1], b[:1], paired=True) is None
