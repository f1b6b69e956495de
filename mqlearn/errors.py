"""The one error that a user can cause, and the nearest valid name that its message offers."""

import difflib
from collections.abc import Callable, Iterable, Sequence
from typing import Any


class SettingError(ValueError):
    """A setting has a value that is not admissible; the command line prints it and exits with code 2.

    The message is ``setting=value: what is admissible``.
    """

    def __init__(self, setting: str, value: object, admissible: str) -> None:
        super().__init__(f"{setting}={_short(value)}: {admissible}")
        self.setting = setting
        self.value = value
        self.admissible = admissible

    def __reduce__(self) -> tuple:
        # Workers send exceptions by pickle, which by default calls the class with the message alone.
        return type(self), (self.setting, self.value, self.admissible)


def nearest(name: str, names: Iterable[str]) -> str:
    """`` (did you mean 'x'?)`` for the closest of `names`, or an empty string when none is close."""
    close = difflib.get_close_matches(name, list(names), n=1, cutoff=0.5)
    return f" (did you mean '{close[0]}'?)" if close else ""


def _short(value: object, limit: int = 80) -> str:
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."


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
