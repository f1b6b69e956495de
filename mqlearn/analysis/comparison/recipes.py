"""The command that makes a run, from its settings."""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from mqlearn.analysis.comparison.selection import flat, text_of
from mqlearn.errors import SettingError
from mqlearn.experiments.settings import compose
from mqlearn.experiments.settings.cell import rebuild

_GROUPS = ("env", "algorithm", "step_size", "sampling", "features", "evaluation")
_DEFAULTS = ("sampling=synchronous", "features=tabular", "evaluation=episodes")  # of conf/config.yaml
_HIDDEN = ("experiment", "tracking", "n_workers")


def overrides_of(settings: Mapping[str, Any], config_dir: str | None = None) -> list[str]:
    """Overrides that compose to these settings: the choice of each group, and what differs from its defaults."""
    # a name may be anything in a record: one of a yaml is a word
    named = [group for group in _GROUPS if re.fullmatch(r"[\w-]+", str(settings[group].get("name") or ""))]
    choices = [f"{group}={settings[group]['name']}" for group in named]
    base = settings["step_size"].get("base")
    if isinstance(base, dict) and "name" in base:
        choices.append(f"step_size@step_size.base={base['name']}")
    own = {key: value for key, value in flat(dict(settings)).items() if key.split(".")[0] not in (*_HIDDEN, "plugins")}
    try:
        # Without the modules that a record names, which are not imported for that.
        default = compose.compose(choices, config_dir) | {"plugins": settings.get("plugins") or []}
        default = flat(rebuild(default).settings)
    except SettingError:  # a group with a setting that must be given
        default = {}
    hidden = ("_target_", "name")
    changed = [
        f"{key}={written(value)}"
        for key, value in own.items()
        if key.split(".")[-1] not in hidden and (key not in default or text_of(default[key]) != text_of(value))
    ]
    if settings.get("plugins"):
        choices.append(f"plugins={written(settings['plugins'])}")
    return [choice for choice in choices if choice not in _DEFAULTS] + changed


def command_of(settings: Mapping[str, Any], config_dir: str | None = None, more: Sequence[str] = ()) -> str:
    """`mqlearn run` with the overrides that make this run, to be typed; `more` are spelled out even if defaults."""
    folder = ["--config-dir", config_dir] if config_dir else []
    overrides = overrides_of(settings, config_dir)
    return shlex.join(["mqlearn", "run", *folder, *overrides, *(one for one in more if one not in overrides)])


def written(value: Any) -> str:
    """A value in the grammar of overrides."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{','.join(map(written, value))}]"
    return "null" if value is None else str(value)
