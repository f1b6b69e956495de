"""Results that are compared from Python: whether they answer one question, and the names that they are given."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mqlearn.analysis.comparison.labels import Entry, folded
from mqlearn.analysis.comparison.seed_values import Question
from mqlearn.analysis.comparison.selection import shown
from mqlearn.errors import SettingError
from mqlearn.experiments.settings import identity
from mqlearn.experiments.settings.earlier_versions import ADDED
from mqlearn.experiments.settings.override_commands import flat
from mqlearn.storage.runs import Run

_OF_RULE = ("algorithm", "step_size", "linear", "n_seeds", "checkpoints", "n_checkpoints", "metrics", "iterations")


def check_alike(given: Sequence[tuple[str | None, Run]], question: Question) -> None:
    """Raise SettingError for a result that is of another problem, of other samples, seeds or length than the first.

    Of other lengths only if the question does not say where they are compared, and they end at other samples too.
    """
    first_name, first = given[0]
    base = first_name or f"result 0 ({first.settings['algorithm']['name']})"
    for number, (name, run) in enumerate(given[1:], 1):
        called = name or f"result {number} ({run.settings['algorithm']['name']})"
        other = _other(first, run, question)
        if other:
            expected = f"is not of one kind with {base}: {other}; allow_mixed=True compares them all the same"
            raise SettingError("compare", called, expected)


def _other(a: Run, b: Run, question: Question) -> str:
    """What two results do not share that rivals must, in words; empty if they are rivals."""
    one, two = a.settings, b.settings
    models = [identity.model_key(run.settings, run.summary.get("made_of")) for run in (b, a)]
    if models[0] != models[1]:
        problems = [f"{settings['env']['name']} at discount {settings['discount']:g}" for settings in (two, one)]
        if problems[0] == problems[1]:
            problems = [f"{problem} (model {key[:8]})" for problem, key in zip(problems, models, strict=True)]
        return f"its problem is {problems[0]}, not {problems[1]}"
    normal = [{k: v for k, v in identity.resolved(s).items() if k not in (*_OF_RULE, "env")} for s in (one, two)]
    if question.summary != "return":
        for settings in normal:
            settings.pop("evaluation", None)
    first, second = map(flat, normal)
    for key in sorted({*first, *second} - {"sampling.clock"}, key=lambda key: (not key.startswith("sampling"), key)):
        if first.get(key) != second.get(key):
            both = [ADDED | values for values in (second, first)]  # what an identity leaves out stands for that
            said = [str(shown(values.get(key))).removeprefix("mqlearn.") for values in both]
            return f"{key.removesuffix('._target_')} is {said[0]}, not {said[1]}"
    ends = [(int(run.curves["iteration"][-1]), int(run.curves["samples"][-1])) for run in (a, b)]
    if question.at is None and ends[0][0] != ends[1][0] and ends[0][1] != ends[1][1]:
        return f"it has {ends[1][0]} iterations, not {ends[0][0]} (at= says where to compare)"
    versions = [run.summary.get("numerics_version") for run in (a, b)]
    return "" if versions[0] == versions[1] else f"its numerics version is {versions[1]}, not {versions[0]}"


def labelled(made: Sequence[Entry], names: Mapping[Run, str]) -> list[Entry]:
    """Entries by the names that their runs were given; `against` knows their usual labels too."""
    return [
        replace(entry, label=name, names=entry.names | {folded(name), folded(entry.label)})
        if (name := names.get(entry.run)) is not None
        else entry
        for entry in made
    ]
