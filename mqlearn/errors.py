"""The one error that a user can cause, and the nearest valid name that its message offers."""

import contextlib
import difflib
import inspect
import sysconfig
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import FrameType, FunctionType
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

    It says type, message, file and line. What the very line of the call raises is the user's too: other parameters
    than those that are given, something that cannot be called, a value that is no number. A SettingError passes, and
    so does what a function of ours raises without a line of the user's: a fault of ours, which keeps its traceback.
    """
    try:
        yield
    except SettingError:
        raise
    except Exception as error:
        lines = users_lines(error)
        if not lines and not _at_the_call(error):
            raise
        raise SettingError(setting, value, raised(error, lines[-1] if lines else None)) from error


def asked(setting: str, thing: Any, method: str, *given: Any) -> Any:
    """What a method of an object answers, which may be the user's. Raises SettingError if it does not take `given`.

    What the method itself raises passes: it has the user's line.
    """
    check_method(setting, thing, method, given)
    return getattr(thing, method)(*given)


def check_methods(setting: str, thing: Any, base: type) -> None:
    """Refuse an object whose class has something else in the place of a method of `base`, or with other parameters."""
    for method, ours in vars(base).items():
        if method[0] != "_" and isinstance(ours, FunctionType):
            check_method(setting, thing, method, [*inspect.signature(ours).parameters][1:])


def check_method(setting: str, thing: Any, method: str, given: Sequence[Any]) -> None:
    """`check_methods` for one, and for these arguments in the order of its parameters."""
    found, name = getattr(thing, method), type(thing).__name__
    if str(getattr(found, "__module__", "")).startswith("mqlearn."):
        return
    if not callable(found):
        raise SettingError(setting, name, f"{method} must be a method, not {_short(found)}")
    try:
        inspect.signature(found).bind(*given)
    except TypeError as error:
        takes = inspect.signature(found)
        words = f"{method}() must take {len(given)} arguments, and takes {takes} ({error})"
        raise SettingError(setting, name, words) from None
    except ValueError:  # of a function without a signature
        return


def raised(error: BaseException, line: tuple[FrameType, int] | None = None) -> str:
    """What an exception says, and where, in one line."""
    said = f"raised {type(error).__name__}: {' '.join(str(error).split())}"
    return f"{said} ({line[0].f_code.co_filename}, line {line[1]})" if line else said


def _at_the_call(error: BaseException) -> bool:
    """Whether the block of `user_code` itself raised, and no function that it called."""
    block = error.__traceback__ and error.__traceback__.tb_next
    return isinstance(error, TypeError | ValueError) and block is not None and block.tb_next is None


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
