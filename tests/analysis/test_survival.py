"""Times with censoring, areas and rates of synthetic curves whose answers are known."""

import math

import numpy as np
import pytest

from mqlearn.analysis.statistics.survival import (
    Times,
    area,
    kaplan_meier,
    median_time,
    rate,
    ratio_of_times,
    times_to,
)
from mqlearn.errors import SettingError

K = np.unique(np.rint(np.geomspace(1, 10_000, 2000)).astype(np.int64))


def power_law(scale, exponent, n=12, noise=0.0, seed=0):
    rng = np.random.default_rng(seed)
    return scale * np.exp(noise * rng.normal(size=(n, 1))) * K**exponent


def test_the_crossing_time_of_a_power_law():
    times = times_to(K, power_law(1.0, -0.5, n=3), 0.02)  # k^-1/2 = 0.02 at k = 2500
    assert times.observed.all()
    assert times.time == pytest.approx(2500, rel=0.01)
    assert (times.time >= 2500).all()


def test_seeds_that_do_not_arrive_are_censored_where_they_end():
    curves = power_law(1.0, -0.5, n=3)
    curves[1] *= 10  # never below 0.1
    curves[2, 500:] = np.nan  # diverges before
    times = times_to(K, curves, 0.02)
    assert times.observed.tolist() == [True, False, False]
    assert times.time[1:].tolist() == [10_000, K[499]]
    assert times_to(K, np.full((1, len(K)), np.nan), 0.02).time.tolist() == [1]
    with pytest.raises(SettingError, match="positive"):
        times_to(K, curves, 0)


def test_kaplan_meier_by_hand():
    times = Times(np.array([1.0, 2, 2, 3, 4, 5]), np.array([True, True, False, True, False, True]))
    at, left = kaplan_meier(times)
    assert at.tolist() == [1, 2, 3, 4, 5]
    # 5/6; times 4/5 at 2; the one censored at 2 is at risk there, not at 3: times 2/3; nothing at 4; 0 at 5.
    assert left == pytest.approx([5 / 6, 2 / 3, 4 / 9, 4 / 9, 0])
    assert median_time(times) == 3


def test_the_median_is_not_reached_when_most_are_censored():
    times = Times(np.array([10.0, 100, 100, 100]), np.array([True, False, False, False]))
    assert median_time(times) == math.inf
    assert math.isnan(median_time(Times(np.empty(0), np.empty(0, bool))))


@pytest.mark.parametrize("paired", [True, False])
def test_the_ratio_of_times_is_the_planted_speed_up(paired):
    rng = np.random.default_rng(4)
    slow = 1000 * np.exp(0.3 * rng.normal(size=30))
    fast = slow / 2 if paired else 500 * np.exp(0.3 * rng.normal(size=30))
    seen = np.ones(30, bool)
    found = ratio_of_times(Times(fast, seen), Times(slow, seen), 1e6, paired=paired)
    assert found.low <= 0.5 + 1e-12 and found.high >= 0.5 - 1e-12
    assert found.value == pytest.approx(0.5, abs=1e-12 if paired else 0.1)


def test_the_ratio_counts_what_never_arrives_at_the_horizon():
    a, b = Times(np.full(4, 100.0), np.full(4, True)), Times(np.full(4, 900.0), np.full(4, False))
    assert ratio_of_times(a, b, 1000, paired=True).value == pytest.approx(0.1)


def test_the_area_of_a_line_and_of_a_power_law():
    k = np.array([0, 2, 4, 10])
    assert area(k, np.array([[4.0, 2.0, 0.0, 6.0]])) == pytest.approx([(6 + 2 + 18) / 10])
    assert area(k, np.array([[4.0, 2.0, 0.0, 6.0]]), 3) == pytest.approx([(6 + 1.5) / 3])
    exact = 2 * (math.sqrt(10_000) - 1) / 9999  # of k^-1/2
    assert area(K, power_law(1, -0.5, n=2)) == pytest.approx([exact, exact], rel=1e-3)
    assert np.isnan(area(k, np.array([[1.0, np.nan, 1.0, 1.0]]))).all()
    with pytest.raises(SettingError, match="at most the last"):
        area(k, np.ones((1, 4)), 11)


def test_the_rate_is_the_planted_exponent():
    found = rate(K, power_law(3.0, -0.5, noise=0.5), (100, 10_000))
    assert found.value == pytest.approx(-0.5, abs=1e-12)
    rng = np.random.default_rng(2)
    curves = power_law(1.0, -0.7) * np.exp(0.2 * rng.normal(size=(12, len(K))))
    found = rate(K, curves, (100, 10_000))
    assert found.low < -0.7 < found.high
    assert found.high - found.low < 0.05
    assert found.n_finite == 12
    assert found == rate(K, curves, (100, 10_000))


def test_a_rate_on_its_window_alone():
    curves = np.where(K < 1000, 1.0, 1000.0 / K)[None, :]
    assert rate(K, curves, (1, 900)).value == pytest.approx(0, abs=1e-12)
    found = rate(K, curves, (1000, 10_000))
    assert found.value == pytest.approx(-1)
    assert math.isnan(found.low)  # one seed: no interval
    with pytest.raises(SettingError, match="two checkpoints"):
        rate(K, curves, (20_000, 30_000))
    with pytest.raises(SettingError, match="no logarithm"):
        rate(K, 0 * curves, (1, 100))
