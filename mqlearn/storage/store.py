"""What a store holds: the finished runs of an experiment, and where their files are."""

import json
import logging
import os
import secrets
import shutil
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from mqlearn.errors import SettingError
from mqlearn.storage import formats, moved, runs, sql
from mqlearn.storage.connection import TrackingError, connect, failures, sqlite_path
from mqlearn.storage.passwords import Address

REPORTS = "mqlearn reports"  # the experiment that reports are in: among charted runs they would be in the way
_log = logging.getLogger(__name__)


class Stored(NamedTuple):
    """A run of a store; `ended` in milliseconds since the epoch; `digest_version` empty before the second.

    claims: the identity of the folder of the claims that it is recorded under, where that is not beside the store.
    """

    digest: str
    folder: str
    artifact_uri: str
    run_id: str
    ended: int
    digest_version: str = ""
    claims: str = ""


def finished(uri: str, experiment: str, digests: Collection[str] | None = None) -> list[Stored]:
    """The FINISHED runs of an experiment that carry a digest, or one of these, in no particular order.

    A SQLite store with a known schema is read by SQL, read-only and without MLflow, whose import takes
    seconds; any other store by MLflow. Raises TrackingError if it cannot be read.
    """
    found = _by_sql(uri, experiment, "FINISHED", digests)
    return _by_api(uri, experiment, "FINISHED", digests) if found is None else found


def unversioned(uri: str, experiment: str) -> list[Stored]:
    """The FINISHED runs of an experiment that are of versions with other digests. Raises TrackingError."""
    rows = sql.query(uri, sql.UNVERSIONED, "FINISHED", experiment)
    if rows is not None:
        return [Stored(*row) for row in rows]
    return [stored for stored in _by_api(uri, experiment, "FINISHED") if not stored.digest_version]


def with_digests(uri: str, digests: Collection[str]) -> list[Stored]:
    """The FINISHED runs with one of these digests in all experiments of a store, which is not made if it is not there.

    Raises TrackingError if it cannot be read.
    """
    wanted = {*digests}
    rows = sql.query(uri, sql.ANYWHERE, json.dumps([*wanted]), "FINISHED")
    if rows is not None:
        return [Stored(*row) for row in rows]
    with failures("reading the store", uri):
        names = [found.name for found in connect(uri).search_experiments()]
    return [stored for name in names for stored in finished(uri, name, wanted)]


def running(uri: str, experiment: str, digest: str | None = None) -> list[Stored]:
    """The runs of an experiment, or of a digest in it, that are being recorded, or were when their process died.

    Raises TrackingError if the store cannot be read.
    """
    digests = None if digest is None else [digest]
    found = _by_sql(uri, experiment, "RUNNING", digests)
    return _by_api(uri, experiment, "RUNNING", digests) if found is None else found


def experiments(uri: str) -> list[str]:
    """The names of the experiments of a store that have a run with a digest. Raises TrackingError."""
    rows = sql.query(uri, sql.EXPERIMENTS)
    if rows is not None:
        return [row[0] for row in rows]
    with failures("reading the store", uri):
        names = [found.name for found in connect(uri).search_experiments()]
    return [name for name in sorted(names) if name not in ("Default", REPORTS)]


class Recorded(NamedTuple):
    """A run of a store in any status (MLflow's), with the tags that `mqlearn status` shows; empty: no such tag.

    outcome: the tag `status`, "finished" without it.
    """

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
    digest_version: str = ""


_USUAL = ("finished", "", "", "", "")  # outcome and what follows, of a run of which nothing else is told


def recorded(uri: str, experiment: str, planned: Collection[str] = ()) -> list[Recorded]:
    """All runs of an experiment that carry a digest.

    planned: digests of runs whose sweep, folder and digest_version are not wanted: 100,000 times three tags take long.
    Raises TrackingError if the store cannot be read.
    """
    rows = sql.query(uri, sql.RECORDED, experiment)
    told = None if rows is None else _tags(uri, [row[1] for row in rows if row[0] not in planned])
    if rows is None or told is None:
        return _recorded_by_api(uri, experiment)
    return [
        _recorded(run_id, status, name, ended, {"digest": digest, **told[run_id]})
        if run_id in told
        else Recorded(digest, run_id, status, name, ended, *_USUAL)
        for digest, run_id, status, name, ended in rows
    ]


def _recorded_by_api(uri: str, experiment: str) -> list[Recorded]:
    return [
        _recorded(run.info.run_id, run.info.status, run.info.run_name or "", run.info.end_time or 0, run.data.tags)
        for run in _search(uri, experiment, "")
        if "digest" in run.data.tags
    ]


def _tags(uri: str, places: Sequence[str]) -> dict[str, dict[str, str]] | None:
    """By run, where there is more to tell than that it has finished: of these with their places. None: not by SQL."""
    unusual = sql.query(uri, sql.UNUSUAL)
    more = sql.query(uri, sql.PLACES, json.dumps(places)) if places else []
    if unusual is None or more is None:
        return None
    told: dict[str, dict[str, str]] = defaultdict(dict)
    for run_id, key, value in (*unusual, *more):
        told[run_id][key] = value
    return told


def _recorded(run_id: str, status: str, name: str, ended: int, tags: Mapping[str, str]) -> Recorded:
    kept = [tags.get(key, "") for key in ("diverged", "error", "sweep", "folder", "digest_version")]
    return Recorded._make([tags["digest"], run_id, status, name, ended, tags.get("status", "finished"), *kept])


def experiment_id(uri: str, experiment: str) -> str | None:
    """The id of an active experiment if SQL can tell it (see `finished`), else None."""
    rows = sql.query(uri, f"SELECT experiment_id FROM experiments WHERE {sql.ACTIVE}", experiment)
    return str(rows[0][0]) if rows else None


def check_format(uri: str, experiment: str) -> None:
    """Raise OtherVersion if SQL can tell (see `finished`) that a newer version has written to an experiment."""
    for (found,) in sql.query(uri, sql.FORMAT, experiment) or ():
        formats.check("tracking.uri", str(Address(uri)), found)


def find(uri: str, run_id: str, outputs: Path) -> runs.Run:
    """The complete run with this MLflow id.

    Raises SettingError if the store has none or its files are nowhere, TrackingError if the store fails.
    """
    database = sqlite_path(uri)
    if database is not None and not database.exists():
        raise SettingError("run", run_id, f"is no run folder, and there is no store {Address(uri)} to look for it in")
    with failures("reading a run", uri):
        client = connect(uri)
        from mlflow.exceptions import MlflowException

        try:
            stored = _stored(client.get_run(run_id))
        except MlflowException as error:
            if error.error_code not in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
                raise
            raise SettingError("run", run_id, f"no such run in the store {Address(uri)}") from None
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


def _by_sql(uri: str, experiment: str, status: str, digests: Collection[str] | None = None) -> list[Stored] | None:
    text, among = (sql.OF_STATUS, []) if digests is None else (sql.OF_DIGESTS, [json.dumps([*digests])])
    rows = sql.query(uri, text, *among, status, experiment)
    return None if rows is None else [Stored(*row) for row in rows]


def _by_api(uri: str, experiment: str, status: str, digests: Collection[str] | None = None) -> list[Stored]:
    condition = f"attributes.status = '{status}'"
    if digests is not None and len(digests) == 1:
        condition += f" AND tags.digest = '{next(iter(digests))}'"
    found = [_stored(run) for run in _search(uri, experiment, condition) if "digest" in run.data.tags]
    return found if digests is None else [stored for stored in found if stored.digest in digests]


def _search(uri: str, experiment: str, condition: str) -> list[Any]:
    with failures("reading the store", uri):
        client = connect(uri)
        found = client.get_experiment_by_name(experiment)
        if found is None or found.lifecycle_stage != "active":
            return []
        return [*pages(client, found.experiment_id, condition)]


def pages(client: Any, experiment_id: str, condition: str, **more: Any) -> Iterator[Any]:
    """All runs of an experiment, by MLflow's client, which gives them by the page.   more: of its `search_runs`."""
    token = None
    while True:
        page = client.search_runs([experiment_id], condition, max_results=1000, page_token=token, **more)
        yield from page
        token = page.token
        if not token:
            return


def _stored(run: Any) -> Stored:
    tags, info = run.data.tags, run.info
    place = (tags.get("folder", ""), info.artifact_uri, info.run_id, info.end_time or 0)
    return Stored(tags["digest"], *place, tags.get("digest_version", ""), tags.get("claims", ""))
