"""A verdict is about rules and problems: no module counts that has no part in them, whether it is here or not."""

import json
import sys

import pytest
from compared import of, rewritten

from mqlearn.analysis.comparison import selection
from mqlearn.analysis.comparison.common_numbers import pairing
from mqlearn.analysis.comparison.labels import entries
from mqlearn.analysis.report import curves, maps, policies, subjects
from mqlearn.experiments.settings import cell, identity, plugins, records
from mqlearn.storage import runs

RULE = """
import mqlearn as mq


class Own(mq.Rule):
    def update(self, k, q, q_prev, target, target_prev):
        return q + self.step_size(k) * (target - q)


def lake(discount):
    return mq.frozen_lake("4x4", discount=discount)
"""
SMALL = ("iterations=60", "n_checkpoints=8", "n_seeds=8", "tracking=none", "experiment.name=idle")
NAMES = ("idle_module", "own_module")


@pytest.fixture
def modules(work, outputs):
    """The user's folder with a module that nothing uses, and one with a rule and a problem; later neither is known."""
    (work / "idle_module.py").write_text("number = 1\n")
    (work / "own_module.py").write_text(RULE)
    yield work
    for name in NAMES:
        sys.modules.pop(name, None)


@pytest.fixture
def verdicts(mqlearn, work):
    def asked(*arguments: str) -> list[dict]:
        done = mqlearn("compare", "experiment.name=idle", *arguments, "--json", "v.json")
        assert done.code == 0, done.err
        return json.loads((work / "v.json").read_text())

    return asked


def learn(mqlearn, *words: str) -> None:
    done = mqlearn("run", *SMALL, *words)
    assert done.code == 0, done.err


def without_modules(work) -> None:
    """As on the machine of somebody who has the runs alone."""
    plugins.forget()
    cell._build.cache_clear()
    for name in NAMES:
        sys.modules.pop(name, None)
        (work / f"{name}.py").unlink(missing_ok=True)


def told(rows: list[dict]) -> list[dict]:
    return [{key: value for key, value in row.items() if not key.startswith("digest")} for row in rows]


@pytest.mark.parametrize("sampling", ["synchronous", "replay"])
def test_a_module_that_is_not_in_use_changes_no_verdict(sampling, mqlearn, modules, verdicts, outputs):
    idle, chain = "plugins=[idle_module]", f"sampling={sampling}"
    learn(mqlearn, "algorithm=q_learning", chain)
    learn(mqlearn, "algorithm=nesa", chain)
    plain = told(verdicts())
    assert [row["paired"] for row in plain] == [True] and "the same samples" in plain[0]["pairing"]
    of(outputs, "idle", algorithm="nesa").folder.rename(outputs / "aside")
    learn(mqlearn, "algorithm=nesa", chain, idle)
    for asked in ((), (idle,)):
        assert told(verdicts(*asked)) == plain
    without_modules(modules)
    assert told(verdicts()) == plain
    (outputs / "aside").rename(outputs / "runs" / "idle" / "again")  # the same rule without the module
    assert told(verdicts()) == plain
    found = selection.latest_runs(selection.find(outputs, ["idle"]).runs)
    assert "2 runs of one rule and one length; the newest counts" in found.notes[0]


def test_a_rule_of_ones_own_is_compared_and_drawn_without_its_module(mqlearn, modules, verdicts, outputs):
    own = ("plugins=[own_module]", "algorithm._target_=own_module.Own", "algorithm.name=own")
    chain = ("sampling=markovian", "sampling.start=uniform")
    learn(mqlearn, "algorithm=q_learning", *chain)
    learn(mqlearn, *own, *chain)
    with_module = verdicts("plugins=[own_module]")
    without_modules(modules)
    assert verdicts() == with_module
    assert with_module[0]["paired"] and "the same value in every seed, up to rounding" in with_module[0]["notes"]
    about = subjects.subjects(entries(selection.find(outputs, ["idle"]).runs))
    assert {one.cell is None for one in about} == {True, False}  # the rule itself is not known
    assert len({one.mdp.digest() for one in about if one.mdp is not None}) == 1 and all(one.mdp for one in about)
    assert len(maps._by_model(about)) == 1
    assert [*curves._chosen(about)] == [""] and len(curves._chosen(about)[""]) == 2  # one picture of both
    assert all(policies.acting_tables(one) is not None for one in about)
    done = mqlearn("report", "experiment.name=idle", "tracking=none", "--output", "a.html")
    assert done.code == 0, done.err


def test_a_problem_of_ones_own_is_the_one_that_was_recorded(mqlearn, modules, verdicts, outputs):
    (modules / "conf" / "env").mkdir(parents=True)
    (modules / "conf" / "env" / "mine.yaml").write_text("_target_: own_module.lake\nname: mine\n")
    own = ("--config-dir", "conf", "env=mine", "plugins=[own_module]")
    learn(mqlearn, "algorithm=q_learning", *own[:3], "plugins=[own_module,idle_module]")
    learn(mqlearn, "algorithm=nesa", *own)
    learn(mqlearn, "algorithm=speedy_q", "env.name=mine")  # the same lake, shipped
    without_modules(modules)
    rows = verdicts()
    assert len(rows) == 3 and all(row["paired"] for row in rows)
    (modules / "own_module.py").write_text(RULE.replace("4x4", "8x8"))
    cell._build.cache_clear()
    learn(mqlearn, "algorithm=root_sa", *own)
    others = {run.settings["algorithm"]["name"]: run for run in selection.find(outputs, ["idle"]).runs}
    groups = {frozenset(run.settings["algorithm"]["name"] for run in group)
              for group in selection.by_problem(list(others.values()))}  # fmt: skip
    assert groups == {frozenset({"q_learning", "nesa", "speedy_q"}), frozenset({"root_sa"})}
    assert not pairing(others["root_sa"], others["nesa"])[0]


def test_a_record_without_its_model_is_compared_by_the_model_built_again(mqlearn, modules, verdicts, outputs):
    learn(mqlearn, "algorithm=q_learning", "plugins=[idle_module]")
    learn(mqlearn, "algorithm=nesa")
    without_modules(modules)
    for folder in (outputs / "runs" / "idle").iterdir():
        run = runs.load(folder)
        if "q_learning" in run.name:
            runs.update_summary(run, made_of=None)
    assert [row["paired"] for row in verdicts()] == [True]


def test_a_report_knows_the_code_of_runs_with_an_idle_module(mqlearn, modules, outputs):
    learn(mqlearn, "algorithm=q_learning", "plugins=[idle_module]")
    without_modules(modules)
    (one,) = subjects.subjects(entries(selection.find(outputs, ["idle"]).runs))
    assert one.cell is not None and one.same_code
    one.run.summary["numerics_version"] = 99
    assert not one.same_code


def test_which_modules_are_in_use(made, tmp_path):
    run = of(made, "three", algorithm="q_learning")
    modules = ["rules", "rules_of_others", "lakes", "metrics"]

    def used(groups=None, **changes) -> list[str]:
        return records.in_use({**run.settings, "plugins": modules, **changes}, groups)

    assert used() == []
    rule = {"_target_": "rules.more.Own", "name": "lakes.of_words"}
    assert used(algorithm=rule) == ["rules"]
    assert used(algorithm=rule, groups=["env"]) == []
    assert used(env={"_target_": "lakes.lake", "noise": "rules_of_others.noise"}) == ["rules_of_others", "lakes"]
    assert used(metrics={"name": "metrics.mine"}) == ["metrics"]
    assert used(env={"_target_": "mqlearn.gymnasium", "id": "FrozenLake-v1"}) == []
    assert used(env={"_target_": "mqlearn.gymnasium", "id": "Mine/Lake-v1"}) == modules  # any may have registered it
    folder = tmp_path / "sources"
    some = runs.update_summary(
        rewritten(run, folder, plugins=["rules", "lakes"], algorithm=rule),
        made_of={"model": "m", "sources": {"rules": "a", "lakes": "b"}},
    )
    assert identity.made_of(some) == {"model": "m", "sources": {"rules": "a"}}
