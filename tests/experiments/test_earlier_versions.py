"""Names of before: what a yaml, a record or a script holds of them still leads to the present objects."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from mqlearn.errors import SettingError
from mqlearn.experiments.settings import instantiate
from mqlearn.experiments.settings.earlier_versions import PRESENT, present
from mqlearn.storage import runs

SMALL = ("iterations=20", "n_seeds=2", "n_checkpoints=3", "tracking=none")


@pytest.mark.parametrize("old", sorted(old for old in PRESENT if old.rpartition(".")[2].islower()))
def test_a_module_of_before_is_the_present_one(old):
    assert old != PRESENT[old]
    assert importlib.import_module(old) is importlib.import_module(PRESENT[old])
    spec = importlib.import_module(PRESENT[old]).__spec__
    assert spec is not None and spec.name == PRESENT[old]


@pytest.mark.parametrize("old", sorted(old for old in PRESENT if not old.rpartition(".")[2].islower()))
def test_an_object_that_left_its_module_is_found_there_and_where_it_is(old):
    module, _, name = PRESENT[old].rpartition(".")
    now = getattr(importlib.import_module(module), name)
    assert now.__module__ == module and getattr(importlib.import_module(old.rpartition(".")[0]), name) is now
    assert present(old) == PRESENT[old]


def test_a_present_name_is_its_own_and_the_longest_old_one_counts():
    assert present("mqlearn.QLearning") == "mqlearn.QLearning"
    assert present("mqlearn.problems.features.aggregation") == "mqlearn.problems.features.aggregation"
    assert present("mqlearn.features.aggregation") == "mqlearn.problems.features.aggregation"
    assert present("mqlearn.environments.gymnasium.by_id") == "mqlearn.problems.environments.gymnasium.by_id"
    assert present("mqlearn.featuresque") == "mqlearn.featuresque"


def test_no_module_of_a_package_of_before_is_loaded_twice():
    code = (
        "import mqlearn.environments.gymnasium as old, mqlearn.figures.style as style\n"
        "import mqlearn.problems.environments.gymnasium as new\n"
        "from mqlearn.statistics import mean_interval\n"
        "from mqlearn.analysis.statistics import intervals\n"
        "assert old is new and mean_interval is intervals.mean_interval\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_a_module_that_there_never_was_is_not_found():
    with pytest.raises(ModuleNotFoundError, match="No module named 'mqlearn\\.nothing'"):
        importlib.import_module("mqlearn.nothing")


def test_no_function_of_ours_is_a_metric_by_its_name_of_before_either():
    for path in ("mqlearn.mdp.bellman", "mqlearn.problems.mdp.bellman"):
        with pytest.raises(SettingError, match=r"mqlearn\.v_error_l2 or lie in a module listed in plugins"):
            instantiate.metrics({"mine": path}, {})


def test_settings_of_a_users_folder_may_have_names_of_before(mqlearn, work: Path, outputs: Path):
    (work / "my" / "features").mkdir(parents=True)
    (work / "my" / "features" / "mine.yaml").write_text("name: mine\n_target_: mqlearn.features.aggregation\ntile: 2\n")
    (work / "my" / "experiment").mkdir()
    (work / "my" / "experiment" / "drawn.yaml").write_text(
        "# @package _global_\nexperiment:\n  name: drawn\nfigure:\n  module: mqlearn.figures.error_curves\n"
        "  metric: q_error\n  curves:\n    Q-learning: [algorithm=q_learning]\n"
    )
    done = mqlearn("run", *SMALL, "--config-dir", "my", "features=mine", "sampling=markovian")
    assert done.code == 0, done.err
    (summary,) = outputs.rglob("summary.json")
    assert runs.load(summary.parent).settings["features"]["tile"] == 2
    done = mqlearn("figure", "drawn", "--config-dir", "my", *SMALL)
    assert done.code == 0, done.err
    assert list((outputs / "figures").glob("drawn*.svg"))
