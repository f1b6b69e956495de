"""Workers that are killed, interrupted, or started without standard streams."""

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from sweep_place import SMALL, wait_for

from mqlearn.errors import WorkerDied
from mqlearn.experiments import processes
from mqlearn.experiments.sweep import journal


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_that_is_killed_is_one_error_that_says_how_it_goes_on():
    said = pytest.raises(WorkerDied, match=r"killed.*is kept, and the same command")
    with said, processes.pool(1, processes.begin, os.getpid()) as pool:
        pool.submit(die).result()


FIGURE = """# @package _global_
iterations: 100000
n_seeds: 8
experiment: {name: own}
tracking: {name: none}
figure:
  module: mqlearn.analysis.figures.error_curves
  metric: q_error
  grid: {one: [seed=1], two: [seed=2], three: [seed=3], four: [seed=4]}
  curves:
    A: [algorithm=q_learning, env=frozen_lake_8x8]
    B: [algorithm=nesa, env=frozen_lake_8x8]
"""


@pytest.mark.integration
@pytest.mark.alone
def test_a_killed_worker_of_a_figure_costs_nothing_that_is_finished(place):
    (place.folder / "conf" / "experiment").mkdir()
    (place.folder / "conf" / "experiment" / "own.yaml").write_text(FIGURE)
    before = "import mqlearn.experiments.run_missing as m; m._WORTH_PROCESSES = m._LONG = 0; "
    code = before + "from mqlearn.cli.main import main; main()"
    command = [sys.executable, "-c", code, "figure", "own", "--config-dir", "conf"]
    environment = os.environ | {"MQLEARN_OUTPUTS": str(place.outputs)}
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, cwd=place.folder, env=environment, text=True, stdout=pipe, stderr=pipe)

    def workers() -> list[int]:
        found = []
        for pid in processes.descendants(process.pid):
            with contextlib.suppress(OSError):
                if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.append(pid)
        return found

    wait_for(lambda: len(workers()) >= 2)
    os.kill(workers()[0], signal.SIGKILL)
    errors = process.communicate(timeout=200)[1]
    assert process.returncode == 1 and "Traceback" not in errors, errors
    assert errors.splitlines()[-1].startswith("mqlearn: a worker process was killed"), errors
    kept = len([*place.outputs.rglob("curves.npz")])
    done = subprocess.run(command, cwd=place.folder, env=environment, text=True, capture_output=True, timeout=300)
    assert done.returncode == 0 and f"own: {kept} of 8 runs are finished" in done.stderr, done.stderr


@pytest.mark.parametrize("closed", [">&- 2>&-", "<&- >&- 2>&-"])
@pytest.mark.integration
def test_workers_of_a_sweep_do_without_standard_streams(place, closed):
    """As those of a command that cron has started."""
    words = shlex.join([sys.executable, "-c", "from mqlearn.cli.main import main; main()", "run", "-m", *SMALL])
    environment = os.environ | {"MQLEARN_OUTPUTS": str(place.outputs)}
    command = ["bash", "-c", f"{words} seed=0,1 hydra/launcher=joblib hydra.launcher.n_jobs=2 {closed}"]
    assert subprocess.run(command, cwd=place.folder, env=environment, timeout=200).returncode == 0
    assert len(place.curves) == 2


def test_what_fails_for_an_interruption_is_the_interruption(monkeypatch):
    """A compiler that is interrupted raises an error of its own."""
    monkeypatch.setattr(processes, "_PATIENCE", 1e6)  # else it ends this process
    sent = threading.Event()

    def compile_something() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            sent.wait(10)
        except KeyboardInterrupt:
            raise RuntimeError("no compiled object yet") from None

    with pytest.raises(KeyboardInterrupt), processes.ending_promptly(lambda: None):
        compile_something()
    assert not processes.interruption.is_set()
    with pytest.raises(RuntimeError, match="of its own"), processes.ending_promptly(lambda: None):
        raise RuntimeError("of its own")


def test_a_cell_that_fails_for_an_interruption_was_killed_and_has_not_failed(place, monkeypatch):
    def interrupted(*_: object) -> None:
        processes.interruption.set()
        raise RuntimeError("no compiled object yet")

    monkeypatch.setattr(journal, "_run", interrupted)
    try:
        text = place.here("run", "-m", *SMALL, "seed=0,1", "hydra/launcher=basic", code=130)
    finally:
        processes.interruption.clear()
    assert "no compiled object" not in text and "Traceback" not in text
    assert [state["state"] for state in place.states] == ["killed"]


@pytest.mark.integration
@pytest.mark.skipif(os.getuid() != 0, reason="mounts a small disk")
@pytest.mark.parametrize("launcher", ["joblib", "basic"])
def test_a_disk_that_fills_up_while_a_sweep_runs_is_told_by_its_name(place, launcher):
    place.outputs.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place.outputs], capture_output=True)
    if mounted.returncode:
        pytest.skip("nothing can be mounted here")
    try:
        process = place.start("run", "-m", *SMALL, "seed=0,1", f"hydra/launcher={launcher}")
        wait_for(lambda: [*place.outputs.glob("sweeps/*/plan.json")])
        with contextlib.suppress(OSError), (place.outputs / "filling").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(512))
        output, errors = process.communicate(timeout=200)
        assert process.returncode == 1 and "Traceback" not in errors, errors
        # It is full before a job's plan is written, which ends the sweep, or while cells run, each of which tells.
        unplanned = "the system refused" in output and "/jobs/" in output.replace("\n", "")
        assert output.count("No space left on device") >= (1 if unplanned else 2), output
        assert "process died" not in output, output
    finally:
        subprocess.run(["umount", "-l", place.outputs], check=True)
