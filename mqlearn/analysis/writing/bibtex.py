"""BibTeX of what runs are made of: the sources of their rules, step sizes, operators and problems."""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

GROUPS = ("algorithm", "step_size", "operator", "env")
_NAMES = re.compile(r"^  mqlearn = \{(.*)\},\n", re.MULTILINE)
SOFTWARE = """@software{mqlearn,
  author = {{The mqlearn developers}},
  title = {mqlearn: a bench for finite-sample {Q}-learning},
  version = {VERSION},
}"""


class Reference(NamedTuple):
    """An entry of references.bib; of: the choices of conf/ that it is the source of, as `algorithm/zap`."""

    key: str
    text: str
    of: frozenset[str]


@cache
def references() -> tuple[Reference, ...]:
    """All entries of references.bib."""
    text = resources.files("mqlearn.analysis.writing").joinpath("references.bib").read_text(encoding="utf-8")
    found = []
    for entry in re.findall(r"^@.*?^\}", text, re.MULTILINE | re.DOTALL):
        key, names = re.match(r"@\w+\{(.*),", entry), _NAMES.search(entry)
        assert key is not None and names is not None, entry
        found.append(Reference(key[1], _NAMES.sub("", entry), frozenset(names[1].split())))
    return tuple(found)


def choices(settings: Mapping[str, Any]) -> list[str]:
    """The choices of a run that have a source, or should, as `algorithm/zap`."""
    named = ((group, settings.get(group) or {}) for group in GROUPS)
    return [f"{group}/{node.get('name', node.get('_target_'))}" for group, node in named if node]


def cited(names: Iterable[str], version: str) -> str:
    """The entries of some choices, with mqlearn's own first; choices without a source are named in comments."""
    wanted = list(dict.fromkeys(names))
    some = [one for one in references() if not one.of.isdisjoint(wanted)]
    known = frozenset().union(*(one.of for one in some)) | WITHOUT
    lacking = [f"% no entry: {name} (your own)" for name in wanted if name not in known]
    return "\n\n".join([SOFTWARE.replace("VERSION", version), *(one.text for one in some), *lacking]) + "\n"


# Common knowledge, or definitions of this package.
WITHOUT = frozenset(
    {
        "step_size/constant", "step_size/harmonic", "step_size/inverse_sqrt", "step_size/own", "step_size/matched",
        "operator/bellman", "env/file", "env/garnet_fixed", "env/machine", "env/queue",
    }
)  # fmt: skip
