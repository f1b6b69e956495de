"""Which finished runs a question is about: found on disk, selected by plain overrides, grouped and labelled."""

import contextlib
import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mqlearn.analysis.comparison.making import note_on, told_apart
from mqlearn.errors import SettingError, SettingErrors, nearest
from mqlearn.experiments.settings import earlier_versions, identity
from mqlearn.experiments.settings.identity import canonical
from mqlearn.experiments.settings.override_commands import flat, text_of
from mqlearn.learning.setup import resolve_reward
from mqlearn.paths import followed
from mqlearn.problems.environments.frozen_lake import map_name, map_rows
from mqlearn.storage import deletion, lookup, runs
from mqlearn.storage.connection import TrackingError
from mqlearn.storage.effective import effective_settings, filled
from mqlearn.storage.record_schema import GROUPS
from mqlearn.storage.runs import Run

# What may differ between two runs of which one contains the other: more seeds, or a longer or finer curve.
EXTENT = ("n_seeds", "iterations", "n_checkpoints", "checkpoints")
# What a variant of a figure may change of its problem, beside what the figure's panels and curves set.
PROBLEM = ("discount", "reward", "q0", "theta0")
SILENT = identity.UNSCIENTIFIC
GRID_POINT = "grid_point"  # in the summary of a run of `mq.sweep`
_LEFT_OUT = ("not counted", "damaged")  # how a note on a run begins that does not count


@dataclass(frozen=True)
class Found:
    """Runs that count, and what must be said about those that do not."""

    runs: tuple[Run, ...]
    notes: tuple[str, ...] = ()


def find(outputs: Path, names: Sequence[str] | None = None, store: str | None = None) -> Found:
    """The finished runs of some experiments, or of all: each digest once, the one that finished last.

    They are those in the outputs folder, and those that the store alone has. Runs that failed, were killed or are
    damaged do not count, unless the same cell has finished; they are named in the notes. Raises SettingError for an
    experiment without any.
    """
    refuse_unknown(outputs, names or (), store)
    latest: dict[str, Run] = {}
    repeated: Counter[str] = Counter()
    broken: dict[str, str] = {}
    damaged: list[str] = []
    for folder, run, damage in lookup.everywhere(outputs, names, store):
        if damage:
            damaged.append(f"{folder}: {damage}")
        if run is None:
            with contextlib.suppress(SettingError):
                other = runs.load(folder)
                if other.status not in runs.DONE:
                    broken[other.digest] = f"{other.name}: {other.status}, in {folder}"
            continue
        repeated[run.digest] += 1
        ended = run.summary.get("ended") or ""
        if run.digest not in latest or ended > (latest[run.digest].summary.get("ended") or ""):
            latest[run.digest] = run
    notes = [
        f"{run.name}: {repeated[digest]} finished folders of one digest; the newest counts, once"
        for digest, run in latest.items()
        if repeated[digest] > 1
    ]
    notes += _deleted(latest, outputs, store)
    notes += [f"{_LEFT_OUT[0]}: {text}" for digest, text in broken.items() if digest not in latest]
    notes += [f"{_LEFT_OUT[1]}, not counted unless the store has a copy: {text}" for text in damaged]
    return _readable(Found(tuple(latest.values()), tuple(notes)))


def _deleted(latest: Mapping[str, Run], outputs: Path, store: str | None) -> list[str]:
    """What is said of runs on this disk that were deleted in the store."""
    here = {digest: run.folder for digest, run in latest.items() if outputs / "downloads" not in run.folder.parents}
    with contextlib.suppress(TrackingError):  # which has been told
        if store is not None and here and (gone := deletion.deleted(store) & here.keys()):
            return [deletion.note({digest: here[digest] for digest in sorted(gone)})]
    return []


def nothing(found: Found, arguments: Sequence[str], outputs: Path, store: str | None) -> SettingError:
    """What to say where no finished run was found."""
    places = f"{outputs / 'runs'}{' or in the store' if store else ''}"
    problem = "\n".join([f"there is no finished run in {places}", *found.notes])
    return SettingError("selection", " ".join(arguments), problem)


def _readable(found: Found) -> Found:
    """Without the runs whose record is not one that can be read, each named."""
    kept, notes = [], list(found.notes)
    for run in found.runs:
        try:
            runs.check_readable(run)
            kept.append(run)
        except SettingError as error:
            notes.append(f"{_LEFT_OUT[0]}: {run.folder}: {error.admissible}")
    return Found(tuple(kept), tuple(notes))


def refuse_unknown(outputs: Path, names: Sequence[str], store: str | None) -> None:
    """Raise SettingError for an experiment that has no runs in the outputs folder or in the store."""
    here = {runs.slug(name) for name in names} - lookup.experiments(outputs, None).keys()
    known = lookup.experiments(outputs, store) if here else {}
    for name in names:
        if runs.slug(name) in here - known.keys():
            given = [_given_name(outputs / "runs" / folder, text) for folder, text in known.items()]
            expected = f"has no runs in {outputs / 'runs'}" + ("" if store is None else f" or in {store}")
            there = ", ".join(given) or "no experiments at all"
            raise SettingError("experiment.name", name, f"{expected}; there are {there}{nearest(name, given)}")


def _given_name(experiment: Path, otherwise: str) -> str:
    """The name that an experiment was given, by the record of a run of its folder, which has none of its blanks."""
    for folder in sorted(experiment.iterdir()) if experiment.is_dir() else ():
        with contextlib.suppress(SettingError, KeyError, TypeError):
            return str(runs.load(folder).settings["experiment"]["name"])
    return otherwise


def select(found: Sequence[Run], overrides: Sequence[str], others: Sequence[str] = ()) -> list[Run]:
    """The runs whose record has these settings: `group=choice`, `name=value`, with commas for alternatives.

    Raises SettingError for a setting that no run has (the nearest is looked for in `others` too), and, if no run
    matches, with the nearest selections that exist.
    """
    pairs = [(key, _alternatives(text)) for key, _, text in (o.lstrip("+").partition("=") for o in overrides)]
    wanted = [(key, [_as_recorded(found, key, value) for value in values]) for key, values in pairs]
    both = [settings for run in found for settings in (run.settings, identity.resolved(run.settings))]
    known = {key for key in {*GROUPS}.union(*map(flat, both)) if key.split(".")[0] not in SILENT} | {"digest"}
    for key, values in wanted:
        if key not in known:
            text = ",".join(map(str, values))
            meant = nearest(key, [*others, *sorted(known)])
            raise SettingError(key, text, f"is no setting of these runs to select by{meant}")
    matched = [(sum(_matches(run, *want) for want in wanted), run) for run in found]
    chosen = [run for count, run in matched if count == len(wanted)]
    if chosen or not found:
        _refuse_values_of_none(found, wanted)
        return chosen
    best = max(count for count, _ in matched)
    close: Counter[str] = Counter()
    far: dict[str, float] = {}
    for count, run in matched:
        if count == best:
            words = " ".join(
                f"{key}={shown_of(key, value_of(run.settings | {'digest': run.digest[:16]}, key))}" for key, _ in wanted
            )
            close[words] += 1
            far[words] = sum(
                _distance(value_of(run.settings | {"digest": run.digest[:16]}, key), values) for key, values in wanted
            )
    nearest_first = sorted(close, key=lambda words: (far[words], words))
    listed = [f"  {words}  ({close[words]} run{'s' * (close[words] > 1)})" for words in nearest_first[:6]]
    more = [f"  and {len(close) - 6} more"] if len(close) > 6 else []
    text = " ".join(overrides)
    raise SettingError("selection", text, "\n".join(["no run matches; the nearest that exist:", *listed, *more]))


def _refuse_values_of_none(found: Sequence[Run], wanted: Sequence[tuple[str, Sequence[Any]]]) -> None:
    """Raise SettingError for one of several alternatives that no run has: a comparison would miss it unsaid."""
    for key, values in wanted:
        for value in values if len(values) > 1 else ():
            if not any(_matches(run, key, [value]) for run in found):
                settings = [used(run) | {"digest": run.digest[:16]} for run in found]
                known = list(dict.fromkeys(shown_of(key, value_of(one, key)) for one in settings))
                listed = f"{', '.join(known[:12])}{', ...' * (len(known) > 12)}{nearest(str(value), known)}"
                raise SettingError(key, shown_of(key, value), f"no run has it; there are {listed}")


@contextlib.contextmanager
def naming_those_left_out(found: Found) -> Iterator[None]:
    """Around a question about runs: a refusal also says which runs do not count, since they may be what is missing."""
    try:
        yield
    except SettingError as error:
        left = [note for note in found.notes if note.startswith(_LEFT_OUT)]
        if not left or isinstance(error, SettingErrors):
            raise
        raise SettingError(error.setting, error.value, "\n".join([error.admissible, *left])) from None


def of_the_plan(found: Sequence[Run], plain: Mapping[str, Any], summary: str = "error") -> Found:
    """The runs without the variants of an experiment yaml, which make another question.

    plain: what the yaml says of PROBLEM, seed, length and seeds. Where there are runs with its PROBLEM, and then where
    a block has runs with the rest, those with others do not count, unless they are selected.
    """
    usual = {key: value for key, value in plain.items() if key in PROBLEM}
    length = {key: value for key, value in plain.items() if key not in PROBLEM}
    kept = [run for run in found if _has(run, usual)] or list(found)
    problems = {run: identity.problem_of(run, summary) for run in kept}
    with_plain = {problems[run] for run in kept if _has(run, length)}
    kept = [run for run in kept if _has(run, length) or problems[run] not in with_plain]
    left = len(found) - len(kept)
    words = ", ".join(f"{key}={shown(value)}" for key, value in plain.items())
    note = f"{left} run{'s' * (left != 1)} of variants left out: not {words} of the yaml (select by these)"
    return Found(tuple(kept), (note,) * bool(left))


def _has(run: Run, wanted: Mapping[str, Any]) -> bool:
    """Whether a run has these settings; a reward that is left open is what its sampling makes of it."""
    synchronous = identity.draws_all_pairs(run.settings)
    known = {key: resolve_reward(value, synchronous) if key == "reward" else value for key, value in wanted.items()}
    return all(text_of(run.settings.get(key)) == text_of(value) for key, value in known.items())


def by_problem(found: Sequence[Run], summary: str = "error") -> list[list[Run]]:
    """The runs in groups of those that may be compared."""
    groups: dict[str, list[Run]] = {}
    for run in found:
        groups.setdefault(identity.problem_of(run, summary), []).append(run)
    return list(groups.values())


def latest_runs(found: Sequence[Run], summary: str = "error") -> Found:
    """One run for each rule, block and seed, where several differ only in their seeds, length or checkpoints.

    Runs that differ in source, model or numerics stay apart (see `making`), and those of different points of a grid. It
    is the one whose extent most of its block has, so that checkpoints coincide; then the one with most seeds, then the
    longest.
    """
    problems = {run: identity.problem_of(run, summary) for run in found}
    extents = Counter((problems[run], extent(run)) for run in found)
    alike: dict[str, list[Run]] = {}
    for run in found:
        rest = {key: value for key, value in identity.resolved(run.settings).items() if key not in EXTENT}
        alike.setdefault(json.dumps([rest, grid_point(run)], sort_keys=True), []).append(run)

    def rank(run: Run) -> tuple:
        return extents[problems[run], extent(run)], *extent(run), run.summary.get("ended") or ""

    groups, notes = [], []
    for members in alike.values():
        apart = told_apart(members, [extent(run) for run in members])
        groups += apart
        notes += [note_on(apart)] if len(apart) > 1 else []
    kept = [max(members, key=rank) for members in groups]
    for run, members in zip(kept, groups, strict=True):
        if len(members) > 1:
            which = f"one with {run.settings['n_seeds']} seeds, {run.settings['iterations']} iterations counts"
            text = f"runs differ only in seeds or length; the {which} (select by n_seeds= and iterations=)"
            if len(set(map(extent, members))) == 1:
                text = "runs of one rule and one length; the newest counts"
            notes.append(f"{run.name}: {len(members)} {text}")
    return Found(tuple(kept), tuple(notes))


def equal_once(found: Sequence[Run], *, by_point: bool = False) -> Found:
    """The runs without those that are one and the same: of a rule that uses no step size, whichever it was given.

    Each would count as a comparison of its own, and make the correction stricter for all others.
    by_point: within each point of a grid, where no run of another point is its rival.
    """
    alike: dict[str, list[Run]] = {}
    for run in found:
        key = run.digest
        if run.summary.get("step_size_used") is False:
            rest = {name: value for name, value in identity.resolved(run.settings).items() if name != "step_size"}
            key = json.dumps([rest, identity.made_of(run), run.summary.get("numerics_version")], sort_keys=True)
        alike.setdefault(key + grid_point(run) * by_point, []).append(run)
    notes = [
        f"{members[0].name}: {len(members)} equal runs count once, the rule uses no step size"
        for members in alike.values()
        if len({run.digest for run in members}) > 1
    ]
    return Found(tuple(members[0] for members in alike.values()), tuple(notes))


def grid_point(run: Run) -> str:
    """The point of the grid of `mq.sweep` that a run belongs to, in words; empty for all others."""
    return str(run.summary.get(GRID_POINT, ""))


def extent(run: Run) -> tuple:
    """Seeds, iterations and checkpoints of a run."""
    return tuple(run.settings[key] for key in EXTENT)


# --- settings as texts --------------------------------------------------------------------------------------------


def value_of(settings: dict[str, Any], key: str) -> Any:
    value: Any = settings
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value.get("name", value.get("_target_")) if isinstance(value, dict) else value


def _as_recorded(found: Sequence[Run], key: str, value: Any) -> Any:
    """A value as the record of a run has it: the rows of a map, the whole path of a model's file. Raises SettingError.

    What some run has just so stays as it is.
    """
    if key not in ("env.map", "env.path") or any(_matches(run, key, [value]) for run in found):
        return value
    return list(map_rows(value)) if key == "env.map" else str(followed(str(value)))


def _matches(run: Run, key: str, values: Collection[Any]) -> bool:
    """Whether a setting has one of these values, as it was written or as it was meant (m=null is m=2)."""
    if key == "digest":
        return any(run.digest.startswith(str(value)) for value in values)
    both = earlier_versions.complete(run.settings), identity.resolved(run.settings), used(run)
    told = {text_of(value_of(settings, key)) for settings in both}
    return not told.isdisjoint(map(text_of, values))


def used(run: Run) -> dict[str, Any]:
    """The settings of a run as they took effect; of a record that does not tell, as far as the settings alone do."""
    settings = effective_settings(run)
    rule = identity.resolved_node("algorithm", settings["algorithm"])
    return filled(settings, {f"algorithm.{key}": value for key, value in rule.items()})


def _distance(value: Any, wanted: Collection[Any]) -> float:
    """0 for a match; numbers by how far apart they are; what is not set at all is farthest."""
    if text_of(value) in {text_of(one) for one in wanted}:
        return 0.0
    numbers = [one for one in wanted if isinstance(one, int | float)]
    if isinstance(value, int | float) and numbers:
        return min(abs(value - one) / (abs(value) + abs(one) + 1e-300) for one in numbers)
    return 3.0 if value is None else 2.0


def _alternatives(text: str) -> list[Any]:
    """The values of `a,b` or `[0,1]` or `choice(a,b)`, read as Hydra would read them."""
    inner = re.fullmatch(r"choice\((.*)\)", text)
    parts = re.split(r",(?![^\[]*\])", inner[1] if inner else text)
    return [_read(part.strip()) for part in parts]


def _read(text: str) -> Any:
    import yaml

    try:
        return float(text) if re.fullmatch(r"[-+]?[0-9.]+e[-+]?[0-9]+", text, re.IGNORECASE) else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError):
        return text


def shown_of(key: str, value: Any) -> str:
    """The value of a setting as a text: a map by its short name."""
    rows = key == "env.map" and isinstance(value, list) and all(isinstance(row, str) for row in value)
    return map_name(value) if rows and value else shown(value)


def shown(value: Any) -> str:
    return "null" if value is None else str(canonical(value))
