"""Finished runs as one tidy table: a row for each metric, seed and checkpoint of a run, for other programs to read.

A row begins with what says which run it is of: its experiment, name and digest, its problem and its rule, and the
settings in which the runs of the table differ. `seed` is the number of the seed within its run, from 0.
"""

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from mqlearn.analysis import axis
from mqlearn.analysis.comparison.selection import SILENT, used, value_of
from mqlearn.errors import SettingError, nearest
from mqlearn.experiments.settings.override_commands import flat, varied
from mqlearn.storage.runs import AXES, Run

FORMATS = ("csv", "parquet", "json")
_MEASURED = {"metric": str, "seed": int, "iteration": int, "samples": int, "value": float}
_PROBED = 200  # rows, by which the size of a file is told
_PARQUET_ROW = 5  # bytes, measured: columns that repeat take next to nothing
_NO_SETTINGS = (*SILENT, "figure", "tuning")


LAST = "last"


class Table:
    """The columns of some runs, with the type of each, and their rows, made run by run.

    metrics: the curves that are in it, None for all.   at: of each seed one value, at the last checkpoint up to this
    iteration, or at the LAST one of a run; None for all checkpoints. Raises SettingError for a metric that no run has,
    and for an iteration before the first checkpoint of a run.
    """

    def __init__(self, some: Sequence[Run], metrics: Sequence[str] | None = None, at: int | str | None = None) -> None:
        self.runs, self.metrics, self.at = list(some), metrics, at
        known = list(dict.fromkeys(name for run in some for name in run.curves if name not in AXES))
        for name in metrics or ():
            if name not in known:
                raise SettingError("metric", name, f"must be one of {', '.join(known)}{nearest(name, known)}")
        for run in some:
            if isinstance(at, int) and at < run.curves["iteration"][0]:
                expected = f"is before the first checkpoint of {run.name}, {run.curves['iteration'][0]}"
                raise SettingError("at", at, expected)
        self.facts = _facts(self.runs)
        self.types = {name: _type([fact[name] for fact in self.facts]) for name in self.facts[0]} | _MEASURED

    def blocks(self) -> Iterator[dict[str, list[Any]]]:
        """The rows of one metric of one run after the other, as columns; None where a value is not known or not finite.

        Checkpoint after checkpoint of the first seed, then of the next.
        """
        for run, facts in zip(self.runs, self.facts, strict=True):
            own = {name: _as(self.types[name], value) for name, value in facts.items()}
            kept = self._columns(run)
            iteration, samples = run.curves["iteration"][kept], axis.samples(run)
            samples = None if samples is None else samples[kept]
            for metric in self._metrics(run):
                curve = run.curves[metric][:, kept]
                seeds, n = curve.shape
                yield {name: [value] * curve.size for name, value in own.items()} | {
                    "metric": [metric] * curve.size,
                    "seed": np.repeat(np.arange(seeds), n).tolist(),
                    "iteration": np.tile(iteration, seeds).tolist(),
                    "samples": [None] * curve.size if samples is None else np.tile(samples, seeds).tolist(),
                    "value": [value if math.isfinite(value) else None for value in curve.ravel().tolist()],
                }

    def _metrics(self, run: Run) -> list[str]:
        return [name for name in run.curves if name not in AXES and (self.metrics is None or name in self.metrics)]

    def _columns(self, run: Run) -> slice:
        """The checkpoints of a run that are in the table."""
        iteration = run.curves["iteration"]
        if self.at is None:
            return slice(None)
        last = len(iteration) if self.at == LAST else int(np.searchsorted(iteration, self.at, side="right"))
        return slice(last - 1, last)

    @property
    def n_rows(self) -> int:
        """How many rows there are; nothing is made for it."""
        return sum(run.curves[name][:, self._columns(run)].size for run in self.runs for name in self._metrics(run))

    def n_bytes(self, form: str) -> int:
        """How large it is as a file of this form, by its first rows: to a quarter or so, Parquet to a factor of two."""
        first = next(self.blocks(), None)
        if first is None:
            return 0
        some = {name: values[:_PROBED] for name, values in first.items()}
        n = len(some["value"])
        rows = zip(*some.values(), strict=True)
        if form == "json":
            size = sum(len(json.dumps(dict(zip(self.types, row, strict=True)))) + 2 for row in rows)
        else:
            size = sum(sum(len("" if value is None else str(value)) + 1 for value in row) for row in rows)
        return round(self.n_rows * (_PARQUET_ROW if form == "parquet" else size / n))

    def rows(self) -> Iterator[tuple[Any, ...]]:
        for block in self.blocks():
            yield from zip(*block.values(), strict=True)


def _facts(some: Sequence[Run]) -> list[dict[str, Any]]:
    """What says which run it is, the same names for each; a setting that a run does not have is None."""
    flats = [_settings(run) for run in some]
    differing = varied(flats)
    # Told elsewhere in a row; the rows of a map by its name.
    told = ("env.name", "algorithm.name", *(["env.map"] if "env.name" in differing else []))
    settings = [name for name in differing if name not in told]
    return [
        {
            "experiment": run.settings["experiment"]["name"],
            "run": run.name,
            "digest": run.digest,
            "env": value_of(run.settings, "env"),
            "algorithm": value_of(run.settings, "algorithm"),
            **{_column(name): one.get(name) for name in settings},
        }
        for run, one in zip(some, flats, strict=True)
    ]


def _settings(run: Run) -> dict[str, Any]:
    kept = {key: value for key, value in used(run).items() if key not in _NO_SETTINGS}
    return {key: value for key, value in flat(kept).items() if not key.endswith("_target_")}


def _column(setting: str) -> str:
    """The setting `seed` is where the seeds of a run start, not the number of one of them."""
    return "settings.seed" if setting == "seed" else setting.removesuffix(".name")


def _type(values: Sequence[Any]) -> type:
    """int, float or bool where all values that are there are; else str."""
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int, float}:
        return float
    return kinds.pop() if len(kinds) == 1 and kinds <= {int, float, bool} else str


def _as(kind: type, value: Any) -> Any:
    if value is None or isinstance(value, kind):
        return value
    return kind(value) if kind is float else json.dumps(value, ensure_ascii=False)


# --- files ----------------------------------------------------------------------------------------------------------


def written(table: Table, form: str) -> Iterable[str | bytes]:
    """A table in one of FORMATS, in parts. Raises SettingError if what Parquet needs is not installed."""
    return {"csv": _csv, "json": _json, "parquet": _parquet}[form](table)


def _csv(table: Table) -> Iterator[str]:
    """A header, then a line a row; nothing between commas where there is no value."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.types)
    for block in table.blocks():
        writer.writerows(zip(*block.values(), strict=True))
        yield text.getvalue()
        text.seek(0)
        text.truncate()


def _json(table: Table) -> Iterator[str]:
    """A list of objects, one a line; null where there is no value."""
    before = "[\n"
    for row in table.rows():
        record = dict(zip(table.types, row, strict=True))
        yield (before + json.dumps(record, ensure_ascii=False, allow_nan=False))
        before = ",\n"
    yield "\n]\n"


def _parquet(table: Table) -> Iterator[bytes]:
    """Texts, int64, float64 and truth values, null where there is no value; a row group for each metric of a run."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        problem = f"needs the package pyarrow, which cannot be imported here ({error}); csv and json need nothing"
        raise SettingError("--format", "parquet", problem) from None
    arrow = {str: pyarrow.string(), int: pyarrow.int64(), float: pyarrow.float64(), bool: pyarrow.bool_()}
    schema = pyarrow.schema([(name, arrow[kind]) for name, kind in table.types.items()])
    file = io.BytesIO()
    with parquet.ParquetWriter(file, schema) as writer:
        for block in table.blocks():
            writer.write_table(pyarrow.table(block, schema=schema))
    return iter([file.getvalue()])
