"""SQLite stores by SQL: read without MLflow, whose import takes seconds, and given the metrics of a run all at once.

MLflow's schema is private; it is used because of what its client takes of a core (MLflow 3.17; SQL in brackets). To
list 1,000 finished runs: 0.29 s (0.01), after an import of 3.4 s (0.2) in each process. To write the 4,800 values of a
run: 0.5 s (0.03), since the client makes an object of each value, which it compares with what is there.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from mqlearn.storage.connection import sqlite_path

# Revisions of MLflow's schema on which the tests have compared reading and writing by SQL with MLflow's own.
KNOWN_SCHEMAS = frozenset({"dc11669786a5"})  # MLflow 3.17

ACTIVE = "experiments.name = ? AND workspace = 'default' AND experiments.lifecycle_stage = 'active'"
_COLUMNS = """
    SELECT digest.value, COALESCE(folder.value, ''), artifact_uri, runs.run_uuid, COALESCE(end_time, 0),
        COALESCE(version.value, '')
    FROM {}
    LEFT JOIN tags AS folder ON folder.run_uuid = runs.run_uuid AND folder.key = 'folder'
    LEFT JOIN tags AS version ON version.run_uuid = runs.run_uuid AND version.key = 'digest_version'
    WHERE runs.status = ? AND runs.lifecycle_stage = 'active'"""
_RUNS = """experiments JOIN runs ON runs.experiment_id = experiments.experiment_id
    JOIN tags AS digest ON digest.run_uuid = runs.run_uuid AND digest.key = 'digest'"""
# From a list of digests as JSON; SQLite takes the tables of a CROSS JOIN in this order, else it goes through all runs.
_AMONG = """json_each(?) AS wanted CROSS JOIN tags AS digest ON digest.value = wanted.value AND digest.key = 'digest'
    CROSS JOIN runs ON runs.run_uuid = digest.run_uuid
    JOIN experiments ON experiments.experiment_id = runs.experiment_id"""
OF_STATUS = f"{_COLUMNS.format(_RUNS)} AND {ACTIVE}"
OF_DIGESTS = f"{_COLUMNS.format(_AMONG)} AND {ACTIVE}"
# Of versions whose digests were others; asked first is whether there are any, which costs much less.
UNVERSIONED = f"""{OF_STATUS} AND version.value IS NULL
    AND (SELECT COUNT(*) FROM tags WHERE key = 'digest') > (SELECT COUNT(*) FROM tags WHERE key = 'digest_version')"""
ANYWHERE = f"""{_COLUMNS.format(_AMONG)} AND experiments.lifecycle_stage = 'active'
    ORDER BY end_time, runs.run_uuid"""
IDS = f"""SELECT experiments.name, digest.value, runs.run_uuid FROM {_AMONG} WHERE runs.lifecycle_stage = 'active'"""
STAGE = """
    SELECT lifecycle_stage FROM runs JOIN tags AS digest ON digest.run_uuid = runs.run_uuid AND digest.key = 'digest'
    WHERE runs.run_uuid = ? AND digest.value = ?"""
# Deleted, and no finished run of the same digest is left.
DELETED = """
    SELECT DISTINCT experiments.name, digest.value FROM runs JOIN tags AS digest ON digest.run_uuid = runs.run_uuid
    JOIN experiments ON experiments.experiment_id = runs.experiment_id
    WHERE runs.lifecycle_stage = 'deleted' AND runs.status = 'FINISHED' AND digest.key = 'digest' AND NOT EXISTS (
        SELECT 1 FROM tags JOIN runs AS other ON other.run_uuid = tags.run_uuid WHERE tags.key = 'digest'
        AND tags.value = digest.value AND other.lifecycle_stage = 'active' AND other.status = 'FINISHED')"""
# MLflow has no index by the value of a tag: one of ours, by which a digest is found among many runs as among few.
INDEX = "CREATE INDEX IF NOT EXISTS mqlearn_digests ON tags (value, run_uuid) WHERE key = 'digest'"

FORMAT = f"""
    SELECT value FROM experiments JOIN experiment_tags AS tags ON tags.experiment_id = experiments.experiment_id
    WHERE {ACTIVE} AND tags.key = 'format'"""

EXPERIMENTS = """
    SELECT DISTINCT experiments.name FROM experiments JOIN runs ON runs.experiment_id = experiments.experiment_id
    JOIN tags ON tags.run_uuid = runs.run_uuid AND tags.key = 'digest'
    WHERE runs.lifecycle_stage = 'active' AND experiments.lifecycle_stage = 'active' ORDER BY experiments.name"""

RECORDED = f"""
    SELECT digest.value, runs.run_uuid, runs.status, COALESCE(runs.name, ''), COALESCE(end_time, 0)
    FROM experiments JOIN runs ON runs.experiment_id = experiments.experiment_id
    JOIN tags AS digest ON digest.run_uuid = runs.run_uuid AND digest.key = 'digest'
    WHERE {ACTIVE} AND runs.lifecycle_stage = 'active'"""
# What most runs do not have is asked of the whole store at once, and what every run has of those in a JSON list alone.
UNUSUAL = """
    SELECT run_uuid, key, value FROM tags
    WHERE key IN ('status', 'diverged', 'error') AND NOT (key = 'status' AND value = 'finished')"""
PLACES = """
    SELECT tags.run_uuid, tags.key, tags.value FROM json_each(?) AS wanted
    CROSS JOIN tags ON tags.run_uuid = wanted.value AND tags.key IN ('sweep', 'folder', 'digest_version')"""

METRIC = "INSERT INTO metrics (run_uuid, timestamp, key, value, step, is_nan) VALUES (?, ?, ?, ?, ?, 0)"
LATEST = "INSERT INTO latest_metrics (run_uuid, timestamp, key, value, step, is_nan) VALUES (?, ?, ?, ?, ?, 0)"


def is_known(database: Path) -> bool:
    """Whether a SQLite store has a schema that SQL is used on."""
    with closing(sqlite3.connect(database, timeout=20)) as connection:
        return _is_known(connection)


def _is_known(connection: sqlite3.Connection) -> bool:
    versions = {row[0] for row in connection.execute("SELECT version_num FROM alembic_version")}
    return bool(versions) and versions <= KNOWN_SCHEMAS


def query(uri: str, text: str, *parameters: str) -> list[tuple] | None:
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
            return connection.execute(text, parameters).fetchall()
    except sqlite3.Error:
        return None


def write_metrics(uri: str, run_id: str, values: Sequence[tuple[str, float, int]], time: int) -> bool:
    """Write the metrics of a run that has none yet, all or none; whether it was done: on SQLite of known schema.

    values: (metric, value, iteration), finite, those of a metric by rising iteration: MLflow keeps the last of them in
    a table of its own, too.   time: milliseconds since the epoch. Raises sqlite3.Error if the file fails.
    """
    database = sqlite_path(uri)
    if database is None or not database.exists() or not is_known(database):
        return False
    with closing(sqlite3.connect(database, timeout=20)) as connection, connection:
        insert_metrics(connection, run_id, values, time)
    return True


def insert_metrics(
    connection: sqlite3.Connection, run_id: str, values: Sequence[tuple[str, float, int]], time: int
) -> None:
    """The rows of `write_metrics`."""
    latest = {key: (key, value, step) for key, value, step in values}
    connection.execute(INDEX)
    for statement, rows in ((METRIC, values), (LATEST, latest.values())):
        connection.executemany(statement, [(run_id, time, *row) for row in rows])
