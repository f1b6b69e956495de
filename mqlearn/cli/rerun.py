"""`mqlearn rerun`: repeat a run from its record alone, and compare the numbers."""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from mqlearn.cli.arguments import only, parse
from mqlearn.errors import SettingError
from mqlearn.experiments.execute import perform, tracker
from mqlearn.experiments.settings import compose, identity
from mqlearn.experiments.settings.cell import build
from mqlearn.paths import outputs_folder
from mqlearn.storage import array_comparison, runs, tracking


def rerun(arguments: Sequence[str]) -> int:
    """`mqlearn rerun`: repeat a run from its record alone; 1 if the numbers differ."""
    options = parse(arguments)
    if not options.overrides or "=" in options.overrides[0]:
        raise SettingError("rerun", " ".join(arguments), "must name a run folder or an MLflow run id first")
    source, *overrides = options.overrides
    only("rerun", overrides, ("tracking", "n_workers"))
    changes = compose.compose(["tracking=mlflow", *overrides])
    if Path(source).is_dir():
        recorded = runs.load(source)
    else:
        recorded = tracking.find(tracker(changes).uri or "", source, outputs_folder())
    where = {"tracking": {"name": "none"}, "n_workers": changes["n_workers"]}
    cell = build({**changes, **recorded.settings, **where})  # defaults for what is newer than the record
    if cell.digest != (known := identity.digest_of(recorded)):
        sys.stderr.write(
            f"warning: the digest is now {cell.digest[:16]}, not {known[:16]}: the numerics version "
            f"({recorded.summary.get('numerics_version')}) or a module in use has changed\n"
        )
    with tempfile.TemporaryDirectory(prefix="mqlearn-") as folder:
        repeated = perform(cell, Path(folder) / "run", tracker(cell.settings))
        there, measured = array_comparison.of_run(recorded), array_comparison.of_run(repeated)
        compared = array_comparison.compare(
            {name: array for name, array in measured.items() if name in there},  # not what is newer than the record
            there,
            sides=("the repetition", "the record"),
            place=array_comparison.place_in(recorded),
        )
    if compared.verdict != "same":
        print(f"different: {', '.join(compared.names)} of {recorded.name}\n  first {compared.difference}")
        return 1
    print(f"the same numbers, bit for bit: {recorded.name}")
    return 0
