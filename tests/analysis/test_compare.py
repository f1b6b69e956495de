"""`mqlearn compare` end to end on real small runs: who is better, on what evidence, and what cannot be answered."""

import numpy as np
import pytest
from compared import answered, of, rewritten
from scipy import stats

from mqlearn.analysis.comparison import comparison
from mqlearn.analysis.comparison.labels import Entry
from mqlearn.analysis.comparison.seed_values import Question


def test_verdicts_say_what_the_curves_say(compare, made):
    done = compare("experiment.name=small", "env=frozen_lake_4x4", "against=q_learning")
    assert done.code == 0, done.err
    assert [(row["a"], row["b"]) for row in done.rows] == [("nesa", "q_learning"), ("speedy_q", "q_learning")]
    pure = of(made, "small", env="frozen_lake_4x4", algorithm="q_learning").curves["q_error"][:, -1]
    for row in done.rows:
        rival = of(made, "small", env="frozen_lake_4x4", algorithm=row["a"]).curves["q_error"][:, -1]
        wanted = stats.permutation_test(
            (rival, pure), lambda x, y, axis: np.mean(x - y, axis=axis), permutation_type="samples", n_resamples=10**6
        )
        assert row["p"] == pytest.approx(wanted.pvalue)
        assert row["effect"] == pytest.approx(rival.mean() - pure.mean())
        assert row["low"] < row["effect"] < row["high"]
        assert row["verdict"] == ("a_better" if rival.mean() < pure.mean() else "b_better")
        assert row["paired"] and row["at"] == 300 and row["n_finite"] == 12
    assert sorted(row["p_corrected"] for row in done.rows) == pytest.approx(
        sorted(np.minimum(1, np.maximum.accumulate(np.sort([row["p"] for row in done.rows]) * [2, 1])))
    )
    assert "common random numbers" in done.out
    assert "evaluation episodes are not seeds" in done.out
    assert "12 of 12 pairs" in done.out
    assert "95 % Student's t (with 10 seeds it covers 0.95 of the time on normal, 0.84 on lognormal data)" in done.out
    assert "symmetric about 0 (sign-flip)" in done.out
    assert "a - b negative: a has less error" in done.out
    assert "2 comparisons" in done.out


def test_every_pair_within_a_block_and_the_same_answer_twice(compare):
    done = compare("experiment.name=small", "at=100")
    assert done.code == 0, done.err
    assert len(done.rows) == 6
    assert len({row["group"] for row in done.rows}) == 2
    assert all(row["at"] <= 100 for row in done.rows)
    assert {row["correction"] for row in done.rows} == {"Holm over 3 comparisons"}
    assert compare("experiment.name=small", "at=100").rows == done.rows


def test_the_answer_comes_first_with_the_number_of_comparisons(compare):
    lines = compare("experiment.name=small").out.splitlines()
    assert lines[0].startswith("6 of 6 comparisons show a difference. Level 0.05, corrected by Holm over the 3 ")
    assert lines[1].startswith("[frozen_lake_4x4") and lines[1].endswith("rivals and worse than none")


def test_runs_of_a_variant_do_not_change_the_answer_of_the_plain_question(compare):
    alone = compare("experiment.name=small", "env=frozen_lake_4x4").rows
    beside = compare("experiment.name=small,greedy").rows
    group = alone[0]["group"]
    assert [row for row in beside if row["group"] == group] == alone
    assert len(beside) > len(alone)


def test_time_area_and_return(compare, made):
    run = of(made, "small", env="frozen_lake_4x4", algorithm="speedy_q")
    rows = compare("experiment.name=small", "env=frozen_lake_4x4", "summary=time", "epsilon=0.1", "against=nesa").rows
    row = next(row for row in rows if row["a"] == "speedy_q")
    arrived = [run.curves["iteration"][np.argmax(curve <= 0.1)] for curve in run.curves["q_error"]]
    assert row["value_a"] == np.sort(arrived)[5]  # the 6th of 12
    assert row["effect"] < 1 and row["verdict"] == "a_better"
    rows = compare("experiment.name=small", "env=frozen_lake_4x4", "summary=area", "against=nesa").rows
    row = next(row for row in rows if row["a"] == "speedy_q")
    k, curves = run.curves["iteration"], run.curves["q_error"]
    assert row["value_a"] == pytest.approx(np.trapezoid(curves, k, axis=1).mean() / 300)
    done = compare("experiment.name=greedy", "summary=return")
    (row,) = done.rows
    learned = of(made, "greedy", algorithm="q_learning").curves["return_uniform"]
    assert row["metric"] == "return_uniform"
    assert row["value_a"] == pytest.approx(learned[:, -1].mean())
    assert row["n_finite"] == 7  # seeds, not the 20 episodes
    assert "more is better" in done.out


def test_more_return_is_better_and_less_error(made, tmp_path):
    run = of(made, "small", env="frozen_lake_4x4", algorithm="nesa")
    high = 5 + np.random.default_rng(0).random(run.curves["q_error"].shape)
    for metric, summary, winner in (("return_start", "return", "a_better"), ("q_error", "error", "b_better")):
        pair = [(name, high - less) for name, less in (("a", 0), ("b", 2))]
        made_runs = [rewritten(run, tmp_path / f"{metric}-{name}", curve=x, metric=metric) for name, x in pair]
        a, b = (Entry(one, one.digest) for one in made_runs)
        (row,) = answered([comparison.ask(a, b, Question(summary))])
        assert (row.verdict, row.effect) == (winner, pytest.approx(2))
        assert row.p == row.p_smallest == 2.0**-11


def test_rules_that_are_one_differ_by_rounding_only_and_so_do_not_differ(made, tmp_path):
    run = of(made, "small", env="frozen_lake_4x4", algorithm="nesa")
    noise = 1e-16 * (1 + np.random.default_rng(0).random(run.curves["q_error"].shape))
    other = rewritten(run, tmp_path / "twin", curve=run.curves["q_error"] + noise)
    (row,) = answered([comparison.ask(Entry(run, "a"), Entry(other, "b"), Question())])
    assert (row.verdict, row.p, row.effect) == ("no_difference", 1, 0)


@pytest.mark.parametrize(("name", "smallest", "paired"), [("three", 0.25, True), ("apart", 0.1, False)])
def test_three_against_three_is_impossible(compare, name, smallest, paired):
    done = compare(f"experiment.name={name}")
    (row,) = done.rows
    assert (row["verdict"], row["paired"]) == ("impossible", paired)
    assert row["p_smallest"] == pytest.approx(smallest)
    assert f"no outcome gives a p below {smallest:g}" in row["reason"]
    assert "possible from" in done.out


def test_six_pairs_answer_one_question_but_not_three(compare):
    assert compare("experiment.name=six", "algorithm=q_learning,speedy_q").rows[0]["verdict"] != "impossible"
    done = compare("experiment.name=six")
    assert {row["verdict"] for row in done.rows} == {"impossible"}
    assert "after correction for 3 comparisons (ask fewer with against=)" in done.out


def test_one_seed_has_no_interval_and_the_reason_is_given(compare):
    done = compare("experiment.name=one")
    (row,) = done.rows
    assert row["verdict"] == "impossible"
    assert row["low"] is row["high"] is row["seeds_needed"] is None
    assert "one seed: the spread between seeds is unknown, so no interval" in done.out
    assert "no interval" in done.out


def test_a_deterministic_setting_says_that_the_seed_has_no_effect(compare):
    done = compare("experiment.name=exact")
    (row,) = done.rows
    assert row["deterministic"] and row["p"] is None and row["low"] is None
    values = {row["a"]: row["value_a"], row["b"]: row["value_b"]}
    assert values["speedy_q, form=azar"] == pytest.approx(0.0318865, abs=1e-7)
    assert values["speedy_q, form=printed"] < 1e-12
    assert row["verdict"] == "b_better"
    assert "the seed has no effect" in done.out


@pytest.mark.parametrize(("arguments", "words"), [
    (("agianst=nesa",), "did you mean 'against'?"),
    (("against=nessa",), "must be one of: nesa; q_learning; speedy_q"),
    (("summary=eror",), "did you mean 'error'?"),
    (("summary=time",), "epsilon=0.05"),
    (("summary=time", "epsilon=-1"), "positive"),
    (("epsilon=0.1",), "summary=time alone"),
    (("tuning_seed=1",), "tuned=true alone"),
    (("at=301",), "at most 300"),
    (("at=1.5",), "whole number"),
    (("at=x",), "whole number"),
    (("metric=q_eror",), "did you mean 'q_error'?"),
    (("summary=return", "metric=return_start"), "is not measured"),
    (("metric=policy_value",), "summary=return"),
    (("summary=return", "metric=value_gap"), "summary=error"),
    (("diverged=best",), "worst, censored or excluded"),
    (("interval=sd",), "bca, percentile or t"),
    (("level=2",), "between 0 and 1"),
    (("allow_mixed=maybe",), "true or false"),
    (("tuned=true", "calibrate=true"), "does not go with"),
    (("algorithm=nesa", "env=frozen_lake_4x4"), "nothing to compare it with"),
    (("tracking.uri=x",), "a folder as a store is refused"),
    (("discuont=0.9",), "did you mean 'discount'?"),
    (("--jsn", "x"), "did you mean '--json'?"),
    (("--csv",), "must be followed by the name of a file"),
    (("--csv", "nowhere/x.csv"), "is no folder"),
    (("figure1",), "name=value"),
])  # fmt: skip
def test_bad_input_is_one_message_and_writes_nothing(made, mqlearn, monkeypatch, tmp_path, arguments, words):
    monkeypatch.setenv("MQLEARN_OUTPUTS", str(made))
    done = mqlearn("compare", "experiment.name=small", "--latex", tmp_path / "t.tex", *arguments)
    assert done.code == 2
    assert words in done.err
    assert done.out == "" and "Traceback" not in done.err
    assert not (tmp_path / "t.tex").exists()


def test_no_runs_at_all_is_said(mqlearn, outputs):
    done = mqlearn("compare")
    assert done.code == 2 and "no finished run" in done.err
    assert "no experiments at all" in mqlearn("compare", "experiment.name=x").err
    assert not outputs.exists()
