"""`mqlearn export`: finished runs as one tidy table, in a file or on standard output."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mqlearn.analysis import tidy
from mqlearn.analysis.comparison import selection
from mqlearn.checks import check_int, choice
from mqlearn.cli.arguments import STANDARD_OUTPUT, deliver, parse, selection_words, take, take_plugins
from mqlearn.errors import SettingError
from mqlearn.paths import outputs_folder
from mqlearn.storage import addresses

_LARGE = 10_000_000  # bytes


def export(arguments: Sequence[str]) -> int:
    """`mqlearn export`: returns 0. Raises SettingError if no run matches, or the file cannot be written."""
    options = parse(arguments, written=("--output",), words=("--format",))
    take_plugins(options)
    output = options.files.get("--output", STANDARD_OUTPUT)
    form = choice("--format", options.words.get("--format", _suffix(output)), tidy.FORMATS)
    if form == "parquet" and output == STANDARD_OUTPUT and sys.stdout.isatty():
        raise SettingError("--format", form, "is not for the screen: name a file, --output FILE.parquet")
    asked: dict[str, Any] = {}
    if (metrics := take(options, "metric")) is not None:
        asked["metrics"] = [part.strip(" '\"") for part in metrics.split(",")]
    if (at := take(options, "at")) is not None:
        asked["at"] = at if at == tidy.LAST else _iteration(at)
    names, overrides, stores = selection_words(options.overrides)
    outputs = outputs_folder()
    store = addresses.named(stores, outputs)
    found = selection.find(outputs, names or None, store)
    if not found.runs:
        raise selection.nothing(found, options.overrides, outputs, store)
    with selection.naming_those_left_out(found):
        chosen = selection.select(found.runs, overrides, ("experiment.name", "metric", "at"))
        table = tidy.Table(chosen, **asked)
    for note in found.notes:
        sys.stderr.write(f"note: {note}\n")
    _tell_size(table, form)
    if deliver({"--output": output}, {"--output": lambda: tidy.written(table, form)}):
        sys.stderr.write(f"{len(chosen)} run{'s' * (len(chosen) > 1)}: {output}\n")
    return 0


def _iteration(value: str) -> int:
    try:
        return check_int("at", value, 0, written=True)
    except SettingError as error:
        raise SettingError("at", value, f"{error.admissible}, or {tidy.LAST} for the last of each run") from None


def _tell_size(table: tidy.Table, form: str) -> None:
    """Before a large table is written, how large it is and what makes it smaller."""
    size = table.n_bytes(form)
    if size > _LARGE:
        smaller = [] if table.metrics else ["metric=NAME: one metric"]
        smaller += [] if table.at is not None else ["at=last: one value a seed"]
        hint = f" ({'; '.join(smaller)})" if smaller else ""
        told = f"{size / 1e6:,.0f} MB" if size >= 1e6 else f"{size / 1e3:,.0f} kB"
        sys.stderr.write(f"{table.n_rows:,} rows, about {told} of {form}{hint}\n")


def _suffix(output: Path) -> str:
    """The format that the name of the file says; csv if it says none."""
    suffix = output.suffix.lower().removeprefix(".")
    return suffix if suffix in tidy.FORMATS else "csv"
