"""`mqlearn claims`: the claims of the paper. What is missing of the runs they need is run, then they are tested."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mqlearn.analysis.claims.claim import (
    Claim,
    ClaimAnswer,
    known,
    load,
    n_pairs_at_most,
    narrowed,
    path_of,
    places,
    runs_of,
)
from mqlearn.checks import check_bool
from mqlearn.errors import SettingError, nearest
from mqlearn.experiments.settings import identity
from mqlearn.paths import outputs_folder

_FILES = ("--json", "--table")
_STORED, _PAPER = "--stored", "--paper"
_FREE = ("seed", "n_seeds", "n_workers", "tracking", "plugins")


def claims(arguments: Sequence[str]) -> int:
    """`mqlearn claims`: 0 whatever the verdicts are."""
    from mqlearn.analysis.claims.answers import Stored, stored
    from mqlearn.analysis.claims.tables import json_text, row, table, terminal
    from mqlearn.analysis.comparison.columns import terminal_width
    from mqlearn.cli.arguments import deliver
    from mqlearn.experiments.provenance import versions
    from mqlearn.experiments.settings.override_commands import command

    names, overrides, smoke, files, config_dir = read(arguments)
    if _STORED in files:
        if overrides or smoke:
            text = "smoke" if smoke else overrides[0]
            raise SettingError("override", text, f"has no effect beside {_STORED} FILE, whose claims have been tested")
        found = stored(files.pop(_STORED), names, config_dir)
    else:
        chosen = [load(name, config_dir) for name in names or known(config_dir)]
        made_by = command("claims", [*names, *(["smoke=true"] if smoke else []), *overrides], config_dir)
        answers = answer(chosen, overrides, smoke=smoke, config_dir=config_dir)
        found = [Stored(one, made_by, versions(), smoke) for one in answers]
    texts = {
        "--json": lambda: json_text([row(one) for one in found]),
        "--table": lambda: table(found),
    }
    if deliver(files, texts):
        print(terminal(found, width=terminal_width()))
    return 0


def read(arguments: Sequence[str]) -> tuple[list[str], list[str], bool, dict[str, Path], str | None]:
    """Names, overrides, whether in small, files by flag, config_dir. Raises SettingError."""
    from mqlearn.cli.arguments import CONFIG_DIR, parse

    options = parse(arguments, values=CONFIG_DIR, written=_FILES, read=(_STORED,), words=(_PAPER,))
    names, overrides, smoke = [], [], False
    if _PAPER in options.words:
        from mqlearn.analysis.papers.paper import load as load_paper

        names += load_paper(options.words[_PAPER], options.config_dir).spec["claims"]
    for text in options.overrides:
        key, equals, value = text.partition("=")
        if not equals:
            names.append(text)
        elif key == "smoke":
            smoke = check_bool("smoke", value)
        elif key.lstrip("+").partition(".")[0] not in _FREE:
            expected = (
                f"is no setting of claims: what a claim needs is written in its yaml; free are {', '.join(_FREE)}"
            )
            raise SettingError(key, value, expected + nearest(key, ("smoke", *_FREE)))
        else:
            overrides.append(text)
    for name in names:
        path_of(name, options.config_dir)
    return list(dict.fromkeys(names)), overrides, smoke, options.files, options.config_dir


# --- runs that it needs -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Needs:
    """places: all combinations of levels of the conditions; lists: (place, label) -> overrides of the cell; run: those
    of them that are run, the others are only computed from."""

    places: tuple[dict[str, str], ...]
    lists: dict[tuple[tuple[str, ...], str], list[str]]
    run: set[tuple[tuple[str, ...], str]]


def needs(claim: Claim, overrides: Sequence[str] = (), *, smoke: bool = False, config_dir: str | None = None) -> Needs:
    """The cells that the checks of a claim look at. Raises SettingError for a label or a level that there is not."""
    from mqlearn.analysis.comparison.labels import plain_label
    from mqlearn.experiments.settings import compose

    spec = runs_of(claim, smoke=smoke)
    experiment = spec.get("experiment")
    start = [f"experiment={experiment}"] if experiment else []
    figure = (compose.compose(start, config_dir).get("figure") or {}) if experiment else {}
    own = {plain_label(label): curve for label, curve in (figure.get("curves") or {}).items()} | spec.get("curves", {})
    factors = {str(name): levels for name, levels in spec["conditions"].items()}
    combined = places(spec)

    def of_place(place: Mapping[str, str], label: str) -> list[str]:
        if label not in own:
            raise SettingError(
                "curve", label, f"must be one of {'; '.join(own)}, in claim {claim.name}{nearest(label, own)}"
            )
        curve = own[label]
        if "panel" in spec:
            panel = spec["panel"].format(**place)
            grid = figure.get("grid") or {}
            if panel not in grid:
                raise SettingError("panel", panel, f"must be one of {'; '.join(grid)}, in claim {claim.name}")
            return [*grid[panel], *(curve[panel] if isinstance(curve, dict) else curve)]
        parts = [{str(level): texts for level, texts in factors[name].items()}[level] for name, level in place.items()]
        return [*itertools.chain.from_iterable(parts), *curve]

    wanted, run = {}, set()
    for check in claim.spec["checks"]:
        labels = [*check.get("of", ()), *([check["minus"]] if check.get("minus") else [])]
        for rival in (*check.get("a", ()), *check.get("b", ())):
            labels += rival.get("best_of", []) if isinstance(rival, dict) else [] if rival == "itself" else [rival]
        for side in ("a_in", "b_in"):
            for name, level in check.get(side, {}).items():
                if name not in factors or str(level) not in map(str, factors[name]):
                    raise SettingError(side, f"{name}: {level}", f"is no condition of claim {claim.name}")
        for name, levels in check["in"].items():
            for level in levels if isinstance(levels, list) else [levels]:
                if name not in factors or str(level) not in map(str, factors[name]):
                    raise SettingError("in", f"{name}: {level}", f"is no condition of claim {claim.name}")
        for place, label in itertools.product(narrowed(check, combined), labels):
            cell = [*start, *spec["base"], *of_place(place, label), *overrides]
            key = tuple(place.values()), label
            wanted[key] = cell
            run |= set() if check["test"].startswith("exact") else {key}
    return Needs(combined, wanted, run)


def answer(
    chosen: Sequence[Claim], overrides: Sequence[str] = (), *, smoke: bool = False, config_dir: str | None = None
) -> list[ClaimAnswer]:
    """Run what is missing for some claims, then test each. Raises SettingError."""
    from mqlearn.analysis.comparison import selection
    from mqlearn.experiments.plan import Plan, composed
    from mqlearn.experiments.run_missing import finished
    from mqlearn.storage import lookup

    wanted = [needs(claim, overrides, smoke=smoke, config_dir=config_dir) for claim in chosen]
    lists = {
        (str(number), "|".join([*place, label])): cell
        for number, one in enumerate(wanted)
        for (place, label), cell in one.lists.items()
    }
    unique = {tuple(cell): place for place, cell in lists.items()}  # claims share cells
    planned = composed({place: list(cell) for cell, place in unique.items()}, config_dir)
    cells = {cell: one.cell for cell, one in zip(unique, planned, strict=True)}
    for claim, one in zip(chosen, wanted, strict=True):
        _enough_seeds(claim, one, min(cells[tuple(cell)].settings["n_seeds"] for cell in one.lists.values()))
    to_run = {cells[tuple(one.lists[key])].digest for one in wanted for key in one.run}
    planned = [one for one in planned if one.digest in to_run]
    on_disk = {identity.digest_of(run): run for run in selection.find(outputs_folder()).runs}
    done = {one.digest: on_disk[one.digest] for one in planned if one.digest in on_disk}
    left = {one.digest for one in planned} - done.keys()
    done |= lookup.with_digests(outputs_folder(), left, planned[0].uri) if left else {}
    by_experiment: dict[str, list[Any]] = {}
    for one in planned:
        if one.digest not in done:
            shown = replace(one, panel=one.label.replace("|", ", "), label="")
            by_experiment.setdefault(one.experiment, []).append(shown)
    for name, members in by_experiment.items():
        done |= finished(Plan(name, members[0].settings, {}, tuple(members), ()))
    return [_test(claim, one, cells, done, smoke=smoke) for claim, one in zip(chosen, wanted, strict=True)]


def _enough_seeds(claim: Claim, need: Needs, n_seeds: int) -> None:
    """Raise SettingError if no outcome could be significant, before anything is run."""
    from mqlearn.analysis.statistics.significance import smallest_p

    specs = [spec for spec in claim.spec["checks"] if spec["test"] == "pairs"]
    family = n_pairs_at_most(claim.spec["checks"], need.places)
    halved = any(isinstance(rival, dict) and "best_of" in rival for spec in specs for rival in spec["b"])
    if pooled := [spec["pooled"] for spec in specs if spec["pooled"] is not None]:
        n_seeds = min(len({place[factor] for place in need.places}) for factor in pooled)
    used, level = n_seeds // 2 if halved else n_seeds, claim.spec["checks"][0]["level"]
    if family and family * smallest_p(used, paired=True) > level:
        fewest = next(n for n in itertools.count(1) if family * smallest_p(n, paired=True) <= level)
        expected = f"must be at least {fewest * (1 + halved)} for claim {claim.name}: it tests {family} pairs together"
        raise SettingError(f"levels of {pooled[0]}" if pooled else "n_seeds", n_seeds, expected)


def _test(
    claim: Claim, need: Needs, cells: Mapping[tuple[str, ...], Any], done: Mapping[str, Any], *, smoke: bool
) -> ClaimAnswer:
    import numpy as np

    from mqlearn.analysis.claims import checks as claim_checks
    from mqlearn.analysis.claims import exponents, predicted, reported, single_runs
    from mqlearn.analysis.claims import pairs as claim_pairs
    from mqlearn.analysis.claims.answers import answered
    from mqlearn.analysis.figures.reference import digest

    used: dict[str, np.ndarray] = {}

    def look(place: Mapping[str, str], label: str) -> Any:
        ordered = tuple(place[name] for name in need.places[0])
        cell = cells[tuple(need.lists[ordered, label])]
        found: Any = done.get(cell.digest)  # no run, where only an exact value is asked
        return claim_checks.Seen(found, cell, label)

    tests = {
        "rate": single_runs.rates,
        "shape": single_runs.shapes,
        "bound": single_runs.bounds,
        "floor": single_runs.floors,
        "predicted": predicted.predictions,
        "exact": reported.values,
        "exact_exponent": reported.exponents,
        "reported": reported.means,
        "ends": single_runs.ends,
        "exponent": exponents.exponent_checks,
    }
    checks: list[Any] = []
    pairs: list[Any] = []
    for spec in claim.spec["checks"]:
        some = narrowed(spec, need.places)
        if spec["test"] == "pairs":
            pairs += claim_pairs.wanted_pairs(spec, some, look)
        elif spec["test"] == "order":
            pairs += predicted.wanted_orders(spec, some, look)
        else:
            found = tests[spec["test"]](spec, some, look)
            checks += [replace(check, aside=bool(spec["aside"])) for check in found]
    checks = [*claim_pairs.decide(pairs), *checks]
    recorded = {run.digest: run for run in done.values()}
    for check in checks:
        for name in check.evidence["digests"]:
            used[name] = recorded[name].curves[check.evidence["metric"]]
    return answered(claim, checks, digest(used), smoke=smoke)
