"""The one error that a user can cause, and the nearest valid name that its message offers."""

import contextlib
import difflib
import sysconfig
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from mqlearn.paths import INSTALLED, PACKAGE

_OURS = str(PACKAGE)


class SettingError(ValueError):
    """A setting has a value that is not admissible; the command line prints it and exits with code 2.

    The message is ``setting=value: what is admissible``.

    setting, value, admissible: the setting's name, what it was given, and what it may be; attributes of the error too.

    >>> mq.frozen_lake(discount=0.0)
    Traceback (most recent call last):
        ...
    mqlearn.errors.SettingError: discount=0.0: must be a number strictly between 0 and 1, or 1 where episodes end
    """

    def __init__(self, setting: str, value: object, admissible: str) -> None:
        super().__init__(f"{setting}={_short(value)}: {admissible}")
        self.setting = setting
        self.value = value
        self.admissible = admissible

    def __reduce__(self) -> tuple:
        # Workers send exceptions by pickle, which by default calls the class with the message alone.
        return type(self), (self.setting, self.value, self.admissible)


class KeywordError(SettingError, TypeError):
    """A keyword that there is not, or that lacks: a SettingError, and what Python has for it too."""


class WorkerDied(RuntimeError):
    """A process that worked for this one was killed, or ran out of memory; what was finished is kept."""


def nearest(name: str, names: Iterable[str]) -> str:
    """`` (did you mean 'x'?)`` for the closest of `names`, or an empty string when none is close."""
    close = difflib.get_close_matches(name, list(names), n=1, cutoff=0.5)
    return f" (did you mean '{close[0]}'?)" if close else ""


def _short(value: object, limit: int = 80) -> str:
    text = repr(value) if isinstance(value, str) else str(value)
    # A path is whole: its end says which file is meant.
    return text if len(text) <= limit or isinstance(value, Path) else text[: limit - 3] + "..."


class SettingErrors(SettingError):
    """Several settings that are not admissible, in one message."""

    def __init__(self, errors: Sequence[SettingError]) -> None:
        ValueError.__init__(self, "\n".join(map(str, errors)))
        self.errors = tuple(errors)

    def __reduce__(self) -> tuple:
        return type(self), (self.errors,)

    @classmethod
    def one_of(cls, errors: Iterable[SettingError]) -> SettingError:
        """One error for all of them, each said once."""
        single = [one for error in errors for one in getattr(error, "errors", [error])]
        different = list({str(error): error for error in single}.values())
        return different[0] if len(different) == 1 else cls(different)

    @classmethod
    def collect(cls, calls: Iterable[Callable[[], Any]]) -> list[Any]:
        """What the calls return. Raises one SettingError for all that they raise."""
        values, errors = [], []
        for call in calls:
            try:
                values.append(call())
            except SettingError as error:
                errors.append(error)
        if errors:
            raise cls.one_of(errors)
        return values


@contextlib.contextmanager
def user_code(setting: str, value: object) -> Iterator[None]:
    """Around a call of the user's own code: whatever that raises becomes a SettingError of one line.

    It says type, message, file and line. A SettingError passes, and so does an exception in which no line of the
    user's took part: that is a fault of ours, which keeps its traceback.
    """
    try:
        yield
    except SettingError:
        raise
    except Exception as error:
        lines = users_lines(error)
        if not lines:
            raise
        raise SettingError(setting, value, raised(error, lines[-1])) from error


def raised(error: BaseException, line: tuple[FrameType, int]) -> str:
    """What an exception says, and where, in one line."""
    said, (frame, number) = " ".join(str(error).split()), line
    return f"raised {type(error).__name__}: {said} ({frame.f_code.co_filename}, line {number})"


def users_lines(error: BaseException | None) -> list[tuple[FrameType, int]]:
    """Frames and line numbers of code that is neither ours nor a library's, the innermost last."""
    library = sysconfig.get_paths()["stdlib"]
    while error is not None:
        lines = [
            (frame, number)
            for frame, number in traceback.walk_tb(error.__traceback__)
            if not (file := frame.f_code.co_filename).startswith((_OURS, library, "<frozen", "<string>"))
            and not file.endswith((".pyx", ".pxd", ".pxi"))
            and not {*INSTALLED} & {*Path(file).parts}
        ]
        if lines:
            return lines
        error = error.__cause__ or error.__context__  # as when a library has raised it anew
    return []
