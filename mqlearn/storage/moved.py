"""A SQLite store that was moved, with the outputs folder around it: its artifacts are beside it, whatever it says.

MLflow writes down where an experiment and each run keep their artifacts, as absolute paths, and has no call that
changes them. Left alone it would make the old folder again and put new artifacts there: that is what the two UPDATE
statements of `follow`, on MLflow's private schema, are for.
"""

import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = "mlartifacts"  # the folder beside a SQLite store


def local(address: str) -> Path | None:
    """The folder of an artifact address; None if it is not one of this machine."""
    parts = urlsplit(address)
    if parts.scheme not in ("", "file"):
        return None
    return Path(unquote(parts.path) if parts.scheme else address)


def place(path: Path, database: Path) -> Path:
    """Where artifacts that a store says are in `path` are now: in the same place of the root beside the store."""
    root = database.absolute().parent / ROOT
    if path.is_relative_to(root) or ROOT not in path.parts:
        return path
    last = len(path.parts) - 1 - path.parts[::-1].index(ROOT)
    return root.joinpath(*path.parts[last + 1 :])


def follow(database: Path, experiment_id: str, location: str) -> bool:
    """Write down where the artifacts of an experiment and of its runs are now; whether they had been elsewhere.

    To be called by one process at a time, for a store whose schema is known. Raises sqlite3.Error.
    """
    old = local(location)
    if old is None or (new := place(old, database)) == old:
        return False
    sys.stderr.write(f"mqlearn: the store was moved: artifacts are kept in {new} now, no longer in {old}\n")
    was, now = location.rstrip("/"), new.as_uri()
    with closing(sqlite3.connect(database, timeout=20)) as connection, connection:
        connection.execute(
            "UPDATE runs SET artifact_uri = ? || substr(artifact_uri, ?) WHERE experiment_id = ? AND "
            "substr(artifact_uri, 1, ?) = ?",
            (now, len(was) + 1, int(experiment_id), len(was) + 1, f"{was}/"),
        )
        connection.execute(
            "UPDATE experiments SET artifact_location = ? WHERE experiment_id = ?", (now, int(experiment_id))
        )
    return True
