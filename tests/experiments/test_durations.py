"""How long a run takes is said before it starts, in the words that people use."""

import os

import pytest

from mqlearn.experiments.jobs import _announced
from mqlearn.experiments.progress import duration
from mqlearn.experiments.settings.cell import build
from mqlearn.experiments.settings.compose import compose


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.1, "1 s"), (40, "40 s"), (119, "119 s"), (150, "2 minutes"), (7199, "120 minutes"), (10_800, "3 hours"),
     (1_709_390, "20 days"), (9.5e10, "3,010 years")],
)  # fmt: skip
def test_a_time_is_said_as_people_say_it(seconds, words):
    assert duration(seconds) == words


@pytest.mark.parametrize(("iterations", "said"), [("1e12", True), ("1e5", False)])
def test_a_run_of_days_is_announced_before_it_starts(iterations, said, capsys):
    _announced(build(compose([f"iterations={iterations}", "n_workers=1"])))
    printed = capsys.readouterr().err
    assert ("about 20 days of learning on this machine, besides compiling" in printed) == said
    assert bool(printed) == said


def test_more_workers_than_cores_do_not_shorten_it(capsys):
    cores = len(os.sched_getaffinity(0))
    for workers in (cores, 64 * cores):
        _announced(build(compose(["iterations=1e12", f"n_workers={workers}"])))
    first, second = capsys.readouterr().err.splitlines()
    assert first == second
