"""Docstrings as reStructuredText. They are plain text here, in which * | and _ are signs of equations."""

import inspect
import re
import textwrap
from collections.abc import Collection, Iterator
from typing import Any

import mqlearn as mq

NAMES = {*mq.__all__, *dir(mq)} - {"Any", "TYPE_CHECKING"}
_UNDERLINED = re.compile(r"^(\w[\w ]*)\n(?:-{3,}|={3,})$", re.MULTILINE)
_INDENTED = re.compile(
    r"^(Args|Attributes|Examples?|Notes?|Parameters|Raises|References|Returns|Yields):\n((?: +.*\n|\n)+)", re.M
)
_QUOTED = re.compile(r"(`[^`]+`)")


def rst(text: str, parameters: Collection[str] = ()) -> str:
    """A docstring as reStructuredText.

    A paragraph is one, an indented one is an equation, lines that begin with the name of a parameter are a list. The
    name of a section, underlined or above indented lines, is a line in bold.
    """
    text = inspect.cleandoc(text)
    text = _INDENTED.sub(lambda found: f"\n{found[1]}\n---\n{textwrap.dedent(found[2])}\n", f"{text}\n")
    text = _UNDERLINED.sub(r"\n---\1\n\n", text).strip()
    return "\n\n".join(_block(block, parameters) for block in re.split(r"\n\s*\n", text))


def _block(block: str, parameters: Collection[str]) -> str:
    if block.startswith("---"):
        return f"**{block.lstrip('- ')}**"
    if block.startswith(">>>"):
        return re.sub(r" *# doctest:.*", "", block)
    lines = block.split("\n")
    if all(line.startswith("  ") for line in lines):
        return "::\n\n" + block
    hanging = any(line.startswith("  ") for line in lines)
    return "\n".join(_joined(_items("\n".join(lines), parameters, hanging)))


def _items(block: str, parameters: Collection[str], hanging: bool) -> Iterator[tuple[str, str]]:
    """The parts of a paragraph: what a part of a list begins with, empty for plain text, and its text."""
    start = rf"(?:{'|'.join(map(re.escape, sorted(parameters, key=len, reverse=True)))})" if parameters else r"(?!)"
    named = re.compile(rf"(?:^|   +|\n)((?:{start}, )*{start})(?: (\([^)\n]*\)[^:\n]{{0,40}}))?: ")
    if hanging:
        block = re.sub(r"^(\w+) : (.*)\n {2,}", r"\1: \2. ", block, flags=re.MULTILINE)  # name, type, words
        block = re.sub(r"\n {2,}", " ", block)
        for line in block.split("\n"):
            found = named.match(line)
            head, colon, _ = line.partition(": ")
            head = found[0].removesuffix(": ") if found else head if colon else ""
            yield head, line[len(head) + 2 :] if head else line
        return
    at = list(named.finditer(block))
    before = block[: at[0].start()] if at else block
    if before.strip():
        yield "", before
    for match, after in zip(at, [*at[1:], None], strict=False):
        head = f"{match[1]} {match[2]}" if match[2] else match[1]
        yield head, block[match.end() : after.start() if after else None]


def _joined(items: Iterator[tuple[str, str]]) -> Iterator[str]:
    listed = False
    for head, text in items:
        words = " ".join(text.split())
        if head:
            if not listed:
                yield ""
            yield f"* ``{head}``: {escaped(words)}"
        else:
            yield escaped(words)
        listed = bool(head)


def escaped(text: str) -> str:
    """Plain text of one paragraph, with `code` and links to public names."""
    parts = _QUOTED.split(text)
    done = []
    for i, part in enumerate(parts):
        if i % 2 == 0:
            done.append(re.sub(r"([*|\\])|(_)(?![A-Za-z0-9])", lambda found: "\\" + found[0], part))
            continue
        inner = part[1:-1]
        role = f":py:obj:`~mqlearn.{inner}`" if inner in NAMES else f"``{inner}``"
        before, after = parts[i - 1][-1:], parts[i + 1][:1]
        done.append(("\\ " if before.isalnum() else "") + role + ("\\ " if after.isalnum() else ""))
    return "".join(done)


def parameters_of(thing: Any) -> list[str]:
    """The names of what a function or class takes; none of what has no signature."""
    try:
        return [*inspect.signature(thing).parameters]
    except (TypeError, ValueError):
        return []


def on_docstring(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Sphinx's event of a docstring: its lines, changed in place."""
    lines[:] = [*rst("\n".join(lines), parameters_of(obj)).split("\n"), ""]
