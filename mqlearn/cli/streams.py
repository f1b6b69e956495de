"""Standard streams that never stop a command, and through which no text takes hold of a terminal.

What cannot be shown is not shown, and the work is done all the same. Names and messages of records and stores, which
anybody may have made, are printed by all verbs: so what would act on a terminal is escaped here, once for all of them.
"""

import io
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

# Control characters but tabs and ends of lines, what turns the direction of writing, halves of characters.
_ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_ERASED = "\r\033[K"  # what our own progress begins with, on the standard error


class _Unbroken(io.FileIO):
    """A stream that goes on into nothing when its reader has gone (`| head -1`), or once its disk has refused."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, self.fileno())
            os.close(nothing)
            if not isinstance(error, BrokenPipeError):
                raise
            return len(data)


def printable(text: str) -> str:
    """A text in which what would act on a terminal is written as JSON writes it."""
    return _ACTING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class _Printable:
    """A stream to which every text is written as `printable`.   own: texts may begin with what erases a line."""

    def __init__(self, stream: Any, own: str = "") -> None:
        self._stream, self._own = stream, own

    def write(self, text: str) -> int:
        own = self._own if self._own and text.startswith(self._own) else ""
        self._stream.write(own + printable(text[len(own) :]))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def harmless() -> Iterator[None]:
    """Within this, the standard streams, whatever they are, take only what is `printable`."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _Printable(sys.stdout), _Printable(sys.stderr, _ERASED)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def unbroken() -> None:
    """Open the standard streams that the shell closed (`>&-`), and let none of them end this process.

    A closed one would take the number of the next file that is opened, which then gets what is printed.
    """
    for number, mode in enumerate((os.O_RDONLY, os.O_WRONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, mode)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            os.set_inheritable(number, True)  # workers have the same standard streams
    for name, number in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        if stream is not getattr(sys, f"__{name}__"):  # another one was put in its place, if only by this function
            continue
        raw = _Unbroken(number, "w", closefd=False)
        encoding, errors = getattr(stream, "encoding", "utf-8"), getattr(stream, "errors", "backslashreplace")
        live = raw.isatty() or name == "stderr"
        setattr(sys, name, io.TextIOWrapper(io.BufferedWriter(raw), encoding, errors, line_buffering=live))
