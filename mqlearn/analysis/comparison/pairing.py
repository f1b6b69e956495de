"""Which runs are compared with which, and the verdicts of all pairs."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mqlearn.analysis import axis as axes
from mqlearn.errors import SettingError, nearest


def answers(wanted: Sequence[tuple[Any, Any]], question: Any) -> list[Any]:
    """The verdicts of some pairs of entries. Raises SettingError.

    Corrected together are the pairs of one block, so that runs of another block (a variant of a figure) do not change
    the answer; pairs across blocks are a family of their own. In samples a family is compared up to where its shortest
    run ends, unless the question says where: rules of one length in iterations have different lengths there.
    """
    from mqlearn.analysis.comparison import comparison

    families: dict[str, list[int]] = {}
    for number, (a, b) in enumerate(wanted):
        families.setdefault(a.block if a.block == b.block else "across blocks", []).append(number)
    verdicts: dict[int, Any] = {}
    for members in families.values():
        resamples = comparison.resamples_for(len(members), question.level)
        own = _up_to_the_shortest(question, [entry.run for number in members for entry in wanted[number]])
        asked = [comparison.ask(*wanted[number], own, resamples=resamples) for number in members]
        verdicts |= zip(members, comparison.decide(asked, resamples=resamples), strict=True)
    return [verdicts[number] for number in range(len(wanted))]


def on_axis(question: Any, found: Sequence[Any]) -> tuple[Any, str]:
    """The question on the usual axis of the runs that it is about, and what must be said of that, if anything."""
    from mqlearn.analysis.comparison.selection import by_problem

    axis = axes.usual(by_problem(found, question.summary))
    told = f"Counted in samples, since {axes.WHY} (axis=iterations asks by iterations)." if axis == "samples" else ""
    return replace(question, axis=axis), told


def _up_to_the_shortest(question: Any, some: Sequence[Any]) -> Any:
    if question.axis != "samples" or question.at is not None:
        return question
    return replace(question, at=min(int(axes.positions(run, "samples")[-1]) for run in some))


def with_best_and_baseline(made: Sequence[Any], question: Any) -> tuple[list[tuple[Any, Any]], str]:
    """In each block every entry with the best one and with the baseline, and a sentence on which these are.

    For more runs than can be compared each with each. The best has the best mean by the question; the baseline is the
    first run of vanilla Q-learning, else the first run. Raises SettingError if the runs cannot answer the question.
    """
    from mqlearn.analysis.comparison import seed_values

    wanted, told = [], []
    for block, group in itertools.groupby(made, lambda entry: entry.block):
        members = list(group)
        runs = [entry.run for entry in members]
        metric = seed_values.metric_of(question, *runs)
        at = seed_values.horizon(question, metric, *runs)
        means = [seed_values.mean_of(question, metric, at, run) for run in runs]
        best = members[min(range(len(members)), key=means.__getitem__)]
        baseline = next((entry for entry in members if entry.rule == "q_learning"), members[0])
        rivals = [best] if best is baseline else [best, baseline]
        wanted += [(a, b) for b in rivals for a in members if a is not b and not (a is best and b is baseline)]
        told.append(f"[{block}] the best is {best.label}, the baseline {baseline.label}")
    if not wanted:
        raise SettingError("selection", f"{len(made)} runs", "has no two runs in one block")
    head = "So many runs are compared with the best and with the baseline of their block only. "
    head += "The best was chosen by the same numbers, so that it looks better than it is."
    return wanted, "\n".join([head, *told])


def pairs(made: Sequence[Any], against: str | None = None, *, mixed: bool = False) -> list[tuple[Any, Any]]:
    """Every pair within a block, or of every entry with the one named `against` as b; across blocks only if `mixed`.

    Raises SettingError if nothing can be paired, if a pair would cross blocks, or if `against` is unknown or means
    several.
    """
    from mqlearn.analysis.comparison.labels import named

    blocks = {block: list(group) for block, group in itertools.groupby(made, lambda entry: entry.block)}
    if against is None:
        within = [pair for members in blocks.values() for pair in itertools.combinations(members, 2)]
        wanted = list(itertools.combinations(made, 2)) if mixed else within
        if wanted:
            return wanted
        if len(made) < 2:
            expected = f"is one run, {made[0].label} in [{made[0].block}]: nothing to compare it with"
        else:
            expected = "has no two runs in one block; across blocks only with allow_mixed=true:\n" + _listed(blocks)
        raise SettingError("selection", f"{len(made)} runs", expected)
    rivals = {block: named(members, against) for block, members in blocks.items()}
    for block, several in rivals.items():
        if len(several) > 1:
            expected = f"means {len(several)} runs of [{block}]: {'; '.join(entry.label for entry in several)}"
            raise SettingError("against", against, expected)
    found = [several[0] for several in rivals.values() if several]
    if not found:
        known = list(dict.fromkeys(entry.label for entry in made))
        expected = f"must be one of: {'; '.join(known)}{nearest(against, known)}"
        raise SettingError("against", against, expected)
    lacking = {block: members for block, members in blocks.items() if not rivals[block]}
    if lacking and not mixed:
        expected = (
            f"is not in every block; pairs across blocks only with allow_mixed=true. Missing in:\n{_listed(lacking)}"
        )
        raise SettingError("against", against, expected)
    wanted = []
    for block, members in blocks.items():
        for b in rivals[block] or found:
            wanted += [(a, b) for a in members if a is not b]
    if not wanted:
        raise SettingError("against", against, "is the only run that is selected: nothing to compare it with")
    return wanted


def _listed(blocks: dict[str, list[Any]]) -> str:
    return "\n".join(f"  {'; '.join(e.label for e in members)}  [{block}]" for block, members in blocks.items())
