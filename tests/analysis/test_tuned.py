"""Fair tuning, and the tests of comparisons on what is known."""

import re
import shlex
from typing import Any

import numpy as np
from compared import SMALL

from mqlearn.analysis.comparison import selection

MIXTABLES = """
import mqlearn as mq


class Mixtables(mq.QLearning):
    def __init__(self, m=None, shift=None, lam=None, phi=None):
        super().__init__()
        self.m, self.shift, self.lam, self.phi = m, shift, lam, phi
"""


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
    assert re.search(r"\* +offset=0 +\S+ +\[\S+, \S+\] +4 of 4", done.out)
    monkeypatch.setenv("COLUMNS", "44")
    narrow = compare("experiment.name=tuning", "tuned=true", outputs=outputs)
    assert narrow.rows == done.rows
    assert max(map(len, narrow.out.partition("pairs:")[0].splitlines())) <= 44
    assert "(left out to fit 44 columns: interval;" in narrow.out
    monkeypatch.delenv("COLUMNS")
    done = compare("experiment.name=tuning", "tuned=true", "tuning_seed=5", outputs=outputs)
    assert done.code == 2 and "tuning_seed=5" in done.err


def test_missing_run_reports_and_decides_in_one_command_as_the_printed_ones_do(compare, mqlearn, work, monkeypatch):
    outputs = work / "outputs"
    monkeypatch.setenv("MQLEARN_OUTPUTS", str(outputs))
    (work / "mixtables.py").write_text(MIXTABLES)
    common = ("seed=1000", "n_seeds=4", "iterations=60", "experiment.name=mine", "hydra/launcher=basic", *SMALL)
    own = ("plugins=[mixtables]", "algorithm=momentum_q", "algorithm._target_=mixtables.Mixtables", "~algorithm.beta",
           "algorithm.name=mixtables", "algorithm.m=2")  # fmt: skip
    assert mqlearn("run", "-m", "algorithm=q_learning", "step_size.offset=0,40", *common).code == 0
    assert mqlearn("run", "-m", *own, *common).code == 0
    asked = ("experiment.name=mine", "tuned=true", "plugins=[mixtables]")
    printed = compare(*asked, outputs=outputs)
    assert printed.code == 2 and "missing=run makes them" in printed.err
    done = compare(*asked, "missing=run", "tracking=none", outputs=outputs)
    assert done.code == 0, done.err
    (row,) = done.rows
    assert row["n_finite"] == 20 and row["verdict"] == "no_difference"  # Q-learning under another name
    assert done.out.startswith("[") and "mixtables has one setting only, so every algorithm has one" in done.out
    made = {run.digest for run in selection.find(outputs, ["mine_reporting"]).runs}
    assert made == {row["digest_a"], row["digest_b"]}
    for line in printed.err.splitlines():  # what it printed are the very same cells, which are there now
        if line.strip().startswith("mqlearn run"):
            again = mqlearn(*shlex.split(line)[1:], "tracking=none", "experiment.name=mine_reporting", "existing=error")
            assert again.code == 2 and "finished already" in again.err
    assert compare(*asked, outputs=outputs).rows == done.rows


def test_missing_is_a_setting_of_tuned_alone(compare):
    assert "is a setting of tuned=true alone" in compare("experiment.name=small", "missing=run").err
    assert "must be run or print" in compare("experiment.name=small", "tuned=true", "missing=go").err


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


def test_calibration_reports_the_rate_of_false_answers(compare, monkeypatch):
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
    monkeypatch.setenv("COLUMNS", "60")
    narrow = compare("experiment.name=small", "calibrate=true", "env=frozen_lake_4x4")
    assert max(map(len, narrow.out.splitlines())) <= 60 and narrow.rows == done.rows
    assert "Left out to fit 60 columns: rate, 1.1x, halves;" in narrow.out
    done = compare("experiment.name=three", "calibrate=true")
    assert {row["verdict"] for row in done.rows} == {"impossible"}
    assert "0 by force" in done.out
