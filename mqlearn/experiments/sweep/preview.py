"""What a sweep would do, before anything is created."""

import os
from collections.abc import Collection, Mapping
from pathlib import Path

from mqlearn.experiments.progress import COMPILING, duration
from mqlearn.experiments.settings.own_choices import KEY
from mqlearn.experiments.sweep.sweep import Sweep


def preview(sweep: Sweep, kept: Collection[int], composed: Mapping[str, str]) -> str:
    """Counts, time and disk as text; `kept`: complete on disk, not in their store.

    composed: settings of the launcher by key, of yamls and of the command line.
    """
    missing = [one for one in sweep.missing if one.number not in kept]
    jobs = composed.get("hydra.launcher.n_jobs", "-1")
    cores = os.cpu_count() or 1
    at_once = 1 if sweep.launcher == "basic" else int(jobs) if jobs.isdigit() and jobs != "0" else cores
    rates = [
        d.summary["seconds"] / one.seconds for one in sweep.cells if (d := sweep.done.get(one.number)) and one.seconds
    ]
    rate = sorted(rates)[len(rates) // 2] if rates else 1.0
    seconds = 5 + sum(0.2 + rate * one.seconds for one in missing) / at_once if missing else 0
    source = f"from {len(rates)} finished runs of this sweep" if rates else "rough: no run of this sweep is finished"
    size = sum(one.bytes for one in missing) / 1e6
    chunk = f", {sweep.per_job} cells a job" if sweep.per_job > 1 else ""
    lines = [
        f"{len(sweep.cells)} cells, {len(sweep.done)} done, {len(missing)} to run"
        + (f", {len(kept)} complete on disk to be delivered" if kept else ""),
        f"launcher {sweep.launcher}, {at_once} at a time{chunk}; existing={sweep.existing}",
        f"about {duration(seconds)} ({source}; {COMPILING}), about {size:.3g} MB of disk",
        f"experiment: {', '.join(sorted({one.experiment for one in sweep.cells}))}",
    ]
    files = {(group, Path(one["file"])) for cell in sweep.cells for group, one in cell.settings.get(KEY, {}).items()}
    lines += [f"yours: {group.partition('@')[0]}={file.stem} of {file}" for group, file in sorted(files)]
    shown_cells = sweep.cells[:5]
    lines += [
        f"  {one.number:4} {'done' if one.number in sweep.done else '    '} {sweep.labels[one.number]}"
        for one in shown_cells
    ]
    if len(sweep.cells) > len(shown_cells):
        lines.append(f"  and {len(sweep.cells) - len(shown_cells)} more")
    lines.append("Nothing was created.")
    return "\n".join(lines)
