"""Files that appear complete or not at all."""

import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from mqlearn.errors import SettingError
from mqlearn.paths import expanded


def write_whole(path: Path, content: str | bytes | Iterable[bytes]) -> None:
    """Write a file (text: in UTF-8; or in parts) in one step.

    No reader meets half of it, and a failure leaves the old one.
    """
    parts = [content.encode("utf-8")] if isinstance(content, str) else content
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with temporary.open("wb") as file:
            file.writelines([parts] if isinstance(parts, bytes) else parts)
        flush(temporary)
        temporary.replace(path)
    except OSError as error:
        if error.filename is None:  # as where the disk is full
            error.filename = str(path)
        raise
    finally:
        temporary.unlink(missing_ok=True)


def flush(path: Path) -> None:
    """Have the system put a file, or the names in a folder, on the disk itself: what a power cut then leaves alone."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_there(name: str) -> bool:
    """Whether a file or a folder has this name; a text that can be no name is none."""
    try:
        return Path(name).exists()
    except (OSError, ValueError):
        return False


def target(flag: str, name: str) -> Path:
    """The file that a flag names. Raises SettingError if it cannot be written, before anything is computed."""
    path = expanded(name).absolute()
    if path.is_dir() or not path.parent.is_dir() or not os.access(path.parent, os.W_OK | os.X_OK):
        problem = "it is a folder" if path.is_dir() else f"{path.parent} is no folder that can be written to"
        raise SettingError(flag, name, f"cannot be written: {problem}")
    return path


def deliver(flag: str, path: Path, content: str | Iterable[bytes]) -> None:
    """Write what a flag asked for. Raises SettingError."""
    try:
        write_whole(path, content)
    except OSError as error:
        raise SettingError(flag, path, f"cannot be written: {error.strerror}") from error
