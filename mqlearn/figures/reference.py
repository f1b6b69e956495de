"""The record beside a figure (sidecar), and the comparison of its numbers with committed reference data.

Numbers travel as a dict of names to arrays, as the `data` function of a figure gives them; the last axis of
an array is the checkpoint, a leading axis lists the components of one quantity (mean, low, high).
"""

import hashlib
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import numpy as np

from mqlearn.errors import SettingError
from mqlearn.files import write_whole

RELATIVE = 1e-6  # what other hardware and library versions may change without being another result


@dataclass(frozen=True)
class Comparison:
    """same: equal bits; compatible: within RELATIVE; different: neither. `difference` names the first one."""

    verdict: Literal["same", "compatible", "different"]
    difference: str = ""


def digest(data: Mapping[str, np.ndarray]) -> str:
    """SHA-256 of the names, shapes, types and bits, in the order of the names; all NaN count as one."""
    total = hashlib.sha256()
    for name in sorted(data):
        array = _canonical(data[name])
        total.update(f"{name}\0{array.dtype.str}\0{array.shape}\0".encode())
        total.update(array.tobytes())
    return total.hexdigest()


def write_reference(path: Path, data: Mapping[str, np.ndarray]) -> None:
    """Store `data` as .npz; the same numbers give the same bytes."""
    buffer = BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **{name: _canonical(data[name]) for name in sorted(data)})
    write_whole(path, buffer.getvalue())


def compare(current: Mapping[str, np.ndarray], path: Path) -> Comparison:
    """Compare with the reference that `write_reference` stored.

    Whole numbers must be equal; others may differ by RELATIVE times the largest component at that checkpoint,
    so that the ends of a narrow band are judged by the size of what they enclose. NaN equals NaN. Raises
    SettingError if there is no such file or if it cannot be read.
    """
    reference = _read(path)
    for name in sorted(current.keys() ^ reference.keys()):
        return Comparison("different", f"{name}: only in {'the reference' if name in reference else 'this figure'}")
    first = ""
    for name in sorted(current):
        new, old = _canonical(current[name]), reference[name]
        if new.shape != old.shape:
            return Comparison("different", f"{name}: shape {new.shape}, reference {old.shape}")
        if new.dtype == old.dtype and new.tobytes() == old.tobytes():
            continue
        differs = (new != old) & ~(_is_nan(new) & _is_nan(old))
        beyond = differs & ~_close(new, old)
        if beyond.any():
            return Comparison("different", _describe(name, new, old, beyond))
        if not first:
            first = _describe(name, new, old, differs) if differs.any() else f"{name}: {new.dtype}, {old.dtype}"
    return Comparison("compatible", first) if first else Comparison("same")


def write_sidecar(
    path: Path,
    *,
    data: Mapping[str, np.ndarray],
    runs: Sequence[Mapping[str, Any]],
    pictures: Sequence[Path],
    provenance: Mapping[str, Any],
) -> None:
    """Write the JSON record of a figure: what the pictures embed, and the run ids that they must not hold.

    `runs`: for each curve its panel, label, run id, digest and folder. The SHA-256 of each picture and of
    `data` is added. Raises ValueError for a number that JSON does not have (NaN).
    """
    record = {
        **provenance,
        "runs": list(runs),
        "data_digest": digest(data),
        "pictures": {picture.name: hashlib.sha256(picture.read_bytes()).hexdigest() for picture in pictures},
    }
    text = json.dumps(record, indent=2, sort_keys=True, allow_nan=False, ensure_ascii=False) + "\n"
    write_whole(path, text.encode())


def _canonical(array: np.ndarray) -> np.ndarray:
    """Contiguous little-endian f8, int64 or bool with one NaN."""
    array = np.asarray(array)
    kind = {"f": "<f8", "i": "<i8", "u": "<i8", "b": "|b1"}[array.dtype.kind]
    array = np.array(array, dtype=kind, order="C")
    if kind == "<f8":
        array[np.isnan(array)] = np.nan
    return array


def _is_nan(array: np.ndarray) -> np.ndarray:
    return np.isnan(array) if array.dtype.kind == "f" else np.zeros(array.shape, dtype=bool)


def _close(new: np.ndarray, old: np.ndarray) -> np.ndarray:
    if new.dtype.kind != "f" or old.dtype.kind != "f":
        return np.zeros(new.shape, dtype=bool)
    size = np.fmax(np.abs(new), np.abs(old))
    size = np.where(np.isfinite(size), size, 0.0)
    if size.ndim > 1:
        size = size.max(axis=tuple(range(size.ndim - 1)), keepdims=True)
    with np.errstate(invalid="ignore", over="ignore"):
        return np.abs(new - old) <= RELATIVE * size


def _describe(name: str, new: np.ndarray, old: np.ndarray, where: np.ndarray) -> str:
    place = tuple(int(i) for i in np.argwhere(where)[0])
    return f"{name}{list(place)}: {new[place]!s}, reference {old[place]!s}"


def _read(path: Path) -> dict[str, np.ndarray]:
    if not path.is_file():
        raise SettingError("reference", str(path), "an existing file; this figure has no reference data")
    try:
        with np.load(BytesIO(path.read_bytes()), allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise SettingError("reference", str(path), f"a complete .npz file ({error})") from error
