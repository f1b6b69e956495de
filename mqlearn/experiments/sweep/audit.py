"""What a sweep says: one progress line while it runs, a table and an audit when it has ended."""

import contextlib
import shlex
import shutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from mqlearn.experiments.settings import identity
from mqlearn.experiments.settings.override_commands import command, written
from mqlearn.experiments.sweep import journal
from mqlearn.experiments.sweep.sweep import Sweep
from mqlearn.paths import outputs_folder
from mqlearn.storage import deletion, runs
from mqlearn.storage.addresses import default_uri
from mqlearn.storage.connection import TrackingError, sqlite_path
from mqlearn.storage.store import experiment_id, finished
from mqlearn.storage.ui import page

_LIVE, _PLAIN, _FIRST = 0.5, 15.0, 3.0  # seconds between lines, on a terminal and in a log; before the first
_SHARE = 20  # times what a look has taken, before the next one
_LOOKS = 0.0, 1.0, 3.0  # seconds before each look at a server's runs
_ROWS = 40  # longer tables show what needs attention alone


@contextlib.contextmanager
def watching(sweep: Sweep) -> Iterator[None]:
    """Show the progress of all jobs, which say nothing themselves, by the files that they write."""
    ended = threading.Event()
    live = sys.stderr.isatty()
    started = time.monotonic()

    def watch() -> None:
        wait = _LIVE if live else _FIRST
        while not ended.wait(wait):
            looked = time.monotonic()
            text = _progress(sweep, looked - started)
            sweep.said.keep()
            if live:
                sys.stderr.write(f"\r\033[K{text[: shutil.get_terminal_size().columns - 1]}")
            else:
                sys.stderr.write(text + "\n")
                wait = _PLAIN
            sys.stderr.flush()
            wait = max(wait, _SHARE * (time.monotonic() - looked))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(1.0)
        if live:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()


def _progress(sweep: Sweep, elapsed: float) -> str:
    count = Counter(state["state"] for state in sweep.told().values())
    ended = count["done"] + count["failed"]
    total = len(sweep.missing)
    left = f", about {elapsed / ended * (total - ended):.0f} s left" if ended else ""
    return (
        f"sweep {sweep.id}: {count['done'] + len(sweep.done)} of {len(sweep.cells)} done, {count['running']} running, "
        f"{count['failed']} failed{left}"
    )


def summary(sweep: Sweep, states: dict[int, dict[str, Any]], *, interrupted: bool = False) -> str:
    """The table of a sweep that has ended, and its audit, whose findings join sweep.problems."""
    count = Counter(state["state"] for state in states.values())
    skipped = len(sweep.done)
    never = len(sweep.cells) - skipped - len(states)
    head = f"sweep {sweep.id}: {len(sweep.cells)} cells, {count['done']} done, {skipped} skipped (finished before)"
    head += f", {count['failed']} failed"
    if sweep.damaged:
        again = sum(states.get(number, {}).get("state") == "done" for number in sweep.damaged)
        head += f", {len(sweep.damaged)} damaged ({again} made again)"
    if never or count["killed"]:
        head += f", {count['killed']} killed, {never} not started"
    lines = _rows(sweep, states)
    lines += _failures(sweep, states)
    lines += [f"damaged: {number} {sweep.labels[number]}: {text}" for number, text in sorted(sweep.damaged.items())]
    lines += _diverged(sweep, states)
    warnings = Counter(text for state in states.values() for text in state.get("warnings", ()))
    lines += [f"warning: {text} ({number} cells)" for text, number in warnings.items()]
    lines += _not_tracked(sweep, states)
    if gone := {sweep.done[number].digest: sweep.done[number].folder for number in sorted(sweep.deleted)}:
        lines.append(f"note: {deletion.note(gone)}")
    if interrupted:
        lines.append("interrupted: the same command runs what is missing")
    else:
        lines += _audit(sweep, states)
    lines += _links(sweep)
    return "\n".join([*lines, head])


def _rows(sweep: Sweep, states: dict[int, dict[str, Any]]) -> list[str]:
    if len(sweep.cells) > _ROWS:
        return []
    lines = []
    for one in sweep.cells:
        done_before = sweep.done.get(one.number)
        state = journal.outcome(done_before) if done_before is not None else states.get(one.number, {})
        word = "skipped" if done_before is not None else state.get("state", "not run")
        mean, low, high = state.get("q_error") or (None, None, None)
        error = "" if mean is None else f"  q_error {mean:.4g}"
        error += "" if low is None or high is None else f" [{low:.4g}, {high:.4g}]"
        lines.append(f"{one.number:4} {word:8} {sweep.labels[one.number]}{error}")
    return lines


def _failures(sweep: Sweep, states: dict[int, dict[str, Any]]) -> list[str]:
    lines = []
    for one in sweep.cells:
        state = states.get(one.number, {})
        if state.get("state") in ("failed", "killed"):
            lines.append(f"{state['state']}: {one.number} {sweep.labels[one.number]}: {state.get('error', '')}")
            lines.append(f"  alone: {sweep.rerun(one)}")
    return lines


def _diverged(sweep: Sweep, states: dict[int, dict[str, Any]]) -> list[str]:
    lines = []
    for one in sweep.cells:
        before = sweep.done.get(one.number)
        seeds = before.summary["diverged"] if before is not None else states.get(one.number, {}).get("diverged")
        if seeds:
            first = min(seeds.values())
            name = f"{one.number} {sweep.labels[one.number]}"
            lines.append(f"diverged: {name}: {len(seeds)} of {one.n_seeds} seeds, first at step {first}")
    return lines


def _not_tracked(sweep: Sweep, states: dict[int, dict[str, Any]]) -> list[str]:
    left = [one for one in sweep.cells if states.get(one.number, {}).get("not_tracked")]
    if not left:
        return []
    sweep.untracked = True
    reason = states[left[0].number]["not_tracked"]
    parents = sorted({str(one.folder.parent) for one in left})
    return [
        f"NOT UPLOADED: {len(left)} run{'s' * (len(left) > 1)}, whole on disk and not in the store ({reason})",
        "  They need not run again. The same command delivers them, and so does",
        *(f"  mqlearn upload {shlex.quote(parent)}/*" for parent in parents),
    ]


def _audit(sweep: Sweep, states: dict[int, dict[str, Any]]) -> list[str]:
    """Each cell has one finished run, in its experiment; a second look, at the store and not at what jobs said."""
    missing, several = [], 0
    groups: dict[tuple[str | None, str], list[Any]] = {}
    for one in sweep.cells:
        state = states.get(one.number, {})
        settled = state.get("state") in ("failed", "killed") or state.get("not_tracked")
        if not settled and one.number not in sweep.deleted:
            groups.setdefault((one.uri, one.experiment), []).append(one)
    for (uri, experiment), members in groups.items():
        if uri is None:
            there = {one.number: runs.complete(sweep.place(one), one.digest, identity.digest_of) for one in members}
            missing += [one for one in members if there[one.number] is None]
            continue
        recorded = {one.number: one.digest for one in members} | {n: run.digest for n, run in sweep.done.items()}
        try:
            number = finished_runs(uri, experiment, {recorded[one.number] for one in members})
        except TrackingError as error:
            sweep.untracked = True
            return [f"audit: not possible: {error}"]
        missing += [one for one in members if not number[recorded[one.number]]]
        several += sum(number[recorded[one.number]] > 1 for one in members)
    sweep.problems += [f"no finished run of cell {one.number} {one.name}" for one in missing]
    lines = [f"AUDIT: {problem}" for problem in sweep.problems]
    if several:
        lines.append(f"audit: {several} cells have several finished runs (existing=rerun); the latest counts")
    if not lines:
        counted = sum(map(len, groups.values()))
        rest = f", {len(sweep.deleted)} deleted there" if sweep.deleted else ""
        lines = [f"audit: {counted} of {len(sweep.cells)} cells have one finished run in their experiment{rest}"]
    return lines


def finished_runs(uri: str, experiment: str, digests: set[str]) -> Counter[str]:
    """How many finished runs each digest has in an experiment.

    On a server two sweeps may have recorded one digest at the same time, of which one is about to be taken back
    (`tracking.record`): where a digest has several, look again before it is said.
    """
    for pause in _LOOKS:
        time.sleep(pause)
        number = Counter(stored.digest for stored in finished(uri, experiment, digests))
        if sqlite_path(uri) or all(number[digest] < 2 for digest in digests):
            break
    return number


def _links(sweep: Sweep) -> list[str]:
    """How to see the runs side by side."""
    lines = []
    for uri, experiment in sorted({(one.uri, one.experiment) for one in sweep.cells if one.uri is not None}):
        default = uri == default_uri(outputs_folder())
        place = uri if uri.startswith("http") else "http://127.0.0.1:5000"
        number = experiment_id(uri, experiment) if not uri.startswith("http") else None
        search = "" if sweep.done else f'tags.sweep = "{sweep.id}"'  # what was done before, other sweeps ran
        link = page(place, number, search) if number else place
        named = [f"experiment.name={written(experiment)}", *([] if default else [f"tracking.uri={uri}"])]
        start = "" if uri.startswith("http") else f"{command('ui', named)}, then "
        lines.append(f"compare: {start}{link}")
        if not number:
            lines.append(f'  experiment {experiment!r}, filter tags.sweep = "{sweep.id}", chart view')
    return lines
