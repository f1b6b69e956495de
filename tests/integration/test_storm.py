"""Sweeps whose processes are killed at random: nothing twice, nothing lost, and the truth about it at every look."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mqlearn.cli import status
from mqlearn.experiments import execute, processes
from mqlearn.experiments.settings.cell import build
from mqlearn.experiments.sweep.plan import plan
from mqlearn.storage import addresses, runs, store

pytestmark = [pytest.mark.integration, pytest.mark.alone]
SMALL = ["iterations=200000", "n_checkpoints=5", "n_seeds=2"]


class Storm:
    """An outputs folder, the commands that fill it, and what is counted meanwhile."""

    def __init__(self, outputs: Path, launcher: str) -> None:
        self.outputs, self.launcher, self.uri = outputs, launcher, addresses.default_uri(outputs)
        self.kills: Counter[str] = Counter()
        self.looks = 0

    def start(self, cells: str) -> subprocess.Popen[bytes]:
        overrides = [f"seed={cells}", *SMALL, f"hydra/launcher={self.launcher}"]
        if self.launcher == "joblib":
            overrides.append("hydra.launcher.n_jobs=2")
        code = "from mqlearn.cli.main import main; main()"
        private = {key: value for key, value in os.environ.items() if not key.startswith(("MQLEARN_", "MLFLOW_"))}
        with (self.outputs.parent / "log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-c", code, "run", "-m", *overrides],
                cwd=self.outputs.parent,
                env=private | {"MQLEARN_OUTPUTS": str(self.outputs)},
                start_new_session=True,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def kill(self, process: subprocess.Popen[bytes], rng: random.Random) -> None:
        workers = processes.descendants(process.pid)
        victim = rng.choice(["worker", "worker", "parent", "group"] if workers else ["parent", "group"])
        try:
            if victim == "group":
                os.killpg(process.pid, signal.SIGKILL)
            else:
                os.kill(process.pid if victim == "parent" else rng.choice(workers), signal.SIGKILL)
        except ProcessLookupError:  # it ended meanwhile
            return
        self.kills[victim] += 1

    def whole(self) -> set[str]:
        folders = self.outputs.glob("runs/default/[!.]*")
        return {run.digest for folder in folders if (run := runs.complete(folder)) is not None}

    def look(self) -> dict[str, Any]:
        """What `mqlearn status` says, which lies between what is on disk before and after."""
        before = self.whole()
        said = status.experiment(self.uri, "default", status._plans(self.outputs))
        done = {row["digest"] for row in said["cells"] if row["status"] in runs.DONE}
        assert before <= done <= self.whole()
        counted = sum(said[key] for key in ("done", "running", "failed", "killed", "missing", "damaged"))
        assert counted == len(said["cells"]) and said["damaged"] == 0
        self.looks += 1
        return said

    def living(self) -> list[int]:
        mark, found = f"MQLEARN_OUTPUTS={self.outputs}".encode(), []
        for path in Path("/proc").glob("[0-9]*/environ"):
            try:
                if mark in path.read_bytes().split(b"\0") and int(path.parent.name) != os.getpid():
                    found.append(int(path.parent.name))
            except OSError:
                continue
        return found


@pytest.mark.parametrize(("launcher", "n_cells", "n_kills"), [("joblib", 72, 8), ("basic", 36, 5)])
def test_a_storm_of_kills_loses_nothing_and_does_nothing_twice(
    tmp_path, migrated, monkeypatch, capsys, launcher, n_cells, n_kills
):
    rng = random.Random(n_cells)
    outputs = tmp_path / "outputs"
    outputs.mkdir()
    (outputs / "mlflow.db").write_bytes(migrated.read_bytes())
    monkeypatch.setenv("MQLEARN_OUTPUTS", str(outputs))
    storm = Storm(outputs, launcher)
    cells = [f"range({n_cells})", f"range({n_cells - 1},{n_cells // 2},-1)"]  # the second from the other end
    running = [storm.start(some) for some in cells]
    before, end = 0, time.monotonic() + 900
    try:
        while any(process.poll() != 0 for process in running):
            assert time.monotonic() < end, (tmp_path / "log").read_text()[-3000:]
            time.sleep(rng.uniform(0.1, 1.0))
            for number, process in enumerate(running):
                if process.poll() not in (None, 0):  # killed, or a cell was killed twice: the same command again
                    running[number] = storm.start(cells[number])
            done = storm.look()["done"]
            if storm.kills.total() < n_kills and (done > before or rng.random() < 0.2):  # else all die as they start
                storm.kill(rng.choice(running), rng)
                before = done
        gone = time.monotonic() + 10
        while storm.living():
            assert time.monotonic() < gone, storm.living()
            time.sleep(0.2)
    finally:
        for pid in storm.living():
            os.kill(pid, signal.SIGKILL)
        for process in running:
            process.wait()

    assert storm.kills.total() >= n_kills // 2  # else the cells are too quick for a storm
    wanted = plan([f"seed=range({n_cells})", *SMALL], ["n_workers=1"] if launcher == "joblib" else [], None)
    stored = Counter(one.digest for one in store.finished(storm.uri, "default"))
    twice, lost = sum(count > 1 for count in stored.values()), len({one.digest for one in wanted} - stored.keys())
    with capsys.disabled():
        told = ", ".join(f"{count} of a {victim}" for victim, count in storm.kills.items())
        print(f"\n{launcher}: {n_cells} cells, {storm.kills.total()} kills ({told}), {lost} lost, {twice} twice")
    assert (lost, twice, len(stored)) == (0, 0, n_cells)
    assert store.running(storm.uri, "default") == []
    said = storm.look()
    assert (said["planned"], said["done"], said["not_uploaded"]) == (n_cells, n_cells, 0)
    assert not list(outputs.glob("runs/default/.*"))
    for one in wanted:
        alone = execute.perform(build(one.settings), tmp_path / "alone", execute.UNTRACKED, quiet=True)
        for name in (runs.CONFIG, runs.CURVES, runs.TABLES):
            assert (one.folder / name).read_bytes() == (alone.folder / name).read_bytes(), one.folder / name
        for path in alone.folder.iterdir():
            path.unlink()
        alone.folder.rmdir()
