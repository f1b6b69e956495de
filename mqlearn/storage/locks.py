"""Claims: one process at a time works at what a name stands for, as a cell of an experiment or a record in a store.

A claim is a lock (flock) on a file of its own. The kernel frees it when its process ends, however it ends. It holds
between all processes that share the folder, on other machines too if the file system has locks; where it has none,
each goes ahead, and work may be done twice.
"""

import contextlib
import errno
import os
import secrets
import sys
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path

from mqlearn.files import text_of, write_whole

# Of a file system without locks, and of a folder that cannot be written to, as where the run itself lies elsewhere.
_NONE = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EROFS, errno.EACCES)
_said: set[Path] = set()


def folder(outputs: Path) -> Path:
    """Where the claims of an outputs folder lie."""
    return outputs / "locks"


@contextlib.contextmanager
def claimed(place: Path, *words: str) -> Iterator[bool]:
    """Hold the claim that some words name in a folder; yields whether it had to be waited for.

    Whoever holds several takes them in the order of `many`, and claims on cells before claims on records.
    """
    descriptor, waited = _take(place, name(words))
    try:
        yield waited
    finally:
        _release(place / name(words), descriptor)


@contextlib.contextmanager
def at_once(place: Path, *words: str) -> Iterator[bool]:
    """Hold a claim if no other process does; yields whether it is held."""
    try:
        descriptor, _ = _take(place, name(words), wait=False)
    except BlockingIOError:
        yield False
        return
    try:
        yield True
    finally:
        _release(place / name(words), descriptor)


@contextlib.contextmanager
def many(place: Path, every: Sequence[tuple[str, ...]]) -> Iterator[bool]:
    """Hold several claims, in an order that all processes share, so that none waits for another in a circle."""
    with contextlib.ExitStack() as held:
        waited = [held.enter_context(claimed(place, *words)) for words in sorted(every, key=name)]
        yield any(waited)


def identity(place: Path) -> str:
    """A random name of a folder of claims, kept in it: equal paths on two machines may be two folders.

    Empty where it cannot be written.
    """
    file = place / "identity"
    with contextlib.suppress(OSError), claimed(place, "identity"):
        if not file.exists():
            write_whole(file, secrets.token_hex(16))
        return text_of(file)
    return ""


def is_claimed(place: Path, *words: str) -> bool:
    """Whether a process holds that claim now."""
    import fcntl

    try:
        descriptor = os.open(place / name(words), os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


def name(words: Sequence[str]) -> str:
    """The file of the claim that some words name, in the folder of the claims."""
    return sha256("\0".join(words).encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _release(path: Path, descriptor: int | None) -> None:
    if descriptor is not None:
        with contextlib.suppress(OSError):
            path.unlink()  # while it is held: see _take
        os.close(descriptor)


def _take(place: Path, file: str, *, wait: bool = True) -> tuple[int | None, bool]:
    """Descriptor of the locked file, None where there are no locks, and whether it was waited for.

    The holder removes the file before it lets go. Who locked a file that is no longer the one of that name has
    locked nothing, and begins again. Raises BlockingIOError without `wait` if another process holds it.
    """
    import fcntl

    waited = False
    while True:
        descriptor = None
        try:
            try:
                descriptor = os.open(place / file, os.O_RDWR | os.O_CREAT, 0o666)
            except FileNotFoundError:
                place.mkdir(parents=True, exist_ok=True)
                descriptor = os.open(place / file, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not wait:
                    raise
                waited = True
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), (place / file).stat()):
                    return descriptor, waited
        except BaseException as error:
            if descriptor is not None:
                os.close(descriptor)
            if not isinstance(error, OSError) or error.errno not in _NONE:
                raise
            if place not in _said:
                _said.add(place)
                sys.stderr.write(f"warning: no locks in {place} ({error.strerror}): work may be done twice\n")
            return None, waited
        os.close(descriptor)
