"""The choice `step_size=own`: the step size of an algorithm's source, as the settings that it stands for."""

import dataclasses
import re
from typing import Any

from mqlearn.algorithms import Rule, Stateful
from mqlearn.algorithms.step_sizes import own_of
from mqlearn.errors import SettingError, nearest
from mqlearn.experiments.settings import instantiate, targets
from mqlearn.experiments.settings import plugins as user_modules

NAME = "own"


def asked(node: Any) -> bool:
    """Whether a node of settings is that of `step_size=own`."""
    return isinstance(node, dict) and "_target_" not in node and node.get("name") == NAME


def settled(settings: dict[str, Any]) -> dict[str, Any]:
    """Composed settings with what `step_size=own` and `sampling.clock=auto` stand for.

    Raises SettingError if the rule cannot be made.
    """
    from mqlearn.learners import usual_clock

    own, sampling = asked(settings.get("step_size")), settings["sampling"]
    if not own and sampling.get("clock") != "auto":
        return settings
    rule = instantiate.make("algorithm", settings["algorithm"], user_modules.load(settings.get("plugins") or []))
    if own:
        settings = {**settings, "step_size": resolved(settings["step_size"], rule, settings["discount"])}
    if sampling.get("clock") == "auto":
        tabular = settings["features"]["_target_"].rpartition(".")[2] == "tabular"
        clock = usual_clock(rule, tabular, sampling.get("update", "pair"))
        settings = {**settings, "sampling": {**sampling, "clock": clock}}
    return settings


def resolved(node: dict[str, Any], rule: Rule | Stateful, discount: float) -> dict[str, Any]:
    """The node of the rule's own step size, with the entries that the node of `step_size=own` gives.

    Raises SettingError for an entry that is no setting of it, and for a step size that no settings describe.
    """
    own = described(own_of(rule, discount), type(rule).__name__)
    given = {key: value for key, value in node.items() if key != "name" and value is not None}
    for key, value in given.items():
        if key not in own:
            known = [name for name in own if name not in ("_target_", "name")]
            expected = f"is no setting of step_size={own['name']}, the own step size of {type(rule).__name__}"
            listed = f"; its settings are {', '.join(known)}" if known else "; it has none"
            raise SettingError(f"step_size.{key}", value, expected + listed + nearest(key, known))
    return own | given


def described(step_size: Any, rule: str) -> dict[str, Any]:
    """The node of a step size; of ours as conf/step_size has it. Raises SettingError if it is no dataclass."""
    kind = type(step_size)
    if not dataclasses.is_dataclass(kind):
        expected = f"must be chosen: settings cannot describe the {kind.__name__} that {rule} has of its own"
        raise SettingError("step_size", NAME, expected)
    ours = targets.location("step_size", f"{kind.__module__}.{kind.__name__}") is not None
    fields = {field.name: getattr(step_size, field.name) for field in dataclasses.fields(kind)}
    return {
        "_target_": f"{'mqlearn' if ours else kind.__module__}.{kind.__name__}",
        "name": label(kind.__name__),
        **{key: described(value, rule) if callable(value) else _plain(value) for key, value in fields.items()},
    }


def label(name: str) -> str:
    """The name of a class as a choice of a group has it: RescaledLinear is rescaled_linear."""
    return re.sub("(?<=[a-z])(?=[A-Z])", "_", name).lower()


def _plain(value: Any) -> Any:
    """Whole numbers as such, as yaml files write them."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
