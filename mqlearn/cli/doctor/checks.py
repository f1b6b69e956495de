"""Serial = parallel = repeated = the literal equation: small runs, computed twice and compared bit by bit."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from mqlearn.errors import SettingError
from mqlearn.experiments import execute
from mqlearn.experiments.plan import composed, expand
from mqlearn.experiments.settings.cell import Cell, build, rounded
from mqlearn.experiments.settings.plugins import FOLDERS
from mqlearn.problems.solvers import condition
from mqlearn.rounding import SUMS, Rounding, joined
from mqlearn.storage import array_comparison, runs

Verdict = Literal["same", "compatible", "inside", "noted", "not_checked", "different", "outside", "failed"]
HOLDS = ("same", "compatible", "inside", "noted", "not_checked")  # not_checked: nothing here to compare with

THREADS = 3
_LEAST = {"n_seeds": 5, "iterations": 1}  # threads get four synchronous seeds each: with fewer, one has them all

_COMMON = ("tracking=none", "experiment.name=doctor", "n_seeds=10", "iterations=3000", "n_checkpoints=15")
CASES = {
    "synchronous table": ("env=frozen_lake_8x8", "algorithm=momentum_q", "sampling=synchronous"),
    "markovian table": ("env=frozen_lake_4x4", "algorithm=speedy_q", "sampling=markovian", "evaluation.episodes=20"),
    "replay, linear features": (
        "env=frozen_lake_blocks", "env.repeat=2", "algorithm=momentum_q_linear", "algorithm.lam=0.9999",
        "step_size=constant", "step_size.alpha=0.1", "sampling=replay", "sampling.start=uniform",
        "sampling.capacity=1000", "features=aggregation", "features.tile=2", "theta0=0.05", "evaluation.episodes=20",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """What a check found: the first difference, or what was the same."""

    verdict: Verdict
    detail: str


_GROWTH = 1e3
_GROWN = Outcome("not_checked", "the errors of this rule grow without bound here, and rounding with them")


@dataclass(frozen=True)
class Check:
    """A check, not yet carried out. compared: what with what; settings: of the runs, empty if there are none."""

    name: str
    compared: str
    settings: str
    carry_out: Callable[[], Outcome]


@dataclass(frozen=True, eq=False)
class Case:
    """A small run, repeated in several ways below `folder`."""

    name: str
    cell: Cell
    folder: Path

    @cached_property
    def alone(self) -> runs.Run:
        """With one thread; the others are compared with it."""
        return self.run("alone", n_workers=1)

    def run(self, label: str, **changes: Any) -> runs.Run:
        cell = build(self.cell.settings | changes)
        return execute.perform(cell, self.folder / self.name / label, execute.UNTRACKED, quiet=True)

    @property
    def text(self) -> str:
        settings = self.cell.settings
        kind = ", ".join(settings[group]["name"] for group in ("sampling", "features"))
        seeds = f"{settings['n_seeds']} seeds of seed={settings['seed']}"
        return f"{self.cell.name}, {kind}, {seeds}, {settings['iterations']} iterations"


def overrides(case: Sequence[str], own: Sequence[str]) -> list[str]:
    """The overrides of a case with the user's in place of its own."""
    given = {text.partition("=")[0] for text in own}
    kept = [text for text in (*_COMMON, *case) if text.partition("=")[0] not in given]
    ((_, _, words),) = expand({"curves": {"": list(own)}}, kept)
    return words


def cases(own: Sequence[str], config_dir: str | None, folder: Path) -> list[Case]:
    """All cases with the user's overrides, validated. Raises SettingError."""
    planned = composed({("doctor", name): overrides(words, own) for name, words in CASES.items()}, config_dir)
    for name, least in _LEAST.items():
        if planned[0].settings[name] < least:
            raise SettingError(name, planned[0].settings[name], f"must be at least {least}: else nothing is proved")
    return [Case(one.label, one.cell, folder) for one in planned]


def of_case(case: Case) -> list[Check]:
    """Threads, fewer seeds, the same once more, a process of its own; a kernel with its equation, if there is one."""
    total = case.cell.settings["n_seeds"]
    fewer = max(1, total // 3)
    some = f"a run of {fewer} = the first {fewer} of {total}"
    ways: list[tuple[str, str, Callable[[], Outcome]]] = [
        ("parallel", f"1 thread = {THREADS} threads", lambda: threads(case)),
        ("fewer seeds", some, lambda: seeds(case, fewer)),
        ("repeated", "twice in this process", lambda: repeated(case)),
        ("fresh process", "the same in a process of its own, by `mqlearn rerun`", lambda: fresh(case)),
    ]
    if case.name == "synchronous table":
        ways.append(("kernel", "compiled = the equation in NumPy, where no move slips", lambda: table_kernel(case)))
    if case.cell.settings["features"]["name"] != "tabular":
        ways.append(("kernel", "in O(active features) = the equation in O(d)", lambda: linear_kernel(case)))
    return [Check(f"{name}, {case.name}", compared, case.text, way) for name, compared, way in ways]


def threads(case: Case) -> Outcome:
    return _same(case.run("threads", n_workers=THREADS), case.alone, ("several threads", "one thread"))


def seeds(case: Case, fewer: int) -> Outcome:
    return _same(
        case.run(f"first {fewer}", n_seeds=fewer, n_workers=1), case.alone, ("fewer seeds", "all seeds"), fewer
    )


def repeated(case: Case) -> Outcome:
    return _same(case.run("again", n_workers=1), case.alone, ("the second time", "the first time"))


def fresh(case: Case) -> Outcome:
    modules = case.cell.settings["plugins"]
    own = [f"plugins=[{','.join(modules)}]"] if modules else []
    done = mqlearn("rerun", str(case.alone.folder), *own, outputs=case.folder / "outputs")
    told = [line.strip() for line in done.stdout.splitlines()]
    if done.returncode == 0:
        return Outcome("same" if len(told) == 1 else "compatible", "; ".join([told[0].partition(":")[0], *told[1:]]))
    if told and told[0].startswith("different: "):
        return Outcome("different", told[1].removeprefix("first "))
    return failed(done)


def table_kernel(case: Case) -> Outcome:
    """The rule's own `update` on whole tables: where moves never slip, a sampled target is the exact one."""
    from mqlearn.problems.mdp import bellman

    made = case.run("no slips", env=case.cell.settings["env"] | {"slippery": False}, n_workers=1)
    if _grows(made):
        return _GROWN
    cell = build(made.settings)
    rule = cell.run_arguments["rule"].with_step_size(cell.run_arguments["step_size"])
    q = q_prev = np.zeros((cell.mdp.n_states, cell.mdp.n_actions))
    for k in range(cell.settings["iterations"]):
        moved = rule.update(np.full((1, 1), float(k)), q, q_prev, bellman(cell.mdp, q), bellman(cell.mdp, q_prev))
        q, q_prev = moved, q
    name = "table q"  # each seed's
    found = {name: made.tables["q"][:, cell.mdp.learned]}
    expected = {name: np.broadcast_to(q[cell.mdp.learned], found[name].shape)}
    return _close(found, expected, made, cell)


def linear_kernel(case: Case) -> Outcome:
    """The kernel that moves the active features alone, and the one that writes the equation out.

    A ball that nothing leaves asks for the latter. Returns are left out: actions that tie may change by rounding.
    """
    if _grows(case.alone):
        return _GROWN
    literal = case.run("literal", linear=case.cell.settings["linear"] | {"projection": 1e300}, n_workers=1)
    wanted = ("curve q_error", "curve theta_error", "table theta", "table theta_average", "table visits")
    found, expected = (
        {name: array for name, array in array_comparison.of_run(run).items() if name in wanted}
        for run in (case.alone, literal)
    )
    return _close(found, expected, literal, case.cell)


def _grows(run: runs.Run) -> bool:
    """Whether the errors of a seed leave all bounds: rounding then grows with them, and says nothing of the kernel."""
    errors = run.curves["q_error"]
    return bool(run.diverged) or not (errors[:, -1] <= _GROWTH * errors[:, 0]).all()


def _same(new: runs.Run, old: runs.Run, sides: tuple[str, str], n_seeds: int | None = None) -> Outcome:
    numbers = array_comparison.of_run(new, n_seeds)
    compared = array_comparison.compare(
        numbers, array_comparison.of_run(old, n_seeds), sides=sides, place=array_comparison.place_in(old)
    )
    return Outcome(compared.verdict, compared.difference or f"{counted(numbers)}, bit for bit")


def _close(found: Mapping[str, Any], expected: Mapping[str, Any], run: runs.Run, cell: Cell) -> Outcome:
    """A kernel with its equation, which add the same terms in another order."""
    sums = Rounding((SUMS,), condition(cell.mdp))
    known, sides = rounded(cell), ("the kernel", "the equation")
    rounding = {name: joined([sums, known.get(name)]) or sums for name in found}
    place = array_comparison.place_in(run)
    compared = array_comparison.compare(found, expected, rounding=rounding, sides=sides, place=place)
    number = counted(found)
    if compared.verdict == "compatible":
        return Outcome("compatible", f"{number} within {compared.agree}, first {compared.difference}")
    return Outcome(compared.verdict, compared.difference or f"{number}, bit for bit")


def counted(numbers: Mapping[str, Any]) -> str:
    """4 curves, 3 tables."""
    kinds = [name.partition(" ")[0] for name in numbers if name != "curve iteration"]
    return ", ".join(f"{kinds.count(kind)} {kind}{'s' * (kinds.count(kind) > 1)}" for kind in dict.fromkeys(kinds))


# --- processes of their own -----------------------------------------------------------------------------------------


def command(*arguments: str) -> list[str]:
    """`mqlearn` as this interpreter has it; -P: nothing in the current directory stands in for it."""
    return [sys.executable, "-P", "-m", "mqlearn", *arguments]


def environment(outputs: Path) -> dict[str, str]:
    """This process's, but for what leads to the user's outputs and store."""
    ours = {key for key in os.environ if key.startswith(("MQLEARN_", "MLFLOW_"))} - {FOLDERS}
    kept = {key: value for key, value in os.environ.items() if key not in ours}
    return kept | {"MQLEARN_OUTPUTS": str(outputs)}


def mqlearn(*arguments: str, outputs: Path) -> subprocess.CompletedProcess[str]:
    """A command line in a process of its own, to its end."""
    return subprocess.run(command(*arguments), env=environment(outputs), capture_output=True, text=True)


def failed(done: subprocess.CompletedProcess[str]) -> Outcome:
    said = (done.stderr.strip() or done.stdout.strip() or "nothing was said").splitlines()[-1]
    return Outcome("failed", f"exit code {done.returncode}: {said}")
