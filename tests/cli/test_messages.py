"""Messages that say what is wrong, and nothing else: the setting, the value, what is admissible."""

from types import SimpleNamespace

import pytest

from mqlearn.experiments import forecast, progress

SMALL = ("iterations=20", "n_checkpoints=3", "n_seeds=2", "tracking=none")
PLAN = """# @package _global_
experiment:
  name: planned
hydra:
  launcher:
    n_jobs: 2
  sweeper:
    params:
      seed: 1,2
"""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["experiment.name=a&b"], "cannot be read; & must stand in quotes: \"experiment.name='a&b'\"\n"),
        (["plugins=[é]"], "cannot be read; é must stand in quotes: each text in it\n"),
        (["experiment.name=été"], "cannot be read; é must stand in quotes: \"experiment.name='été'\"\n"),
        (["env.map='???'"], "env.map=\"'???'\": ??? is Hydra's word for a missing value: must be given"),
        (["-m", "seed=1,2", "hydra.launcher.n_jobs=abc"], "hydra.launcher.n_jobs='abc': must be a whole number"),
        (["-m", "seed=1,2", "hydra.launcher.n_jobs=2.5"], "hydra.launcher.n_jobs='2.5': must be a whole number"),
        (["step_size.alpha=1"], "the own step size of QLearning; its settings are offset"),
        (["+algorithm.m=2"], "algorithm.m=2: is no setting of mqlearn.QLearning; it has none"),
        (["algorithm=speedy_q", "+algorithm.m=2"], "is no setting of mqlearn.SpeedyQ; its settings are form"),
        *(
            (
                [f"algorithm={rule}", "step_size=constant", "step_size.alpha=1e308"],
                "numbers()['alpha'] is beyond 1e+100 at k = 0 (step size 1e+308 at k = 0)\n",
            )
            for rule in ("adam", "amsgrad")
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(words, said, mqlearn):
    done = mqlearn("run", *words)
    assert done.code == 2 and said in done.err and ".py" not in done.err


def test_a_name_in_quotes_may_hold_any_letter(mqlearn):
    done = mqlearn("run", "experiment.name='été'", "tracking=none", "preview=true")
    assert done.code == 0 and "experiment: été\n" in done.out


def test_what_any_algorithm_can_be_asked_for_is_shown(mqlearn):
    done = mqlearn("run", "--cfg", "job", "algorithm.averaged=true")
    assert (done.code, done.err) == (0, "") and "  averaged: true\n" in done.out


def test_rerun_names_all_that_can_be_set(mqlearn, outputs):
    mqlearn("run", *SMALL)
    (folder,) = outputs.glob("runs/*/*")
    done = mqlearn("rerun", folder, "seed=3")
    assert "only plugins, tracking and n_workers can be set" in done.err


def test_a_preview_of_a_single_run_is_one_of_that_run(mqlearn, outputs):
    words = ("run", *SMALL, "experiment=coupled", "preview=true")
    done = mqlearn(*words)
    assert done.out.startswith("1 cells, 0 done, 1 to run\nlauncher basic, 1 at a time; existing=rerun\n")
    assert "the 4 cells of this experiment are run by mqlearn run -m" in done.err and not outputs.exists()
    mqlearn(*words[:-1])
    assert mqlearn(*words, "existing=skip").out.startswith("1 cells, 1 done, 0 to run\n")


def test_a_plan_with_settings_of_a_launcher_is_swept_whole(mqlearn, work):
    (work / "mine" / "experiment").mkdir(parents=True)
    (work / "mine" / "experiment" / "plan.yaml").write_text(PLAN)
    own = ("--config-dir", "mine", *SMALL, "experiment=plan")
    assert mqlearn("run", "-m", *own, "preview=true").out.startswith("2 cells, 0 done, 2 to run\nlauncher joblib")
    for number in (1, 0):  # as on the command line
        (work / "mine" / "experiment" / "plan.yaml").write_text(PLAN.replace("n_jobs: 2", f"n_jobs: {number}"))
        done = mqlearn("run", "-m", *own, *["preview=true"] * number)
        told = "launcher joblib, 1 at a time;" if number else "mqlearn: hydra.launcher.n_jobs=0: must be a number"
        assert done.code == 2 * (1 - number) and told in (done.out if number else done.err)
    single = mqlearn("run", *own)
    assert single.code == 0 and "hydra.sweeper.params of a yaml are swept by mqlearn run -m\n" in single.err
    assert mqlearn("run", *own, "--cfg", "job").code == 0
    (work / "mine" / "experiment" / "plan.yaml").write_text(PLAN.replace("n_jobs", "jobs"))
    refused = mqlearn("run", "-m", *own)
    assert refused.code == 2 and "experiment='plan': its yaml sets hydra.launcher.jobs: Key 'jobs'" in refused.err


@pytest.mark.parametrize("setting", ["hydra.launcher.n_jobs", "hydra.sweeper.n_jobs"])
def test_tuning_takes_a_number_of_trials_at_once(setting, mqlearn, monkeypatch, work):
    from mqlearn.experiments.sweep import command, tuning

    given = []
    monkeypatch.setattr(command, "_installed", lambda module: True)
    monkeypatch.setattr(tuning, "hydra_main", lambda arguments: given.append(arguments))
    monkeypatch.setattr(tuning, "_result", lambda path: ({"step_size.offset": 3}, 0.5))
    done = mqlearn("run", "-m", "experiment=tuning", "tracking=none", f"{setting}=2")
    assert done.code == 0 and len(given) == 3 and "n_jobs" not in done.out
    for arguments in given:
        words = ["hydra.sweeper.n_jobs=2", "hydra/launcher=joblib", "n_workers=1", "hydra.launcher.n_jobs=2"]
        assert [text for text in arguments if "jobs" in text or "launcher" in text or "workers" in text] == words
    preview = mqlearn("run", "-m", "experiment=tuning", f"{setting}=2", "preview=true")
    assert preview.out.startswith("60 trials, 20 of each of 3 algorithms, 2 at a time: 5 seeds and 5000 iterations\n")
    assert "  momentum_q: algorithm.m in interval(2, 100), step_size.offset in range(0, 50)\n" in preview.out
    assert f"{setting}='x': must be a whole number" in mqlearn("run", "-m", "experiment=tuning", f"{setting}=x").err
    both = ("hydra.launcher.n_jobs=2", "hydra.sweeper.n_jobs=3")
    assert "must be 2, as hydra.launcher.n_jobs is" in mqlearn("run", "-m", "experiment=tuning", *both).err
    monkeypatch.setattr(command, "_installed", lambda module: False)
    lacking = mqlearn("run", "-m", "experiment=tuning", "preview=true")
    assert (lacking.code, lacking.out) == (2, "") and "needs the extra optuna" in lacking.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["tracking.per_seed=true"], "tracking.per_seed=True has no effect: tracking=none"),
        (["evaluation.draws=fixed"], "evaluation.draws=fixed has no effect: no episodes are played"),
        (["evaluation.time_limit=3"], "evaluation.time_limit=3 is below the shortest path from the start, 6 moves"),
    ],
)
def test_a_setting_without_effect_is_said(words, said, mqlearn):
    assert f"warning: {said}\n" in mqlearn("run", *SMALL, *words).err
    assert "warning" not in mqlearn("run", *SMALL, "evaluation.episodes=5", "evaluation.draws=fixed").err


def test_an_id_of_an_own_namespace_asks_for_its_module(mqlearn):
    assert "is named by plugins=[my_module]" in mqlearn("truth", "env=gymnasium", "env.id=Mine/Lake-v0").err


def test_a_sweep_is_counted_before_it_is_expanded(mqlearn):
    done = mqlearn("run", "-m", "algorithm=momentum_q", "algorithm.m=range(0,1e9)", "seed=1,2")
    assert done.code == 2 and done.err.startswith("mqlearn: algorithm.m='range(0,1e9)': makes 2,000,000,000 cells")
    assert mqlearn("run", "-m", "q0=range(0,1,0.25)", "seed=range(3,0,-1)", "preview=true").out.startswith("12 cells")


def test_what_takes_long_is_foretold(mqlearn, monkeypatch):
    assert "memory" not in mqlearn("theory", "env=two_state").err
    monkeypatch.setattr(forecast, "_WORTH", 0.0)
    assert mqlearn("theory", "env=two_state").err.startswith("covariances of 2 states, 3 pairs: about ")
    assert mqlearn("truth", "env=two_state").err.startswith("exact values of 2 states, 3 pairs: about 1 s on one core")
    one = mqlearn("run", *SMALL, "env=garnet", "env.n_states=1500", "preview=true")
    assert one.err.startswith("exact values of 1,500 states, 4,500 pairs: about 1 s on one core")
    swept = ("run", "-m", *SMALL, "seed=range(3)", "preview=true")
    assert mqlearn(*swept).err == ""
    monkeypatch.setattr(progress, "_QUIET", 0.0)
    monkeypatch.setattr(progress, "_WORTH", 0.0)
    assert mqlearn(*swept).err.startswith("planned 1 of 3 cells, ")


def test_the_time_of_planning_is_that_of_the_cells_planned_so_far(capsys, monkeypatch):
    """Twenty cells of 1 s each: said after 2 s, as more than 10 s are left, and again when it is time."""
    clock = iter(range(100))
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    count = progress.Counting("planned", 20, "cells")
    for _ in range(20):
        count(1)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "planned 2 of 20 cells, 18 s left"
    assert lines[1:] == [f"planned {2 + round(progress._PLAIN)} of 20 cells, {18 - round(progress._PLAIN)} s left"]


def test_a_command_that_is_ended_by_the_system_before_its_run_is_interrupted(process):
    """A stop of a machine or of a scheduler may come while settings are read, or modules imported."""
    ending = "import os, signal, mqlearn.cli.arguments as arguments\n"
    ending += "arguments.parse = lambda *_, **__: os.kill(os.getpid(), signal.SIGTERM)"
    started = process("problems", before=ending)
    out, err = started.communicate(timeout=100)
    assert (started.returncode, out, err) == (130, "", "mqlearn: interrupted; finished runs are kept\n")
