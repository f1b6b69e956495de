"""Jobs of several cells: how many each gets, and what runs again when one is killed."""

import json
import math
from collections import Counter
from dataclasses import dataclass

import pytest
from sweep_place import SMALL, Place

from mqlearn.errors import SettingError
from mqlearn.experiments.sweep import chunks, journal

TOLD = """
import os, signal
from dataclasses import dataclass
from pathlib import Path
import mqlearn as mq

@dataclass(frozen=True)
class Told(mq.Rule):
    \"\"\"Q-learning that tells in which process a cell runs; the process of i=1 is killed the first time.\"\"\"
    i: int = 0

    def update(self, k, q, q_prev, target, target_prev):
        if "MQLEARN_JOB" in os.environ:
            first = not list(Path("ran").glob("1-*"))
            Path("ran").joinpath(f"{self.i}-{os.getpid()}").touch()
            if self.i == 1 and first:
                os.kill(os.getpid(), signal.SIGKILL)
        a = self.step_size(k)
        return (1 - a) * q + a * target
"""


@dataclass
class Cell:
    """Of a plan, as far as sizes go."""

    seconds: float


def size(number: int, launcher: str, seconds: float = 0.0, per_job: int | str = "auto", **chosen: str) -> int:
    words = {f"hydra.launcher.{key}": value for key, value in chosen.items()}
    return chunks.size([Cell(seconds)] * number, launcher, per_job, words)  # type: ignore[list-item]  # all that is read of them


def test_each_place_has_several_jobs_and_none_takes_long(monkeypatch):
    monkeypatch.setattr(chunks, "most_jobs", lambda launcher: 1000)
    assert size(100, "joblib", n_jobs="2") == math.ceil(100 / 8)
    assert size(100_000, "joblib", n_jobs="2") == int(20 / 0.3)
    assert size(100, "joblib", 60.0, n_jobs="2") == size(100, "basic") == size(100, "submitit_local") == 1
    assert size(200, "submitit_slurm") == 1 and size(200, "submitit_slurm", array_parallelism="50") == 4
    assert size(100_000, "submitit_slurm") == math.ceil(100_000 / 256)
    assert size(100_000, "submitit_slurm", 20.0) == int(600 / 20.3)
    assert size(100_000, "submitit_slurm", 1000.0) == 1
    assert size(100, "ray", per_job=7) == 7 and size(0, "joblib") == 1


def test_the_cells_are_divided_in_their_order():
    assert [list(one) for one in chunks.divided(list(range(7)), 3)] == [[0, 1, 2], [3, 4, 5], [6]]  # type: ignore  # numbers do


@pytest.mark.parametrize("value", [0, -1, 7, 1.5, "many", True])
def test_what_cannot_be_names_the_number_of_cells(value):
    with pytest.raises(SettingError, match=r"cells_per_job=.*must be auto, or a whole number from 1 to 6"):
        chunks.wanted(value, 6)


def test_of_a_job_that_is_killed_only_what_is_not_finished_runs_again(tmp_path):
    place = Place(tmp_path)
    (tmp_path / "traps.py").write_text(TOLD)
    (tmp_path / "conf" / "algorithm" / "told.yaml").write_text("_target_: traps.Told\nname: told\ni: 0\n")
    (tmp_path / "ran").mkdir()
    words = ["algorithm=told", "algorithm.i=range(0,8)", "plugins=[traps]", "--config-dir", "conf", *SMALL]
    place.run("run", "-m", "hydra.launcher.n_jobs=2", "hydra.sweeper.cells_per_job=4", *words)
    processes = Counter(path.name.partition("-")[0] for path in (tmp_path / "ran").iterdir())
    again = {i for i in "01234567" if processes[i] == 2}  # joblib ends all its workers with one that died
    assert "1" in again and len(again - {*"4567"}) == 1 and len(again) <= 2, processes
    assert processes.total() == 8 + len(again)
    (sweep,) = journal.sweeps(place.outputs).iterdir()
    assert {state["state"] for state in journal.states(sweep).values()} == {"done"}
    first = json.loads((sweep / "jobs" / "1.json").read_text())
    assert [one["number"] for one in first["cells"]] == [1, 2, 3, 4]
