"""Runs on two axes: iterations, and the samples that a seed has learned from."""

import csv

import numpy as np
import pytest
from compared import answered, of, performed, rewritten

from mqlearn.analysis import axis
from mqlearn.analysis.comparison import comparison, selection
from mqlearn.analysis.comparison.labels import Entry
from mqlearn.analysis.comparison.seed_values import Question
from mqlearn.analysis.figures import make
from mqlearn.errors import SettingError

RULES = {  # of `axes`: samples an iteration at each pair
    "algorithm=q_learning": 1,
    "algorithm=residual": 2,
    "algorithm=q_learning algorithm.batch=3": 3,
}
PAIRS = 44  # of the 4x4 lake


@pytest.fixture(scope="module")
def sampled(tmp_path_factory):
    """Outputs with the experiment `axes`, of rules that take different numbers of samples an iteration."""
    common = ["step_size=harmonic", "iterations=200", "n_checkpoints=20", "n_seeds=12", "tracking=none"]
    jobs = [[*rule.split(), *common, "experiment.name=axes"] for rule in RULES]
    return performed(tmp_path_factory.mktemp("sampled"), jobs)


def rates(outputs):
    """The runs of `axes` by their samples an iteration at each pair."""
    found = selection.find(outputs, ["axes"]).runs
    return {int(run.curves["samples"][-1]) // (200 * PAIRS): run for run in found}


def test_samples_are_counted_at_each_pair_for_each_draw(sampled):
    assert set(rates(sampled)) == {1, 2, 3}
    for rate, run in rates(sampled).items():
        np.testing.assert_array_equal(run.curves["samples"], run.curves["iteration"] * rate * PAIRS)


def test_samples_of_an_old_record_follow_from_its_settings(sampled, tmp_path):
    for rate, run in rates(sampled).items():
        old = rewritten(run, tmp_path / str(rate))
        assert "samples" not in old.curves
        np.testing.assert_array_equal(axis.positions(old, "samples"), run.curves["samples"])
    gone = rewritten(run, tmp_path / "gone", algorithm={"_target_": "not_here.Rule", "name": "own"})
    with pytest.raises(SettingError, match="whose record does not tell them"):
        axis.positions(gone, "samples")
    assert axis.usual([[old, gone]]) == "iterations"  # nothing is known of either


def test_rules_of_different_samples_are_compared_in_samples_which_is_said_first(compare, sampled):
    done = compare("experiment.name=axes", outputs=sampled)
    assert done.code == 0, done.err
    assert done.out.startswith("Counted in samples, since the rules take different numbers of samples an iteration")
    assert {(row["axis"], row["at"]) for row in done.rows} == {("samples", 200 * PAIRS)}  # where the shortest ends
    asked = compare("experiment.name=axes", "axis=iterations", outputs=sampled)
    assert {(row["axis"], row["at"], row["at_a"]) for row in asked.rows} == {("iterations", 200, 200)}
    assert "amples" not in asked.out.splitlines()[0]


def test_each_rule_is_read_at_its_own_last_checkpoint_up_to_so_many_samples(compare, sampled, tmp_path):
    at = 5000
    done = compare("experiment.name=axes", f"at={at}", "--csv", tmp_path / "v.csv", outputs=sampled)
    wanted = {}
    for rate, run in rates(sampled).items():
        column = max(c for c, k in enumerate(run.curves["iteration"]) if k * rate * PAIRS <= at)
        wanted[run.digest] = (run.curves["iteration"][column] * rate * PAIRS, run.curves["q_error"][:, column].mean())
    for row in done.rows:
        for side in "ab":
            place, mean = wanted[row[f"digest_{side}"]]
            assert row[f"at_{side}"] == place <= at
            assert row[f"value_{side}"] == pytest.approx(mean)
    assert f"q_error at {at} samples, less is better" in done.out
    assert f"its last checkpoint up to {at} samples is at {min(place for place, _ in wanted.values())}" in done.out
    with (tmp_path / "v.csv").open() as file:
        assert {row["axis"] for row in csv.DictReader(file)} == {"samples"}
    beyond = compare("experiment.name=axes", "at=9000", outputs=sampled)
    assert beyond.code == 2 and "must be at most 8800, the last of the samples of q_learning" in beyond.err


def test_times_are_in_the_units_of_the_axis(compare, sampled):
    done = compare("experiment.name=axes", "summary=time", "epsilon=0.5", outputs=sampled)
    for row in done.rows:
        for side in "ab":
            run = next(run for run in rates(sampled).values() if run.digest == row[f"digest_{side}"])
            below = run.curves["q_error"] <= 0.5
            upto = run.curves["samples"] <= 8800
            arrived = [run.curves["samples"][np.argmax(one)] for one in below if (one & upto).any()]
            assert len(arrived) == 12  # or the median below would be another
            assert row[f"value_{side}"] == np.sort(arrived)[5]
    assert "time in samples to q_error <= 0.5 (first checkpoint, within 8800 samples)" in done.out


def test_a_seed_that_diverged_did_so_at_some_number_of_samples(sampled, tmp_path):
    run = rates(sampled)[2]
    lost = np.where(
        run.curves["iteration"] < 50, run.curves["q_error"], np.where(np.arange(12)[:, None] == 4, np.nan, 1)
    )
    one = rewritten(run, tmp_path / "lost", curve=lost, diverged={4: 50})
    assert axis.ends(one, "samples")[4] == 50 * 2 * PAIRS
    for at, finite in ((50 * 2 * PAIRS, 11), (50 * 2 * PAIRS - 1, 12)):
        asked = Question(axis="samples", at=at)
        (row,) = answered([comparison.ask(Entry(one, "a"), Entry(rates(sampled)[1], "b"), asked)])
        assert row.n_finite_a == finite


def test_one_rate_gives_the_same_answer_on_both_axes(compare, made):
    by_k = compare("experiment.name=small", "env=frozen_lake_4x4", "at=100").rows
    by_samples = compare("experiment.name=small", "env=frozen_lake_4x4", "axis=samples", f"at={100 * PAIRS}").rows
    for one, other in zip(by_k, by_samples, strict=True):
        assert other["at_a"] == other["at_b"] == PAIRS * one["at"]
        assert (one["effect"], one["p"], one["verdict"]) == (other["effect"], other["p"], other["verdict"])
    assert axis.usual([[of(made, "small", env="frozen_lake_4x4", algorithm="nesa")]]) == "iterations"


def test_a_figure_is_drawn_on_the_axis_that_is_asked_for(mqlearn, outputs, work, monkeypatch):
    monkeypatch.setattr(make, "REFERENCE", work)
    (work / "conf" / "experiment").mkdir(parents=True)
    yaml = (
        "# @package _global_\niterations: 40\nn_seeds: 3\nn_checkpoints: 6\nexperiment: {name: mine}\nfigure:\n"
        "  module: mqlearn.analysis.figures.error_curves\n  metric: q_error\n  metric_of: {C: q_error_average}\n"
        "  grid: {A: [env=six_state], B: [env=two_state]}\n"
        "  curves: {R: [algorithm=residual], C: [algorithm=q_learning, algorithm.averaged=true], "
        "D: {A: [algorithm=speedy_q]}}\n"
    )
    path = work / "conf" / "experiment" / "mine.yaml"
    path.write_text(yaml)
    own = ("mine", "--config-dir", "conf", "tracking=none", "n_workers=1")
    assert mqlearn("figure", *own, "figure.axis=steps").code == 2
    assert not outputs.exists()
    done = mqlearn("figure", *own, "--store")
    assert done.code == 0, done.err
    with np.load(work / "mine.npz") as stored:  # where rules differ, samples are usual
        curves = sorted({name.rpartition(" | ")[0] for name in stored.files})
        assert curves == ["A | C", "A | D", "A | R", "B | C", "B | R"]
        np.testing.assert_array_equal(stored["A | R | samples"], 2 * stored["A | C | samples"])
        averaged = of(outputs, "mine", algorithm__averaged="true", env="six_state")
        np.testing.assert_allclose(stored["A | C | band"][0], averaged.curves["q_error_average"].mean(axis=0))
    assert mqlearn("figure", *own, "--store", "figure.axis=iterations").code == 0
    with np.load(work / "mine_figure.axis=iterations.npz") as stored:
        np.testing.assert_array_equal(stored["A | R | iteration"], stored["A | C | iteration"])
        assert not [name for name in stored.files if "samples" in name]
    page = mqlearn("report", "experiment.name=mine", "--config-dir", "conf", "tracking=none", "--output", "mine.html")
    assert page.code == 0, page.err
    text = (work / "mine.html").read_text()
    assert "Counted in samples, since the rules take different numbers of samples an iteration" in text
    assert "Figure 1. q_error, q_error_average: A; B." in text
    for wrong, words in (
        ("  metric_of: {C: q_error_avrage}", "q_error_average"),
        ("  metric_of: {K: q_error}", "one of the curves"),
    ):
        path.write_text(yaml.replace("  metric_of: {C: q_error_average}", wrong))
        done = mqlearn("figure", *own)
        assert done.code == 2 and words in done.err
    path.write_text(yaml.replace("  grid:", "  scales: log\n  grid:"))
    assert mqlearn("figure", *own).err.startswith("mqlearn: figure.scales='log'")
    path.write_text(yaml.replace("D: {A:", "D: {Z:"))
    done = mqlearn("figure", *own)
    assert done.code == 2 and "figure.curves='Z'" in done.err
