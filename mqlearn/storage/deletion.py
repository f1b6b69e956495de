"""Runs that are to go, and those that a store has as deleted. MLflow keeps these until its `mlflow gc`."""

import json
import os
import secrets
import shutil
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

from mqlearn.storage import runs, sql
from mqlearn.storage.connection import TrackingError, connect, failures
from mqlearn.storage.store import pages


class Deleted(TrackingError):
    """The record of a run was deleted in the store, which a person has done: the run is not recorded again unasked."""


def deleted(uri: str) -> set[str]:
    """The digests whose finished runs of a store have all been deleted there. Raises TrackingError."""
    return {digest for _, digest in gone(uri)}


def gone(uri: str) -> set[tuple[str, str]]:
    """`deleted`, each with the experiment that had it: (experiment, digest). Raises TrackingError."""
    rows = sql.query(uri, sql.DELETED)
    if rows is not None:
        return {(experiment, digest) for experiment, digest in rows}
    from mlflow.entities import ViewType

    some, left = (_by_api(uri, view) for view in (ViewType.DELETED_ONLY, ViewType.ACTIVE_ONLY))
    kept = {digest for _, digest in left}
    return {(experiment, digest) for experiment, digest in some if digest not in kept}


def is_deleted(uri: str, run_id: str, digest: str) -> bool:
    """Whether a run of a store has been deleted there; false of one that the store does not know.

    digest: of the run: two stores may have given one id, each to a run of its own.
    """
    rows = sql.query(uri, sql.STAGE, run_id, digest)
    if rows is not None:
        return rows == [("deleted",)]
    with failures("reading a run", uri):
        from mlflow.exceptions import MlflowException

        with suppress(MlflowException):
            run = connect(uri).get_run(run_id)
            return run.info.lifecycle_stage == "deleted" and run.data.tags.get("digest") == digest
    return False


def records(uri: str, digests: Collection[str]) -> dict[tuple[str, str], list[str]]:
    """The ids of all runs of a store with these digests, whatever became of them, by experiment and digest.

    Raises TrackingError.
    """
    found: dict[tuple[str, str], list[str]] = {}
    rows = sql.query(uri, sql.IDS, json.dumps([*digests]))
    if rows is None:
        from mlflow.entities import ViewType

        everything = _by_api(uri, ViewType.ACTIVE_ONLY, finished=False)
        return {key: ids for key, ids in everything.items() if key[1] in digests}
    for experiment, digest, run_id in rows:
        found.setdefault((experiment, digest), []).append(run_id)
    return found


def _by_api(uri: str, view: int, finished: bool = True) -> dict[tuple[str, str], list[str]]:
    """Ids by experiment and digest."""
    found: dict[tuple[str, str], list[str]] = {}
    with failures("reading the store", uri):
        client = connect(uri)
        for experiment in client.search_experiments():
            condition = "attributes.status = 'FINISHED'" if finished else ""
            for run in pages(client, experiment.experiment_id, condition, run_view_type=view):
                if "digest" in run.data.tags:
                    found.setdefault((experiment.name, run.data.tags["digest"]), []).append(run.info.run_id)
    return found


def delete(folder: Path, uri: str | None, run_ids: Collection[str], downloads: Path) -> None:
    """Delete a run: its records, then its folder. For the holder of its claim.

    uri: None leaves the records of a store alone.   downloads: where copies of a store's runs are kept. Files in the
    folder that are not the run's stay there. Raises TrackingError, before the folder is touched, if the store fails.
    """
    if uri is not None and run_ids:
        with failures("deleting a run", uri):
            client = connect(uri)
            for run_id in run_ids:
                client.delete_run(run_id)
                shutil.rmtree(downloads / runs.slug(run_id), ignore_errors=True)
    _remove(folder)


def _remove(folder: Path) -> None:
    """Remove a run's files, and its folder if nothing else is in it."""
    runs.clear(folder)
    if not folder.is_dir():
        return
    if {entry.name for entry in folder.iterdir()} <= {*runs.FILES}:
        # Renamed first, so that whoever looks meanwhile finds the whole run or none.
        gone = folder.with_name(f".{folder.name}.{os.getpid()}-{secrets.token_hex(4)}")
        folder.rename(gone)
        shutil.rmtree(gone)
    else:  # a folder of the user's own, by hydra.run.dir, which stays where it is
        for name in (runs.SUMMARY, *runs.FILES):
            (folder / name).unlink(missing_ok=True)


def size(folder: Path) -> int:
    """Bytes of the files of a run."""
    with suppress(OSError):
        return sum(path.stat().st_size for path in folder.iterdir() if path.name in runs.FILES)
    return 0


def note(gone: Mapping[str, Path]) -> str:
    """What is said of runs that a store has as deleted and whose folders are here: digest -> folder."""
    some = [f"{folder} (digest={digest[:16]})" for digest, folder in [*gone.items()][:3]]
    more = f" and {len(gone) - 3} more" if len(gone) > 3 else ""
    which = "1 run was" if len(gone) == 1 else f"{len(gone)} runs were"
    counts = (
        "its files are still here, so that it counts" if len(gone) == 1 else "their files are here, so that they count"
    )
    return (
        f"{which} deleted in MLflow; {counts}: {', '.join(some)}{more}. "
        "mqlearn delete digest=... removes the files, mqlearn upload FOLDER tracks a run again"
    )
