"""The settings of a record are data: what must hold of them before anything is built from them.

A record may come from anybody. So that building its model calls nothing but what our own table names, reads no file
and imports no module: an environment by id is one of Gymnasium's own, a path is not followed, and a function is one
that a module which the user has named defines itself.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mqlearn.errors import SettingError
from mqlearn.experiments.settings import plugins as user_modules

_READING = ("env", "sampling")  # groups whose settings may name a file
_GROUPS = tuple(f"{group}." for group in _READING)
_FREE = ("experiment", "name", "tracking", "plugins", "metrics")  # texts that nothing is built from


def check(settings: Mapping[str, Any], *, pinned: bool = False) -> None:
    """Raise SettingError for settings of a record that cannot be built without following what they name.

    pinned: a file may be read whose content the record pins by a digest (`env.content`, `sampling.content`).
    """
    read = [group for group in _READING if pinned and (settings.get(group) or {}).get("content")]
    modules = user_modules.known(settings.get("plugins") or [])
    for name, value in _texts("", {key: value for key, value in settings.items() if key not in _FREE}):
        if name.endswith("._target_") or value.rpartition(".")[0] in modules:
            _check_definition(name, value, modules)
        elif name == "env.id":
            _check_id(value)
        elif name.startswith(_GROUPS) and name not in [f"{group}.path" for group in read] and _is_path(value):
            raise SettingError(name, value, "names a file, and what a record names is not read")
    for name, value in (settings.get("metrics") or {}).items():
        _check_definition(f"metrics.{name}", str(value), modules)


def in_use(settings: Mapping[str, Any], groups: Sequence[str] | None = None) -> list[str]:
    """Of the user's modules that settings list, those that are named by them, or by some groups of them.

    No other has a part in a number. An environment by an id that is none of Gymnasium's own may be registered by any.
    """
    modules = settings.get("plugins") or []
    if not modules:
        return []
    content = {key: value for key, value in settings.items() if (key in groups if groups else key not in _FREE)}
    texts = [*_texts("", content)]
    if groups is None:
        texts += [("metrics", str(path)) for path in (settings.get("metrics") or {}).values()]
    if any(name == "env.id" and not _is_gymnasiums(text) for name, text in texts):
        return list(modules)
    named = [text.rpartition(".")[0] for _, text in texts]
    return [module for module in modules if any(user_modules.is_own(name, [module]) for name in named)]


def _texts(above: str, value: Any) -> Iterator[tuple[str, str]]:
    """The texts within settings by their dotted names, labels left out."""
    if isinstance(value, Mapping):
        for key, entry in value.items():
            if key != "name":
                yield from _texts(f"{above}.{key}" if above else str(key), entry)
    elif isinstance(value, list):
        for entry in value:
            yield from _texts(above, entry)
    elif isinstance(value, str):
        yield above, value


def _check_definition(setting: str, path: str, modules: Mapping[str, Any]) -> None:
    """A function of a module of the user's must be defined there, or beside it: `from os import system` is not."""
    module, _, name = path.rpartition(".")
    if module not in modules:
        return
    defined = str(getattr(getattr(modules[module], name, None), "__module__", ""))
    own = {modules[module].__name__.partition(".")[0], "mqlearn"}
    if defined.partition(".")[0] not in own and not user_modules.is_beside(defined):
        raise SettingError(setting, path, f"is not defined by the module {module}")


def _is_gymnasiums(id: str) -> bool:
    import gymnasium

    spec = gymnasium.registry.get(id)
    return spec is not None and str(spec.entry_point).startswith("gymnasium.envs.")


def _check_id(id: str) -> None:
    if not _is_gymnasiums(id):
        raise SettingError(
            "env.id", id, "is no environment of Gymnasium's own, and what a record names is not imported"
        )


def _is_path(text: str) -> bool:
    return (
        bool({"/", "\\"} & {*text}) or text.startswith("~") or text.lower().endswith((".txt", ".npz", ".json", ".csv"))
    )
