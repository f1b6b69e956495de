"""Sweeps: every cell is accounted for, whatever is killed, and a resumed sweep has the numbers of an unbroken one."""

import contextlib
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mqlearn.cli.main import main
from mqlearn.errors import SettingError
from mqlearn.experiments import execute, processes
from mqlearn.experiments.settings import compose
from mqlearn.experiments.settings.cell import build
from mqlearn.experiments.sweep import command, journal
from mqlearn.experiments.sweep.plan import plan
from mqlearn.storage import addresses, connection, locks, lookup, runs, store, tracking

SMALL = ["tracking=none", "iterations=200", "n_checkpoints=5", "n_seeds=2"]
TRAP = '''
import os, signal, time
from dataclasses import dataclass
from pathlib import Path
import mqlearn as mq

@dataclass(frozen=True)
class Trap(mq.Rule):
    """Q-learning in a job that waits, raises or kills its process. flag: a file, with which it does so once only."""
    kind: str = "none"
    i: int = 0
    flag: str = ""

    def update(self, k, q, q_prev, target, target_prev):
        if "MQLEARN_CELL" in os.environ:
            once = not self.flag or not Path(self.flag).exists()
            if self.flag:
                Path(self.flag).touch()
            if self.kind == "raise":
                raise ArithmeticError(f"trap {self.i}\\nmore")
            if self.kind == "kill" and once:
                os.kill(os.getpid(), signal.SIGKILL)
            if self.kind == "wait":
                time.sleep(0.3)
        a = self.step_size(k)
        return (1 - a) * q + a * target
'''


class Place:
    """A directory with a plugin, and an outputs folder that all its commands use."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.outputs = folder, folder / "out puts"
        (folder / "conf" / "algorithm").mkdir(parents=True)
        (folder / "traps.py").write_text(TRAP)
        text = "_target_: traps.Trap\nname: trap\nkind: none\ni: 0\nflag: ''\n"
        (folder / "conf" / "algorithm" / "trap.yaml").write_text(text)

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", "from mqlearn.cli.main import main; main()", *arguments]
        private = {key: value for key, value in os.environ.items() if not key.startswith(("MQLEARN_", "MLFLOW_"))}
        private |= {"MQLEARN_OUTPUTS": str(self.outputs)} | environment
        pipe = subprocess.PIPE
        return subprocess.Popen(
            command, cwd=self.folder, env=private, text=True, start_new_session=True, stdout=pipe, stderr=pipe
        )

    def run(self, *arguments: str, code: int = 0, **environment: str) -> str:
        process = self.start(*arguments, **environment)
        output, errors = process.communicate(timeout=200)
        assert process.returncode == code, output + errors
        assert "Traceback" not in output + errors
        return output + errors

    def here(self, *arguments: str, code: int = 0) -> str:
        """As `run`, in this process: for what no other process has to do with."""
        printed = io.StringIO()
        streams = contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed)
        with pytest.MonkeyPatch.context() as patch, streams[0], streams[1], pytest.raises(SystemExit) as end:
            patch.chdir(self.folder)
            patch.setenv("MQLEARN_OUTPUTS", str(self.outputs))
            for variable in ("MLFLOW_TRACKING_URI", "COLUMNS"):
                patch.delenv(variable, raising=False)
            main(list(arguments))
        assert end.value.code == code, printed.getvalue()
        return printed.getvalue()

    def sweep(self, *arguments: str, **more) -> str:
        return self.run("run", "-m", *self.traps(*arguments), **more)

    def traps(self, *arguments: str) -> list[str]:
        return ["--config-dir", "conf", "plugins=[traps]", "algorithm=trap", *SMALL, *arguments]

    @property
    def states(self) -> list[dict]:
        """Of the newest sweep, in order of number."""
        newest = max(journal.sweeps(self.outputs).glob("2*"), key=lambda path: path.stat().st_mtime)
        return [state for _, state in sorted(journal.states(newest).items())]

    @property
    def curves(self) -> dict[str, dict[str, np.ndarray]]:
        return {
            digest: dict(run.curves) for digest, run in lookup.finished(self.outputs, "default", store=None).items()
        }


@pytest.fixture
def place(tmp_path) -> Place:
    return Place(tmp_path)


def wait_for(condition: Callable[[], object], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def test_a_preview_creates_nothing_and_counts(place):
    text = place.here("run", "-m", *SMALL, "algorithm=q_learning,speedy_q", "seed=range(4)", "preview=true")
    assert "8 cells, 0 done, 8 to run" in text and not place.outputs.exists()
    maps = "env.map=[SFF,FHF,FFG],[SFF,FFF,HFG]"  # of which no name tells
    text = place.here("run", "-m", *SMALL, "env=frozen_lake", maps, "preview=true")
    assert "(env.map=[SFF,FHF,FFG])" in text and "(env.map=[SFF,FFF,HFG])" in text


def test_finished_cells_are_skipped_and_only_they(place):
    place.here("run", "-m", *SMALL, "seed=0,1", "hydra/launcher=basic")
    before = {path: path.stat().st_mtime_ns for path in place.outputs.rglob("curves.npz")}
    text = place.here("run", "-m", *SMALL, "seed=0,1,2", "hydra/launcher=basic")
    assert "3 cells, 1 done, 2 skipped" in text
    after = {path: path.stat().st_mtime_ns for path in place.outputs.rglob("curves.npz")}
    assert len(after) == 3 and before.items() <= after.items()
    assert "3 cells, 0 done, 3 skipped" in place.here("run", "-m", *SMALL, "seed=0,1,2", "iterations=2e2")
    assert "3 cells, 3 done, 0 to run" in place.here("run", "-m", *SMALL, "seed=0,1,2", "preview=true")
    refused = place.here("run", "-m", *SMALL, "seed=0,1,5", "existing=error", code=2)
    assert "existing='error': 2 of 3 cells are finished already" in refused
    assert "2 cells, 2 done, 0 skipped" in place.here(
        "run", "-m", *SMALL, "seed=0,1", "existing=rerun", "hydra/launcher=basic"
    )
    assert "finished already" in place.here("run", *SMALL, "seed=1", "existing=skip")
    assert "existing='error'" in place.here("run", *SMALL, "seed=1", "existing=error", code=2)
    assert "(did you mean 'skip'?)" in place.here("run", *SMALL, "existing=skp", code=2)


def test_joblib_with_one_job_runs_the_cells_in_the_sweep_itself(place):
    text = place.run("run", "-m", *SMALL, "seed=0,1", "hydra/launcher=joblib", "hydra.launcher.n_jobs=1")
    assert "2 cells, 2 done" in text
    for path in place.outputs.glob("sweeps/*/cells/*.json"):
        path.unlink()
    shutil.rmtree(place.outputs / "runs")
    assert "missing: q_learning" in place.here("status") and "(seed=1)" in place.here("status")


@pytest.mark.integration
def test_a_failing_job_stops_no_other_and_is_told_with_its_command(place):
    text = place.sweep("algorithm.kind=none,raise", "algorithm.i=1,2,3", code=1)
    assert "6 cells, 3 done, 0 skipped (finished before), 3 failed" in text
    told = r"failed: \d .*: raised ArithmeticError: trap (\d) more \(.*traps\.py, line \d+\)\n  alone: mqlearn (.*)"
    failed = re.findall(told, text)
    assert [number for number, _ in failed] == ["1", "2", "3"]
    assert "algorithm.kind=raise" in failed[0][1] and "--config-dir conf" in failed[0][1]
    records = [runs.load(path.parent) for path in place.outputs.rglob("summary.json")]
    assert sorted(run.status for run in records) == ["failed"] * 3 + ["finished"] * 3
    assert all("Traceback" in run.summary["traceback"] for run in records if run.status == "failed")


@pytest.mark.integration
def test_a_killed_worker_loses_its_own_cell_alone(place):
    text = place.sweep("algorithm.kind=kill", "algorithm.i=range(5)", f"algorithm.flag={place.folder}/once")
    assert "5 cells, 5 done" in text and "audit: 5 of 5" in text
    mixed = ["algorithm.i=range(10,14)", "algorithm.kind=none,kill", "algorithm.flag=''"]
    text = place.sweep(*mixed, code=1)
    assert "8 cells, 4 done, 0 skipped (finished before), 4 failed" in text
    assert text.count("its process died twice") == 4


def workers(process: subprocess.Popen[str]) -> list[int]:
    """The workers that joblib has started below a sweep, if only just now."""
    found = []
    for pid in processes.descendants(process.pid):
        with contextlib.suppress(OSError):
            if b"--process-name" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


@pytest.mark.integration
def test_workers_killed_before_a_cell_began_cost_no_cell(place):
    process = place.start("run", "-m", *place.traps("algorithm.i=range(5)"))
    for _ in range(2):
        wait_for(lambda: workers(process))
        for pid in workers(process):
            os.kill(pid, signal.SIGKILL)
    output, errors = process.communicate(timeout=200)
    assert process.returncode == 0 and "5 cells, 5 done" in output, output + errors


@pytest.mark.integration
def test_a_worker_that_was_starting_ends_with_its_killed_parent(place):
    process = place.start("run", "-m", *place.traps("algorithm.kind=wait", "algorithm.i=range(50)"))
    wait_for(lambda: workers(process))
    below = processes.descendants(process.pid)
    process.kill()
    process.communicate()
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in below), 15)


def test_damaged_cells_are_named_counted_and_made_again(place):
    asked = ["run", "-m", *SMALL, "seed=0,1", "hydra/launcher=basic"]
    place.here(*asked)
    one, other = (run.folder for run in lookup.finished(place.outputs, "default", store=None).values())
    whole = {path: path.read_bytes() for path in (one / runs.TABLES, other / runs.CONFIG)}
    (one / runs.TABLES).write_bytes(whole[one / runs.TABLES][:-1] + b"x")
    (other / runs.SUMMARY).write_text("{")
    told = place.here("status")
    assert "0 done" in told and "2 damaged" in told and f"{one}: tables.npz is damaged" in told
    assert "2 damaged" in place.here("status")
    text = place.here(*asked)
    assert "2 cells, 2 done, 0 skipped (finished before), 0 failed, 2 damaged (2 made again)" in text
    assert f"{one}: tables.npz is damaged" in text and f"{other}: summary.json is damaged" in text
    assert {path: path.read_bytes() for path in whole} == whole
    assert "2 skipped" in place.here(*asked)


def test_a_cell_that_is_complete_on_disk_is_done_whatever_was_said_of_it(place):
    place.here("run", "-m", *SMALL, "seed=0,1", "hydra/launcher=basic")
    newest = next(journal.sweeps(place.outputs).glob("2*"))
    plan_of = journal.read_plan(newest)
    for one, said in zip(plan_of["cells"], ("killed", "running"), strict=True):
        journal.mark(newest, one, said, pid=2**22 + 1)
    assert "2 done, 0 running, 0 failed, 0 killed" in place.here("status")


def test_a_cell_is_running_while_a_process_holds_it(place):
    place.here("run", "-m", *SMALL, "seed=0", "hydra/launcher=basic")
    (one,) = journal.read_plan(next(journal.sweeps(place.outputs).glob("2*")))["cells"]
    shutil.rmtree(one["folder"])
    assert "1 missing" in place.here("status")
    with locks.claimed(locks.folder(place.outputs), *execute.claim(one["experiment"], one["digest"])):
        assert "1 running" in place.here("status")


@pytest.mark.integration
def test_overlapping_sweeps_started_at_the_same_moment_run_each_cell_once(place):
    wide = ["run", "-m", *SMALL[1:], "hydra/launcher=basic"]
    both = [place.start(*wide, f"seed={seeds}") for seeds in ("0,1,2,3,4,5", "5,4,3,2,1,0")]
    outputs = ["".join(process.communicate(timeout=200)) for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert all("audit: 6 of 6 cells have one finished run" in text for text in outputs), outputs
    stored = store.finished(addresses.default_uri(place.outputs), "default")
    assert len(stored) == len({one.digest for one in stored}) == 6


@pytest.mark.integration
def test_a_single_run_takes_what_another_process_made_of_its_cell_meanwhile(place):
    both = [place.start("run", *SMALL[1:], "iterations=200000") for _ in range(2)]
    outputs = ["".join(process.communicate(timeout=200)) for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert sum("finished already, by another process" in text for text in outputs) == 1, outputs
    assert len(store.finished(addresses.default_uri(place.outputs), "default")) == 1


@pytest.mark.integration
def test_what_the_disk_refuses_is_told_with_its_path_and_its_reason_and_the_table(place):
    large = ["env=frozen_lake_8x8", *SMALL, "hydra/launcher=basic"]
    place.run("run", "-m", *large, "seed=7,8")  # compiles
    code = "from mqlearn.cli.main import main; main()"
    words = shlex.join([sys.executable, "-c", code, "run", "-m", *large, "seed=0,1"])
    environment = os.environ | {"MQLEARN_OUTPUTS": str(place.outputs)}
    for kilobytes, wanted in ((7, ("2 cells, 0 done", "2 failed", "runs/default/")), (1, ("plan.json",))):
        command = ["bash", "-c", f"ulimit -f {kilobytes}; {words}"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200, cwd=place.folder)
        text = done.stdout + done.stderr
        assert done.returncode == (1 if kilobytes > 1 else 2), text
        assert "File too large" in text and "Traceback" not in text, text
        assert all(word in text for word in wanted), text


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&- <&-", "| head -c 1", "2>&1 | head -c 1"])
@pytest.mark.integration
def test_closed_streams_stop_no_run(place, closed):
    code = "from mqlearn.cli.main import main; main()"
    words = shlex.join([sys.executable, "-c", code, "run", "-m", *SMALL, "seed=0,1", "hydra/launcher=basic"])
    environment = os.environ | {"MQLEARN_OUTPUTS": str(place.outputs)}
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"{words} {closed}"],
        cwd=place.folder, env=environment, capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0 and "Error" not in done.stdout + done.stderr
    assert len(place.curves) == 2


@pytest.mark.integration
def test_a_killed_sweep_resumes_to_the_numbers_of_an_unbroken_one(place, tmp_path):
    asked = ["algorithm.kind=wait", "algorithm.i=range(6)"]
    process = place.start("run", "-m", *place.traps(*asked))
    wait_for(lambda: len(list(place.outputs.rglob("curves.npz"))) >= 2)
    workers = processes.descendants(process.pid)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))
    finished = len(place.curves)
    assert 2 <= finished < 6
    assert f"{6 - finished} done, {finished} skipped" in place.sweep(*asked, "hydra/launcher=basic")
    (tmp_path / "other").mkdir()
    other = Place(tmp_path / "other")
    other.sweep(*asked)
    np.testing.assert_equal(place.curves, other.curves)
    assert len(other.curves) == 6


@pytest.mark.integration
@pytest.mark.parametrize("group", [False, True], ids=["parent", "process group"])
@pytest.mark.parametrize("launcher", ["joblib", "basic"])
def test_ctrl_c_ends_everything_in_five_seconds(place, launcher, group):
    asked = ["algorithm.kind=none,wait", "algorithm.i=1,2,3", "n_checkpoints=40", "iterations=1000"]
    process = place.start("run", "-m", *place.traps(*asked), f"hydra/launcher={launcher}")

    def three_and_one() -> bool:  # the fourth waits: the third may be written and not yet marked
        if len(list(place.outputs.rglob("curves.npz"))) < 3:
            return False
        count = Counter(state["state"] for state in place.states)
        return count["done"] >= 3 and count["running"] >= 1

    wait_for(three_and_one)
    below = processes.descendants(process.pid)
    began = time.monotonic()
    (os.killpg if group else os.kill)(process.pid, signal.SIGINT)
    errors = process.communicate(timeout=60)[1]
    assert time.monotonic() - began < 5
    assert process.returncode == 130 and "Traceback" not in errors, errors
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in below), 5 - (time.monotonic() - began))
    assert not [state for state in place.states if state["state"] == "running"]
    assert [state for state in place.states if state["state"] == "killed"]
    records = [runs.load(path.parent) for path in (place.outputs / "runs").rglob("summary.json")]
    assert {run.status for run in records} == {"finished", "killed"}
    assert all(run.curves["q_error"].shape for run in records if run.status == "finished")


@pytest.mark.integration
def test_cells_keep_the_settings_that_were_planned(place):
    yaml = place.folder / "conf" / "algorithm" / "trap.yaml"
    asked = ["algorithm.kind=wait", "n_seeds=2,3,4", "hydra/launcher=basic"]
    process = place.start("run", "-m", *place.traps(*asked))
    wait_for(lambda: list(place.outputs.rglob("plan.json")) and place.states)
    yaml.write_text(yaml.read_text().replace("i: 0", "i: 7"))
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, output + errors
    found = lookup.finished(place.outputs, "default", store=None).values()
    assert [run.settings["algorithm"]["i"] for run in found] == [0, 0, 0]


def test_a_cell_that_is_no_longer_the_planned_one_is_refused(tmp_path):
    cell = build(compose.compose(SMALL))
    changed = {"digest": 64 * "0", "cell": "", "group": "", "command": ""}
    with pytest.raises(SettingError, match="is not the planned digest: a configuration file, a map or a module"):
        journal._run(cell.settings, tmp_path / "run", changed, {"id": "1"})
    assert not (tmp_path / "run").exists()


@pytest.mark.integration
def test_two_sweeps_at_once_share_the_work(place):
    asked = ["algorithm.kind=wait", "algorithm.i=range(3)", "hydra/launcher=basic"]
    both = [place.start("run", "-m", *place.traps(*asked)) for _ in range(2)]
    outputs = [process.communicate(timeout=200)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert len(list(journal.sweeps(place.outputs).glob("2*/plan.json"))) == 2
    assert len(place.curves) == 3


def test_every_cell_is_validated_before_the_first_starts(place):
    text = place.here("run", "-m", *SMALL, "algorithm=momentum_q", "discount=0.5,0.9,1.5", code=2)
    assert "discount=1.5" in text and not place.outputs.exists()


def test_repetitions_are_refused(place):
    assert "jobs 1 and 2 are the same cell" in place.here("run", "-m", *SMALL, "seed=1,1,2", code=2)
    assert "jobs 1 and 2 are the same cell" in place.here("run", "-m", *SMALL, "discount=0.5,5e-1", code=2)


def test_a_launcher_without_its_extra_names_the_extra(monkeypatch):
    monkeypatch.setattr(command, "_installed", lambda module: False)
    with pytest.raises(SettingError, match=r"needs the extra slurm: pip install '\.\[slurm\]' in the clone"):
        command.run([], ["hydra/launcher=submitit_slurm"], None, preview=False, existing="skip")


@pytest.mark.parametrize("multirun", [True, False])
@pytest.mark.parametrize("setting", ["hydra.output_subdir=X", "hydra/job_logging=default"])
def test_files_of_hydras_in_a_run_folder_are_refused_before_anything_starts(place, setting, multirun):
    text = place.here("run", *["-m"] * multirun, *SMALL, setting, code=2)
    assert f"{setting.partition('=')[0]}=" in text and "no place in a run folder" in text
    assert not place.outputs.exists()
    place.here("run", *["-m"] * multirun, *SMALL, "hydra/job_logging=stdout", *["hydra/launcher=basic"] * multirun)
    (folder,) = place.outputs.glob("runs/default/*")
    assert sorted(path.name for path in folder.iterdir()) == sorted(runs.FILES)


def test_a_choice_without_a_name_is_called_after_its_yaml(place, stored):
    (place.folder / "conf" / "algorithm" / "own.yaml").write_text("_target_: traps.Trap\n")
    own = ["--config-dir", "conf", "plugins=[traps]", "algorithm=own", *SMALL[1:]]
    shutil.copytree(Path(connection.sqlite_path(stored) or "").parent, place.outputs)
    place.here("run", *own)
    text = place.here("run", "-m", *own, "seed=0,1", "hydra/launcher=basic")
    assert "2 cells, 1 done, 1 skipped" in text
    found = lookup.finished(place.outputs, "default", store=addresses.default_uri(place.outputs)).values()
    assert {run.settings["algorithm"]["name"] for run in found} == {"own"}
    assert "0 not uploaded" in place.here("status")


def test_no_jobs_at_once_are_refused(place):
    text = place.here("run", "-m", *SMALL, "hydra.launcher.n_jobs=0", code=2)
    assert "hydra.launcher.n_jobs=0: must be" in text and not place.outputs.exists()


def test_an_experiment_with_curves_stands_for_its_cells():
    planned = plan(["experiment=figure1", "n_seeds=3", "seed=0,1"], [], None)
    assert len(planned) == 44 and len({one.digest for one in planned}) == 44
    first = planned[0]
    assert (first.label, first.panel, first.number) == ("Q-learning seed=0", "FrozenLake 4×4", 1)
    assert first.experiment == "figure1" and first.n_seeds == 3


def test_values_of_any_kind_pass_through_hydras_grammar():
    for text in ("plain", "a b", "it's", "back\\slash", "a,b=[c]{d}", "ü#$", "end\\", "\\'"):
        assert compose.compose([f"experiment.name={command._quoted(text)}"])["experiment"]["name"] == text


@pytest.mark.integration
def test_a_store_is_used_by_all_jobs_and_tags_are_set(place):
    text = place.run(
        "run", "-m", *SMALL[1:], "seed=range(4)", "algorithm=q_learning,speedy_q", "experiment.name='zwei Wörter'"
    )
    assert "audit: 8 of 8" in text
    from mqlearn.storage import addresses, sql, store

    uri = addresses.default_uri(place.outputs)
    assert len(store.finished(uri, "zwei Wörter")) == 8
    tagged = sql.query(uri, "SELECT key, COUNT(DISTINCT value) FROM tags WHERE key IN (?, ?, ?) GROUP BY key",
                          "sweep", "cell", "group")  # fmt: skip
    assert tagged == [("cell", 8), ("group", 1), ("sweep", 1)]
    assert "8 skipped" in place.run(
        "run", "-m", *SMALL[1:], "seed=range(4)", "algorithm=q_learning,speedy_q", "experiment.name='zwei Wörter'"
    )
    assert json.loads((next(journal.sweeps(place.outputs).glob("2*")) / "plan.json").read_text())["ended"]


def test_status_tells_what_has_become_of_each_cell(place):
    place.sweep("algorithm.kind=none,raise", "algorithm.i=1,2", "hydra/launcher=basic", code=1)
    target = place.folder / "status.json"
    text = place.here("status", "experiment.name=default", "--json", str(target), code=1)
    assert "default: 4 planned, 2 done, 0 running, 2 failed, 0 killed, 0 missing" in text
    assert "ArithmeticError: trap 1" in text
    content = json.loads(target.read_text())
    assert [row["status"] for row in content["cells"]] == ["finished", "finished", "failed", "failed"]
    (gone,) = [row for row in content["cells"] if row["cell"] == "algorithm.kind=none algorithm.i=1"]
    curves = Path(gone["folder"]) / "curves.npz"
    curves.write_bytes(curves.read_bytes()[:-100])
    assert "1 done, 0 running, 2 failed, 0 killed, 0 missing, 1 damaged" in place.here("status", code=1)
    unasked = place.here("status", "tracking=none", code=1)
    assert "1 done, 0 running, 2 failed, 0 killed, 0 missing, 1 damaged, 0 diverged, 0 not uploaded" in unasked
    unknown = place.here("status", "tracking=none", "experiment.name=other", code=2)
    assert "no sweep has planned it; planned: default" in unknown
    misspelt = place.here("status", "experiment.name=defualt", code=2)
    assert "experiment.name='defualt'" in misspelt and "(did you mean 'default'?)" in misspelt


def test_status_of_a_thousand_runs_asks_the_store_once(stored, outputs, monkeypatch):
    from mqlearn.cli import status
    from mqlearn.storage import sql

    uri = stored
    number = tracking.prepare(uri, "many")
    planned = [
        {"number": i, "digest": f"{i:064x}", "name": f"cell {i}", "experiment": "many", "cell": "", "group": "",
         "folder": str(outputs / "runs" / "many" / str(i)), "command": "", "done_before": False}
        for i in range(1, 1001)
    ]  # fmt: skip
    folder = journal.sweeps(outputs) / "20260101-000000-0000"
    (folder / "cells").mkdir(parents=True)
    journal.write_json(
        folder / journal.PLAN, {"id": folder.name, "started": journal.now(), "cells": planned, "ended": "x"}
    )
    import sqlite3

    with sqlite3.connect(outputs / "mlflow.db") as database:
        for one in planned[:900]:
            run = one["digest"][32:]
            database.execute(
                "INSERT INTO runs (run_uuid, name, experiment_id, status, lifecycle_stage, start_time, end_time) "
                "VALUES (?, ?, ?, 'FINISHED', 'active', 0, 1)",
                (run, one["name"], number),
            )
            tags = {"digest": one["digest"], "status": "diverged" if one["number"] % 2 else "finished"}
            database.executemany("INSERT INTO tags VALUES (?, ?, ?)", [(key, text, run) for key, text in tags.items()])
    database.close()
    asked = []
    query = sql.query
    monkeypatch.setattr(sql, "query", lambda *arguments: asked.append(arguments) or query(*arguments))
    found = status.experiment(uri, "many", [journal.read_plan(folder) | {"folder": folder}])
    assert len(asked) == 1
    counts = {key: found[key] for key in ("planned", "done", "diverged", "missing", "not_uploaded")}
    assert counts == {"planned": 1000, "done": 900, "diverged": 450, "missing": 100, "not_uploaded": 0}
