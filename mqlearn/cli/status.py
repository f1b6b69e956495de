"""`mqlearn status`: what was planned, and what has become of it, read from the plans on disk and from the store."""

import contextlib
import gc
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mqlearn.analysis.comparison.columns import aligned, terminal_width, wrapped
from mqlearn.cli.arguments import deliver, only, parse, take_plugins
from mqlearn.errors import SettingError, nearest
from mqlearn.experiments import execute
from mqlearn.experiments.presentation.names import plain_label
from mqlearn.experiments.settings import compose, identity
from mqlearn.experiments.sweep import index, journal, states, told
from mqlearn.paths import outputs_folder
from mqlearn.storage import deletion, looked, runs
from mqlearn.storage.connection import TrackingError
from mqlearn.storage.store import experiments, recorded

_ORDER = ("planned", "done", "running", "failed", "killed", "missing", "damaged", "diverged", "not_uploaded")
# What a narrow terminal leaves out, first to last.
_DROP = ("not uploaded", "diverged", "damaged", "killed", "running")
_TROUBLES = ("running", "missing", "failed", "killed", "damaged")
_FINISHED, _RUNNING, _MISSING = map(states.State, ("finished", "running", "missing"))
_MOST = 60  # lines on the cells of one experiment, or a few more


def status(arguments: Sequence[str]) -> int:
    """`mqlearn status`: print the cells of one experiment, or of all; 1 if a cell has failed. `--json -`: to stdout."""
    gc.disable()  # 100,000 cells are a million objects, of which none is rubbish: looking for some takes long
    try:
        return _status(arguments)
    finally:
        gc.enable()


def _status(arguments: Sequence[str]) -> int:
    options = parse(arguments, written=("--json",))
    take_plugins(options)
    overrides = options.overrides
    only("status", overrides, ("experiment", "tracking"))
    settings = compose.compose(["tracking=mlflow", *overrides])
    track = execute.tracker(settings)
    plans = _plans(outputs_folder())
    named = any(text.startswith("experiment.name=") for text in overrides)
    names = [track.experiment] if named else sorted({one["experiment"] for plan in plans for one in plan["cells"]})
    if named and track.experiment not in {one["experiment"] for plan in plans for one in plan["cells"]}:
        known = sorted({one["experiment"] for plan in plans for one in plan["cells"]})
        there = track.uri and (recorded(track.uri, track.experiment) or track.experiment in dict(_deleted(track.uri)))
        if not there:
            store = " and the store has none of its runs" if track.uri else ""
            expected = f"no sweep has planned it{store}; planned: {', '.join(known) or 'none'}"
            raise SettingError("experiment.name", track.experiment, expected + nearest(track.experiment, known))
    if not plans and not named and track.uri:  # as on a machine that has the address of the store alone
        names = sorted({*experiments(track.uri), *(name for name, _ in _deleted(track.uri))})
    reports = [experiment(track.uri, name, plans) for name in names]
    content = reports[0] if named else {"experiments": reports}
    if deliver(options.files, {"--json": lambda: json.dumps(content, indent=1) + "\n"}):
        print(_text(reports, terminal_width()) if reports else "no sweep has been planned here")
    return 1 if any(report["failed"] for report in reports) else 0


def experiment(uri: str | None, name: str, plans: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Counts and cells of an experiment. done counts finished and diverged runs, uploaded or not.

    uri: of the store; None reads the plans and run folders alone, and then no run counts as not uploaded.
    """
    planned: dict[str, _Planned] = {}
    present: dict[str, str] = {}  # digests of today, by those of plans of earlier versions
    for plan in plans:  # oldest first: the newest plan of a cell is the one that counts
        sweep = None
        for one in plan["cells"]:
            if one["experiment"] == name:
                sweep = _Sweep(plan) if sweep is None else sweep
                earlier = planned.pop(one["digest"], None)
                planned[one["digest"]] = _Planned(one, sweep, earlier if one["done_before"] else None)
                present[one.get("recorded_digest", one["digest"])] = one["digest"]
    try:
        stored = recorded(uri, name, present.keys()) if uri else []
    except TrackingError as error:
        sys.stderr.write(f"mqlearn: {error}; only what is on disk is shown\n")
        stored = []
    in_store: dict[str, Any] = {}
    for run in sorted(stored, key=lambda run: (run.status == "FINISHED", run.ended)):
        in_store[present.get(run.digest) or _present(run)] = run
    known = looked.Looked(outputs_folder())
    disk = states.Disk(outputs_folder(), known)
    rows = [_row(disk, digest, one, in_store.get(digest)) for digest, one in planned.items()]
    known.write()
    gone = {digest for one, digest in _deleted(uri) if one == name}
    rows += [_row(disk, run.digest, None, run) for digest, run in in_store.items() if digest not in planned]
    count = Counter(row["status"] for row in rows)
    report: dict[str, Any] = {"experiment": name, "planned": len(planned)}
    report["done"] = count["finished"] + count["diverged"]
    report |= {key: count[key] for key in ("running", "failed", "killed", "missing", "damaged", "diverged")}
    report["deleted"] = len(gone)
    done = [row for row in rows if row["tracked"] and not row["run_id"] and row["status"] in runs.DONE]
    lacking = [row for row in done if row["digest"] not in gone]
    report["not_uploaded"] = len(lacking) if uri else 0
    report["cells"] = rows
    return report


def _deleted(uri: str | None) -> set[tuple[str, str]]:
    """(experiment, digest) of finished runs that were deleted in the store, planned here or not."""
    with contextlib.suppress(TrackingError):  # which has been told
        return deletion.gone(uri) if uri else set()
    return set()


def _present(run: Any) -> str:
    """The digest of today of a run that no plan has."""
    if run.digest_version == str(identity.DIGEST_VERSION):
        return run.digest
    return identity.digest_in(run.folder, run.digest)


class _Sweep:
    """A plan, and what was said of its cells, which is read where it is asked for.

    done: of cells that are done, by the word of a sweep that goes on (it looks itself at its end), the diverged seeds.
    begun: cells that have said anything. Both by number.
    """

    def __init__(self, plan: dict[str, Any]) -> None:
        self.plan, self.ended = plan, "ended" in plan
        self.under_way = not self.ended and journal.alive({"state": "running", "pid": 0, "host": None, **plan})
        self.done: dict[int, Mapping[Any, int]] = {}
        if self.under_way:
            self.done |= {one["number"]: one.get("diverged") or {} for one in plan["cells"] if one["done_before"]}
            self.done |= told.kept(plan["folder"])
        self.begun = told.begun(plan["folder"])
        self._states: dict[int, dict[str, Any]] = {}

    def said(self, number: int) -> dict[str, Any]:
        """What was said last of a cell; nothing of one that has not begun."""
        if number not in self._states:
            found = journal.states(self.plan["folder"], [number]) if number in self.begun else {}
            self._states[number] = found.get(number, {})
        return self._states[number]

    def diverged(self, number: int) -> Mapping[Any, int] | None:
        """`done` of a cell, where it has just said so too; None of other cells, whose files are looked at."""
        if number in self.done or not (self.under_way and number in self.begun):
            return self.done.get(number)
        said = self.said(number)
        return (said.get("diverged") or {}) if said.get("state") == "done" else None


class _Planned(NamedTuple):
    """A cell of a plan; `earlier`: the same one in a plan before, by which it was done."""

    cell: dict[str, Any]
    sweep: _Sweep
    earlier: Any = None

    def said(self) -> dict[str, Any]:
        return self.sweep.said(self.cell["number"]) or (self.earlier.said() if self.earlier is not None else {})


def _row(disk: states.Disk, digest: str, planned: _Planned | None, run: Any) -> dict[str, Any]:
    if planned is None:
        words = {"FINISHED": run.outcome or "finished", "FAILED": "failed", "KILLED": "killed"}
        row = {"digest": digest, "name": run.name, "status": words.get(run.status, "missing"), "run_id": run.run_id}
        row |= {"folder": run.folder, "sweep": run.sweep or None, "cell": None, "group": None, "command": None}
        return row | {"error": run.error or None, "diverged": run.diverged or None, "tracked": True}
    one, sweep = planned.cell, planned.sweep
    seeds = sweep.diverged(one["number"])
    if seeds is not None and disk.has(one["folder"]):
        now = states.State("diverged", diverged=seeds) if seeds else _FINISHED
    elif run is None and planned.earlier is None and one["number"] not in sweep.begun and not disk.has(one["folder"]):
        now = _RUNNING if disk.is_claimed(one) else _MISSING  # as `state` finds, without the questions in between
    else:
        now = states.state(disk, one, planned.said, run, ended=sweep.ended)
    row = {
        "digest": digest,
        "name": one["name"],
        "status": now.word,
        "run_id": None,
        "folder": one["folder"],
        "sweep": sweep.plan["id"],
        "cell": one.get("cell"),
        "group": one.get("group"),
        "command": one.get("command"),
        "error": now.error,
        "diverged": None,
        "tracked": one.get("tracked", True),
    }
    if run is not None and run.status in ("FINISHED", now.word.upper()):
        row["run_id"] = run.run_id
    if now.diverged:
        row["diverged"] = "; ".join(f"seed {seed} at iteration {step}" for seed, step in now.diverged.items())
    elif run is not None and now.run is None and now.word in runs.DONE:
        row["diverged"] = run.diverged or None
    return row


def _plans(outputs: Path) -> list[dict[str, Any]]:
    """All plans, oldest first, each with its folder; a damaged one is said and passed over."""
    plans = []
    for path in sorted(journal.sweeps(outputs).glob(f"*/{journal.PLAN}")):
        try:
            plans.append((index.read(path) or journal.read_plan(path.parent)) | {"folder": path.parent})
        except SettingError as error:
            sys.stderr.write(f"mqlearn: {error}\n")
    return sorted(plans, key=lambda plan: plan["started"])


def _overview(reports: Sequence[dict[str, Any]], width: int | None) -> list[str]:
    """The counts of all experiments, as a sentence; of several, the sums first and then a table."""
    counts = Counter({key: sum(report[key] for report in reports) for key in _ORDER})
    name = reports[0]["experiment"] if len(reports) == 1 else f"{len(reports)} experiments"
    lines = wrapped(f"{name}: " + ", ".join(f"{counts[key]} {_words(key)}" for key in _ORDER), width)
    if deleted := sum(report.get("deleted", 0) for report in reports):
        what = "mqlearn upload FOLDER tracks one again, mqlearn delete removes files that are still here; the same "
        told = f"{deleted} finished run{'s' * (deleted > 1)} deleted in MLflow ({what}command runs anew what has none)"
        lines += wrapped(told, width)
    if len(reports) == 1:
        return lines
    table = [["experiment", *map(_words, _ORDER)]]
    table += [[report["experiment"], *(str(report[key]) for key in _ORDER)] for report in reports]
    rows, left = aligned(table, width, _DROP, ("experiment",))
    told = f"Left out to fit {width} columns: {', '.join(left)}; --json has all." if left else ""
    return [*lines, "", *rows, *(wrapped(told, width) if told else [])]


def _words(key: str) -> str:
    return key.replace("_", " ")


def _text(reports: Sequence[dict[str, Any]], width: int | None) -> str:
    """The counts, then what is not done or has diverged, experiment by experiment."""
    lines = _overview(reports, width)
    for report in reports:
        troubles = _troubles(report, width)
        lines += ["", f"{report['experiment']}:"] * (bool(troubles) and len(reports) > 1) + troubles
    return "\n".join(lines)


def _troubles(report: dict[str, Any], width: int | None) -> list[str]:
    lines: list[str] = []
    troubled = [row for row in report["cells"] if row["status"] in _TROUBLES or row["diverged"]]
    names = Counter(row["name"] for row in report["cells"])
    for number, row in enumerate(troubled):
        if len(lines) >= _MOST:
            lines.append(f"  and {len(troubled) - number} more cells: mqlearn status --json FILE has all")
            break
        swept = plain_label(row["cell"] or "")
        name = row["name"] if names[row["name"]] == 1 or not swept else f"{row['name']} ({swept})"
        if row["status"] in _TROUBLES:
            lines += wrapped(f"{row['status']}: {name}" + (f": {row['error']}" if row["error"] else ""), width, "  ")
            if row["command"] and row["status"] in ("failed", "killed", "damaged"):
                lines.append(f"    alone: {row['command']}")  # whole, to be copied
        else:
            lines += wrapped(f"diverged: {name}: {row['diverged'][:100]}", width, "  ")
    return lines
