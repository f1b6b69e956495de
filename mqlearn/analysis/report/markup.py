"""HTML from small functions. Every text and every attribute is escaped; only what these functions made is not."""

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

_VOID = ("input", "meta", "img", "br")
_GREEK = {
    "alpha": "α", "beta": "β", "gamma": "γ", "epsilon": "ε", "zeta": "ζ", "eta": "η", "theta": "θ", "lambda": "λ",
    "mu": "μ", "pi": "π", "rho": "ρ", "tau": "τ", "phi": "φ", "infty": "∞", "times": "×",
}  # fmt: skip


class Markup(str):
    """Text that is HTML already."""


def tag(name: str, /, *children: Any, **attributes: Any) -> Markup:
    """An element. Attributes: class_ and for_ lose their underscore, others get - for _; None and False are left out.

    Children are texts, which are escaped, Markup, or lists of both; None is left out.
    """
    words = []
    for key, value in attributes.items():
        key = key.rstrip("_").replace("_", "-")
        if value is True:
            words.append(f" {key}")
        elif value is not None and value is not False:
            words.append(f' {key}="{escape(_printable(str(value)))}"')
    start = f"<{name}{''.join(words)}>"
    return Markup(start if name in _VOID else f"{start}{join(children)}</{name}>")


def join(children: Iterable[Any]) -> Markup:
    """Children one after another, texts escaped."""
    parts = []
    for child in children:
        if isinstance(child, Markup):
            parts.append(str(child))
        elif isinstance(child, list | tuple):
            parts.append(str(join(child)))
        elif child is not None:
            parts.append(escape(_printable(str(child))))
    return Markup("".join(parts))


def _printable(text: str) -> str:
    """`text` without what no HTML file can hold: control characters and lone surrogates, as a visible mark."""
    return "".join(
        "�" if (c < " " and c not in "\n\t") or "\x7f" <= c <= "\x9f" or "\ud800" <= c <= "\udfff" else c for c in text
    )


def table(
    head: Sequence[Any], rows: Iterable[Sequence[Any]], *, caption: Any = None, class_: str | None = None
) -> Markup:
    """A table in a box that scrolls sideways; the first cell of each row is its header."""
    top = tag("thead", tag("tr", [tag("th", cell, scope="col") for cell in head])) if head else None
    body = [tag("tr", tag("th", first, scope="row"), [tag("td", cell) for cell in rest]) for first, *rest in rows]
    named = tag("caption", caption) if caption else None
    # Focusable, so that the arrow keys scroll it.
    return tag(
        "div", tag("table", named, top, tag("tbody", body), class_=class_), class_="scroll", tabindex=0, role="group"
    )


def details(summary: Any, *children: Any, open_: bool = False) -> Markup:
    return tag("details", tag("summary", summary), children, open=open_)


def facts(pairs: Iterable[tuple[Any, Any]]) -> Markup:
    """A list of names and values."""
    return tag("dl", [tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs], class_="facts")


def section(key: str, title: str, *children: Any) -> Markup:
    return tag("section", tag("h2", title, id=f"{key}-title"), children, id=key, aria_labelledby=f"{key}-title")


def number(value: Any, digits: int = 4) -> str:
    """A number for people; an en dash for what is absent."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    text = f"{value:,}" if isinstance(value, int) else f"{value:.{digits}g}"
    return text.replace("-", "−")


def plain(text: str) -> str:
    """A label without TeX: `MomentumQ $m=2$` is MomentumQ m=2."""
    parts = text.split("$")
    if len(parts) % 2 == 0:  # a lone dollar sign is itself
        return text
    for i in range(1, len(parts), 2):
        for word, sign in _GREEK.items():
            parts[i] = parts[i].replace(f"\\{word}", sign)
        parts[i] = parts[i].replace("{", "").replace("}", "").replace("\\", "")
    return "".join(parts)
