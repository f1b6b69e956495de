"""The cells of a plan as columns, without their settings: what `mqlearn status` needs of plans of 100,000 cells.

outputs/sweeps/ID/index.json lies beside plan.json, from which it is made, and may be deleted. It counts only for the
very file that it was made from, in the versions of today; else the plan itself is read.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mqlearn.experiments.settings import identity
from mqlearn.files import text_of, write_whole
from mqlearn.storage import formats

INDEX = "index.json"
_HEAD = ("id", "started", "ended", "pid", "host")
_TEXTS = ("digest", "name", "experiment", "cell", "group", "folder", "command")
_KEYS = (*_TEXTS, "number", "done_before", "tracked")


def write(plan: Path, head: Mapping[str, Any], cells: Sequence[Mapping[str, Any]]) -> None:
    """Beside a plan that was just written. Raises OSError.   cells: numbered from 1, in their order."""
    columns = {key: _packed([one[key] for one in cells]) for key in _TEXTS}
    before = [one["number"] for one in cells if one["done_before"]]
    diverged = {one["number"]: one["diverged"] for one in cells if one.get("diverged")}
    content = {"of": _stamp(plan), formats.KEY: formats.FORMAT, "digest_version": identity.DIGEST_VERSION}
    content |= {"head": {key: head[key] for key in _HEAD if key in head}, "columns": columns}
    content |= {"done_before": before, "tracked": [bool(one["tracked"]) for one in cells], "diverged": diverged}
    write_whole(plan.with_name(INDEX), json.dumps(content))


def read(plan: Path) -> dict[str, Any] | None:
    """The plan as `journal.read_plan` gives it, without settings and overrides; None where there is no index of it."""
    try:
        content = json.loads(text_of(plan.with_name(INDEX)))
        if content["of"] != _stamp(plan) or content[formats.KEY] != formats.FORMAT:
            return None
        if content["digest_version"] != identity.DIGEST_VERSION:
            return None
        tracked, before = content["tracked"], [False] * len(content["tracked"])
        for number in content["done_before"]:
            before[number - 1] = True
        columns: list[Sequence[Any]] = [_unpacked(content["columns"][key]) for key in _TEXTS]
        columns += [range(1, len(tracked) + 1), before, tracked]
        cells: list[dict[str, Any]] = [dict(zip(_KEYS, one, strict=True)) for one in zip(*columns, strict=True)]
        for number, seeds in content["diverged"].items():
            cells[int(number) - 1]["diverged"] = seeds
        return content["head"] | {"cells": cells}
    except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError):  # damaged: it is only a help
        return None


def _stamp(plan: Path) -> list[int]:
    found = plan.stat()
    return [found.st_size, found.st_mtime_ns]


def _packed(texts: Sequence[str]) -> list[Any]:
    """What all texts begin with, and the rest of each; no list for the rest of equal ones."""
    low, high = (min(texts), max(texts)) if texts else ("", "")
    alike = next((i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))
    first = low[:alike]
    rest = [text[len(first) :] for text in texts]
    return [first, rest if any(rest) else len(rest)]


def _unpacked(packed: Sequence[Any]) -> list[str]:
    first, rest = packed
    if isinstance(rest, int):
        return [first] * rest
    return [first + text for text in rest] if first else [str(text) for text in rest]
