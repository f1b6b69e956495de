"""What Hydra's manual teaches works on the command line, or is answered in one line with what to write instead."""

import logging
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

SMALL = ("iterations=20", "n_checkpoints=3", "n_seeds=2", "tracking=none")
PREVIEW = ("run", "-m", "preview=true", *SMALL)
MULTIRUN = """# @package _global_
experiment: {name: swept}
hydra:
  sweeper:
    params:
      seed: 1,2,3
      discount: choice(0.5,0.6)
"""
FIGURE = """# @package _global_
experiment: {name: drawn}
figure:
  module: mqlearn.analysis.figures.error_curves
  metric: q_error
  curves: {Q-learning: [algorithm=q_learning]}
"""


@pytest.fixture(autouse=True)
def quiet():
    """hydra.verbose stays in a process."""
    yield
    for name in (None, "hydra", "hydra.core.hydra_config", "hydra.core.utils"):
        logging.getLogger(name).setLevel(logging.WARNING if name is None else logging.NOTSET)


@pytest.fixture
def conf(work) -> str:
    for group in ("experiment", "algorithm"):
        (work / "mine" / group).mkdir(parents=True)
    (work / "mine" / "experiment" / "swept.yaml").write_text(MULTIRUN)
    (work / "mine" / "algorithm" / "own.yaml").write_text("_target_: mqlearn.QLearning\nname: own\n")
    return "mine"


@pytest.mark.parametrize(
    ("overrides", "cells"),
    [
        (["experiment=coupled", "hydra.launcher.n_jobs=1"], 4),
        (["experiment=coupled", "hydra.launcher.verbose=10", "hydra.launcher.batch_size=1"], 4),
        (["+experiment=coupled"], 4),
        (["experiment=coupled,figure1"], 26),
        (["seed=choice(1,2)"], 2),
        (["seed=range(1,5)", "algorithm=q_learning,speedy_q"], 8),
        (["algorithm=glob([q*,sp*])"], 3),
        (["seed=shuffle(range(1,5))"], 4),
        (["seed=sort(3,1,2)", "discount=tag(a,choice(0.5,0.6))"], 6),
        (["env.rewards=[1,0,0],[2,0,0]"], 2),
        (["~env.rewards", "n_checkpoints=int('3')"], 1),
        (["step_size=matched", "step_size@step_size.base=constant,harmonic"], 2),
        (["hydra.verbose=true", "hydra.job.name=x", "hydra.job.chdir=true"], 1),
    ],
)
def test_overrides_of_the_manual_make_a_sweep(overrides, cells, mqlearn):
    done = mqlearn(*PREVIEW, *overrides)
    assert done.code == 0, done.err
    assert done.out.startswith(f"{cells} cells,")


@pytest.mark.parametrize(
    "overrides",
    [["hydra.verbose=[hydra]"], ["hydra.job.chdir=true"], ["hydra/job_logging=stdout"], ["+experiment=coupled"]],
)
def test_a_single_run_takes_what_is_hydras(overrides, mqlearn):
    assert mqlearn("run", *SMALL, *overrides).code == 0


def test_params_of_the_sweeper_in_a_yaml_are_swept_over(conf, mqlearn):
    assert mqlearn(*PREVIEW, "--config-dir", conf, "experiment=swept").out.startswith("6 cells,")
    done = mqlearn("run", "-m", *SMALL, "--config-dir", conf, "experiment=swept", "seed=7", "hydra/launcher=basic")
    assert done.code == 0 and "2 cells, 2 done" in done.out


def test_the_mode_is_the_flag(mqlearn):
    done = mqlearn("run", "hydra.mode=MULTIRUN", "seed=1,2", *SMALL, "hydra/launcher=basic")
    assert done.code == 0 and "2 cells, 2 done" in done.out


def test_the_mode_of_a_yaml_is_answered(conf, mqlearn):
    Path(conf, "experiment", "several.yaml").write_text("# @package _global_\nhydra:\n  mode: MULTIRUN\n")
    done = mqlearn("run", *SMALL, "--config-dir", conf, "experiment=several")
    assert (done.code, done.err) == (
        2,
        "mqlearn: hydra.mode='MULTIRUN': in a yaml makes no sweep here: write mqlearn run -m\n",
    )
    assert mqlearn("run", "-m", *SMALL, "--config-dir", conf, "experiment=several", "preview=true").code == 0


def test_a_search_path_adds_choices(conf, work, mqlearn):
    assert mqlearn("run", *SMALL, f"hydra.searchpath=[file://{work / conf}]", "algorithm=own").code == 0


@pytest.mark.parametrize("flags", [["--cfg", "job"], ["--cfg", "job", "-p", "env"], ["--cfg=all", "--resolve"],
                                   ["--info"], ["--info", "searchpath"], ["--hydra-help"]])  # fmt: skip
def test_what_hydra_shows_is_shown(flags, mqlearn):
    done = mqlearn("run", *flags)
    assert done.code == 0 and done.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-m", "experiment=coupled", "hydra.launcher.jobs=1"], "hydra.launcher.jobs='1'"),
        (["-m", "hydra/launcher=basic", "hydra.launcher.n_jobs=2"], "hydra.launcher.n_jobs='2'"),
        (["-m", "seed=interval(1,5)"], "seed='interval(1,5)': is for a search by Optuna"),
        (["-m", "algorithm=glob(x*)"], "algorithm='glob(x*)': stands for no value"),
        (["-m", "seed=range(5,5)"], "seed='range(5,5)': stands for no value"),
        (["-m", "hydra.mode=RUN"], "hydra.mode='RUN': does not go with -m"),
        (["hydra.mode=BOTH"], "hydra.mode='BOTH': must be RUN or MULTIRUN"),
        (["+env=frozen_lake_8x8"], "without a +"),
        (["~env=frozen_lake_8x8"], "env='frozen_lake_8x8': cannot be left out"),
        (["~discount=0.5"], "discount='0.5': cannot be left out"),
        (["discount=${mqlearn_folder:}"], "discount='${mqlearn_folder:}': refers to itself"),
        (["+hydra.callbacks.a._target_=os.system"], "hydra.callbacks.a._target_='os.system'"),
        (["hydra.searchpath=[file:///nowhere]"], "hydra.searchpath='/nowhere': is no folder"),
        (["hydra.searchpath=nowhere"], "hydra.searchpath='nowhere': must be a list"),
        (["--cfg"], "--cfg='': must be job, hydra or all"),
        (["--cfg", "settings"], "--cfg='settings': must be job, hydra or all"),
        (["--info", "settings"], "--info='settings': must be all"),
        (["--resolve"], "goes with --cfg job"),
        (["-cn", "other"], "--config-dir DIR adds"),
        (["-cp", "other"], "--config-dir DIR adds"),
        (["--config-name=other"], "--config-dir DIR adds"),
        (["--experimental-rerun", "x"], "mqlearn rerun FOLDER"),
        (["env.size=4"], "env.size is a setting of env=frozen_lake_random"),
        (["env=gymnasium", "env.id=MyOwn-v0"], "plugins=[my_module]"),
        ([f"experiment.name={'x' * 300}"], "at most 250 characters"),
    ],
)
def test_what_does_not_go_is_answered_in_one_line(arguments, said, mqlearn, outputs):
    flags = [one for one in arguments if one.startswith("-")]
    rest = [one for one in arguments if not one.startswith("-")]
    done = mqlearn("run", *flags, *rest, *(SMALL if "=" in "".join(rest) or "-m" in flags else ()))
    assert done.code == 2 and said in done.err
    assert done.err.count("\n") == 1 and not outputs.exists()


def test_a_name_of_mlflows_is_said_not_to_be_used(mqlearn, monkeypatch):
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "theirs")
    assert "MLFLOW_EXPERIMENT_NAME is not used; write experiment.name='theirs'" in mqlearn("run", *SMALL).err
    assert "MLFLOW" not in mqlearn("run", *SMALL, "experiment.name=mine").err
    monkeypatch.setenv("MLFLOW_RUN_NAME", "mine")
    monkeypatch.setenv("MLFLOW_TAGS", '{"by": "me"}')
    warned = mqlearn("run", *SMALL, "experiment.name=mine").err
    assert warned.startswith("warning: MLFLOW_RUN_NAME, MLFLOW_TAGS not used: ") and warned.count("\n") == 1


def test_a_port_in_use_is_a_sentence(stored, mqlearn):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = mqlearn("ui", f"port={port}")
    assert done.code == 2 and f"port={port}: another program on this machine uses it" in done.err
    assert "Errno" not in done.err


def test_figures_are_drawn_whatever_back_end_the_environment_names(conf, outputs):
    command = Path(sys.executable).with_name("mqlearn")
    Path(conf, "experiment", "drawn.yaml").write_text(FIGURE)
    done = subprocess.run(
        [command, "figure", "drawn", "--config-dir", conf, *SMALL],
        capture_output=True, text=True, check=False, env=os.environ | {"MPLBACKEND": "module://of_a_notebook"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert list((outputs / "figures").glob("*.png"))
