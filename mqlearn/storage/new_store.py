"""A new SQLite store as a copy of an empty one: MLflow's migrations of a new file take seconds.

The first new store that a release of MLflow makes on this machine is kept, without its experiments, in the user's cache
folder. A copy is given to the next; MLflow adds its own experiment Default when it opens it. The name of the file holds
the release and a checksum: what is damaged is as good as none.
"""

import importlib.metadata
import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from hashlib import sha256
from pathlib import Path

from mqlearn.storage import sql


def copy(database: Path) -> bool:
    """Make this store, which is not there, as a copy; whether that was possible. For one process at a time.

    A file that another program makes meanwhile stays as it is.
    """
    for kept in _kept():
        with suppress(OSError):
            content = kept.read_bytes()
            if _name(content) == kept.name:
                database.parent.mkdir(parents=True, exist_ok=True)
                _put(database, content)
                return True
    return False


def keep(database: Path) -> None:
    """Keep a store that MLflow has just made, and that nothing has been written to, for `copy`."""
    with suppress(OSError, sqlite3.Error, importlib.metadata.PackageNotFoundError):
        if not sql.is_known(database):
            return
        for kept in _kept():
            if _name(kept.read_bytes()) == kept.name:
                return
            kept.unlink()  # damaged: as good as none
        with closing(sqlite3.connect(":memory:")) as empty:
            with closing(sqlite3.connect(database, timeout=20)) as made:
                made.backup(empty)
            empty.execute("DELETE FROM experiment_tags")
            empty.execute("DELETE FROM experiments")
            empty.commit()
            empty.execute("VACUUM")
            content = empty.serialize()
        folder = _folder()
        folder.mkdir(parents=True, exist_ok=True)
        _put(folder / _name(content), content)


def _put(path: Path, content: bytes) -> None:
    """Write a file as a whole, unless there is one."""
    new = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}")
    try:
        new.write_bytes(content)
        with suppress(FileExistsError):
            os.link(new, path)
    finally:
        new.unlink(missing_ok=True)


def _name(content: bytes) -> str:
    return f"mlflow-{importlib.metadata.version('mlflow')}-{sha256(content).hexdigest()}.db"


def _kept() -> Iterator[Path]:
    with suppress(importlib.metadata.PackageNotFoundError):
        yield from _folder().glob(f"mlflow-{importlib.metadata.version('mlflow')}-*.db")


def _folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mqlearn"
