"""Which finished runs a question is about: selected, counted once, told apart, and what is said of the others."""

import json
import shutil
import sys

from compared import of, performed, rewritten

from mqlearn.analysis.comparison import selection
from mqlearn.analysis.comparison.labels import entries
from mqlearn.experiments.settings.cell import build
from mqlearn.problems.environments.frozen_lake import map_name
from mqlearn.storage import runs


def test_a_selection_without_runs_names_the_nearest(compare):
    done = compare("experiment.name=small", "algorithm=speedy_q", "iterations=299")
    assert (done.code, done.rows) == (2, None)
    assert "algorithm=speedy_q iterations=300  (2 runs)" in done.err
    done = compare("experiment.name=smal")
    assert done.code == 2 and "did you mean 'small'?" in done.err


def test_a_map_is_selected_as_it_is_set_and_named_in_short(mqlearn, monkeypatch, work, tmp_path):
    rows = ["SFFFF", "FFHFF", "FFFFG"]
    (work / "lake.txt").write_text("\n".join(rows))
    rest = ["iterations=20", "n_checkpoints=4", "n_seeds=6", "tracking=none", "experiment.name=maps"]
    maps = (f"env.map=[{','.join(rows)}]", "env.map=8x8")
    rules = ("algorithm=q_learning", "algorithm=nesa")
    outputs = performed(tmp_path / "maps", [["env=frozen_lake", one, rule, *rest] for one in maps for rule in rules])
    monkeypatch.setenv("MQLEARN_OUTPUTS", str(outputs))
    named = map_name(rows)
    assert named.startswith("3x5 map ") and len(named) < 20
    for asked, shown in (("lake.txt", named), (f"[{','.join(rows)}]", named), ("8x8", "8x8")):
        done = mqlearn("compare", "experiment.name=maps", f"env.map={asked}")
        assert done.code == 0, done.err
        assert done.out.splitlines()[0].endswith("corrected by Holm over the 1 comparison of the block.")
        assert f"[frozen_lake {shown}, discount 0.9" in done.out and "SFFF" not in done.out
    done = mqlearn("compare", "experiment.name=maps", "env.map=4x4")
    assert done.code == 2 and f"env.map={named}  (2 runs)" in done.err and "env.map=8x8  (2 runs)" in done.err
    done = mqlearn("compare", "experiment.name=maps", "env.map=lak.txt")
    assert done.code == 2 and "env.map='lak.txt': cannot be read as a map file" in done.err


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
    kept = selection.latest_runs([*found, longer])
    assert {run.digest for run in kept.runs} == {run.digest for run in found}
    assert "2 runs differ only in seeds or length; the one with 3 seeds, 100 iterations counts" in kept.notes[0]
    kept = selection.latest_runs([found[0], longer])
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
        kept = selection.latest_runs([old, new])
        assert {one.digest for one in kept.runs} == {"old", "new"}
        (note,) = kept.notes
        assert f"2 runs of the same settings differ in {what}" in note and "select one by digest=" in note
        assert f"old, made {old.summary['ended'][:10]}" in note
        assert selection.select([old, new], ["digest=ol"]) == [old]
        made = entries([old, new])  # rules of one block, or blocks of their own where the records have other models
        assert len({(entry.label, entry.block) for entry in made}) == 2
        assert len({entry.block for entry in made}) == (1 if what in ("source", "source or model") else 2)


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
    assert everything == answers[0]  # the variant at another discount, too, is another question
    other = mqlearn("compare", "experiment.name=mine", "--config-dir", "conf", "discount=0.95", "--json", "v.json")
    assert other.code == 0 and {row["group"][:30] for row in json.loads((work / "v.json").read_text())} == {
        "frozen_lake_4x4, discount 0.95"
    }
    assert mqlearn("compare", "experiment.name=mine", "--config-dir", "conf", "seed=4").out.startswith(
        ("2 of 3", "3 of 3")
    )
