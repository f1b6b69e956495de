"""The command line: what is accepted in every spelling, what is said, help and completion."""

import csv
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


def test_the_command_of_a_later_upload_can_be_typed_as_it_is_said(mqlearn, work, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MQLEARN_OUTPUTS", str(work / "my runs"))
    small = ["iterations=2", "n_seeds=1", "seed=1,2", "hydra/launcher=basic", "tracking.uri=http://127.0.0.1:9"]
    said = next(line for line in mqlearn("run", "-m", *small).out.splitlines() if "mqlearn upload" in line)
    typed = subprocess.run(["bash", "-c", f"printf '%s\\n' {said}"], capture_output=True, text=True, check=True)
    program, verb, *folders = typed.stdout.splitlines()
    assert (program, verb) == ("mqlearn", "upload") and len(folders) == 2
    assert all((Path(folder) / "summary.json").is_file() for folder in folders)


def test_a_password_is_written_nowhere(mqlearn, outputs, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")  # seconds each
    uri = "http://me:hidden@127.0.0.1:9"
    done = mqlearn("run", "-m", "iterations=2", "n_seeds=1", f"tracking.uri={uri}", "seed=1,2", "hydra/launcher=basic")
    assert done.code == 3
    assert "NOT UPLOADED: 2 runs, whole on disk" in done.out and "mqlearn upload " in done.out
    assert "hidden" not in done.err + done.out
    files = [path for path in outputs.rglob("*") if path.is_file()]
    assert {path.name for path in files} >= {"config.yaml", "summary.json", "plan.json"}
    assert not [path for path in files if b"hidden" in path.read_bytes()]


def test_a_sweep_into_a_store_whose_driver_is_missing_is_refused(mqlearn, outputs, monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)  # as if the extra were not installed
    small = ["hydra/launcher=basic", "iterations=2", "n_seeds=1", "seed=1,2"]
    for driver, words in (("nosuchdriver", "no usable database address"), ("psycopg", "'.[postgres]'")):
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
    [*VERBS],
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
        "run", "figure", "compare", "bench", "report", "export", "explain", "status", "claims", "papers", "truth",
        "theory", "problems", "new", "doctor", "rerun", "upload", "delete", "ui",
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


@pytest.mark.parametrize("arguments", [
    ("compare", "--json"), ("compare", "--csv"), ("compare", "calibrate=true", "--json"), ("status", "--json"),
    ("theory", "--json"), ("export", "--format", "json", "--output"),
])  # fmt: skip
def test_a_minus_is_the_standard_output_and_nothing_else_is_said_there(mqlearn, work, arguments):
    small = ("iterations=200", "n_seeds=8", "n_checkpoints=5", "tracking=none")
    for rule in ("q_learning", "speedy_q") if arguments[0] != "theory" else ():
        assert mqlearn("run", f"algorithm={rule}", *small).code == 0
    done = mqlearn(*arguments, "-", *(["tracking=none"] if arguments[0] != "theory" else []))
    assert done.code == 0, done.err
    if "--csv" in arguments:
        head, *rows = csv.reader(done.out.splitlines())
        assert len(head) > 10 and rows and {len(row) for row in rows} == {len(head)}
    else:
        assert json.loads(done.out)
    assert not list(work.iterdir())
