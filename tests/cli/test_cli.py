"""The command line: what is refused, in which words, and what is accepted in every spelling."""

import importlib
import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from hydra._internal.config_loader_impl import ConfigLoaderImpl

from mqlearn.cli.verbs import VERBS
from mqlearn.experiments.settings import cell
from mqlearn.storage import runs

LAKE = "env=frozen_lake"
SMALL = ("iterations=20", "n_seeds=2", "n_checkpoints=3", "tracking=none")

# Arguments of `mqlearn run`, the setting that the message names, and words that it must hold.
REFUSED = [
    # values
    (["discount=1"], "discount=1", "strictly between 0 and 1"),
    (["discount=0"], "discount=0", "strictly between 0 and 1"),
    (["discount=-1"], "discount=-1", "strictly between 0 and 1"),
    (["discount=nan"], "discount=nan", "strictly between 0 and 1"),
    (["discount=text"], "discount='text'", "strictly between 0 and 1"),
    (["discount=true"], "discount=True", "strictly between 0 and 1"),
    (["discount=null"], "discount=None", "strictly between 0 and 1"),
    (["discount="], "discount=''", "strictly between 0 and 1"),
    (["discount=[0.5]"], "discount=[0.5]", "strictly between 0 and 1"),
    (["iterations=-5"], "iterations=-5", "whole number, from 0"),
    (["iterations=2.5"], "iterations=2.5", "whole number, from 0"),
    (["iterations=inf"], "iterations=inf", "whole number, from 0"),
    (["iterations=1e18"], "iterations=1e+18", "from 0 to 1e+15"),
    (["n_seeds=0"], "n_seeds=0", "whole number, from 1"),
    (["n_checkpoints=0"], "n_checkpoints=0", "whole number, from 1"),
    (["n_workers=0"], "n_workers=0", "whole number, at least 1"),
    (["seed=-1"], "seed=-1", "from 0 to 4294967295"),
    (["q0=[1,0]"], "q0=[1, 0]", "[low, high]"),
    (["q0=nan"], "q0=nan", "must be a number"),
    (["reward=sampeld"], "reward='sampeld'", "did you mean 'sampled'?"),
    (["checkpoints=lin"], "checkpoints='lin'", "did you mean 'linear'?"),
    (["algorithm=nesa", "algorithm.zeta=-1"], "algorithm.zeta=-1", "positive"),
    (["algorithm=nesa", "algorithm.zeta=true"], "algorithm.zeta=True", "must be a positive number"),
    (["algorithm=momentum_q", "algorithm.m=nan"], "algorithm.m=nan", "finite number"),
    (["algorithm=momentum_q", "algorithm.m=two"], "algorithm.m='two'", "must be a finite number, or null"),
    (["algorithm=momentum_q", "algorithm.shift=maybe"], "algorithm.shift='maybe'", "auto, on or off"),
    (["algorithm=speedy_q", "algorithm.form=azra"], "algorithm.form='azra'", "azar or printed"),
    (["step_size=constant", "step_size.alpha=0"], "step_size.alpha=0", "must be a number in"),
    (["step_size.offset=x"], "step_size.offset='x'", "must be a number"),
    (["experiment.name="], "experiment.name=''", "not be blank"),
    (["experiment.name=Default", "tracking=mlflow"], "experiment.name='Default'", "another name"),
    (["tracking=mlflow", "tracking.per_seed=maybe"], "tracking.per_seed='maybe'", "true or false"),
    (["tracking=mlflow", "tracking.uri=./mlruns"], "tracking.uri='./mlruns'", "sqlite:///"),
    (["tracking=mlflow", "tracking.uri=file:///elsewhere/x"], "tracking.uri='file:///elsewhere/x'", "sqlite:///"),
    (["tracking=mlflow", "tracking.uri=sqlit:///x.db"], "tracking.uri='sqlit:///x.db'", "did you mean 'sqlite'?"),
    # groups and names
    (["algorithm=momentum"], "algorithm='momentum'", "did you mean 'momentum_q'?"),
    (["algorithm=5"], "algorithm=5", "must be one of"),
    (["algorithm=null"], "algorithm=None", "must be one of"),
    (["~algorithm"], "algorithm=None", "must be chosen"),
    (["~seed"], "seed=None", "whole number"),
    (["algoritm=q_learning"], "algoritm='q_learning'", "did you mean 'algorithm'?"),
    (["env=frozen_lake_9x9"], "env='frozen_lake_9x9'", "did you mean 'frozen_lake_"),
    (["tracking=mlfow"], "tracking='mlfow'", "did you mean 'mlflow'?"),
    (["experiment=figur1"], "experiment='figur1'", "did you mean 'figure1'?"),
    (["hydra/launcher=jobli"], "hydra/launcher='jobli'", "did you mean 'joblib'?"),
    (["discuont=0.8"], "discuont='0.8'", "did you mean 'discount'?"),
    (["algorithm.zeat=1", "algorithm=nesa"], "algorithm.zeat='1'", "did you mean 'algorithm.zeta'?"),
    (["algorithm.m=5"], "algorithm.m='5'", "is a setting of algorithm=momentum_q"),
    (["zeta=5"], "zeta='5'", "algorithm.zeta is a setting of algorithm=nesa"),
    (["env.mapp=4x4"], "env.mapp='4x4'", "did you mean 'env.map'?"),
    (["tracking.ur=x"], "tracking.ur='x'", "did you mean 'tracking.uri'?"),
    (["hydra.run.dri=x"], "hydra.run.dri='x'", "did you mean 'hydra.run.dir'?"),
    (["+extra=1"], "extra=1", "no such setting"),
    (["++discuont=0.8"], "discuont=0.8", "did you mean 'discount'?"),
    (["+env.extra=1"], "env.extra=1", "is no setting of"),
    (["+env.discount=0.5"], "env.discount=0.5", "is no setting of"),
    (["+tracking.extra=1"], "tracking.extra=1", "no such setting"),
    (["+experiment.nam=x"], "experiment.nam='x'", "did you mean 'name'?"),
    (["experiment.nam=x"], "experiment.nam='x'", "did you mean 'experiment.name'?"),
    (["linear.projecton=1"], "linear.projecton='1'", "did you mean 'linear.projection'?"),
    (["linear=stored"], "linear='stored'", "set linear.previous_gradient"),
    (["env=[1,2]"], "env=[1, 2]", "must be one of"),
    (["algorithm=[nesa]"], "algorithm=['nesa']", "must be one of"),
    (["+foo/bar=baz"], "foo/bar='baz'", "no such setting"),
    (["+seed=3"], "seed='3'", "leave out the +"),
    # spelling
    ([LAKE, "env.map=[SFFF,FHFH"], "env.map='[SFFF,FHFH'", "'env.map=[SFFF,FHFH,FFFH,HFFG]'"),
    ([LAKE, "env.map=SFFF,FHFH"], "env.map='SFFF,FHFH'", "env.map=[...]"),
    (["algorithm=momentum_q", "algorithm.m=2,5,10"], "algorithm.m='2,5,10'", "-m"),
    (["seed=range(3)"], "seed='range(3)'", "-m"),
    (["experiment.name=two", "words"], "override='words'", "\"experiment.name='two words'\""),
    (["=3"], "override='=3'", "no name"),
    (["a b=3"], "a b='3'", "cannot be read"),
    (["q0=${nothing}"], "q0='${nothing}'", "refers to a setting that does not exist"),
    # maps
    ([LAKE], "env.map='???'", "must be given. Your own map, any rectangle: 'env.map=[SFFF,FHFH,FFFH,HFFG]'"),
    ([LAKE, "env.map=[FFF,FHF,FFG]"], "env.map='FFF / FHF / FFG'", "no start tile"),
    ([LAKE, "env.map=[SFF,FHF,FFF]"], "env.map='SFF / FHF / FFF'", "no goal tile"),
    ([LAKE, "env.map=[SFFF,FH,FFFG]"], "env.map='SFFF / FH / FFFG'", "row 2 (FH) has 2 tiles but row 1 (SFFF) has 4"),
    ([LAKE, "env.map=[SHG]"], "env.map='SHG'", "no goal tile G can be reached"),
    ([LAKE, "env.map=[SFX,FFG]"], "env.map='SFX / FFG'", "'X'"),
    ([LAKE, "env.map=[]"], "env.map=''", "at least one row"),
    ([LAKE, "env.map=SFFFFHFHFFFHHFFG"], "env.map='SFFFFHFHFFFHHFFG'", "a list of rows"),
    ([LAKE, "env.map=none.txt"], "env.map='none.txt'", "cannot be read"),
    (["env.success_rate=1.5"], "env.success_rate=1.5", "from 0 to 1"),
    (["env.success_rate=x"], "env.success_rate='x'", "from 0 to 1"),
    (["env.slippery=5"], "env.slippery=5", "true or false"),
    (["env.rewards=[1,0]"], "env.rewards=[1, 0]", "three"),
    (["env=frozen_lake_random", "env.frozen=2"], "env.frozen=2", "from 0 to 1"),
    (["env=frozen_lake_random", "env.size=1"], "env.size=1", "from 2"),
    (["env=frozen_lake_random", "env.size=9", "env.frozen=0"], "env.frozen=0", "more ice"),
    # settings that do not suit each other
    (["features=one_hot"], "sampling='synchronous'", "works with tables only"),
    (["-m", "features=tabular,one_hot"], "sampling='synchronous'", "works with tables only"),
    (["env=gymnasium", "env.id=CartPole-v1", "features=rbf"], "sampling='synchronous'", "needs an exact model"),
    (["step_size=matched", "step_size.base=harmonc"], "step_size='harmonc'", "did you mean 'harmonic'?"),
    (["step_size=matched", "step_size.base=0.1"], "step_size.base=0.1", "must be a step size, such as constant"),
    (["step_size.base=constant"], "step_size.base='constant'", "is no setting of step_size=own"),
    # Gymnasium
    (["env=gymnasium"], "env.id='???'", "must be given. Any Gymnasium environment"),
    (["env=gymnasium", "env.id=FrozenLake-v0"], "env.id='FrozenLake-v0'", "FrozenLake-v1"),
    (["env=gymnasium", "env.id=Taxi-v3"], "env.id='Taxi-v3'", "Taxi-v4"),
    (["env=gymnasium", "env.id=FrozenLak-v1"], "env.id='FrozenLak-v1'", "did you mean 'FrozenLake-v1'?"),
    (["env=gymnasium", "env.id=Blackjack-v1"], "features='tabular'", "env.estimate=STEPS"),
    (["env=gymnasium", "env.id=CartPole-v1"], "features='tabular'", "exact model"),
    (["env=gymnasium", "env.id=Pendulum-v1"], "env.id='Pendulum-v1'", "its action space is a Box; it has no exact"),
    (["env=gymnasium", "env.id=Taxi-v4", "env.kwargs={rain: 1}"], "env.kwargs.rain=1", "is no setting of Taxi-v4"),
    # code
    (["plugins=[no_such_module]"], "plugins='no_such_module'", "it is looked for in"),
    (["plugins=no_such_module"], "plugins='no_such_module'", "plugins=[my_module]"),
    (["algorithm._target_=os.system"], "algorithm._target_='os.system'", "listed in plugins"),
    (["env._target_=subprocess.run"], "env._target_='subprocess.run'", "listed in plugins"),
    (
        ["algorithm._target_=mqlearn.QLerning"],
        "algorithm._target_='mqlearn.QLerning'",
        "did you mean 'mqlearn.QLearning'?",
    ),
    (["algorithm._target_=mqlearn.Constant"], "algorithm._target_='mqlearn.Constant'", "mqlearn.QLearning, "),
    (["metrics={e: os.getcwd}"], "metrics.e='os.getcwd'", "listed in plugins"),
    # flags
    (["--foo"], "flag='--foo'", "must be one of"),
    (["--multrun"], "flag='--multrun'", "did you mean '--multirun'?"),
    (["--config-dir", "nowhere"], "--config-dir='nowhere'", "is not a folder"),
    (["--config-dir"], "--config-dir=''", "is not a folder"),
    (["--cfg", "job", "discuont=1"], "discuont='1'", "did you mean 'discount'?"),
    # folders
    (["hydra.run.dir=.."], "hydra.run.dir=", "holds files that are not a run"),
    (["hydra.run.dir=file"], "hydra.run.dir=", "is a file"),
    (["hydra.run.dir=/proc/no/folder"], "hydra.run.dir='/proc/no/folder'", "no folder can be made there"),
    (["hydra.run.dir=file/run"], "hydra.run.dir=", "is not a folder"),
    (["-m", "seed=1,1,2"], "seed='1,1,2'", "jobs 1 and 2 are the same cell"),
    (["-m", "discount=0.9,1"], "discount=1", "strictly between 0 and 1"),
]


@pytest.mark.parametrize(("arguments", "named", "words"), REFUSED, ids=[" ".join(case[0]) for case in REFUSED])
def test_run_refuses_with_one_message(mqlearn, work, arguments, named, words):
    (work / "file").write_text("not a folder")
    done = mqlearn("run", "tracking=none", *arguments)
    assert done.code == 2
    assert done.err.startswith(f"mqlearn: {named}"), done.err
    assert words in done.err
    assert len(done.err.splitlines()) == 1
    assert not done.out
    assert sorted(path.name for path in work.parent.rglob("*")) == ["file", "work"]  # nothing was created


@pytest.mark.parametrize(
    ("arguments", "named", "words"),
    [
        (["rnu"], "verb='rnu'", "did you mean 'run'?"),
        (["truth", "--jsn"], "flag='--jsn'", "did you mean '--json'?"),
        (["truth", "discount=1"], "discount=1", "strictly between"),
        (["truth", "env=frozen_lake", "env.map=[SHG]"], "env.map='SHG'", "can be reached"),
        (["truth", "env.size=4"], "env.size='4'", "is no setting of env=frozen_lake_4x4"),
        (["truth", "env=gymnasium", "env.id=CartPole-v1"], "env='CartPole-v1'", "no exact model"),
        (["truth", "env=gymnasium", "env.id=Acrobot-v1", "--json"], "env='Acrobot-v1'", "no exact model"),
        (["truth", "env=gymnasium", "env.id=Pendulum-v1"], "env.id='Pendulum-v1'", "no exact model"),
        (["truth", "env=gymnasium", "env.id=Blackjack-v1"], "env='Blackjack-v1'", "env.estimate=STEPS makes one"),
        (["figure"], "figure=''", "for example figure1"),
        (["figure", "figur1"], "experiment='figur1'", "did you mean 'figure1'?"),
        (["figure", "coupled", "iterations=10"], "iterations='10'", "has no effect here"),
        (["figure", "figure1", "algorithm=nesa"], "algorithm='nesa'", "has no effect here"),
        (["figure", "figure1", "band=ci59"], "band='ci59'", "ci95 or std"),
        (["figure", "figure1", "--chek"], "flag='--chek'", "did you mean '--check'?"),
        (["figure", "figure1", "discuont=0.9"], "discuont='0.9'", "did you mean 'discount'?"),
        (["rerun"], "rerun=''", "run folder"),
        (["rerun", ".", "seed=3"], "seed='3'", "no effect"),
        (["rerun", "."], "folder=", "not a complete run folder"),
        (["rerun", "nothing"], "run='nothing'", "no run folder, and there is no store"),
        (["upload"], "upload=''", "run folder"),
        (["upload", "nowhere"], "folder=", "no such folder"),
        (["upload", ".", "seed=3"], "seed='3'", "no effect"),
        (["ui", "port=0"], "port='0'", "from 1 to 65535"),
        (["ui", "foo=1"], "foo='1'", "no effect"),
        (["ui"], "tracking.uri=", "no store there yet"),
        (["-sc", "instal=bash"], "-sc='instal=bash'", "install=bash"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_verbs_refuse_with_one_message(mqlearn, work, arguments, named, words):
    done = mqlearn(*arguments)
    assert done.code == 2
    assert done.err.startswith(f"mqlearn: {named}"), done.err
    assert words in done.err
    assert len(done.err.splitlines()) == 1
    assert not done.out
    assert [path.name for path in work.parent.rglob("*")] == ["work"]


def test_all_errors_are_reported_at_once(mqlearn, outputs):
    done = mqlearn("run", "discuont=0.8", "discount=7", "iterations=-1", "seed=x", "algorithm=nesa",
                   "algorithm.zeta=-1", "env=frozen_lake_9", "words")  # fmt: skip
    assert done.code == 2
    named = [line.removeprefix("mqlearn: ").partition("=")[0] for line in done.err.splitlines()]
    assert named == ["discuont", "override", "env", "discount", "iterations", "seed", "algorithm.zeta"]
    done = mqlearn("run", "-m", "hydra/launcher=basic", "discount=0.9,1,2", "algorithm=momentum_q", "algorithm.m=nan,3")
    assert [line.removeprefix("mqlearn: ").partition(":")[0] for line in done.err.splitlines()] == [
        "algorithm.m=nan", "discount=1", "discount=2",
    ]  # fmt: skip
    assert not outputs.exists()


def test_a_fault_of_the_users_is_one_line_with_its_place(mqlearn, outputs):
    Path("faulty_metric.py").write_text("def wrong(q, mdp):\n    return q.nonsense\n")
    done = mqlearn("run", *SMALL, "plugins=[faulty_metric]", "metrics={wrong: faulty_metric.wrong}")
    assert done.code == 2
    (line,) = done.err.splitlines()
    assert line.startswith("mqlearn: metrics.wrong='wrong': raised AttributeError: 'numpy.ndarray' object has no")
    assert line.endswith("faulty_metric.py, line 2)")
    assert not list(outputs.glob("runs/*/*"))


def test_what_was_guessed_of_a_model_is_said_by_truth_and_by_a_run(mqlearn, work):
    Path("my_line.py").write_text(
        "import gymnasium, mqlearn as mq\n"
        "class Line(gymnasium.Env):\n"
        "    observation_space, action_space = gymnasium.spaces.Discrete(3), gymnasium.spaces.Discrete(1)\n"
        "    P = {0: {0: [(1.0, 1, 0.0, False)]}, 1: {0: [(1.0, 2, 1.0, True)]}, 2: {0: [(1.0, 2, 0.0, True)]}}\n"
        "    def reset(self, *, seed=None, options=None):\n"
        "        self.s = 0\n"
        "        return self.s, {}\n"
        "    def step(self, action):\n"
        "        _, self.s, reward, over = self.P[self.s][action][0]\n"
        "        return self.s, reward, over, False, {}\n"
        "gymnasium.register('MyLine-v0', Line)\n"
    )
    chosen = ("plugins=[my_line]", "env=gymnasium", "env.id=MyLine-v0")
    for verb in (("truth",), ("run", *SMALL)):
        guessed, given = (mqlearn(*verb, *chosen, *more) for more in ((), ("env.start_distribution=[1,0,0]",)))
        assert guessed.code == given.code == 0
        assert guessed.err.count("the start distribution is a guess (1 states in 100 resets") == 1
        assert "guess" not in given.err


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("def f(:\n", "SyntaxError at"),
        ("import no_such_package\n", "No module named 'no_such_package'"),
        ("x = 1\nraise RuntimeError('broken')\n", "line 2: broken"),
    ],
)
def test_a_plugin_that_cannot_be_imported_is_one_message(mqlearn, outputs, source, words):
    name = f"broken_{abs(hash(source))}"
    Path(f"{name}.py").write_text(source)
    done = mqlearn("run", f"plugins=[{name}]")
    assert done.code == 2
    assert done.err.startswith(f"mqlearn: plugins='{name}': cannot be imported")
    assert words in done.err
    assert len(done.err.splitlines()) == 1
    assert not outputs.exists()


# --- what is accepted ---------------------------------------------------------------------------------------------


def test_every_verb_has_a_module_of_its_own_and_says_how_it_is_used(mqlearn):
    overview = mqlearn("--help").out
    for name, verb in VERBS.items():
        module = importlib.import_module(f"mqlearn.cli.{name}")
        assert callable(getattr(module, name))
        assert f"  {name:8} {verb.summary}" in overview
        assert mqlearn(name, "--help").out.startswith(f"mqlearn {name}")


def test_a_single_run_is_composed_and_built_once(mqlearn, work, monkeypatch):
    composed, load = [], ConfigLoaderImpl.load_configuration

    def counted(*arguments, **named):
        composed.append(arguments)
        return load(*arguments, **named)

    monkeypatch.setattr(ConfigLoaderImpl, "load_configuration", counted)
    built = cell._build.cache_info().misses
    assert mqlearn("run", *SMALL, "seed=4321", "existing=skip").code == 0
    assert len(composed) == 1 and cell._build.cache_info().misses == built + 1


@pytest.mark.parametrize("word", ["yes", "on", "TRUE"])
def test_all_verbs_take_the_same_words_for_truth(mqlearn, work, word):
    done = mqlearn("run", "-m", *SMALL, f"preview={word}", "seed=1,2")
    assert done.code == 0 and "Nothing was created." in done.out
    assert "there is no finished run" in mqlearn("compare", f"calibrate={word}").err
    assert mqlearn("claims", "nothing", f"smoke={word}").err.startswith("mqlearn: claim='nothing'")


def only_run(outputs: Path) -> runs.Run:
    (summary,) = outputs.rglob("summary.json")
    return runs.load(summary.parent)


def test_a_run_folder_and_its_name(mqlearn, work, outputs):
    done = mqlearn("run", *SMALL, "algorithm=momentum_q", "algorithm.m=3")
    assert done.code == 0
    assert not done.err
    run = only_run(outputs)
    assert run.folder == outputs / "runs" / "default" / run.digest[:16]
    assert sorted(path.name for path in run.folder.iterdir()) == sorted(runs.FILES)
    assert str(run.folder) in done.out
    assert run.name in done.out
    assert "momentum_q m=3" in run.name
    assert run.settings["reward"] == "mean"  # as resolved
    assert run.settings["env"]["map"] == ["SFFF", "FHFH", "FFFH", "HFFG"]
    assert run.curves["q_error"].shape == (2, len(run.curves["iteration"]))
    summary = json.loads((run.folder / "summary.json").read_text())
    assert {"digest", "status", "final", "diverged", "mlflow_run_id", "seconds"} <= summary.keys()
    assert summary["final"]["q_error"].keys() == {"mean", "std", "low", "high", "n_finite"}
    assert summary["mlflow_run_id"] is None
    assert isinstance(summary["seconds"], float)
    assert summary["command"] == f"mqlearn run {' '.join(SMALL)} algorithm=momentum_q algorithm.m=3"
    assert not list(work.iterdir())
    again = mqlearn("run", *SMALL, "algorithm=momentum_q", "algorithm.m=3.0")
    assert again.code == 0
    assert only_run(outputs).digest == run.digest


def test_a_chosen_folder_is_written_once(mqlearn, work, outputs):
    assert mqlearn("run", *SMALL, "hydra.run.dir=my/run").code == 0
    run = runs.load("my/run")
    assert not [path for path in outputs.rglob("*") if path != outputs / "locks"]  # where the cell was claimed
    assert mqlearn("run", *SMALL, "hydra.run.dir=my/run").code == 0  # the same cell
    before = (run.folder / "summary.json").read_bytes()
    done = mqlearn("run", *SMALL, "hydra.run.dir=my/run", "seed=1")
    assert done.code == 2
    assert "holds another run" in done.err
    assert run.digest in done.err
    assert (run.folder / "summary.json").read_bytes() == before
    (work / "empty").mkdir()
    assert mqlearn("run", *SMALL, "hydra.run.dir=empty").code == 0
    assert runs.load("empty").digest == run.digest


def test_a_sweep_names_its_folders_by_digest(mqlearn, outputs):
    done = mqlearn("run", "-m", "hydra/launcher=basic", *SMALL, "algorithm=q_learning,speedy_q", "seed=range(2)")
    assert done.code == 0
    folders = sorted((outputs / "runs" / "default").iterdir())
    assert len(folders) == 4
    assert all(runs.load(folder).digest.startswith(folder.name) for folder in folders)
    assert mqlearn("run", *SMALL, "algorithm=speedy_q", "seed=1").code == 0  # one of them again: no new folder
    assert sorted((outputs / "runs" / "default").iterdir()) == folders


def test_folders_named_by_overrides_that_are_too_long_are_named_by_digest(mqlearn, outputs):
    rows = ["S" + "F" * 15, *["F" * 16] * 14, "F" * 15 + "G"]
    done = mqlearn("run", "-m", "hydra/launcher=basic", *SMALL, "env=frozen_lake",
                   f"env.map=[{','.join(rows)}]", "algorithm=momentum_q",
                   "algorithm.m=2,5", "hydra.sweep.subdir=${hydra.job.override_dirname}")  # fmt: skip
    assert done.code == 0
    assert "hydra.sweep.subdir: too long" in done.err
    found = [runs.load(folder) for folder in sorted((outputs / "runs" / "default").iterdir())]
    assert [run.folder.name for run in found] == [run.digest[:16] for run in found]
    assert [run.settings["env"]["map"] for run in found] == [rows, rows]
    name = "x" * 300
    done = mqlearn("run", *SMALL, f"hydra.run.dir={name}")
    assert done.code == 0
    assert runs.is_complete(outputs / "runs" / "default" / only_named(outputs, "q_learning").digest[:16])


def only_named(outputs: Path, algorithm: str) -> runs.Run:
    found = [runs.load(summary.parent) for summary in outputs.rglob("summary.json")]
    (run,) = [run for run in found if run.settings["algorithm"]["name"] == algorithm]
    return run


def test_no_iterations_is_a_run(mqlearn, outputs):
    assert mqlearn("run", "iterations=0", "n_seeds=2", "tracking=none").code == 0
    run = only_run(outputs)
    assert run.status == "finished"
    assert run.curves["iteration"].tolist() == [0]


def test_m_below_the_theorem_runs_with_a_warning(mqlearn, outputs):
    done = mqlearn("run", *SMALL, "algorithm=momentum_q", "algorithm.m=1")
    assert done.code == 0
    assert done.err == "warning: m=1 is below 1/discount=1.111: outside the theorem\n"
    assert only_run(outputs).summary["warnings"] == [done.err.removeprefix("warning: ").strip()]


def test_what_can_be_reached_is_said_before_the_run(mqlearn, outputs):
    done = mqlearn("run", *SMALL, "env=frozen_lake", "env.map=[SFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFG]", "env.success_rate=0")
    assert "below 1e-60" not in done.err
    assert done.err.startswith("warning: the optimal value at the start is negligible (")
    assert done.out.splitlines()[0].startswith("FrozenLake 1x32 map")
    assert "at best value" in done.out.splitlines()[0]
    summary = only_run(outputs).summary
    assert summary["warnings"] == [line.removeprefix("warning: ") for line in done.err.splitlines()]
    assert 0 < summary["optimum"]["start_value"] < 1e-6


@pytest.mark.parametrize("name", ["two words", "Über/größe", 'it\'s "quoted", really', "a=b", "$HOME; ls"])
def test_an_experiment_may_have_any_name(mqlearn, outputs, name):
    escaped = name.replace('"', '\\"')
    done = mqlearn("run", "iterations=2", "n_seeds=1", "tracking=none", f'experiment.name="{escaped}"')
    assert done.code == 0, done.err
    run = only_run(outputs)
    assert run.settings["experiment"]["name"] == name
    assert run.folder.parent == outputs / "runs" / runs.slug(name)


def test_settings_of_gymnasium_in_both_spellings(mqlearn, outputs):
    taxi = (*SMALL, "env=gymnasium", "env.id=FrozenLake-v1")
    assert mqlearn("run", *taxi, "env.kwargs={is_slippery: false}").code == 0
    assert mqlearn("run", *taxi, "+env.kwargs.is_slippery=false").code == 0
    assert only_run(outputs).settings["env"]["kwargs"] == {"is_slippery": False}


def test_a_password_is_written_nowhere(mqlearn, outputs, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")  # seconds each
    uri = "http://me:hidden@127.0.0.1:9"
    done = mqlearn("run", "-m", "iterations=2", "n_seeds=1", f"tracking.uri={uri}", "seed=1,2", "hydra/launcher=basic")
    assert done.code == 0
    assert "NOT UPLOADED: 2 runs are complete on disk" in done.out and "mqlearn upload " in done.out
    assert "hidden" not in done.err + done.out
    files = [path for path in outputs.rglob("*") if path.is_file()]
    assert {path.name for path in files} >= {"config.yaml", "summary.json", "plan.json"}
    assert not [path for path in files if b"hidden" in path.read_bytes()]


def test_a_sweep_into_a_store_whose_driver_is_missing_is_refused(mqlearn, outputs, monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)  # as if the extra were not installed
    small = ["hydra/launcher=basic", "iterations=2", "n_seeds=1", "seed=1,2"]
    for driver, words in (("nosuchdriver", "no usable database address"), ("psycopg", "'mqlearn[postgres]'")):
        done = mqlearn("run", "-m", *small, f"tracking.uri=postgresql+{driver}://me:hidden@127.0.0.1:9/runs")
        assert done.code == 2 and words in done.err and "hidden" not in done.err
    assert not outputs.exists()


def test_a_store_that_is_down_is_one_message(mqlearn, outputs, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    for arguments in (["status", "experiment.name=any"], ["rerun", "0" * 32]):
        done = mqlearn(*arguments, "tracking.uri=http://127.0.0.1:9")
        assert done.code == 1 and done.err.startswith("mqlearn: ") and len(done.err.splitlines()) == 1
        assert "failed at http://127.0.0.1:9" in done.err and "Traceback" not in done.err


def test_a_warning_of_libraries_that_say_nothing_here_is_silent(mqlearn, outputs):
    """MLflow is imported beside the loop, where this warning of its libraries would come through."""
    Path("warns_of_socks.py").write_text(
        "import warnings\nimport numpy as np\n\ndef metric(q, mdp):\n"
        "    warnings.warn('SOCKS support in urllib3 requires the installation of optional dependencies')\n"
        "    return np.zeros(len(q))\n"
    )
    done = mqlearn("run", *SMALL, "plugins=[warns_of_socks]", "metrics={zero: warns_of_socks.metric}")
    assert (done.code, done.err) == (0, "")
    assert not only_run(outputs).curves["zero"].any()


# --- truth --------------------------------------------------------------------------------------------------------


def test_truth_prints_facts(mqlearn, outputs):
    done = mqlearn("truth", "env=frozen_lake_8x8", "discount=0.99", "--json")
    facts = json.loads(done.out)
    assert (done.code, done.err) == (0, "")
    assert facts["states"] == 64
    assert facts["actions"] == 4
    assert facts["pairs"] == 212
    assert facts["start_value"] == pytest.approx(0.4146403618, abs=1e-9)
    assert 0 < facts["certified_error"] < 1e-9
    assert facts["success_probability"] == pytest.approx(1)
    assert facts["shortest_path"] == 14
    assert facts["optimal_actions"] > 0
    told = mqlearn("truth", "env=frozen_lake_8x8", "discount=0.99").out
    assert all(name.replace("_", " ") in told for name in facts)
    assert not outputs.exists()


def test_a_base_step_size_is_chosen_by_its_name(mqlearn, outputs):
    matched = ("step_size=matched", "step_size.lam=0.5")
    assert mqlearn("run", *SMALL, *matched, "step_size.base=inverse_sqrt", "step_size.base.h=7").code == 0
    (folder,) = (outputs / "runs" / "default").iterdir()
    base = runs.load(folder).settings["step_size"]["base"]
    assert base == {"_target_": "mqlearn.InverseSqrt", "name": "inverse_sqrt", "alpha": 0.1, "h": 7}


def test_a_single_run_says_that_an_experiment_has_cells(mqlearn):
    assert (
        "the 22 cells of this experiment are run by mqlearn run -m" in mqlearn("run", "experiment=figure1", *SMALL).err
    )
    assert mqlearn("run", *SMALL).err == ""


def test_truth_says_that_there_is_no_goal(mqlearn, work):
    (work / "endless.py").write_text(
        "import dataclasses, mqlearn as mq\n"
        "def lake(discount=0.9):\n"
        "    mdp = mq.frozen_lake(discount=discount)\n"
        "    return dataclasses.replace(mdp, goal=mdp.goal & False)\n"
    )
    (work / "conf" / "env").mkdir(parents=True)
    (work / "conf" / "env" / "endless.yaml").write_text("_target_: endless.lake\nname: endless\n")
    done = mqlearn("truth", "--config-dir", "conf", "plugins=[endless]", "env=endless")
    assert done.code == 0, done.err
    assert done.out.count("none: no goal can be reached") == 2
    assert "None" not in done.out


def test_truth_warns_of_a_negligible_optimum(mqlearn):
    corridor = ("env=frozen_lake", "env.slippery=false")
    done = mqlearn("truth", *corridor, f"env.map=[{'S' + 'F' * 300 + 'G'}]", "discount=0.5", "--json")
    assert "below 1e-60" in done.err
    assert "certified to" in done.err  # the bound on the error is above the value
    assert 0 < json.loads(done.out)["start_value"] < 1e-60
    done = mqlearn("truth", *corridor, f"env.map=[{'S' + 'F' * 40 + 'G'}]", "discount=0.5", "--json")
    assert "negligible" in done.err
    ridge = ",".join(["H" * 12, "S" + "F" * 10 + "G", "H" * 12])
    done = mqlearn("truth", "env=frozen_lake", f"env.map=[{ridge}]")
    assert "even the best policy reaches the goal with probability" in done.err
    assert mqlearn("truth").err == ""


# --- help and completion ------------------------------------------------------------------------------------------


def test_the_bare_command_lists_the_verbs(mqlearn):
    for arguments in ([], ["--help"], ["help"]):
        done = mqlearn(*arguments)
        assert done.code == 0
        assert all(f"  {verb} " in done.out for verb in ("run", "truth", "figure", "compare", "rerun", "upload", "ui"))


@pytest.mark.parametrize(
    "verb",
    ["run", "truth", "figure", "compare", "bench", "report", "export", "explain", "doctor", "rerun", "upload", "ui"],
)
def test_every_verb_explains_itself(mqlearn, verb):
    done = mqlearn(verb, "--help")
    assert done.code == 0
    assert done.out.startswith(f"mqlearn {verb}")
    if verb == "run":
        assert "momentum_q" in done.out
        assert "n_checkpoints: 200" in done.out


def test_completion(mqlearn, monkeypatch):
    def completed(line: str) -> list[str]:
        monkeypatch.setenv("COMP_LINE", line)
        return mqlearn("-sc", "query=bash").out.split()

    assert completed("mqlearn ") == [
        "run", "figure", "compare", "bench", "report", "export", "explain", "status", "claims", "truth", "theory",
        "problems", "new", "doctor", "rerun", "upload", "ui",
    ]  # fmt: skip
    assert completed("mqlearn r") == ["run", "report", "rerun"]
    rules = [f"algorithm={name}" for name in ("momentum_q", "nesa", "q_learning", "speedy_q")]
    assert set(completed("mqlearn run algorithm=")) >= set(rules)
    assert completed("mqlearn truth env=frozen_lake_r") == ["env=frozen_lake_random"]
    assert completed("mqlearn run disc") == ["discount="]
    assert "figure1" in completed("mqlearn figure fig")
    assert "complete" in mqlearn("-sc", "install=bash").out
    assert "COMP_LINE" in mqlearn("run", "-sc", "install=fish").out


def test_help_costs_at_most_twice_the_import_of_hydra():
    def seconds(code: str) -> float:
        """The least processor time of three runs, of the interpreter and what it does."""
        times = []
        for _ in range(3):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        return min(times)

    assert seconds("from mqlearn.cli.main import main; main(['run', '--help'])") <= 2 * seconds("import hydra")
