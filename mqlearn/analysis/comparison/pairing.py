"""Which runs are compared with which, and the verdicts of all pairs."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from mqlearn.analysis import axis as axes
from mqlearn.errors import SettingError, nearest

MANY = 200  # runs of one block: for more, which pairs are asked must be said
ALL, BEST = "all", "best"  # for `against`, unless a run is named so


def answers(wanted: Sequence[tuple[Any, Any]], question: Any, told: Callable[[int], Any] = int) -> list[Any]:
    """The verdicts of some pairs of entries. Raises SettingError.

    Corrected together are the pairs of one block, so that runs of another block (a variant of a figure) do not change
    the answer; pairs across blocks are a family of their own. In samples a family is compared up to where its shortest
    run ends, unless the question says where: rules of one length in iterations have different lengths there.
    told: called with a number of pairs after these were tested, and again after they were decided.
    """
    from mqlearn.analysis.comparison import comparison

    families: dict[str, list[int]] = {}
    for number, (a, b) in enumerate(wanted):
        families.setdefault(a.block if a.block == b.block else "across blocks", []).append(number)
    verdicts: dict[int, Any] = {}
    for members in families.values():
        resamples = comparison.resamples_for(len(members), question.level)
        pairs_of_family = [wanted[number] for number in members]
        own = _up_to_the_shortest(question, {entry.run for pair in pairs_of_family for entry in pair})
        asked = comparison.ask_all(pairs_of_family, own, resamples=resamples, told=told)
        verdicts |= zip(members, comparison.decide(asked, resamples=resamples, told=told), strict=True)
    return [verdicts[number] for number in range(len(wanted))]


def on_axis(question: Any, found: Sequence[Any]) -> tuple[Any, str]:
    """The question on the usual axis of the runs that it is about, and what must be said of that, if anything."""
    from mqlearn.analysis.comparison.selection import by_problem

    axis = axes.usual(by_problem(found, question.summary))
    told = f"Counted in samples, since {axes.WHY} (axis=iterations asks by iterations)." if axis == "samples" else ""
    return replace(question, axis=axis), told


def _up_to_the_shortest(question: Any, some: set[Any]) -> Any:
    if question.axis != "samples" or question.at is not None:
        return question
    return replace(question, at=min(int(axes.positions(run, "samples")[-1]) for run in some))


def with_best_and_baseline(made: Sequence[Any], question: Any) -> tuple[list[tuple[Any, Any]], str]:
    """In each block every entry with the best one and with the baseline, and a sentence on which these are.

    For more runs than can be compared each with each. The best has the best mean by the question; the baseline is the
    first run of vanilla Q-learning, else the first run. Raises SettingError if the runs cannot answer the question.
    """
    wanted, told = [], []
    for block, members in _blocks(made).items():
        best = members[_best([entry.run for entry in members], question)]
        baseline = next((entry for entry in members if entry.rule == "q_learning"), members[0])
        rivals = [best] if best is baseline else [best, baseline]
        wanted += [(a, b) for b in rivals for a in members if a is not b and not (a is best and b is baseline)]
        told.append(f"[{block}] the best is {best.label}, the baseline {baseline.label}")
    if not wanted:
        raise SettingError("selection", f"{len(made)} runs", "has no two runs in one block")
    head = "So many runs are compared with the best and with the baseline of their block only. "
    head += "The best was selected on the same seeds: its advantage is biased upwards (winner's curse)."
    return wanted, "\n".join([head, *told])


def _best(some: Sequence[Any], question: Any) -> int:
    """Which of some runs has the best mean by the question; the first of equal ones."""
    from mqlearn.analysis.comparison import seed_values

    metric = seed_values.metric_of(question, *some)
    at = seed_values.horizon(question, metric, *some)
    means = [seed_values.mean_of(question, metric, at, run) for run in some]
    return min(range(len(some)), key=means.__getitem__)


def with_best_on_other_seeds(made: Sequence[Any], question: Any) -> tuple[list[tuple[Any, Any]], str]:
    """Every entry of a block against its best one, which is picked on the first half of the seeds and compared on the
    others: those that chose it would make it look better than it is. And a sentence that says so.

    Raises SettingError if a run has one seed only, or if the runs cannot answer the question.
    """
    wanted, told = [], []
    for block, members in _blocks(made).items():
        if len(members) < 2:
            continue
        fewest = min(members, key=lambda entry: entry.run.settings["n_seeds"])
        n = fewest.run.settings["n_seeds"]
        if n < 2:
            expected = f"needs 2 seeds of each run, one that picks and one that is compared; {fewest.label} has {n}"
            raise SettingError("against", BEST, f"{expected}. Name a run instead")
        first = _best([of_seeds(entry.run, 0, n // 2) for entry in members], question)
        own = [replace(e, run=of_seeds(e.run, n // 2, e.run.settings["n_seeds"])) for e in members]
        note = f"picked as the best of {len(members)} runs on the first {n // 2} seeds; compared on the others"
        best = replace(own[first], note=note)
        wanted += [(entry, best) for number, entry in enumerate(own) if number != first]
        told.append(f"[{block}] the best is {best.label}: {note}.")
    if not wanted:
        raise SettingError("selection", f"{len(made)} runs", "has no two runs in one block")
    return wanted, "\n".join(told)


def of_seeds(run: Any, start: int, stop: int) -> Any:
    """A run with some of its seeds, as if it had no others."""
    from mqlearn.storage.runs import AXES, Run

    curves = {name: c if name in AXES else c[start:stop] for name, c in run.curves.items()}
    diverged = {str(seed - start): step for seed, step in run.diverged.items() if start <= seed < stop}
    view = Run(run.folder, run.summary | {"diverged": diverged})
    # What the cached properties would read from disk.
    view.__dict__.update(curves=curves, settings={**run.settings, "n_seeds": stop - start})
    return view


def _blocks(made: Sequence[Any]) -> dict[str, list[Any]]:
    return {block: list(group) for block, group in itertools.groupby(made, lambda entry: entry.block)}


def count(made: Sequence[Any]) -> int:
    """Pairs within blocks."""
    return sum(math.comb(len(members), 2) for members in _blocks(made).values())


def asked(
    made: Sequence[Any], question: Any, against: str | None = None, *, mixed: bool = False
) -> tuple[list[tuple[Any, Any]], str]:
    """The pairs that are asked, and which they are in a sentence where that is not all of them.

    against: a run as for `pairs`; `best`: every run with the best of its block; `all`, or None: every pair. Raises
    SettingError, also where None would mean the pairs of more than MANY runs.
    """
    from mqlearn.analysis.comparison.labels import named

    reserved = against in (ALL, BEST) and not any(named([entry], str(against)) for entry in made)
    if reserved and against == BEST:
        if mixed:
            raise SettingError("allow_mixed", True, "does not go with against=best, which is the best of one block")
        wanted, told = with_best_on_other_seeds(made, question)
        return wanted, f"{told}\n{_not_asked(wanted, made)}"
    if against is None:
        largest = made if mixed else max(_blocks(made).values(), key=len, default=[])
        if len(largest) > MANY:
            where = "" if mixed else f" of [{largest[0].block}]"
            expected = (
                f"must be given, since {len(largest)} runs{where} make "
                f"{math.comb(len(largest), 2):,} pairs: against=LABEL or the digest of a run, against=best (every run "
                "with the best, picked on other seeds), or against=all"
            )
            raise SettingError("against", None, expected)
    wanted = pairs(made, None if reserved else against, mixed=mixed)
    return wanted, "" if reserved or against is None else _not_asked(wanted, made)


def _not_asked(wanted: Sequence[Any], made: Sequence[Any]) -> str:
    """What must be said of the pairs of a block that nothing is said about."""
    left = count(made) - sum(a.block == b.block for a, b in wanted)
    return f"Asked are {len(wanted):,} pairs; the other {left:,} are in no family of the correction." if left else ""


def pairs(made: Sequence[Any], against: str | None = None, *, mixed: bool = False) -> list[tuple[Any, Any]]:
    """Every pair within a block, or of every entry with the one named `against` as b; across blocks only if `mixed`.

    Raises SettingError if nothing can be paired, if a pair would cross blocks, or if `against` is unknown or means
    several.
    """
    from mqlearn.analysis.comparison.labels import named

    blocks = _blocks(made)
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
