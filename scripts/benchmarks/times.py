"""How long the whole commands take, as one table: outputs/paper/times.json, and times.md, which is made of it.

Each command starts from nothing, in an outputs folder of its own; kernels have been compiled before. A row that is not
measured this time is not in the table.
"""

import datetime
import json
import os
import platform
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mqlearn.experiments.provenance import git_commit

from .commands import FIGURES, of_command

PAPER = Path(__file__).resolve().parents[2] / "outputs" / "paper"
SUITES = ("classic", "paper", "discount", "markovian", "linear")
_SMALL = ("iterations=200", "n_seeds=2", "n_checkpoints=5", "tracking=none")


def measure(*, claims: bool = False, suites: bool = False) -> dict[str, Any]:
    """The table: circumstances, and for each command the seconds that passed and those of CPU, the target if any."""
    _compile()
    started, busy = _now(), os.getloadavg()[0]
    commands: dict[str, Sequence[float | None]] = {
        **{f"mqlearn figure {name}": list(wanted.values()) for name, wanted in FIGURES.items()},
        **({"mqlearn claims": [None]} if claims else {}),
        **({f"mqlearn bench {suite} --store": [None] for suite in SUITES} if suites else {}),
    }
    rows = [row for command, targets in commands.items() for row in _rows(command, targets)]
    return {
        "machine": _processor(), "cores": len(os.sched_getaffinity(0)), "system": platform.system(),
        "python": platform.python_version(), "date": started, "commit": git_commit(), "load_before": round(busy, 2),
        "rows": rows,
    }  # fmt: skip


def written(table: dict[str, Any]) -> str:
    """times.md."""
    lines = [
        "# Times",
        "",
        f"Made by `scripts/benchmark.py times` on {table['date']}, commit {str(table['commit'])[:12]}: "
        f"{table['machine']}, {table['cores']} cores, {table['system']}, Python {table['python']}, "
        f"load {table['load_before']:.2f} before the first command. Kernels had been compiled; set-up is not counted.",
        *([_BUSY] if table["load_before"] > _QUIET else []),
        "",
        "| command | start | time | CPU seconds | target | met? |",
        "|---|---|---|---|---|---|",
        *map(_line, table["rows"]),
        "",
        "What is not in the table has not been measured. `scripts/benchmark.py times --claims --suites` measures all.",
        "",
    ]
    return "\n".join(lines)


_QUIET = 0.5  # load
_BUSY = "The machine was busy with other work: times that pass are too long, CPU seconds by less."


def store(table: dict[str, Any], folder: Path = PAPER) -> None:
    """Write times.json and times.md."""
    (folder / "times.json").write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    (folder / "times.md").write_text(written(table), encoding="utf-8")


def _rows(command: str, targets: Sequence[float | None]) -> list[dict[str, Any]]:
    """A command as often as it has targets, in an outputs folder that is empty at first."""
    rows = []
    with tempfile.TemporaryDirectory() as outputs:
        for target, start in zip(targets, ("from nothing", "again"), strict=False):
            seconds, cpu = of_command(outputs, *command.split()[1:])
            rows.append({"command": command, "start": start, "seconds": seconds, "cpu_seconds": cpu, "target": target})
            print(f"{command}, {start}: {seconds:.0f} s, {cpu:.0f} CPU s", flush=True)
    return rows


def _compile() -> None:
    with tempfile.TemporaryDirectory() as outputs:
        for figure in ("figure1", "figure2_smoke"):
            of_command(outputs, "figure", figure, *_SMALL)


def _line(row: dict[str, Any]) -> str:
    target = row["target"]
    ends = ("-", "-") if target is None else (f"at most {target:g} s", "yes" if row["seconds"] <= target else "no")
    taken = f"{_words(row['seconds'])} | {row['cpu_seconds']:.0f}"
    return f"| `{row['command']}` | {row['start']} | {taken} | {' | '.join(ends)} |"


def _words(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} min"


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")


def _processor() -> str:
    """The model's name as Linux says it."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
