"""What the numbers stand on: interpreter, packages, processor, and the reference data of the figures."""

import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path

from mqlearn.analysis.figures import make, reference
from mqlearn.cli.doctor.checks import Check, Outcome
from mqlearn.experiments import execute, provenance
from mqlearn.experiments.plan import Plan, plan
from mqlearn.experiments.progress import COMPILING, duration
from mqlearn.experiments.settings import identity
from mqlearn.paths import CONF, cores
from mqlearn.storage import lookup, runs

_AFFORDABLE = 30.0  # estimated seconds of one core for a figure that is computed here


def of_machine() -> list[Check]:
    """The processor, which is noted, and versions."""
    return [
        Check("machine", "what compiled code runs on", "", machine),
        Check("versions", "interpreter and packages in the range that this mqlearn names", "", versions),
    ]


def machine() -> Outcome:
    """The processor that numba compiles for, which settings of numba's may narrow."""
    import llvmlite.binding
    from numba import config  # pyright: ignore[reportPrivateImportUsage] of its manual

    name = getattr(config, "CPU_NAME", None) or llvmlite.binding.get_host_cpu_name()
    try:
        features = getattr(config, "CPU_FEATURES", None) or llvmlite.binding.get_host_cpu_features().flatten()
    except RuntimeError:  # not known for this processor
        features = ""
    wide = "with" if "+avx512f" in features.split(",") else "without"
    system = f"{platform.system()} {platform.machine()}"
    return Outcome("noted", f"{system}, {name} {wide} AVX-512, {cores()} cores")


def versions() -> Outcome:
    """As the metadata of the installed mqlearn states them."""
    known = metadata.metadata("mqlearn")
    python = ".".join(map(str, sys.version_info[:3]))
    requirements = metadata.requires("mqlearn") or []
    extras = known.get_all("Provides-Extra") or []
    return in_range(known["Requires-Python"], python, requirements, extras, _installed)


def in_range(
    wanted_python: str | None,
    python: str,
    requirements: Sequence[str],
    extras: Sequence[str],
    installed: Callable[[str], str | None],
) -> Outcome:
    """`installed` gives the version of a package, None where it is absent; packages of an extra may be."""
    from packaging.requirements import Requirement
    from packaging.specifiers import SpecifierSet

    wrong = []
    if not SpecifierSet(wanted_python or "").contains(python, prereleases=True):
        wrong.append(f"Python {python} is outside {wanted_python}")
    seen = [f"Python {python}"]
    parsed = list(map(Requirement, requirements))

    def of(extra: str) -> list[Requirement]:
        return [one for one in parsed if one.marker is not None and one.marker.evaluate({"extra": extra})]

    # An extra is in use where all of its packages are there: each may be there for another's sake.
    used = [extra for extra in extras if of(extra) and all(installed(one.name) for one in of(extra))]
    for wanted in parsed:
        needed = wanted.marker is None or wanted.marker.evaluate({"extra": ""})
        if not needed and not any(wanted in of(extra) for extra in used):
            continue  # also those for other systems or interpreters
        version = installed(wanted.name)
        if version is None:
            if needed:
                wrong.append(f"{wanted.name} is not installed, {wanted.specifier} is needed")
        elif not wanted.specifier.contains(version, prereleases=True):
            wrong.append(f"{wanted.name} {version} is outside {wanted.specifier}")
        else:
            seen.append(f"{wanted.name} {version}")
    return Outcome("outside", "; ".join(wrong)) if wrong else Outcome("inside", ", ".join(seen))


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


# --- figures --------------------------------------------------------------------------------------------------------


def of_figures(outputs: Path, folder: Path, *, overridden: bool) -> list[Check]:
    """Each figure with reference data. outputs: the user's, which are read; folder: where new runs are made."""
    if not make.REFERENCE.is_dir():
        return [_without("there are none here: they are in the repository, not in the installed package")]
    if overridden:
        return [_without("they are those of settings without overrides: `mqlearn doctor` alone")]
    names = [path.stem for path in sorted(make.REFERENCE.glob("*.npz"))]
    names = [name for name in names if (CONF / "experiment" / f"{name}.yaml").is_file()]
    compared = "this machine's numbers = outputs/paper"
    return [
        Check(f"reference, {name}", compared, "", lambda name=name: of_figure(name, outputs, folder)) for name in names
    ]


def _without(reason: str) -> Check:
    return Check("reference", "this machine's numbers = the reference data", "", lambda: Outcome("not_checked", reason))


def of_figure(name: str, outputs: Path, folder: Path) -> Outcome:
    """A curve of each rule on each panel, computed here if that is quick; and all runs, where they are finished."""
    planned = plan(name, ["tracking=none"])
    seen, some = set(), []
    for one in planned.cells:
        key = one.panel, one.settings["algorithm"]["name"]
        some += [one] if key not in seen else []
        seen.add(key)
    number, outcomes = len(planned.cells), []
    if sum(one.seconds for one in some) <= _AFFORDABLE:
        made = [execute.perform(one.cell, folder / name / one.digest, execute.UNTRACKED, quiet=True) for one in some]
        compared = figure_against_reference(replace(planned, cells=tuple(some)), made)
        outcomes.append(_told(compared, f"{len(some)} of {number} curves, computed now"))
    digests = [one.digest for one in planned.cells]
    done = lookup.finished(
        outputs, planned.settings["experiment"]["name"], store=None, digests=digests, digest_of=identity.digest_of
    )
    if len(done) == len({*digests}):
        made = [done[digest] for digest in digests]
        outcomes.append(
            _told(figure_against_reference(planned, made), f"all {number} curves, finished runs{_by_others(made)}")
        )
    if not outcomes:
        seconds = sum(one.seconds for one in planned.cells)
        reason = f"its runs are not finished here (about {duration(seconds)} of one core, {COMPILING})"
        return Outcome("not_checked", f"{reason}: `mqlearn figure {name} --check`")
    order = ("same", "compatible", "different")
    worst = max(outcomes, key=lambda one: order.index(one.verdict))
    return Outcome(worst.verdict, "; ".join(one.detail for one in outcomes))


def figure_against_reference(planned: Plan, made: Sequence[runs.Run]) -> reference.Comparison:
    """The numbers of a figure, or of a part of it, from its runs, with the reference data."""
    module, band = make.module_of(planned.spec), planned.spec.get("band", "ci95")
    _, numbers = module.from_runs(planned.cells, made, planned.spec, band)
    return reference.against_reference(numbers, make.REFERENCE / f"{planned.name}.npz", part=True)


def _told(compared: reference.Comparison, what: str) -> Outcome:
    first = f", first {compared.difference}" if compared.difference else ""
    return Outcome(compared.verdict, f"{what}: {compared.verdict}{first}")


def _by_others(made: Sequence[runs.Run]) -> str:
    """A word on versions that computed finished runs and are not these."""
    here = provenance.versions()
    others = {
        f"{name} {version}"
        for run in made
        for name, version in run.summary.get("versions", {}).items()
        if here.get(name) != version
    }
    return f" (of {', '.join(sorted(others))})" if others else ""
