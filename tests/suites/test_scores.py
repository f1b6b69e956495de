"""What a score is, what is known of a problem, and which rules are too large for it."""

import numpy as np
import pytest
from leaderboard_cases import KEYS

import mqlearn as mq
from mqlearn.suites import definition, rules, scores
from mqlearn.suites.facts import facts


def test_scores_of_a_power_law_are_its_closed_form():
    axis = np.geomspace(10, 1e5, 41)
    samples = np.concatenate([[0], axis])
    errors = 3.0 * np.concatenate([[1.0], (axis / 10) ** -0.5])[None]
    area, to_10, to_1, last = scores.scores(samples, errors, axis)[:, 0]
    assert area == pytest.approx(-1.0)  # -0.5 log10(s/10), mean of log10(s/10) over 0 .. 4
    assert (to_10, to_1) == pytest.approx((10 * 1e2, 10 * 1e4))
    assert last == pytest.approx(0.03)


def test_no_error_divergence_and_levels_never_reached_have_their_bounds():
    axis = np.array([1.0, 10.0, 100.0])
    samples = np.array([0, 1, 10, 100])
    errors = np.array(
        [[2, 0, 0, 0], [2, np.nan, np.nan, np.nan], [2, 2e9, 2e9, 2e9], [2, 1, 1, 1], [0, 0, 0, 0]], float
    )
    found = scores.scores(samples, errors, axis)
    assert found[0] == pytest.approx([-12, 3, 3, np.log10(0.5), 0])
    assert np.isinf(found[1:3, 1:]).all() and np.isfinite(found[1:3, 0]).all()


def test_no_level_is_reached_before_the_first_checkpoint():
    samples, errors = np.array([0, 64, 128]), np.array([[1.0, 1e-3, 1e-4]])
    assert scores.scores(samples, errors, np.array([64.0, 128.0]))[1:3, 0].tolist() == [64, 64]


def test_a_floor_is_told_of_the_plain_operator_alone():
    problems = {"plain": ["env=two_state"], "soft": ["env=two_state", "operator=mellowmax"]}
    suite = definition.made("s", KEYS | {"base": ["reward=sampled"], "problems": problems})
    plain, soft = (facts(one)["floor"] for one in suite.problems)
    assert plain > 0 and soft is None


def test_a_model_is_the_same_at_all_discounts_and_of_no_other_settings():
    problems = {
        "low": ["env=lower_bound", "discount=0.8"], "high": ["env=lower_bound", "discount=0.9"],
        "easy": ["env=garnet_fixed", "env.n_states=6", "discount=0.8"],
        "other": ["env=garnet_fixed", "env.n_states=7", "discount=0.8"],
    }  # fmt: skip
    low, high, easy, other = (
        facts(one)["model"] for one in definition.made("s", KEYS | {"problems": problems}).problems
    )
    assert low == high and easy != other


def test_n_squared_state_is_over_budget_above_100_pairs():
    assert rules.over_budget(mq.Zap(), 100) is None and rules.over_budget(mq.QLearning(), 10**6) is None
    assert rules.over_budget(mq.DoubleQ(), 10**6) is None
    assert "101^2 = 10,201 numbers" in (rules.over_budget(mq.Zap(), 101) or "")
