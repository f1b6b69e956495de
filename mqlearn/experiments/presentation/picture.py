"""The error of a run as a picture, drawn twice from the same few strokes: SVG as text, PNG by Pillow.

A cell of a sweep may take a tenth of a second of its own; a figure of Matplotlib would take three times that.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from io import BytesIO

import numpy as np

from mqlearn.learning.metric_kinds import kind_of
from mqlearn.storage.summary import aggregate

WIDTH, HEIGHT = 720, 432  # pixels
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 20, 34, 48  # of the frame, to the edges
_LINE, _BAND, _GRID, _INK = "#1f5fa8", "#cfe0f2", "#e3e3e3", "#222222"
_FINE = 2  # the PNG is drawn so much larger, and then reduced
_FONT = 13
_LARGEST = 1e290  # beyond, and below its inverse, steps on an axis could leave the range of doubles

Points = list[tuple[float, float]]


def error_curve(iteration: np.ndarray, values: np.ndarray, metric: str, title: str) -> dict[str, bytes]:
    """error_curve.svg and error_curve.png: mean over the seeds and its 95 % interval against the iteration.

    values: (n_seeds, C) of one metric; its seeds that are not finite are left out. Axes of errors are logarithmic; what
    has no logarithm is not drawn. Empty if nothing is left to draw.
    """
    columns = aggregate(values)
    mean, low, high = (columns[key] for key in ("mean", "low", "high"))
    x = np.asarray(iteration, dtype=np.float64)
    log_y = kind_of(metric).scale == "log" and bool((mean > 0).any())
    there = (np.abs(mean) < _LARGEST) & ((mean > 1 / _LARGEST) | (not log_y)) & (x > 0)
    if not there.any():
        return {}
    x, mean, low, high = x[there], mean[there], low[there], high[there]
    low, high = np.where(np.abs(low) < _LARGEST, low, mean), np.where(np.abs(high) < _LARGEST, high, mean)
    low = np.where(low > 1 / _LARGEST, low, mean / 10) if log_y else low
    across = _axis(x, True, _LEFT, WIDTH - _RIGHT)
    up = _axis(np.concatenate([low, high]), log_y, HEIGHT - _BOTTOM, _TOP)
    strokes = _Strokes()
    band = [(across.at(a), up.at(b)) for a, b in (*zip(x, high, strict=True), *zip(x[::-1], low[::-1], strict=True))]
    strokes.areas.append((band, _BAND))
    if len(x) == 1:
        a, b = across.at(x[0]), up.at(mean[0])
        strokes.areas.append(([(a - 3, b - 3), (a + 3, b - 3), (a + 3, b + 3), (a - 3, b + 3)], _LINE))
    _frame(strokes, across, up)
    strokes.lines.append(([(across.at(a), up.at(b)) for a, b in zip(x, mean, strict=True)], _LINE, 2.0))
    strokes.texts.append((_LEFT, 20, title if len(title) < 100 else f"{title[:98]}…", "start"))
    words = f"{metric.replace('_', ' ')}: mean of {len(values)} seeds, 95 % interval of the mean"
    strokes.texts.append((WIDTH - _RIGHT, HEIGHT - 10, f"{words}; across: iteration k", "end"))
    return {"error_curve.svg": strokes.svg(), "error_curve.png": strokes.png()}


@dataclass
class _Strokes:
    """Areas (points, colour), lines (points, colour, width) and texts (x, y, text, anchor), drawn in this order."""

    areas: list[tuple[Points, str]] = field(default_factory=list)
    lines: list[tuple[Points, str, float]] = field(default_factory=list)
    texts: list[tuple[float, float, str, str]] = field(default_factory=list)

    def svg(self) -> bytes:
        def path(points: Points) -> str:
            return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)

        parts = [f'<polygon points="{path(points)}" fill="{colour}"/>' for points, colour in self.areas]
        parts += [
            f'<polyline points="{path(points)}" fill="none" stroke="{colour}" stroke-width="{width}"/>'
            for points, colour, width in self.lines
        ]
        parts += [
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(_printable(text))}</text>'
            for x, y, text, anchor in self.texts
        ]
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
        )
        style = f' font-family="sans-serif" font-size="{_FONT}" fill="{_INK}">'
        paper = f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>'
        return "\n".join([head + style, paper, *parts, "</svg>\n"]).encode()

    def png(self) -> bytes:
        from PIL import Image, ImageDraw, ImageFont

        image = Image.new("RGB", (WIDTH * _FINE, HEIGHT * _FINE), "white")
        draw = ImageDraw.Draw(image)
        font = ImageFont.load_default(_FONT * _FINE)
        for points, colour in self.areas:
            if len(points) > 2:
                draw.polygon(_larger(points), fill=colour)
        for points, colour, width in self.lines:
            draw.line(_larger(points), fill=colour, width=round(width * _FINE), joint="curve")
        for x, y, text, anchor in self.texts:
            side = {"start": "l", "middle": "m", "end": "r"}[anchor]
            draw.text((x * _FINE, y * _FINE), _printable(text), fill=_INK, font=font, anchor=f"{side}s")
        buffer = BytesIO()
        image.reduce(_FINE).save(buffer, "PNG", compress_level=3)
        return buffer.getvalue()


@dataclass(frozen=True)
class _Axis:
    """at: from a value to its place in pixels.   ticks: values with their labels."""

    at: Callable[[float], float]
    ticks: list[tuple[float, str]]


def _axis(values: np.ndarray, log: bool, start: float, end: float) -> _Axis:
    scaled = np.log10(values) if log else values
    low, high = float(scaled.min()), float(scaled.max())
    margin = (high - low) / 40 or 0.5 * (abs(low) if low and not log else 1.0)
    low, high = low - margin, high + margin

    def at(value: float) -> float:
        return start + ((math.log10(value) if log else value) - low) / (high - low) * (end - start)

    return _Axis(at, _log_ticks(low, high) if log else _ticks(low, high))


def _ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Four to nine round values."""
    step = 10.0 ** math.floor(math.log10((high - low) / 4))
    step *= next(factor for factor in (5, 2, 1) if factor * step <= (high - low) / 4)
    values = [number * step for number in range(math.ceil(low / step), math.floor(high / step) + 1)]
    return [(value, f"{value:.4g}") for value in values]


def _log_ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Powers of ten, not too many; within two decades also 2 and 5 times these."""
    every = max(1, math.ceil((high - low) / 9))
    factors = (1, 2, 5) if high - low < 2 else (1,)
    powers = range(math.floor(low) // every * every, math.ceil(high) + 1, every)
    values = [factor * 10.0**power for power in powers for factor in factors]
    within = [value for value in values if low <= math.log10(value) <= high]
    return [(value, f"{value:g}") for value in within]


def _frame(strokes: _Strokes, across: _Axis, up: _Axis) -> None:
    left, right, top, bottom = _LEFT, WIDTH - _RIGHT, _TOP, HEIGHT - _BOTTOM
    for value, label in across.ticks:
        x = across.at(value)
        strokes.lines.append(([(x, top), (x, bottom)], _GRID, 1.0))
        strokes.texts.append((x, bottom + 18, label, "middle"))
    for value, label in up.ticks:
        y = up.at(value)
        strokes.lines.append(([(left, y), (right, y)], _GRID, 1.0))
        strokes.texts.append((left - 8, y + 4, label, "end"))
    corners: Points = [(left, top), (right, top), (right, bottom), (left, bottom), (left, top)]
    strokes.lines.append((corners, _INK, 1.0))


def _larger(points: Points) -> Points:
    return [(x * _FINE, y * _FINE) for x, y in points]


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else "�" for letter in text)
