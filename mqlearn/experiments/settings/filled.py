"""Cells of a sweep that differ in plain values alone: Hydra composes the first, and the others are filled in.

Hydra needs 10 ms for each list of overrides; a value that nothing else refers to changes nothing but itself.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mqlearn.paths import config_groups

_WHOLE = r"-?(?:0|[1-9]\d*)"
_OVERRIDE = re.compile(
    rf"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)=(?:({_WHOLE})|({_WHOLE}\.\d+(?:e-?\d+)?|{_WHOLE}e-?\d+)|(true|false))"
)
_REFERENCE = re.compile(r"\$\{([A-Za-z_][\w.]*)\}")
_PLACE = ("${mqlearn_runs:}", "${mqlearn_subfolder:}")  # of a sweep and its cells, where the user names no other

Shape = tuple[str, ...]
Values = dict[str, Any]


def split(overrides: Sequence[str]) -> tuple[Shape, Values]:
    """Overrides without their plain values, which is all that Hydra needs to know, and these values by key."""
    groups, shape, values = {*config_groups(), "hydra"}, [], {}
    times = Counter(text.partition("=")[0].lstrip("+~") for text in overrides)
    for text in overrides:
        found = _OVERRIDE.fullmatch(text)
        key = found and found[1]
        if found is None or key is None or times[key] > 1 or key in groups or key.startswith("hydra."):
            shape.append(text)
            continue
        whole, real, truth = found.groups()[1:]
        values[key] = int(whole) if whole else float(real) if real else truth == "true"
        shape.append(f"{key}=")
    return tuple(shape), values


@dataclass(frozen=True)
class Template:
    """What Hydra composed of one list of overrides, for others of its shape.   settings: as plain data."""

    settings: Mapping[str, Any]

    @classmethod
    def of(cls, config: Any, settings: Mapping[str, Any], values: Values) -> "Template | None":
        """The template, if all cells of this shape differ in these values alone; else None."""
        from omegaconf import OmegaConf

        sweep = OmegaConf.to_container(config.hydra.sweep, resolve=False)
        if not isinstance(sweep, dict) or (sweep["dir"], sweep["subdir"]) != _PLACE:
            return None
        for key in config:
            node = config._get_node(key)
            raw = OmegaConf.to_container(node, resolve=False) if OmegaConf.is_config(node) else node._value()
            if key != "hydra" and not all(_apart(text, values) for text in _references(raw)):
                return None
        same = all(type(found := _select(settings, key)) is type(one) and found == one for key, one in values.items())
        return cls(settings) if same else None

    def filled(self, values: Values) -> dict[str, Any]:
        """The settings with other values; what is not on the way to one of them is shared."""
        settings = dict(self.settings)
        for key, value in values.items():
            *above, last = key.split(".")
            node = settings
            for name in above:
                node[name] = dict(node[name])
                node = node[name]
            node[last] = value
        return settings


def _references(value: Any) -> list[str]:
    """All texts of a configuration that refer to something."""
    if isinstance(value, dict):
        return [text for entry in value.values() for text in _references(entry)]
    if isinstance(value, list):
        return [text for entry in value for text in _references(entry)]
    return [value] if isinstance(value, str) and "${" in value else []


def _apart(reference: str, values: Values) -> bool:
    """Whether a text refers to one setting alone, and to none of those that have these values."""
    found = _REFERENCE.fullmatch(reference)
    if found is None or found[1].partition(".")[0] == "hydra":  # which tells of all overrides
        return False
    name = f"{found[1]}."
    return not any(name.startswith(f"{key}.") or f"{key}.".startswith(name) for key in values)


def _select(settings: Mapping[str, Any], key: str) -> Any:
    node: Any = settings
    for name in key.split("."):
        if not isinstance(node, Mapping) or name not in node:
            return None
        node = node[name]
    return node
