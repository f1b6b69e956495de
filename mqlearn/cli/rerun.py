"""`mqlearn rerun`: repeat a run from its record, with the user's modules named again, and compare the numbers."""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from mqlearn.cli.arguments import CONFIG_DIR, only, parse, take_plugins
from mqlearn.errors import SettingError
from mqlearn.experiments.execute import perform, store_of, tracker
from mqlearn.experiments.settings import compose, identity
from mqlearn.experiments.settings.cell import rebuild, rounded
from mqlearn.experiments.settings.sections import NOT_TRACKED
from mqlearn.files import is_there
from mqlearn.paths import outputs_folder
from mqlearn.rounding import joined
from mqlearn.storage import array_comparison, runs, store


def rerun(arguments: Sequence[str]) -> int:
    """`mqlearn rerun`: repeat a run from its record; 1 if the numbers differ.

    They must be equal bit for bit, but for the last bits of what came through a library (`mqlearn.rounding`).
    """
    options = parse(arguments, values=CONFIG_DIR)
    take_plugins(options)
    if not options.overrides or "=" in options.overrides[0]:
        raise SettingError("rerun", " ".join(arguments), "must name a run folder or an MLflow run id first")
    source, *overrides = options.overrides
    only("rerun", overrides, ("plugins", "tracking", "n_workers"))
    changes = compose.compose(["tracking=mlflow", *overrides])
    recorded = runs.load(source) if is_there(source) else store.find(store_of(changes)[1], source, outputs_folder())
    where = {"tracking": NOT_TRACKED, "n_workers": changes["n_workers"]}
    # defaults for what is newer than the record
    cell = rebuild({**changes, **runs.recorded_settings(recorded), **where}, pinned=True)
    if cell.digest != (known := identity.digest_of(recorded)):
        sys.stderr.write(
            f"warning: the digest is now {cell.digest[:16]}, not {known[:16]}: the numerics version "
            f"({recorded.summary.get('numerics_version')}) or a module in use has changed\n"
        )
    with tempfile.TemporaryDirectory(prefix="mqlearn-") as folder:
        repeated = perform(cell, Path(folder) / "run", tracker(cell.settings))
        new, old = array_comparison.of_run(repeated), array_comparison.of_run(recorded)
        new = {name: array for name, array in new.items() if name in old}  # not what is newer than the record
        sides, place = ("the repetition", "the record"), array_comparison.place_in(recorded)
        rounding = rounded(cell)
        compared = array_comparison.compare(new, old, rounding=rounding, sides=sides, place=place)
    through = joined(rounding.get(name) for name in compared.names)
    libraries = "" if through is None else f"{', '.join(through.through)}, which round by the processor and the version"
    if compared.verdict == "different":
        print(f"different: {', '.join(compared.names)} of {recorded.name}\n  first {compared.difference}")
        if through is not None:
            print(f"  more than {through.within:.0e}, which is all that may come of {libraries}")
        return 1
    if compared.verdict == "same":
        print(f"the same numbers, bit for bit: {recorded.name}")
        return 0
    names = ", ".join(name.partition(" ")[2] for name in compared.names)
    print(f"the same numbers, bit for bit but for {names}: {recorded.name}")
    print(f"{names} agree to {compared.agree}: they come through {libraries}")
    return 0
