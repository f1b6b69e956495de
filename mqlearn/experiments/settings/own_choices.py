"""A user's own choices of groups: they go before shipped ones of the same name, and those that they hide are said.

Hydra composes the groups of a run; claims, papers and suites, and lists of names, are found here.
"""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mqlearn.errors import SettingError, SettingErrors, nearest
from mqlearn.experiments.settings import yamls
from mqlearn.paths import CONF, expanded

KEY = "own_choices"  # of composed settings, beside those of a cell: group -> {file, hides}
_SHIPPED = ("hydra", "main", "schema")  # Hydra's names of the places that are not the user's
_said: set[str] = set()  # by this command line


def go_first() -> None:
    """Let Hydra look into folders of the user's (--config-dir, hydra.searchpath) before it looks into any other."""
    from hydra._internal.config_search_path_impl import ConfigSearchPathImpl
    from hydra.core.config_search_path import ConfigSearchPath, SearchPathElement
    from hydra.core.plugins import Plugins
    from hydra.plugins.search_path_plugin import SearchPathPlugin

    if any(one.__name__ == "OwnFirst" for one in Plugins.instance().discover(SearchPathPlugin)):
        return

    class OwnFirstPath(ConfigSearchPathImpl):
        def append(self, provider: str, path: str, anchor: Any = None) -> None:
            places = self.config_search_path
            shipped = [number for number, one in enumerate(places) if one.provider in _SHIPPED]
            end = len(places) if provider in _SHIPPED or not shipped else shipped[0]
            places.insert(end, SearchPathElement(provider, path))

        def prepend(self, provider: str, path: str, anchor: Any = None) -> None:
            self.append(provider, path)  # so does Hydra with --config-dir

    class OwnFirst(SearchPathPlugin):
        def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
            search_path.__class__ = OwnFirstPath  # Hydra makes it itself, and adds the user's folders later

    Plugins.instance().register(OwnFirst)


def check_folder(config_dir: str, folder: Path) -> None:
    """Raise SettingError for a folder that is none, or that has another configuration for all of conf/config.yaml."""
    if not (config_dir and folder.is_dir()):
        raise SettingError("--config-dir", config_dir, "is not a folder")
    primary = folder / "config.yaml"
    if primary.is_file() and primary.read_bytes() != (CONF / "config.yaml").read_bytes():
        expected = f"has choices of groups alone: {primary} is not read; write its settings in experiment/NAME.yaml"
        raise SettingError("--config-dir", config_dir, f"{expected}, and choose experiment=NAME")


def found(runtime: Any) -> dict[str, dict[str, Any]]:
    """The choices that are of files of the user's, by group: each file, and whether it hides a shipped choice.

    runtime: hydra.runtime of a composed configuration, with the places that were looked into, in their order.
    """
    places = [(one.provider in _SHIPPED, Path(one.path)) for one in runtime.config_sources if one.schema == "file"]
    if all(shipped for shipped, _ in places):
        return {}
    own: dict[str, dict[str, Any]] = {}
    for group, name in runtime.choices.items():
        folder = group.partition("@")[0]
        there = [(shipped, path) for shipped, top in places if (path := top / folder / f"{name}.yaml").is_file()]
        if there and not there[0][0]:
            own[group] = {"file": str(there[0][1]), "hides": _hides([path for _, path in there])}
    return own


def files(group: str, config_dir: str | None = None) -> dict[str, Path]:
    """The file of each choice of a group by name, in order; the user's own go before those of mqlearn."""
    there = {path.stem: path for folder in reversed(_folders(group, config_dir)) for path in yamls.shown(folder)}
    return dict(sorted(there.items()))


def _folders(group: str, config_dir: str | None) -> list[Path]:
    return [*([expanded(config_dir) / group] if config_dir else []), CONF / group]


def file_of(group: str, name: str, config_dir: str | None = None) -> Path:
    """The file of a choice. Raises SettingError for one that there is not, or that leads nowhere."""
    known = files(group, config_dir)
    if name in known:
        return known[name]
    for folder in _folders(group, config_dir):
        refuse_dangling(group, folder / f"{name}.yaml")
    raise SettingError(group, name, f"must be one of {', '.join(known)}{nearest(name, known)}")


def refuse_dangling(group: str, path: Path) -> None:
    """Raise SettingError for a link to nothing."""
    if path.is_symlink() and not path.exists():
        yamls.check(group, path)


@contextlib.contextmanager
def reading(group: str, name: str, config_dir: str | None = None) -> Iterator[Path]:
    """Around what reads and checks the file of a choice, which Hydra does not compose: where it hides a shipped one of
    its name that is said, and each SettingError names the file. Raises SettingError, as `file_of`."""
    path = file_of(group, name, config_dir)
    there = [one for folder in _folders(group, config_dir) if (one := folder / f"{name}.yaml").is_file()]
    say_hidden({group: {"file": str(path.absolute()), "hides": _hides(there)}})
    try:
        yield path
    except SettingError as error:
        raise SettingErrors.one_of(
            one if str(path) in str(one) else SettingError(one.setting, one.value, f"{one.admissible}, in {path}")
            for one in getattr(error, "errors", [error])
        ) from None


def _hides(files: list[Path]) -> bool:
    """Whether the first of some files of one name hides another that has other content."""
    return any(one.read_bytes() != files[0].read_bytes() for one in files[1:])


def say_hidden(own: dict[str, dict[str, Any]]) -> None:
    """One line for each shipped choice that is hidden, once a command line."""
    for group, one in own.items():
        if one["hides"]:
            say(f"{group.partition('@')[0]}={Path(one['file']).stem} is {one['file']}, which hides the one of mqlearn")


def say(text: str) -> None:
    """A warning on standard error, once a command line."""
    if text not in _said:
        _said.add(text)
        sys.stderr.write(f"warning: {text}\n")


def forget() -> None:
    """At the start of a command line: nothing has been said yet."""
    _said.clear()
