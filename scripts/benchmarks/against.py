"""The two figures of the paper from nothing, in turns with those of another commit, and where the seconds go.

Both run in the Python that runs this script, so with the same libraries: PYTHONPATH says whose mqlearn is imported. CPU
seconds of all processes are compared, because machines are shared. What is compiled is compiled before.
"""

import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from . import parts
from .commands import cpu_seconds, timed

FIGURES = ("figure1", "figure2")
_COMPILING = {"figure1": "figure1", "figure2": "figure2_smoke"}  # what compiles all that they need, in seconds
WANTED = {"figure1": 0.6, "figure2": 0.6}  # of the CPU seconds of e69c109
_SMALL = ("iterations=200", "n_seeds=2", "n_checkpoints=5")
_HERE = Path(__file__).resolve().parents[2]


def compare(commit: str | None, names: list[str], turns: int) -> Iterator[str]:
    """Lines: each turn, the ratio of the least CPU seconds of each figure, and its parts here."""
    with _trees(commit) as trees:
        for tree in trees.values():
            for name in names:
                _figure(tree, _COMPILING[name], *_SMALL)
        for name in names:
            least = dict.fromkeys(trees, math.inf)
            for turn in range(turns):
                for label, tree in trees.items():
                    wall, cpu = _figure(tree, name)
                    least[label] = min(least[label], cpu)
                    yield f"{name}, turn {turn + 1}, {label}: {wall:.1f} s, {cpu:.1f} CPU s"
            if commit is not None:
                ratio, wanted = least["here"] / least[commit], WANTED[name]
                met = "" if ratio <= wanted else ", MISSED"
                yield f"{name}: {ratio:.2f} times the CPU seconds of {commit} (at most {wanted:g} of e69c109{met})"
            seconds = parts.measured(lambda more, name=name: _figure(_HERE, name, **more)[1])
            yield f"{name} by part, CPU s: " + ", ".join(f"{part} {some:.1f}" for part, some in seconds.items())


@contextmanager
def _trees(commit: str | None) -> Iterator[dict[str, Path]]:
    """This working tree, and a temporary one of the commit, outside the clone."""
    if commit is None:
        yield {"here": _HERE}
        return
    with tempfile.TemporaryDirectory(prefix="mqlearn-") as folder:
        other = Path(folder) / "mqlearn"
        git = ("git", "-C", str(_HERE), "worktree")
        subprocess.run([*git, "add", "--detach", str(other), commit], check=True, capture_output=True)
        try:
            yield {"here": _HERE, commit: other}
        finally:
            subprocess.run([*git, "remove", "--force", str(other)], check=True, capture_output=True)


def _figure(tree: Path, name: str, *overrides: str, **variables: str) -> tuple[float, float]:
    """Seconds of a figure of a tree in an empty outputs folder: that pass, and of CPU."""
    path = os.pathsep.join(filter(None, (variables.pop("PYTHONPATH", ""), str(tree))))
    with tempfile.TemporaryDirectory() as outputs:
        variables |= {"PYTHONPATH": path, "MQLEARN_OUTPUTS": outputs}
        command = [sys.executable, "-m", "mqlearn", "figure", name, *overrides]
        return timed(lambda: cpu_seconds(command, tree, variables))
