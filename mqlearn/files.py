"""Files that appear complete or not at all, and readers of files that anybody may have made or damaged."""

import errno
import functools
import io
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mqlearn.errors import SettingError
from mqlearn.paths import expanded

if TYPE_CHECKING:
    import numpy as np


def write_whole(path: Path, content: str | bytes | Iterable[str | bytes]) -> None:
    """Write a file (text: in UTF-8; or in parts) in one step.

    No reader meets half of it, and a failure leaves the old one.
    """
    parts = [content.encode("utf-8")] if isinstance(content, str) else content
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}")
    try:
        try:
            file = temporary.open("wb")
        except FileNotFoundError:  # asked for only where it lacks: on a shared disk each operation takes its time
            path.parent.mkdir(parents=True, exist_ok=True)
            file = temporary.open("wb")
        with file:
            for part in [parts] if isinstance(parts, bytes) else parts:
                file.write(part.encode("utf-8") if isinstance(part, str) else part)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:  # as where the disk is full
            error.filename = str(path)
        raise


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


def deliver(flag: str, path: Path, content: str | Iterable[str | bytes]) -> None:
    """Write what a flag asked for. Raises SettingError."""
    try:
        write_whole(path, content)
    except OSError as error:
        raise SettingError(flag, path, f"cannot be written: {error.strerror}") from error


# --- reading ------------------------------------------------------------------------------------------------------


def ordinary(path: Path) -> io.BufferedReader:
    """An ordinary file, open for reading. Raises OSError for any other: at a pipe one would wait for ever."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "it is no ordinary file", str(path))
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb")  # it may be another by now


def text_of(path: Path) -> str:
    """The text of an ordinary file in UTF-8. Raises OSError, or ValueError for another encoding."""
    with ordinary(path) as file:
        return file.read().decode("utf-8")


_LONGEST = 100_000  # letters of the head of an array; NumPy refuses more than 10,000


class Head(NamedTuple):
    """What an array says of itself."""

    dtype: "np.dtype"
    shape: tuple[int, ...]


def heads(path: Path) -> dict[str, Head]:
    """The arrays of an .npz file by name, without their numbers; errors as of `arrays`."""
    found = {}
    with _archive(path) as archive:
        for member in archive.infolist():
            with archive.open(member) as entry:
                found[member.filename.removesuffix(".npy")] = _head(entry, member)[0]
    return found


def arrays(path: Path, *, packed: bool = True) -> "dict[str, np.ndarray]":
    """The arrays of an .npz file by name.   packed: whether they may be larger than the file.

    Raises OSError if it cannot be read, ValueError for whatever else is wrong with it: damage, objects in an array.
    """
    import numpy as np

    found = {}
    with _archive(path) as archive:
        if not packed and sum(member.file_size for member in archive.infolist()) > path.stat().st_size:
            raise ValueError("its arrays are larger than the file")  # before room is made for them
        for member in archive.infolist():
            with archive.open(member) as entry:
                head, in_columns = _head(entry, member)
                if head.dtype.hasobject:
                    raise ValueError(f"{member.filename} holds objects")
                content = bytearray(entry.read())  # to the end, where the checksum is compared
            array = np.frombuffer(content, head.dtype).reshape(head.shape, order="F" if in_columns else "C")
            found[member.filename.removesuffix(".npy")] = array
    return found


def check_archive(path: Path) -> None:
    """Read an .npz file from end to end without keeping it; errors as of `arrays`."""
    with _archive(path) as archive:
        if broken := archive.testzip():
            raise ValueError(f"{broken} is not what was written")


@contextmanager
def _archive(path: Path) -> Iterator[Any]:
    import zipfile

    with ordinary(path) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                yield archive
        except ValueError:
            raise
        except Exception as error:  # a damaged archive fails in any way of its readers: "encrypted", a negative place
            raise ValueError(f"{type(error).__name__}: {error}") from error


def _head(entry: Any, member: Any) -> tuple[Head, bool]:
    """The head of an array, up to which the entry is read, and whether its numbers go column by column.

    Raises ValueError where the size of the array is not that of the member: none is made room for in vain.
    """
    import numpy as np

    version = np.lib.format.read_magic(entry)
    width = {(1, 0): 2, (2, 0): 4}.get(version)
    if width is None:
        raise ValueError(f"{member.filename} is of the unknown version {version}")
    length = entry.read(width)
    shape, in_columns, dtype = _described(version, length + entry.read(min(int.from_bytes(length, "little"), _LONGEST)))
    size = dtype.itemsize
    for n in shape:
        size *= n
    if not dtype.hasobject and size != member.file_size - entry.tell():
        raise ValueError(f"{member.filename} has another size than its array")
    return Head(dtype, shape), in_columns


@functools.lru_cache(maxsize=256)
def _described(version: tuple[int, int], text: bytes) -> tuple[tuple[int, ...], bool, "np.dtype"]:
    """Shape, order and type from the head of an array: runs of one sweep have the same."""
    import numpy as np

    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
    return read(io.BytesIO(text))
