"""How long a run takes is said before it starts, in the words that people use."""

import os

import pytest

from mqlearn.experiments import progress
from mqlearn.experiments.jobs import _announced
from mqlearn.experiments.progress import Progress, duration
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


@pytest.fixture
def clock(monkeypatch):
    """The time of progress lines, moved by hand."""

    class Clock:
        now = 0.0

        def monotonic(self) -> float:
            return self.now

    moved = Clock()
    monkeypatch.setattr(progress, "time", moved)
    return moved


def told(clock, capsys, calls, compiles=()) -> list[str]:
    """The lines of a run of 1,000,000 iterations, called at these (seconds, k); compiling begins after some calls."""
    with Progress("run", 1_000_000) as shown:
        for number, (seconds, k) in enumerate(calls):
            clock.now = seconds
            shown(k, 0.5)
            if number in compiles:
                shown.compiling()
    return capsys.readouterr().err.splitlines()


def test_what_compiles_before_the_first_iterations_is_not_in_the_rate(clock, capsys):
    """20 s until the first 10 iterations are done, then 100,000 a second."""
    calls = [(0, 0), (20, 10), (22, 200_010), (24, 400_010)]
    (line,) = told(clock, capsys, calls)
    assert "100,000/s, 8 s left" in line


def test_what_compiles_in_between_is_not_in_the_rate(clock, capsys):
    calls = [(0, 0), (0.1, 10), (0.2, 20), (30.2, 30), (32.2, 200_030)]
    assert "100,000/s, 8 s left" in told(clock, capsys, calls, compiles=(2,))[0]


def test_the_time_left_is_not_foretold_from_the_first_checkpoints(clock, capsys):
    """They lie close together: 26 iterations in 2 s say nothing of the others."""
    early, later = told(clock, capsys, [(0, 0), (0.1, 1), (2.2, 26), (20.1, 200_001)])
    assert early == "run: 26 of 1,000,000 iterations, error 0.5"
    assert later == "run: 200,001 of 1,000,000 iterations, 10,000/s, 80 s left, error 0.5"


def test_nothing_is_said_of_a_run_that_has_not_begun(clock, capsys):
    assert told(clock, capsys, [(0, 0), (60, 0), (120, 0)]) == []


def test_a_function_that_compiles_while_learning_stops_the_clock(clock, capsys):
    """The word of it comes from the cache of compiled code."""
    from mqlearn import jit

    with Progress("run", 1000) as shown:
        shown(0, 0.5)
        shown(1, 0.5)
        assert shown.started is not None and shown.compiling in jit._told
        for tell in jit._told:
            tell()
        assert shown.started is None
    assert capsys.readouterr().err == ""
