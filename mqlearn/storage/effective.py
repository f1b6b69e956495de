"""The settings of a run as they took effect: with the values that null and auto stood for, by its summary."""

import copy
from collections.abc import Mapping
from typing import Any

from mqlearn.storage.runs import Run

OPEN = (None, "auto")


def effective_settings(run: Run) -> dict[str, Any]:
    """The settings of a run; what stood for something else has its value, if the record has it (`effective`)."""
    told = run.summary.get("effective")
    return filled(run.settings, told if isinstance(told, Mapping) else {})


def filled(settings: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with values, by dotted name, in the place of what is null or auto; no other is changed."""
    result = copy.deepcopy(dict(settings))
    for name, value in values.items():
        group, _, key = str(name).partition(".")
        node = result.get(group)
        if key and isinstance(node, dict) and node.get(key) in OPEN:
            node[key] = value
    return result
