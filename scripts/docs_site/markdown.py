"""Pieces of Markdown."""

import re
from collections.abc import Iterable, Sequence
from typing import Any


def table(head: Sequence[str], rows: Iterable[Sequence[Any]], left: int = 1) -> str:
    """A table, of which the first `left` columns are texts and the others numbers; cells are Markdown on one line."""
    rule = ["---"] * left + ["---:"] * (len(head) - left)
    lines = [head, rule, *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines) + "\n"


def _cell(value: Any) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", " ".join(str(value).split()))


def code(text: str, language: str = "text") -> str:
    return f"```{language}\n{text.strip(chr(10))}\n```\n"


def directive(name: str, argument: str = "", body: str = "", **options: str) -> str:
    """A directive of Sphinx in Markdown."""
    given = "".join(f":{key.replace('_', '-')}: {value}\n" for key, value in options.items())
    return f"````{{{name}}} {argument}".rstrip() + f"\n{given}\n{body}\n````\n"


def toctree(names: Iterable[str], caption: str = "", hidden: bool = True) -> str:
    options = {"hidden": ""} if hidden else {}
    if caption:
        options["caption"] = caption
    return directive("toctree", body="\n".join(names), maxdepth="1", **options)


def number(value: Any, digits: int = 4) -> str:
    """A number for people; a dash for none."""
    if value is None or value == "" or value != value:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{float(value):.{digits}g}" if not isinstance(value, str) else value


def text(words: str) -> str:
    """Plain text in Markdown: none of its signs means anything, but `code` does."""
    parts = re.split(r"(`[^`]+`)", words)
    return "".join(part if i % 2 else re.sub(r"([\\*_\[\]<>#$|~])", r"\\\1", part) for i, part in enumerate(parts))


def sentence(words: str) -> str:
    """Words with a capital at the front and a full stop at the end; nothing of nothing."""
    return f"{words[:1].upper()}{words[1:].removesuffix('.')}." if words else ""
