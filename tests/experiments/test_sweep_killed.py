"""Sweeps whose workers, processes, streams, disks or files fail lose no cell that did not."""

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from sweep_place import SMALL, Place, wait_for

from mqlearn.experiments import processes
from mqlearn.storage import lookup, runs


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
@pytest.mark.alone
def test_workers_killed_before_a_cell_began_cost_no_cell(place):
    process = place.start("run", "-m", *place.traps("algorithm.i=range(5)"))
    for _ in range(2):
        wait_for(lambda: workers(process))
        for pid in workers(process):
            os.kill(pid, signal.SIGKILL)
    output, errors = process.communicate(timeout=200)
    assert process.returncode == 0 and "5 cells, 5 done" in output, output + errors


@pytest.mark.integration
@pytest.mark.alone
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
@pytest.mark.alone
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
