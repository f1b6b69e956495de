"""`mqlearn compare`: which runs, which pairs, and the answers as tables. It reads finished runs on disk alone."""

import itertools
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mqlearn import config
from mqlearn.errors import SettingError, nearest
from mqlearn.files import deliver

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


def compare(arguments: Sequence[str]) -> int:
    """`mqlearn compare`: 0, or 1 if calibration finds that the tests are wrong too often."""
    from mqlearn.verdict import selection, tables
    from mqlearn.verdict.labels import entries, planned

    request = read(arguments)
    question = question_of(request.own)
    outputs = config.outputs_folder()
    found = selection.find(outputs, request.names or None)
    if not found.runs:
        problem = "\n".join([f"there is no finished run in {outputs / 'runs'}", *found.notes])
        raise SettingError("selection", " ".join(arguments), problem)
    chosen = selection.select(found.runs, request.overrides, (*_OWN, "experiment.name"))
    curves = planned(request.names[0], request.config_dir) if len(request.names) == 1 else {}
    notes = list(found.notes)
    if request.own.get("tuned"):
        from mqlearn.verdict import tuned

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


def answers(wanted: Sequence[tuple[Any, Any]], question: Any) -> list[Any]:
    """The verdicts of some pairs of entries, corrected together. Raises SettingError."""
    from mqlearn.verdict import comparison

    resamples = comparison.resamples_for(len(wanted), question.level)
    asked = [comparison.ask(a, b, question, resamples=resamples) for a, b in wanted]
    return comparison.decide(asked, resamples=resamples)


def pairs(made: Sequence[Any], against: str | None = None, *, mixed: bool = False) -> list[tuple[Any, Any]]:
    """Every pair within a block, or of every entry with the one named `against` as b; across blocks only if `mixed`.

    Raises SettingError if nothing can be paired, if a pair would cross blocks, or if `against` is unknown or means
    several.
    """
    from mqlearn.verdict.labels import named

    blocks = {block: list(group) for block, group in itertools.groupby(made, lambda entry: entry.block)}
    if against is None:
        within = [pair for members in blocks.values() for pair in itertools.combinations(members, 2)]
        wanted = list(itertools.combinations(made, 2)) if mixed else within
        if wanted:
            return wanted
        if len(made) < 2:
            expected = f"is one run, {made[0].label} in [{made[0].block}]: nothing to compare it with"
        else:
            expected = "has no two runs in one block; across blocks only with allow_mixed=true:\n" + _listed(blocks)
        raise SettingError("selection", f"{len(made)} runs", expected)
    rivals = {block: named(members, against) for block, members in blocks.items()}
    for block, several in rivals.items():
        if len(several) > 1:
            expected = f"means {len(several)} runs of [{block}]: {'; '.join(entry.label for entry in several)}"
            raise SettingError("against", against, expected)
    found = [several[0] for several in rivals.values() if several]
    if not found:
        known = list(dict.fromkeys(entry.label for entry in made))
        expected = f"must be one of: {'; '.join(known)}{nearest(against, known)}"
        raise SettingError("against", against, expected)
    lacking = {block: members for block, members in blocks.items() if not rivals[block]}
    if lacking and not mixed:
        expected = (
            f"is not in every block; pairs across blocks only with allow_mixed=true. Missing in:\n{_listed(lacking)}"
        )
        raise SettingError("against", against, expected)
    wanted = []
    for block, members in blocks.items():
        for b in rivals[block] or found:
            wanted += [(a, b) for a in members if a is not b]
    if not wanted:
        raise SettingError("against", against, "is the only run that is selected: nothing to compare it with")
    return wanted


def _listed(blocks: dict[str, list[Any]]) -> str:
    return "\n".join(f"  {'; '.join(e.label for e in members)}  [{block}]" for block, members in blocks.items())


# --- the command line ---------------------------------------------------------------------------------------------


def read(arguments: Sequence[str]) -> Request:
    """Raises SettingError for a flag, a setting or a file that cannot be."""
    from mqlearn.arguments import CONFIG_DIR, parse

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
    from mqlearn.verdict.samples import Question

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
    from mqlearn.runs import plain

    return json.dumps(plain(list(rows), finite=True), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _calibrate(made: Sequence[Any], question: Any, request: Request) -> int:
    from mqlearn.verdict import calibration, tables

    results = [calibration.calibrate(entry, question) for entry in made]
    rows = [calibration.row(result, question) for result in results]
    write(request.files, {"--json": lambda: _json(rows), "--csv": lambda: tables.csv(rows)})
    print(calibration.text(results, question))
    wrong = [result for result in results if not result.sound]
    if wrong:
        sys.stderr.write("mqlearn: the tests say yes too often where there is no difference\n")
    return 1 if wrong else 0
