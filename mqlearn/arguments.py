"""The arguments of a verb: flags, a folder of configurations, and overrides for Hydra."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from mqlearn.errors import SettingError, nearest

CONFIG_DIR = ("--config-dir", "-cd")


@dataclass
class Options:
    """Arguments of a verb: flags, --config-dir, and the overrides for Hydra."""

    overrides: list[str] = field(default_factory=list)
    given: set[str] = field(default_factory=set)
    config_dir: str | None = None

    @property
    def multirun(self) -> bool:
        return bool({"-m", "--multirun"} & self.given)


def parse(arguments: Sequence[str], *, flags: Sequence[str] = (), values: Sequence[str] = ()) -> Options:
    """Sort the arguments of a verb. Raises SettingError for a flag that it does not have."""
    options = Options()
    rest = iter(arguments)
    for argument in rest:
        name, _, value = argument.partition("=")
        if name in values:
            options.config_dir = value or next(rest, "")
        elif argument in flags:
            options.given.add(argument)
        elif argument.startswith("-"):
            known = ", ".join([*flags, *values])
            expected = f"must be one of {known}" if known else "there are no flags here"
            raise SettingError("flag", argument, expected + nearest(name, [*flags, *values]))
        else:
            options.overrides.append(argument)
    return options


def only(verb: str, overrides: Sequence[str], groups: Sequence[str]) -> None:
    """Raise SettingError for overrides that a verb would not heed."""
    for text in overrides:
        key, _, value = text.partition("=")
        if key.lstrip("+~").partition(".")[0] not in groups:
            expected = f"has no effect on `mqlearn {verb}`; only {' and '.join(groups)} can be set"
            raise SettingError(key, value, expected)
