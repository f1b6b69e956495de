"""Experiments and whole runs of a SQLite store, written by SQL: MLflow's import and its objects take seconds.

`SqlStore` has some methods of MLflow's client under their names; `write_run` does in one transaction what a dozen of
its calls do: a run is there whole and ended, or not at all. The tests compare all rows with those of MLflow. Another
schema than `sql.KNOWN_SCHEMAS` is left to MLflow.
"""

import secrets
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import time

import numpy as np

from mqlearn.storage import sql


@dataclass(frozen=True)
class Experiment:
    """What MLflow's entity of this name says of an experiment."""

    experiment_id: str
    lifecycle_stage: str
    artifact_location: str
    tags: Mapping[str, str]


@dataclass(frozen=True)
class Record:
    """A run that has ended.   started, ended: milliseconds since the epoch.   values: (metric, value, iteration), all
    finite.   model: name, digest and source of the data set that it learned from, in MLflow's words."""

    run_id: str
    name: str
    artifact_uri: str
    status: str
    started: int
    ended: int
    tags: Mapping[str, str]
    parameters: Mapping[str, str]
    values: Sequence[tuple[str, float, int]]
    model: tuple[str, str, str] | None


def of(database: Path | None) -> "SqlStore | None":
    """The store of a file, if SQL can write it."""
    try:
        known = database is not None and database.exists() and sql.is_known(database)
    except sqlite3.Error:  # what MLflow then says is clearer
        return None
    return SqlStore(database) if known and database is not None else None


def new_id() -> str:
    """An id for a run: the time in milliseconds and a number below 36^2, as ten digits and small letters.

    Tables and indexes hold the id of a run some 400 times, so that ten letters in place of MLflow's 32 save a third of
    a store. Ids that rise with time fill the pages of the indexes. Small letters alone, since a run's artifacts are in
    a folder of this name, and some file systems take A for a. Whether another run has the id, the store knows.

    >>> len(new_id())
    10
    """
    return np.base_repr(round(1000 * time()) * 36**2 + secrets.randbelow(36**2), 36).lower()


@dataclass(frozen=True)
class SqlStore:
    """A SQLite store of known schema. All methods raise sqlite3.Error if the file fails."""

    database: Path

    def get_experiment_by_name(self, name: str) -> Experiment | None:
        return self._experiment("name = ?", name)

    def get_experiment(self, experiment_id: str) -> Experiment | None:
        return self._experiment("experiment_id = ?", int(experiment_id))

    def create_experiment(self, name: str, artifact_location: str, tags: Mapping[str, str]) -> str:
        """Its id."""
        now = round(1000 * time())
        columns = "name, artifact_location, lifecycle_stage, creation_time, last_update_time, workspace"
        with self._open() as opened:
            made = opened.execute(
                f"INSERT INTO experiments ({columns}) VALUES (?, ?, 'active', ?, ?, 'default')",
                (name, artifact_location, now, now),
            ).lastrowid
            rows = [(key, str(value), made) for key, value in tags.items()]
            opened.executemany("INSERT INTO experiment_tags (key, value, experiment_id) VALUES (?, ?, ?)", rows)
        return str(made)

    def set_experiment_tag(self, experiment_id: str, key: str, value: object) -> None:
        row = (key, str(value), int(experiment_id))
        with self._open() as opened:
            opened.execute("INSERT OR REPLACE INTO experiment_tags (key, value, experiment_id) VALUES (?, ?, ?)", row)
            now = (round(1000 * time()), int(experiment_id))
            opened.execute("UPDATE experiments SET last_update_time = ? WHERE experiment_id = ?", now)

    def write_run(self, experiment_id: str, record: Record) -> bool:
        """All of a run, or nothing; False if another run has its id."""
        run_id, tags = record.run_id, {**record.tags, "mlflow.runName": record.name}
        with self._open() as opened:
            made = opened.execute(
                "INSERT INTO runs (run_uuid, name, source_type, source_name, entry_point_name, user_id, status, "
                "start_time, end_time, source_version, lifecycle_stage, artifact_uri, experiment_id) "
                "VALUES (?, ?, 'UNKNOWN', '', '', 'unknown', ?, ?, ?, '', 'active', ?, ?) "
                "ON CONFLICT (run_uuid) DO NOTHING",
                (
                    run_id, record.name, record.status, record.started, record.ended, record.artifact_uri,
                    int(experiment_id),
                ),
            )  # fmt: skip
            if not made.rowcount:
                return False
            for table, entries in (("tags", tags), ("params", record.parameters)):
                rows = [(key, value, run_id) for key, value in entries.items()]
                opened.executemany(f"INSERT INTO {table} (key, value, run_uuid) VALUES (?, ?, ?)", rows)
            sql.insert_metrics(opened, run_id, record.values, record.ended)
            if record.model is not None:
                _insert_model(opened, int(experiment_id), run_id, *record.model)
        return True

    def _experiment(self, condition: str, value: str | int) -> Experiment | None:
        with self._open() as opened:
            row = opened.execute(
                "SELECT experiment_id, lifecycle_stage, artifact_location FROM experiments "
                f"WHERE {condition} AND workspace = 'default'",
                (value,),
            ).fetchone()
            if row is None:
                return None
            tags = opened.execute("SELECT key, value FROM experiment_tags WHERE experiment_id = ?", row[:1]).fetchall()
        return Experiment(str(row[0]), row[1], row[2], dict(tags))

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.database, timeout=20)) as opened, opened:
            yield opened


def _insert_model(
    opened: sqlite3.Connection, experiment_id: int, run_id: str, name: str, digest: str, source: str
) -> None:
    """The data set of a run, and the experiment's if it is new to it: its id is then that of its first run.

    So is the id of the edge between the two: a run that is written here has one data set.
    """
    found = opened.execute(
        "SELECT dataset_uuid FROM datasets WHERE experiment_id = ? AND name = ? AND digest = ?",
        (experiment_id, name, digest),
    ).fetchone()
    data = found[0] if found else run_id
    if not found:
        opened.execute(
            "INSERT INTO datasets (dataset_uuid, experiment_id, name, digest, dataset_source_type, dataset_source) "
            "VALUES (?, ?, ?, ?, 'code', ?)",
            (data, experiment_id, name, digest, source),
        )
    opened.execute(
        "INSERT INTO inputs (input_uuid, source_type, source_id, destination_type, destination_id) "
        "VALUES (?, 'DATASET', ?, 'RUN', ?)",
        (run_id, data, run_id),
    )
    opened.execute(
        "INSERT INTO input_tags (input_uuid, name, value) VALUES (?, 'mlflow.data.context', 'problem')", (run_id,)
    )
