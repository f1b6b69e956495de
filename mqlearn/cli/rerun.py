"""`mqlearn rerun`: repeat a run from its record, with the user's modules named again, and compare the numbers."""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from mqlearn.cli.arguments import CONFIG_DIR, only, parse, take_plugins
from mqlearn.errors import SettingError
from mqlearn.experiments.execute import perform, tracker
from mqlearn.experiments.settings import compose, identity
from mqlearn.experiments.settings.cell import rebuild
from mqlearn.files import is_there
from mqlearn.paths import outputs_folder
from mqlearn.storage import array_comparison, runs, tracking


def rerun(arguments: Sequence[str]) -> int:
    """`mqlearn rerun`: repeat a run from its record; 1 if the numbers differ."""
    options = parse(arguments, values=CONFIG_DIR)
    take_plugins(options)
    if not options.overrides or "=" in options.overrides[0]:
        raise SettingError("rerun", " ".join(arguments), "must name a run folder or an MLflow run id first")
    source, *overrides = options.overrides
    only("rerun", overrides, ("tracking", "n_workers"))
    changes = compose.compose(["tracking=mlflow", *overrides])
    if is_there(source):
        recorded = runs.load(source)
    else:
        recorded = tracking.find(tracker(changes).uri or "", source, outputs_folder())
    where = {"tracking": {"name": "none"}, "n_workers": changes["n_workers"]}
    # defaults for what is newer than the record
    cell = rebuild({**changes, **runs.recorded_settings(recorded), **where}, pinned=True)
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
