"""MLflow as an edge: a complete run folder becomes one MLflow run, whose content is told in `content`."""

import shutil
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mqlearn.errors import SettingError
from mqlearn.paths import outputs_folder
from mqlearn.storage import deletion, formats, locks, mlflow_payload, moved, new_store, runs, sql_store
from mqlearn.storage.connection import TrackingError, connect, failures, load_mlflow, sqlite_path
from mqlearn.storage.effective import effective_settings
from mqlearn.storage.passwords import Address
from mqlearn.storage.sql import is_known
from mqlearn.storage.store import experiment_id, finished, running

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient


def prepare(uri: str, experiment: str, *, outputs: Path | None = None, about: str = "") -> str:
    """Make what is missing of store, schema and experiment; the experiment's id. Call it once before any job.

    Artifacts lie beside a SQLite file; those of another database that is used without a server, in `outputs`.
    about: the note on the experiment, in Markdown, if it has none.
    Raises SettingError for a name or an address that cannot be, and if a newer version has written to the experiment;
    TrackingError if the store fails.
    """
    if experiment in ("", "Default"):
        problem = "a name other than MLflow's own Default, where stray runs land and artifacts lie elsewhere"
        raise SettingError("experiment.name", experiment, problem)
    with failures("preparing the store", uri):
        database = sqlite_path(uri)
        known = sql_store.of(database)
        if known is None and (database is None or database.exists()):
            load_mlflow()  # takes seconds, so not in the lock, where other jobs wait
        with nullcontext() if experiment_id(uri, experiment) else _alone(database):
            client = known or _opened(uri, database)
            found = client.get_experiment_by_name(experiment)
            if found is None:
                folder = database.parent if database else None if uri.startswith("http") else outputs
                place = folder and (folder.absolute() / moved.ROOT / runs.slug(experiment)).as_uri()
                return _create_experiment(client, experiment, place, about)
        _follow(uri, found)
    if found.lifecycle_stage != "active":
        problem = "was deleted in the store: restore it (`mlflow experiments restore`) or use another name"
        raise SettingError("experiment.name", experiment, problem)
    kept = found.tags.get(formats.KEY)
    formats.check("tracking.uri", str(Address(uri)), kept)
    new = {mlflow_payload.NOTE: about} if about and mlflow_payload.NOTE not in found.tags else {}
    new |= {} if kept == str(formats.FORMAT) else {formats.KEY: formats.FORMAT}
    for key, value in new.items():
        with failures("preparing the store", uri):
            client.set_experiment_tag(found.experiment_id, key, value)
    return found.experiment_id


def _opened(uri: str, database: Path | None) -> "MlflowClient | sql_store.SqlStore":
    """A store that has yet to be made, if it is a SQLite file, by its client."""
    if database is None or database.exists():
        return sql_store.of(database) or connect(uri)  # another process may have been first
    if new_store.copy(database) and (made := sql_store.of(database)):
        return made
    client = connect(uri)
    client.search_experiments(max_results=1)  # MLflow makes the file
    new_store.keep(database)
    return client


def log(
    run: runs.Run,
    uri: str,
    experiment: str,
    per_seed: bool = False,
    *,
    tags: Mapping[str, Any] | None = None,
    show: mlflow_payload.Show = mlflow_payload.plainly,
) -> str:
    """Record a run folder as one MLflow run, whole and ended; its id, which summary.json then holds too.

    `tags` (sweep, cell, group, ...) join the run's own; `show` says what people see of it. A failed run is recorded as
    FAILED, with its error and without metrics. Raises TrackingError if the store fails; no RUNNING run stays, if it can
    be helped; SettingError if something in the folder is not to be handed on.
    """
    runs.check_deliverable(run)
    more = tags or run.summary.get("tags") or {}
    names, shown_as = mlflow_payload.metric_names(run), show(run, more)
    values = [*mlflow_payload.metric_values(run, names, shown_as.error, per_seed)]
    with failures("recording a run", uri):
        place = prepare(uri, experiment, about=shown_as.about)
        ended = round(1000 * datetime.fromisoformat(run.summary["ended"]).timestamp())
        started = ended - round(1000 * (run.summary["seconds"] or 0.0))
        tagged = mlflow_payload.tags(run, names, {**more, "claims": _claims(uri)}, shown_as)
        told = _Told(place, started, ended, tagged, values, shown_as)
        if (store := sql_store.of(sqlite_path(uri))) and (folder := _artifacts(store, place)):
            return _log_by_sql(run, store, folder, told)
        client = connect(uri)
        created = client.create_run(place, started, tagged, shown_as.name[:250])
        run_id = created.info.run_id
        try:
            run = runs.update_summary(run, mlflow_run_id=run_id)
            mlflow_payload.log_parameters(client, run_id, effective_settings(run))
            mlflow_payload.log_metrics(client, uri, run_id, values, ended)
            if shown_as.model is not None:
                mlflow_payload.log_model(client, run_id, *shown_as.model)
            client.log_artifacts(run_id, str(run.folder))
            mlflow_payload.log_pictures(client, run_id, shown_as.pictures)
            client.set_terminated(run_id, _status(run), ended)
        except BaseException as error:
            with suppress(Exception):
                runs.update_summary(run, mlflow_run_id=None)
            with suppress(Exception):
                client.set_terminated(run_id, "FAILED" if isinstance(error, Exception) else "KILLED")
            raise
    return run_id


class _Told(NamedTuple):
    """What the record of a run says of it."""

    experiment_id: str
    started: int
    ended: int
    tags: dict[str, str]
    values: list[tuple[str, float, int]]
    shown: mlflow_payload.Shown


def _log_by_sql(run: runs.Run, store: sql_store.SqlStore, root: str, told: _Told) -> str:
    """`log` into a SQLite store whose artifacts are in this file system: files first, then the record as a whole."""
    while not _logged_as(run_id := sql_store.new_id(), run, store, root, told):
        pass
    return run_id


def _logged_as(run_id: str, run: runs.Run, store: sql_store.SqlStore, root: str, told: _Told) -> bool:
    """Whether the run is recorded under this id; not if another run has the id."""
    address = f"{root.rstrip('/')}/{run_id}/artifacts"
    folder = moved.local(address)
    assert folder is not None
    folder.parent.parent.mkdir(parents=True, exist_ok=True)
    try:
        folder.parent.mkdir()
    except FileExistsError:
        return False
    done = False
    try:
        run = runs.update_summary(run, mlflow_run_id=run_id)
        parameters, long = mlflow_payload.parameters(effective_settings(run))
        shutil.copytree(run.folder, folder)
        for name, content in {**{name: text.encode() for name, text in long.items()}, **told.shown.pictures}.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        model = None if told.shown.model is None else mlflow_payload.model_input(*told.shown.model)
        record = sql_store.Record(
            run_id, told.shown.name[:250], address, _status(run), told.started, told.ended, told.tags, parameters,
            told.values, model,
        )  # fmt: skip
        done = store.write_run(told.experiment_id, record)
    finally:
        if not done:
            with suppress(Exception):
                runs.update_summary(run, mlflow_run_id=None)
            shutil.rmtree(folder.parent, ignore_errors=True)
    return done


def _artifacts(store: sql_store.SqlStore, experiment_id: str) -> str | None:
    """The address of the artifacts of an experiment, if they are in this file system."""
    found = store.get_experiment(experiment_id)
    return found.artifact_location if found and moved.local(found.artifact_location) else None


def _status(run: runs.Run) -> str:
    """In MLflow's words."""
    return {"failed": "FAILED", "killed": "KILLED"}.get(run.status, "FINISHED")


def _follow(uri: str, experiment: Any) -> None:
    """Have the artifacts of an experiment beside its SQLite store, wherever that was when the experiment was made."""
    database, path = sqlite_path(uri), moved.local(experiment.artifact_location)
    if database is None or path is None or moved.place(path, database) == path:
        return
    if not is_known(database):
        advice = "move it back, or give the experiment another name (experiment.name)"
        raise TrackingError(f"{Address(uri)} was moved, and would put its artifacts in {path}: {advice}")
    with _alone(database):
        now = connect(uri).get_experiment(experiment.experiment_id)  # another process may have been first
        moved.follow(database, now.experiment_id, now.artifact_location)


def end_killed(uri: str, experiment: str, digest: str) -> None:
    """End the records of a digest whose processes died at it; the caller holds its claim (`record_at_once`).

    Where the claims lie in the outputs folder, only what was recorded under those: whether a process elsewhere that
    uses the same server is still at its record cannot be seen from here. Raises TrackingError if the store fails.
    """
    left, ours = running(uri, experiment, digest), _claims(uri)
    if sqlite_path(uri) is None:
        left = [one for one in left if ours and one.claims == ours]
    with failures("ending a run", uri):
        for one in left:
            connect(uri).set_terminated(one.run_id, "KILLED")


def upload(
    folder: str | Path,
    uri: str,
    experiment: str,
    per_seed: bool = False,
    *,
    tags: Mapping[str, Any] | None = None,
    show: mlflow_payload.Show = mlflow_payload.plainly,
) -> str:
    """`log` the run in `folder`, unless the store has a FINISHED run with its digest; the id of either.

    A run that was deleted in the store is recorded anew. Raises SettingError if the folder holds no run or is damaged,
    TrackingError if the store fails.
    """
    return record(runs.whole(folder), uri, experiment, per_seed, tags=tags, show=show, restore=True)


def record(
    run: runs.Run,
    uri: str,
    experiment: str,
    per_seed: bool = False,
    *,
    tags: Mapping[str, Any] | None = None,
    show: mlflow_payload.Show = mlflow_payload.plainly,
    restore: bool = False,
) -> str:
    """`upload` of a run that is known to be whole. Whoever comes second, at the same time too, finds it recorded.

    restore: also where it was recorded before and its record has been deleted; else that raises `deletion.Deleted`.

    Processes that have only a server in common hold no claim against each other. Of two that recorded one digest at
    the same time the one that ends last sees both, and takes one back.
    """
    database = sqlite_path(uri)
    with locks.claimed(_locks(uri), *_claim(experiment, run.digest)):
        there = finished(uri, experiment, [run.digest])
        if not there:
            before = run.summary.get("mlflow_run_id")
            if before and not restore and deletion.is_deleted(uri, before, run.digest):
                raise deletion.Deleted(f"run {before} was deleted in MLflow; `mqlearn delete` removes its files, too")
            end_killed(uri, experiment, run.digest)
            run_id = log(run, uri, experiment, per_seed, tags=tags, show=show)
            there = [] if database or run.status not in runs.DONE else finished(uri, experiment, [run.digest])
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


def _claims(uri: str) -> str:
    """The identity of the claims of this process; empty where they lie beside the store, for all who use it."""
    return "" if sqlite_path(uri) else locks.identity(_locks(uri))


def _locks(uri: str) -> Path:
    """Beside the store, for all who use it; where it is no file, in the outputs folder."""
    database = sqlite_path(uri)
    return locks.folder(database.parent if database else outputs_folder())


def _create_experiment(
    client: "MlflowClient | sql_store.SqlStore", experiment: str, place: str | None, about: str
) -> str:
    tags = {"mlflow.experimentKind": "custom_model_development", formats.KEY: str(formats.FORMAT)}
    tags |= {mlflow_payload.NOTE: about} if about else {}
    if isinstance(client, sql_store.SqlStore):
        return client.create_experiment(experiment, str(place), tags)
    from mlflow.exceptions import MlflowException

    try:
        return client.create_experiment(experiment, artifact_location=place, tags=tags)
    except MlflowException:  # on a server another machine may have been first
        found = client.get_experiment_by_name(experiment)
        if found is None:
            raise
        return found.experiment_id


def _alone(database: Path | None) -> AbstractContextManager:
    """One process at a time prepares a SQLite store: MLflow's migration of a new file dies if two run it."""
    return nullcontext() if database is None else locks.claimed(database.parent, "store", database.name)
