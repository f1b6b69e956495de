"""Hydra's loader of configurations, made fast: each yaml is read once, each choice of groups composed once.

It stands on private classes of Hydra (1.3), because a list of overrides takes 5 ms of a core by it, 66 ms if yamls are
read once and no more, and 110 ms by Hydra's own: figures, claims and sweeps compose hundreds.
"""

import copy
import functools
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mqlearn.errors import SettingError
from mqlearn.experiments.settings import own_choices, yamls
from mqlearn.paths import CONF, config_groups

# Settings of every algorithm, whether its yaml writes them or not.
OPTIONS = tuple(f"algorithm.{name}" for name in ("averaged", "batch", "burn_in", "clip", "compiled"))

# What the yaml of an algorithm says to suites, which read it themselves: no setting.
TUNING = "algorithm.tuning"


def for_hydra(text: str) -> str:
    """An override as Hydra's own loader takes it: a setting of every algorithm is added."""
    return f"++{text}" if text.partition("=")[0] in OPTIONS else text


def leave_out_nulls() -> None:
    """Let Hydra leave out a setting at null by ~, which it takes for one that there is not."""
    from hydra._internal.config_loader_impl import ConfigLoaderImpl
    from omegaconf import OmegaConf, open_dict

    apply: Any = ConfigLoaderImpl._apply_overrides_to_config
    if getattr(apply, "leaves_out_nulls", False):
        return

    def one_by_one(overrides: list[Any], config: Any) -> None:
        for one in overrides:
            above, _, name = str(one.key_or_group).rpartition(".")
            # Hydra's own it reads itself, and cannot do without.
            ours = one.package is None and above.partition(".")[0] != "hydra"
            if ours and one.is_delete() and one.value() is None:
                node = OmegaConf.select(config, above) if above else config
                if OmegaConf.is_dict(node) and name in node and node[name] is None:
                    with open_dict(node):
                        del node[name]
                    continue
            apply([one], config)

    # A mark on the function, by which it is set once. Hydra has no place for it but this private method: the jobs of a
    # sweep are composed by its own loader, not by `composing_once`.
    one_by_one.leaves_out_nulls = True  # type: ignore[attr-defined]  # a function takes any attribute
    ConfigLoaderImpl._apply_overrides_to_config = staticmethod(one_by_one)  # type: ignore[method-assign]  # meant so


def composing_once(loader: Any, folder: Path | None) -> Any:
    """A loader that composes each choice of groups once.

    loader: Hydra's; folder: what `--config-dir` adds to conf/.
    What is not such a choice, Hydra sets in the composed configuration, as this loader does in a copy of it.
    """
    from hydra._internal.config_loader_impl import ConfigLoaderImpl, get_overrides_dirname
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.core.override_parser.types import OverrideType

    read, composed = _known(_state_of(loader.get_search_path(), folder))

    class ComposingOnce(ConfigLoaderImpl):
        def __init__(self) -> None:
            self.config_search_path, self.repository = loader.config_search_path, _read_once(loader.repository, read)

        def _load_configuration_impl(self, config_name: Any, overrides: list[str], *how: Any, **named: Any) -> Any:
            parsed = OverridesParser.create().parse_overrides(overrides)
            for one in parsed:
                if one.key_or_group in OPTIONS and one.type is OverrideType.CHANGE:
                    one.type = OverrideType.FORCE_ADD
            values = list(filter(self._sets_a_value, parsed))
            choices = [text for one, text in zip(parsed, overrides, strict=True) if not self._sets_a_value(one)]
            key = (config_name, *choices, str(how), str(named))
            if key in composed:
                config = pickle.loads(composed[key])
                config.hydra.runtime.cwd = str(Path.cwd())
            else:
                config = super()._load_configuration_impl(config_name, choices, *how, **named)
                if not (config.hydra.searchpath or config.hydra.job.env_copy):  # folders and variables out of sight
                    composed[key] = pickle.dumps(config)
            if values:
                self._apply_overrides_to_config(values, config)
                ours = [one for one in parsed if not one.is_hydra_override()]
                config.hydra.overrides.task = [one.input_line for one in ours]
                rules = config.hydra.job.config.override_dirname
                config.hydra.job.override_dirname = get_overrides_dirname(ours, **rules)
            return config

        def _sets_a_value(self, one: Any) -> bool:
            if one.is_hydra_override() or one.is_sweep_override():
                return False
            return isinstance(one.value(), dict) or not self.repository.group_exists(one.key_or_group)

    return ComposingOnce()


def _read_once(repository: Any, read: dict[str, bytes]) -> Any:
    """A repository that reads each yaml once; Hydra's own reads them all again for each composition."""
    from hydra._internal.config_repository import ConfigRepository
    from hydra.core.object_type import ObjectType

    class ReadOnce(ConfigRepository):
        def __init__(self, sources: Any, read: dict[str, bytes]) -> None:
            self.sources, self.read = sources, read

        def __deepcopy__(self, memo: Any) -> "ReadOnce":  # Hydra copies its repository for each composition
            return ReadOnce(copy.copy(self.sources), self.read)

        def initialize_sources(self, config_search_path: Any) -> None:  # for hydra.searchpath
            super().initialize_sources(config_search_path)
            self.read = {}

        def get_group_options(self, *which: Any, **named: Any) -> list[str]:  # for glob(*), and lists in messages
            return [name for name in super().get_group_options(*which, **named) if not name.startswith(".")]

        def load_config(self, config_path: str) -> Any:
            if config_path not in self.read:
                loaded = self._loaded(config_path)
                _check_package(config_path, loaded)
                self.read[config_path] = pickle.dumps(loaded)
            return pickle.loads(self.read[config_path])  # compositions change what they get

        def _loaded(self, config_path: str) -> Any:
            source = self._find_object_source(config_path, ObjectType.CONFIG)
            group, _, name = config_path.rpartition("/")
            for one in self.get_sources() if source is None else ():
                if one.scheme() == "file":
                    own_choices.refuse_dangling(group or name, Path(one.path) / f"{config_path}.yaml")
            nothing = group == "experiment" or group not in config_groups()  # may be there

            def check() -> None:
                if source is not None and source.scheme() == "file":
                    yamls.check(group or name, Path(source.path) / f"{config_path}.yaml", empty=nothing)

            if source is not None and source.provider != "main":  # a file of the user's
                check()
            try:
                return super().load_config(config_path)
            except Exception:
                check()
                raise

    return ReadOnce(repository.sources, read)


def _check_package(config_path: str, loaded: Any) -> None:
    """Raise SettingError for the yaml of an experiment without the line that makes its settings those of a run."""
    group, _, name = config_path.rpartition("/")
    if group == "experiment" and loaded is not None and loaded.header.get("package") != "_global_":
        expected = f"{name}.yaml must begin with the line `# @package _global_`, or Hydra puts its settings elsewhere"
        raise SettingError("experiment", name, expected)


@functools.lru_cache(maxsize=2)  # with a folder of the user's, and without
def _known(state: Any) -> tuple[dict[str, bytes], dict[Any, bytes]]:
    """What was read and composed in this process, pickled (the fastest way to have copies), until `state` changes."""
    return {}, {}


def _state_of(search_path: Any, folder: Path | None) -> Any:
    """All that a composition depends on besides its overrides: search path, yaml files, nodes in Hydra's own store."""
    from hydra.core.config_store import ConfigStore

    def nodes(group: dict[str, Any]) -> Iterator[int]:
        for one in group.values():
            yield from nodes(one) if isinstance(one, dict) else (id(one),)

    def files(places: list[Path]) -> Iterator[tuple[str, int, int]]:
        for place in places:
            for path in yamls.shown(place, "**/*.yaml"):
                status = path.stat()
                yield str(path), status.st_mtime_ns, status.st_size

    places = [CONF] if folder is None else [CONF, folder]
    searched = tuple(map(str, search_path.get_path()))
    return searched, tuple(sorted(files(places))), tuple(nodes(ConfigStore.instance().repo))
