"""From an experiment yaml to pictures: run what is missing, read the finished runs, draw, record where it came from."""

import importlib
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from mqlearn.analysis.figures import reference, style
from mqlearn.analysis.statistics.intervals import BANDS
from mqlearn.errors import SettingError
from mqlearn.experiments import execute
from mqlearn.experiments.plans import Plan, plan
from mqlearn.experiments.run_missing import finished
from mqlearn.paths import PACKAGE, outputs_folder

REFERENCE = PACKAGE.parent / "outputs" / "paper"


def figure(
    name: str,
    overrides: Sequence[str],
    config_dir: str | None,
    *,
    band: str | None = None,
    existing: str = "skip",
    check: bool = False,
    store: bool = False,
) -> int:
    """`mqlearn figure`: returns 0, or 1 if `check` finds numbers that differ from the reference data.

    `band` None: that of the yaml. `store` makes this figure's numbers and picture the reference of the clone, in
    outputs/paper.
    """
    if band is not None and band not in BANDS:
        raise SettingError("band", band, f"must be {' or '.join(BANDS)}")
    planned = plan(name, overrides, config_dir)
    band = band or planned.spec.get("band", BANDS[0])
    suffix = f"_band={band}" if band != planned.spec.get("band", BANDS[0]) else ""
    stem = outputs_folder() / "figures" / f"{planned.stem}{suffix}"
    stored = REFERENCE / f"{stem.name}.npz"
    if check and not stored.is_file():
        raise SettingError("--check", stem.name, f"there is no reference data for it in {REFERENCE}")
    module = importlib.import_module(planned.spec["module"])
    with ThreadPoolExecutor(1) as beside:  # what needs no runs, while they are made elsewhere
        known = [beside.submit(module.known, planned.cells)] if hasattr(module, "known") else []
        done = finished(planned, existing)
    ended = [done[one.cell.digest] for one in planned.cells]
    drawn, data = module.from_runs(planned.cells, ended, planned.spec, band, *(one.result() for one in known))
    provenance = {
        "figure": name,
        "command": " ".join(["mqlearn figure", name, *overrides, *([f"band={band}"] if suffix else [])]),
        "settings": _common(planned),
        "digests": {f"{one.panel} | {one.label}": one.cell.digest for one in planned.cells},
        "data_digest": reference.digest(data),
        "versions": execute.versions(),
    }
    pictures = style.save(drawn, stem, provenance)
    rows = [
        {
            "panel": one.panel,
            "curve": one.label,
            "digest": one.cell.digest,
            "run_id": done[one.cell.digest].summary["mlflow_run_id"],
            "folder": str(done[one.cell.digest].folder),
            "status": done[one.cell.digest].status,
        }
        | (module.summary(done[one.cell.digest]) if hasattr(module, "summary") else {})
        for one in planned.cells
    ]
    reference.write_sidecar(
        stem.with_name(f"{stem.name}.json"), data=data, runs=rows, pictures=pictures, provenance=provenance
    )
    for picture in pictures:
        print(picture)
    print(stem.with_name(f"{stem.name}.json"))
    if store:
        reference.write_reference(stored, data)
        shutil.copyfile(pictures[0], stored.with_suffix(".png"))
        print(f"{stored}\n{stored.with_suffix('.png')}")
    if not check:
        return 0
    compared = reference.against_reference(data, stored)
    print(f"reference data: {compared.verdict}" + (f" ({compared.difference})" if compared.difference else ""))
    return 1 if compared.verdict == "different" else 0


def _common(planned: Plan) -> dict[str, Any]:
    """The settings that all cells share."""
    first, *others = (one.cell.settings for one in planned.cells)
    shared = {key: value for key, value in first.items() if all(other.get(key) == value for other in others)}
    hidden = ("tracking", "n_workers", "plugins", "experiment")
    return {key: value for key, value in shared.items() if key not in hidden}
