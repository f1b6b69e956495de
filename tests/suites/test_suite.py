"""Suites: what they refuse, what they run, and what is kept."""

import json
import re
import shlex
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from leaderboard_cases import KEYS

import mqlearn as mq
from mqlearn.errors import SettingError
from mqlearn.experiments.settings import own_choices
from mqlearn.storage import formats
from mqlearn.suites import definition, results, rules, run_suite, trials
from mqlearn.suites.facts import facts
from mqlearn.suites.leaderboard import page

SUITE = """
base: [sampling=synchronous, reward=sampled]
budget: 4e3
metric: q_error
seeds: {tuning: 2, tuning_seed: 1000, reporting: 6, reporting_seed: 0}
problems:
  two: [env=two_state, discount=0.95]
  noisy: [env=noisy_grid, discount=0.9]
"""
OWN = """
import mqlearn as mq

class MyRule(mq.Rule):
    def update(self, k, q, q_prev, target, target_prev):
        a = self.step_size(k)
        return (1 - a) * q + a * target

    def own_step_size(self, discount):
        return mq.RescaledLinear(discount)
"""


@pytest.fixture
def tiny(work) -> Path:
    """The user's folder of configurations, with a suite, and a module of rules beside it."""
    (work / "my conf" / "suite").mkdir(parents=True)
    (work / "my conf" / "suite" / "tiny.yaml").write_text(SUITE)
    (work / "my_rules.py").write_text(OWN)
    return work / "my conf"


@pytest.fixture
def bench(mqlearn, tiny):
    """`bench(...)`: the verb on the tiny suite; what --json holds, and what was printed."""

    def call(*arguments: str):
        done = mqlearn("bench", "tiny", "--config-dir", tiny, "tracking=none", "n_workers=1", *arguments, "--json", "j")
        assert done.code == 0, done.err
        return json.loads(Path("j").read_text(encoding="utf-8")), done

    return call


# --- what is refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "setting", "words"),
    [
        ({"budget": 0}, "s.budget", "whole number"),
        ({"problems": {}}, "s.problems", "must map"),
        ({"problems": {"two": "env=two_state"}}, "s.two", "list of overrides"),
        ({"problems": {"two": ["env=two_state", "algorithm=nesa"]}}, "s.two.algorithm", "decided by the suite"),
        ({"seeds": {**KEYS["seeds"], "reporting": 0}}, "seeds.reporting", "at least 1"),
        ({"tuning_budget": 101}, "s.tuning_budget", "100"),
        ({"seeds": {**KEYS["seeds"], "tuning_seed": 0}}, "seeds.tuning_seed", "not tuned on the seeds that report"),
        ({"budgets": 3}, "s.budgets", "did you mean 'budget'?"),
    ],
)
def test_a_suite_that_is_none_is_refused(changes, setting, words):
    with pytest.raises(SettingError) as refused:
        definition.made("s", KEYS | changes)
    assert refused.value.setting == setting and words in str(refused.value)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["clasic"], "did you mean 'classic'?"),
        (["classic", "algorithm=root_sq"], "did you mean 'root_sa'?"),
        (["classic", "algorithm=speedy_q_printed"], "is no row of a leaderboard: root_sa has it as its limit"),
        (["classic", "discount=0.5"], "has no effect on `mqlearn bench`"),
        (["classic", "existing=error"], "must be skip or rerun"),
        (["classic", "algorithm=root_sa", "--store"], "leave algorithm= out"),
        (["classic", "paper"], "must be one suite"),
        (["classic", "--figure", "board.txt"], "must end in .png"),
        (["classic", "--critical", "board.txt"], "must end in .png"),
        (["classic", "n_workers=0"], "whole number"),
        (["classic", "margin=1.1"], "is a setting of decide=true alone"),
        (["classic", "decide=true", "--html", "b.html"], "does not go with decide=true"),
        (["classic", "decide=true", "looks=ten"], "whole number"),
    ],
)
def test_bad_arguments_of_the_verb_are_refused(mqlearn, outputs, arguments, words):
    done = mqlearn("bench", *arguments)
    assert done.code == 2 and words in done.err and not (outputs / "bench").exists()


@pytest.mark.parametrize(
    ("tuning", "setting", "words"),
    [
        ("[[algorithm.zeta=1]]", "mine.tuning", "no longer lists overrides"),
        ("{zeta: {}}", "mine.tuning", "must be algorithm.NAME or one of step_size.first"),
        ("{step_size.horizn: {}}", "mine.tuning", "did you mean 'step_size.horizon'?"),
        ("{algorithm.zeta: {mst: 1}}", "mine.tuning.algorithm.zeta.mst", "did you mean 'most'?"),
        ("{algorithm.zeta: {most: high}}", "mine.tuning.algorithm.zeta.most", "must be a number"),
        ("{algorithm.zeta: {step: 1}}", "mine.tuning.algorithm.zeta.step", "above 1"),
        ("{algorithm.zeta: 3}", "mine.tuning.algorithm.zeta", "must be a mapping"),
        ("{step_size: horizon}", "mine.tuning.step_size", "must be none"),
        ("my own reason", "algorithm", "is no row of a leaderboard: my own reason"),
    ],
)
def test_tuning_in_a_yaml_that_is_none_is_refused(work, tiny, tuning, setting, words):
    (tiny / "algorithm").mkdir()
    (tiny / "algorithm" / "mine.yaml").write_text(f"_target_: mqlearn.NeSA\ntuning: {tuning}\n")
    with pytest.raises(SettingError) as refused:
        rules.entrants(["mine"], (), str(tiny))
    assert refused.value.setting == setting and words in str(refused.value)


def test_a_number_that_is_tuned_must_have_a_start(work, tiny):
    (tiny / "algorithm").mkdir()
    (tiny / "algorithm" / "mine.yaml").write_text("_target_: mqlearn.MomentumQ\nm: null\ntuning: {algorithm.m: {}}\n")
    (problem,) = definition.made("s", KEYS, str(tiny)).problems
    with pytest.raises(SettingError, match=r"mine.tuning.algorithm.m.start.*must be set"):
        trials.entries(problem, rules.entrants(["mine"], (), str(tiny)))


def test_a_class_called_as_a_rule_of_the_package_is_not_replaced_by_it(work):
    (work / "my_rules.py").write_text(OWN.replace("MyRule", "RootSA"))
    with pytest.raises(SettingError, match=r"your my_rules.RootSA: write algorithm=my_rules.RootSA"):
        rules.entrants(["root_sa"], ["my_rules"])
    (mine,) = rules.entrants(["my_rules.RootSA"], ["my_rules"])
    assert mine.own and mine.overrides[0] == "algorithm._target_=my_rules.RootSA"


def test_the_suites_of_the_package_can_be_composed():
    for name in own_choices.files("suite"):
        suite = definition.load(name)
        assert len({one.digest for one in suite.problems}) == len(suite.problems), name
    assert len(definition.load("classic").problems) >= 20


# --- what is run, kept and ranked ---------------------------------------------------------------------------------


def untimed(found: dict) -> dict:
    """A leaderboard without what is measured in seconds, and without its command."""

    def bare(one: dict) -> dict:
        return {key: value for key, value in one.items() if key not in ("cost", "by_cpu", "command")}

    rules = [
        {**bare(row), "problems": {name: bare(cell) for name, cell in row["problems"].items()}}
        for row in found["rules"]
    ]
    return {**bare(found), "rules": rules}


def test_the_way_of_a_suite(bench, mqlearn, tiny, outputs):
    """One long test: each step looks at what the one before it left."""
    found, first = bench("algorithm=root_sa,speedy_q")
    assert {row["rule"] for row in found["rules"]} == {"q_learning", "root_sa", "speedy_q"}  # the baseline besides
    assert [one["problem"] for one in found["problems"]] == ["two", "noisy"]
    assert "2/2" in first.err and all(len(line) <= 80 for line in first.out.splitlines())
    tuned = {row["rule"]: row for row in found["rules"] if row["setting"] == "tuned"}
    assert tuned["q_learning"]["score"] == 1 == tuned["q_learning"]["high"]

    # what is there is not run again, whatever the order of the rules
    again, second = bench("algorithm=speedy_q,root_sa")
    assert second.err == "" and {**again, "command": 0} == {**found, "command": 0}

    # a cell is a run of its own by its command
    cell = tuned["root_sa"]["problems"]["noisy"]
    overrides = [
        *found["problems"][1]["overrides"],
        *cell["rule"],
        *cell["setting"],
        f"iterations={cell['iterations']}",
    ]
    run = mqlearn("run", *overrides, "n_checkpoints=41", "seed=0", "n_seeds=6", "tracking=none")
    (folder,) = (outputs / "runs").glob("*/*")
    with np.load(folder / "curves.npz") as curves:
        assert run.code == 0 and float(np.float32(curves["q_error"][:, -1]).mean()) == pytest.approx(cell["last"], 1e-6)

    # a damaged file is made again, with the same numbers; others are left
    kept = outputs / "bench" / "tiny"
    before = {path.name: path.stat().st_mtime_ns for path in kept.glob("*.npz")}
    whole = (kept / "two.npz").read_bytes()
    (kept / "two.npz").write_bytes(whole[: len(whole) // 2])
    repaired, third = bench("algorithm=root_sa,speedy_q")
    assert "a damaged file is made again" in third.err and untimed(repaired) == untimed(found)
    assert (kept / "noisy.npz").stat().st_mtime_ns == before["noisy.npz"]

    # one that was refused is tried again
    (one,) = results.read(kept / "two.npz")
    root = {"root_sa": results.Entry.refused(one.entries["root_sa"].digest, "of an older version")}
    results.write(kept / "two.npz", [results.Results(one.facts, {**one.entries, **root})])
    tried, _ = bench("algorithm=root_sa,speedy_q")
    assert untimed(tried) == untimed(found)

    # a rule of the user's is ranked among what is there, and is the only one that is run
    mine, fourth = bench("plugins=[my_rules]", "algorithm=my_rule")
    assert [row["rule"] for row in mine["rules"] if row["own"]] == ["my_rule"] * 2
    assert {row["rule"] for row in mine["rules"]} == {"q_learning", "root_sa", "speedy_q", "my_rule"}
    assert "not ranked" in fourth.err and "my_rule*" in fourth.out
    rescaled = next(row for row in mine["rules"] if row["rule"] == "my_rule" and row["setting"] == "default")
    assert rescaled["problems"]["two"]["last"] == pytest.approx(_rescaled_by_hand(), 1e-6)

    for rule in ("my_rule", "root_sa"):  # each cost is beside that of Q-learning in the same process
        row = next(row for row in mine["rules"] if row["rule"] == rule and row["setting"] == "tuned")
        assert row["over_certainty"]["value"] > 0 and row["by_cpu"] > 0 and 0.3 < row["cost"] < 3
        assert row["problems"]["two"]["over_certainty"] > 0
    assert "over CE" in fourth.out

    # what is printed runs as it is: the user's folder and module are in it, and the suite's
    html = Path("b.html")
    assert mqlearn(*shlex.split(mine["command"])[1:], "--html", html).code == 0
    printed = [unescape(line) for line in re.findall(r"mqlearn run [^<\n]+", html.read_text(encoding="utf-8"))]
    (one,) = (line for line in printed if "my_rule" in line and "env=two_state" in line)
    assert mqlearn(*shlex.split(one)[1:], "tracking=none", "iterations=3").code == 0
    assert shlex.join(["mqlearn", "bench", "tiny", "--config-dir", str(tiny)]) in fourth.err

    # the same from Python
    namespace: dict = {}
    exec(OWN, namespace)
    board = mq.bench(namespace["MyRule"](), "tiny", name="hers", config_dir=str(tiny))
    hers = {row["setting"]: row["score"] for row in board["rules"] if row["rule"] == "hers"}
    her_row = next(row for row in board["rules"] if row["rule"] == "hers")
    assert her_row["cost"] and her_row["over_certainty"]["n_problems"] == 2
    assert "hers on two" in page.build(board) and "my_rule" not in page.build(board)
    assert page.build(board).count("mqlearn run") == 2 * 3  # no command stands for an object
    assert hers == {row["setting"]: row["score"] for row in mine["rules"] if row["rule"] == "my_rule"}

    # committed results of other numerics are refused
    stored = [results.read(path)[0] for path in sorted(kept.glob("*.npz"))]
    stale = [results.Results({**one.facts, "digest": "other"}, one.entries) for one in stored]
    results.write(outputs / "paper" / "bench_tiny.npz", stale)
    for path in kept.glob("*.npz"):
        path.unlink()
    refused = mqlearn("bench", "tiny", "--config-dir", tiny, "plugins=[my_rules]", "algorithm=my_rule", "tracking=none")
    assert refused.code == 2 and "of other numerics" in refused.err

    # those of these numerics are ranked against without a run of the others
    results.write(outputs / "paper" / "bench_tiny.npz", stored)
    fifth, last = bench("plugins=[my_rules]", "algorithm=my_rule")
    assert untimed(fifth) == untimed(mine) and last.err.count("problems to run") == 0


def _rescaled_by_hand() -> float:
    """Q-learning with the rescaled linear step on `two`, by mq.run."""
    result = mq.run(
        mq.two_state(discount=0.95), mq.QLearning(), step_size=mq.RescaledLinear(0.95), reward="sampled",
        iterations=4000 // 3, n_seeds=6, seed=0, n_checkpoints=41,
    )  # fmt: skip
    return float(np.float32(result.curves["q_error"][:, -1]).mean())


def test_rules_that_cannot_run_and_rules_that_take_two_samples(work):
    suite = definition.made("s", KEYS | {"problems": {"two": ["env=two_state", "sampling=markovian"]}})
    problem = suite.problems[0]
    found = trials.entries(problem, rules.entrants(["phased", "speedy_q"]))
    assert "synchronous sampling" in (found["phased"].reasons[1] or "") and found["speedy_q"].reasons == (
        None,
        None,
    )
    assert (problem.iterations(mq.SpeedyQ()), problem.iterations(mq.Residual())) == (100, 50)
    (lake,) = definition.made("s", KEYS | {"problems": {"lake": ["env=frozen_lake_8x8"]}}).problems
    assert "212^2 = 44,944 numbers of state" in (trials.entries(lake, rules.entrants(["zap"]))["zap"].reasons[1] or "")


def test_what_is_refused_again_is_not_run_again(outputs):
    suite = definition.made("s", KEYS | {"problems": {"lake": ["env=frozen_lake_8x8"]}})
    wanted = run_suite.Wanted(tuple(rules.entrants(["q_learning", "zap"])))
    first, ran = run_suite.of_suite(suite, wanted)
    again, none = run_suite.of_suite(suite, wanted)
    assert (ran, none) == (2, 0) and again[0].entries["zap"].reasons == first[0].entries["zap"].reasons
    assert "numbers of state" in (again[0].entries["zap"].reasons[1] or "")


@pytest.mark.parametrize("newer", [False, True])
def test_a_file_of_another_version_is_made_again_or_refused_if_it_is_newer(newer, work, outputs):
    (problem,) = definition.made("s", KEYS).problems
    path = results.place("s", problem)
    results.write(path, [results.Results(facts(problem), {})])
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    meta = json.loads(arrays["meta"].tobytes())
    text = json.dumps(meta | {"format": meta["format"] + (1 if newer else -1)}).encode()
    arrays["meta"] = np.frombuffer(text, np.uint8)
    np.savez_compressed(path, allow_pickle=False, **arrays)
    if newer:
        with pytest.raises(formats.OtherVersion, match="written by a newer mqlearn"):
            results.kept("s", problem)
        return
    found, wrong = results.kept("s", problem)
    assert found is None and wrong is not None and wrong.startswith("a file of an earlier version is made again")
    with pytest.raises(results.EarlierVersion):
        results.read(path)


class WithoutStep(mq.Stateful):
    """Moves by a half, whatever its step size is."""

    def init(self, q0):
        return {"q": q0}

    def step(self, z, s, c):
        s.move(z.q, s.target(z.q), 0.5)


def test_a_rule_that_uses_no_step_size_is_tried_once(work):
    (problem,) = definition.made("s", KEYS).problems
    entrant = rules.Entrant("mine", (), None, "", own=True, made=WithoutStep())
    found = trials.entries(problem, [entrant])["mine"]
    assert found.settings == ((),) and found.tuned == ()
    np.testing.assert_array_equal(found.scores[0], found.scores[1])


def test_a_rule_whose_default_is_refused_runs_tuned(work):
    """Its own step size has no form with the share that its yaml has; the others that are tried have one."""
    (work / "algorithm").mkdir()
    tuning = "algorithm.share: {start: 0.5, most: 0.5}"
    (work / "algorithm" / "picky.yaml").write_text(f"_target_: my_rules.Picky\nshare: 1\ntuning: {{{tuning}}}\n")
    (work / "my_rules.py").write_text(PICKY)
    (problem,) = definition.made("s", KEYS | {"problems": {"two": ["env=two_state"]}}, str(work)).problems
    found = trials.entries(problem, rules.entrants(["picky"], ["my_rules"], str(work)), ["my_rules"])["picky"]
    assert "is none of mine" in (found.reasons[0] or "") and found.reasons[1] is None
    assert found.chosen >= 1 and np.isinf(found.tuning[0]).all() and np.isfinite(found.tuning[1:]).all()
    assert np.isnan(found.scores[0]).all() and np.isfinite(found.scores[1, 0]).all()
    results.write(work / "kept.npz", [results.Results({"problem": "two"}, {"picky": found})])
    (again,) = results.read(work / "kept.npz")
    assert again.entries["picky"].reasons == found.reasons
    assert np.array_equal(again.entries["picky"].scores, found.scores, equal_nan=True)


PICKY = """
from dataclasses import dataclass

import mqlearn as mq


@dataclass(frozen=True)
class Picky(mq.QLearning):
    share: float = 1.0

    def own_step_size(self, discount):
        if self.share == 1:
            raise mq.SettingError("share", self.share, "is none of mine")
        return mq.Constant(self.share)
"""
