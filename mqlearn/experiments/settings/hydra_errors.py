"""What Hydra refuses, as messages: which setting, its value, what is admissible; all that is wrong, at once."""

import contextlib
import difflib
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from mqlearn.errors import SettingError, SettingErrors, nearest
from mqlearn.experiments.settings import yamls
from mqlearn.experiments.settings.loader import TUNING

_NAMED = 6  # other choices that a hint names
_QUOTED = "\\=&;<>!^`#~"  # of ASCII, what Hydra takes within quotes alone
_SPELLINGS = (
    "quote what holds commas, blanks or brackets for the shell, for example 'env.map=[SFFF,FHFH,FFFH,HFFG]', "
    "'algorithm.m=2,5,10', \"experiment.name='two words'\""
)


def refusals() -> tuple[type[Exception], ...]:
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    return HydraException, OmegaConfBaseException, ValueError, TypeError  # env=[1,2] is a TypeError


@contextlib.contextmanager
def hydra_errors(overrides: Sequence[str] = ()) -> Iterator[None]:
    """Turn an exception of Hydra or OmegaConf into a SettingError."""
    try:
        yield
    except refusals()[:2] as error:
        key, refused = _translate(error, dict(map(_split, overrides)))
        raise refused or SettingError(key, "", "there is no such setting") from None


def diagnose(
    compose_one: Callable[[Sequence[str]], Any],
    validate: Callable[[Any], None],
    overrides: Sequence[str],
    error: Exception | None,
) -> SettingError:
    """Everything that is wrong with overrides that Hydra refuses: what it stops at is left out, and it goes on.

    compose_one: from overrides to Hydra's configuration; validate: raises SettingError for one that Hydra accepts.
    """
    errors: list[SettingError] = []
    unknown: list[str] = []
    left, given = [], dict(map(_split, overrides))
    for text in overrides:
        try:
            parse(text)
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
                validate(config)
                break
            except SettingError as more:
                errors.append(more)
                break
            except refusals() as refusal:
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
        named = [(key, key.rpartition("@")[2] or key) for key in unknown]  # group@setting, as Hydra writes it
        errors = [SettingError(name, given.get(key, ""), _no_such(name, config)) for key, name in named] + errors
    return SettingErrors.one_of(errors)


def parse(text: str, *, sweeps: bool = False) -> None:
    """Raise SettingError if a text is no override, or one of a kind that is not admissible whatever the settings."""
    from hydra.core.global_hydra import GlobalHydra
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    key, value = _split(text)
    if "=" not in text and not text.startswith("~"):
        raise SettingError("override", text, f"must be written NAME=VALUE; {_SPELLINGS}")
    if not key:
        raise SettingError("override", text, "has no name before the =")
    if key == TUNING:
        raise SettingError(key, value, "is what a yaml says to suites (mqlearn bench), and no setting of a run")
    try:
        parsed = OverridesParser.create().parse_override(text)
    except HydraException:
        strange = "".join(dict.fromkeys(c for c in value if c in _QUOTED or not c.isascii()))
        example = "each text in it" if value[:1] in ("[", "{") else f"\"{key}='{value}'\""
        why = f"{strange} must stand in quotes: {example}" if strange else _SPELLINGS
        raise SettingError(key, value, f"cannot be read; {why}") from None
    if parsed.is_sweep_override() and not sweeps:
        several = f"-m (mqlearn run) makes one job of each; a list is written {key}=[...]"
        raise SettingError(key, value, f"stands for several values: {several}")
    if sweeps and parsed.is_interval_sweep():
        raise SettingError(key, value, "is for a search by Optuna; a sweep takes choice(...), range(...) or values")
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
    first = first.partition(", set env var")[0]
    missing, options = getattr(error, "missing_cfg_file", None), getattr(error, "options", None)
    if missing:
        group, _, value = missing.rpartition("/")
        if not options:
            return group or missing, None
        return group, SettingError(group, value, f"must be one of {', '.join(options)}{nearest(value, options)}")
    if of_yaml := re.search(r"In '(.+?)': \w+ raised while composing config:\n(.*)\n\s+full_key: (\S+)", text):
        group, _, name = of_yaml[1].rpartition("/")
        return group, SettingError(group, name, f"its yaml sets {of_yaml[3]}: {of_yaml[2]}")
    full_key = next(filter(None, (getattr(part, "full_key", None) for part in chain)), None)
    for pattern, admissible in (
        (r"Could not override '([^']+)", None),
        (r"Key '([^']+)' is not in struct", None),
        (r"Could not delete.*The value of '([^']+)' is", "cannot be left out: it has another value; set it, without ~"),
        (r"Could not delete.*?'([^'=]+)=", "cannot be left out: it has another value; set it, without ~"),
        (r"Could not delete.*?'([^'=]+)", None),
        (r"(hydra\.searchpath) must be a list", "must be a list: hydra.searchpath=[file:///my/folder]"),
        (r"config group '([^']+)' does not exist", None),
        (r"An item is already at '([^']+)'", "exists already: leave out the +"),
        (r"Multiple values for (\S+?)(?:@\S+)?\. ", "is chosen more than once: choose one, without a +"),
        (r"Missing mandatory value: (\S+)", "must be given"),
        (r"Interpolation key '([^']+)' not found", "refers to a setting that does not exist"),
    ):
        if found := re.search(pattern, text):
            key = str(full_key or found[1])
            value = given.get(key, "" if admissible == "must be given" else "${" + found[1] + "}")
            if admissible == "must be given":
                admissible = ("??? is Hydra's word for a missing value: " if "???" in value else "") + admissible
                admissible += _explained(key, given)
            return key, None if admissible is None else SettingError(key, value, admissible)
    if "recursion depth" in text:
        key, value = next(((k, v) for k, v in given.items() if "${" in v), (str(full_key), ""))
        return key, SettingError(key, value, "refers to itself")
    if wrong := re.search(r"Value '.*' of type '\w+' could not be converted to (Integer|Float|Boolean)", text):
        kind = {"Integer": "a whole number", "Float": "a number", "Boolean": "true or false"}[wrong[1]]
        return str(full_key), SettingError(str(full_key), given.get(str(full_key), ""), f"must be {kind}")
    for key, value in given.items():
        if key == full_key or f"{key}=" in text or f"'{key}'" in text:
            return key, SettingError(key, value, str(chain[-1]).splitlines()[0])
    if full_key:
        return str(full_key), SettingError(str(full_key), given.get(str(full_key), ""), first)
    for key, value in given.items():
        if len(value) > 3 and value in text:
            return key, SettingError(key, value, first)
    all_of_them = " ".join(f"{key}={value}" for key, value in given.items())
    return "overrides", SettingError("overrides", all_of_them, first)


def _explained(key: str, given: dict[str, str]) -> str:
    """What a yaml says first of the choice that a setting belongs to."""
    group = key.partition(".")[0]
    name = f"{group}/{given.get(group, '')}.yaml"
    path = next((path for folder in _folders() if (path := folder / name).is_file()), None)
    lines = path.read_text("utf-8").splitlines() if path else []
    first = next((line for line in lines if not line.startswith("# @")), "")  # that is Hydra's own
    return f". {first[2:]}" if first.startswith("# ") else ""


def _folders() -> list[Path]:
    """Where choices of groups lie, the user's own first."""
    from hydra.core.global_hydra import GlobalHydra

    sources = GlobalHydra.instance().config_loader().get_sources()
    return [Path(one.path) for one in sources if one.scheme() == "file"]


def _no_such(key: str, config: Any) -> str:
    """That a configuration has no setting `key`, and which it has that is like it."""
    from omegaconf import OmegaConf

    names = _names(OmegaConf.to_container(config, resolve=False), hydra=key.startswith("hydra"))
    group, _, rest = key.rpartition(".")
    if rest and not group.startswith("hydra") and OmegaConf.is_dict(config.get(group)):
        own = [name for name in names if name.startswith(f"{group}.") and not name.startswith(TUNING)]
        choice = config[group].get("name") if group != "experiment" else None  # whose name is a setting
        if choice is not None:
            own.remove(f"{group}.name")
        of = group if choice is None else f"{group}={choice}"
        listed = f"its settings are {', '.join(own)}" if own else "it has none of its own"
        return f"is no setting of {of}; {listed}{_elsewhere(group, rest, str(choice)) or nearest(key, own)}"
    if key in _WAYS:
        return f"there is no such setting: {_WAYS[key]}"
    ends = [name for name in names if name.endswith(f".{key}")]
    return "there is no such setting" + (
        f" (did you mean '{ends[0]}'?)" if ends else _elsewhere(group or "*", rest) or nearest(key, names)
    )


# What stands for settings that other toolboxes have.
_WAYS = {
    "horizon": "values over about H steps have discount=1 - 1/H, episodes of at most H moves sampling.time_limit=H",
    "gamma": "the discount is discount=0.9",
}


def _elsewhere(group: str, name: str, chosen: str = "") -> str:
    """Which choices of a group have a setting of this name, as a hint: first the one most like the chosen."""
    has = [
        path
        for path in sorted(path for folder in _folders() for path in yamls.shown(folder, f"{group}/*.yaml"))
        if path.parent.name != "experiment" and re.search(rf"^(  )?{re.escape(name)}:", path.read_text("utf-8"), re.M)
    ]
    if not has:
        return ""
    path = max(has, key=lambda one: difflib.SequenceMatcher(None, one.stem, chosen).ratio())
    others = [one.stem for one in has if one.parent == path.parent and one != path]
    named = ", ".join([path.stem, *others[:_NAMED]]) + ", ..." * (len(others) > _NAMED)
    return f" ({path.parent.name}.{name} is a setting of {path.parent.name}={named})"


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
