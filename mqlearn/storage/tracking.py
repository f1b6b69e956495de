"""MLflow as an edge: a complete run folder becomes one MLflow run.

Each metric of `curves` gives, per checkpoint, NAME (mean over the finite seeds), NAME_std, NAME_low and
NAME_high (95 % interval of the mean), NAME_n_finite where some, but not all, seeds are finite, all these while two
seeds are finite, and on request NAME_seed_I; and once NAME_final, the mean at the last checkpoint, only if all seeds
are finite there, so that sorting by it never puts a diverged run first. What is not finite is not written. Parameters
are the settings by dotted key.
"""

import errno
import json
import logging
import os
import posixpath
import re
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mqlearn.checks import whole
from mqlearn.errors import SettingError, nearest
from mqlearn.paths import outputs_folder
from mqlearn.storage import locks, moved, runs
from mqlearn.storage.store import TrackingError as TrackingError  # part of this module's interface, as is find
from mqlearn.storage.store import (
    connect,
    experiment_id,
    failures,
    finished,
    is_known,
    load_mlflow,
    running,
    shown,
    sqlite_path,
)
from mqlearn.storage.store import find as find
from mqlearn.storage.summary import aggregate

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

DATABASES = ("sqlite", "postgresql", "mysql", "mssql")
METRICS_A_BATCH, PARAMETERS_A_BATCH, PARAMETER_LENGTH = 1000, 100, 6000  # MLflow's limits
_log = logging.getLogger(__name__)


def default_uri(outputs: str | Path) -> str:
    """The SQLite store of an outputs folder."""
    return f"sqlite:///{Path(outputs).absolute() / 'mlflow.db'}"


def resolve_uri(uri: str | None, environment: str | None, outputs: str | Path) -> str:
    """The store's address: the setting `tracking.uri`, else MLFLOW_TRACKING_URI, else SQLite in `outputs`.

    Paths become absolute here, once. Raises SettingError for folders and for what is not a store's address.
    """
    setting, uri = ("tracking.uri", uri) if uri else ("MLFLOW_TRACKING_URI", environment)
    if not uri:
        setting, uri = "tracking.uri", default_uri(outputs)
    scheme = re.match(r"([A-Za-z][A-Za-z0-9.-]+)(\+\w+)?:", uri)  # a single letter is a drive
    kind = scheme[1].lower() if scheme else "file"
    if kind == "file":
        database = Path(uri if Path(uri).suffix == ".db" else Path(outputs) / "mlflow.db").absolute()
        reason = "a folder as a store is refused by MLflow since version 3"
        advice = f"leave it out for the SQLite file in the outputs folder, or write sqlite:///{database}"
        old = "`mlflow migrate-filestore` moves the runs of an old folder"
        raise SettingError(setting, uri, f"{reason}; {advice} ({old})")
    if kind in ("http", "https"):
        return uri.rstrip("/")
    if kind not in DATABASES:
        known = (*DATABASES, "http", "https")
        problem = f"must be an address that begins with {', '.join(known)}{nearest(kind, known)}"
        raise SettingError(setting, shown(uri), problem)
    if kind != "sqlite":
        return uri
    path = sqlite_path(uri)
    if path is None or ":memory:" in uri or path.is_dir():
        raise SettingError(setting, uri, "a SQLite store is a file: sqlite:////absolute/path/mlflow.db")
    if re.search(r"\?|%[0-9A-Fa-f]{2}", str(path.absolute())):  # SQLAlchemy would read another path from it
        raise SettingError(setting, uri, "the path of a SQLite store cannot hold ? or %XX")
    return f"sqlite:///{path.absolute()}"


def named(overrides: Iterable[str], outputs: str | Path) -> str | None:
    """The store that `tracking=none` or `tracking.uri=URI` among some overrides names, or else the usual one.

    Raises SettingError.
    """
    uri: str | None = None
    for key, _, value in (text.lstrip("+").partition("=") for text in overrides):
        if key == "tracking" and value == "none":
            return None
        if key == "tracking.uri":
            uri = value.strip("'\"")
        elif (key, value) != ("tracking", "mlflow"):
            raise SettingError(key, value, "has no effect here; only tracking and tracking.uri say where runs are")
    return resolve_uri(uri, os.environ.get("MLFLOW_TRACKING_URI"), outputs)


def prepare(uri: str, experiment: str, *, outputs: Path | None = None) -> str:
    """Make what is missing of store, schema and experiment; the experiment's id. Call it once before any job.

    Artifacts lie beside a SQLite file; those of another database that is used without a server, in `outputs`.
    Raises SettingError for a name or an address that cannot be, TrackingError if the store fails.
    """
    if experiment in ("", "Default"):
        problem = "a name other than MLflow's own Default, where stray runs land and artifacts lie elsewhere"
        raise SettingError("experiment.name", experiment, problem)
    with failures("preparing the store", uri):
        load_mlflow()  # takes seconds, so not in the lock, where other jobs wait
        database = sqlite_path(uri)
        with nullcontext() if experiment_id(uri, experiment) else _locked(database):
            client = connect(uri)
            found = client.get_experiment_by_name(experiment)
            if found is None:
                folder = database.parent if database else None if uri.startswith("http") else outputs
                place = folder and (folder.absolute() / moved.ROOT / runs.slug(experiment)).as_uri()
                return _create_experiment(client, experiment, place)
        _follow(uri, found)
    if found.lifecycle_stage != "active":
        problem = "was deleted in the store: restore it (`mlflow experiments restore`) or use another name"
        raise SettingError("experiment.name", experiment, problem)
    return found.experiment_id


def log(
    run: runs.Run, uri: str, experiment: str, per_seed: bool = False, *, tags: Mapping[str, Any] | None = None
) -> str:
    """Record a run folder as one MLflow run, whole and ended; its id, which summary.json then holds too.

    `tags` (sweep, cell, group, ...) join the run's own. A failed run is recorded as FAILED, with its error
    and without metrics. Raises TrackingError if the store fails; no RUNNING run stays, if it can be helped.
    """
    metrics = [metric for metric in run.curves if metric not in runs.AXES] if run.status in runs.DONE else []
    names = _unique(metrics, ("", "_std", "_low", "_high", "_n_finite", "_final"))
    values = [value for text, name in names.items() for value in _values(run, text, name, per_seed)]
    with failures("recording a run", uri):
        place = prepare(uri, experiment)
        client = connect(uri)
        ended = round(1000 * datetime.fromisoformat(run.summary["ended"]).timestamp())
        started = ended - round(1000 * (run.summary["seconds"] or 0.0))
        own = _tags(run, names, tags or run.summary.get("tags") or {})
        created = client.create_run(place, started, own, run.name[:250])
        run_id = created.info.run_id
        try:
            run = runs.update_summary(run, mlflow_run_id=run_id)
            _log_parameters(client, run_id, run.settings)
            _log_metrics(client, run_id, values, ended)
            client.log_artifacts(run_id, str(run.folder))
            status = {"failed": "FAILED", "killed": "KILLED"}.get(run.status, "FINISHED")
            client.set_terminated(run_id, status, ended)
        except BaseException as error:
            with suppress(Exception):
                runs.update_summary(run, mlflow_run_id=None)
            with suppress(Exception):
                client.set_terminated(run_id, "FAILED" if isinstance(error, Exception) else "KILLED")
            raise
    return run_id


def _follow(uri: str, experiment: Any) -> None:
    """Have the artifacts of an experiment beside its SQLite store, wherever that was when the experiment was made."""
    database, path = sqlite_path(uri), moved.local(experiment.artifact_location)
    if database is None or path is None or moved.place(path, database) == path:
        return
    if not is_known(database):
        advice = "move it back, or give the experiment another name (experiment.name)"
        raise TrackingError(f"{shown(uri)} was moved, and would put its artifacts in {path}: {advice}")
    with _locked(database):
        now = connect(uri).get_experiment(experiment.experiment_id)  # another process may have been first
        moved.follow(database, now.experiment_id, now.artifact_location)


def end_killed(uri: str, run_ids: Iterable[str]) -> None:
    """End runs whose process died while it recorded them. Raises TrackingError if the store fails."""
    with failures("ending a run", uri):
        for run_id in run_ids:
            connect(uri).set_terminated(run_id, "KILLED")


def upload(
    folder: str | Path,
    uri: str,
    experiment: str,
    per_seed: bool = False,
    *,
    tags: Mapping[str, Any] | None = None,
) -> str:
    """`log` the run in `folder`, unless the store has a FINISHED run with its digest; the id of either.

    Raises SettingError if the folder holds no run or is damaged, TrackingError if the store fails.
    """
    return record(runs.whole(folder), uri, experiment, per_seed, tags=tags)


def record(
    run: runs.Run, uri: str, experiment: str, per_seed: bool = False, *, tags: Mapping[str, Any] | None = None
) -> str:
    """`upload` of a run that is known to be whole. Whoever comes second, at the same time too, finds it recorded.

    Processes that have only a server in common hold no claim against each other. Of two that recorded one digest at
    the same time the one that ends last sees both, and takes one back.
    """
    database = sqlite_path(uri)
    with locks.claimed(_locks(uri), *_claim(experiment, run.digest)):
        there = finished(uri, experiment, run.digest)
        if not there:
            end_killed(uri, [left.run_id for left in running(uri, experiment, run.digest)])
            run_id = log(run, uri, experiment, per_seed, tags=tags)
            there = [] if database or run.status not in runs.DONE else finished(uri, experiment, run.digest)
            if len(there) < 2:
                return run_id
            first = min(there, key=lambda stored: stored.run_id)
            with failures("taking a second record back", uri):
                for stored in there:
                    if stored is not first:
                        connect(uri).delete_run(stored.run_id)
            there = [first]
        latest = max(there, key=lambda stored: (stored.ended, stored.run_id))
        if runs.load(run.folder).summary["mlflow_run_id"] != latest.run_id:
            with failures("completing summary.json", uri):
                runs.update_summary(run, mlflow_run_id=latest.run_id)
        return latest.run_id


def record_at_once(uri: str, experiment: str, digest: str) -> AbstractContextManager[bool]:
    """Hold the record of a digest, if no other process is at it (`locks.at_once`)."""
    return locks.at_once(_locks(uri), *_claim(experiment, digest))


def _claim(experiment: str, digest: str) -> tuple[str, str, str]:
    return "record", experiment, digest


def _locks(uri: str) -> Path:
    """Beside the store, for all who use it; where it is no file, in the outputs folder."""
    database = sqlite_path(uri)
    return locks.folder(database.parent if database else outputs_folder())


def open_ui(uri: str, *, host: str = "127.0.0.1", port: int = 5000) -> None:
    """Print the address of the MLflow UI on the store and become its server, until stopped with Ctrl-C."""
    if uri.startswith("http"):
        print(f"MLflow UI: {shown(uri)} (a server: nothing to start)")
        return
    database = sqlite_path(uri)
    if database is not None and not database.exists():
        raise SettingError("tracking.uri", uri, "no store there yet: the first tracked run makes it")
    port = whole("port", port, 0, 65535)
    with closing(socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                expected = f"another program on this machine uses it; choose another, as in port={port % 65535 + 1}"
            else:
                expected = f"cannot be used on {host}: {error.strerror}"
            raise SettingError("port", port, expected) from None
    command = [sys.executable, "-m", "mlflow", "server", "--workers=1", f"--host={host}", f"--port={port}"]
    if database is not None:
        command.append(f"--artifacts-destination={database.parent / 'mlartifacts'}")
    environment = os.environ | {  # the address not on the command line, where all would see a password
        "MLFLOW_BACKEND_STORE_URI": uri,
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    }
    print(f"MLflow UI: http://{host}:{port} (store {shown(uri)}; stop with Ctrl-C)", flush=True)
    os.execve(sys.executable, command, environment)


def metric_name(text: str) -> str:
    """`text` if MLflow allows it as a name, else its nearest form of letters, digits, blanks and . - _ /."""
    name = text
    if not re.fullmatch(r"[\w.\- /]+", name):
        name = re.sub(r"_{2,}", "_", re.sub(r"[^\w.\- /]+", "_", name)).strip("_ ")
    if posixpath.normpath(name) != name or name.startswith(("..", "/")) or name == ".":
        name = re.sub("/+", "_", name).strip("./_ ")
    if len(name) > 200:  # of 250, the rest is for _std, _seed_19, ...
        name = f"{name[:180]}_{sha256(name.encode()).hexdigest()[:8]}"
    return name or "metric"


def _unique(texts: Iterable[str], suffixes: tuple[str, ...] = ("",)) -> dict[str, str]:
    """Text -> name in MLflow, such that no two names, each with any of the suffixes, coincide."""
    names: dict[str, str] = {}
    used: set[str] = set()
    for text in texts:
        name, number = metric_name(text), 1
        while not used.isdisjoint(name + suffix for suffix in suffixes):
            number += 1
            name = f"{metric_name(text)}_{number}"
        used |= {name + suffix for suffix in suffixes}
        names[text] = name
    return names


def _tags(run: runs.Run, metrics: Mapping[str, str], more: Mapping[str, Any]) -> dict[str, str]:
    groups = ("algorithm", "env", "sampling", "step_size")
    tags = {group: run.settings[group].get("name") for group in groups if group in run.settings}
    tags |= {"digest": run.digest, "status": run.status, "folder": run.folder}
    tags |= {key: run.summary.get(key) for key in ("git_commit", "error", "digest_version")}
    tags["diverged"] = "; ".join(f"seed {seed} at iteration {step}" for seed, step in run.diverged.items())
    renamed = {name: text for text, name in metrics.items() if name != text}
    if renamed:
        tags["renamed_metrics"] = json.dumps(renamed, ensure_ascii=False)
        _log.warning("metric names that MLflow does not allow were changed: %s", tags["renamed_metrics"])
    return {key: str(value)[:8000] for key, value in (tags | dict(more)).items() if value not in (None, "")}


def _values(run: runs.Run, text: str, name: str, per_seed: bool) -> Iterator[tuple[str, float, int]]:
    """(metric, value, iteration), finite and in plain Python numbers, of one metric of `curves`."""
    values, iteration = run.curves[text], run.curves["iteration"]
    columns = aggregate(values)
    n_finite = columns["n_finite"]
    whole = n_finite == len(values)
    if len(values) > 1:  # so that the last mean, std, low and high that the store shows are of one checkpoint
        columns["mean"] = np.where(n_finite > 1, columns["mean"], np.nan)
    series = {name: columns["mean"]} | {f"{name}_{key}": columns[key] for key in ("std", "low", "high")}
    series[f"{name}_n_finite"] = np.where(~whole & (n_finite > 1), n_finite, np.nan)
    last = np.arange(len(iteration)) == len(iteration) - 1
    series[f"{name}_final"] = np.where(last & whole, columns["mean"], np.nan)
    if per_seed:
        series |= {f"{name}_seed_{i}": row for i, row in enumerate(values)}
    for key, row in series.items():
        finite = np.isfinite(row)
        for value, step in zip(row[finite].tolist(), iteration[finite].tolist(), strict=True):
            yield key, float(value), int(step)


def _log_parameters(client: "MlflowClient", run_id: str, settings: Mapping[str, Any]) -> None:
    """The settings by dotted key, but not those of tracking: they change no number and may hold a password."""
    from mlflow.entities import Param

    flat = dict(_flat({key: value for key, value in settings.items() if key != "tracking"}))
    parameters = []
    for key, name in _unique(flat).items():
        text = flat[key] if isinstance(flat[key], str) else json.dumps(flat[key], ensure_ascii=False)
        if len(text) > PARAMETER_LENGTH:  # MLflow would cut it
            client.log_text(run_id, text, f"parameters/{name}.txt")
            text = f"sha256:{sha256(text.encode()).hexdigest()}"
        parameters.append(Param(name, text))
    for start in range(0, len(parameters), PARAMETERS_A_BATCH):
        client.log_batch(run_id, params=parameters[start : start + PARAMETERS_A_BATCH])


def _log_metrics(client: "MlflowClient", run_id: str, values: list[tuple[str, float, int]], time: int) -> None:
    from mlflow.entities import Metric

    metrics = [Metric(key, value, time, step) for key, value, step in values]
    for start in range(0, len(metrics), METRICS_A_BATCH):
        client.log_batch(run_id, metrics=metrics[start : start + METRICS_A_BATCH])


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _create_experiment(client: "MlflowClient", experiment: str, place: str | None) -> str:
    from mlflow.exceptions import MlflowException

    try:
        return client.create_experiment(experiment, artifact_location=place)
    except MlflowException:  # on a server another machine may have been first
        found = client.get_experiment_by_name(experiment)
        if found is None:
            raise
        return found.experiment_id


@contextmanager
def _locked(database: Path | None) -> Iterator[None]:
    """One process at a time prepares a SQLite store: MLflow's migration of a new file dies if two run it."""
    if database is None:
        yield
        return
    import fcntl

    database.parent.mkdir(parents=True, exist_ok=True)
    with database.with_name(f".{database.name}.lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # until the file is closed, if only by the end of the process
        yield
