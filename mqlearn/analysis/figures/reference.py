"""The record beside a figure (sidecar), and the comparison of its numbers with committed reference data.

Numbers travel as a dict of names to arrays, as the `data` function of a figure gives them (see
mqlearn.storage.array_comparison).
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from mqlearn import files
from mqlearn.errors import SettingError
from mqlearn.files import write_whole
from mqlearn.rounding import STATISTICS
from mqlearn.storage import array_comparison
from mqlearn.storage.array_comparison import Comparison, canonical


def digest(data: Mapping[str, np.ndarray]) -> str:
    """SHA-256 of the names, shapes, types and bits, in the order of the names; all NaN count as one."""
    total = hashlib.sha256()
    for name in sorted(data):
        array = canonical(data[name])
        total.update(f"{name}\0{array.dtype.str}\0{array.shape}\0".encode())
        total.update(array.tobytes())
    return total.hexdigest()


def write_reference(path: Path, data: Mapping[str, np.ndarray]) -> None:
    """Store `data` as .npz; the same numbers give the same bytes."""
    buffer = BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **{name: canonical(data[name]) for name in sorted(data)})
    write_whole(path, buffer.getvalue())


def against_reference(current: Mapping[str, np.ndarray], path: Path, *, part: bool = False) -> Comparison:
    """Compare with the reference that `write_reference` stored; all of it are numbers, none has to have the same bits.

    part: `current` is a part of the figure, and what else the reference holds is passed over. Raises SettingError if
    there is no such file or if it cannot be read.
    """
    stored = _read(path)
    if part:
        stored = {name: array for name, array in stored.items() if name in current}

    def place(name: str, index: tuple[int, ...]) -> tuple[str, int | None]:
        iteration = stored.get(f"{name.rpartition(' | ')[0]} | iteration")
        k = int(iteration[index[-1]]) if iteration is not None and index[-1] < iteration.size else None
        return f"{name}{list(index)}", k

    sides = ("this figure", "the reference")
    rounding = dict.fromkeys(current, STATISTICS)
    return array_comparison.compare(current, stored, rounding=rounding, sides=sides, place=place)


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


def _read(path: Path) -> dict[str, np.ndarray]:
    if not path.is_file():
        raise SettingError("reference", str(path), "an existing file; this figure has no reference data")
    try:
        return files.arrays(path)
    except (OSError, ValueError) as error:
        raise SettingError("reference", str(path), f"a complete .npz file ({error})") from error
