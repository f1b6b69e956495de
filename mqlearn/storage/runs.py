"""Run folders: written whole, loaded lazily, and found again by digest.

A run folder holds `config.yaml` (resolved settings), `curves.npz` (`iteration` and `samples` (C,) int64 and each
metric (n_seeds, C)), `tables.npz` (`q` (n_seeds, S, A), `error_iteration` (K,), `error_tables` (K, S, A), and
`acting`, as `q`, of rules that act on another table than the one that is measured) and `summary.json`, where null
stands for what is not finite. A failed run has no arrays. The summary holds the SHA-256 of
each of the other files (`files`) and of itself without this entry (`checksum`): a run is finished if it is whole. A
folder of a version that had no checksums is whole if it can be read.
"""

import errno
import json
import math
import os
import re
import secrets
import shutil
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from mqlearn.errors import SettingError
from mqlearn.files import flush, is_there, ordinary, write_whole
from mqlearn.finding import Finding, of_record
from mqlearn.storage import checksums, formats, read, record_schema
from mqlearn.storage.summary import aggregate

CONFIG, CURVES, TABLES, SUMMARY = FILES = ("config.yaml", "curves.npz", "tables.npz", "summary.json")
AXES = record_schema.AXES
TABLE_NAMES = (
    "q", "acting", "theta", "theta_average", "theta_acting", "error_iteration", "error_tables", "mean_path", "visits",
)  # fmt: skip
DONE = ("finished", "diverged")
_SMALL = 30_000  # bytes: curves that are kept once they were read, though it may be of 10,000 runs


@dataclass(frozen=True, eq=False)
class Run:
    """A run on disk; settings and arrays are read at first use, where damage is a SettingError."""

    folder: Path
    summary: dict[str, Any]

    @property
    def digest(self) -> str:
        return self.summary["digest"]

    @property
    def name(self) -> str:
        return self.summary["name"]

    @property
    def status(self) -> str:
        """finished | diverged | failed | killed."""
        return self.summary["status"]

    @property
    def diverged(self) -> dict[int, int]:
        """Seed index -> iteration at which it diverged."""
        return {int(seed): step for seed, step in self.summary["diverged"].items()}

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What a user should know of it beside its numbers."""
        return of_record(self.summary)

    @cached_property
    def settings(self) -> dict[str, Any]:
        return read.file(self.folder / CONFIG, read.settings)

    @cached_property
    def curves(self) -> dict[str, np.ndarray]:
        """`iteration`, `samples` (C,) if recorded, each metric (n_seeds, C), read-only; NaN after divergence."""
        return read.file(self.folder / CURVES, read.curves)

    @cached_property
    def tables(self) -> dict[str, np.ndarray]:
        """`q`, `error_iteration`, `error_tables`, read-only."""
        return read.file(self.folder / TABLES, read.tables)


def recorded_digest(run: Run) -> str:
    """The digest that a run's record has, which an earlier version may have made in another way."""
    return run.digest


DigestOf = Callable[[Run], str]


def write(
    folder: str | Path,
    *,
    settings: Mapping[str, Any],
    digest: str,
    name: str,
    result: Any,
    extra: Mapping[str, Any] | None = None,
    digest_of: DigestOf = recorded_digest,
) -> Run:
    """Write a whole run folder under a temporary name beside `folder`, then rename it.

    `result` has iteration, curves, q, error_iteration, error_tables (shapes: see the module; a table may be
    None), diverged (seed index -> iteration) and seconds (of the learning loop).
    A folder with the same digest, as `digest_of` tells it, is replaced, except for files that are not a run's. `extra`
    joins the summary (versions, numerics_version, git_commit, command, warnings, findings, ...). Without a result the
    run is recorded as failed (extra: status, error). Raises SettingError if the target is refused or not writable.
    """
    folder = Path(os.path.realpath(folder))  # Path.resolve raises what is no OSError at links in a circle
    check_target(folder, digest, digest_of)
    summary = summary_of(digest, name, result) | dict(extra or {})
    temporary = folder.parent / f".{folder.name}.{os.getpid()}-{secrets.token_hex(4)}"
    try:
        temporary.mkdir(parents=True)
        (temporary / CONFIG).write_text(_yaml(settings), encoding="utf-8")
        if result is not None:
            iteration = {"iteration": np.asarray(result.iteration, dtype=np.int64)}
            if (samples := getattr(result, "samples", None)) is not None:
                iteration["samples"] = np.asarray(samples, dtype=np.int64)
            save_arrays(temporary / CURVES, iteration | result.curves)
            tables = {name: getattr(result, name, None) for name in TABLE_NAMES}
            if tables["theta"] is not None:  # of which the tables are a product, and a large one
                del tables["q"]
            save_arrays(temporary / TABLES, {n: table for n, table in tables.items() if table is not None})
        summary["files"] = {path.name: checksums.of_file(path) for path in sorted(temporary.iterdir())}
        (temporary / SUMMARY).write_text(_sealed(summary), encoding="utf-8")
        for path in (*temporary.iterdir(), temporary):
            flush(path)
        _put(temporary, folder, digest, digest_of)
        flush(folder.parent)
    except OSError as error:
        reason = f"{error.filename or folder}: {error.strerror or error}"
        raise SettingError("hydra.run.dir", folder, f"the run cannot be written there: {reason}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    run = load(folder)
    vars(run)["settings"] = json.loads(json.dumps(settings))  # known: reading yaml takes longer than small runs do
    return run


def check_target(folder: Path, digest: str, digest_of: DigestOf = recorded_digest) -> None:
    """Raise SettingError if a run with this digest may not be written to `folder`.

    It may if the folder does not exist, is empty, or holds a run with the same digest, damaged or not.
    """
    if not folder.exists():
        return
    if not folder.is_dir():
        raise SettingError("hydra.run.dir", folder, "is a file; name a new or an empty folder")
    if not any(folder.iterdir()):
        return
    try:
        held = digest_of(load(folder))
        problem = f"holds another run (digest {held}, not {digest}), whose folder is {folder.with_name(held[:16])}"
    except formats.OtherVersion:
        raise
    except SettingError as error:
        held = digest if _was(folder, digest) else None
        problem = f"holds files that are not a run ({error.admissible})"
    if held != digest:
        advice = "nothing is written into it; move it away, or name a new or an empty folder"
        raise SettingError("hydra.run.dir", folder, f"{problem}; {advice}")


def update_summary(run: Run, **changes: Any) -> Run:
    """Replace entries of summary.json in one atomic step."""
    write_whole(run.folder / SUMMARY, _sealed(run.summary | changes))
    changed = load(run.folder)
    vars(changed).update({name: value for name, value in vars(run).items() if name not in ("folder", "summary")})
    return changed


def load(folder: str | Path) -> Run:
    """The run in `folder`.

    Raises SettingError, which names the file, if there is none or it is damaged; OtherVersion, which is one, if a newer
    version has written it in a format that this one does not know.
    """
    folder = Path(folder).absolute()
    if not is_there(str(folder)) or not folder.is_dir():
        raise SettingError("folder", folder, "is not a folder" if is_there(str(folder)) else "no such folder")
    return Run(folder, read.file(folder / SUMMARY, read.summary))


def recorded_settings(run: Run) -> dict[str, Any]:
    """All settings of a run, each of its type. Raises SettingError, which names folder, file and entry."""
    settings = run.settings
    try:
        record_schema.check_complete(settings)
    except ValueError as error:
        raise SettingError("folder", run.folder, f"{CONFIG} is no record of a run: {error}") from None
    return settings


def check_readable(run: Run) -> None:
    """Raise SettingError, which names folder, file and entry, unless a finished run can be compared and drawn."""
    recorded_settings(run)
    curves = _readable_arrays(run)
    if sum(array.nbytes for array in curves.values()) < _SMALL:
        vars(run)["curves"] = curves
    seeds = {len(array) for name, array in curves.items() if name not in AXES}
    if seeds - {run.settings["n_seeds"]}:
        expected = f"has {seeds.pop()} seeds, {CONFIG} says {run.settings['n_seeds']}"
        raise SettingError("folder", run.folder, f"{CURVES} {expected}")


def _readable_arrays(run: Run) -> dict[str, np.ndarray]:
    """The curves of a finished run; its tables are looked at. Raises SettingError."""
    curves = read.file(run.folder / CURVES, read.curves)
    read.file(run.folder / TABLES, read.check_table_heads)
    return curves


def check_deliverable(run: Run) -> None:
    """Raise SettingError, which names folder and file, unless a store may be given the folder of a run as it is.

    Nothing that our own readers refuse is handed on, and no pipe is read from.
    """
    for path in sorted(run.folder.rglob("*")):
        if not (path.is_file() or path.is_dir()):
            raise SettingError("folder", run.folder, f"{path.relative_to(run.folder)} is no ordinary file")
    if run.status in DONE:
        _readable_arrays(run)


def look(folder: Path, digest: str | None = None, digest_of: DigestOf = recorded_digest) -> tuple[Run | None, str]:
    """The finished or diverged run in `folder`, if it is whole and has this digest (if given); else why it is damaged.

    No run and no reason: nothing is there, or a run that failed, or another one. Raises OtherVersion.
    """
    for last in (False, True):  # the folder may be replaced, as a whole, while it is looked at
        if not any((folder / name).exists() for name in (SUMMARY, CURVES, TABLES)):
            break
        try:
            run = load(folder)
        except formats.OtherVersion:
            raise
        except SettingError as error:
            problem = error.admissible
        else:
            if run.status not in DONE or (digest is not None and digest != digest_of(run)):
                break
            problem = checksums.damage(run.folder, FILES[:-1], run.summary.get("files"))
            if not problem:
                return run, ""
        if last:
            return None, problem
    return None, ""


def whole(folder: str | Path) -> Run:
    """The run in `folder`, finished or not. Raises SettingError, which names the file, if it is damaged."""
    run = load(folder)
    if run.status in DONE and (problem := checksums.damage(run.folder, FILES[:-1], run.summary.get("files"))):
        raise SettingError("folder", run.folder, problem)
    return run


def complete(folder: Path, digest: str | None = None, digest_of: DigestOf = recorded_digest) -> Run | None:
    """The run in `folder` if that holds a whole finished or diverged one (and this digest, if given)."""
    return look(folder, digest, digest_of)[0]


def is_complete(folder: str | Path, digest: str | None = None, digest_of: DigestOf = recorded_digest) -> bool:
    """Whether `complete` finds one."""
    return complete(Path(folder), digest, digest_of) is not None


def slug(text: str) -> str:
    """A folder name for free text: the text itself if plain, else its plain part and a digest of it all."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.")[:60]
    return name if name == text != "" else f"{name or 'experiment'}-{sha256(text.encode()).hexdigest()[:8]}"


def plain(value: Any, *, finite: bool = False) -> Any:
    """`value` as dicts with text keys, lists and Python scalars; with `finite`, None for nan and infinity."""
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist(), finite=finite)
    if isinstance(value, Mapping):
        return {str(key): plain(item, finite=finite) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, finite=finite) for item in value]
    if isinstance(value, float):
        return None if finite and not math.isfinite(value) else value
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def leftovers(parent: Path) -> dict[str, list[Path]]:
    """What processes that wrote folders in `parent`, and died or are still at it, have there, by the folder's name."""
    found: dict[str, list[Path]] = {}
    if parent.is_dir():
        with os.scandir(parent) as entries:
            for entry in entries:
                if known := re.fullmatch(r"\.(.+)\.\d+-[0-9a-f]{8}(\.old)?", entry.name):
                    found.setdefault(known[1], []).append(Path(entry.path))
    return found


def clear(folder: Path) -> None:
    """Remove the `leftovers` of a folder, but for files that are no run's. For the holder of its claim alone."""
    for path in leftovers(folder.parent).get(folder.name, ()):
        with suppress(OSError):  # of a user's folder (hydra.run.dir), whose process died between two renames
            for entry in path.iterdir():
                if entry.name not in FILES and not (folder / entry.name).exists():
                    folder.mkdir(exist_ok=True)
                    entry.rename(folder / entry.name)
        if not path.is_dir() or {entry.name for entry in path.iterdir()} <= {*FILES}:
            shutil.rmtree(path, ignore_errors=True)


def _was(folder: Path, digest: str) -> bool:
    """Whether a folder whose summary cannot be read was the run of a digest, by its name or what is left of it."""
    if not any((folder / name).is_file() for name in FILES):
        return False
    if folder.name == digest[:16]:
        return True
    with suppress(OSError), ordinary(folder / SUMMARY) as file:
        return digest.encode() in file.read()
    return False


def _sealed(summary: Mapping[str, Any]) -> str:
    """The text of summary.json, with its own checksum."""
    content = plain(summary, finite=True)
    return _json(content | {"checksum": checksums.of_summary(content)})


def _put(temporary: Path, folder: Path, digest: str, digest_of: DigestOf) -> None:
    """Rename a new run to `folder`, which is nothing, an empty folder or the same run."""
    while True:
        try:
            temporary.rename(folder)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        check_target(folder, digest, digest_of)  # once more: another process may have written it meanwhile
        old = temporary.with_name(f"{temporary.name}.old")
        with suppress(FileNotFoundError):  # or taken it away
            folder.rename(old)
            for entry in old.iterdir():
                if entry.name not in FILES:
                    entry.rename(temporary / entry.name)
            shutil.rmtree(old)


def summary_of(digest: str, name: str, result: Any) -> dict[str, Any]:
    """What the summary says of a result by itself; without one, that of a run that failed."""
    summary = {formats.KEY: formats.FORMAT, "digest": digest, "name": name, "status": "failed"}
    summary |= {"final": {}, "diverged": {}}
    summary |= {"mlflow_run_id": None, "seconds": None}
    if result is not None:
        last = {metric: aggregate(np.asarray(curve)[:, -1:]) for metric, curve in result.curves.items()}
        summary["final"] = {m: {key: x[0] for key, x in columns.items()} for m, columns in last.items()}
        summary["diverged"] = dict(sorted(result.diverged.items()))
        summary["status"] = "diverged" if result.diverged else "finished"
        summary["seconds"] = float(result.seconds)
    return summary | {"ended": datetime.now(UTC).isoformat(timespec="milliseconds")}


def save_arrays(path: Any, arrays: Mapping[str, Any]) -> None:
    """An .npz file, or into an open one, as numpy.load reads it.

    Its bytes depend on names and numbers alone, any name will do.
    """
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            member = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            with archive.open(member, "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asarray(array, order="C"), allow_pickle=False)


def _yaml(settings: Mapping[str, Any]) -> str:
    """As `OmegaConf.to_yaml` writes them, without the objects that it would make of them first."""
    import yaml
    from omegaconf._utils import get_omega_conf_dumper

    how: Any = {"default_flow_style": False, "allow_unicode": True, "sort_keys": False}
    return yaml.dump(plain(settings), Dumper=get_omega_conf_dumper(), **how)


def _json(value: Any) -> str:
    text = json.dumps(plain(value, finite=True), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    # A name that is not Unicode (paths, commands) holds lone surrogates: written as the escapes of JSON.
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
