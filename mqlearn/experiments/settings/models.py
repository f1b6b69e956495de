"""The model or simulator of a cell: equal ones are made once, and with them what was solved for them."""

import functools
import json
import weakref
from collections.abc import Mapping
from typing import Any

from mqlearn.experiments.settings import instantiate, targets
from mqlearn.experiments.settings import plugins as user_modules

# Cells on equal models share one, and with it what was solved for it.
_models: weakref.WeakValueDictionary[tuple, Any] = weakref.WeakValueDictionary()


def build_environment(settings: Mapping[str, Any]) -> Any:
    """The model or simulator that resolved settings describe, whatever else they say. Raises SettingError."""
    from mqlearn.problems.mdp import check_discount

    plugins = user_modules.load(settings.get("plugins", []))
    return environment(settings.get("env"), plugins, check_discount(settings.get("discount")))


def environment(node: Any, plugins: Mapping[str, Any], discount: float) -> Any:
    """The model or simulator of the group `env`; the node is changed to what it stands for. Raises SettingError."""
    if not _is_pure(node):
        return _made(node, plugins, discount)
    made, written = _made_before(json.dumps(node, sort_keys=True), discount)
    node.clear()
    node.update(json.loads(written))
    return made


def _is_pure(node: Any) -> bool:
    """Whether nothing but the settings decides what model this is: no file, no module of others."""
    place = targets.location("env", str(node.get("_target_"))) if isinstance(node, dict) else None
    of_file = place is not None and any(str(node.get(key)).lower().endswith(".txt") for key in ("map", "base"))
    lake = (place or "").startswith("mqlearn.problems.environments.frozen_lake.")
    return (place or "").startswith("mqlearn.problems.classic.") or (lake and not of_file)


@functools.lru_cache(maxsize=2)  # the cells of a sweep follow each other by problem; models can be large
def _made_before(text: str, discount: float) -> tuple[Any, str]:
    """A model and its node as it is written then, by the JSON of the node."""
    node = json.loads(text)
    return _made(node, {}, discount), json.dumps(node)


def _made(node: Any, plugins: Mapping[str, Any], discount: float) -> Any:
    made = instantiate.make("env", node, plugins, {"discount": discount})
    made = made if made.discount == discount else made.with_discount(discount)
    return _models.setdefault((made.name, made.digest(), getattr(made, "notes", ())), made)
