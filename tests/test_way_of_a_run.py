"""How many packages a reader goes through who follows a run from the command line to the first kernel."""

import itertools
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

from mqlearn import kernels
from mqlearn.paths import PACKAGE

CELL = ("run", "env=frozen_lake_4x4", "iterations=20", "n_seeds=2", "tracking=none")
WAY_DOWN = ["cli", "experiments", "learning", "learners"]  # which calls kernels
# Checks, with all that they call: base modules (errors, checks, files, paths, ...), the files that do nothing else, and
# functions that are named so. What is printed before a run is left out with them.
CHECKS = (
    "cli/arguments.py",
    "cli/streams.py",
    "experiments/forecast.py",
    "experiments/presentation/printed.py",
    "learners/operator_check.py",
    "learning/combinations.py",
    "learning/run_warnings.py",
    "sampling/check.py",
    "stateful/check.py",
)
CHECKED = ("check", "validated", "of_problem", "before_run")


@dataclass(eq=False, repr=False)
class Call:
    """A call of a function of ours: its file below the package, its name, and what it called."""

    file: str
    name: str
    calls: list["Call"] = field(default_factory=list)

    @property
    def package(self) -> str:
        return self.file.rpartition("/")[0].partition("/")[0]

    @property
    def checks(self) -> bool:
        return not self.package or self.file in CHECKS or self.name.startswith(CHECKED)


def followed(mqlearn, monkeypatch) -> list[Call]:
    """The calls that stand on each other at the first kernel call of a run, `cli.run.run` first."""
    open_calls, down = [Call("", "")], []
    learn = kernels.synchronous

    def seen(frame, event, _) -> None:
        file = frame.f_code.co_filename
        if down or not file.startswith(f"{PACKAGE}/"):
            return
        if event == "call":
            one = Call(file.removeprefix(f"{PACKAGE}/"), frame.f_code.co_name)
            open_calls[-1].calls.append(one)
            open_calls.append(one)
        elif event == "return" and len(open_calls) > 1:
            open_calls.pop()

    def first(*arguments, **named):
        down.extend(open_calls) if not down else None
        return learn(*arguments, **named)

    assert mqlearn(*CELL).code == 0  # imports and compiles what the next one needs
    monkeypatch.setattr(kernels, "synchronous", first)
    sys.setprofile(seen)
    try:
        mqlearn(*CELL, "seed=1")
    finally:
        sys.setprofile(None)
    begin = next(i for i, one in enumerate(down) if (one.file, one.name) == ("cli/run.py", "run"))
    return down[begin:]


def entered(call: Call, down: list[Call]) -> Iterator[Call]:
    """The calls in their order. A function that calls none of ours is only looked up, but for the last one."""
    yield call
    for one in call.calls:
        if not one.checks and (one.calls or one is down[-1]):
            yield from entered(one, down)


def test_from_the_command_line_to_the_first_kernel_a_reader_changes_the_package_seldom(mqlearn, monkeypatch):
    """The way down has four packages and the kernels, 4 changes. Fifteen are there with what is prepared beside it: a
    folder is claimed and cleared, the fixed point found, tables made to draw from, the rule asked for its weights."""
    down = followed(mqlearn, monkeypatch)
    assert [name for name, _ in itertools.groupby(one.package for one in down)] == WAY_DOWN
    trace = [*(one.package for one in entered(down[0], down)), "kernels"]
    trace = [name for name, _ in itertools.groupby(trace)]
    assert len(trace) - 1 <= 15, " -> ".join(trace)
