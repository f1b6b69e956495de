"""Cells that are to be run: those of an experiment yaml are its overrides, times a grid of panels, times curves."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from mqlearn.errors import SettingError, nearest
from mqlearn.experiments import execute
from mqlearn.experiments.settings import compose, earlier_versions, own_choices
from mqlearn.experiments.settings.cell import Cell, build
from mqlearn.paths import config_groups

GROUPS = tuple(config_groups())
# Overrides of these never change a number, so they do not make a variant of a figure.
_UNSCIENTIFIC = ("n_workers", "tracking", "experiment", "hydra", "plugins", "existing")

# What a yaml may say of its figure; the modules that draw them say what it means.
FIGURE_KEYS = (
    "module", "band", "metric", "metric_of", "axis", "scales", "width", "lines", "guides", "grid", "curves", "short",
    "notes", "over", "x", "count", "measure", "at", "epsilon", "relative", "facet",
)  # fmt: skip
# What to do with cells that are finished.
EXISTING = ("skip", "rerun", "error")


@dataclass(frozen=True)
class PlannedCell:
    """A cell of a figure, a claim or a sweep that has been validated, known by its digest; it holds no arrays.

    panel, label: where it stands among the others (in a sweep: its problem, and what was swept).   settings: resolved,
    with the files of the user's that they came from.
    seconds: about how long it learns on one core.   A sweep has a number for it, its overrides, a folder `subfolder`
    below Hydra's folder `root`, and about how many bytes its run takes.
    """

    panel: str
    label: str
    settings: dict[str, Any]
    digest: str
    name: str
    seconds: float
    number: int = 0
    overrides: tuple[str, ...] = ()
    root: str = ""
    subfolder: str = ""
    bytes: int = 0

    @classmethod
    def of(cls, cell: Cell, panel: str, label: str, **more: Any) -> "PlannedCell":
        settings = cell.settings | ({own_choices.KEY: cell.own_choices} if cell.own_choices else {})
        return cls(panel, label, settings, cell.digest, cell.name, execute.estimated_seconds(cell), **more)

    @cached_property
    def cell(self) -> Cell:
        """The cell itself, built when it is first asked for."""
        return build(self.settings)

    @cached_property
    def track(self) -> "execute.Tracker":
        """Where its run is tracked."""
        return execute.tracker(self.settings)

    @property
    def uri(self) -> str | None:
        """Address of the store that its run goes to, None for none."""
        return self.track.uri

    @property
    def experiment(self) -> str:
        return self.settings["experiment"]["name"]

    @property
    def n_seeds(self) -> int:
        return self.settings["n_seeds"]

    @property
    def folder(self) -> Path:
        """Where a sweep writes its run."""
        return Path(self.root) / self.subfolder

    def record(self) -> dict[str, Any]:
        """What is written down of it in a sweep's plan."""
        return {
            "number": self.number,
            "digest": self.digest,
            "name": self.name,
            "overrides": list(self.overrides),
            "experiment": self.experiment,
            "cell": self.label,
            "group": self.panel,
            "subfolder": self.subfolder,
            "settings": self.settings,
            "n_seeds": self.n_seeds,
        }


@dataclass(frozen=True)
class Plan:
    """An experiment yaml, composed. settings: without a panel or a curve; spec: its `figure` node."""

    name: str
    settings: dict[str, Any]
    spec: dict[str, Any]
    cells: tuple[PlannedCell, ...]
    variant: tuple[str, ...]

    @property
    def stem(self) -> str:
        """File name of the figure: the plain name is the default settings only."""
        words = "_".join([self.name, *self.variant])
        return "".join(c if c.isalnum() or c in "=.,+-_" else "-" for c in words)


def plan(name: str, overrides: Sequence[str], config_dir: str | None = None) -> Plan:
    """Compose conf/experiment/NAME.yaml and all its cells; they are validated. Raises SettingError."""
    own_choices.file_of("experiment", name, config_dir)
    base = [f"experiment={name}", *overrides]
    settings = compose.compose(base, config_dir)
    spec = settings.get("figure") or {}
    if not spec.get("curves"):
        raise SettingError("figure", name, "its yaml has no figure.curves, so there is nothing to draw")
    if "module" in spec:
        spec["module"] = earlier_versions.present(str(spec["module"]))
    _check_keys(spec)
    for text in overrides:
        _check_effect(text, spec)
    planned = composed({(panel, label): one for panel, label, one in expand(spec, base)}, config_dir)
    variant = tuple(o for o in overrides if re.split(r"[=./]", o.lstrip("+~"))[0] not in _UNSCIENTIFIC)
    return Plan(name, settings, spec, planned, variant)


def _check_keys(spec: Mapping[str, Any]) -> None:
    """Raise SettingError for a key of a figure that none of ours reads; a module of the user's may read any."""
    ours = str(spec.get("module", "")).startswith("mqlearn.")
    for key in spec if ours else ():
        if key not in FIGURE_KEYS:
            expected = f"is no setting of a figure; they are {', '.join(FIGURE_KEYS)}{nearest(str(key), FIGURE_KEYS)}"
            raise SettingError(f"figure.{key}", spec[key], expected)


def _check_effect(override: str, spec: dict[str, Any]) -> None:
    """Raise SettingError for an override that every cell replaces: the figure's name would tell of it, wrongly."""
    key, _, value = override.lstrip("+~").partition("=")
    names = {key, key.partition(".")[0]} & {key, *GROUPS}
    if all(any(one.partition("=")[0] in names for one in cell) for _, _, cell in expand(spec, [])):
        raise SettingError(key, value, "has no effect here: each panel or curve of the figure sets it itself")


def expand(spec: dict[str, Any], base: Sequence[str]) -> list[tuple[str, str, list[str]]]:
    """(panel, label, overrides) of each cell of an experiment yaml's `figure` node; `base` leads to the yaml."""
    grid, curves = spec.get("grid") or {"": []}, spec["curves"]
    # A curve is a list of overrides, or such a list for each panel that it stands in.
    own = {label: list(one) if isinstance(one, dict) else list(grid) for label, one in curves.items()}
    for label, panels in own.items():
        if unknown := [panel for panel in panels if panel not in grid]:
            expected = f"{label}: must be one of the panels, {', '.join(grid)}{nearest(str(unknown[0]), list(grid))}"
            raise SettingError("figure.curves", unknown[0], expected)
    places = [(panel, label) for panel in grid for label in curves if panel in own[label]]
    of = {(p, c): curves[c][p] if isinstance(curves[c], dict) else curves[c] for p, c in places}
    return [(p, c, _last_choices([*base, *grid[p], *of[p, c]])) for p, c in places]


def composed(lists: Mapping[tuple[str, str], Sequence[str]], config_dir: str | None = None) -> tuple[PlannedCell, ...]:
    """The cells of lists of overrides by panel and label, validated. Raises SettingError."""
    settings = compose.compose_all([_last_choices([*one]) for one in lists.values()], config_dir)
    return tuple(PlannedCell.of(build(one), *place) for place, one in zip(lists, settings, strict=True))


def refuse_finished(finished: int, asked: int) -> None:
    """Raise SettingError, for existing=error, if cells are finished."""
    if finished:
        count = f"{finished} of {asked} cells are finished already"
        raise SettingError("existing", "error", f"{count}; existing=skip runs the others, existing=rerun all")


def _last_choices(overrides: list[str]) -> list[str]:
    """Without the choices of a group that a later one replaces, and the settings that went with them.

    A curve may replace the step size of its panel; what the panel says of the settings of the old one then has no
    meaning.
    """
    chosen = {o.split("=")[0]: i for i, o in enumerate(overrides) if o.split("=")[0] in GROUPS}
    return [o for i, o in enumerate(overrides) if i >= chosen.get(o.split("=")[0].split(".")[0], -1)]
