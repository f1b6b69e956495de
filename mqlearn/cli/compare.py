"""`mqlearn compare`: which runs, which pairs, and the answers as tables. It reads finished runs, and makes none."""

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mqlearn.errors import SettingError, nearest
from mqlearn.files import deliver
from mqlearn.paths import outputs_folder

_FILES = ("--json", "--csv", "--latex")
_OWN = (
    "against", "at", "epsilon", "summary", "metric", "diverged", "level", "interval", "tuned", "tuning_seed",
    "calibrate", "allow_mixed",
)  # fmt: skip


@dataclass
class Request:
    """A command line, read: overrides select runs, `names` are experiments (empty: all), `files` by flag."""

    names: list[str] = field(default_factory=list)
    overrides: list[str] = field(default_factory=list)
    own: dict[str, Any] = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)
    config_dir: str | None = None
    tracking: list[str] = field(default_factory=list)


def compare(arguments: Sequence[str]) -> int:
    """`mqlearn compare`: 0, or 1 if calibration finds that the tests are wrong too often."""
    from mqlearn.analysis.comparison import selection, tables
    from mqlearn.analysis.comparison.labels import entries, planned
    from mqlearn.analysis.comparison.pairing import answers, pairs
    from mqlearn.storage import tracking

    request = read(arguments)
    question = question_of(request.own)
    outputs = outputs_folder()
    found = selection.find(outputs, request.names or None, tracking.named(request.tracking, outputs))
    if not found.runs:
        problem = "\n".join([f"there is no finished run in {outputs / 'runs'} or in the store", *found.notes])
        raise SettingError("selection", " ".join(arguments), problem)
    chosen = selection.select(found.runs, request.overrides, (*_OWN, "experiment.name"))
    curves = planned(request.names[0], request.config_dir) if len(request.names) == 1 else {}
    notes = list(found.notes)
    if request.own.get("tuned"):
        from mqlearn.analysis.comparison import tuned

        everything = selection.find(outputs).runs
        answer = tuned.tuned(chosen, everything, question, request.own)
        verdicts, notes, heads = answer.verdicts, [*notes, *answer.notes], answer.heads
    else:
        stand = selection.standing(chosen, question.summary)
        notes += stand.notes
        made = entries(stand.runs, question.summary, curves)
        if request.own.get("calibrate"):
            return _calibrate(made, question, request)
        wanted = pairs(made, request.own.get("against"), mixed=bool(request.own.get("allow_mixed")))
        verdicts, heads = answers(wanted, question), tables.runs(made, question)
    rows = [tables.row(verdict) for verdict in verdicts]
    texts = {
        "--json": lambda: _json(rows),
        "--csv": lambda: tables.csv(rows),
        "--latex": lambda: tables.latex(verdicts),
    }
    write(request.files, texts)
    print(tables.terminal(verdicts, question, heads=heads, notes=notes))
    return 0


# --- the command line ---------------------------------------------------------------------------------------------


def read(arguments: Sequence[str]) -> Request:
    """Raises SettingError for a flag, a setting or a file that cannot be."""
    from mqlearn.cli.arguments import CONFIG_DIR, parse

    options = parse(arguments, values=CONFIG_DIR, written=_FILES)
    request = Request(files=options.files, config_dir=options.config_dir)
    for override in options.overrides:
        key, equals, value = override.partition("=")
        key = key.lstrip("+")
        if not equals or not key:
            example = (
                "settings are written name=value, for example experiment.name=figure1 or algorithm=q_learning,nesa"
            )
            raise SettingError("override", override, example + nearest(key, _OWN))
        if key in ("experiment.name", "experiment"):
            request.names += [part.strip(" '\"") for part in value.split(",")]
        elif key.partition(".")[0] == "tracking":
            request.tracking.append(override)
        elif key in _OWN:
            request.own[key] = _own(key, value)
        else:
            request.overrides.append(override)
    for other in ("calibrate", "allow_mixed"):
        if request.own.get("tuned") and request.own.get(other):
            raise SettingError(other, "true", "does not go with tuned=true")
    if request.own.get("calibrate") and "--latex" in request.files:
        raise SettingError("--latex", request.files["--latex"], "there is no such table of calibrate=true; use --csv")
    if "tuning_seed" in request.own and not request.own.get("tuned"):
        raise SettingError("tuning_seed", request.own["tuning_seed"], "is a setting of tuned=true alone")
    return request


def question_of(own: dict[str, Any]) -> Any:
    """The `Question` of settings. Raises SettingError."""
    from mqlearn.analysis.comparison.samples import Question

    names = ("summary", "metric", "at", "epsilon", "diverged", "level", "interval")
    return Question(**{name: own[name] for name in names if name in own})


def _own(key: str, value: str) -> Any:
    if key in ("tuned", "calibrate", "allow_mixed"):
        if value.lower() not in ("true", "false"):
            raise SettingError(key, value, "must be true or false")
        return value.lower() == "true"
    if key in ("at", "tuning_seed", "epsilon", "level"):
        whole = key in ("at", "tuning_seed")
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if number != number or (
            whole and (number in (float("inf"), -float("inf")) or number != int(number) or number < 0)
        ):
            raise SettingError(key, value, "must be a whole number, at least 0" if whole else "must be a number")
        return int(number) if whole else number
    return value.strip("'\"")


def write(files: dict[str, Path], texts: dict[str, Any]) -> None:
    """Write what flags asked for; `texts` makes it. Raises SettingError."""
    for flag, path in files.items():
        deliver(flag, path, texts[flag]())


def _json(rows: Sequence[dict[str, Any]]) -> str:
    from mqlearn.storage.runs import plain

    return json.dumps(plain(list(rows), finite=True), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _calibrate(made: Sequence[Any], question: Any, request: Request) -> int:
    from mqlearn.analysis.comparison import calibration, tables

    results = [calibration.calibrate(entry, question) for entry in made]
    rows = [calibration.row(result, question) for result in results]
    write(request.files, {"--json": lambda: _json(rows), "--csv": lambda: tables.csv(rows)})
    print(calibration.text(results, question))
    wrong = [result for result in results if not result.sound]
    if wrong:
        sys.stderr.write("mqlearn: the tests say yes too often where there is no difference\n")
    return 1 if wrong else 0
