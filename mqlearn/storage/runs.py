"""Run folders: written whole, loaded lazily, and found again by digest.

A run folder holds `config.yaml` (resolved settings), `curves.npz` (`iteration` and `samples` (C,) int64 and each
metric (n_seeds, C)), `tables.npz` (`q` (n_seeds, S, A), `error_iteration` (K,), `error_tables` (K, S, A)) and
`summary.json`, where null stands for what is not finite. A failed run has no arrays.
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

from mqlearn.analysis.statistics.intervals import mean_interval
from mqlearn.errors import SettingError
from mqlearn.files import write_whole

CONFIG, CURVES, TABLES, SUMMARY = FILES = ("config.yaml", "curves.npz", "tables.npz", "summary.json")
AXES = ("iteration", "samples")  # curves that are no metrics
TABLE_NAMES = ("q", "theta", "theta_average", "error_iteration", "error_tables", "visits")
DONE = ("finished", "diverged")


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

    @cached_property
    def settings(self) -> dict[str, Any]:
        from omegaconf import OmegaConf

        return _reading(self.folder / CONFIG, lambda path: OmegaConf.to_container(OmegaConf.load(path)))

    @cached_property
    def curves(self) -> dict[str, np.ndarray]:
        """`iteration`, `samples` (C,) if recorded, each metric (n_seeds, C), read-only; NaN after divergence."""
        return _reading(self.folder / CURVES, _load_arrays)

    @cached_property
    def tables(self) -> dict[str, np.ndarray]:
        """`q`, `error_iteration`, `error_tables`, read-only."""
        return _reading(self.folder / TABLES, _load_arrays)


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
    joins the summary (versions, numerics_version, git_commit, command, warnings, ...). Without a result the run is
    recorded as failed (extra: status, error). Raises SettingError if the target is refused or not writable.
    """
    folder = Path(folder).resolve()
    check_target(folder, digest, digest_of)
    summary = _summary(digest, name, result) | dict(extra or {})
    temporary = folder.parent / f".{folder.name}.{os.getpid()}-{secrets.token_hex(4)}"
    try:
        temporary.mkdir(parents=True)
        (temporary / CONFIG).write_text(_yaml(settings), encoding="utf-8")
        if result is not None:
            iteration = {"iteration": np.asarray(result.iteration, dtype=np.int64)}
            if (samples := getattr(result, "samples", None)) is not None:
                iteration["samples"] = np.asarray(samples, dtype=np.int64)
            _save_arrays(temporary / CURVES, iteration | result.curves)
            tables = {name: getattr(result, name, None) for name in TABLE_NAMES}
            if tables["theta"] is not None:  # of which the tables are a product, and a large one
                del tables["q"]
            _save_arrays(temporary / TABLES, {n: table for n, table in tables.items() if table is not None})
        (temporary / SUMMARY).write_text(_json(summary), encoding="utf-8")
        _put(temporary, folder, digest, digest_of)
    except OSError as error:
        raise SettingError("hydra.run.dir", folder, f"the run cannot be written there: {error}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    run = load(folder)
    vars(run)["settings"] = json.loads(json.dumps(settings))  # known: reading yaml takes longer than small runs do
    return run


def check_target(folder: Path, digest: str, digest_of: DigestOf = recorded_digest) -> None:
    """Raise SettingError if a run with this digest may not be written to `folder`.

    It may if the folder does not exist, is empty, or holds a run with the same digest.
    """
    if not folder.exists():
        return
    if not folder.is_dir():
        raise SettingError("hydra.run.dir", folder, "is a file; name a new or an empty folder")
    if not any(folder.iterdir()):
        return
    try:
        held = digest_of(load(folder))
        problem = f"holds another run (digest {held}, not {digest})"
    except SettingError as error:
        held, problem = None, f"holds files that are not a run ({error.admissible})"
    if held != digest:
        advice = "nothing is written into it; name a new or an empty folder"
        raise SettingError("hydra.run.dir", folder, f"{problem}; {advice}")


def update_summary(run: Run, **changes: Any) -> Run:
    """Replace entries of summary.json in one atomic step."""
    write_whole(run.folder / SUMMARY, _json(run.summary | changes))
    changed = load(run.folder)
    vars(changed).update({name: value for name, value in vars(run).items() if name not in ("folder", "summary")})
    return changed


def load(folder: str | Path) -> Run:
    """The run in `folder`. Raises SettingError, which names the file, if there is none or it is damaged."""
    folder = Path(folder).absolute()
    if not folder.is_dir():
        raise SettingError("folder", folder, "is not a folder" if folder.exists() else "no such folder")
    summary = _reading(folder / SUMMARY, lambda path: json.loads(path.read_text(encoding="utf-8")))
    if not isinstance(summary, dict) or not {"digest", "name", "status", "diverged"} <= summary.keys():
        raise SettingError("folder", folder, f"{SUMMARY} is not the summary of a run")
    return Run(folder, summary)


def complete(folder: Path, digest: str | None = None, digest_of: DigestOf = recorded_digest) -> Run | None:
    """The run in `folder` if that holds a finished or diverged one with all files uncut (and this digest, if given)."""
    try:
        run = load(folder)
    except SettingError:
        return None
    # A cut archive lacks the directory at its end, all that is_zipfile looks at: cheap for a thousand runs.
    whole = (folder / CONFIG).is_file() and all(zipfile.is_zipfile(folder / n) for n in (CURVES, TABLES))
    return run if whole and run.status in DONE and (digest is None or digest == digest_of(run)) else None


def is_complete(folder: str | Path, digest: str | None = None, digest_of: DigestOf = recorded_digest) -> bool:
    """Whether `complete` finds one."""
    return complete(Path(folder), digest, digest_of) is not None


def slug(text: str) -> str:
    """A folder name for free text: the text itself if plain, else its plain part and a digest of it all."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.")[:60]
    return name if name == text != "" else f"{name or 'experiment'}-{sha256(text.encode()).hexdigest()[:8]}"


def aggregate(values: np.ndarray) -> dict[str, np.ndarray]:
    """mean, std, low, high (95 % interval of the mean) and n_finite, each (C,), from `values` (n_seeds, C).

    Of the finite seeds. NaN where there is none: the mean of no seed, the std and the interval of one.
    """
    mean, low, high, n_finite = mean_interval(values)
    finite = np.isfinite(values)
    # Scaled by a power of two, which is exact, so that squares do not vanish: errors below 1e-160 occur.
    exponent = np.frexp(np.where(finite, np.abs(values), 0.0).max(axis=0))[1]
    scaled = np.ldexp(np.where(finite, values, 0.0), -exponent)
    centre = scaled.sum(axis=0) / np.maximum(n_finite, 1)
    squares = np.where(finite, scaled - centre, 0.0) ** 2
    std = np.ldexp(np.sqrt(squares.sum(axis=0) / np.maximum(n_finite - 1, 1)), exponent)
    std[n_finite < 2] = np.nan
    return {"mean": mean, "std": std, "low": low, "high": high, "n_finite": n_finite}


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


def _summary(digest: str, name: str, result: Any) -> dict[str, Any]:
    summary = {"digest": digest, "name": name, "status": "failed", "final": {}, "diverged": {}}
    summary |= {"mlflow_run_id": None, "seconds": None}
    if result is not None:
        last = {metric: aggregate(np.asarray(curve)[:, -1:]) for metric, curve in result.curves.items()}
        summary["final"] = {m: {key: x[0] for key, x in columns.items()} for m, columns in last.items()}
        summary["diverged"] = dict(sorted(result.diverged.items()))
        summary["status"] = "diverged" if result.diverged else "finished"
        summary["seconds"] = float(result.seconds)
    return summary | {"ended": datetime.now(UTC).isoformat(timespec="milliseconds")}


def _save_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """An .npz file as numpy.load reads it; its bytes depend on names and numbers alone, any name will do."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            member = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            with archive.open(member, "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asarray(array, order="C"), allow_pickle=False)


def _load_arrays(path: Path) -> dict[str, np.ndarray]:
    arrays = {}
    with zipfile.ZipFile(path) as archive:
        for member in archive.namelist():
            with archive.open(member) as file:
                array = np.lib.format.read_array(file, allow_pickle=False)
                file.read()  # to the end, where the checksum is compared
            array.flags.writeable = False
            arrays[member.removesuffix(".npy")] = array
    return arrays


def _reading(path: Path, read: Callable[[Path], Any]) -> Any:
    try:
        return read(path)
    except FileNotFoundError:
        problem = f"{path.name} is missing: not a complete run folder"
        raise SettingError("folder", path.parent, problem) from None
    except Exception as error:  # a damaged file fails in any of its reader's ways
        problem = f"{path.name} is damaged or unreadable ({type(error).__name__}: {error})"
        raise SettingError("folder", path.parent, problem) from error


def _yaml(settings: Mapping[str, Any]) -> str:
    from omegaconf import OmegaConf

    return OmegaConf.to_yaml(OmegaConf.create(plain(settings)))


def _json(value: Any) -> str:
    text = json.dumps(plain(value, finite=True), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    # A name that is not Unicode (paths, commands) holds lone surrogates: written as the escapes of JSON.
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
