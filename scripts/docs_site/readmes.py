"""The pages that the repository has: READMEs and others, with links that lead to pages and files of the site."""

import posixpath
import re
import shutil
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# File of the repository -> page of the site. An archive of the sources has not all of them.
_EVERY = {
    "README.md": "index.md",
    "conf/README.md": "guide/settings.md",
    "mqlearn/README.md": "guide/architecture.md",
    "mqlearn/algorithms/README.md": "rules/index.md",
    "mqlearn/problems/README.md": "problems/index.md",
    "mqlearn/theory/README.md": "guide/theory.md",
    "mqlearn/storage/README.md": "guide/storage.md",
    "mqlearn/analysis/README.md": "guide/analysis.md",
    "outputs/paper/README.md": "measured/index.md",
    "outputs/paper/claims.md": "measured/claims.md",
    "outputs/paper/times.md": "measured/times.md",
    "outputs/paper/field/README.md": "papers/index.md",
    "tests/README.md": "guide/tests.md",
    "CHANGELOG.md": "guide/changes.md",
    ".github/CONTRIBUTING.md": "guide/contributing.md",
}
PAGES = {file: page for file, page in _EVERY.items() if (ROOT / file).is_file()}
_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s#]*)(#[^)\s]*)?\)")
# Words that stand for a heading of a page which the site divides: (file, heading) -> page.
Divided = Callable[[str, str], str | None]


def page(source: str, to: Path, divided: Divided = lambda file, heading: None, text: str | None = None) -> str:
    """A page of the repository for the site at `to`: no table of contents, which the theme has, and links that lead on.

    text: in place of that of the file. Raises FileNotFoundError for a link that leads nowhere.
    """
    text = (ROOT / source).read_text(encoding="utf-8") if text is None else text
    text = re.sub(r"^Contents:.*?\n\n", "", text, count=1, flags=re.MULTILINE | re.DOTALL)
    parts = _FENCE.split(text)
    here = PAGES[source]
    parts[::2] = [_LINK.sub(lambda found: f"]({_link(found, source, here, to, divided)})", part) for part in parts[::2]]
    return "".join(parts)


def _link(found: re.Match[str], source: str, here: str, to: Path, divided: Divided) -> str:
    target, heading = found[1], found[2] or ""
    if re.match(r"[a-z]+:", target):
        return target + heading
    file = posixpath.normpath(posixpath.join(posixpath.dirname(source), target)) if target else source
    place = divided(file, heading[1:]) if heading else None
    if place is not None:
        return relative(here, place)
    if not target:
        return heading
    if file in PAGES:
        return relative(here, PAGES[file]) + heading
    if not (ROOT / file).is_file():
        raise FileNotFoundError(f"{source} has a link to {target}")
    return relative(here, copied(file, to))


def copied(file: str, to: Path) -> str:
    """A file of the repository beside the pages: its place there."""
    place = f"files/{file}"
    (to / place).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(ROOT / file, to / place)
    return place


def relative(page: str, place: str) -> str:
    """How a page of the site leads to a place of it."""
    return posixpath.relpath(place, posixpath.dirname(page) or ".")
