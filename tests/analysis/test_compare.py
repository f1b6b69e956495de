"""`mqlearn compare` end to end on real small runs: who is better, on what evidence, and what cannot be answered."""

import csv
import itertools
import json
import math
import shlex
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from mqlearn.analysis.comparison import columns, comparison, selection
from mqlearn.analysis.comparison.common_numbers import pairing
from mqlearn.analysis.comparison.labels import CurveName, Entry, entries, planned
from mqlearn.analysis.comparison.seed_values import Question
from mqlearn.experiments import execute
from mqlearn.experiments.settings import compose, identity
from mqlearn.experiments.settings.cell import build, run_cells
from mqlearn.storage import runs

SMALL = ("n_checkpoints=12", "tracking=none")
MADE = {  # experiment: overrides of `mqlearn run -m`
    "small": ("algorithm=q_learning,speedy_q,nesa", "env=frozen_lake_4x4,frozen_lake_8x8", "iterations=300",
              "n_seeds=12"),
    "three": ("algorithm=q_learning,speedy_q", "iterations=100", "n_seeds=3"),
    "six": ("algorithm=q_learning,speedy_q,nesa", "iterations=100", "n_seeds=6"),
    "one": ("algorithm=q_learning,speedy_q", "iterations=100", "n_seeds=1"),
    "exact": ("algorithm=speedy_q", "algorithm.form=azar,printed", "env.slippery=false", "iterations=100", "n_seeds=3"),
    "greedy": ("algorithm=q_learning,speedy_q", "sampling=markovian", "sampling.behaviour=epsilon_greedy", "n_seeds=7",
               "iterations=200", "evaluation.episodes=20"),
}  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """Outputs with the experiments of MADE, and `apart`: q_learning on other seeds than nesa."""
    folder = tmp_path_factory.mktemp("made")
    rest = ("n_seeds=3", "iterations=100")
    apart = [("algorithm=q_learning", "seed=0", *rest), ("algorithm=nesa", "seed=1", *rest)]
    jobs = []
    for name, overrides in [*MADE.items(), *(("apart", one) for one in apart)]:
        keys, values = zip(*(override.split("=", 1) for override in overrides), strict=True)
        for chosen in itertools.product(*(value.split(",") for value in values)):
            words = [f"{key}={value}" for key, value in zip(keys, chosen, strict=True)]
            jobs.append([*words, *SMALL, f"experiment.name={name}"])
    for settings in compose.compose_all(jobs):
        cell = build(settings)
        nowhere = execute.Tracker(None, cell.settings["experiment"]["name"], False)
        execute.perform(cell, folder / "runs" / cell.subfolder, nowhere)
    return folder


@pytest.fixture
def compare(made, mqlearn, monkeypatch, tmp_path):
    """`compare(...)`: exit code, terminal text, and the rows of --json (None if there is no file)."""
    monkeypatch.setenv("MQLEARN_OUTPUTS", str(made))

    def call(*arguments, outputs=made):
        monkeypatch.setenv("MQLEARN_OUTPUTS", str(outputs))
        file = tmp_path / "verdicts.json"
        file.unlink(missing_ok=True)
        done = mqlearn("compare", *arguments, "--json", file)
        rows = json.loads(file.read_text()) if file.exists() else None
        return SimpleNamespace(code=done.code, out=done.out, err=done.err, rows=rows)

    return call


def of(made: Path, name: str, **wanted) -> runs.Run:
    found = selection.find(made, [name]).runs
    (run,) = selection.select(found, [f"{key.replace('__', '.')}={value}" for key, value in wanted.items()])
    return run


def rewritten(run: runs.Run, folder: Path, *, curve=None, metric="q_error", diverged=None, **changes) -> runs.Run:
    """The run with one other curve alone, written by the program's own writer under another digest."""
    curves = {metric: run.curves[metric] if curve is None else curve}
    result = SimpleNamespace(iteration=run.curves["iteration"], curves=curves, diverged=diverged or {}, seconds=0.0)
    settings = {**run.settings, **changes}
    extra = {"numerics_version": run.summary["numerics_version"]}
    return runs.write(folder, settings=settings, digest=folder.name, name=run.name, result=result, extra=extra)


def of_settings(settings) -> runs.Run:
    """A run of which no more is known than its settings."""
    run = runs.Run(Path(), {"numerics_version": 1, "digest": "0" * 64})
    run.__dict__["settings"] = settings
    return run


def answered(pairs) -> list[SimpleNamespace]:
    """The verdicts on some pairs as plain data, by attribute."""
    return [SimpleNamespace(**comparison.row(one)) for one in comparison.decide(pairs)]


# --- the answer ---------------------------------------------------------------------------------------------------


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


def test_a_narrow_terminal_gets_fewer_columns_and_says_which(compare, monkeypatch):
    wide = compare("experiment.name=small", "against=q_learning")
    assert "Left out" not in wide.out
    monkeypatch.setenv("COLUMNS", "80")
    narrow = compare("experiment.name=small", "against=q_learning")
    assert max(map(len, narrow.out.splitlines())) <= 80
    assert "Left out to fit 80 columns: p, needed, mean a, mean b" in narrow.out
    assert narrow.out.count("12 of 12 pairs") == 4  # every line still says how many seeds are in it
    assert narrow.rows == wide.rows


def test_columns_are_left_out_in_their_order_and_long_texts_broken():
    table = [["a", "b", "p", "q"], ["a long label of two runs", "b", "0.123", "1"]]
    assert columns.aligned(table, None, ("p",), ("a",)) == columns.aligned(table, 60, ("p",), ("a",))
    lines, left = columns.aligned(table, 38, ("p", "q"), ("a",))
    assert left == ["p"] and max(map(len, lines)) <= 38
    lines, left = columns.aligned(table, 24, ("p", "q"), ("a",))
    assert left == ["p", "q"] and max(map(len, lines)) <= 24
    assert [line.split() for line in lines[1:]] == [["a", "long", "label", "of", "two", "b"], ["runs"]]


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


def test_labels_are_those_of_the_experiment_yaml(compare, mqlearn, tmp_path, monkeypatch):
    monkeypatch.setenv("MQLEARN_OUTPUTS", str(tmp_path / "own"))
    rules = ("algorithm=q_learning,momentum_q,speedy_q", "iterations=40", "n_seeds=6", *SMALL)
    assert mqlearn("run", "-m", "hydra/launcher=basic", "experiment.name=figure1", *rules).code == 0
    done = compare("experiment.name=figure1", "against=Q-learning", outputs=tmp_path / "own")
    assert done.code == 0, done.err
    assert [row["a"] for row in done.rows] == ["SpeedyQ", "MomentumQ m=2"]  # which m=null is
    assert {row["b"] for row in done.rows} == {"Q-learning"}


def test_panels_with_schedules_of_their_own_are_blocks(made):
    curves = planned("figure2_smoke")
    assert {curve.label for curve in curves.values()} >= {"MomentumQ", "Q-learning, matched step"}
    assert len({curve.panel for curve in curves.values()}) == 2  # constant and diminishing steps
    assert {curve.panel for curve in planned("figure1").values()} == {""}
    assert "MomentumQ m=2" in {curve.label for curve in planned("figure1").values()}
    assert planned("small") == {}
    pair = [of(made, "small", env="frozen_lake_4x4", algorithm=name) for name in ("nesa", "speedy_q")]
    own = {identity.rule_key(run.settings): CurveName("A", panel) for run, panel in zip(pair, "pq", strict=True)}
    assert [(entry.label, entry.block[-3:]) for entry in entries(pair, curves=own)] == [("A", ", p"), ("A", ", q")]


# --- what cannot be answered --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "smallest", "paired"), [("three", 0.25, True), ("apart", 0.1, False)])
def test_three_against_three_is_impossible(compare, name, smallest, paired):  # ST-03
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


def test_one_seed_has_no_interval_and_the_reason_is_given(compare):  # ST-06
    done = compare("experiment.name=one")
    (row,) = done.rows
    assert row["verdict"] == "impossible"
    assert row["low"] is row["high"] is row["seeds_needed"] is None
    assert "one seed: the spread between seeds is unknown, so no interval" in done.out
    assert "no interval" in done.out


def test_a_deterministic_setting_says_that_the_seed_has_no_effect(compare):  # PA-01
    done = compare("experiment.name=exact")
    (row,) = done.rows
    assert row["deterministic"] and row["p"] is None and row["low"] is None
    values = {row["a"]: row["value_a"], row["b"]: row["value_b"]}
    assert values["speedy_q, form=azar"] == pytest.approx(0.0318865, abs=1e-7)
    assert values["speedy_q, form=printed"] < 1e-12
    assert row["verdict"] == "b_better"
    assert "the seed has no effect" in done.out


# --- blocks and pairs ---------------------------------------------------------------------------------------------


def test_a_pair_across_blocks_is_refused_unless_allowed_and_then_said(compare):
    asked = ("experiment.name=small", "algorithm=nesa")
    done = compare(*asked)
    assert (done.code, done.rows) == (2, None)
    assert "allow_mixed=true" in done.err and "frozen_lake_8x8" in done.err
    done = compare(*asked, "allow_mixed=true")
    (row,) = done.rows
    assert row["mixed"] and not row["paired"] and row["group"].startswith("mixed")
    assert "mixed, across blocks" in done.out
    done = compare("experiment.name=small,six", "env=frozen_lake_4x4", "against=speedy_q", "n_seeds=6")
    assert done.code == 0
    done = compare("experiment.name=small,greedy", "env=frozen_lake_4x4", "against=nesa")
    assert done.code == 2 and "not in every block" in done.err


def test_a_block_is_the_model_and_not_its_name(made, tmp_path):
    run = of(made, "small", env="frozen_lake_4x4", algorithm="nesa")
    env = run.settings["env"] | {"name": "my_lake"}
    same = rewritten(run, tmp_path / "same", env=env)
    other = rewritten(run, tmp_path / "other", env=env | {"success_rate": 0.5})
    blocks = {one.folder.name: identity.problem_key(one.settings) for one in (run, same, other)}
    assert blocks["same"] == blocks[run.folder.name] != blocks["other"]
    assert pairing(run, same)[0]
    changes: list[dict[str, Any]] = [{"discount": 0.8}, {"reward": "sampled"}, {"q0": 1}]
    changes.append({"sampling": {"name": "x", "_target_": "y"}})
    for number, change in enumerate(changes):
        assert identity.problem_key(rewritten(run, tmp_path / str(number), **change).settings) != blocks["same"]
    texts = {entry.block for entry in entries([run, other])}
    assert len(texts) == 2
    half = rewritten(run, tmp_path / "half", env=run.settings["env"] | {"success_rate": 0.5})
    assert any("success_rate=0.5" in entry.block for entry in entries([run, half]))


def test_pairs_are_recognised_from_the_records(compare, made, tmp_path):
    done = compare("experiment.name=greedy")
    assert done.rows[0]["paired"]
    assert "the uniform numbers are common, the trajectories are not" in done.out
    run, other = of(made, "three", algorithm="q_learning"), of(made, "small", env="frozen_lake_4x4", algorithm="nesa")
    paired, why = pairing(run, other)
    assert paired and "the first 3 seeds" in why
    paired, why = pairing(run, of(made, "apart", algorithm="nesa"))
    assert not paired and "seed=0 and seed=1" in why
    newer = runs.update_summary(rewritten(run, tmp_path / "newer"), numerics_version=99)
    assert pairing(run, newer) == (False, "not paired: other numerics versions")
    paired, why = pairing(run, of(made, "greedy", algorithm="q_learning"))
    assert not paired and "the sampling differs" in why


def test_replay_and_markovian_sampling_are_paired_where_the_chain_of_a_seed_is_the_same():
    """A record says so, and the trajectories are: every pair is visited equally often."""
    cells = {
        name: build(
            compose.compose([f"sampling={name}", *words, "iterations=300", "n_seeds=4", "evaluation.episodes=0"])
        )
        for name, words in (("markovian", ()), ("replay", ("sampling.capacity=50",)), ("iid", ()))
    }

    def paired(change_a, change_b):
        a, b = (
            of_settings({**cells[name].settings, "sampling": {**cells[name].settings["sampling"], **change}})
            for name, change in (("markovian", change_a), ("replay", change_b))
        )
        return pairing(a, b)

    assert paired({}, {}) == (
        True,
        "common random numbers (seed=0): the chain of a seed is the same in both; replay draws from it",
    )
    visits = {name: run_cells([cell])[0].visits for name, cell in cells.items()}
    np.testing.assert_array_equal(visits["markovian"], visits["replay"])
    for change in ({"warm_up": 10}, {"draws": 2}, {"start": "uniform"}, {"time_limit": 5}):
        assert not paired({}, change)[0]
    assert paired({"clock": "local"}, {"start": "start"})[0]
    assert not paired({"behaviour": "epsilon_greedy"}, {"behaviour": "epsilon_greedy"})[0]
    assert not pairing(*(of_settings(cells[name].settings) for name in ("markovian", "iid")))[0]


# --- seeds that diverge -------------------------------------------------------------------------------------------


def diverging(made, folder):
    """Two entries of 20 seeds of one block: `lost` loses seeds 3, 7 and 8 at iteration 50, having been at 2 by then."""
    run = of(made, "small", env="frozen_lake_4x4", algorithm="nesa")
    k = run.curves["iteration"]
    kept = np.linspace(0.5, 0.6, 20)[:, None] * np.where(k == 0, 2.0, 1.0)  # starts at 1 to 1.2
    lost = kept - 0.1
    lost[[3, 7, 8]] = np.where(k < 50, 2.0, np.nan)
    a = rewritten(run, folder / "lost", curve=lost, diverged={3: 50, 7: 50, 8: 50}, n_seeds=20)
    b = rewritten(run, folder / "kept", curve=kept, n_seeds=20)
    return Entry(a, "lost", "block"), Entry(b, "kept", "block")


def test_diverged_seeds_are_counted_in_every_line_and_treated_as_asked(made, tmp_path):
    a, b = diverging(made, tmp_path)
    kept = np.linspace(0.5, 0.6, 20)
    finite = np.delete(np.arange(20), [3, 7, 8])
    worst = 2.0  # the initial error of a diverged seed
    wanted = {"worst": worst, "censored": 2.0, "excluded": None}
    for treatment, value in wanted.items():
        (row,) = answered([comparison.ask(a, b, Question(diverged=treatment))])
        stand_in = [] if value is None else [value] * 3
        used = finite if value is None else np.arange(20)
        assert row.value_a == pytest.approx(np.mean([*(kept[finite] - 0.1), *stand_in]))
        assert row.effect == pytest.approx(row.value_a - kept[used].mean())
        assert (row.n_finite, row.n_finite_a, row.n_seeds_a, row.n_finite_b, row.n_used) == (17, 17, 20, 20, len(used))
        assert any("17 of 20 seeds finite" in note for note in row.notes)
        assert row.verdict == ("a_better" if treatment == "excluded" else "no_difference")
    (row,) = answered([comparison.ask(a, b, Question(at=20))])
    assert row.n_finite == 20  # none has diverged by then


def test_a_diverged_seed_never_arrives(made, tmp_path):
    a, b = diverging(made, tmp_path)
    question = Question("time", epsilon=0.55)
    (row,) = answered([comparison.ask(a, b, question)])
    first = a.run.curves["iteration"][1]
    assert row.value_a == first  # 17 of 20 arrive at once
    assert row.n_used == 20 and row.n_finite_a == 17
    logs = np.full(20, math.log(max(first, 1)))
    logs[[3, 7, 8]] = math.log(300)
    rivals = np.where(b.run.curves["q_error"][:, -1] <= 0.55, math.log(max(first, 1)), math.log(300))
    assert row.effect == pytest.approx(math.exp((logs - rivals).mean()))
    excluded = comparison.ask(a, b, Question("time", epsilon=0.55, diverged="excluded"))
    assert excluded.n_used == 17


def test_when_every_seed_has_diverged_there_is_no_verdict(made, tmp_path):
    run = of(made, "three", algorithm="q_learning")
    lost = np.where(run.curves["iteration"] < 50, 1.0, np.nan) * np.ones((3, 1))
    gone = [rewritten(run, tmp_path / name, curve=lost, diverged={0: 50, 1: 50, 2: 50}) for name in ("a", "b")]
    a, b = (Entry(one, one.digest, "") for one in gone)
    (row,) = answered([comparison.ask(a, b, Question())])
    assert row.verdict == "impossible" and row.n_finite == 0 and row.at == 100
    assert math.isnan(row.effect)
    (row,) = answered([comparison.ask(a, b, Question("area"))])
    assert row.verdict == "impossible" and row.n_finite == 0  # though they have an area up to where they end


def test_rules_that_are_one_differ_by_rounding_only_and_so_do_not_differ(made, tmp_path):
    run = of(made, "small", env="frozen_lake_4x4", algorithm="nesa")
    noise = 1e-16 * (1 + np.random.default_rng(0).random(run.curves["q_error"].shape))
    other = rewritten(run, tmp_path / "twin", curve=run.curves["q_error"] + noise)
    (row,) = answered([comparison.ask(Entry(run, "a"), Entry(other, "b"), Question())])
    assert (row.verdict, row.p, row.effect) == ("no_difference", 1, 0)


# --- which runs ---------------------------------------------------------------------------------------------------


def test_a_selection_without_runs_names_the_nearest(compare):
    done = compare("experiment.name=small", "algorithm=speedy_q", "iterations=299")
    assert (done.code, done.rows) == (2, None)
    assert "algorithm=speedy_q iterations=300  (2 runs)" in done.err
    done = compare("experiment.name=smal")
    assert done.code == 2 and "did you mean 'small'?" in done.err


def test_nothing_that_can_be_tested_needs_no_legend_of_tests(made, mqlearn, monkeypatch, tmp_path):
    (run, *_) = selection.find(made, ["small"]).runs
    gone = dict.fromkeys(range(run.settings["n_seeds"]), 1)
    for offset in (1, 2):
        step_size = {**run.settings["step_size"], "offset": offset}
        rewritten(run, tmp_path / "runs" / "gone" / str(offset), step_size=step_size, diverged=gone)
    monkeypatch.setenv("MQLEARN_OUTPUTS", str(tmp_path))
    done = mqlearn("compare", "experiment.name=gone", "diverged=excluded")
    assert done.code == 0 and "impossible" in done.out and "level 0.05/0" not in done.out


def test_an_experiment_that_is_not_there_is_told_by_the_names_that_were_given(made, mqlearn, monkeypatch, tmp_path):
    name = "Größe der Schritte"
    (run, *_) = selection.find(made, ["small"]).runs
    rewritten(run, tmp_path / "runs" / runs.slug(name) / "one", experiment={"name": name})
    monkeypatch.setenv("MQLEARN_OUTPUTS", str(tmp_path))
    assert f"there are {name} (did you mean '{name}'?)" in mqlearn("compare", "experiment.name=Große Schritte").err


def test_two_folders_of_one_digest_count_once_and_failed_runs_are_named(made, tmp_path):
    outputs = tmp_path / "copy"
    shutil.copytree(made / "runs" / "three", outputs / "runs" / "three")
    first, second = sorted((outputs / "runs" / "three").glob("*/"))
    newer = outputs / "runs" / "three" / "again"
    shutil.copytree(first, newer)
    runs.update_summary(runs.load(newer), ended="9999")
    found = selection.find(outputs, ["three"])
    assert len(found.runs) == 2
    assert [run.folder for run in found.runs if run.digest == runs.load(first).digest] == [newer]
    assert "2 finished folders of one digest; the newest counts, once" in found.notes[0]
    runs.update_summary(runs.load(second), status="killed")
    found = selection.find(outputs, ["three"])
    assert len(found.runs) == 1
    assert any("killed" in note for note in found.notes)
    (second / runs.SUMMARY).write_text("{")
    assert any("damaged" in note for note in selection.find(outputs, ["three"]).notes)


def test_of_runs_that_differ_in_extent_the_one_like_its_block_counts(made, tmp_path):
    found = list(selection.find(made, ["three"]).runs)
    longer = rewritten(found[0], tmp_path / "longer", iterations=5000)
    kept = selection.standing([*found, longer])
    assert {run.digest for run in kept.runs} == {run.digest for run in found}
    assert "2 runs differ only in seeds or length; the one with 3 seeds, 100 iterations counts" in kept.notes[0]
    kept = selection.standing([found[0], longer])
    assert [run.digest for run in kept.runs] == ["longer"]


def test_runs_of_one_name_that_differ_in_source_model_or_numerics_are_told_apart(made, tmp_path):
    run = of(made, "three", algorithm="q_learning")
    for what, change in (
        ("source", {"made_of": {"model": "m", "sources": {"my_rules": "b"}}}),
        ("model", {"made_of": {"model": "n", "sources": {"my_rules": "a"}}}),
        ("numerics version", {"numerics_version": 99}),
        ("source or model", {}),  # a record of before, of the same extent and with another digest
    ):
        old = rewritten(run, tmp_path / what.replace(" ", "-") / "old")
        old = runs.update_summary(old, made_of={"model": "m", "sources": {"my_rules": "a"}} if change else None)
        new = runs.update_summary(rewritten(run, tmp_path / what.replace(" ", "-") / "new"), **change)
        for one in (old, new):
            if not one.summary.get("made_of"):
                one.summary.pop("made_of", None)
        kept = selection.standing([old, new])
        assert {one.digest for one in kept.runs} == {"old", "new"}
        (note,) = kept.notes
        assert f"2 runs of the same settings differ in {what}" in note and "select one by digest=" in note
        assert f"old, made {old.summary['ended'][:10]}" in note
        assert selection.select([old, new], ["digest=ol"]) == [old]
        assert len({entry.label for entry in entries([old, new])}) == 2


def test_a_rule_edited_between_two_runs_of_different_length_is_told_apart(mqlearn, outputs, work):
    code = (
        "import mqlearn as mq\n\n\nclass Edited(mq.Rule):\n    def update(self, k, q, q_prev, target, target_prev):\n"
    )
    (work / "conf" / "algorithm").mkdir(parents=True)
    (work / "conf" / "algorithm" / "edited.yaml").write_text("_target_: edited_rules.Edited\nname: edited\n")
    own = ("--config-dir", "conf", "plugins=[edited_rules]", "algorithm=edited", "experiment.name=e", "tracking=none")
    for share, iterations in ((0.5, 20), (0.25, 40)):
        (work / "edited_rules.py").write_text(f"{code}        return q + {share} * (target - q)\n")
        sys.modules.pop("edited_rules", None)
        build.__globals__["_build"].cache_clear()
        assert mqlearn("run", *own, f"iterations={iterations}", "n_seeds=6").code == 0
    done = mqlearn("compare", "experiment.name=e")
    assert done.code == 0, done.err
    assert "2 runs of the same settings differ in source" in done.out and "1 of 1" in done.out


def test_variants_of_a_figure_leave_its_plain_question_alone(mqlearn, outputs, work):
    rules = (
        "algorithm=q_learning,nesa,speedy_q",
        "env=frozen_lake_4x4",
        "n_seeds=7",
        "n_checkpoints=8",
        "tracking=none",
    )
    (work / "conf" / "experiment").mkdir(parents=True)
    (work / "conf" / "experiment" / "mine.yaml").write_text(
        "# @package _global_\niterations: 60\nn_seeds: 7\nn_checkpoints: 8\nexperiment: {name: mine}\nfigure:\n"
        "  module: mqlearn.analysis.figures.error_curves\n  metric: q_error\n"
        "  curves: {A: [algorithm=q_learning], B: [algorithm=nesa], C: [algorithm=speedy_q]}\n"
    )
    answers = []
    for variant in ("iterations=60", "iterations=90", "seed=4", "discount=0.95"):
        words = {"iterations": "iterations=60"} | {variant.partition("=")[0]: variant}
        assert mqlearn("run", "-m", "hydra/launcher=basic", *rules, *words.values(), "experiment.name=mine").code == 0
        asked = ("compare", "experiment.name=mine", "--config-dir", "conf", "discount=0.9", "--json", "v.json")
        done = mqlearn(*asked)
        assert done.code == 0, done.err
        answers.append(json.loads((work / "v.json").read_text()))
    assert all(one == answers[0] for one in answers) and len(answers[0]) == 3
    assert "6 runs of variants left out" in done.out
    mqlearn("compare", "experiment.name=mine", "--config-dir", "conf", "--json", "v.json")
    everything = json.loads((work / "v.json").read_text())
    assert [row for row in everything if "discount 0.9," in row["group"]] == answers[0]
    assert mqlearn("compare", "experiment.name=mine", "--config-dir", "conf", "seed=4").out.startswith(
        ("2 of 3", "3 of 3")
    )


def test_labels_name_what_differs_and_no_more(made, tmp_path):
    run = of(made, "three", algorithm="q_learning")
    step = {"_target_": "mqlearn.Constant", "name": "constant", "alpha": 0.1}
    faster = rewritten(run, tmp_path / "faster", step_size=step)
    fastest = rewritten(run, tmp_path / "fastest", step_size=step | {"alpha": 0.5})
    again = rewritten(run, tmp_path / "again", seed=7)
    labels = {entry.run.digest: entry.label for entry in entries([run, faster, fastest])}
    assert labels == {
        run.digest: "q_learning, harmonic",
        "faster": "q_learning, constant, alpha=0.1",
        "fastest": "q_learning, constant, alpha=0.5",
    }
    assert {entry.label for entry in entries([run, again])} == {"q_learning, seed=0", "q_learning, seed=7"}
    assert entries([run])[0].label == "q_learning"


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


# --- tables -------------------------------------------------------------------------------------------------------


def test_csv_latex_and_json_hold_the_same_numbers(compare, tmp_path):
    rows = compare("experiment.name=small", "--csv", tmp_path / "v.csv", "--latex", tmp_path / "v.tex").rows
    with (tmp_path / "v.csv").open() as file:
        table = list(csv.DictReader(file))
    assert len(table) == len(rows)
    for line, row in zip(table, rows, strict=True):
        assert line["a"] == row["a"] and line["verdict"] == row["verdict"]
        assert float(line["effect"]) == row["effect"] and float(line["p_corrected"]) == row["p_corrected"]
    tex = (tmp_path / "v.tex").read_text()
    assert tex.count(r"\begin{tabular}") == tex.count(r"\end{tabular}") == 2
    assert tex.count(r"q\_learning") >= 4 and "q_learning &" not in tex
    assert not list(tmp_path.glob(".*"))


# --- fair tuning and calibration ----------------------------------------------------------------------------------


def test_tuning_gives_equal_budgets_and_reports_on_other_seeds(compare, mqlearn, tmp_path, monkeypatch):
    outputs = tmp_path / "tuning"
    monkeypatch.setenv("MQLEARN_OUTPUTS", str(outputs))
    common = ("seed=1000", "n_seeds=4", "iterations=100", "experiment.name=tuning", *SMALL)
    assert mqlearn("run", "-m", "hydra/launcher=basic", "algorithm=momentum_q", "algorithm.m=2,5,50", *common).code == 0
    done = compare("experiment.name=tuning", "tuned=true", outputs=outputs)
    assert done.code == 2 and "q_learning with its own best step size must be among the rivals" in done.err
    assert (
        mqlearn("run", "-m", "hydra/launcher=basic", "algorithm=q_learning", "step_size.offset=0,40", *common).code == 0
    )
    done = compare("experiment.name=tuning", "tuned=true", outputs=outputs)
    assert done.code == 2 and "fewer than two algorithms" in done.err
    commands = [line.strip() for line in done.err.splitlines() if line.strip().startswith("mqlearn run")]
    assert len(commands) == 2
    for command in commands:  # as told
        assert mqlearn(*shlex.split(command)[1:], "tracking=none").code == 0
    done = compare("experiment.name=tuning", "tuned=true", outputs=outputs)
    assert done.code == 0, done.err
    (row,) = done.rows
    about = {row[side].split(" ")[0]: row["tuning"][side] for side in ("a", "b")}
    assert about["momentum_q"]["budget"] == about["q_learning"]["budget"] == 2
    assert about["q_learning"]["setting"] == "offset=0"
    assert [one["setting"] for one in about["momentum_q"]["sensitivity"]] == ["m=2", "m=5"]  # the first two that ran
    assert row["n_finite"] == 20
    for digest in (row["digest_a"], row["digest_b"]):
        (run,) = (run for run in selection.find(outputs).runs if run.digest == digest)
        assert run.settings["seed"] != 1000
    assert "momentum_q: the first 2 of 3 settings" in done.out
    assert "settings chosen on seed=1000; verdicts on seed=0 alone" in done.out
    done = compare("experiment.name=tuning", "tuned=true", "tuning_seed=5", outputs=outputs)
    assert done.code == 2 and "tuning_seed=5" in done.err


def test_settings_that_could_be_best_hold_the_best_and_not_a_hopeless_one():
    from mqlearn.analysis.comparison.tuned import TriedSetting, _could_be_best
    from mqlearn.analysis.statistics.intervals import Estimate

    rng = np.random.default_rng(1)
    missed = 0
    for _ in range(200):
        shared = rng.normal(size=8)
        values = [mean + shared + 0.3 * rng.normal(size=8) for mean in (0.0, 0.05, 3.0)]
        none: Any = None  # what is tested looks at the values alone
        tried = [TriedSetting(none, str(i), x, Estimate(0, 0, 0, 8)) for i, x in enumerate(values)]
        kept = {one.words for one in _could_be_best(tried, 1, 0.05)}
        missed += "0" not in kept
        assert "2" not in kept
    assert missed <= 20


def test_calibration_reports_the_rate_of_false_answers(compare):
    done = compare("experiment.name=small", "calibrate=true", "env=frozen_lake_4x4")
    assert done.code == 0, done.err
    assert len(done.rows) == 3
    for row in done.rows:
        assert row["a"] == row["b"] and row["trials"] == 200 and row["half"] == 6
        assert row["yes_paired"] <= 20 and row["yes_unpaired"] <= 22
        assert row["verdict"] == "no_difference"
    found = [row["planted"]["2.0"] for row in done.rows]
    assert max(unpaired for _, unpaired in found) > 0.5  # a rule twice as fast is seen
    assert "halves" in done.out
    done = compare("experiment.name=three", "calibrate=true")
    assert {row["verdict"] for row in done.rows} == {"impossible"}
    assert "0 by force" in done.out
