"""`mqlearn figure NAME`: run what is missing for a figure, then draw it."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from mqlearn.analysis.axis import KINDS
from mqlearn.analysis.figures import make, reference
from mqlearn.analysis.statistics.intervals import BANDS
from mqlearn.checks import choice
from mqlearn.cli.arguments import CONFIG_DIR, parse, take, take_existing
from mqlearn.errors import SettingError
from mqlearn.experiments.plan import plan
from mqlearn.experiments.provenance import versions
from mqlearn.experiments.run_missing import finished
from mqlearn.experiments.settings.override_commands import command


def figure(arguments: Sequence[str]) -> int:
    """`mqlearn figure`: 0, or 1 if --check finds numbers that differ from the reference data.

    --store makes this figure's numbers and picture the reference of the clone, in outputs/paper.
    """
    options = parse(arguments, flags=("--check", "--store"), values=CONFIG_DIR)
    if not options.overrides or "=" in options.overrides[0]:
        raise SettingError("figure", " ".join(arguments), "must name a figure first, for example figure1")
    band, axis, width = take(options, "band"), take(options, "figure.axis"), take(options, "figure.width")
    existing = take_existing(options) or "skip"
    name, *overrides = options.overrides
    if band is not None:
        choice("band", band, BANDS)
    if axis is not None:
        choice("figure.axis", axis, KINDS)
    planned = plan(name, overrides, options.config_dir)
    wanted = make.drawing(planned, command("figure", [name, *overrides], options.config_dir), band, axis, width)
    if "--check" in options.given and not wanted.reference.is_file():
        raise SettingError("--check", wanted.stem.name, f"there is no reference data for it in {make.REFERENCE}")
    drawn = _drawn(wanted, existing)
    stored = drawn.store(wanted.reference) if "--store" in options.given else ()
    print("\n".join(map(str, (*drawn.files, *stored))))
    return _compared(drawn, wanted) if "--check" in options.given else 0


def draw(name: str, overrides: Sequence[str] = (), config_dir: str | None = None) -> make.Drawn:
    """Run what is missing for a figure, then draw it as its yaml says. Raises SettingError."""
    planned = plan(name, list(overrides), config_dir)
    return _drawn(make.drawing(planned, command("figure", [name, *overrides], config_dir)), "skip")


def _drawn(wanted: make.Drawing, existing: str) -> make.Drawn:
    with ThreadPoolExecutor(1) as beside:  # what needs no runs, while they are made elsewhere
        known = beside.submit(wanted.known)
        done = finished(wanted.planned, existing)
    return wanted.draw(done, known.result(), versions())


def _compared(drawn: make.Drawn, wanted: make.Drawing) -> int:
    compared = reference.against_reference(drawn.data, wanted.reference)
    print(f"reference data: {compared.verdict}" + (f" ({compared.difference})" if compared.difference else ""))
    return 1 if compared.verdict == "different" else 0
