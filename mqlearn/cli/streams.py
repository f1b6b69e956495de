"""Standard streams that never stop a command: what cannot be shown is not shown, and the work is done all the same."""

import io
import os
import sys
from typing import Any


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
    for name, number in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        if stream is not getattr(sys, f"__{name}__"):  # another one was put in its place, if only by this function
            continue
        raw = _Unbroken(number, "w", closefd=False)
        encoding, errors = getattr(stream, "encoding", "utf-8"), getattr(stream, "errors", "backslashreplace")
        live = raw.isatty() or name == "stderr"
        setattr(sys, name, io.TextIOWrapper(io.BufferedWriter(raw), encoding, errors, line_buffering=live))
