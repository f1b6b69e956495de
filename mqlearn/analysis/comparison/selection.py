"""Which finished runs a question is about: found on disk, selected by plain overrides, grouped and labelled."""

import contextlib
import functools
import json
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mqlearn.errors import SettingError, nearest
from mqlearn.experiments.settings.cell import canonical
from mqlearn.storage import lookup, runs
from mqlearn.storage.runs import Run
from mqlearn.storage.store import shown as shown_store

_GROUPS = ("env", "algorithm", "step_size", "sampling", "features", "evaluation")
_RULE = ("algorithm", "step_size", "linear")
# What may differ between two runs of which one contains the other: more seeds, or a longer or finer curve.
EXTENT = ("n_seeds", "iterations", "n_checkpoints", "checkpoints")
SILENT = ("experiment", "tracking", "n_workers", "plugins")


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
    _refuse_unknown(outputs, names or (), store)
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
    notes += [f"not counted: {text}" for digest, text in broken.items() if digest not in latest]
    notes += [f"damaged, not counted unless the store has a copy: {text}" for text in damaged]
    return Found(tuple(latest.values()), tuple(notes))


def _refuse_unknown(outputs: Path, names: Sequence[str], store: str | None) -> None:
    here = {runs.slug(name) for name in names} - lookup.experiments(outputs, None).keys()
    known = lookup.experiments(outputs, store) if here else {}
    for name in names:
        if runs.slug(name) in here - known.keys():
            given = [_given_name(outputs / "runs" / folder, text) for folder, text in known.items()]
            expected = f"has no runs in {outputs / 'runs'}" + ("" if store is None else f" or in {shown_store(store)}")
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
    wanted = [(key, _alternatives(text)) for key, _, text in (o.lstrip("+").partition("=") for o in overrides)]
    known = {key for run in found for key in flat(run.settings)} | {*_GROUPS}
    known = {key for key in known if key.split(".")[0] not in SILENT}
    for key, values in wanted:
        if key not in known:
            text = ",".join(map(str, values))
            meant = nearest(key, [*others, *sorted(known)])
            raise SettingError(key, text, f"is no setting of these runs to select by{meant}")
    matched = [(sum(_matches(run, *want) for want in wanted), run) for run in found]
    chosen = [run for count, run in matched if count == len(wanted)]
    if chosen or not found:
        return chosen
    best = max(count for count, _ in matched)
    close: Counter[str] = Counter()
    far: dict[str, float] = {}
    for count, run in matched:
        if count == best:
            words = " ".join(f"{key}={shown(value_of(run, key))}" for key, _ in wanted)
            close[words] += 1
            far[words] = sum(_distance(value_of(run, key), values) for key, values in wanted)
    nearest_first = sorted(close, key=lambda words: (far[words], words))
    listed = [f"  {words}  ({close[words]} run{'s' * (close[words] > 1)})" for words in nearest_first[:6]]
    more = [f"  and {len(close) - 6} more"] if len(close) > 6 else []
    text = " ".join(overrides)
    raise SettingError("selection", text, "\n".join(["no run matches; the nearest that exist:", *listed, *more]))


def standing(found: Sequence[Run], summary: str = "error") -> Found:
    """One run for each rule, block and seed, where several differ only in their seeds, length or checkpoints.

    It is the one whose extent most of its block has, so that checkpoints coincide; then the one with most seeds, then
    the longest.
    """
    extents = Counter((identity(run, summary), extent(run)) for run in found)
    alike: dict[str, list[Run]] = {}
    for run in found:
        rest = {key: value for key, value in run.settings.items() if key not in (*EXTENT, *SILENT)}
        key = [identity(run, summary), canonical(rest), run.summary.get("numerics_version")]
        alike.setdefault(json.dumps(key, sort_keys=True), []).append(run)

    def rank(run: Run) -> tuple:
        return extents[identity(run, summary), extent(run)], *extent(run), run.summary.get("ended") or ""

    kept = [max(members, key=rank) for members in alike.values()]
    notes = []
    for run, members in zip(kept, alike.values(), strict=True):
        if len(members) > 1:
            words = f"{run.settings['n_seeds']} seeds, {run.settings['iterations']} iterations"
            notes.append(
                f"{run.name}: {len(members)} runs differ only in seeds or length; the one with {words} counts "
                "(select by n_seeds= and iterations=)"
            )
    return Found(tuple(kept), tuple(notes))


def extent(run: Run) -> tuple:
    """Seeds, iterations and checkpoints of a run."""
    return tuple(run.settings[key] for key in EXTENT)


# --- identity -----------------------------------------------------------------------------------------------------


def identity(run: Run, summary: str = "error") -> str:
    """What runs must share to be compared, as a text: the model itself, not the name of its environment."""
    settings = run.settings
    tabular = settings["features"].get("name") == "tabular"
    shared = {key: settings[key] for key in ("discount", "reward", "features", "sampling")}
    shared["initial"] = settings["q0"] if tabular else settings["theta0"]
    shared["evaluation"] = settings["evaluation"] if summary == "return" else None
    return json.dumps({"model": model_digest(run), **canonical(shared)}, sort_keys=True)


def streams(run: Run) -> str:
    """What decides the random numbers of a seed, as a text: the model without its discount, sampling and `seed`."""
    rest = {key: run.settings[key] for key in ("seed", "sampling")} | {"numerics": run.summary.get("numerics_version")}
    return json.dumps({"model": model_digest(run), **canonical(rest)}, sort_keys=True)


def model_digest(run: Run) -> str:
    """Digest of the model's arrays, at one discount; of the env settings where the model cannot be built again."""
    settings = run.settings
    return _model_digest(json.dumps([settings["env"], settings.get("plugins") or []], sort_keys=True))


@functools.lru_cache(maxsize=256)
def _model_digest(text: str) -> str:
    from mqlearn.experiments.settings import instantiate
    from mqlearn.experiments.settings import plugins as user_modules

    env, modules = json.loads(text)
    try:
        mdp = instantiate.make("env", env, user_modules.load(modules), {"discount": 0.5})
    except SettingError:  # a module of the user's that is not here
        return text
    return (mdp if mdp.discount == 0.5 else mdp.with_discount(0.5)).digest()


def rule_signature(settings: dict[str, Any]) -> str:
    """Algorithm, step size and the handling of linear features, as a text; a discount within them is the model's."""
    rule = {key: settings.get(key) for key in _RULE}
    step_size = {key: value for key, value in (rule["step_size"] or {}).items() if key != "discount"}
    return json.dumps(canonical(rule | {"step_size": step_size}), sort_keys=True)


# --- settings as texts --------------------------------------------------------------------------------------------


def flat(node: dict[str, Any], above: str = "") -> dict[str, Any]:
    """Leaves of nested settings by their dotted names."""
    leaves: dict[str, Any] = {}
    for key, value in node.items():
        name = f"{above}{key}"
        leaves |= flat(value, f"{name}.") if isinstance(value, dict) else {name: value}
    return leaves


def value_of(run: Run, key: str) -> Any:
    value: Any = run.settings
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value.get("name", value.get("_target_")) if isinstance(value, dict) else value


def _matches(run: Run, key: str, values: Collection[Any]) -> bool:
    return text_of(value_of(run, key)) in {text_of(value) for value in values}


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


def text_of(value: Any) -> str:
    return json.dumps(canonical(value), sort_keys=True, default=str)


def shown(value: Any) -> str:
    return "null" if value is None else str(canonical(value))
