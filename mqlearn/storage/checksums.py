"""Whether the files of a run are those that were written: by their SHA-256, which its summary holds."""

import json
from collections.abc import Mapping, Sequence
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

from mqlearn import files


def of_file(path: Path) -> str:
    with files.ordinary(path) as file:
        return file_digest(file, "sha256").hexdigest()


def of_summary(summary: Mapping[str, Any]) -> str:
    """Of plain content, but for the entry that holds the checksum itself."""
    content = {key: value for key, value in summary.items() if key != "checksum"}
    return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def damage(folder: Path, names: Sequence[str], known: Mapping[str, str] | None) -> str:
    """What is wrong with the first bad one of some files, by their checksums; empty if all are whole.

    known None: the run is of a version without checksums, and whole if it can be read.
    """
    for name in names:
        try:
            if known is None:
                _read_through(folder / name)
            elif of_file(folder / name) != known.get(name):
                return f"{name} is damaged: it is not what was written"
        except FileNotFoundError:
            return f"{name} is missing: not a complete run folder"
        except Exception as error:  # a damaged file fails in any of its reader's ways
            return f"{name} is damaged or unreadable ({type(error).__name__}: {error})"
    return ""


def _read_through(path: Path) -> None:
    if path.suffix == ".npz":
        files.check_archive(path)
        return
    import yaml

    if not isinstance(yaml.load(files.text_of(path), getattr(yaml, "CSafeLoader", yaml.SafeLoader)), dict):
        raise ValueError("no settings")
