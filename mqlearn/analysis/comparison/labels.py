"""Blocks of comparable runs, and labels that say what differs between runs of one block."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from mqlearn.analysis.comparison import selection
from mqlearn.analysis.comparison.selection import EXTENT, PROBLEM, SILENT, shown, shown_of
from mqlearn.errors import SettingError
from mqlearn.experiments.presentation.names import of_problem, plain_label
from mqlearn.experiments.settings import earlier_versions, identity
from mqlearn.experiments.settings.override_commands import flat, operator_text, text_of, varied
from mqlearn.storage.runs import Run

_CLOCK = "sampling.clock"  # the one setting of the sampling that is of the rule
_OF_BLOCK = ("env", "operator", "features", "sampling", "evaluation")


@dataclass(frozen=True, eq=False)
class Entry:
    """A run in a comparison. block: text of what it must share with its rivals; label: unique within the block."""

    run: Run
    label: str
    block: str = ""
    names: frozenset[str] = frozenset()  # other names that `against` may use, as `folded`
    note: str = ""  # what must be said of it in every pair

    @property
    def rule(self) -> str:
        """Name of the algorithm."""
        node = self.run.settings["algorithm"]
        return str(node.get("name", node["_target_"]))


class CurveName(NamedTuple):
    """What an experiment yaml calls a rule; panel: what its panel says of the rule, if panels differ in that."""

    label: str
    panel: str = ""


def entries(
    found: Iterable[Run],
    summary: str = "error",
    curves: Mapping[str, CurveName] | None = None,
    *,
    by_point: bool = True,
) -> list[Entry]:
    """The runs with the text of their block and with labels, in the order of `curves` (see `planned`) or sorted.

    A block is what rivals must share: model, operator, discount, reward, Q_0, features and sampling (evaluation too,
    for a return), and the panel of the experiment yaml, where panels differ in the schedule of steps. With `by_point`
    also the point of the grid of `mq.sweep`, so that its rules are compared at each.
    """
    curves = curves or {}
    order = {signature: number for number, signature in enumerate(curves)}
    runs_found = sorted(found, key=lambda run: (order.get(identity.rule_key(run.settings), len(order)), run.name))
    keys = [identity.problem_of(run, summary) for run in runs_found]
    texts = _block_texts(runs_found, keys)
    blocks: dict[str, list[Run]] = {}
    for run, key in zip(runs_found, keys, strict=True):
        panel = curves.get(identity.rule_key(run.settings), CurveName("")).panel
        point = selection.grid_point(run) if by_point else ""
        blocks.setdefault(", ".join(filter(None, (texts[key], panel, point))), []).append(run)
    labels = {signature: curve.label for signature, curve in curves.items()}
    return [entry for text, members in blocks.items() for entry in _labelled(members, text, labels)]


def plain_settings(name: str, config_dir: str | None = None) -> dict[str, Any]:
    """PROBLEM, seed and extent as an experiment yaml has them, but for what its panels or curves set; empty without."""
    from mqlearn.experiments.settings import compose, own_choices

    if name not in own_choices.files("experiment", config_dir):
        return {}
    settings = compose.compose([f"experiment={name}"], config_dir)
    spec = settings.get("figure") or {}
    if not spec.get("curves"):
        return {}
    own = json.dumps([spec.get("grid"), spec["curves"]])
    return {key: settings[key] for key in (*PROBLEM, "seed", *EXTENT) if f'"{key}=' not in own}


def planned(name: str, config_dir: str | None = None) -> dict[str, CurveName]:
    """Rule signature -> curve of an experiment yaml, labels without TeX's $; empty if there is no such yaml."""
    from mqlearn.experiments.plan import expand
    from mqlearn.experiments.settings import compose, own_choices

    if name not in own_choices.files("experiment", config_dir):
        return {}
    spec = compose.compose([f"experiment={name}"], config_dir).get("figure") or {}
    if not spec.get("curves"):
        return {}
    # Panels that say the same of the rule give the same labels: one of them is enough, at 40 ms a curve.
    rule = ("algorithm", "step_size", "linear")
    said = {
        panel: " ".join(o for o in own if o.startswith(rule)) for panel, own in (spec.get("grid") or {"": []}).items()
    }
    expanded = expand(spec, [f"experiment={name}"])
    first = {(said[panel], label): one for panel, label, one in reversed(expanded)}
    places = [(*key, first[key]) for key in dict.fromkeys((said[panel], label) for panel, label, _ in expanded)]
    composed = map(_settled, compose.compose_all([one for _, _, one in places], config_dir))
    several = len(set(said.values())) > 1
    return {
        identity.rule_key(one): CurveName(plain_label(label), words if several else "")
        for one, (words, label, _) in zip(composed, places, strict=True)
    }


def _settled(settings: dict[str, Any]) -> dict[str, Any]:
    """As the record of a run has them; a rule whose module is not here has no runs that could be labelled."""
    from mqlearn.experiments.settings import own_step_size

    try:
        return own_step_size.settled(settings)
    except SettingError:
        return settings


def _labelled(members: Sequence[Run], block: str, labels: dict[str, str]) -> list[Entry]:
    """Entries of one block. A label names what differs between runs of one algorithm, no more."""
    own = [str(run.settings["algorithm"].get("name", run.settings["algorithm"]["_target_"])) for run in members]
    automatic = _distinguished(members, own, (*SILENT, *EXTENT))
    texts = [labels.get(identity.rule_key(run.settings), text) for run, text in zip(members, automatic, strict=True)]
    twice = {text for text, count in Counter(texts).items() if count > 1}
    full = _distinguished(members, texts) if twice else texts
    again = [long if text in twice else text for text, long in zip(texts, full, strict=True)]
    made = [
        Entry(run, label, block, frozenset(map(folded, (label, name, run.digest[:16]))))
        for run, label, name in zip(members, again, automatic, strict=True)
    ]
    counts = Counter(entry.label for entry in made)
    return [replace(e, label=f"{e.label} {e.run.digest[:8]}") if counts[e.label] > 1 else e for e in made]


def _distinguished(members: Sequence[Run], names: Sequence[str], hidden: Sequence[str] = SILENT) -> list[str]:
    """The name of each run with the settings in which the members of this name differ, but for the hidden ones."""
    rivals: dict[str, list[Run]] = {}
    for run, name in zip(members, names, strict=True):
        rivals.setdefault(name, []).append(run)
    words = {run: text for some in rivals.values() for run, text in zip(some, differences(some, hidden), strict=True)}
    return [", ".join([name, *words[run]]) for run, name in zip(members, names, strict=True)]


def differences(rivals: Sequence[Run], hidden: Sequence[str] = SILENT) -> list[list[str]]:
    """What sets each of some rivals of one block apart: its kind of step size, then other settings that differ.

    The settings of a step size are those in which rivals with the same kind differ.
    """
    alike: dict[str, list[Run]] = {}
    for run in rivals:
        alike.setdefault(_step(run), []).append(run)
    varied = _varied(rivals)
    of_step = {step: _varied(some) for step, some in alike.items()}
    found = []
    for run in rivals:
        words = [_step(run)] if len(alike) > 1 else []
        for key, text in _resolved(run).items():
            head = key.split(".")[0]
            of_rule = head not in (*hidden, *_OF_BLOCK) or key == _CLOCK
            differs = key in (of_step[_step(run)] if head == "step_size" else varied)
            if differs and of_rule and "_target_" not in key:
                name = key if head not in ("algorithm", "step_size", "sampling") else key.partition(".")[2]
                words.append(f"{name}={shown(json.loads(text))}")
        found.append(words)
    return found


def _varied(some: Sequence[Run]) -> set[str]:
    """The settings that have more than one value; null stands for one that is missing."""
    texts = [_resolved(run) for run in some]
    return {key for key in set().union(*texts) if len({own.get(key, "null") for own in texts}) > 1}


_texts: WeakKeyDictionary[Run, dict[str, str]] = WeakKeyDictionary()


def _resolved(run: Run) -> dict[str, str]:
    """Resolved settings by dotted name, as texts: kept, since each run is compared with all its rivals."""
    if run not in _texts:
        _texts[run] = {key: text_of(value) for key, value in flat(identity.resolved(run.settings)).items()}
    return _texts[run]


def _step(run: Run) -> str:
    node = run.settings["step_size"]
    return str(node.get("name", node["_target_"]))


def _block_texts(found: Sequence[Run], keys: Sequence[str]) -> dict[str, str]:
    """Block key -> text; two blocks that would read alike also say in which settings they differ."""
    first = dict(zip(reversed(keys), reversed(found), strict=True))
    texts = {key: _block_text(run.settings) for key, run in first.items()}
    for text in {text for text, count in Counter(texts.values()).items() if count > 1}:
        alike = [key for key in texts if texts[key] == text]
        told = {key: identity.resolved(first[key].settings) for key in alike}
        groups = ("env", "sampling", "features")
        flats = {key: flat({group: told[key][group] for group in groups}) for key in alike}
        differing = varied(flats.values())
        for key in alike:
            own = earlier_versions.ADDED | flats[key]  # what an identity leaves out stands for that
            texts[key] += "".join(f", {name}={shown_of(name, own.get(name))}" for name in differing)
    for text in {text for text, count in Counter(texts.values()).items() if count > 1}:  # the code has changed
        for key in [key for key in texts if texts[key] == text]:
            texts[key] += f", model {json.loads(key)['model'][:8]}"
    return texts


def _block_text(settings: dict[str, Any]) -> str:
    names = {group: of_problem(settings[group]) for group in ("env", "features", "sampling")}
    if earlier_versions.public_name(settings["env"]["_target_"]) == "mqlearn.frozen_lake":
        own = shown_of("env.map", settings["env"].get("map"))
        names["env"] += "" if own in names["env"] else f" {own}"
    tabular = identity.is_tabular(settings)
    initial = f"Q_0 = {settings['q0']}" if tabular else f"theta_0 = {settings['theta0']}"
    sampling = settings["sampling"]
    behaviour = f" ({sampling['behaviour']})" if "behaviour" in sampling else ""
    operator = operator_text(settings)
    parts = (
        names["env"], *([f"operator {operator} (errors from its fixed point)"] if operator else []),
        f"discount {settings['discount']:g}", f"{settings['reward']} reward", initial,
        f"{names['features']}{' features' if not tabular else ''}", f"{names['sampling']} sampling{behaviour}",
    )  # fmt: skip
    return ", ".join(map(str, parts))


def named(entries_of_block: Sequence[Entry], name: str) -> list[Entry]:
    """The entries that `name` means: by label, else by automatic label or digest, else by algorithm.

    Of a digest eight digits are enough.
    """
    word = folded(name)
    of_digest = len(word) >= 8
    for test in (
        lambda e: folded(e.label) == word,
        lambda e: word in e.names or (of_digest and e.run.digest.startswith(word)),
        lambda e: folded(e.rule) == word,
    ):
        hit = [entry for entry in entries_of_block if test(entry)]
        if hit:
            return hit
    return []


def folded(text: str) -> str:
    """Letters and digits alone, in lower case: SpeedyQ is speedy_q, MomentumQ $m=2$ is momentum_q m=2."""
    return "".join(c for c in text.lower() if c.isalnum() or c == ".")
