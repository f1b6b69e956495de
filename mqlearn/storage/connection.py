"""A store by its address: MLflow's client of it, and what goes wrong there as one error."""

import logging
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mqlearn.errors import SettingError
from mqlearn.storage.passwords import Address

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

MLFLOW_ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
}


UNTRACKED = 3  # exit code: what was made is whole, but not tracked
untracked: list[str] = []  # what this command has made and could not track


class TrackingError(RuntimeError):
    """The store failed. Runs are complete on disk before it is told of them, and can be delivered later."""


def say_untracked(text: str) -> None:
    """Say that something is whole, but not tracked: the command then ends with an exit code of its own."""
    untracked.append(text)
    sys.stderr.write(f"mqlearn: {text}\n")


def sqlite_path(uri: str) -> Path | None:
    """The file of a SQLite address, None for other stores."""
    return Path(uri.partition("///")[2]) if re.match(r"sqlite(\+\w+)?:///.", uri) else None


def connect(uri: str) -> "MlflowClient":
    """An MLflow client of this address alone, whatever the process or its environment names otherwise."""
    client, address = load_mlflow(), Address(uri)
    if not address.startswith("http"):
        _check_database(address)
    return client(tracking_uri=address.whole, registry_uri=address.whole)


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
        address = Address(uri)
        reason = address.scrubbed((str(error).strip() or type(error).__name__).splitlines()[0])
        if re.search(r"error code 401\b", reason):
            reason = (
                "the server refuses the name and the password, or was given none (401): set MLFLOW_TRACKING_USERNAME "
                "and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN"
            )
        # MLflow advises to upgrade in either case; it cannot take a newer schema back.
        if versions := re.search(r"found version (\w+), but expected (\w+)", reason):
            found, expected = versions.groups()
            reason = (
                f"another release of MLflow made its schema ({found}; the one installed here wants {expected}): use "
                "that release if it is newer, `mlflow db upgrade` if it is older, or another store (tracking.uri)"
            )
        raise TrackingError(f"{what} failed at {address}: {reason}") from error


def _check_database(address: Address) -> None:
    """Connect once ourselves: MLflow retries a hopeless address for minutes."""
    import sqlalchemy
    from sqlalchemy.exc import ArgumentError

    try:
        engine = sqlalchemy.create_engine(address.whole, poolclass=sqlalchemy.NullPool)
    except (ArgumentError, ImportError) as error:
        reason = f"no usable database address ({address.scrubbed(str(error))})"
        if address.startswith("postgresql") and isinstance(error, ImportError):
            reason = "needs the extra postgres, pip install '.[postgres]' in the clone, and to begin with postgresql+psycopg://"
        raise SettingError("tracking.uri", address, reason) from None
    with engine.connect() as connection:
        sqlalchemy.inspect(connection).get_table_names()
