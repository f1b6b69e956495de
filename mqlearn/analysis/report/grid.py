"""Maps as pictures: tiles, values of states, values of actions in triangles; large maps as small PNG images.

A map is plain data that the template `macros.html` draws: its label, and shapes on tiles of SIDE units, or an image.
"""

import base64
import io
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mqlearn.problems.mdp import FiniteMDP

LARGE = 256  # states: beyond, a map is a PNG with a pixel a state, and actions are not told apart
SIDE = 40  # of a tile, in units of the drawing
# A ramp from light to dark through blue: lightness alone tells the order, so it survives print in grey and any vision.
_ANCHORS = ("#fdf6d8", "#c9dfb4", "#7fbfb6", "#3f8fb0", "#2c5a97", "#1d1f5e")
_TILES = {"S": "start", "F": "ice", "H": "hole", "G": "goal", "C": "cliff", "W": "wall"}
_OPPOSITE = {"left": "right", "right": "left", "up": "down", "down": "up"}
_ARROWS = {"left": "←", "down": "↓", "right": "→", "up": "↑"}
# Corners of the triangle of each direction, in tiles from the upper left corner.
_TRIANGLES = {"left": "0,0 .5,.5 0,1", "down": "0,1 .5,.5 1,1", "right": "1,0 .5,.5 1,1", "up": "0,0 .5,.5 1,0"}
LEVELS = 32


class Shape(NamedTuple):
    """An element of an SVG: rect, polygon or text; the title is what a pointer over it shows."""

    element: str
    attributes: dict[str, Any]
    text: str = ""
    title: str = ""


def _ramp() -> list[str]:
    rgb = np.array([[int(one[i : i + 2], 16) for i in (1, 3, 5)] for one in _ANCHORS], float)
    at = np.linspace(0, len(_ANCHORS) - 1, LEVELS)
    mixed = np.stack([np.interp(at, np.arange(len(_ANCHORS)), channel) for channel in rgb.T], axis=1)
    return ["#" + "".join(f"{round(value):02x}" for value in row) for row in mixed]


RAMP = _ramp()


def directions(mdp: FiniteMDP) -> tuple[str, ...]:
    """Names of the actions where they are the four moves on the map; else empty.

    The model tells: an action has the name of the direction in which it moves more often than in the opposite one.
    """
    if mdp.layout is None or mdp.n_actions != 4 or min(len(mdp.layout), len(mdp.layout[0])) < 2:
        return ()
    width = len(mdp.layout[0])
    offsets = {"left": -1, "down": width, "right": 1, "up": -width}
    moves = mdp.successors - np.arange(mdp.n_states)[:, None, None]
    odds = np.where(mdp.learned[:, :, None], mdp.probabilities, 0.0)
    often = {name: np.where(moves == offset, odds, 0.0).sum(axis=(0, 2)) for name, offset in offsets.items()}
    drift = {name: often[name] - often[_OPPOSITE[name]] for name in offsets}
    names = [max(offsets, key=lambda name, u=u: drift[name][u]) for u in range(4)]
    return tuple(names) if len(set(names)) == 4 else ()


def tiles(mdp: FiniteMDP) -> dict[str, Any] | None:
    """The map itself; None for an environment without one."""
    if mdp.layout is None:
        return None
    rows, columns = len(mdp.layout), len(mdp.layout[0])
    counts = {tile: sum(row.count(tile) for row in mdp.layout) for tile in dict.fromkeys("".join(mdp.layout))}
    label = f"Map of {rows} rows and {columns} columns: " + ", ".join(
        f"{n} {_TILES.get(tile, tile)}" for tile, n in counts.items()
    )
    if mdp.n_states > LARGE:
        shades = {"S": 1, "F": 0, "H": 2, "C": 2, "W": 2, "G": 3}
        pixels = np.array([[shades.get(tile, 0) for tile in row] for row in mdp.layout], np.uint8)
        return picture(pixels, ["#e4edf3", "#f0b429", "#2b2b2b", "#2f8f4e"], label)
    shapes = []
    for x, tile in enumerate("".join(mdp.layout)):
        kind = _TILES.get(tile, "ice")
        shapes.append(Shape("rect", _square(x, columns) | {"class": f"tile {kind}"}))
        if tile != "F":
            shapes.append(Shape("text", _middle(x, columns) | {"class": f"letter {kind}"}, tile))
    return drawing(shapes, columns, rows, label)


def _square(x: int, columns: int) -> dict[str, Any]:
    return {"x": x % columns * SIDE, "y": x // columns * SIDE, "width": SIDE, "height": SIDE}


def _middle(x: int, columns: int, height: float = 0.5) -> dict[str, Any]:
    return {"x": x % columns * SIDE + SIDE / 2, "y": x // columns * SIDE + SIDE * height}


def drawing(shapes: Sequence[Shape], columns: int, rows: int, label: str) -> dict[str, Any]:
    """A map of shapes."""
    return {"image": "", "shapes": shapes, "box": f"-1 -1 {columns * SIDE + 2} {rows * SIDE + 2}", "label": label}


def levels(values: np.ndarray, low: float, high: float, *, log: bool) -> np.ndarray:
    """Place of each value on the ramp, 0 to LEVELS - 1, -1 where it is not finite."""
    with np.errstate(divide="ignore", invalid="ignore"):
        if log:
            low, high = np.log10(low), np.log10(high)
            values = np.log10(np.maximum(values, 10.0**low))
        place = (values - low) / (high - low) if high > low else np.zeros_like(values)
    place = np.where(np.isfinite(values), np.clip(np.rint(place * (LEVELS - 1)), 0, LEVELS - 1), -1)
    return place.astype(int)


def text_color(level: int) -> str:
    return "on-dark" if level > LEVELS // 2 else "on-light"


def cells(mdp: FiniteMDP, values: np.ndarray, place: np.ndarray, texts: Sequence[str]) -> list[Shape]:
    """Tiles (values (S,)) or triangles ((S, 4)) in the colour of their places; texts are the tooltips, in that order.

    Terminal states, and states that are never reached, have no value: they are drawn as such.
    """
    assert mdp.layout is not None
    columns = len(mdp.layout[0])
    drawn = []
    for x, tile in enumerate("".join(mdp.layout)):
        if not mdp.counted[x].any():
            title = f"{_where(x, columns)}: {_TILES.get(tile, tile)}, no value"
            drawn.append(Shape("rect", _square(x, columns) | {"class": "void"}, title=title))
            if tile != "F" and columns <= 10:
                drawn.append(Shape("text", _middle(x, columns) | {"class": "letter void"}, tile))
        elif values.ndim == 1:
            title = f"{_where(x, columns)}: {texts[x]}"
            drawn.append(Shape("rect", _square(x, columns) | {"fill": _fill(place[x]), "data-i": x}, title=title))
            if columns <= 6:
                look = {"class": f"value {text_color(int(place[x]))}", "data-i": x}
                drawn.append(Shape("text", _middle(x, columns) | look, texts[x]))
        else:
            drawn += [_triangle(x, u, name, columns, place, texts) for u, name in enumerate(directions(mdp))]
    return drawn


def _triangle(x: int, u: int, name: str, columns: int, place: np.ndarray, texts: Sequence[str]) -> Shape:
    top, left = divmod(x, columns)
    corners = [corner.split(",") for corner in _TRIANGLES[name].split()]
    points = " ".join(f"{(left + float(dx)) * SIDE:g},{(top + float(dy)) * SIDE:g}" for dx, dy in corners)
    i = x * 4 + u
    attributes = {"points": points, "fill": _fill(place[x, u]), "data-i": i}
    return Shape("polygon", attributes, title=f"{_where(x, columns)}, {name}: {texts[i]}")


def _where(x: int, columns: int) -> str:
    return f"state {x} (row {x // columns + 1}, column {x % columns + 1})"


def _fill(level: int) -> str:
    return RAMP[level] if level >= 0 else "none"


def arrows(mdp: FiniteMDP, best: np.ndarray, place: np.ndarray) -> list[Shape]:
    """The best actions of each state (S, A) bool as arrows, in a colour that is seen on the levels `place` (S,)."""
    assert mdp.layout is not None
    columns, names = len(mdp.layout[0]), directions(mdp)
    return [
        Shape(
            "text",
            _middle(x, columns, 0.8) | {"class": f"arrow {text_color(int(place[x]))}"},
            "".join(_ARROWS[name] for u, name in enumerate(names) if best[x, u]),
        )
        for x in np.flatnonzero(mdp.counted.any(axis=1)).tolist()
        if names
    ]


def picture(pixels: np.ndarray, colors: Sequence[str], label: str) -> dict[str, Any]:
    """A map of pixels (rows, columns), entries of a palette."""
    return {"image": data_uri(pixels, colors), "label": label}


def data_uri(pixels: np.ndarray, colors: Sequence[str]) -> str:
    """A PNG with a palette as a data: address; the same pixels give the same bytes."""
    from PIL import Image

    image = Image.fromarray(pixels.astype(np.uint8), "P")
    image.putpalette(bytes.fromhex("".join(color[1:] for color in colors)))
    content = io.BytesIO()
    image.save(content, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(content.getvalue()).decode()
