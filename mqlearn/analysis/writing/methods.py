"""A paragraph on methods, from the records of runs alone: what a paper must say so that others can repeat it."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mqlearn.analysis.comparison import labels
from mqlearn.analysis.comparison.selection import shown
from mqlearn.analysis.decisions.decision import DECIDED
from mqlearn.experiments.presentation.names import plain_label
from mqlearn.experiments.settings.override_commands import flat
from mqlearn.paths import outputs_folder
from mqlearn.storage.effective import effective_settings
from mqlearn.storage.runs import Run


def paragraph(found: Sequence[Run], record: Mapping[str, Any], verdicts: Sequence[Mapping[str, Any]] = ()) -> str:
    """Sentences on problems, rules, samples, seeds, what was measured, tests, tuning and software.

    record: what the figure or report says of itself (`mqlearn explain`).   verdicts: as `comparison.row` makes them.
    """
    made = labels.entries(found)
    names = {digest: plain_label(label.partition(" | ")[2] or label) for label, digest in record["digests"].items()}
    parts = [_problems(made), _rules(made, names), _samples(found), _measured(found), _band(record), _tests(verdicts)]
    if verdicts and any(DECIDED in run.summary for run in found):
        parts.append("These tests take numbers of seeds as fixed, and make no allowance for looks at fewer ones.")
    parts += [
        "The records do not say how parameters were chosen; mqlearn chose none.",
        _software(found, record),
    ]
    return " ".join(filter(None, parts))


def _problems(made: Sequence[labels.Entry]) -> str:
    blocks = list(dict.fromkeys(entry.block for entry in made))
    return f"Rules were compared on {_several(len(blocks), 'problem')}: {'; '.join(blocks)}."


def _rules(made: Sequence[labels.Entry], names: Mapping[str, str]) -> str:
    """Each rule once, by the name that the file has for it, with its parameters and its step size."""
    told = {}
    for entry in made:
        settings = effective_settings(entry.run)
        step = settings["step_size"]
        words = [", ".join([entry.rule, *_numbers(settings["algorithm"])])]
        words.append(", ".join([f"step size {step.get('name', step.get('_target_'))}", *_numbers(step)]))
        told[f"{names.get(entry.run.digest, entry.label)} ({'; '.join(words)})"] = None
    return f"The rules were {'; '.join(told)}."


def _numbers(node: Mapping[str, Any]) -> list[str]:
    """The settings of a choice that are set, as `m = 2`."""
    settings = flat(dict(node))
    return [
        f"{key} = {shown(value)}"
        for key, value in settings.items()
        if value is not None and value is not False and key.rpartition(".")[2] not in ("_target_", "name", "compiled")
    ]


def _samples(found: Sequence[Run]) -> str:
    """How many iterations, seeds and samples, and which runs saw the same ones."""
    lengths = " or ".join(sorted({f"{run.settings['iterations']:,} iterations" for run in found}))
    seeds = " or ".join(map(str, sorted({run.settings["n_seeds"] for run in found})))
    bases = sorted({run.settings["seed"] for run in found})
    base = f"seed = {', '.join(map(str, bases))}"
    text = f"Each run had {lengths} and {seeds} independent seeds ({base})."
    common = " Runs on one problem with the same sampling saw the same samples (common random numbers)."
    return text + (common if len(bases) == 1 else "") + _sequential(found)


def _sequential(found: Sequence[Run]) -> str:
    """Of runs whose number of seeds came of a decision, how that was made."""
    decided = [run for run in found if DECIDED in run.summary]
    if not decided:
        return ""
    methods = " ".join(dict.fromkeys(_method(str(run.summary[DECIDED])) for run in decided))
    of = f"{len(decided)} of the {_several(len(found), 'run')}"
    return f" How many seeds {of} have depends on what they showed. {methods}"


def _method(decided_by: str) -> str:
    """What a decision says of itself: in its file beside the runs, or, of results in memory, at once."""
    if not decided_by.endswith(".json"):
        return decided_by
    try:
        record = json.loads((outputs_folder() / "decisions" / Path(decided_by).name).read_text(encoding="utf-8"))
        return str(record["method"])
    except (OSError, ValueError, KeyError, TypeError):
        return f"The looks stand in decisions/{decided_by}, which is not here."


def _measured(found: Sequence[Run]) -> str:
    q = all("q_error" in run.curves for run in found)
    theta = all("theta_error" in run.curves for run in found)
    where = Counter(str(run.settings["n_checkpoints"]) for run in found)
    at = f"at {' or '.join(where)} checkpoints"
    if q:
        return (
            f"The error is max |Q_k - Q*| over the reachable, non-terminal, admissible pairs, {at}, against a Q* that "
            "was solved from the model with a certified error, not estimated."
        )
    if theta:
        return f"The error is ||theta_k - theta*||/||theta*||, {at}, with theta* of the very chain that is sampled."
    return f"Curves were measured {at}."


def _band(record: Mapping[str, Any]) -> str:
    """The band of a figure, which its command names if it is not the usual one."""
    words = dict(word.split("=", 1) for word in str(record.get("command", "")).split() if "=" in word)
    bands = {
        "ci95": "Bands are pointwise 95 % intervals of the mean over seeds (Student's t).",
        "std": "Bands are one standard deviation of the seeds on either side of the mean.",
    }
    return "" if "report" in record else bands.get(words.get("band", "ci95"), "")


def _tests(verdicts: Sequence[Mapping[str, Any]]) -> str:
    if not verdicts:
        return "No test was made."
    tests = " or ".join(sorted({str(one["test"]) for one in verdicts}))
    pairings = " or ".join(sorted({str(one["pairing"]) for one in verdicts if one["pairing"]}))
    corrections = " and ".join(dict.fromkeys(str(one["correction"]) for one in verdicts if one["correction"]))
    intervals = " or ".join(dict.fromkeys(str(one["interval"]) for one in verdicts))
    levels = " or ".join(f"{level:g}" for level in sorted({one["level"] for one in verdicts}))
    text = f"{_several(len(verdicts), 'pair')} of rules were compared by their last errors: {tests}, two-sided"
    text += f"; pairs of seeds: {pairings}" if pairings else ""
    text += f"; level {levels}" + (f", corrected by {corrections}" if corrections else "")
    return f"{text}; intervals of differences are {intervals}. The unit is the seed."


def _software(found: Sequence[Run], record: Mapping[str, Any]) -> str:
    """The versions that the runs record; those of the picture, where the runs have none."""
    known = [dict(run.summary.get("versions") or {}) for run in found] or [dict(record.get("versions") or {})]
    names = dict.fromkeys(name for one in known for name in one)
    told = [f"{name} {' or '.join(dict.fromkeys(str(one[name]) for one in known if name in one))}" for name in names]
    digests = f"; the digests of all {_several(len(found), 'run')} are in the file" if found else ""
    return f"Software: {', '.join(told)}{digests}. Command: {record['command']}."


def _several(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"
