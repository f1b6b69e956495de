"""What a run was made with: versions, the commit of the clone, the command line."""

import functools
import os
import platform
import shlex
import subprocess
import sys

from mqlearn.paths import PACKAGE

COMMAND = "MQLEARN_COMMAND"  # environment variable: the command line, for workers


@functools.cache
def versions() -> dict[str, str]:
    """Versions of the interpreter and of what computes the numbers."""
    from importlib.metadata import version

    names = ("mqlearn", "numpy", "scipy", "numba", "gymnasium")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}


@functools.cache
def git_commit() -> str | None:
    """Commit of the clone that this package runs from, with a mark if the tree has changes; None elsewhere."""
    root = PACKAGE.parent
    if not (root / ".git").exists():
        return None
    try:
        call = ["git", "-C", str(root), "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"]
        return subprocess.run(call, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def command() -> str:
    """The command line that led here, to be typed again; passwords are left out."""
    from mqlearn.storage.passwords import in_argument

    return os.environ.get(COMMAND) or shlex.join(["mqlearn", *map(in_argument, sys.argv[1:])])
