"""What a store holds: the finished runs of an experiment, and where their files are."""

import logging
import os
import re
import secrets
import shutil
import sqlite3
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlsplit

from mqlearn.errors import SettingError
from mqlearn.storage import moved, runs

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

# Revisions of MLflow's schema whose reading by SQL the tests have compared with MLflow's own.
KNOWN_SCHEMAS = frozenset({"dc11669786a5"})  # MLflow 3.17

MLFLOW_ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
}
REPORTS = "mqlearn reports"  # the experiment that reports are in: among charted runs they would be in the way
_log = logging.getLogger(__name__)


class TrackingError(RuntimeError):
    """The store failed. Runs are complete on disk before it is told of them, and can be delivered later."""


class Stored(NamedTuple):
    """A FINISHED run of a store; `ended` in milliseconds since the epoch; `digest_version` empty before the second."""

    digest: str
    folder: str
    artifact_uri: str
    run_id: str
    ended: int
    digest_version: str = ""


def finished(uri: str, experiment: str, digest: str | None = None) -> list[Stored]:
    """The FINISHED runs of an experiment that carry a digest, or this one, in no particular order.

    A SQLite store with a known schema is read by SQL, read-only and without MLflow, whose import takes
    seconds; any other store by MLflow. Raises TrackingError if it cannot be read.
    """
    found = _by_sql(uri, experiment, "FINISHED", digest)
    return _by_api(uri, experiment, "FINISHED", digest) if found is None else found


def with_digests(uri: str, digests: Collection[str]) -> list[Stored]:
    """The FINISHED runs with one of these digests in all experiments of a store, which is not made if it is not there.

    Raises TrackingError if it cannot be read.
    """
    wanted = {*digests}
    rows = _query(uri, _ANYWHERE, "FINISHED")
    if rows is not None:
        return [stored for stored in (Stored(*row) for row in rows) if stored.digest in wanted]
    with failures("reading the store", uri):
        names = [found.name for found in connect(uri).search_experiments()]
    return [stored for name in names for stored in finished(uri, name) if stored.digest in wanted]


def running(uri: str, experiment: str, digest: str | None = None) -> list[Stored]:
    """The runs of an experiment, or of a digest in it, that are being recorded, or were when their process died.

    Raises TrackingError if the store cannot be read.
    """
    found = _by_sql(uri, experiment, "RUNNING", digest)
    return _by_api(uri, experiment, "RUNNING", digest) if found is None else found


def experiments(uri: str) -> list[str]:
    """The names of the experiments of a store that have a run with a digest. Raises TrackingError."""
    rows = _query(uri, _EXPERIMENTS)
    if rows is not None:
        return [row[0] for row in rows]
    with failures("reading the store", uri):
        names = [found.name for found in connect(uri).search_experiments()]
    return [name for name in sorted(names) if name not in ("Default", REPORTS)]


class Recorded(NamedTuple):
    """A run of a store in any status (MLflow's), with the tags that `mqlearn status` shows; empty: no such tag."""

    digest: str
    run_id: str
    status: str
    name: str
    ended: int
    outcome: str
    diverged: str
    error: str
    sweep: str
    folder: str


def recorded(uri: str, experiment: str) -> list[Recorded]:
    """All runs of an experiment that carry a digest. Raises TrackingError if the store cannot be read."""
    rows = _query(uri, _RECORDED, experiment)
    if rows is not None:
        tags: dict[str, dict[str, str]] = {}
        for run_id, _, _, _, key, value in rows:
            tags.setdefault(run_id, {})[key] = value
        told = {row[0]: (row[1], row[2], row[3]) for row in rows}
        return [_recorded(run_id, *told[run_id], found) for run_id, found in tags.items() if "digest" in found]
    return [
        _recorded(run.info.run_id, run.info.status, run.info.run_name or "", run.info.end_time or 0, run.data.tags)
        for run in _search(uri, experiment, "")
        if "digest" in run.data.tags
    ]


def _recorded(run_id: str, status: str, name: str, ended: int, tags: Mapping[str, str]) -> Recorded:
    kept = [tags.get(key, "") for key in ("status", "diverged", "error", "sweep", "folder")]
    return Recorded._make([tags["digest"], run_id, status, name or "", ended or 0, *kept])


def experiment_id(uri: str, experiment: str) -> str | None:
    """The id of an active experiment if SQL can tell it (see `finished`), else None."""
    rows = _query(uri, f"SELECT experiment_id FROM experiments WHERE {_ACTIVE}", experiment)
    return str(rows[0][0]) if rows else None


def find(uri: str, run_id: str, outputs: Path) -> runs.Run:
    """The complete run with this MLflow id.

    Raises SettingError if the store has none or its files are nowhere, TrackingError if the store fails.
    """
    database = sqlite_path(uri)
    if database is not None and not database.exists():
        raise SettingError("run", run_id, f"is no run folder, and there is no store {shown(uri)} to look for it in")
    with failures("reading a run", uri):
        client = connect(uri)
        from mlflow.exceptions import MlflowException

        try:
            stored = _stored(client.get_run(run_id))
        except MlflowException as error:
            if error.error_code not in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
                raise
            raise SettingError("run", run_id, f"no such run in the store {shown(uri)}") from None
        except KeyError:
            raise SettingError("run", run_id, "is not a run of mqlearn: it has no digest") from None
        for place in places(stored, uri, outputs / "downloads"):
            if runs.is_complete(place, stored.digest):
                return runs.load(place)
    raise SettingError("run", run_id, "its files are neither in its folder nor among its artifacts")


def places(stored: Stored, uri: str, downloads: Path, *more: Path) -> Iterator[Path]:
    """Where the files of a stored run may be, nearest first; a server's artifacts are fetched on demand."""
    if stored.folder:
        yield Path(stored.folder)
    yield from more
    database, path = sqlite_path(uri), moved.local(stored.artifact_uri)
    if path is not None:
        yield path if database is None else moved.place(path, database)
    elif stored.artifact_uri.startswith("mlflow-artifacts:") and database is not None:  # logged through `mqlearn ui`
        yield database.parent / moved.ROOT / unquote(urlsplit(stored.artifact_uri).path).lstrip("/")
    else:
        target = downloads / runs.slug(stored.run_id)  # a server's word, never a path
        if not runs.is_complete(target, stored.digest):
            try:
                _download(stored, uri, target)
            except TrackingError as error:  # they may be gone while the store is well: the run is missing
                _log.warning("%s", error)
        yield target


def sqlite_path(uri: str) -> Path | None:
    """The file of a SQLite address, None for other stores."""
    return Path(uri.partition("///")[2]) if re.match(r"sqlite(\+\w+)?:///.", uri) else None


def connect(uri: str) -> "MlflowClient":
    """An MLflow client of this address alone, whatever the process or its environment names otherwise."""
    client = load_mlflow()
    if not uri.startswith("http"):
        _check_database(uri)
    return client(tracking_uri=uri, registry_uri=uri)


def load_mlflow() -> "type[MlflowClient]":
    """Import MLflow (3 to 7 s), set to print nothing, to send no telemetry and not to wait for minutes.

    What goes wrong is raised, and so said once.
    """
    for variable, value in MLFLOW_ENVIRONMENT.items():
        os.environ.setdefault(variable, value)
    try:
        from mlflow.tracking import MlflowClient
    except ImportError as error:
        raise TrackingError(f"MLflow cannot be imported ({error}); tracking=none works without it") from error
    if "MLFLOW_LOGGING_LEVEL" not in os.environ:
        for name in ("mlflow", "alembic"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
    return MlflowClient


@contextmanager
def failures(what: str, uri: str) -> Iterator[None]:
    """Turn what MLflow, its libraries and the system raise into one TrackingError, without passwords."""
    try:
        yield
    except TrackingError:
        raise
    except Exception as error:
        library = type(error).__module__.partition(".")[0]
        if not isinstance(error, OSError) and library not in ("mlflow", "sqlalchemy", "sqlite3", "requests", "urllib3"):
            raise
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].replace(uri, shown(uri))
        # MLflow advises to upgrade in either case; it cannot take a newer schema back.
        if versions := re.search(r"found version (\w+), but expected (\w+)", reason):
            found, expected = versions.groups()
            reason = (
                f"another release of MLflow made its schema ({found}; the one installed here wants {expected}): use "
                "that release if it is newer, `mlflow db upgrade` if it is older, or another store (tracking.uri)"
            )
        raise TrackingError(f"{what} failed at {shown(uri)}: {reason}") from error


def shown(uri: str) -> str:
    """`uri` without a password in it."""
    return re.sub(r"(://[^:/@]*):[^@]*@", r"\1:***@", uri)


def _download(stored: Stored, uri: str, target: Path) -> None:
    temporary = target.with_name(f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}")
    with failures("downloading a run", uri):
        temporary.mkdir(parents=True)
        try:
            connect(uri).download_artifacts(stored.run_id, "", str(temporary))
            shutil.rmtree(target, ignore_errors=True)
            temporary.rename(target)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def _check_database(uri: str) -> None:
    """Connect once ourselves: MLflow retries a hopeless address for minutes."""
    import sqlalchemy
    from sqlalchemy.exc import ArgumentError

    try:
        engine = sqlalchemy.create_engine(uri, poolclass=sqlalchemy.NullPool)
    except (ArgumentError, ImportError) as error:
        reason = f"no usable database address ({error})"
        if uri.startswith("postgresql") and isinstance(error, ImportError):
            reason = (
                "needs the extra postgres, pip install 'mqlearn[postgres]', and to begin with postgresql+psycopg://"
            )
        raise SettingError("tracking.uri", shown(uri), reason) from None
    with engine.connect() as connection:
        sqlalchemy.inspect(connection).get_table_names()


_ACTIVE = "experiments.name = ? AND workspace = 'default' AND experiments.lifecycle_stage = 'active'"
_COLUMNS = """
    SELECT digest.value, COALESCE(folder.value, ''), artifact_uri, runs.run_uuid, COALESCE(end_time, 0),
        COALESCE(version.value, '')
    FROM experiments JOIN runs ON runs.experiment_id = experiments.experiment_id
    JOIN tags AS digest ON digest.run_uuid = runs.run_uuid AND digest.key = 'digest'
    LEFT JOIN tags AS folder ON folder.run_uuid = runs.run_uuid AND folder.key = 'folder'
    LEFT JOIN tags AS version ON version.run_uuid = runs.run_uuid AND version.key = 'digest_version'
    WHERE runs.status = ? AND runs.lifecycle_stage = 'active'"""
_OF_STATUS = f"{_COLUMNS} AND {_ACTIVE}"
_ANYWHERE = f"{_COLUMNS} AND experiments.lifecycle_stage = 'active' ORDER BY end_time, runs.run_uuid"

_EXPERIMENTS = """
    SELECT DISTINCT experiments.name FROM experiments JOIN runs ON runs.experiment_id = experiments.experiment_id
    JOIN tags ON tags.run_uuid = runs.run_uuid AND tags.key = 'digest'
    WHERE runs.lifecycle_stage = 'active' AND experiments.lifecycle_stage = 'active' ORDER BY experiments.name"""

_RECORDED = f"""
    SELECT runs.run_uuid, runs.status, runs.name, COALESCE(end_time, 0), tags.key, tags.value
    FROM experiments JOIN runs ON runs.experiment_id = experiments.experiment_id
    JOIN tags ON tags.run_uuid = runs.run_uuid
        AND tags.key IN ('digest', 'status', 'diverged', 'error', 'sweep', 'folder')
    WHERE {_ACTIVE} AND runs.lifecycle_stage = 'active'"""


def is_known(database: Path) -> bool:
    """Whether a SQLite store has a schema that SQL is used on."""
    with closing(sqlite3.connect(database, timeout=20)) as connection:
        return _is_known(connection)


def _is_known(connection: sqlite3.Connection) -> bool:
    versions = {row[0] for row in connection.execute("SELECT version_num FROM alembic_version")}
    return bool(versions) and versions <= KNOWN_SCHEMAS


def _query(uri: str, query: str, *parameters: str) -> list[tuple] | None:
    """Rows of a query on a SQLite store of known schema, None if it is another or unreadable."""
    database = sqlite_path(uri)
    if database is None:
        return None
    if not database.exists():
        return []
    try:
        address = f"{database.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(address, uri=True, timeout=20)) as connection:
            if not connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]:
                return []  # a file that MLflow has not filled yet
            if not _is_known(connection):
                return None
            return connection.execute(query, parameters).fetchall()
    except sqlite3.Error:
        return None


def _by_sql(uri: str, experiment: str, status: str, digest: str | None = None) -> list[Stored] | None:
    rows = _query(uri, _OF_STATUS + " AND ? IN ('', digest.value)", status, experiment, digest or "")
    return None if rows is None else [Stored(*row) for row in rows]


def _by_api(uri: str, experiment: str, status: str, digest: str | None = None) -> list[Stored]:
    condition = f"attributes.status = '{status}'" + (f" AND tags.digest = '{digest}'" if digest else "")
    return [_stored(run) for run in _search(uri, experiment, condition) if "digest" in run.data.tags]


def _search(uri: str, experiment: str, condition: str) -> list[Any]:
    with failures("reading the store", uri):
        client = connect(uri)
        found = client.get_experiment_by_name(experiment)
        if found is None or found.lifecycle_stage != "active":
            return []
        listed, token = [], None
        while True:
            page = client.search_runs([found.experiment_id], condition, max_results=1000, page_token=token)
            listed += page
            token = page.token
            if not token:
                return listed


def _stored(run: Any) -> Stored:
    tags, info = run.data.tags, run.info
    place = (tags.get("folder", ""), info.artifact_uri, info.run_id, info.end_time or 0)
    return Stored(tags["digest"], *place, tags.get("digest_version", ""))
