"""The papers of the field: the page that `mqlearn papers --store` writes, a page a paper."""

import re

from docs_site import markdown
from mqlearn.paths import CONF

SOURCE = "outputs/paper/field/README.md"


def divided(file: str, heading: str) -> str | None:
    """The page of a paper that a link to its heading leads to."""
    return f"papers/{heading}.md" if file == SOURCE and (CONF / "paper" / f"{heading}.yaml").is_file() else None


def split(text: str) -> dict[str, str]:
    """Page -> text, of the page of all papers."""
    head, *sections = re.split(r"^## (\w+)\n", text, flags=re.MULTILINE)
    keys, bodies = sections[::2], sections[1::2]
    made = {"papers/index.md": f"{head}\n{markdown.toctree(keys)}"}
    for key, body in zip(keys, bodies, strict=True):
        made[f"papers/{key}.md"] = f"# {markdown.text(key)}\n" + re.sub(
            r"^(Verdict|Read): ", r"\n\1: ", body, flags=re.M
        )
    return made
