"""Fair tuning: every algorithm the same number of settings on the tuning seeds, the verdict on other seeds."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mqlearn.analysis import axis as axes
from mqlearn.analysis.comparison.columns import aligned, wrapped
from mqlearn.analysis.comparison.comparison import Verdict
from mqlearn.analysis.comparison.labels import Entry, differences, entries
from mqlearn.analysis.comparison.pairing import answers, asked
from mqlearn.analysis.comparison.seed_values import Question, gone_by, horizon, metric_of, summary_of
from mqlearn.analysis.comparison.selection import EXTENT, SILENT, extent, latest_runs
from mqlearn.analysis.statistics.intervals import Estimate, bootstrap_interval
from mqlearn.errors import SettingError
from mqlearn.experiments.settings import identity
from mqlearn.experiments.settings.override_commands import command, command_of, overrides_of
from mqlearn.storage.runs import Run

VANILLA = "q_learning"
REPORTING_SEEDS = 20


@dataclass(frozen=True, eq=False)
class TriedSetting:
    """One setting of an algorithm on the tuning seeds: its words, and one number a seed, infinite if it diverged."""

    run: Run
    words: str
    values: np.ndarray
    interval: Estimate


@dataclass(frozen=True, eq=False)
class Tuned:
    """An algorithm after tuning. settings: all that were tried, best first to last in `order`; maybe: could be best."""

    algorithm: str
    settings: tuple[TriedSetting, ...]
    best: TriedSetting
    maybe: tuple[TriedSetting, ...]


@dataclass
class TuningAnswer:
    """Verdicts on the reporting seeds, the tables of the tuning, and what must be said."""

    verdicts: list[Verdict] = field(default_factory=list)
    heads: dict[str, str] = field(default_factory=dict)  # by block
    notes: list[str] = field(default_factory=list)
    lead: str = ""  # what must be known before the verdicts are read


def tuned(
    chosen: Sequence[Run],
    everything: Sequence[Run],
    question: Question,
    own: dict[str, Any],
    config_dir: str | None = None,
    width: int | None = None,
    run: Callable[[Sequence[dict[str, Any]]], Sequence[Run]] | None = None,
) -> TuningAnswer:
    """Choose the setting of every algorithm in each block of `chosen`, then compare runs of `everything` with them.

    Only runs whose seeds are disjoint from those of the tuning report; streams of different `seed` are. Raises
    SettingError if no run reports, with the commands that make them, or if the tuning is not fair: vanilla
    Q-learning is not among the rivals. width: of the terminal, None for no limit.   run: makes the runs that report of
    some settings, where there are none; without it the commands that make them are told.
    """
    seed = own.get("tuning_seed")
    seed = _tuning_seed(chosen) if seed is None else seed
    searched = latest_runs([run for run in chosen if run.settings["seed"] == seed], question.summary)
    if not searched.runs:
        seeds = sorted({run.settings["seed"] for run in chosen})
        raise SettingError("tuning_seed", seed, f"must be the `seed` of some of the runs: {', '.join(map(str, seeds))}")
    answer, missing, reporting = TuningAnswer(notes=list(searched.notes)), [], []
    to_run: list[tuple[dict[str, Any], str, str, Tuned]] = []
    blocks: dict[str, list[Run]] = {}
    for entry in entries(searched.runs, question.summary):
        blocks.setdefault(entry.block, []).append(entry.run)
    for block, members in blocks.items():
        found, notes = tune(members, question, config_dir)
        answer.notes += notes
        answer.lead = "\n".join(filter(None, (answer.lead, _cut(found, members, block))))
        answer.heads[block] = _text(found, question, seed, width)
        key = identity.problem_of(members[0], question.summary)
        others = [run for run in everything if run.settings["seed"] != seed]
        candidates = [run for run in others if identity.problem_of(run, question.summary) == key]
        reporting_seed = _reporting_seed(candidates, found, seed)
        for one in found:
            reports = _report(one, [run for run in candidates if run.settings["seed"] == reporting_seed])
            label = f"{one.algorithm} ({one.best.words})" if one.best.words else one.algorithm
            if reports is not None:
                reporting.append((Entry(reports, label, block), one))
                continue
            settings = {**one.best.run.settings, "seed": reporting_seed, "n_seeds": REPORTING_SEEDS}
            if run is not None:
                to_run.append((settings, label, block, one))
                continue
            seeds = [f"seed={reporting_seed}", f"n_seeds={REPORTING_SEEDS}"]
            missing.append((one.algorithm, f"  {command_of(settings, config_dir, more=seeds)}"))
    if run is not None and to_run:
        made_now = run([settings for settings, *_ in to_run])
        reporting += [
            (Entry(new, label, block), one) for new, (_, label, block, one) in zip(made_now, to_run, strict=True)
        ]
        reporting.sort(key=lambda part: list(blocks).index(part[0].block))
    commands = "\n".join(command for _, command in missing)
    if len(reporting) < 2 or VANILLA in {algorithm for algorithm, _ in missing}:
        which = f"{VANILLA} must be among the rivals, but has no finished run"
        if len(reporting) < 2:
            which = "fewer than two algorithms have finished runs"
        problem = f"{which} on seeds that did not choose the settings, as those of seed={seed} did"
        problem += "; missing=run makes them, or"
        shown = [f"[{block}]\n{text}" for block, text in answer.heads.items()]
        raise SettingError("tuned", True, "\n".join([problem, commands, "", *shown]))
    if missing:
        answer.notes.append(
            f"best settings that no run reports yet, so without a verdict; missing=run makes them, or\n{commands}"
        )
    made = [entry for entry, _ in reporting]
    wanted, told = asked(made, question, own.get("against"))
    answer.verdicts = answers(wanted, question)
    answer.notes += told.splitlines()
    about = {(entry.block, entry.label): one for entry, one in reporting}
    for i, verdict in enumerate(answer.verdicts):
        group, sides = verdict.tested.group, {"a": verdict.tested.a, "b": verdict.tested.b}
        tuning = {name: _plain(about[group, side.label], seed) for name, side in sides.items()}
        answer.verdicts[i] = replace(verdict, tuning=tuning)
    seeds = sorted({entry.run.settings["seed"] for entry in made})
    answer.notes.append(f"settings chosen on seed={seed}; verdicts on seed={', '.join(map(str, seeds))} alone")
    return answer


def _cut(found: Sequence[Tuned], members: Sequence[Run], block: str) -> str:
    """What must be said first where one algorithm has a single setting, and so has every rival for that."""
    counts = Counter(str(run.settings["algorithm"].get("name")) for run in members)
    single = [one.algorithm for one in found if counts[one.algorithm] == 1]
    if not single or max(counts.values()) == 1:
        return ""
    rest = ", ".join(f"{name} {count}" for name, count in counts.items() if count > 1)
    return (
        f"[{block}] Nothing is tuned here: {', '.join(single)} has one setting only, so every algorithm has one, its "
        f"first (there are {rest}). Run more settings of it, or select the others."
    )


def _report(one: Tuned, candidates: Sequence[Run]) -> Run | None:
    """The run with the best setting among those on reporting seeds: as long as the tuning, then with most seeds."""
    signature, length = identity.rule_key(one.best.run.settings), one.best.run.settings["iterations"]
    usable = [run for run in candidates if identity.rule_key(run.settings) == signature]
    return max(usable, key=lambda run: (run.settings["iterations"] == length, *extent(run)), default=None)


def tune(members: Sequence[Run], question: Question, config_dir: str | None = None) -> tuple[list[Tuned], list[str]]:
    """The best setting of each algorithm of one block, each with the same number of settings and of seeds.

    Algorithms with more settings keep those that finished first. Raises SettingError without vanilla Q-learning.
    """
    by_algorithm: dict[str, list[Run]] = {}
    for run in sorted(members, key=lambda run: (run.summary.get("ended") or "", run.digest)):
        by_algorithm.setdefault(str(run.settings["algorithm"].get("name")), []).append(run)
    if VANILLA not in by_algorithm:
        settings = members[0].settings
        rule = ("algorithm", "step_size")
        words = [text for text in overrides_of(settings, config_dir) if not text.lstrip("+~").startswith(rule)]
        words += [f"algorithm={VANILLA}", "step_size=harmonic", "step_size.offset=0,1,2,5,10,20,50"]
        words.append(f"experiment.name={settings['experiment']['name']}")
        expected = (
            f"{VANILLA} with its own best step size must be among the rivals of {', '.join(by_algorithm)}; tune it, "
            f"for example by\n  {command('run', ['-m', *words], config_dir)}"
        )
        raise SettingError("tuned", True, expected)
    budget = min(map(len, by_algorithm.values()))
    n_seeds = min(run.settings["n_seeds"] for run in members)
    notes = [
        f"{name}: the first {budget} of {len(tried)} settings, so that every algorithm has as many"
        for name, tried in by_algorithm.items()
        if len(tried) > budget
    ]
    kept = {name: tried[:budget] for name, tried in by_algorithm.items()}
    everyone = [run for tried in kept.values() for run in tried]
    metric = metric_of(question, *everyone)
    at = horizon(question, metric, *everyone)
    found = []
    for name, tried in kept.items():
        words = differences(tried, (*SILENT, *EXTENT))
        settings = [
            _setting(run, ", ".join(own), question, metric, at, n_seeds) for run, own in zip(tried, words, strict=True)
        ]
        sign = 1 if question.less_is_better else -1
        best = min(settings, key=lambda one: (_mean(sign * one.values), one.words))
        found.append(Tuned(name, tuple(settings), best, tuple(_could_be_best(settings, sign, question.level))))
    return found, notes


def _setting(run: Run, words: str, question: Question, metric: str, at: int, n_seeds: int) -> TriedSetting:
    values = summary_of(question, metric, at, run)[:n_seeds]
    lost = gone_by(run, at, question.axis)[:n_seeds] | ~np.isfinite(values)
    interval = bootstrap_interval(np.where(lost, np.nan, values), "mean", "t", 1 - question.level)
    worst = math.inf if question.less_is_better else -math.inf
    return TriedSetting(run, words, np.where(lost, worst, values), interval)


def _could_be_best(settings: Sequence[TriedSetting], sign: int, level: float) -> list[TriedSetting]:
    """Settings that no other one beats: the best one is among them with probability 1 - level at least.

    A setting is out if another is better by a paired one-sided t test at level / (number of settings - 1); union bound.
    """
    from scipy.special import stdtr

    kept = []
    for one in settings:
        beaten = not np.isfinite(one.values).all()
        for other in settings:
            d = sign * (one.values - other.values)
            if other is one or beaten or not np.isfinite(d).all() or len(d) < 2:
                continue
            error = d.std(ddof=1) / math.sqrt(len(d))
            p = stdtr(len(d) - 1, -d.mean() / error) if error > 0 else float(d.mean() <= 0)
            beaten = bool(p <= level / (len(settings) - 1))
        if not beaten:
            kept.append(one)
    return kept


def _tuning_seed(chosen: Sequence[Run]) -> int:
    """The seed of runs of an experiment named tuning, else the one with the most settings. Raises SettingError."""
    named = {run.settings["seed"] for run in chosen if run.settings["experiment"]["name"] == "tuning"}
    if len(named) == 1:
        return named.pop()
    rules = {(run.settings["seed"], identity.rule_key(run.settings)) for run in chosen}
    counts = Counter(seed for seed, _ in rules).most_common()
    if len(counts) > 1 and counts[0][1] == counts[1][1]:
        listed = ", ".join(f"seed={seed} ({count} settings)" for seed, count in counts)
        raise SettingError("tuning_seed", None, f"must be given, they are all alike: {listed}")
    return counts[0][0]


def _reporting_seed(candidates: Sequence[Run], found: Sequence[Tuned], tuning_seed: int) -> int:
    """The seed on which most of the best settings have been run; without any, 0, or 1 if that is the tuning's."""
    best = {identity.rule_key(one.best.run.settings) for one in found}
    have = {(run.settings["seed"], identity.rule_key(run.settings)) for run in candidates}
    counts = Counter(seed for seed, signature in have if signature in best)
    return min(counts, key=lambda seed: (-counts[seed], seed)) if counts else int(tuning_seed == 0)


def _mean(values: np.ndarray) -> float:
    return float(np.mean(values)) if np.isfinite(values).all() else math.inf


def _text(found: Sequence[Tuned], question: Question, seed: int, width: int | None = None) -> str:
    """All settings that were tried, a table for each algorithm, that fit `width`."""
    first = found[0]
    everyone = [one.run for tuned_one in found for one in tuned_one.settings]
    metric = metric_of(question, *everyone)
    at = axes.words(question.axis, horizon(question, metric, *everyone))
    shown = "geometric mean time" if question.is_ratio else f"mean of {question.summary} ({metric})"
    head = (
        f"Tuning: seed={seed}, {len(first.best.values)} seeds, {len(first.settings)} settings of each algorithm; "
        f"{shown} at {at}, {100 * (1 - question.level):g} % t interval over seeds; * best, o could be best"
    )
    lines = wrapped(head, width)
    for one in found:
        could = f"{len(one.maybe)} of {len(one.settings)} could be best"
        lines += wrapped(f"{one.algorithm}: best {one.best.words or 'its only setting'}; {could}", width, "  ")
        rows = [_cells(setting, one, question) for setting in sorted(one.settings, key=lambda s: _sorting(s.words))]
        table, left = aligned([_HEAD, *rows], width, ("interval",), ("setting", "finite seeds"))
        told = [f"(left out to fit {width} columns: {', '.join(left)}; --csv and --json have it)"] * bool(left)
        lines += [*table, *(line for text in told for line in wrapped(text, width, "  "))]
    return "\n".join(lines)


_HEAD = ["", "setting", "mean", "interval", "finite seeds"]


def _cells(setting: TriedSetting, one: Tuned, question: Question) -> list[str]:
    mark = "*" if setting is one.best else "o" if setting in one.maybe else ""
    value, low, high, n = setting.interval
    convert = math.exp if question.is_ratio else float
    interval = "none" if not n or math.isnan(low) else f"[{convert(low):.4g}, {convert(high):.4g}]"
    seeds = f"{n} of {len(setting.values)}" + ("" if n == len(setting.values) else ": not chosen")
    return [mark, setting.words or "(its only one)", f"{convert(value):.4g}" if n else "-", interval, seeds]


def _sorting(words: str) -> list[Any]:
    """Settings in the order of their numbers."""
    parts = [word.rpartition("=")[2] for word in words.split(", ")]
    return [(0, float(p), "") if _is_number(p) else (1, 0.0, p) for p in parts]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _plain(one: Tuned, seed: int) -> dict[str, Any]:
    maybe = {id(setting) for setting in one.maybe}
    return {
        "tuning_seed": seed,
        "setting": one.best.words,
        "budget": len(one.settings),
        "could_be_best": len(one.maybe),
        "sensitivity": [
            {"setting": s.words, "mean": s.interval.value, "low": s.interval.low, "high": s.interval.high,
             "n_finite": s.interval.n_finite, "could_be_best": id(s) in maybe}
            for s in sorted(one.settings, key=lambda s: _sorting(s.words))
        ],
    }  # fmt: skip
