"""Commands to be typed: from the settings of a run to the overrides that compose to the very same cell."""

import contextlib
import json
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from mqlearn.errors import SettingError
from mqlearn.experiments.settings import compose, earlier_versions, identity, own_choices, records, yamls
from mqlearn.experiments.settings.cell import rebuild
from mqlearn.experiments.settings.identity import canonical
from mqlearn.storage.record_schema import GROUPS

# Of conf/config.yaml:
_DEFAULTS = ("operator=bellman", "sampling=synchronous", "features=tabular", "evaluation=episodes")
# No number of a cell is theirs:
_ELSEWHERE = ("experiment", "tracking", "n_workers", "plugins", "figure", "tuning", "own_choices")
_WORD = re.compile(r"[A-Za-z_./][A-Za-z0-9_./@-]*")  # what Hydra's grammar takes as a text without quotes
_NOT_TEXTS = ("null", "true", "false", "nan", "inf", "yes", "no", "on", "off")


def command_of(settings: Mapping[str, Any], config_dir: str | None = None, more: Sequence[str] = ()) -> str:
    """`mqlearn run` with the overrides that make this run, to be typed; `more` are spelled out even if defaults."""
    overrides = overrides_of(settings, config_dir)
    return command("run", [*overrides, *(one for one in more if one not in overrides)], config_dir)


def command(verb: str, words: Sequence[str], config_dir: str | None = None) -> str:
    """A command line, quoted for the shell, with the folder of the user's own yamls."""
    folder = ["--config-dir", config_dir] if config_dir else []
    return shlex.join(["mqlearn", verb, *folder, *words])


def overrides_of(settings: Mapping[str, Any], config_dir: str | None = None) -> list[str]:
    """Overrides that compose to these settings: the choice of each group, and what differs from its defaults.

    The settings may be those of a record, which is data: modules that only it names are not imported for that.
    """
    settings = earlier_versions.complete(settings)
    choices = [f"{group}={_choice(group, settings[group], config_dir)}" for group in GROUPS]
    base = settings["step_size"].get("base")
    if isinstance(base, dict):
        choices.append(f"step_size@step_size.base={_choice('step_size', base, config_dir)}")
    own = _leaves(settings)
    choices += [f"{key}={written(own[key])}" for key in _required(choices, config_dir) if key in own]
    named = {key: settings[key] for key in ("plugins", "metrics") if settings.get(key)}
    default = compose.compose(choices, config_dir) | named
    choices += [f"{key}={written(value)}" for key, value in named.items()]
    composed = _leaves(default)
    with contextlib.suppress(SettingError):  # choices that do not go together without what is changed below
        default = rebuild(default | {"plugins": records.in_use(default)}, composed=True).settings
    default = _leaves(default)
    changed = [
        f"{'' if key in default else '++'}{key}={written(value)}"
        for key, value in own.items()
        if key not in default or text_of(default[key]) != text_of(value)
    ]
    # Of another object than the yaml's nothing of the yaml goes without saying.
    moved = tuple(f"{group}." for group in GROUPS if any(f"{group}._target_=" in text for text in changed))
    default |= {key: value for key, value in composed.items() if key.startswith(moved)}
    left = [f"~{key}" for key in default if not any(name == key or name.startswith(f"{key}.") for name in own)]
    return [choice for choice in choices if choice not in _DEFAULTS] + changed + left


def _leaves(settings: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in settings.items() if key not in (*_ELSEWHERE, "metrics")}
    return flat(kept)


def _required(choices: Sequence[str], config_dir: str | None) -> list[str]:
    """The settings that some choices leave open: they must be given, or nothing composes."""
    chosen = [text.split("=", 1) for text in choices if text.split("=")[0] in GROUPS]
    leaves = [flat(_read(group, choice, config_dir), f"{group}.") for group, choice in chosen]
    return [key for some in leaves for key, value in some.items() if value == "???"]


def _choice(group: str, node: Mapping[str, Any], config_dir: str | None) -> str:
    """The yaml of a group that a node was made from: of the same target, by its name, or else the most like it."""
    same, leaves = [], {key: text_of(value) for key, value in flat(dict(node)).items()}
    for name in own_choices.files(group, config_dir):
        yaml = _read(group, name, config_dir)
        if earlier_versions.public_name(str(yaml.get("_target_"))) == earlier_versions.public_name(
            str(node.get("_target_"))
        ):
            alike = sum(leaves.get(key) == text_of(value) for key, value in flat(yaml).items())
            same.append((name == node.get("name"), alike, name))
    if same:
        return max(same)[2]
    names = [*own_choices.files(group, config_dir)]  # of a record, a name may be anything
    return str(node["name"]) if node.get("name") in names else names[0]


def _read(group: str, name: str, config_dir: str | None) -> dict[str, Any]:
    path = own_choices.files(group, config_dir).get(name)
    return {} if path is None else yamls.read(group, path)


def written(value: Any) -> str:
    """A value in the grammar of overrides."""
    if isinstance(value, bool) or value is None:
        return "null" if value is None else str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{','.join(map(written, value))}]"
    if isinstance(value, Mapping):
        return f"{{{','.join(f'{key}:{written(entry)}' for key, entry in value.items())}}}"
    if not isinstance(value, str):
        return str(value)
    if _WORD.fullmatch(value) and value.lower() not in _NOT_TEXTS:
        return value
    return "'" + value.replace("'", "\\'") + "'"


# --- settings as texts --------------------------------------------------------------------------------------------


def flat(node: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Leaves of nested settings by their dotted names."""
    leaves: dict[str, Any] = {}
    for key, value in node.items():
        name = f"{above}{key}"
        leaves |= flat(value, f"{name}.") if isinstance(value, dict) else {name: value}
    return leaves


def varied(flats: Collection[Mapping[str, Any]]) -> list[str]:
    """The names that have more than one value in some `flat` settings, in order; one that is missing is None."""
    names = dict.fromkeys(name for one in flats for name in one)
    return [name for name in names if len({text_of(one.get(name)) for one in flats}) > 1]


def operator_name(settings: Mapping[str, Any]) -> str:
    """The name of the operator; empty for Bellman's."""
    if identity.resolved(settings).get("operator") is None:
        return ""
    node = settings["operator"]
    return str(node.get("name", node["_target_"]))


def operator_text(settings: Mapping[str, Any]) -> str:
    """The name of the operator and its settings, such as relaxed w=1.1; empty for Bellman's."""
    own = identity.resolved(settings).get("operator") or {}
    words = [f"{key}={written(value)}" for key, value in own.items() if key != "_target_" and value is not None]
    return " ".join([operator_name(settings), *words])


def text_of(value: Any) -> str:
    """A value as a text, equal for equal settings."""
    return json.dumps(canonical(value), sort_keys=True, default=str)
