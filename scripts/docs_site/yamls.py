"""The yamls of conf/ with their comments, which no YAML reader keeps."""

import re
from typing import Any, NamedTuple

import yaml

from mqlearn.paths import CONF

_LINE = re.compile(r"^([\w.]+): *(.*?)(?:\s+# *(.*))?$")


class Described(NamedTuple):
    """A yaml of a group.

    about: the comment at its top.   settings: (name, default, comment) of each.   content: as YAML reads it.
    """

    group: str
    name: str
    about: str
    settings: list[tuple[str, str, str]]
    content: dict[str, Any]

    @property
    def target(self) -> str:
        """The public name of what it makes."""
        return self.content["_target_"].rpartition(".")[2]


def described(group: str) -> list[Described]:
    """The yamls of a group, in the order of their names."""
    return [_read(group, file.stem) for file in sorted((CONF / group).glob("*.yaml"))]


def _read(group: str, name: str) -> Described:
    text = (CONF / group / f"{name}.yaml").read_text(encoding="utf-8")
    about = re.match(r"(?:#.*\n)*", text)
    settings = []
    for line in text.split("\ntuning:")[0].splitlines():
        found = _LINE.match(line)
        if found and found[1] not in ("_target_", "name", "defaults"):
            settings.append((found[1], found[2], found[3] or ""))
    words = re.sub(r"^# ?", "", about[0] if about else "", flags=re.MULTILINE).strip()
    return Described(group, name, words, settings, yaml.safe_load(text))
