"""Results of `mq.run` as runs, of which all analysis reads: without a folder, with the settings of their objects."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mqlearn.analysis.comparison.selection import GRID_POINT
from mqlearn.errors import SettingError
from mqlearn.experiments.settings import described
from mqlearn.experiments.settings.cell import Cell, name_of
from mqlearn.learning.record import LEARNED_TABLES, Origin, Result, table_of_curves
from mqlearn.storage import runs

_NOWHERE = Path("(in memory)")


@dataclass(frozen=True, eq=False, repr=False)
class LoadedRun(runs.Run):
    """A finished run: name, digest, status, summary, settings (nested dict), curves and tables (arrays), folder.

    curves: `iteration` (C,), `samples` (C,) if recorded, and each metric (n_seeds, C).
    """

    def __repr__(self) -> str:
        return f"Run({self.name!r}, {self.status}, {self.settings['n_seeds']} seeds, {self.folder})"

    def frame(self) -> Any:
        """A pandas table with a row for each seed and checkpoint: seed, iteration and a column for each metric."""
        return table_of_curves(self.curves["iteration"], self._metrics)

    def plot(self, metric: str | None = None, axis: str = "iterations") -> Any:
        """A Matplotlib figure: mean and 95 % interval of a metric, by default the first, against iterations or samples.

        Raises SettingError.
        """
        from mqlearn.analysis import axis as axes
        from mqlearn.analysis.figures import quick
        from mqlearn.checks import choice
        from mqlearn.experiments.settings.override_commands import operator_name

        operator = operator_name(self.settings)
        choice("axis", axis, axes.KINDS)
        return quick.plot({axis: axes.positions(self, axis)}, self._metrics, metric, axis, self.name, operator)

    @property
    def _metrics(self) -> dict[str, np.ndarray]:
        return {name: curve for name, curve in self.curves.items() if name not in runs.AXES}


@dataclass(frozen=True, eq=False, repr=False)
class MemoryRun(LoadedRun):
    """A run that `mq.run` or `mq.sweep` made, in no folder. result: its `Result`."""

    result: Result

    def theory(self) -> Any:
        """`Result.theory` of it."""
        return self.result.theory()

    def save(self, path: str | Path) -> Path:
        """`Result.save` of it."""
        return self.result.save(path)


def as_run(result: Result, problem: str | None = None, rule: str | None = None, point: str = "") -> MemoryRun:
    """A result as a run.   problem, rule: what they are called, by default what they call themselves.   point: of a
    grid, within which it is compared.

    Raises SettingError for one that was not made by `mq.run`, `mq.sweep` or `mq.read`.
    """
    record = record_of(result)
    settings = dict(record["settings"])
    for group, name in (("env", problem), ("algorithm", rule)):
        settings[group] = settings[group] | ({} if name is None else {"name": name})
    name = record["name"] if problem is None and rule is None else name_of(settings, {}, origin_of(result).rule)
    summary = runs.summary_of(_with_curves(record["digest"], result), name, result) | result.facts
    summary |= {key: record[key] for key in ("numerics_version", "made_of", "effective")}
    summary |= {"ended": None, "reward": result.reward, "warnings": [*result.warnings]}
    summary |= {GRID_POINT: point} if point else {}
    summary["findings"] = [found.record() for found in result.findings]
    tables = {"q": result.q, "error_iteration": result.error_iteration, "error_tables": result.error_tables}
    tables |= {key: getattr(result, key) for key in LEARNED_TABLES if key != "q"}
    run = MemoryRun(_NOWHERE, summary, result)
    vars(run).update(
        settings=settings,
        curves={"iteration": result.iteration, "samples": result.samples, **result.curves},
        tables={key: table for key, table in tables.items() if table is not None},
    )
    return run


def _with_curves(digest: str, result: Result) -> str:
    """A digest of a result and its numbers.

    An object may have changed since it was run, or hold what no digest sees: runs of other numbers are never one run.
    """
    code = hashlib.sha256(digest.encode())
    for name, curve in sorted({**result.curves, "iteration": result.iteration}.items()):
        code.update(f"{name}{curve.shape}".encode() + np.ascontiguousarray(curve).tobytes())
    return code.hexdigest()


def record_of(result: Result) -> dict[str, Any]:
    """What says of what a result was made, as plain data: settings, digest, name, made_of, effective, numerics_version.

    Raises SettingError.
    """
    from mqlearn.learning.loop import NUMERICS_VERSION

    origin = origin_of(result)
    if origin.record is not None:
        return dict(origin.record)
    cell, made_of = described.cell_of(origin.mdp, origin.rule, origin.setup)
    facts = {"made_of": made_of, "effective": cell.effective, "numerics_version": NUMERICS_VERSION}
    return {"settings": cell.settings, "digest": cell.digest, "name": cell.name, **facts}


def cell_of(result: Result) -> Cell:
    """The cell of a result; of one that was read its objects are made again from what ships.

    Raises SettingError where its file does not hold them: a simulator, a rule, a step size or a policy of the user's.
    """
    origin = origin_of(result)
    if origin.setup is not None:
        return described.cell_of(origin.mdp, origin.rule, origin.setup)[0]
    assert origin.record is not None
    return described.rebuilt(origin.record, origin.mdp, origin.arrays)


def origin_of(result: Result) -> Origin:
    """Of what a result was made. Raises SettingError where that is not known."""
    if result.origin is None:
        raise SettingError("result", result, "was put together by hand: it does not say of what problem and rule it is")
    return result.origin


def named(some: Any) -> Iterator[tuple[str | None, Any]]:
    """The items of a list, or of a mapping with their names."""
    if isinstance(some, Mapping):
        yield from ((str(name), one) for name, one in some.items())
    else:
        yield from ((None, one) for one in some)
