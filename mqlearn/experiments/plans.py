"""The cells of an experiment yaml: its overrides, times a grid of panels, times labelled curves."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mqlearn.errors import SettingError, nearest
from mqlearn.experiments.settings import compose, old_names
from mqlearn.experiments.settings.cell import Cell, build
from mqlearn.paths import CONF

# Folders of choices; claims are read by `mqlearn claims` alone.
GROUPS = tuple(sorted(path.name for path in CONF.iterdir() if path.is_dir() and path.name not in ("claim", "hydra")))
# Overrides of these never change a number, so they do not make a variant of a figure.
_UNSCIENTIFIC = ("n_workers", "tracking", "experiment", "hydra", "plugins", "existing")


@dataclass(frozen=True)
class Planned:
    """One cell of a figure: where it is shown, and under which label."""

    panel: str
    label: str
    cell: Cell


@dataclass(frozen=True)
class Plan:
    """An experiment yaml, composed. settings: without a panel or a curve; spec: its `figure` node."""

    name: str
    settings: dict[str, Any]
    spec: dict[str, Any]
    cells: tuple[Planned, ...]
    variant: tuple[str, ...]

    @property
    def stem(self) -> str:
        """File name of the figure: the plain name is the default settings only."""
        words = "_".join([self.name, *self.variant])
        return "".join(c if c.isalnum() or c in "=.,+-_" else "-" for c in words)


def plan(name: str, overrides: Sequence[str], config_dir: str | None = None) -> Plan:
    """Compose conf/experiment/NAME.yaml and all its cells; they are validated. Raises SettingError."""
    folders = [CONF / "experiment", *([Path(config_dir) / "experiment"] if config_dir else [])]
    known = sorted(path.stem for folder in folders for path in folder.glob("*.yaml"))
    if name not in known:
        raise SettingError("experiment", name, f"must be one of {', '.join(known)}{nearest(name, known)}")
    base = [f"experiment={name}", *overrides]
    settings = compose.compose(base, config_dir)
    spec = settings.get("figure") or {}
    if not spec.get("curves"):
        raise SettingError("figure", name, "its yaml has no figure.curves, so there is nothing to draw")
    if "module" in spec:
        spec["module"] = old_names.present(str(spec["module"]))
    for text in overrides:
        _check_effect(text, spec)
    planned = composed({(panel, label): one for panel, label, one in expand(spec, base)}, config_dir)
    variant = tuple(o for o in overrides if re.split(r"[=./]", o.lstrip("+~"))[0] not in _UNSCIENTIFIC)
    return Plan(name, settings, spec, planned, variant)


def _check_effect(override: str, spec: dict[str, Any]) -> None:
    """Raise SettingError for an override that every cell replaces: the figure's name would tell of it, wrongly."""
    key, _, value = override.lstrip("+~").partition("=")
    names = {key, key.partition(".")[0]} & {key, *GROUPS}
    if all(any(one.partition("=")[0] in names for one in cell) for _, _, cell in expand(spec, [])):
        raise SettingError(key, value, "has no effect here: each panel or curve of the figure sets it itself")


def expand(spec: dict[str, Any], base: Sequence[str]) -> list[tuple[str, str, list[str]]]:
    """(panel, label, overrides) of each cell of an experiment yaml's `figure` node; `base` leads to the yaml."""
    grid, curves = spec.get("grid") or {"": []}, spec["curves"]
    places = [(panel, label) for panel in grid for label in curves]
    # A curve is a list of overrides, or such a list for each panel.
    of = {(p, c): curves[c][p] if isinstance(curves[c], dict) else curves[c] for p, c in places}
    return [(p, c, _last_choices([*base, *grid[p], *of[p, c]])) for p, c in places]


def composed(lists: Mapping[tuple[str, str], Sequence[str]], config_dir: str | None = None) -> tuple[Planned, ...]:
    """The cells of lists of overrides by panel and label, validated. Raises SettingError."""
    settings = compose.compose_all([_last_choices([*one]) for one in lists.values()], config_dir)
    return tuple(Planned(*place, build(one)) for place, one in zip(lists, settings, strict=True))


def _last_choices(overrides: list[str]) -> list[str]:
    """Without the choices of a group that a later one replaces, and the settings that went with them.

    A curve may replace the step size of its panel; what the panel says of the settings of the old one then has no
    meaning.
    """
    chosen = {o.split("=")[0]: i for i, o in enumerate(overrides) if o.split("=")[0] in GROUPS}
    return [o for i, o in enumerate(overrides) if i >= chosen.get(o.split("=")[0].split(".")[0], -1)]
