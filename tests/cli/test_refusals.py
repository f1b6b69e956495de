"""What the command line refuses, in which words: one message that names the setting, and nothing is written."""

import errno
from pathlib import Path

import pytest

from mqlearn.cli import status

LAKE = "env=frozen_lake"
SMALL = ("iterations=20", "n_seeds=2", "n_checkpoints=3", "tracking=none")

# Arguments of `mqlearn run`, the setting that the message names, and words that it must hold.
REFUSED = [
    # values
    (["discount=1"], "discount=1", "needs episodes that end, or that cost something as long as they go on"),
    (["horizon=10"], "horizon='10'", "no such setting: values over about H steps have discount=1 - 1/H"),
    (["gamma=0.9"], "gamma='0.9'", "no such setting: the discount is discount=0.9"),
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
    (["~hydra/launcher"], "hydra.launcher=", "must be chosen from its config group: hydra/launcher="),
    (["-m", "hydra.launcher=3"], "hydra.launcher=3", "must be chosen from its config group"),
    (["-m", "hydra.sweeper=null"], "hydra.sweeper=None", "hydra/sweeper="),
    (["discuont=0.8"], "discuont='0.8'", "did you mean 'discount'?"),
    (["algorithm.zeat=1", "algorithm=nesa"], "algorithm.zeat='1'", "did you mean 'algorithm.zeta'?"),
    (["algorithm.m=5"], "algorithm.m='5'", "is a setting of algorithm=momentum_q"),
    (["algorithm.m=5"], "algorithm.m='5'", "it has none of its own (algorithm.m is"),
    (["algorithm.tuning=5"], "algorithm.tuning='5'", "no setting of a run"),
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
    ([LAKE], "env.map=''", "must be given. Your own map, any rectangle: 'env.map=[SFFF,FHFH,FFFH,HFFG]'"),
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
    (["env=gymnasium"], "env.id=''", "must be given. Any Gymnasium environment"),
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
    (["-m", "discount=0.9,1"], "discount=1", "needs episodes that end"),
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
        (["truth", "discount=1"], "discount=1", "use a discount below 1, such as 0.999"),
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


def test_what_the_system_refuses_is_one_line(mqlearn, work, monkeypatch):
    folder = work / ("x" * 300)
    monkeypatch.setenv("MQLEARN_OUTPUTS", str(folder))
    done = mqlearn("status")
    assert done.code == 1 and done.err.startswith(f"mqlearn: {folder}") and done.err.endswith(": File name too long\n")
    assert done.err.count("\n") == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no disk that is always full")
def test_a_disk_that_is_full_is_one_line(process):
    command = process("status", before="import os; os.dup2(os.open('/dev/full', os.O_WRONLY), 1)")
    err = command.communicate(timeout=120)[1]
    assert (command.returncode, err) == (1, "mqlearn: No space left on device\n")


@pytest.mark.parametrize("place", [None, status.__file__])
def test_what_is_no_file_of_the_users_keeps_its_traceback(mqlearn, monkeypatch, place):
    def wrong(arguments):
        raise OSError(errno.EBADF, "Bad file descriptor", place)

    monkeypatch.setattr(status, "status", wrong)
    with pytest.raises(OSError, match="Bad file descriptor"):
        mqlearn("status")


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


@pytest.mark.parametrize(
    "verb", [["status"], ["export"], ["compare"], ["report"], ["ui"], ["upload"], ["rerun", "0" * 32]]
)
def test_verbs_without_a_store_say_what_they_lack(mqlearn, outputs, work, verb):
    """`tracking=none` is taken, or what needs a store says so; no address that nobody wrote is complained about."""
    if verb == ["upload"]:
        assert mqlearn("run", *SMALL).code == 0
        verb = ["upload", str(next((outputs / "runs").glob("*/*")))]
    done = mqlearn(*verb, "tracking=none")
    assert "Traceback" not in done.err and "database address" not in done.err
    if verb[0] == "status":
        assert done.code == 0 and "no sweep has been planned here" in done.out
    else:
        assert done.code == 2
        assert ("tracking='none': this command needs" in done.err) == (verb[0] in ("ui", "upload", "rerun"))
