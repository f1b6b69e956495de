"""Two sets of named arrays, bit by bit: the same, close enough, or where they first differ.

Numbers travel as a dict of names to arrays; the last axis of an array is the checkpoint, where it has one, and a
leading axis lists the components of one quantity (seeds; mean, low, high).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mqlearn.rounding import Rounding
from mqlearn.storage.runs import AXES, Run

Numbers = Mapping[str, np.ndarray]
Place = Callable[[str, tuple[int, ...]], tuple[str, int | None]]  # of an entry: what it is called, and its iteration
_OF_SEEDS = ("q", "acting", "theta", "theta_average", "theta_acting")  # tables whose first axis is the seed


@dataclass(frozen=True)
class Comparison:
    """same: equal bits; compatible: within a tolerance; different: neither. `difference` names the first one, which
    is the earliest where iterations are known; `names` are the arrays that differ. apart: the largest difference within
    a tolerance, relative to what the tolerance is relative to.
    """

    verdict: Literal["same", "compatible", "different"]
    difference: str = ""
    names: tuple[str, ...] = ()
    apart: float = 0.0

    @property
    def agree(self) -> str:
        """How far what is compatible agrees: a power of 10."""
        return f"1e{math.ceil(math.log10(max(self.apart, 1e-16)))}"


def _by_index(name: str, index: tuple[int, ...]) -> tuple[str, int | None]:
    return f"{name}{list(index)}", None


def compare(
    new: Numbers,
    old: Numbers,
    *,
    rounding: Mapping[str, Rounding] | None = None,
    sides: tuple[str, str] = ("the first", "the second"),
    place: Place = _by_index,
) -> Comparison:
    """How `new` differs from `old`; `sides` is what the two are called.

    Bits must be equal, but for arrays of floats with a `rounding`: these may differ by its tolerance, relative to its
    scale or to the largest component at that checkpoint, so that the ends of a narrow band are judged by the size of
    what they enclose. All NaN are equal.
    """
    rounding = rounding or {}
    alone = sorted(new.keys() ^ old.keys())
    if alone:
        holder = sides[0] if alone[0] in new else sides[1]
        return Comparison("different", f"{alone[0]}: only in {holder}", tuple(alone))
    beyond: list[tuple[float, str, str]] = []
    near: list[tuple[float, str, str]] = []
    largest = 0.0
    for name in sorted(new):
        a, b = canonical(new[name]), canonical(old[name])
        if a.shape != b.shape:
            beyond.append((-1, f"{name}: shape {a.shape}, {sides[1]} {b.shape}", name))
            continue
        differs = _bits_differ(a, b)
        known = rounding.get(name)
        apart = None if known is None else _apart(a, b, known.scale)
        wrong = differs if apart is None or known is None else differs & ~(apart <= known.within)
        if wrong.any():
            beyond.append((*_describe(name, a, b, wrong, sides[1], place), name))
        elif differs.any() and apart is not None:
            near.append((*_describe(name, a, b, differs, sides[1], place), name))
            largest = max(largest, float(apart[differs].max()))
        elif a.dtype != b.dtype:
            (near if known else beyond).append((np.inf, f"{name}: {a.dtype}, {sides[1]} {b.dtype}", name))
    found = beyond or near
    if not found:
        return Comparison("same")
    _, text, _ = min(found, key=lambda one: one[0])
    return Comparison("different" if beyond else "compatible", text, tuple(name for *_, name in found), largest)


def of_run(run: "Run", n_seeds: int | None = None) -> dict[str, np.ndarray]:
    """All arrays of a run; with `n_seeds`, those of its first seeds, without what sums over the seeds."""
    if n_seeds is None:
        curves, tables = dict(run.curves), dict(run.tables)
    else:
        curves = {name: curve if name in AXES else curve[:n_seeds] for name, curve in run.curves.items()}
        tables = {name: run.tables[name][:n_seeds] for name in _OF_SEEDS if name in run.tables}
    curves.pop("samples", None)  # follows from the iterations and the settings; older runs have none
    if (run.summary.get("optimum") or {}).get("success_probability", 0) is None:  # no goal: older runs have zeros
        curves = {name: curve for name, curve in curves.items() if not name.startswith("success_")}
    named = {f"curve {name}": array for name, array in curves.items()}
    return named | {f"table {name}": array for name, array in tables.items()}


def place_in(run: "Run") -> Place:
    """The entries of `of_run` by seed and iteration."""
    iteration = run.curves["iteration"]

    def place(name: str, index: tuple[int, ...]) -> tuple[str, int | None]:
        kind, _, what = name.partition(" ")
        if kind == "curve" and what not in AXES:
            return f"{name}, seed {index[0]}", int(iteration[index[1]])
        if what in _OF_SEEDS:
            return f"{name}, seed {index[0]}, entry {list(index[1:])}", None
        return f"{name}, entry {list(index)}", None

    return place


def canonical(array: np.ndarray) -> np.ndarray:
    """Contiguous little-endian f8, int64 or bool with one NaN."""
    array = np.asarray(array)
    kind = {"f": "<f8", "i": "<i8", "u": "<i8", "b": "|b1"}[array.dtype.kind]
    array = np.array(array, dtype=kind, order="C")
    if kind == "<f8":
        array[np.isnan(array)] = np.nan
    return array


def _bits_differ(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.dtype == b.dtype and a.dtype.kind == "f":
        return a.view(np.int64) != b.view(np.int64)
    return np.asarray(a != b)


def _apart(a: np.ndarray, b: np.ndarray, scale: float) -> np.ndarray | None:
    """Differences relative to the scale, or to the largest component at the checkpoint if that is larger; NaN where one
    is infinite or none. None for whole numbers."""
    if a.dtype.kind != "f" or b.dtype.kind != "f":
        return None
    size = np.fmax(np.abs(a), np.abs(b))
    size = np.where(np.isfinite(size), size, 0.0)
    if size.ndim > 1:
        size = size.max(axis=tuple(range(size.ndim - 1)), keepdims=True)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        return np.where(a == b, 0.0, np.abs(a - b) / np.maximum(size, scale))  # of the signs of zeros, 0/0


def _describe(
    name: str, a: np.ndarray, b: np.ndarray, where: np.ndarray, other: str, place: Place
) -> tuple[float, str]:
    """Iteration (infinite if there is none) and text of the first entry, the earliest checkpoint first."""
    index = tuple(int(i) for i in np.argwhere(where.T)[0][::-1])
    text, k = place(name, index)
    one, two = a[index].item(), b[index].item()
    largest = max(abs(one), abs(two))
    relative = abs(one - two) / largest if largest and np.isfinite(largest) else 0.0 if largest == 0 else np.inf
    at = "" if k is None else f"k = {k}, "
    return np.inf if k is None else k, f"{text}: {one!r}, {other} {two!r} ({at}relative difference {relative:.2g})"
