"""Equality within a margin as a verdict of comparisons: the tests against other code, then all outputs."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

import mqlearn as mq
from mqlearn.analysis.comparison.equality import p_equal
from mqlearn.analysis.comparison.seed_values import Question
from mqlearn.analysis.report import verdicts


def test_the_p_of_two_one_sided_tests_is_that_of_all_sign_patterns_and_of_scipys_permutations():
    random = np.random.default_rng(0)
    for a, b in random.lognormal(0.0, 0.2, (6, 2, 7)):
        by_hand = []
        for d in (a - 1.25 * b, b - 1.25 * a):
            sums = [np.dot(signs, d) for signs in itertools.product((1, -1), repeat=7)]
            by_hand.append(np.mean(np.array(sums) <= d.sum() + 1e-12) if d.sum() < 0 else 1.0)
        question = Question(margin=1.25)
        assert p_equal(question, a[None], b[None], paired=True, resamples=99)[0] == pytest.approx(max(by_hand))
    a, b = random.lognormal(0.0, 0.1, (2, 6))
    other = [
        stats.permutation_test((x, 1.25 * y), lambda x, y: x.mean() - y.mean(), alternative="less").pvalue
        for x, y in ((a, b), (b, a))
    ]
    assert p_equal(Question(margin=1.25), a[None], b[None], paired=False, resamples=99)[0] == pytest.approx(max(other))
    times = Question(summary="time", epsilon=0.1, margin=2.0)  # logarithms: 2^(1-n)/2 where all are within
    same = np.log(np.full((1, 8), 30.0))
    assert p_equal(times, same, same + 0.1, paired=True, resamples=99)[0] == pytest.approx(2.0**-8)


def test_means_that_differ_by_the_margin_are_called_equal_no_more_often_than_the_level():
    base = np.random.default_rng(1).lognormal(0.0, 0.3, (400, 2, 10))
    found = p_equal(Question(margin=1.2), base[:, 0], 1.2 * base[:, 1], paired=True, resamples=99)
    assert np.count_nonzero(found <= 0.05) <= stats.binom.isf(0.01, 400, 0.05)


def test_equal_is_a_verdict_of_all_five_outputs_and_of_python(compare, tmp_path):
    files = {flag: tmp_path / f"v.{flag}" for flag in ("csv", "latex")}
    words = [part for flag, file in files.items() for part in (f"--{flag}", file)]
    done = compare("experiment.name=small", "env=frozen_lake_4x4", "at=54", "margin=2", *words)
    equal = [row for row in done.rows if row["verdict"] == "equal"]
    assert equal and {row["margin"] for row in done.rows} == {2.0}
    assert all(row["p_equal"] <= 0.05 < row["p_corrected"] and "factor of 2" in row["reason"] for row in equal)
    assert "equal within margin" in done.out and "p Bonferroni" in done.out and "p Holm" not in done.out
    assert f"{len(equal)} show equality within the margin" in done.out
    assert ",equal," in files["csv"].read_text() and "equal within margin" in files["latex"].read_text()
    page = str(verdicts.of(done.rows))
    assert "≈" in page and "equal within margin" in page
    plain = compare("experiment.name=small", "env=frozen_lake_4x4", "at=54").rows
    better = ("a_better", "b_better")
    assert all(row["verdict"] in better for row, before in zip(done.rows, plain, strict=True)
               if before["p"] * len(plain) <= 0.05)  # what differs still does  # fmt: skip


def test_equal_in_memory_and_what_is_refused():
    mdp, rules = mq.two_state(), {"one": mq.QLearning(), "fast": mq.SpeedyQ()}
    made = {name: mq.run(mdp, rule, iterations=40, n_seeds=8, n_checkpoints=4) for name, rule in rules.items()}
    (one,) = mq.compare(made, margin=1.1, at=1)  # where both are one and the same
    assert one["verdict"] == "equal" and one["p_equal"] == pytest.approx(2.0**-8) and math.isclose(one["effect"], 0)
    for margin in (1, 0.5, math.inf):
        with pytest.raises(mq.SettingError, match="must be a factor above 1"):
            mq.compare(made, margin=margin)
    with pytest.raises(mq.SettingError, match="both must be above 0"):
        mq.compare(made, margin=1.1, summary="return", metric="policy_value")
