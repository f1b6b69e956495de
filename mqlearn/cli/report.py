"""`mqlearn report`: the page on the finished runs of an experiment, written whole, then copied to the store."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mqlearn.analysis import axis as axes
from mqlearn.analysis.comparison import labels, pairing, selection
from mqlearn.analysis.comparison.labels import Entry
from mqlearn.analysis.report import page, verdicts
from mqlearn.analysis.report.subjects import Subject, subjects
from mqlearn.checks import choice
from mqlearn.cli import compare
from mqlearn.cli.arguments import CONFIG_DIR, parse, take, take_plugins
from mqlearn.errors import SettingError
from mqlearn.experiments import execute, provenance
from mqlearn.experiments.plan import Plan, plan
from mqlearn.experiments.settings import compose, identity
from mqlearn.experiments.settings.override_commands import command
from mqlearn.files import deliver
from mqlearn.paths import outputs_folder
from mqlearn.storage import runs

_PLAIN = ("discount", "iterations", "n_seeds", "seed", "checkpoints", "n_checkpoints", "q0", "theta0")
_FILES = ("--output", "--verdicts")
_MANY = 500  # pairs: beyond, no one reads them, and the correction leaves little
_KINDS = (".html", ".htm")


def report(arguments: Sequence[str]) -> int:
    """`mqlearn report`: returns 0. Raises SettingError if no run matches, or a file cannot be read or written."""
    options = parse(arguments, values=CONFIG_DIR, written=("--output",), read=("--verdicts",))
    take_plugins(options)
    axis = take(options, "axis")
    if axis is not None:
        choice("axis", axis, axes.KINDS)
    files, config_dir, overrides = options.files, options.config_dir, options.overrides
    tracked = [text for text in overrides if text.startswith(("tracking=", "tracking."))]
    name = next(
        (text.partition("=")[2] for text in reversed(overrides) if text.startswith("experiment.name=")), "default"
    )
    chosen_by = [text for text in overrides if text not in tracked and not text.startswith("experiment.name=")]
    name = name.strip("'\"")
    settings = compose.compose(tracked, config_dir) | {"experiment": {"name": name}}
    track = execute.tracker(settings)
    outputs = outputs_folder()
    output = _target(files.get("--output") or outputs / "reports" / f"{runs.slug(name)}.html")
    answers = _given(files["--verdicts"]) if "--verdicts" in files else None
    found = selection.find(outputs, [name], track.uri)
    if not found.runs:
        problem = "\n".join(["has no finished run", *found.notes])
        raise SettingError("experiment.name", name, problem)
    with selection.naming_those_left_out(found):
        chosen = selection.select(found.runs, chosen_by, ("experiment.name", "tracking.uri"))
    if answers is not None:
        _refuse_of_others(answers, {run.digest for run in chosen}, files["--verdicts"])
    plan_runs = selection.of_the_plan(chosen, compare.plain([name], chosen_by, config_dir))
    stand = selection.latest_runs(plan_runs.runs)
    once = selection.equal_once(stand.runs)
    planned = labels.planned(name, config_dir)
    entries = labels.entries(stand.runs, curves=planned)
    if not planned:  # m=2 before m=10
        blocks = list(dict.fromkeys(entry.block for entry in entries))
        entries.sort(key=lambda entry: (blocks.index(entry.block), _natural(entry.label)))
    made = subjects(entries)
    planned_as = _plan(name, made, config_dir) if planned else None
    asked = axis or (planned_as.spec.get("axis") if planned_as else None)
    shown_on, reason = asked or axes.usual(selection.by_problem(stand.runs)), ""
    if answers is None:
        answers, reason = verdicts_of([entry for entry in entries if entry.run in once.runs], asked)
    told = [part for flag in _FILES if flag in files for part in (flag, str(files[flag]))]
    told += [f"axis={axis}"] * (axis is not None)
    text = page.build(
        name,
        made,
        answers,
        command=command("report", [f"experiment.name={name}", *chosen_by, *told], config_dir),
        versions=provenance.versions(),
        reason=reason,
        failed=_failed(outputs, name),
        notes=(*found.notes, *plan_runs.notes, *stand.notes, *once.notes),
        plan=planned_as,
        axis=shown_on,
    )
    deliver("--output", output, text)
    print(output)
    if track.uri is not None:
        _publish(output, track, text)
    return 0


def verdicts_of(entries: Sequence[Entry], axis: str | None = None) -> tuple[list[dict[str, Any]], str]:
    """Every pair within its block by the last error, as plain data, or only those with the best and the baseline, and
    why; or none, and why. axis: None is the usual one of these runs."""
    from mqlearn.analysis.comparison import comparison

    try:
        question, reason = compare.question_of({} if axis is None else {"axis": axis}), ""
        if axis is None:
            question, reason = pairing.on_axis(question, [entry.run for entry in entries])
        if pairing.count(entries) > _MANY:
            wanted, why = pairing.with_best_and_baseline(entries, question)
            reason = "\n".join([*[reason] * bool(reason), why])
        else:
            wanted = pairing.pairs(entries)
        answers = pairing.answers(wanted, question)
        return [runs.plain(comparison.row(one), finite=True) for one in answers], reason
    except SettingError as error:
        return [], f"No comparison was made: {error}"


def _plan(name: str, some: Sequence[Subject], config_dir: str | None) -> Plan | None:
    """The experiment's plan, under the plain settings that these runs share: a variant is planned as it was run."""
    first = some[0].run.settings
    shared = [key for key in _PLAIN if all(one.run.settings[key] == first[key] for one in some)]
    try:
        return plan(name, [f"{key}={json.dumps(first[key])}" for key in shared], config_dir)
    except SettingError:  # the yaml has changed, or has no figure: the runs are drawn all the same
        return None


def _natural(text: str) -> list[tuple[float, str]]:
    """A key that sorts numbers within texts as numbers."""
    parts = re.split(r"(\d+(?:\.\d+)?(?:e[-+]?\d+)?)", text)
    return [(float(part), "") if i % 2 else (-1.0, part) for i, part in enumerate(parts)]


def _target(path: Path) -> Path:
    if path.suffix.lower() not in _KINDS:
        raise SettingError("--output", path, "must be the name of an .html file")
    return path


def _given(name: Path) -> list[dict[str, Any]]:
    try:
        return verdicts.check(json.loads(name.read_text(encoding="utf-8")), str(name))
    except (OSError, ValueError) as error:
        if isinstance(error, SettingError):
            raise
        raise SettingError("--verdicts", name, f"cannot be read as JSON ({error})") from None


def _refuse_of_others(answers: Sequence[dict[str, Any]], here: set[str], name: Path) -> None:
    """Raise SettingError if a verdict tells its runs and they are not on the page, which would begin with it."""
    others = [one for one in answers if {one.get("digest_a"), one.get("digest_b")} - here - {None}]
    if others:
        said = f"{others[0]['a']} and {others[0]['b']} in [{others[0]['group']}]"
        expected = (
            f"{len(others)} of {len(answers)} verdicts are of runs that this report does not show, such as {said}"
        )
        raise SettingError("--verdicts", name, f"{expected}; select the same runs for both")


def _failed(outputs: Path, name: str) -> list[runs.Run]:
    """The runs of an experiment that failed or were killed and have not been done since."""
    ended: dict[str, runs.Run] = {}
    done = set()
    for folder in sorted((outputs / "runs" / runs.slug(name)).glob("[!.]*")):
        try:
            run = runs.load(folder)
        except SettingError:
            continue
        if run.status in runs.DONE:
            done.add(identity.digest_of(run))
        else:
            ended[identity.digest_of(run)] = run
    return [run for digest, run in sorted(ended.items()) if digest not in done]


def _publish(path: Path, track: execute.Tracker, text: str) -> None:
    """A copy in the store; what the store refuses costs the copy, not the page."""
    from mqlearn.analysis.report.publish import publish
    from mqlearn.storage.connection import TrackingError, say_untracked

    try:
        print(f"MLflow run {publish(path, str(track.uri), track.experiment, text)}")
    except (TrackingError, SettingError) as error:
        say_untracked(f"the report is written, but not tracked: {error}")
