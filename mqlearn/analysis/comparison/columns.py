"""Tables and sentences that fit a terminal."""

import os
import shutil
import sys
import textwrap
from collections.abc import Sequence

NARROWEST = 12  # of a column whose texts are broken


def terminal_width() -> int | None:
    """Columns of the terminal that stdout is, or COLUMNS; None for a file or a pipe, in which nothing is left out."""
    if "COLUMNS" not in os.environ and not (sys.stdout is not None and sys.stdout.isatty()):
        return None
    return shutil.get_terminal_size().columns


def aligned(
    table: Sequence[Sequence[str]], width: int | None = None, drop: Sequence[str] = (), broken: Sequence[str] = ()
) -> tuple[list[str], list[str]]:
    """The lines of a table whose first row is its head, and the heads of the columns that were left out.

    While it is wider than `width`, columns are left out in the order of `drop`; then the texts of the columns `broken`
    go over several lines.
    """
    head, left = list(table[0]), []
    for name in drop:
        if width is None or _total(_widths([_kept(row, table[0], left) for row in table])) <= width:
            break
        if name in head:
            left.append(name)
    rows = [_kept(row, table[0], left) for row in table]
    widths = _widths(rows)
    over = 0 if width is None else _total(widths) - width
    places = [i for i, name in enumerate(rows[0]) if name in broken]
    if over > 0 and places:
        room = (sum(widths[i] for i in places) - over) // len(places)
        for i in places:
            widths[i] = min(widths[i], max(room, NARROWEST))
    lines = []
    for row in rows:
        cells = [_broken(cell, w) for cell, w in zip(row, widths, strict=True)]
        for i in range(max(map(len, cells))):
            parts = [(cell[i] if i < len(cell) else "").ljust(w) for cell, w in zip(cells, widths, strict=True)]
            lines.append("  " + "  ".join(parts).rstrip())
    return lines, left


def _broken(cell: str, width: int) -> list[str]:
    if len(cell) <= width and cell == " ".join(cell.split()):
        return [cell]  # as most: wrapping is slow
    return textwrap.wrap(cell, width, subsequent_indent=" ") or [""]


def wrapped(text: str, width: int | None = None, indent: str = "") -> list[str]:
    """A sentence in lines; those after the first are set in by two blanks. Paths and names are never broken."""
    if width is None:
        return [indent + text]
    wrapper = textwrap.TextWrapper(max(width, 40), initial_indent=indent, subsequent_indent=f"{indent}  ")
    wrapper.break_long_words = wrapper.break_on_hyphens = False
    return wrapper.wrap(text) or [""]


def _kept(row: Sequence[str], head: Sequence[str], left: Sequence[str]) -> list[str]:
    return [cell for cell, name in zip(row, head, strict=True) if name not in left]


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(1, *map(len, column)) for column in zip(*rows, strict=True)]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + 2 * len(widths)
