"""The user's modules come from their files, and take nobody else's place."""

import queue
import subprocess
import sys
from pathlib import Path

import pytest

from mqlearn.errors import SettingError
from mqlearn.experiments.settings import plugins

SMALL = ("iterations=40", "n_checkpoints=3", "n_seeds=2", "tracking=none")
RULE = "from mqlearn import QLearning\n\n\nclass Mine(QLearning):\n    pass\n"
COMMAND = Path(sys.executable).with_name("mqlearn")


def own(module: str) -> tuple[str, ...]:
    return (f"plugins=[{module}]", f"algorithm._target_={module}.Mine", f"algorithm.name={module}")


@pytest.fixture(autouse=True)
def modules(work):
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if str(work) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.mark.parametrize("name", ["queue", "calendar", "numpy", "yaml"])
def test_a_file_with_the_name_of_another_module_is_the_plugin_for_the_user_alone(name, work, mqlearn):
    (work / f"{name}.py").write_text(RULE)
    done = mqlearn("run", *SMALL, *own(name))
    assert done.code == 0, done.err
    assert name in done.out and str(work) not in str(__import__(name).__file__)
    assert queue.SimpleQueue


def test_files_with_names_of_others_beside_a_plugin_break_nothing(work, outputs):
    for name in ("queue", "calendar", "json", "typing", "numpy", "joblib", "logging", "mlflow"):
        (work / f"{name}.py").write_text("raise RuntimeError('this is not the library')\n")
    (work / "good_rule.py").write_text(RULE)
    for flags in ((), ("-m", "hydra/launcher=joblib", "hydra.launcher.n_jobs=2", "seed=1,2")):
        done = subprocess.run(
            [COMMAND, "run", *flags, *SMALL, *own("good_rule")], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    assert len(list((outputs / "runs" / "default").iterdir())) == 3


def test_modules_beside_each_other_and_in_the_folder_of_configurations_are_found(work, mqlearn):
    (work / "gains_beside.py").write_text("from queue import SimpleQueue\n\nGAIN = 1\n")
    (work / "rule_beside.py").write_text(f"import gains_beside\n{RULE}")
    (work / "queue.py").write_text("raise RuntimeError\n")
    assert mqlearn("run", *SMALL, *own("rule_beside")).code == 0
    (work / "conf" / "algorithm").mkdir(parents=True)
    (work / "conf" / "algorithm" / "far.yaml").write_text("_target_: rule_in_conf.Mine\nname: far\n")
    (work / "conf" / "rule_in_conf.py").write_text(f"from gains_in_conf import GAIN\n{RULE}")
    (work / "conf" / "gains_in_conf.py").write_text("GAIN = 2\n")
    assert mqlearn("run", *SMALL, "--config-dir", "conf", "plugins=[rule_in_conf]", "algorithm=far").code == 0
    refused = mqlearn("run", *SMALL, "plugins=[rule_in_conf]")
    assert refused.code == 2 and "plugins='rule_in_conf'" in refused.err


def test_the_same_name_in_another_folder_is_another_module(work, monkeypatch):
    for folder in ("one", "two"):
        (work / folder).mkdir()
        (work / folder / "rule_of_a_folder.py").write_text(f"PLACE = {folder!r}\n")
        monkeypatch.chdir(work / folder)
        (module,) = plugins.load(["rule_of_a_folder"]).values()
        assert folder == module.PLACE


def test_ours_are_no_modules_of_the_user(work):
    with pytest.raises(SettingError, match="no module of yours"):
        plugins.load(["mqlearn.cli"])
