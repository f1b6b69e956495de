"""The arguments of a verb: flags, a folder of configurations, and overrides for Hydra."""

import contextlib
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mqlearn import files
from mqlearn.checks import check_bool, check_int, choice
from mqlearn.errors import SettingError, nearest

CONFIG_DIR = ("--config-dir", "-cd")
STANDARD_OUTPUT = Path("-")  # as the name of a file
# What Hydra has for programs with several configurations.
_HYDRAS = {
    **dict.fromkeys(
        ("-cn", "--config-name", "-cp", "--config-path"),
        "there is one configuration, conf/config.yaml; --config-dir DIR adds your own choices to its groups",
    ),
    **dict.fromkeys(("--resolve", "-p", "--package"), "goes with --cfg job, which prints the composed settings"),
    "--experimental-rerun": "is Hydra's; mqlearn rerun FOLDER repeats a run",
    "--version": "stands alone: mqlearn --version",
}
# A step size within a step size is a choice of its group, which Hydra spells with an @.
_NESTED = re.compile(r"^step_size\.base=(?!null$)(?=[a-z_]+(,[a-z_]+)*$)")


@dataclass
class Options:
    """Arguments of a verb: flags, files and words by the flag before them, --config-dir, and overrides for Hydra."""

    overrides: list[str] = field(default_factory=list)
    given: set[str] = field(default_factory=set)
    files: dict[str, Path] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    config_dir: str | None = None

    @property
    def multirun(self) -> bool:
        return bool({"-m", "--multirun"} & self.given)


def parse(
    arguments: Sequence[str],
    *,
    flags: Sequence[str] = (),
    values: Sequence[str] = (),
    written: Sequence[str] = (),
    read: Sequence[str] = (),
    words: Sequence[str] = (),
) -> Options:
    """Sort the arguments of a verb: `flags` alone, `values` before a folder of configurations, `written` and `read`
    before a file, which must be one that can be written, `words` before a word.

    Raises SettingError for a flag that the verb does not have.
    """
    options = Options()
    rest = iter(arguments)
    for argument in rest:
        name, _, value = argument.partition("=")
        if name in values:
            options.config_dir = value or next(rest, "")
        elif name in (*written, *read):
            value = value or next(rest, "")
            if not value or value.startswith("--") or "=" in value:
                raise SettingError(name, value, f"must be followed by the name of a file, as in {name} FILE")
            options.files[name] = _file(name, value) if name in written else Path(value)
        elif name in words:
            options.words[name] = value or next(rest, "")
        elif argument in flags:
            options.given.add(argument)
        elif "=" in argument and not name.lstrip("+~").strip():
            raise SettingError("override", argument, "has no name before the =")
        elif name in _HYDRAS:
            raise SettingError("flag", argument, _HYDRAS[name])
        elif argument.startswith("-"):
            known = [*flags, *written, *read, *words, *values]
            expected = f"must be one of {', '.join(known)}" if known else "there are no flags here"
            raise SettingError("flag", argument, expected + nearest(name, known))
        else:
            # An experiment is added, as Hydra's manual writes it, or chosen, since there is none by default.
            text = argument.removeprefix("+") if argument.startswith("+experiment=") else argument
            options.overrides.append(_NESTED.sub("step_size@step_size.base=", text))
    return options


def _file(flag: str, name: str) -> Path:
    return STANDARD_OUTPUT if name == str(STANDARD_OUTPUT) else files.target(flag, name)


def deliver(wanted: Mapping[str, Path], made: Mapping[str, Callable[[], str | Iterable[str | bytes]]]) -> bool:
    """Write what flags asked for, by flag its file, and what makes its content; - is the standard output.

    Returns whether that is free for people. Raises SettingError for a file that cannot be written.
    """
    for flag, path in wanted.items():
        content = made[flag]()
        if path != STANDARD_OUTPUT:
            files.deliver(flag, path, content)
        elif isinstance(content, str):
            sys.stdout.write(content)
        else:
            for part in content:
                if isinstance(part, str):
                    sys.stdout.write(part)
                else:
                    sys.stdout.flush()
                    sys.stdout.buffer.write(part)
    return STANDARD_OUTPUT not in wanted.values()


def only(verb: str, overrides: Sequence[str], groups: Sequence[str]) -> None:
    """Raise SettingError for overrides that a verb would not heed."""
    for text in overrides:
        key, _, value = text.partition("=")
        if key.lstrip("+~").partition(".")[0] not in groups:
            listed = " and ".join([", ".join(groups[:-1])] * (len(groups) > 1) + [groups[-1]])
            expected = f"has no effect on `mqlearn {verb}`; only {listed} can be set"
            raise SettingError(key, value, expected)


def selection_words(texts: Iterable[str]) -> tuple[list[str], list[str], list[str]]:
    """Experiments (of experiment.name=), the overrides that select runs, and those that say where the store is."""
    names: list[str] = []
    overrides: list[str] = []
    stores: list[str] = []
    for text in texts:
        key, _, value = text.lstrip("+").partition("=")
        if key in ("experiment.name", "experiment"):
            names += [part.strip(" '\"") for part in value.split(",")]
        else:
            (stores if key.partition(".")[0] == "tracking" else overrides).append(text)
    return names, overrides, stores


def take(options: Options, setting: str) -> str | None:
    """Take a setting that is no part of a cell out of the overrides; its last value, None if it is not there."""
    given = [text for text in options.overrides if text.startswith(f"{setting}=")]
    options.overrides = [text for text in options.overrides if text not in given]
    return given[-1].partition("=")[2] if given else None


def take_existing(options: Options) -> str | None:
    """Take `existing`: what to do with cells that are finished; None if it is not there. Raises SettingError."""
    from mqlearn.experiments.plan import EXISTING

    existing = take(options, "existing")
    return None if existing is None else choice("existing", existing, EXISTING)


def take_plugins(options: Options) -> None:
    """Take `plugins`, and import these modules of the user's: records made with them can then be built again.

    Raises SettingError.
    """
    from mqlearn.experiments.settings import plugins

    written = take(options, "plugins")
    if written is not None:
        plugins.search(options.config_dir)
        inner = written.strip("'\"").removeprefix("[").removesuffix("]")
        plugins.load([name for name in map(str.strip, inner.split(",")) if name])


def take_switch(options: Options, setting: str) -> bool:
    """Take a truth value, false if it is not there. Raises SettingError."""
    return check_bool(setting, take(options, setting) or "false")


def whole_numbers(setting: str, written: str) -> list[int]:
    """10,15,20 or [10,15,20] as numbers. Raises SettingError."""
    inner = written.strip("'\"").removeprefix("[").removesuffix("]")
    return [check_int(setting, one.strip(), 1, written=True) for one in inner.split(",")]


def check_number(setting: str, written: str) -> float:
    """A number that was written. Raises SettingError for anything else, and for nan."""
    with contextlib.suppress(ValueError):
        if not math.isnan(number := float(written)):
            return number
    raise SettingError(setting, written, "must be a number")
