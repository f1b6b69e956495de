"""The cells of a sweep as files, and one cell's job: what its processes, wherever they run, know of each other.

outputs/sweeps/ID/plan.json is written before any job: the planned cells. Beside it, jobs/NUMBER.json has those of a job
alone, by the number of its first one, and cells/NUMBER.json says how far a cell is: running (process and host), done,
failed or killed. A cell without such a file never started.
"""

import contextlib
import json
import os
import socket
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mqlearn.errors import SettingError
from mqlearn.experiments import processes
from mqlearn.experiments.presentation.names import plain_label
from mqlearn.experiments.settings import identity
from mqlearn.files import text_of, write_whole
from mqlearn.finding import each_once
from mqlearn.storage import formats, locks, record_schema, runs

# Environment of a job: the folder of its sweep, its own plan, and the store's address if it has a secret.
SWEEP, JOB, STORE = "MQLEARN_SWEEP", "MQLEARN_JOB", "MQLEARN_STORE"
PLAN, JOBS = "plan.json", "jobs"
_TEXT, _MAYBE = (str,), (str, type(None))
_OF_PLAN = {"id": _TEXT, "started": _TEXT, "cells": (list,), "ended": _MAYBE}
_OF_CELL = {
    **dict.fromkeys(("digest", "name", "experiment", "folder"), _TEXT),
    **dict.fromkeys(("cell", "group", "command", "recorded_digest"), _MAYBE),
    "number": (int,),
    "settings": (dict, type(None)),
    "done_before": (bool,),
    "tracked": (bool, type(None)),
}
_OF_STATE = {
    "state": _TEXT,
    "pid": (int, type(None)),
    **dict.fromkeys(("host", "error", "not_tracked"), _MAYBE),
    "diverged": (dict, type(None)),
    "q_error": (list, type(None)),
    "warnings": (list, type(None)),
}


def sweeps(outputs: Path) -> Path:
    """The folder of all sweeps."""
    return outputs / "sweeps"


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def write_json(path: Path, content: Any) -> None:
    """Replace a file in one step, so that no reader meets half of it."""
    write_whole(path, json.dumps(content, ensure_ascii=True, indent=1))


def write_plan(path: Path, head: Mapping[str, Any], cells: Sequence[Mapping[str, Any]]) -> None:
    """A plan in one step, a cell a line: with an indent Python would write 100,000 of them for a minute."""
    parts = [f'{json.dumps(head)[:-1]},\n"cells": [']
    parts += [f"{',' * bool(number)}\n{json.dumps(one)}" for number, one in enumerate(cells)]
    write_whole(path, [*parts, "\n]}\n"])


def read_plan(folder: Path, own: Path | None = None) -> dict[str, Any]:
    """plan.json of a sweep, or a job's `own`, its cells by the digests of today.

    Raises SettingError if it is missing or damaged; OtherVersion, which is one, if it is of a newer format.
    """
    path = own or folder / PLAN
    try:
        plan = json.loads(text_of(path))
        if isinstance(plan, dict):
            formats.check("sweep", folder.name, plan.get(formats.KEY), plan.get("versions"))
        _check("the plan", plan, _OF_PLAN)
        for number, one in enumerate(plan["cells"], 1):
            _check(f"cell {number}", one, _OF_CELL)
            if own is None and one["number"] != number:
                raise ValueError(f"cell {number} has the number {one['number']}")
        if plan.get("digest_version") != identity.DIGEST_VERSION:
            for one in plan["cells"]:
                one["recorded_digest"] = one["digest"]
                with contextlib.suppress(ValueError):  # of settings that are none
                    record_schema.check_complete(one.get("settings") or {})
                    one["digest"] = identity.present_digest(one["digest"], one["settings"])
    except formats.OtherVersion:  # a ValueError too
        raise
    except FileNotFoundError:
        raise SettingError("sweep", folder.name, f"{path} is missing") from None
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise SettingError("sweep", folder.name, f"{path} is damaged ({reason}), and left out") from None
    return plan


def _check(what: str, content: Any, kinds: Mapping[str, tuple[type, ...]]) -> None:
    """Raise ValueError, which names the entry, unless content is a mapping with entries of these types."""
    if not isinstance(content, dict):
        raise ValueError(f"{what} is no mapping")
    for key, types in kinds.items():
        if type(content.get(key)) not in types:
            raise ValueError(f"{key} of {what} is {str(content.get(key, 'missing'))[:60]!r}")


def mark(folder: Path, planned: Mapping[str, Any], state: str, **more: Any) -> None:
    """Say how far a cell is: running | done | failed | killed."""
    content = {
        "digest": planned["digest"],
        "state": state,
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "at": now(),
    }
    write_json(folder / "cells" / f"{planned['number']}.json", content | more)


def states(folder: Path, numbers: Sequence[int] | None = None) -> dict[int, dict[str, Any]]:
    """What `mark` said last of each cell, or of some, by number."""
    found, place = {}, folder / "cells"
    for path in place.glob("[0-9]*.json") if numbers is None else (place / f"{number}.json" for number in numbers):
        with contextlib.suppress(OSError, ValueError, RecursionError):
            state = json.loads(text_of(path))
            _check("the state", state, _OF_STATE)
            found[int(path.stem)] = state
    return found


def alive(state: Mapping[str, Any]) -> bool:
    """Whether the process of a running cell lives, as far as this host can tell: elsewhere it is presumed to."""
    if state.get("state") != "running":
        return False
    if state.get("host") != socket.gethostname():
        return True
    try:
        os.kill(state["pid"], 0)
    except (ProcessLookupError, OverflowError):  # of a damaged file
        return False
    except PermissionError:
        pass
    with contextlib.suppress(OSError, IndexError):  # a process that has ended, and is not yet reaped
        return Path(f"/proc/{state['pid']}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return True


def told_apart(cells: Sequence[tuple[str, str | None]]) -> list[str]:
    """Names of cells, from (name, what was swept) of each: what was swept is said where several have one name."""
    names = Counter(name for name, _ in cells)
    return [name if names[name] == 1 or not swept else f"{name} ({swept})" for name, swept in cells]


def job() -> None:
    """Some cells, as they were planned, in whatever process the launcher runs them: none that fails stops the others.

    What this sweep has done of them before, in a job that was killed, is not done again.
    """
    sweep = Path(os.environ[SWEEP])
    plan = read_plan(sweep, Path(os.environ[JOB]))
    _check_version(sweep.name, plan)
    if plan["launcher"] == "joblib" and os.getpid() != plan["pid"] != os.getppid():
        return  # what is left in the pipe of its workers is for the next sweep
    before = states(sweep, [one["number"] for one in plan["cells"]])
    for planned in plan["cells"]:
        if before.get(planned["number"], {}).get("state") == "done":
            continue
        if processes.orphaned.is_set():
            break
        with processes.busy:
            _account(Path(planned["folder"]), sweep, plan, planned)


def _check_version(sweep: str, plan: Mapping[str, Any]) -> None:
    """Raise OtherVersion if the sweep was planned by another version than the one that is to run its job."""
    planned = (plan.get("versions") or {}).get("mqlearn", "0.1.0")  # which did not say it
    if planned != (own := formats.installed()):
        problem = f"was planned by mqlearn {planned}, and this is mqlearn {own}: a sweep is of one version"
        raise formats.OtherVersion("sweep", sweep, f"{problem}; start it again, finished cells are kept")


def _account(folder: Path, sweep: Path, plan: Any, planned: Any) -> None:
    from mqlearn.experiments import execute

    try:
        with locks.claimed(_locks(sweep), *execute.claim(planned["experiment"], planned["digest"])):
            settings = _settings(planned)
            mark(sweep, planned, "running", started=now())
            try:
                run, again = None, plan["existing"] == "rerun"
                track = execute.tracker(settings)
                if not again:
                    run = execute.finished(folder, planned["digest"], track)
                if run is None:
                    run = _run(settings, folder, planned, plan)
                run, problem = track.deliver(run, again=again, tags=tags_of(plan["id"], planned))
            except Exception as error:
                if processes.interruption.is_set():  # which comes out of a compiler as another error
                    raise KeyboardInterrupt from error
                _record_failed(settings, folder, planned, plan, error)
                raise
            mark(sweep, planned, "done", **outcome(run), **({"not_tracked": problem} if problem else {}))
    except Exception as error:
        mark(sweep, planned, "failed", error=first_line(error), traceback=traceback.format_exc())
    except BaseException:
        record_killed(sweep, planned)
        raise


def _locks(sweep: Path) -> Path:
    return locks.folder(sweep.parent.parent)


def _settings(planned: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a cell as they were planned."""
    settings = planned["settings"]
    if STORE in os.environ:
        settings = settings | {"tracking": settings["tracking"] | {"uri": os.environ[STORE]}}
    return settings


def _run(settings: dict[str, Any], folder: Path, planned: Mapping[str, Any], plan: Any) -> runs.Run:
    from mqlearn.experiments import execute
    from mqlearn.experiments.settings.cell import build

    digest = planned["digest"]
    cell = build(settings)
    if cell.digest != digest:
        problem = "is not the planned digest: a configuration file, a map or a module has changed since the sweep began"
        raise SettingError("settings", cell.digest[:16], f"{problem} (planned {digest[:16]}); start the sweep again")
    known, found = execute.of_problem(cell)
    found = each_once([*found, *execute.before_run(cell)])  # as of a run of its own
    known |= {"tags": tags_of(plan["id"], planned), "command": planned["command"]}
    return execute.perform(cell, folder, execute.tracker(cell.settings), known=known, findings=found, quiet=True)


def tags_of(sweep: str, planned: Mapping[str, Any]) -> dict[str, str]:
    """The tags that a run of a sweep carries: the sweep, the cell's label in it, and what it is compared within."""
    return {"sweep": sweep, "cell": plain_label(planned["cell"]), "group": planned["group"]}


def outcome(run: runs.Run) -> dict[str, Any]:
    """What the summary of a sweep tells of a finished run."""
    final = run.summary["final"].get("q_error") or {}
    return {
        "seconds": run.summary["seconds"],
        "diverged": {str(seed): step for seed, step in run.diverged.items()},
        "q_error": [final.get(key) for key in ("mean", "low", "high")],
        "warnings": [found.text for found in run.findings],
        "run_id": run.summary["mlflow_run_id"],
    }


def first_line(error: BaseException) -> str:
    """An exception in one line."""
    text = (str(error).strip() or type(error).__name__).splitlines()[0]
    return text if isinstance(error, SettingError) else f"{type(error).__name__}: {text}"


def record_killed(sweep: Path, planned: Mapping[str, Any]) -> None:
    """Mark a cell that was begun and not finished: in the sweep, and in its run folder if that holds no run."""
    from mqlearn.experiments import execute

    folder = Path(planned["folder"])
    with locks.at_once(_locks(sweep), *execute.claim(planned["experiment"], planned["digest"])) as held:
        if held and not runs.is_complete(folder):  # else another sweep is at it by now
            runs.clear(folder)
            with contextlib.suppress(SettingError):
                extra = {"status": "killed", "error": "interrupted", "command": planned["command"]}
                digest, name = planned["digest"], planned["name"]
                runs.write(folder, settings={}, digest=digest, name=name, result=None, extra=extra)
    mark(sweep, planned, "killed", error="interrupted")  # last: what is marked is recorded


def _record_failed(settings: dict[str, Any], folder: Path, planned: Any, plan: Any, error: Exception) -> None:
    """A failed cell is a run too, unless a finished one lies there, or nothing can be written."""
    from mqlearn.experiments import execute, provenance

    if runs.is_complete(folder):
        return
    extra = {"error": first_line(error), "traceback": traceback.format_exc(), "tags": tags_of(plan["id"], planned)}
    extra |= {
        "versions": provenance.versions(),
        "git_commit": provenance.git_commit(),
        "command": planned["command"],
    }
    with contextlib.suppress(SettingError):
        track = execute.tracker(settings)
        digest, name = planned["digest"], planned["name"]
        track.deliver(runs.write(folder, settings=settings, digest=digest, name=name, result=None, extra=extra))
