"""Hydra at the edge: overrides in, plain settings out, and Hydra's refusals as one clear message each."""

import contextlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mqlearn.config import CONF, build, outputs_folder
from mqlearn.errors import SettingError, nearest

VERSION_BASE = "1.3"


def compose(overrides: Sequence[str], config_dir: str | None = None) -> dict[str, Any]:
    """The resolved settings of some overrides, without Hydra's own. Raises SettingError for what Hydra refuses."""
    return compose_all([overrides], config_dir)[0]


def compose_all(lists: Sequence[Sequence[str]], config_dir: str | None = None) -> list[dict[str, Any]]:
    """`compose` for many lists of overrides, at 40 ms each."""
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir

    register_resolvers()
    more = [f"hydra.searchpath=[{directory(config_dir).as_uri()}]"] if config_dir else []
    with initialize_config_dir(str(CONF), version_base=VERSION_BASE, job_name="mqlearn"):
        settings = []
        for overrides in lists:
            with hydra_errors():
                settings.append(plain(hydra_compose("config", [*more, *overrides])))
    return settings


def plain(config: Any) -> dict[str, Any]:
    """A composed configuration as resolved plain data."""
    from omegaconf import OmegaConf, open_dict

    with open_dict(config):
        content = {key: config[key] for key in config if key != "hydra"}
    with hydra_errors():
        return OmegaConf.to_container(OmegaConf.create(content), resolve=True, throw_on_missing=True)  # type: ignore


def directory(path: str) -> Path:
    """The folder given by --config-dir, absolute. Raises SettingError."""
    folder = Path(path).expanduser().resolve()
    if not folder.is_dir():
        raise SettingError("--config-dir", path, "is not a folder")
    return folder


def sweep(overrides: Sequence[str]) -> list[list[str]]:
    """The overrides of each job of a multirun, in Hydra's order."""
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
    from hydra.core.override_parser.overrides_parser import OverridesParser

    with hydra_errors():
        parsed = OverridesParser.create().parse_overrides(list(overrides))
        (batch,) = BasicSweeper.split_arguments(parsed, max_batch_size=None)
    return [list(job) for job in batch]


def register_resolvers() -> None:
    """The folder names that conf/config.yaml asks for; a cell's own is its digest."""
    from omegaconf import OmegaConf

    def subfolder(*, _root_: Any) -> str:
        return str(build(plain(_root_)).subfolder)

    def runs() -> str:
        return str(outputs_folder() / "runs")

    def folder(*, _root_: Any) -> str:
        return str(outputs_folder() / "runs" / build(plain(_root_)).subfolder)

    for name, resolver in (("runs", runs), ("subfolder", subfolder), ("folder", folder)):
        OmegaConf.register_new_resolver(f"mqlearn_{name}", resolver, replace=True)


@contextlib.contextmanager
def hydra_errors() -> Iterator[None]:
    """Turn the exceptions of Hydra and OmegaConf into a SettingError."""
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    try:
        yield
    except (HydraException, OmegaConfBaseException) as error:
        raise translate(error) from None


def translate(error: Exception) -> SettingError:
    """One message naming the setting, its value, what is admissible and the nearest name."""
    text = " ".join(str(part) for part in (error, error.__cause__) if part)
    # An unknown option of a group.
    found = re.search(
        r"Could not find '([^']+)'.*?Available options in '[^']+':\s+(.*?)(?:Config search path|$)",
        text,
        re.S,
    )
    if found:
        group, _, value = found[1].rpartition("/")
        options = re.findall(r"^\s*(\S+)\s*$", found[2], re.M)
        options = [option for option in options if not option.startswith("provider=")]
        return SettingError(group, value, f"must be one of {', '.join(options)}{nearest(value, options)}")
    # An unknown group or key.
    found = re.search(r"Could not override '([^'@]+)(?:@[^']*)?'|Key '([^']+)' is not in struct", text)
    if found:
        full_key = re.search(r"full_key: (\S+)", text)
        key = found[1] or (full_key[1] if full_key else found[2])
        return _UnknownSetting(key)
    found = re.search(r"Missing mandatory value: (\S+)", text)
    if found:
        return SettingError(found[1], "???", "must be given")
    found = re.search(r"Interpolation key '([^']+)' not found", text)
    if found:
        return SettingError(found[1], "${...}", "is used by another setting, and does not exist")
    first = text.strip().splitlines()[0]
    if (
        "LexerNoViableAltException" in text
        or "OverrideParse" in type(error).__name__
        or "mismatched input" in text
    ):
        given = re.search(r"Error when parsing index: \d+, string: (.*?) out of", text)
        see = text.strip().splitlines()
        shown = given[1] if given else (see[0].split(": ", 1)[-1] if see else first)
        return SettingError(
            shown.split("=", 1)[0],
            shown.split("=", 1)[-1],
            "cannot be read as an override; quote what holds commas, blanks or brackets for the shell, "
            "for example 'env.map=[SFFF,FHFH,FFFH,HFFG]', 'algorithm.m=2,5,10', \"experiment.name='two words'\"",
        )
    return SettingError("settings", "", first)


class _UnknownSetting(SettingError):
    """A name that no setting has."""

    def __init__(self, key: str) -> None:
        names = _known_names()
        ValueError.__init__(self, f"{key}: there is no such setting{nearest(key, names)}")
        self.key = key

    def __reduce__(self) -> tuple:
        return type(self), (self.key,)


def _known_names() -> list[str]:
    """Dotted names of the settings in conf/, read as text: composing has just failed."""
    from omegaconf import OmegaConf

    names = [path.name for path in CONF.iterdir() if path.is_dir()]
    for path in sorted(CONF.glob("**/*.yaml")):
        prefix = "" if path.parent == CONF else f"{path.parent.name}."
        if path.parent.name in ("experiment", "hydra"):
            continue
        content = OmegaConf.to_container(OmegaConf.load(path), resolve=False)
        names += [
            prefix + str(key) for key in content if key not in ("_target_", "name", "defaults", "hydra")
        ]
    return [*names, "experiment.name", "tracking.uri", "hydra.run.dir"]
