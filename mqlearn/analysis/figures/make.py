"""From the finished runs of an experiment yaml to pictures, with the record of where they came from beside them."""

import importlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from mqlearn.analysis import axis as axes_of
from mqlearn.analysis.figures import error_curves, reference, style, theory_lines
from mqlearn.analysis.statistics.intervals import BANDS
from mqlearn.checks import choice
from mqlearn.errors import SettingError, nearest
from mqlearn.experiments.settings.cell import measured_by
from mqlearn.paths import PACKAGE, outputs_folder

if TYPE_CHECKING:
    from mqlearn.experiments.plan import Plan
    from mqlearn.storage.runs import Run

_KINDS = ("error_curves", "exponents", "learning_curves")
REFERENCE = PACKAGE.parent / "outputs" / "paper"


@dataclass(frozen=True, eq=False)
class Drawing:
    """A figure that is to be drawn.

    module: has `from_runs` and, if it shows what needs no runs, `known`.   stem: path of the pictures, less its suffix.
    """

    planned: "Plan"
    module: ModuleType
    band: str
    stem: Path
    command: str

    @property
    def reference(self) -> Path:
        """The committed numbers of this figure, whether there are any or not."""
        return REFERENCE / f"{self.stem.name}.npz"

    def known(self) -> list[Any]:
        """What `draw` needs beside the runs: exact values, which take their time. Empty for most figures."""
        return [self.module.known(self.planned.cells)] if hasattr(self.module, "known") else []

    def draw(self, done: "Mapping[str, Run]", known: list[Any], versions: Mapping[str, str]) -> "Drawn":
        """Write the pictures and their record. done: the finished run of each cell, by digest."""
        cells, spec = self.planned.cells, self.planned.spec
        ended = [done[one.digest] for one in cells]
        with style.on_page(spec.get("width")):
            drawn, data = self.module.from_runs(cells, ended, spec, self.band, *known)
        provenance = {
            "figure": self.planned.name,
            "command": self.command,
            "settings": _common(self.planned),
            "digests": {f"{one.panel} | {one.label}": run.digest for one, run in zip(cells, ended, strict=True)},
            "data_digest": reference.digest(data),
            "versions": dict(versions),
        }
        pictures = style.save(drawn, self.stem, provenance)
        rows = [
            {
                "panel": one.panel,
                "curve": one.label,
                "digest": run.digest,
                "run_id": run.summary["mlflow_run_id"],
                "folder": str(run.folder),
                "status": run.status,
            }
            | (self.module.summary(run) if hasattr(self.module, "summary") else {})
            for one, run in zip(cells, ended, strict=True)
        ]
        record = self.stem.with_name(f"{self.stem.name}.json")
        reference.write_sidecar(record, data=data, runs=rows, pictures=pictures, provenance=provenance)
        return Drawn(data, (*pictures, record))


@dataclass(frozen=True, eq=False)
class Drawn:
    """A figure on disk: its numbers by name, and its files, pictures first."""

    data: dict[str, Any]
    files: tuple[Path, ...]

    def store(self, path: Path) -> tuple[Path, Path]:
        """Make these numbers and the first picture the reference data."""
        reference.write_reference(path, self.data)
        shutil.copyfile(self.files[0], path.with_suffix(".png"))
        return path, path.with_suffix(".png")


def drawing(
    planned: "Plan", command: str, band: str | None = None, axis: str | None = None, width: str | None = None
) -> Drawing:
    """The figure of a plan, in the outputs folder; `band`, `axis` or `width` None: that of the yaml.

    Raises SettingError for one that there is not.
    """
    own: str = planned.spec.get("band", BANDS[0])
    band = own if band is None else str(choice("band", band, BANDS))
    asked = [f"band={band}"] * (band != own)
    if (wanted := axis or planned.spec.get("axis")) is not None:
        choice("figure.axis", wanted, axes_of.KINDS)
    choice("figure.scales", planned.spec.get("scales", error_curves.SCALES[0]), error_curves.SCALES)
    if axis is not None and axis != planned.spec.get("axis"):
        planned, asked = replace(planned, spec=planned.spec | {"axis": axis}), [*asked, f"figure.axis={axis}"]
    style.width_in_inches(width or planned.spec.get("width"))
    if width is not None and width != planned.spec.get("width"):
        planned, asked = replace(planned, spec=planned.spec | {"width": width}), [*asked, f"figure.width={width}"]
    suffix = "".join(f"_{one}" for one in asked)
    stem = outputs_folder() / "figures" / f"{planned.stem}{suffix}"
    module = module_of(planned.spec)
    check_metric(planned)
    return Drawing(planned, module, band, stem, " ".join([command, *asked]))


def module_of(spec: Mapping[str, Any]) -> ModuleType:
    """The module that draws a figure, by the name in its yaml. Raises SettingError."""
    name, ours = str(spec.get("module")), ", ".join(f"mqlearn.analysis.figures.{kind}" for kind in _KINDS)
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        expected = f"cannot be imported ({error}); ours are {ours}{nearest(name.rpartition('.')[2], _KINDS)}"
        raise SettingError("figure.module", name, expected) from None
    if not callable(getattr(module, "from_runs", None)):
        raise SettingError("figure.module", name, f"draws no figure: it has no function from_runs; ours are {ours}")
    return module


def check_metric(planned: "Plan") -> None:
    """Raise SettingError if the metric of a figure is not what all its runs will record: before they are run."""
    metric = planned.spec.get("metric")
    theory_lines.wanted(planned.spec)
    module = module_of(planned.spec)
    if hasattr(module, "check"):
        module.check(planned.cells, planned.spec)
    if metric is None and not str(planned.spec["module"]).endswith(".error_curves"):
        return
    own = planned.spec.get("metric_of") or {}
    for label in own:
        if label not in (curves := planned.spec["curves"]):
            raise SettingError("figure.metric_of", label, f"must be one of the curves{nearest(label, curves)}")
    for one in planned.cells:
        known = measured_by(one.cell)
        if (metric := own.get(one.label, planned.spec.get("metric"))) not in known:
            expected = f"is not recorded by {one.panel or planned.name}, {one.label}; recorded are {', '.join(known)}"
            raise SettingError("figure.metric", metric, expected + nearest(str(metric), known))


def _common(planned: "Plan") -> dict[str, Any]:
    """The settings that all cells share."""
    first, *others = (one.settings for one in planned.cells)
    shared = {key: value for key, value in first.items() if all(other.get(key) == value for other in others)}
    hidden = ("tracking", "n_workers", "plugins", "experiment")
    return {key: value for key, value in shared.items() if key not in hidden}
