"""Hydra at the edge: overrides in, plain settings out, and Hydra's refusals as clear messages, all at once."""

import contextlib
import copy
import functools
import pickle
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mqlearn.errors import SettingError, SettingErrors, nearest
from mqlearn.experiments.settings.cell import Cell, build
from mqlearn.paths import CONF, outputs_folder

VERSION_BASE = "1.3"
_SPELLINGS = (
    "quote what holds commas, blanks or brackets for the shell, for example 'env.map=[SFFF,FHFH,FFFH,HFFG]', "
    "'algorithm.m=2,5,10', \"experiment.name='two words'\""
)


def compose(overrides: Sequence[str], config_dir: str | None = None) -> dict[str, Any]:
    """The resolved settings of some overrides, without Hydra's own. Raises SettingError for what Hydra refuses."""
    return compose_all([overrides], config_dir)[0]


def check(overrides: Sequence[str], config_dir: str | None = None) -> None:
    """Raise SettingError for what Hydra refuses; values that are missing or not admissible are let through."""
    with _hydra(config_dir) as compose_one:
        try:
            compose_one(overrides)
        except _refusals() as error:
            raise _diagnose(compose_one, overrides, error) from None


def compose_all(lists: Sequence[Sequence[str]], config_dir: str | None = None) -> list[dict[str, Any]]:
    """`compose` for many lists of overrides."""
    with _hydra(config_dir) as compose_one:
        composed = SettingErrors.collect(functools.partial(_composed, compose_one, one) for one in lists)
    return [settings for _, settings in composed]


@dataclass(frozen=True)
class Job:
    """What Hydra is about to run: a cell, the folder that it makes for it, and that of the whole run or sweep."""

    overrides: tuple[str, ...]
    cell: Cell
    folder: Path
    root: Path


def sweep(overrides: Sequence[str], config_dir: str | None) -> list[list[str]]:
    """The overrides of each job of a multirun, in Hydra's order. Raises SettingError."""
    with _hydra(config_dir):
        return _sweep(overrides)


def jobs(
    lists: Sequence[Sequence[str]],
    config_dir: str | None,
    *,
    multirun: bool,
    keep: Callable[[Job], Any] = lambda job: job,
) -> list[Any]:
    """What `keep` returns for the job of each list of overrides; none is run. Raises one SettingError for all.

    A job holds its model: a large sweep keeps less than that.
    """
    from omegaconf import OmegaConf, open_dict

    keys = ("hydra.sweep.dir", "hydra.sweep.subdir") if multirun else ("hydra.run.dir",)

    def job(number: int, overrides: Sequence[str]) -> Any:
        config, settings = _composed(compose_one, overrides)
        cell = build(settings)
        with open_dict(config), hydra_errors(overrides):
            config.hydra.job.num, config.hydra.job.id = number, str(number)
            parts = [str(OmegaConf.select(config, key)) for key in keys]
        _refuse_strange_files(config)
        return keep(Job(tuple(overrides), cell, Path.cwd().joinpath(*parts), Path.cwd() / parts[0]))

    with _hydra(config_dir) as compose_one:
        return SettingErrors.collect(functools.partial(job, number, one) for number, one in enumerate(lists))


def _refuse_strange_files(config: Any) -> None:
    """Raise SettingError if Hydra would put files of its own into a run folder, which holds the run alone."""
    from omegaconf import OmegaConf

    if config.hydra.output_subdir is not None:
        problem = "must be null: Hydra's files have no place in a run folder, whose config.yaml has all settings"
        raise SettingError("hydra.output_subdir", config.hydra.output_subdir, problem)
    handlers = OmegaConf.select(config, "hydra.job_logging.handlers") or {}
    if any("filename" in handler for handler in handlers.values()):
        problem = "must be none (or stdout): a log file has no place in a run folder"
        raise SettingError("hydra/job_logging", config.hydra.runtime.choices.get("hydra/job_logging"), problem)


def plain(config: Any) -> dict[str, Any]:
    """A composed configuration as resolved plain data."""
    from omegaconf import OmegaConf

    content = {key: config[key] for key in config if key != "hydra"}
    settings = {
        key: OmegaConf.to_container(value, resolve=True, throw_on_missing=True) if OmegaConf.is_config(value) else value
        for key, value in content.items()
    }
    for group, choice in _choices(config).items():  # the yaml of a user's own choice may leave its name out
        node = settings.get(group)
        if isinstance(node, dict) and "_target_" in node and "name" not in node:
            settings[group] = {**node, "name": choice}
    return settings


def _choices(config: Any) -> dict[str, str]:
    """The file that was chosen of each group; a job's configuration does not tell, but Hydra does."""
    from hydra.core.hydra_config import HydraConfig

    if "hydra" in config:
        return dict(config.hydra.runtime.choices)
    return dict(HydraConfig.get().runtime.choices) if HydraConfig.initialized() else {}


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
def hydra_errors(overrides: Sequence[str] = ()) -> Iterator[None]:
    """Turn an exception of Hydra or OmegaConf into a SettingError."""
    try:
        yield
    except _refusals()[:2] as error:
        key, refused = _translate(error, dict(map(_split, overrides)))
        raise refused or SettingError(key, "", "there is no such setting") from None


# --- inside Hydra -------------------------------------------------------------------------------------------------

Compose = Callable[[Sequence[str]], Any]


@contextlib.contextmanager
def _hydra(config_dir: str | None) -> Iterator[Compose]:
    """A function from overrides to Hydra's composed configuration, with what `--config-dir` adds to conf/."""
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.core.config_search_path import SearchPathQuery
    from hydra.core.global_hydra import GlobalHydra

    register_resolvers()
    folder = None if config_dir is None else Path(config_dir).expanduser().resolve()
    if folder is not None and not (config_dir and folder.is_dir()):
        raise SettingError("--config-dir", config_dir, "is not a folder")
    with initialize_config_dir(str(CONF), version_base=VERSION_BASE, job_name="mqlearn"):
        loader: Any = GlobalHydra.instance().config_loader()
        if folder is not None:
            before_schemas = SearchPathQuery(provider="schema")
            loader.get_search_path().prepend("command-line", f"file://{folder}", anchor=before_schemas)
            loader.repository.initialize_sources(loader.get_search_path())
        known = _known(_state_of(loader.get_search_path(), folder))
        GlobalHydra.instance().hydra.config_loader = _composing_once(loader, *known)  # type: ignore  # as set above
        yield lambda overrides: hydra_compose("config", list(overrides), return_hydra_config=True)


@functools.lru_cache(maxsize=1)
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
            for path in place.rglob("*.yaml"):
                status = path.stat()
                yield str(path), status.st_mtime_ns, status.st_size

    places = [CONF] if folder is None else [CONF, folder]
    searched = tuple(map(str, search_path.get_path()))
    return searched, tuple(sorted(files(places))), tuple(nodes(ConfigStore.instance().repo))


def _composing_once(loader: Any, read: dict[str, bytes], composed: dict[Any, bytes]) -> Any:
    """A loader that composes each choice of groups once; Hydra's own needs 80 ms for each list of overrides.

    What is not such a choice, Hydra sets in the composed configuration, as this loader does in a copy of it.
    """
    from hydra._internal.config_loader_impl import ConfigLoaderImpl, get_overrides_dirname
    from hydra.core.override_parser.overrides_parser import OverridesParser

    class ComposingOnce(ConfigLoaderImpl):
        def __init__(self) -> None:
            self.config_search_path, self.repository = loader.config_search_path, _read_once(loader.repository, read)

        def _load_configuration_impl(self, config_name: Any, overrides: list[str], *how: Any, **named: Any) -> Any:
            parsed = OverridesParser.create().parse_overrides(overrides)
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
    """A repository that reads each yaml once; Hydra's own reads them all again for each composition (20 ms)."""
    from hydra._internal.config_repository import ConfigRepository

    class ReadOnce(ConfigRepository):
        def __init__(self, sources: Any, read: dict[str, bytes]) -> None:
            self.sources, self.read = sources, read

        def __deepcopy__(self, memo: Any) -> "ReadOnce":  # Hydra copies its repository for each composition
            return ReadOnce(copy.copy(self.sources), self.read)

        def initialize_sources(self, config_search_path: Any) -> None:  # for hydra.searchpath
            super().initialize_sources(config_search_path)
            self.read = {}

        def load_config(self, config_path: str) -> Any:
            if config_path not in self.read:
                self.read[config_path] = pickle.dumps(super().load_config(config_path))
            return pickle.loads(self.read[config_path])  # compositions change what they get

    return ReadOnce(repository.sources, read)


def _composed(compose_one: Compose, overrides: Sequence[str]) -> tuple[Any, dict[str, Any]]:
    """Hydra's configuration and the resolved settings in it. Raises SettingError, for all that Hydra refuses."""
    SettingErrors.collect(functools.partial(_parse, text) for text in overrides if "=[" in text)
    try:
        config = compose_one(overrides)
        return config, plain(config)
    except _refusals() as error:  # of the first thing that Hydra does not like
        raise _diagnose(compose_one, overrides, error) from None


def _refusals() -> tuple[type[Exception], ...]:
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    return HydraException, OmegaConfBaseException, ValueError, TypeError  # env=[1,2] is a TypeError


def _sweep(overrides: Sequence[str]) -> list[list[str]]:
    """The overrides of each job of a multirun, in Hydra's order."""
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
    from hydra.core.global_hydra import GlobalHydra
    from hydra.core.override_parser.overrides_parser import OverridesParser

    SettingErrors.collect(functools.partial(_parse, text, sweeps=True) for text in overrides)
    with hydra_errors(overrides):
        parser = OverridesParser.create(GlobalHydra.instance().config_loader())
        (batch,) = BasicSweeper.split_arguments(parser.parse_overrides(list(overrides)), max_batch_size=None)
    return [list(job) for job in batch]


# --- what is wrong with some overrides ----------------------------------------------------------------------------


def _diagnose(compose_one: Compose, overrides: Sequence[str], error: Exception | None) -> SettingError:
    """Everything that is wrong with overrides that Hydra refuses: what it stops at is left out, and it goes on."""
    errors: list[SettingError] = []
    unknown: list[str] = []
    left, given = [], dict(map(_split, overrides))
    for text in overrides:
        try:
            _parse(text)
            left.append(text)
        except SettingError as malformed:
            errors.append(malformed)
    if len(left) < len(overrides):
        error = None  # it may be about one of those
    config = None
    while True:
        if error is None:
            try:
                config = compose_one(left)
                build(plain(config))
                break
            except SettingError as more:
                errors.append(more)
                break
            except _refusals() as refusal:
                error = refusal
        key, refused = _translate(error, given)
        guilty = [text for text in left if _names_key(text, key)]
        if refused is None:
            unknown.append(key)
        elif guilty or not (errors or unknown):  # else it may be a consequence
            errors.append(refused)
        if not guilty:
            break
        left = [text for text in left if text not in guilty]
        error = None
    if unknown:
        config = config or compose_one([])
        named = [(key, key.rpartition("@")[2]) for key in unknown]  # group@setting, as Hydra writes it
        errors = [SettingError(name, given.get(key, ""), _no_such(name, config)) for key, name in named] + errors
    return SettingErrors.one_of(errors)


def _parse(text: str, *, sweeps: bool = False) -> None:
    """Raise SettingError if a text is no override, or one of a kind that is not admissible whatever the settings."""
    from hydra.core.global_hydra import GlobalHydra
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    key, value = _split(text)
    if "=" not in text and not text.startswith("~"):
        raise SettingError("override", text, f"must be written NAME=VALUE; {_SPELLINGS}")
    if not key:
        raise SettingError("override", text, "has no name before the =")
    try:
        parsed = OverridesParser.create().parse_override(text)
    except HydraException:
        raise SettingError(key, value, f"cannot be read; {_SPELLINGS}") from None
    if parsed.is_sweep_override() and not sweeps:
        several = f"-m (mqlearn run) makes one job of each; a list is written {key}=[...]"
        raise SettingError(key, value, f"stands for several values: {several}")
    loader = GlobalHydra.instance().config_loader()
    options = [] if parsed.is_sweep_override() or parsed.is_delete() else loader.get_group_options(key)
    lists = str | list if key.startswith("hydra/") else str  # of two choices Hydra would make a mixture
    if options and not isinstance(parsed.value(), lists):
        raise SettingError(key, parsed.value(), f"must be one of {', '.join(options)}")


def _split(text: str) -> tuple[str, str]:
    """Name and value of an override, without what Hydra's grammar puts around the name."""
    key, _, value = text.partition("=")
    return key.lstrip("+~").strip(), value


def _names_key(text: str, key: str) -> bool:
    """Whether an override sets a key, itself or in a mapping."""
    name, value = _split(text)
    return key in (name, name.partition("@")[0]) or (value.startswith("{") and key.startswith(f"{name}."))


def _translate(error: Exception, given: dict[str, str]) -> tuple[str, SettingError | None]:
    """The setting that an exception is about, and what it says of it; None if there is no such setting."""
    chain = [part for part in (error, error.__cause__) if part is not None]
    text = "\n".join(map(str, chain))
    first = next((line for line in text.splitlines() if line.strip()), type(error).__name__)
    missing, options = getattr(error, "missing_cfg_file", None), getattr(error, "options", None)
    if missing:
        group, _, value = missing.rpartition("/")
        if not options:
            return group or missing, None
        return group, SettingError(group, value, f"must be one of {', '.join(options)}{nearest(value, options)}")
    full_key = next(filter(None, (getattr(part, "full_key", None) for part in chain)), None)
    for pattern, admissible in (
        (r"Could not override '([^']+)", None),
        (r"Key '([^']+)' is not in struct", None),
        (r"Could not delete.*?'([^'=]+)", None),
        (r"config group '([^']+)' does not exist", None),
        (r"An item is already at '([^']+)'", "exists already: leave out the +"),
        (r"Multiple values for (\S+?)(?:@\S+)?\. ", "is chosen more than once: choose one"),
        (r"Missing mandatory value: (\S+)", "must be given"),
        (r"Interpolation key '([^']+)' not found", "refers to a setting that does not exist"),
    ):
        if found := re.search(pattern, text):
            key = str(full_key or found[1])
            value = given.get(key, "???" if admissible == "must be given" else "${" + found[1] + "}")
            if admissible == "must be given":
                admissible += _explained(key, given)
            return key, None if admissible is None else SettingError(key, value, admissible)
    for key, value in given.items():
        if key == full_key or f"{key}=" in text or f"'{key}'" in text:
            return key, SettingError(key, value, str(chain[-1]).splitlines()[0])
    return str(full_key or "settings"), SettingError(str(full_key or "settings"), "", first)


def _explained(key: str, given: dict[str, str]) -> str:
    """What conf/ says first of the choice that a setting belongs to."""
    group = key.partition(".")[0]
    path = CONF / group / f"{given.get(group, '')}.yaml"
    first = path.read_text("utf-8").partition("\n")[0] if path.is_file() else ""
    return f". {first[2:]}" if first.startswith("# ") else ""


def _no_such(key: str, config: Any) -> str:
    """That a configuration has no setting `key`, and which it has that is like it."""
    from omegaconf import OmegaConf

    names = _names(OmegaConf.to_container(config, resolve=False), hydra=key.startswith("hydra"))
    group, _, rest = key.rpartition(".")
    if rest and not group.startswith("hydra") and OmegaConf.is_dict(config.get(group)):
        own = [name for name in names if name.startswith(f"{group}.")]
        choice = config[group].get("name") if group != "experiment" else None  # whose name is a setting
        if choice is not None:
            own.remove(f"{group}.name")
        of = group if choice is None else f"{group}={choice}"
        listed = f"its settings are {', '.join(own)}" if own else "it has none of its own"
        return f"is no setting of {of}; {listed}{nearest(key, own) or _elsewhere(group, rest)}"
    ends = [name for name in names if name.endswith(f".{key}")]
    return "there is no such setting" + (
        f" (did you mean '{ends[0]}'?)" if ends else _elsewhere(group or "*", rest) or nearest(key, names)
    )


def _elsewhere(group: str, name: str) -> str:
    """Which choice of a group of conf/ has a setting of this name, as a hint."""
    for path in sorted(CONF.glob(f"{group}/*.yaml")):
        if path.parent.name != "experiment" and re.search(f"^{re.escape(name)}:", path.read_text("utf-8"), re.M):
            return f" ({path.parent.name}.{name} is a setting of {path.parent.name}={path.stem})"
    return ""


def _names(content: Any, prefix: str = "", *, hydra: bool = False) -> list[str]:
    """Dotted names of all settings, groups and sections included."""
    names = []
    for key, value in content.items():
        if key == "_target_" or (not prefix and (key == "hydra") != hydra):
            continue
        names.append(f"{prefix}{key}")
        if isinstance(value, dict):
            names += _names(value, f"{prefix}{key}.")
    return names
