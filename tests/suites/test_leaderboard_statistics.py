"""The statistics of leaderboards against other code, and how often their tests are wrong."""

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest
from leaderboard_cases import RULES, errors, results_of, suite
from scipy import stats

from mqlearn.analysis.statistics import exponents
from mqlearn.analysis.statistics.intervals import centre_of
from mqlearn.suites.leaderboard import aggregate, over_problems
from mqlearn.suites.leaderboard.aggregate import Resampled
from mqlearn.suites.leaderboard.board import board
from mqlearn.suites.scores import scores

__all__ = ["suite"]  # a fixture

# --- statistics against other code --------------------------------------------------------------------------------


def test_interquartile_means_are_trimmed_means():
    values = np.random.default_rng(0).normal(size=40)
    assert aggregate.interquartile_mean(values, np.ones((1, 40)))[0] == pytest.approx(stats.trim_mean(values, 0.25))
    doubled = np.repeat(values, 2)
    assert aggregate.interquartile_mean(values, np.full((1, 40), 2.0))[0] == pytest.approx(
        stats.trim_mean(doubled, 0.25)
    )


@pytest.mark.parametrize("n", [5, 41, 42])
def test_there_is_one_interquartile_mean(n):
    """That of compare's tables, rliable and scipy, also where a quarter is no whole number, and of drawn seeds."""
    values = np.random.default_rng(n).normal(size=n)
    counts = np.bincount(np.random.default_rng(1).integers(0, n, n), minlength=n).astype(float)
    for weights in (np.ones(n), counts):
        drawn = np.repeat(values, weights.astype(int))
        found = aggregate.interquartile_mean(values, weights[None])[0]
        assert found == pytest.approx(stats.trim_mean(drawn, 0.25)) == pytest.approx(centre_of(drawn, "iqm"))


def test_crossed_improvement_is_mann_and_whitneys_u_over_problems():
    areas = np.random.default_rng(3).normal(size=(3, 4, 6)).round(1)  # some are equal
    areas[2, 1] = np.nan
    found = aggregate.crossed_improvement(areas)
    for i, j in itertools.permutations(range(3), 2):
        on = [p for p in range(4) if not np.isnan(areas[i, p] + areas[j, p]).any()]
        u = [stats.mannwhitneyu(areas[j, p], areas[i, p]).statistic / 36 for p in on]
        assert found[i, j] == pytest.approx(np.mean(u))


def test_each_resample_draws_as_many_seeds_of_a_problem_as_it_has():
    assert (Resampled.of(3, 5, 4).counts.sum(2) == 5).all()


def test_ranks_share_and_leave_out_what_did_not_run():
    means = np.array([[1.0, 2.0], [1.0, np.nan], [0.0, 1.0]])
    assert np.array_equal(aggregate.ranks(means), [[2.5, 2], [2.5, np.nan], [1, 1]], equal_nan=True)


@pytest.mark.parametrize("differences", [[1.0, -2, 3, 4, -5, 6], [1.0, 1, -1, 2, 2, 0, -3], [0.0, 0.0], [1.0] * 7])
def test_signed_rank_counts_all_sign_patterns(differences):
    d = np.array(differences)
    d = d[d != 0]
    ranks = stats.rankdata(np.abs(d))
    sums = [ranks[np.array(signs) > 0].sum() for signs in itertools.product((-1, 1), repeat=len(d))]
    own = ranks[d > 0].sum()
    p = min(1.0, 2 * min(np.mean(np.array(sums) >= own), np.mean(np.array(sums) <= own))) if len(d) else 1.0
    assert over_problems.signed_rank(np.array(differences)) == pytest.approx(p)


def test_signed_rank_is_scipys_without_ties():
    d = np.random.default_rng(1).normal(0.4, 1, 24)
    found: Any = stats.wilcoxon(d, method="exact")
    assert over_problems.signed_rank(d) == pytest.approx(found.pvalue)


def test_the_winner_is_that_of_the_rank_sum():
    """Six differences of one sign are significant, however many problems do not tell the two apart."""
    a = np.concatenate([-np.arange(1.0, 7), np.zeros(18)])
    (test,) = over_problems.compare(["a", "b"], np.stack([a, np.zeros(24)]))
    assert (test.p, test.rank_sum, test.better) == (pytest.approx(2 / 2**6), -21, "a")


def test_medians_of_drawn_seeds_are_numpys():
    counts, values = Resampled.of(3, 6, 5).counts, np.random.default_rng(0).normal(size=(3, 6))
    found = exponents.medians(values, counts)
    for b, p in itertools.product(range(5), range(3)):
        assert found[b, p] == pytest.approx(np.median(np.repeat(values[p], counts[b, p].astype(int))))


# --- how often it is wrong ----------------------------------------------------------------------------------------


def test_a_rule_differs_from_itself_on_other_seeds_in_at_most_5_per_cent_of_trials(suite):
    rule = {"q_learning": RULES["q_learning"]}
    areas = np.stack([scores(*errors(one, rule, 40)["q_learning"], one.axis)[0] for one in suite.problems])
    draws, said = np.random.default_rng(0), 0
    for _ in range(2000):
        split = draws.permuted(np.tile(np.arange(40), (len(areas), 1)), axis=1)
        a, b = (np.take_along_axis(areas, split[:, part], 1).mean(1) for part in (slice(20), slice(20, None)))
        (test,) = over_problems.compare(["a", "b"], np.stack([a, b]))
        said += test.better is not None
    assert said / 2000 <= 0.05


def test_a_rule_that_is_fed_twice_as_many_samples_beats_itself(suite):
    every = []
    for problem in suite.problems:
        rule = {"fed": RULES["q_learning"]}
        samples, more = errors(dataclasses.replace(problem, budget=2 * problem.budget), rule)["fed"]
        once = errors(problem, {"q_learning": RULES["q_learning"]})
        every.append(results_of(problem, {**once, "fed": (samples / 2, more)}))
    found = board("small", every)
    fed = next(row for row in found["rules"] if row["rule"] == "fed")
    assert fed["better_than"] == ["q_learning"] and fed["high"] < 1 and found["unbeaten"] == ["fed"]
