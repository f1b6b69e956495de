"""Hydra at the edge: overrides in, plain settings out, and Hydra's refusals as clear messages, all at once."""

import contextlib
import functools
import itertools
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from mqlearn.errors import SettingError, SettingErrors
from mqlearn.experiments.settings import filled, loader, own_choices, plugins
from mqlearn.experiments.settings.cell import Cell, build
from mqlearn.experiments.settings.hydra_errors import diagnose, hydra_errors, parse, refusals
from mqlearn.paths import CONF, followed, outputs_folder
from mqlearn.storage.passwords import Address

VERSION_BASE = "1.3"
MOST_CELLS = 1_000_000  # of a sweep
LAUNCHER = "joblib"  # of sweeps, where there are cores


def compose(overrides: Sequence[str], config_dir: str | None = None) -> dict[str, Any]:
    """The resolved settings of some overrides, without Hydra's own. Raises SettingError for what Hydra refuses."""
    return compose_all([overrides], config_dir)[0]


def check(overrides: Sequence[str], config_dir: str | None = None) -> list[str]:
    """The overrides as Hydra takes them, with the launcher that a yaml needs.

    Raises SettingError for what Hydra refuses; values that are missing or not admissible are let through.
    """
    with _hydra(config_dir) as compose_one:
        try:
            launcher = compose_one(overrides).hydra.runtime.choices["hydra/launcher"]
            given = any(text.startswith("hydra/launcher=") for text in overrides)
            return [*overrides, *([f"hydra/launcher={launcher}"] if launcher == LAUNCHER and not given else [])]
        except SettingError:
            raise
        except refusals() as error:
            raise diagnose(compose_one, _validate, overrides, error) from None


def compose_all(lists: Sequence[Sequence[str]], config_dir: str | None = None) -> list[dict[str, Any]]:
    """`compose` for many lists of overrides."""
    with _hydra(config_dir) as compose_one:
        composed = SettingErrors.collect(functools.partial(_composed, compose_one, one) for one in lists)
    return [settings for _, settings in composed]


@dataclass(frozen=True)
class Job:
    """What Hydra is about to run: a cell, the folder that it makes for it, and that of the whole run or sweep.

    config: as Hydra composed it, with the folder as it was resolved; None in a sweep, for what was `filled` in.
    figure: what the experiment's yaml says of one.
    """

    overrides: tuple[str, ...]
    cell: Cell
    folder: Path
    root: Path
    config: Any
    figure: dict[str, Any]

    def placed(self, folder: Path) -> "Job":
        """The job of a single run, in another folder."""
        from omegaconf import OmegaConf

        OmegaConf.update(self.config, "hydra.run.dir", str(folder), force_add=True)
        return replace(self, folder=folder, root=folder)


def sweep(overrides: Sequence[str], config_dir: str | None) -> list[list[str]]:
    """The overrides of each job of a multirun, in Hydra's order. Raises SettingError.

    `hydra.sweeper.params` of a yaml are values to sweep over, too, for settings that the overrides leave.
    """
    with _hydra(config_dir) as compose_one:
        given = {text.partition("=")[0].lstrip("+~") for text in overrides}
        in_yaml = [f"{key}={value}" for key, value in _swept(compose_one, overrides).items() if key not in given]
        return _sweep([*in_yaml, *overrides])


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

    templates: dict[filled.Shape, filled.Template | None] = {}
    own_root = outputs_folder() / "runs"

    def job(number: int, overrides: Sequence[str]) -> Any:
        shape, values = filled.split(overrides) if multirun else ((), {})
        if template := templates.get(shape):
            settings = template.filled(values)
            cell = build(settings)
            figure = settings.get("figure") or {}
            return keep(Job(tuple(overrides), cell, own_root / cell.subfolder, own_root, None, figure))
        config, settings = _composed(compose_one, overrides)
        if multirun and shape not in templates:
            templates[shape] = filled.Template.of(config, settings, values)
        cell = build(settings)
        with open_dict(config), hydra_errors(overrides):
            config.hydra.job.num, config.hydra.job.id = number, str(number)
            parts = [str(OmegaConf.select(config, key)) for key in keys]
            for key, part in zip(keys, parts, strict=True):
                OmegaConf.update(config, key, part)
        _refuse_strange_files(config)
        if not multirun and config.hydra.mode is not None and config.hydra.mode.name == "MULTIRUN":
            raise SettingError("hydra.mode", "MULTIRUN", "in a yaml makes no sweep here: write mqlearn run -m")
        folder, root = Path.cwd().joinpath(*parts), Path.cwd() / parts[0]
        return keep(Job(tuple(overrides), cell, folder, root, config, settings.get("figure") or {}))

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
    if own_choices.KEY in content:
        raise SettingError(own_choices.KEY, content[own_choices.KEY], "there is no such setting")
    settings = {
        key: OmegaConf.to_container(value, resolve=True, throw_on_missing=True) if OmegaConf.is_config(value) else value
        for key, value in content.items()
    }
    group, _, name = loader.TUNING.partition(".")
    if isinstance(node := settings.get(group), dict):
        node.pop(name, None)
    node = settings.get("tracking")
    if isinstance(node, dict) and isinstance(node.get("uri"), str):  # which a yaml of the user's may hold
        node["uri"] = str(Address(node["uri"]))
    runtime = _runtime(config)
    choices = runtime.choices if runtime else {}
    for group, choice in choices.items():  # the yaml of a user's own choice may leave its name out
        node = settings.get(group)
        if isinstance(node, dict) and "_target_" in node and "name" not in node:
            settings[group] = {**node, "name": choice}
    own = own_choices.found(runtime) if runtime else {}
    return settings | ({own_choices.KEY: own} if own else {})


def _runtime(config: Any) -> Any:
    """Which choice was made of each group, and where; a job's configuration does not tell, but Hydra does."""
    from hydra.core.hydra_config import HydraConfig

    if "hydra" in config:
        return config.hydra.runtime
    return HydraConfig.get().runtime if HydraConfig.initialized() else None


def _validate(config: Any) -> None:
    build(plain(config))


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


# --- inside Hydra -------------------------------------------------------------------------------------------------

Compose = Callable[[Sequence[str]], Any]


@contextlib.contextmanager
def _hydra(config_dir: str | None) -> Iterator[Compose]:
    """A function from overrides to Hydra's composed configuration, with what `--config-dir` adds to conf/."""
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra

    register_resolvers()
    plugins.search(config_dir)
    folder = None if config_dir is None else followed(config_dir)
    if config_dir is not None and folder is not None:
        own_choices.check_folder(config_dir, folder)
    own_choices.go_first()
    loader.leave_out_nulls()
    with initialize_config_dir(str(CONF), version_base=VERSION_BASE, job_name="mqlearn"):
        own: Any = GlobalHydra.instance().config_loader()
        if folder is not None:
            own.get_search_path().append("command-line", f"file://{folder}")
            own.repository.initialize_sources(own.get_search_path())
        GlobalHydra.instance().hydra.config_loader = loader.composing_once(own, folder)  # type: ignore  # which initialize_config_dir has made

        def compose_one(overrides: Sequence[str]) -> Any:
            with warnings.catch_warnings():
                warnings.filterwarnings("error", message="provider=hydra.searchpath")
                try:
                    config = _with_launcher(hydra_compose, overrides)
                    own_choices.say_hidden(own_choices.found(config.hydra.runtime))
                    _check_parts(config.hydra)
                    return config
                except UserWarning as warning:
                    _, _, place = str(warning).removesuffix(" is not available.").rpartition("path=")
                    raise SettingError("hydra.searchpath", place, "is no folder of configurations") from None

        yield compose_one


def _check_parts(hydra: Any) -> None:
    """Raises SettingError if what runs a sweep was deleted, or is something else than a choice of its group."""
    from omegaconf import DictConfig, OmegaConf

    for part in ("launcher", "sweeper"):
        value = None if OmegaConf.is_missing(hydra, part) else hydra[part]
        if not (isinstance(value, DictConfig) and "_target_" in value and f"hydra/{part}" in hydra.runtime.choices):
            raise SettingError(f"hydra.{part}", value, f"must be chosen from its config group: hydra/{part}=basic")


def _with_launcher(hydra_compose: Any, overrides: Sequence[str]) -> Any:
    """Hydra's configuration. Where none is chosen, a yaml with settings of a launcher is for the one of sweeps."""
    from hydra.errors import HydraException

    try:
        return hydra_compose("config", list(overrides), return_hydra_config=True)
    except HydraException as error:
        chosen = any(text.startswith("hydra/launcher=") for text in overrides)
        if chosen or "full_key: hydra.launcher." not in str(error):
            raise
    return hydra_compose("config", [*overrides, f"hydra/launcher={LAUNCHER}"], return_hydra_config=True)


def _composed(compose_one: Compose, overrides: Sequence[str]) -> tuple[Any, dict[str, Any]]:
    """Hydra's configuration and the resolved settings in it. Raises SettingError, for all that Hydra refuses."""
    asked = [text for text in overrides if "=[" in text or loader.TUNING in text]
    SettingErrors.collect(functools.partial(parse, text) for text in asked)
    try:
        config = compose_one(overrides)
        return config, plain(config)
    except SettingError:  # our own word on a yaml
        raise
    except refusals() as error:  # of the first thing that Hydra does not like
        raise diagnose(compose_one, _validate, overrides, error) from None


def launcher(overrides: Sequence[str], config_dir: str | None) -> tuple[str | None, dict[str, str], Any]:
    """The launcher that a yaml chooses for its sweep, or has settings of; None if it leaves that open. Its settings by
    dotted name, and how many cells a job is to have (`hydra.sweeper.cells_per_job`)."""
    from omegaconf import OmegaConf

    with _hydra(config_dir) as compose_one:
        config = _of_sweep(compose_one, overrides)
        if config is None:
            return None, {}, None
        name = str(config.hydra.runtime.choices["hydra/launcher"])
        node = config.hydra.launcher
        own = {f"hydra.launcher.{key}": str(node[key]) for key in node if not OmegaConf.is_missing(node, key)}
        return None if name == "basic" else name, own, config.hydra.sweeper.get("cells_per_job")


def _of_sweep(compose_one: Compose, overrides: Sequence[str]) -> Any:
    """Hydra's configuration of a sweep's first job, without an experiment where these are swept; None if refused."""
    from hydra.core.global_hydra import GlobalHydra
    from hydra.core.override_parser.overrides_parser import OverridesParser

    SettingErrors.collect(functools.partial(parse, text, sweeps=True) for text in overrides)
    parsed = OverridesParser.create(GlobalHydra.instance().config_loader()).parse_overrides(list(overrides))
    first: list[str] = []  # a setting may be one of the swept choices alone
    for one in parsed:
        if one.is_sweep_override() and one.key_or_group == "experiment":
            continue
        value = next(iter(one.sweep_string_iterator()), None) if one.is_sweep_override() else None
        first.append(str(one.input_line) if value is None else f"{one.get_key_element()}={value}")
    try:
        return compose_one([text for text in first if not text.startswith("hydra.launcher.")])
    except refusals():  # so is the first job, and is told of there
        return None


def _swept(compose_one: Compose, overrides: Sequence[str]) -> dict[str, Any]:
    """What an experiment's yaml says under hydra.sweeper.params; nothing where experiments themselves are swept."""
    from omegaconf import OmegaConf

    config = _of_sweep(compose_one, overrides)
    params: Any = None if config is None else OmegaConf.select(config, "hydra.sweeper.params")
    if params is not None and not OmegaConf.is_dict(params):
        raise SettingError("hydra.sweeper.params", params, "must map settings to the values to sweep over")
    content: Any = {} if params is None else OmegaConf.to_container(params)
    return {str(key): value for key, value in content.items()}


def _sweep(overrides: Sequence[str]) -> list[list[str]]:
    """The overrides of each job of a multirun, in Hydra's order."""
    from hydra.core.global_hydra import GlobalHydra
    from hydra.core.override_parser.overrides_parser import OverridesParser

    with hydra_errors(overrides):
        parser = OverridesParser.create(GlobalHydra.instance().config_loader())
        parsed = parser.parse_overrides(list(overrides))
        _refuse_too_many(parsed)
        for one in parsed:
            if one.is_sweep_override() and not any(True for _ in one.sweep_string_iterator()):
                expected = "stands for no value: no choice fits, or the range is empty"
                raise SettingError(one.key_or_group, str(one.input_line).partition("=")[2], expected)
        choices: dict[str, list[str]] = {}  # of a setting that is given twice, the later one
        for one in parsed:
            key = one.get_key_element()
            values = one.sweep_string_iterator() if one.is_sweep_override() else [one.get_value_element_as_str()]
            choices[key] = [f"{key}={value}" for value in values]
    return [list(job) for job in itertools.product(*choices.values())]


def _refuse_too_many(parsed: Sequence[Any]) -> None:
    """Raise SettingError for a sweep of more cells than can be planned, counted without expanding it."""
    counts = {str(one.input_line): _number_of(one) for one in parsed if one.is_sweep_override()}
    if (number := math.prod(counts.values())) > MOST_CELLS:
        setting, _, value = max(counts, key=lambda text: counts[text]).partition("=")
        expected = f"makes {number:,} cells of this sweep, and at most {MOST_CELLS:,} are planned at once"
        raise SettingError(setting, value, f"{expected}: sweep over fewer values, or part after part")


def _number_of(override: Any) -> int:
    """How many values a swept override stands for."""
    from hydra.core.override_parser.types import RangeSweep

    value = override.value()
    if isinstance(value, RangeSweep):
        start, stop, step = (Decimal(str(number)) for number in (value.start, value.stop, value.step))
        return max(0, math.ceil((stop - start) / step)) if step else MOST_CELLS + 1
    return len(getattr(value, "list", ())) or 1
