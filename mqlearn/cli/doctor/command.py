"""`mqlearn doctor`: one line a check, a JSON file of them, and an exit code that says whether all hold."""

import json
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mqlearn.cli.arguments import CONFIG_DIR, only, parse
from mqlearn.cli.doctor.checks import HOLDS, Check, Outcome, cases, of_case
from mqlearn.errors import SettingError
from mqlearn.experiments import processes
from mqlearn.experiments.settings import plugins
from mqlearn.files import deliver
from mqlearn.paths import outputs_folder

_SETTINGS = ("algorithm", "step_size", "discount", "iterations", "n_seeds", "seed", "plugins")


@dataclass(frozen=True)
class Line:
    """A check that was carried out."""

    name: str
    verdict: str
    holds: bool
    compared: str
    settings: str
    detail: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.verdict:12}{self.name}: {self.compared}: {self.detail} ({self.seconds:.1f} s)"


def doctor(arguments: Sequence[str]) -> int:
    """`mqlearn doctor`: 0 if all checks hold, else 1. Raises SettingError before anything runs."""
    from mqlearn.cli.doctor import resumed, surroundings

    options = parse(arguments, values=CONFIG_DIR, written=("--json",))
    own, config_dir = options.overrides, options.config_dir
    only("doctor", own, _SETTINGS)
    with TemporaryDirectory(prefix="mqlearn-doctor-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        made = cases(own, config_dir, folder)
        figures = surroundings.of_figures(outputs_folder(), folder / "figures", overridden=bool(own))
        planned = surroundings.of_machine()
        for case in made:
            planned += of_case(case)
            planned += [resumed.check(case, own, config_dir)] if case.name == resumed.CASE else []
        with processes.ending_promptly(lambda: None):
            lines = _carried_out([*planned, *figures])
    if "--json" in options.files:
        deliver("--json", options.files["--json"], json.dumps([asdict(line) for line in lines], indent=2) + "\n")
    failing = [line.name for line in lines if not line.holds]
    unknown = sum(line.verdict == "not_checked" for line in lines)
    left = f", {unknown} of them could not be checked" if unknown else ""
    if failing:
        print(f"{len(failing)} of {len(lines)} checks do not hold: {'; '.join(failing)}")
        return 1
    print(f"{len(lines)} checks, none fails{left}")
    return 0


def _carried_out(checks: Sequence[Check]) -> list[Line]:
    """The lines, printed as they come, below their settings."""
    lines: list[Line] = []
    for check in checks:
        if check.settings != (lines[-1].settings if lines else ""):
            print(f"\n{check.settings or 'Figures of the paper'}")
        lines.append(carried_out(check))
        print(lines[-1], flush=True)
    print()
    return lines


def carried_out(check: Check) -> Line:
    """Carry out a check; a fault in one stops no other, and keeps its traceback."""
    live = sys.stderr.isatty()
    if live:
        sys.stderr.write(f"\r\033[Kchecking: {check.name}")
        sys.stderr.flush()
    started = time.monotonic()
    try:
        with plugins.own_code():
            outcome = check.carry_out()
    except SettingError:
        raise
    except Exception as error:
        traceback.print_exc()
        outcome = Outcome("failed", f"{type(error).__name__}: {error}")
    finally:
        if live:
            sys.stderr.write("\r\033[K")
    seconds = round(time.monotonic() - started, 2)
    facts: dict[str, Any] = {"name": check.name, "compared": check.compared, "settings": check.settings}
    return Line(**facts, **asdict(outcome), holds=outcome.verdict in HOLDS, seconds=seconds)
