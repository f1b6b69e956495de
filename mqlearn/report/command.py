"""`mqlearn report`: the page on the finished runs of an experiment, written whole, then copied to the store."""

import json
import os
import re
import secrets
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mqlearn import cells, compare, compose, config, labels, plans, runs, selection
from mqlearn.errors import SettingError
from mqlearn.labels import Entry
from mqlearn.report import page, verdicts
from mqlearn.report.subjects import Subject, subjects

_PLAIN = ("discount", "iterations", "n_seeds", "seed", "checkpoints", "n_checkpoints", "q0", "theta0")
_FILES = ("--output", "--verdicts")
_MANY = 500  # pairs: beyond, no one reads them, and the correction leaves nothing
_KINDS = (".html", ".htm")


def report(arguments: Sequence[str]) -> int:
    """`mqlearn report`: returns 0. Raises SettingError if no run matches, or a file cannot be read or written."""
    files, config_dir, overrides = _read(arguments)
    tracked = [text for text in overrides if text.startswith(("tracking=", "tracking."))]
    name = next(
        (text.partition("=")[2] for text in reversed(overrides) if text.startswith("experiment.name=")), "default"
    )
    chosen_by = [text for text in overrides if text not in tracked and not text.startswith("experiment.name=")]
    name = name.strip("'\"")
    settings = compose.compose(tracked, config_dir) | {"experiment": {"name": name}}
    track = cells.tracker(settings)
    outputs = config.outputs_folder()
    output = _target(files.get("--output") or str(outputs / "reports" / f"{runs.slug(name)}.html"))
    answers = _given(files["--verdicts"]) if "--verdicts" in files else None
    found = selection.find(outputs, [name])
    if not found.runs:
        problem = "\n".join(["has no finished run", *found.notes])
        raise SettingError("experiment.name", name, problem)
    chosen = selection.select(found.runs, chosen_by, ("experiment.name", "tracking.uri"))
    stand = selection.standing(chosen)
    planned = labels.planned(name, config_dir)
    entries = labels.entries(stand.runs, curves=planned)
    if not planned:  # m=2 before m=10
        blocks = list(dict.fromkeys(entry.block for entry in entries))
        entries.sort(key=lambda entry: (blocks.index(entry.block), _natural(entry.label)))
    reason = ""
    if answers is None:
        answers, reason = verdicts_of(entries)
    told = [part for flag in _FILES if flag in files for part in (flag, files[flag])]
    made = subjects(entries)
    text = page.build(
        name,
        made,
        answers,
        command=shlex.join(["mqlearn", "report", f"experiment.name={name}", *chosen_by, *told]),
        versions=cells.versions(),
        reason=reason,
        failed=_failed(outputs, name),
        notes=stand.notes,
        plan=_plan(name, made, config_dir) if planned else None,
    )
    _write(output, text)
    print(output)
    if track.uri is not None:
        _publish(output, track, text)
    return 0


def verdicts_of(entries: Sequence[Entry]) -> tuple[list[dict[str, Any]], str]:
    """Every pair within its block by the last error, as plain data; or none, and why. All that is known of compare."""
    from mqlearn import tables

    try:
        wanted = compare.pairs(entries)
        if len(wanted) > _MANY:
            problem = f"are too many to compare; select fewer runs, or give those of `mqlearn compare` by {_FILES[1]}"
            raise SettingError("selection", f"{len(wanted)} pairs", problem)
        return [
            runs.plain(tables.row(one), finite=True) for one in compare.answers(wanted, compare.question_of({}))
        ], ""
    except SettingError as error:
        return [], f"No comparison was made: {error}"


def _plan(name: str, some: Sequence[Subject], config_dir: str | None) -> plans.Plan | None:
    """The experiment's plan, under the plain settings that these runs share: a variant is planned as it was run."""
    first = some[0].run.settings
    shared = [key for key in _PLAIN if all(one.run.settings[key] == first[key] for one in some)]
    try:
        return plans.plan(name, [f"{key}={json.dumps(first[key])}" for key in shared], config_dir)
    except SettingError:  # the yaml has changed, or has no figure: the runs are drawn all the same
        return None


def _natural(text: str) -> list[tuple[float, str]]:
    """A key that sorts numbers within texts as numbers."""
    parts = re.split(r"(\d+(?:\.\d+)?(?:e[-+]?\d+)?)", text)
    return [(float(part), "") if i % 2 else (-1.0, part) for i, part in enumerate(parts)]


def _read(arguments: Sequence[str]) -> tuple[dict[str, str], str | None, list[str]]:
    """The files by flag, --config-dir, and the overrides."""
    from mqlearn.arguments import CONFIG_DIR, parse

    files, rest = {}, []
    pending = iter(arguments)
    for argument in pending:
        flag, equals, value = argument.partition("=")
        if flag in _FILES:
            files[flag] = value if equals else next(pending, "")
            if not files[flag]:
                raise SettingError(flag, "", "must be followed by the name of a file")
        else:
            rest.append(argument)
    options = parse(rest, values=CONFIG_DIR)
    return files, options.config_dir, options.overrides


def _target(name: str) -> Path:
    """The file to write. Raises SettingError before any work is done."""
    path = Path(name).expanduser().absolute()
    if path.suffix.lower() not in _KINDS:
        raise SettingError("--output", name, "must be the name of an .html file")
    above = next(place for place in path.parents if place.exists())
    if path.is_dir() or not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise SettingError("--output", name, f"cannot be written: {path if path.is_dir() else above} is in the way")
    return path


def _given(name: str) -> list[dict[str, Any]]:
    try:
        return verdicts.check(json.loads(Path(name).read_text(encoding="utf-8")), name)
    except (OSError, ValueError) as error:
        if isinstance(error, SettingError):
            raise
        raise SettingError("--verdicts", name, f"cannot be read as JSON ({error})") from None


def _failed(outputs: Path, name: str) -> list[runs.Run]:
    """The runs of an experiment that failed or were killed and have not been done since."""
    ended: dict[str, runs.Run] = {}
    done = set()
    for folder in sorted((outputs / "runs" / runs.slug(name)).iterdir()):
        try:
            run = runs.load(folder)
        except SettingError:
            continue
        if run.status in runs.DONE:
            done.add(run.digest)
        else:
            ended[run.digest] = run
    return [run for digest, run in sorted(ended.items()) if digest not in done]


def _write(path: Path, text: str) -> None:
    partial = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        raise SettingError("--output", path, f"cannot be written: {error}") from error
    finally:
        partial.unlink(missing_ok=True)


def _publish(path: Path, track: cells.Tracker, text: str) -> None:
    """A copy in the store; what the store refuses costs the copy, not the page."""
    from mqlearn.report.publish import publish
    from mqlearn.store import TrackingError

    try:
        print(f"MLflow run {publish(path, str(track.uri), track.experiment, text)}")
    except (TrackingError, SettingError) as error:
        sys.stderr.write(f"mqlearn: the report is written, but not tracked: {error}\n")
