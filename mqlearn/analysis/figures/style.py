"""The look of every figure, and picture files that come out the same, byte for byte, each time.

One scheme serves all figures: what is compared comes in families (one algorithm each). A family of three or
more is a ramp from light to dark (a parameter that grows), solid with filled markers; the members of a
smaller family share a hue, dashed with open markers. Colour, dash pattern and marker each tell the curves
apart, so the figure survives print in grey and any colour vision. Hues after Okabe and Ito, "Color universal
design" (2008).

Matplotlib is used through its object interface on the Agg canvas only: no pyplot, no display, and no setting
of the user's matplotlibrc takes part.
"""

import json
import math
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mqlearn.errors import SettingError
from mqlearn.files import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

WIDTHS = {"two_columns": 7.2, "one_column": 3.5}  # inches, of a journal's page; the first is the usual one
DPI = 250  # 1800 pixels across: twice the width at which the README shows it
INK, QUIET, GRID = "#222222", "#6b6b6b", "#e9e9e9"

_HUES = (
    ("#1a1a1a", "#969696"),
    ("#c44601", "#e8a000"),
    ("#a8327f", "#dc9ac4"),
    ("#4d7a1f", "#a5c25c"),
    ("#6a4fb3", "#b3a5de"),
    ("#7a4a21", "#c9a27a"),
)
_RAMPS = (
    ("#62c7ae", "#2a9fc4", "#2465ad", "#1b2466"),
    ("#f2a65a", "#d9603b", "#9c2a45", "#4a1038"),
    ("#b5cf6b", "#6f9f3a", "#3c6e37", "#173a2a"),
)
_DASHES = (
    (6, 1.6),
    (2.4, 1.3),
    (6, 1.4, 1.2, 1.4),
    (1.1, 1.1),
    (6, 1.4, 1.2, 1.4, 1.2, 1.4),
    (3.5, 1.2, 1, 1.2),
)
# Six patterns, seven markers: no pair comes twice among 42 curves.
_OPEN = ("o", "s", "^", "v", "D", "p", "h")
_FILLED = ("o", "s", "^", "v", "D", "p", "h", "P", "X")

_RC: dict[str, Any] = {
    "font.family": ["STIXGeneral", "DejaVu Sans"],
    "mathtext.fontset": "stix",
    "font.size": 9,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 10,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.fontsize": 8.8,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.minor.width": 0.4,
    "ytick.minor.width": 0.4,
    "xtick.major.size": 3,
    "ytick.major.size": 3,
    "xtick.minor.size": 1.6,
    "ytick.minor.size": 1.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "savefig.dpi": DPI,
    "figure.dpi": DPI,
    "svg.hashsalt": "mqlearn",
    "svg.fonttype": "path",
    "pdf.fonttype": 42,
}


@dataclass(frozen=True)
class Look:
    """How one curve is told apart: by colour, by dash pattern (None: solid) and by marker."""

    color: str
    dashes: tuple[float, ...] | None
    marker: str
    filled: bool


def looks(families: Mapping[str, str], ramps: Collection[str] = ("momentum_q",)) -> dict[str, Look]:
    """One Look for each label; `families` maps a label to its family, in the order of the legend.

    The families named in `ramps` are ramps whatever their size: the method studied looks the same in all
    figures.
    """
    result: dict[str, Look] = {}
    n_ramps = n_hues = n_open = 0
    used: set[str] = set()
    for labels in groups(families):
        if len(labels) > 2 or families[labels[0]] in ramps:
            colors = _ramp(_RAMPS[n_ramps % len(_RAMPS)], len(labels))
            n_ramps += 1
            for i, (label, color) in enumerate(zip(labels, colors, strict=True)):
                result[label] = Look(color, None, _FILLED[i % len(_FILLED)], True)
        else:
            free = [hue for pair in _HUES for hue in pair if hue not in used] if n_hues >= len(_HUES) else []
            for label, color in zip(labels, [*free, *_HUES[n_hues % len(_HUES)]], strict=False):
                used.add(color)
                dashes, marker = _DASHES[n_open % len(_DASHES)], _OPEN[n_open % len(_OPEN)]
                result[label] = Look(color, dashes, marker, False)
                n_open += 1
            n_hues += 1
    return result


def groups(families: Mapping[str, str]) -> list[list[str]]:
    """The labels of each family, families and labels in the order of their first appearance."""
    members: dict[str, list[str]] = {}
    for label, family in families.items():
        members.setdefault(family, []).append(label)
    return list(members.values())


def _ramp(anchors: Sequence[str], n: int) -> list[str]:
    rgb = np.array([[int(anchor[i : i + 2], 16) for i in (1, 3, 5)] for anchor in anchors], dtype=np.float64)
    at = np.linspace(0, len(anchors) - 1, n) if n > 1 else np.array([len(anchors) / 2])
    mixed = np.stack([np.interp(at, np.arange(len(anchors)), channel) for channel in rgb.T], axis=1)
    return ["#" + "".join(f"{round(value):02x}" for value in row) for row in mixed]


@dataclass(frozen=True)
class Page:
    """The room that a figure has: `width` in inches. Printed at this width, texts have their sizes in points."""

    width: float = WIDTHS["two_columns"]

    @property
    def narrow(self) -> bool:
        """Whether panels stand below each other."""
        return self.width < 5

    def size(self, points: float) -> float:
        """The size of a text: 9 points are 8 in one column, as journals set captions."""
        return points * 8 / 9 if self.narrow else points


_USUAL = Page()
_page: ContextVar[Page] = ContextVar("page", default=_USUAL)


def page() -> Page:
    """The page of the figure that is being drawn."""
    return _page.get()


@contextmanager
def on_page(width: object = None) -> Iterator[None]:
    """Draw for another page: one of WIDTHS, or a width in inches; None: the usual one. Raises SettingError."""
    token = _page.set(Page(width_in_inches(width)))
    try:
        yield
    finally:
        _page.reset(token)


def width_in_inches(width: object = None) -> float:
    """The width of a figure, from the setting figure.width. Raises SettingError."""
    if width is None:
        return _USUAL.width
    try:
        inches = WIDTHS[width] if isinstance(width, str) and width in WIDTHS else float(str(width))
    except ValueError:
        inches = math.nan
    if not 2.5 <= inches <= 20:
        raise SettingError("figure.width", width, f"must be {' or '.join(WIDTHS)}, or inches from 2.5 to 20")
    return inches


@contextmanager
def context() -> Iterator[None]:
    """Matplotlib's own defaults with the settings of this file, whatever the user's matplotlibrc says."""
    matplotlib = _matplotlib()
    theirs = {"backend", "backend_fallback", "interactive"}
    ours = {key: value for key, value in matplotlib.rcParamsDefault.items() if key not in theirs} | _RC
    ours |= {
        key: page().size(value)
        for key, value in _RC.items()
        if key.endswith(("size", "labelsize")) and "tick.m" not in key
    }
    with matplotlib.rc_context(ours):
        yield


def _matplotlib() -> Any:
    """The package, which would refuse to start with a back-end in the environment that is not here; none is used."""
    backend = os.environ.pop("MPLBACKEND", None)
    try:
        import matplotlib
    finally:
        if backend is not None:
            os.environ["MPLBACKEND"] = backend
    return matplotlib


def check_text(setting: str, text: str) -> None:
    """Raise SettingError if `text` cannot be typeset: $...$ is mathematics; a leading _ would hide it."""
    if text.startswith("_"):
        raise SettingError(setting, text, "a text that does not begin with an underscore")
    if "$" not in text:
        return
    _matplotlib()
    from matplotlib.mathtext import MathTextParser

    try:
        MathTextParser("path").parse(text)
    except ValueError as error:
        reason = str(error).strip().splitlines()[-1]
        raise SettingError(setting, text, f"a text whose $...$ parts are valid mathematics ({reason})") from None


def dash(look: Look) -> dict[str, Any]:
    return {"linestyle": (0, look.dashes) if look.dashes else "solid"}


def marker(look: Look, size: float = 3.6) -> dict[str, Any]:
    """Settings of a line for the marker of `look`: filled with a white rim, or open."""
    size *= {"D": 0.85, "s": 0.92, "p": 1.15, "h": 1.1, "P": 1.15, "X": 1.15}.get(look.marker, 1.0)
    return {
        "marker": look.marker,
        "markersize": size + 0.5 * look.filled,
        "markerfacecolor": look.color if look.filled else "white",
        "markeredgecolor": "white" if look.filled else look.color,
        "markeredgewidth": 0.45 if look.filled else 0.85,
    }


def handle(look: Look) -> "Line2D":
    from matplotlib.lines import Line2D

    return Line2D([], [], color=look.color, linewidth=1.3, **dash(look), **marker(look, 4.2))


def save(
    figure: "Figure", stem: Path, provenance: Mapping[str, Any], kinds: Collection[str] = ("png", "pdf", "svg")
) -> list[Path]:
    """Write stem.png, stem.pdf and stem.svg, or some `kinds` of these; equal figures give equal bytes, without dates.

    `provenance` (what JSON can hold) is embedded in each file: PNG and SVG Description, PDF Subject. A file
    appears complete or not at all.
    """
    record = json.dumps(provenance, sort_keys=True, allow_nan=False)
    metadata: dict[str, dict[str, Any]] = {
        "png": {"Title": stem.name, "Description": record},
        "pdf": {"Title": stem.name, "Subject": record, "CreationDate": None},
        "svg": {"Title": stem.name, "Description": record, "Date": None},
    }
    pictures: dict[Path, bytes] = {}
    with context():
        for kind in kinds:
            buffer = BytesIO()
            figure.savefig(buffer, format=kind, dpi=DPI, metadata=metadata[kind])
            pictures[stem.with_name(f"{stem.name}.{kind}")] = buffer.getvalue()
    for path, content in pictures.items():
        write_whole(path, content)
    return list(pictures)


def read_provenance(path: Path) -> dict[str, Any]:
    """What `save` embedded in a picture, from the file alone. Raises SettingError for any other file."""
    try:
        record = {".png": _from_png, ".pdf": _from_pdf, ".svg": _from_svg}[path.suffix](path)
        return json.loads(record)
    except (KeyError, ValueError, OSError, SyntaxError, AttributeError, TypeError) as error:
        raise SettingError("picture", str(path), "a png, pdf or svg file that mqlearn drew") from error


def _from_png(path: Path) -> str:
    from PIL import Image

    with Image.open(path) as image:
        return image.info["Description"]


def _from_pdf(path: Path) -> bytes:
    (subject,) = re.findall(rb"/Subject \(((?:[^\\()]|\\.)*)\)", path.read_bytes())
    return re.sub(rb"\\(.)", rb"\1", subject)


def _from_svg(path: Path) -> str | None:
    from xml.etree import ElementTree

    return ElementTree.parse(path).findtext(".//{http://purl.org/dc/elements/1.1/}description")
