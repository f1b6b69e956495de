"""Yaml files that users write: what is wrong with one is a line of text with its file and line."""

import pickle
from pathlib import Path
from typing import Any

import yaml

from mqlearn.errors import SettingError
from mqlearn.paths import CONF

_SHIPPED: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # a tenth of the time; on what users write, other words
_sound: dict[bytes, bytes] = {}  # of files that were read before: what they hold, pickled, as each caller has its own
_TAGS = ("str", "int", "float", "bool", "null", "seq", "map", "timestamp", "merge", "value")


def shown(folder: Path, pattern: str = "*.yaml") -> list[Path]:
    """The yaml files of a folder that are there for choice, in order: none that is hidden, as editors leave them beside
    what they edit, and no link to nothing."""
    return sorted(path for path in folder.glob(pattern) if not path.name.startswith(".") and path.is_file())


def read(setting: str, path: Path) -> dict[str, Any]:
    """The mapping in a yaml file. Raises SettingError, which names the file and the line."""
    check(setting, path)
    raw = path.read_bytes()
    if raw not in _sound:
        _sound[raw] = pickle.dumps(yaml.load(raw.decode("utf-8"), _loader(path)))
    return pickle.loads(_sound[raw])


def _loader(path: Path) -> Any:
    return _SHIPPED if path.is_relative_to(CONF) else yaml.SafeLoader


def check(setting: str, path: Path, *, empty: bool = False) -> None:
    """Refuse a file that is no mapping in yaml, in UTF-8, with each key once. Raises SettingError.

    empty: whether it may hold nothing.
    """

    def refused(line: int, problem: str) -> SettingError:
        return SettingError(setting, path.stem, f"{path.absolute()}, line {line}: {problem}")

    try:
        raw = path.read_bytes()
        if raw in _sound:
            return
        text = raw.decode("utf-8")
        root = yaml.compose(text, Loader=_loader(path))
        if root is None and not empty:
            raise refused(1, "is empty: a mapping is expected, name: value")
        if root is not None and not isinstance(root, yaml.MappingNode):
            raise refused(root.start_mark.line + 1, f"is a {_kind(root)}: a mapping is expected, name: value")
        for node, problem in _problems(root):
            raise refused(node.start_mark.line + 1, problem)
    except OSError as error:
        raise SettingError(setting, path.stem, f"{path.absolute()} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise refused(line, f"is not UTF-8 (byte 0x{error.object[error.start]:02x}): save it as UTF-8") from None
    except yaml.reader.ReaderError as error:
        number = error.character if isinstance(error.character, int) else ord(error.character[0])
        raise refused(text[: error.position].count("\n") + 1, f"yaml takes no character U+{number:04X}") from None
    except yaml.MarkedYAMLError as error:
        raise refused(*_said(error, text.splitlines())) from None


def _said(error: yaml.MarkedYAMLError, lines: list[str]) -> tuple[int, str]:
    """The line of an error of the parser, and what is wrong there."""
    problem, mark = str(error.problem or error.context), error.problem_mark or error.context_mark
    if problem == "could not find expected ':'" and error.context_mark is not None:
        mark, problem = error.context_mark, "a name has no `:` after it"
        if " #" in lines[mark.line]:
            problem += "; what follows ` #` is a comment, so put quotes around a text that holds it"
    elif "'\\t'" in problem:
        problem = "begins with a tab, where yaml takes blanks only"
    elif problem.startswith("but found another document"):
        problem = "begins a second document (---): a file holds one"
    return (mark.line + 1 if mark else 1), problem


def _problems(root: yaml.Node | None) -> Any:
    """(node, what is wrong with it) for keys that are there twice, tags that only programs know, and loops."""
    pending: list[tuple[Any, tuple[int, ...]]] = [(root, ())] if root is not None else []
    while pending:
        node, above = pending.pop()
        if id(node) in above:
            yield node, "refers to itself"
            return
        if not node.tag.startswith("tag:yaml.org,2002:") or node.tag.rpartition(":")[2] not in _TAGS:
            yield node, f"has a tag that is not admissible ({node.tag})"
        inner: list[Any] = []
        if isinstance(node, yaml.MappingNode):
            keys: dict[str, Any] = {}
            for key, value in node.value:
                if not isinstance(key, yaml.ScalarNode):
                    yield key, f"a {_kind(key)} is no name of a setting"
                elif key.value in keys and key.value != "<<":
                    first = keys[key.value].start_mark.line + 1
                    yield key, f"{key.value} is there twice, in line {first} too: leave one out"
                elif node is root and key.tag.rpartition(":")[2] not in ("str", "merge"):
                    yield key, f"{key.value} is no text, as names of settings are: put quotes around it"
                keys[str(key.value)] = key
                inner.append(value)
        elif isinstance(node, yaml.SequenceNode):
            inner = node.value
        pending += [(one, (*above, id(node))) for one in reversed(inner)]


def _kind(node: Any) -> str:
    return {"sequence": "list", "mapping": "mapping"}.get(node.id, "text")
