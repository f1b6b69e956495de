"""Papers as they are written, yamls in conf/paper: what was read, what is known and unknown, what they report.

citation: authors, title, year; venue, arxiv, doi where known.   read: what was read, each with its mark.
settings: each known one (`setting`, `value`, `place`, `mark`), and each unknown one (`setting`, `choice`, `why`; with
`essential: false` if no verdict can depend on it).   reported: `quantity`, `value`, `place`, `mark`, and the `claim`
that holds it against what is measured here.   experiments: of conf/experiment, each drawn.   claims: of conf/claim;
those with `ours: true` are questions of this project.   not_testable: why nothing of it can be tested.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mqlearn.analysis.claims import claim
from mqlearn.errors import SettingError, nearest
from mqlearn.experiments.settings import own_choices, yamls

MARKS = {
    "T": "read in the paper's text",
    "A": "read in the authors' code",
    "3": "from third parties",
    "C": "computed here from the definition",
    "M": "from memory, unchecked",
}
READ = ("T", "A", "3")  # what may decide a verdict
_KEYS = ("citation", "read", "settings", "reported", "experiments", "claims", "not_testable")
_CITED = ("authors", "title", "year")  # what a citation must have
_CITATION = (*_CITED, "venue", "arxiv", "doi")
_WHERE = {"venue": "", "year": "", "arxiv": "arXiv ", "doi": "doi "}
_PLACES = {"doi": "https://doi.org/", "arxiv": "https://arxiv.org/abs/"}
_ENTRIES = {"read": ("what", "mark"), "reported": ("quantity", "value", "place", "mark")}
_KNOWN, _UNKNOWN = ("setting", "value", "place", "mark"), ("setting", "choice", "why")


@dataclass(frozen=True)
class Paper:
    """A yaml of conf/paper, read and checked.

    spec: its keys, with empty lists for those that it leaves out.   ours: claims that are questions of this project.
    """

    key: str
    spec: dict[str, Any]
    ours: frozenset[str]

    @property
    def citation(self) -> str:
        """Authors, title, venue and year in a line."""
        said = self.spec["citation"]
        where = [f"{word}{said[name]}" for name, word in _WHERE.items() if said.get(name)]
        return f"{said['authors']}: {said['title']} ({', '.join(where)})"

    @property
    def address(self) -> str:
        """Where the paper is found, by its DOI, else by its arXiv number; empty without both."""
        said = self.spec["citation"]
        found = [f"{place}{said[name]}" for name, place in _PLACES.items() if said.get(name)]
        return found[0] if found else ""

    @property
    def pictures(self) -> dict[str, str]:
        """Experiment -> the file of its picture, which is named after the paper, of further ones after themselves."""
        return {name: f"{name if number else self.key}.png" for number, name in enumerate(self.spec["experiments"])}

    @property
    def unknown(self) -> list[dict[str, Any]]:
        """The settings that are not known."""
        return [one for one in self.spec["settings"] if "choice" in one]

    @property
    def essential(self) -> list[dict[str, Any]]:
        """The unknown settings on which a verdict may depend."""
        return [one for one in self.unknown if one.get("essential", True)]

    def reports(self, name: str) -> list[dict[str, Any]]:
        """What is reported that a claim tests."""
        return [one for one in self.spec["reported"] if one.get("claim") == name]


def known(config_dir: str | None = None) -> list[str]:
    """Keys of all papers."""
    return [*own_choices.files("paper", config_dir)]


def load(key: str, config_dir: str | None = None) -> Paper:
    """A paper, its entries checked. Raises SettingError, which names the file and the entry."""
    with own_choices.reading("paper", key, config_dir) as path:
        return _checked(key, path, config_dir)


def _checked(key: str, path: Path, config_dir: str | None) -> Paper:
    spec: dict[str, Any] = yamls.read("paper", path)
    _only(path, "", spec, _KEYS, ("citation",))
    _only(path, "citation", spec["citation"], _CITATION, _CITED)
    year = spec["citation"]["year"]
    if not isinstance(year, int):
        raise SettingError("citation.year", year, f"must be a whole number, in {path}")
    spec = {name: spec.get(name) or ([] if name != "not_testable" else None) for name in _KEYS}
    for name in ("read", "settings", "reported", "experiments", "claims"):
        if not isinstance(spec[name], list):
            raise SettingError(name, spec[name], f"must be a list, in {path}")
    for name, needed in _ENTRIES.items():
        for number, entry in enumerate(spec[name], 1):
            _entry(path, f"{name}[{number}]", entry, (*needed, *(("claim",) if name == "reported" else ())), needed)
    for number, entry in enumerate(spec["settings"], 1):
        unknown = isinstance(entry, dict) and "choice" in entry
        keys_of = (*_UNKNOWN, "essential") if unknown else _KNOWN
        _entry(path, f"settings[{number}]", entry, keys_of, _UNKNOWN if unknown else _KNOWN)
        if not isinstance(entry.get("essential", True), bool):
            raise SettingError(f"settings[{number}].essential", entry["essential"], f"must be true or false, in {path}")
    _names(path, "claims", spec["claims"], claim.every(config_dir))
    _names(path, "experiments", spec["experiments"], [*own_choices.files("experiment", config_dir)])
    for number, entry in enumerate(spec["reported"], 1):
        if "claim" in entry:
            _names(path, f"reported[{number}].claim", [entry["claim"]], spec["claims"])
    ours = [name for name in spec["claims"] if yamls.read("claim", claim.path_of(name, config_dir)).get("ours")]
    return Paper(key, spec, frozenset(ours))


def _names(path: Path, where: str, names: Sequence[Any], there: Sequence[str]) -> None:
    for name in names:
        if name not in there:
            kind = where.rpartition(".")[2].removesuffix("s")
            known = nearest(str(name), there) or f"; there are {', '.join(there) or 'none'}"
            raise SettingError(where, name, f"is no {kind} that there is, in {path}{known}")


def _entry(path: Path, where: str, entry: Any, keys: Sequence[str], needed: Sequence[str]) -> None:
    _only(path, where, entry, keys, [name for name in needed if name != "mark"])
    if "mark" in needed and str(entry.get("mark")) not in MARKS:
        marks = ", ".join(f"{mark} ({words})" for mark, words in MARKS.items())
        raise SettingError(f"{where}.mark", entry.get("mark"), f"must be one of {marks}, in {path}")


def _only(path: Path, where: str, node: Any, keys: Sequence[str], needed: Sequence[str]) -> None:
    if not isinstance(node, Mapping):
        raise SettingError(where or "paper", node, f"must be a mapping, in {path}")
    for key in node:
        if key not in keys:
            known = nearest(str(key), keys) or f"; its keys are {', '.join(keys)}"
            raise SettingError(f"{where}.{key}".lstrip("."), node[key], f"is no key of a paper, in {path}{known}")
    for key in needed:
        if node.get(key) in (None, ""):
            others = [name for name in needed if name != key]
            beside = f"beside {', '.join(others)}" if others else f"as a mapping with {', '.join(_CITED)}"
            raise SettingError(f"{where}.{key}".lstrip("."), node.get(key), f"must be given {beside}, in {path}")
