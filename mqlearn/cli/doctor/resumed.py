"""A sweep in processes that is killed and continued, against one that was left alone."""

import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from mqlearn.cli.doctor import checks
from mqlearn.cli.doctor.checks import CASES, Case, Check, Outcome
from mqlearn.experiments import processes
from mqlearn.experiments.sweep import journal
from mqlearn.storage import array_comparison, lookup, runs

CASE = "markovian table"
_CELLS, _JOBS, _ATTEMPTS = 8, 2, 3
_LOOK = 0.005  # seconds
_ENDING = 30.0  # seconds that workers have to end by themselves once their sweep is gone


def check(case: Case, own: Sequence[str], config_dir: str | None) -> Check:
    """`case`: the one named CASE; `own`: the user's overrides."""
    compared = f"`mqlearn run -m` on {_CELLS} values of seed in {_JOBS} processes, killed and continued = left alone"
    return Check("resumed, sweep", compared, case.text, lambda: resumed(case, own, config_dir))


def resumed(case: Case, own: Sequence[str], config_dir: str | None) -> Outcome:
    first = case.cell.settings["seed"]
    words = checks.overrides(CASES[CASE], [text for text in own if not text.startswith("seed=")])
    folder = ["--config-dir", config_dir] if config_dir else []
    n_cells = _CELLS
    for attempt in range(_ATTEMPTS):  # on a fast machine with short cells, all may be over before the signal
        place = case.folder / f"sweep {attempt}"
        sweep = ["run", "-m", *folder, *words, f"seed=range({first},{first + n_cells})"]
        broken, whole = place / "broken", place / "whole"
        parallel = ["hydra/launcher=joblib", f"hydra.launcher.n_jobs={_JOBS}"]
        _kill_after_the_first_cell([*sweep, *parallel], broken)
        before = lookup.finished(broken, "doctor", store=None)
        if len(before) < n_cells:
            break
        n_cells *= 2
    else:
        return Outcome("not_checked", f"{_ATTEMPTS} sweeps were over before they could be killed: set more iterations")
    for arguments, outputs in (([*sweep, *parallel], broken), ([*sweep, "hydra/launcher=basic"], whole)):
        done = checks.mqlearn(*arguments, outputs=outputs)
        if done.returncode:
            return checks.failed(done)
    return difference(
        before, lookup.finished(broken, "doctor", store=None), lookup.finished(whole, "doctor", store=None)
    )


def difference(before: dict[str, runs.Run], after: dict[str, runs.Run], whole: dict[str, runs.Run]) -> Outcome:
    """Cells by digest: those that were finished when the sweep was killed, those in the end, those of the other."""
    again = [run.name for digest, run in before.items() if after[digest].summary["ended"] != run.summary["ended"]]
    if again:
        return Outcome("different", f"{again[0]}: was finished, and ran again")
    for digest in sorted(after.keys() ^ whole.keys()):
        which = "the continued sweep" if digest in after else "the sweep left alone"
        return Outcome("different", f"cell {digest[:16]}: only in {which}")
    for digest, run in whole.items():
        compared = array_comparison.compare(
            array_comparison.of_run(after[digest]),
            array_comparison.of_run(run),
            sides=("the continued sweep", "the sweep left alone"),
            place=array_comparison.place_in(run),
        )
        if compared.verdict != "same":
            where = f"seed={run.settings['seed']}, {digest[:16]}"
            return Outcome("different", f"cell {where}: {compared.difference}")
    number = f"killed when {len(before)} of {len(whole)} cells were finished"
    return Outcome("same", f"{number}; all {len(whole)} cells, bit for bit")


def _kill_after_the_first_cell(arguments: Sequence[str], outputs: Path) -> None:
    """SIGKILL to the sweep's own process; its workers then end by themselves, which is waited for."""
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(
        checks.command(*arguments), env=checks.environment(outputs), stdout=quiet, stderr=quiet, stdin=quiet
    )
    below: list[int] = []
    try:
        while process.poll() is None and not any((outputs / "runs" / "doctor").glob("[!.]*/summary.json")):
            time.sleep(_LOOK)
        below = processes.descendants(process.pid)
    finally:
        process.kill()
        process.wait()
    end = time.monotonic() + _ENDING
    here = {"state": "running", "host": socket.gethostname()}
    while any(journal.alive(here | {"pid": pid}) for pid in below) and time.monotonic() < end:
        time.sleep(0.05)
