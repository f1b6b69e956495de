"""Templates of the report, and numbers and labels as texts. Jinja2 escapes every text that is put into a template."""

import functools
import math
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

_TEMPLATES = Path(__file__).resolve().parent / "templates"
_GREEK = {
    "alpha": "α", "beta": "β", "gamma": "γ", "epsilon": "ε", "zeta": "ζ", "eta": "η", "theta": "θ", "lambda": "λ",
    "mu": "μ", "pi": "π", "rho": "ρ", "tau": "τ", "phi": "φ", "infty": "∞", "times": "×",
}  # fmt: skip


def render(template: str, **values: Any) -> Markup:
    """A template of this folder, filled in: HTML, which other templates take as it is."""
    return Markup(_environment().get_template(template).render(**values))


@functools.cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters["number"] = number
    return made


def _printable(value: Any) -> Any:
    """A text without what no HTML file can hold: control characters and lone surrogates, as a visible mark."""
    if value is None:
        return ""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return "".join(
        "�" if (c < " " and c not in "\n\t") or "\x7f" <= c <= "\x9f" or "\ud800" <= c <= "\udfff" else c for c in value
    )


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
