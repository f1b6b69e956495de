"""Where runs are tracked: the store that a setting or the environment names, checked and made absolute."""

import os
import re
from collections.abc import Iterable
from pathlib import Path

from mqlearn.errors import SettingError, nearest
from mqlearn.storage.connection import sqlite_path
from mqlearn.storage.passwords import Address, misread

DATABASES = ("sqlite", "postgresql", "mysql", "mssql")


def default_uri(outputs: str | Path) -> Address:
    """The SQLite store of an outputs folder."""
    return Address(f"sqlite:///{Path(outputs).absolute() / 'mlflow.db'}")


def resolve_uri(uri: str | None, environment: str | None, outputs: str | Path) -> Address:
    """The store's address: the setting `tracking.uri`, else MLFLOW_TRACKING_URI, else SQLite in `outputs`.

    Paths become absolute here, once. Raises SettingError for folders and for what is not a store's address.
    """
    setting, uri = ("tracking.uri", uri) if uri else ("MLFLOW_TRACKING_URI", environment)
    if not uri:
        setting, uri = "tracking.uri", default_uri(outputs)
    uri = Address(uri)
    scheme = re.match(r"([A-Za-z][A-Za-z0-9.-]+)(\+\w+)?:", uri)  # a single letter is a drive
    kind = scheme[1].lower() if scheme else "file"
    if kind == "file":
        database = Path(uri if Path(uri).suffix == ".db" else Path(outputs) / "mlflow.db").absolute()
        reason = "a folder as a store is refused by MLflow since version 3"
        advice = f"leave it out for the SQLite file in the outputs folder, or write sqlite:///{database}"
        old = "`mlflow migrate-filestore` moves the runs of an old folder"
        raise SettingError(setting, uri, f"{reason}; {advice} ({old})")
    if kind not in (*DATABASES, "http", "https"):
        known = (*DATABASES, "http", "https")
        problem = f"must be an address that begins with {', '.join(known)}{nearest(kind, known)}"
        raise SettingError(setting, uri, problem)
    if uri.is_known and (letters := misread(uri.whole)):
        raise SettingError(setting, uri, f"in a name or a password write {letters}: it would be read in another way")
    if kind != "sqlite":
        return uri
    path = sqlite_path(uri)
    if path is None or ":memory:" in uri or (path.exists() and not path.is_file()):
        raise SettingError(setting, uri, "a SQLite store is a file: sqlite:////absolute/path/mlflow.db")
    if re.search(r"\?|%[0-9A-Fa-f]{2}", str(path.absolute())):  # SQLAlchemy would read another path from it
        raise SettingError(setting, uri, "the path of a SQLite store cannot hold ? or %XX")
    return Address(f"sqlite:///{path.absolute()}")


def named(overrides: Iterable[str], outputs: str | Path) -> Address | None:
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
