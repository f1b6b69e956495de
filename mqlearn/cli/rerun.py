"""`mqlearn rerun`: repeat a run from its record, with the user's modules named again, and compare the numbers."""

import math
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from mqlearn.cli.arguments import CONFIG_DIR, only, parse, take_plugins
from mqlearn.errors import SettingError
from mqlearn.experiments.execute import perform, store_of, tracker
from mqlearn.experiments.settings import compose, identity
from mqlearn.experiments.settings.cell import rebuild
from mqlearn.files import is_there
from mqlearn.paths import outputs_folder
from mqlearn.storage import array_comparison, runs, store


def rerun(arguments: Sequence[str]) -> int:
    """`mqlearn rerun`: repeat a run from its record; 1 if the numbers differ.

    They must be equal bit for bit, but for the last bits of what `array_comparison.SOLVED` names.
    """
    options = parse(arguments, values=CONFIG_DIR)
    take_plugins(options)
    if not options.overrides or "=" in options.overrides[0]:
        raise SettingError("rerun", " ".join(arguments), "must name a run folder or an MLflow run id first")
    source, *overrides = options.overrides
    only("rerun", overrides, ("plugins", "tracking", "n_workers"))
    changes = compose.compose(["tracking=mlflow", *overrides])
    recorded = runs.load(source) if is_there(source) else store.find(store_of(changes)[1], source, outputs_folder())
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
        new, old = array_comparison.of_run(repeated), array_comparison.of_run(recorded)
        new = {name: array for name, array in new.items() if name in old}  # not what is newer than the record
        sides, place = ("the repetition", "the record"), array_comparison.place_in(recorded)
        compared = array_comparison.compare(new, old, sides=sides, place=place)
    solved_alone = {*compared.names} <= {*array_comparison.SOLVED}
    apart = array_comparison.solved_apart(new, old) if compared.names and solved_alone else math.inf
    if compared.names and apart > array_comparison.SOLVED_WITHIN:
        print(f"different: {', '.join(compared.names)} of {recorded.name}\n  first {compared.difference}")
        return 1
    print(f"the same numbers, bit for bit: {recorded.name}")
    if compared.names:
        names = ", ".join(name.removeprefix("curve ") for name in compared.names)
        agree = f"{names} agree to 1e{math.ceil(math.log10(max(apart, 1e-16)))}"
        print(f"{agree}: they are solved in another order than by the version that recorded them")
    return 0
