"""Run folders that were found whole before, and need not be read again while their files are the same.

Files are the same if inode, size and times of each are (as Git takes it): nobody changes a file without these. Of a
disk that loses bits they say nothing: `mqlearn doctor`, comparisons and figures read the files themselves.
"""

import json
import os
import time
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

from mqlearn.files import text_of, write_whole
from mqlearn.storage.runs import FILES, Run

_NAME = "looked.json"
_FEW = 200  # new folders for which nothing is written: reading them again takes a tenth of a second
_SETTLED = 2_000_000_000  # nanoseconds: files as young as that may change without that their times do


class Looked:
    """What is known of the run folders of an outputs folder. Digests are those of today."""

    def __init__(self, outputs: Path) -> None:
        self._path = outputs / _NAME
        self._known: dict[str, list] = {}
        self._new: dict[str, list] = {}
        with suppress(OSError, ValueError, RecursionError):
            content = json.loads(text_of(self._path))
            self._known = content if isinstance(content, dict) else {}

    def run(self, folder: str, digest: str) -> tuple[str, dict[int, int]] | None:
        """status (finished | diverged) and `Run.diverged` of the whole run with this digest in a folder, if known."""
        found = self._known.get(folder)
        with suppress(TypeError, ValueError, AttributeError):
            if found is not None and found[0] == digest and found[3:] == [_stamp(folder)[0]]:
                return str(found[1]), {int(seed): int(step) for seed, step in found[2].items()}
        return None

    def keep(self, folder: str, digest: str, run: Run) -> None:
        """Remember a run that was just found whole."""
        stamp, youngest = _stamp(folder)
        if stamp and youngest < time.time_ns() - _SETTLED:
            self._new[folder] = [digest, run.status, {str(seed): k for seed, k in run.diverged.items()}, stamp]

    def write(self) -> None:
        """For the next command, if it is worth it. What the disk refuses costs time alone."""
        if len(self._new) > _FEW:
            with suppress(OSError):
                write_whole(self._path, json.dumps(self._known | self._new))


def _stamp(folder: str) -> tuple[str, int]:
    """A text that is equal while the files of a run are, and when the youngest was changed; empty if one lacks."""
    told, youngest = [], 0
    try:
        for name in FILES:
            found = os.stat(f"{folder}/{name}")  # noqa: PTH116  # a Path for each of 100,000 files takes as long again
            told.append(f"{found.st_ino} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}")
            youngest = max(youngest, found.st_mtime_ns, found.st_ctime_ns)
    except (OSError, ValueError):
        return "", 0
    return blake2b("\n".join(told).encode(), digest_size=16).hexdigest(), youngest
