"""Run what a suite lacks, problem by problem in a process a core, and hand over the results of all."""

import os
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass
from typing import Any

from mqlearn.errors import SettingError
from mqlearn.experiments import processes
from mqlearn.experiments.progress import COMPILING, duration
from mqlearn.experiments.settings import plugins
from mqlearn.paths import cores, outputs_folder
from mqlearn.storage import locks
from mqlearn.suites import references, results, rules, trials
from mqlearn.suites.definition import BASELINE, Problem, Suite
from mqlearn.suites.facts import facts
from mqlearn.suites.results import Results
from mqlearn.suites.rules import MOST_PAIRS, Entrant

_RULES = 20  # that the estimates below were measured with, on one core
_ITERATION, _SQUARE, _FIXED = 3e-4, 1e-6, 6.0  # seconds: each iteration; each sample and pair, of n^2 states; each
_ALONE = 8.0  # seconds of work that no further process is worth


@dataclass(frozen=True)
class Wanted:
    """What a leaderboard needs: rules that are run where they are missing, and rivals that are there or are left out.

    modules: the user's.   again: run all of `rules` again.   fresh: do without what is committed.
    """

    rules: tuple[Entrant, ...]
    rivals: tuple[Entrant, ...] = ()
    modules: tuple[str, ...] = ()
    again: bool = False
    fresh: bool = False


def of_suite(suite: Suite, wanted: Wanted, n_workers: int | None = None) -> tuple[list[Results], int]:
    """The results on every problem of a suite, and how many rules were run on problems for it. Raises SettingError."""
    digests = {one.name: one.digest for one in (*wanted.rules, *wanted.rivals)}
    there = {problem.name: _kept(suite, problem) for problem in suite.problems}
    if wanted.again:
        run_again = {rule.name for rule in wanted.rules}
        there = {name: _without(one, run_again) for name, one in there.items()}
    there = {name: one and one.of(digests) for name, one in there.items()}
    if not wanted.fresh and any(one is None or set(digests) - set(one.entries) for one in there.values()):
        stored = _committed(suite, refuse=bool(wanted.rivals))
        kept_rules = {} if wanted.again else digests
        usable = {**kept_rules, **{one.name: one.digest for one in wanted.rivals}}
        for name, one in stored.items():
            before = there[name]
            entries = {**one.of(usable).entries, **(before.entries if before else {})}
            there[name] = Results({**one.facts, **(before.facts if before else {})}, entries)
    missing = [(problem, _missing(problem, there[problem.name], wanted)) for problem in suite.problems]
    missing = [(problem, some) for problem, some in missing if some]
    facts_of = {name: one.facts for name, one in there.items() if one}
    for name, one in _run(suite, missing, wanted, facts_of, n_workers).items():
        before = there[name]
        there[name] = Results(one.facts, {**(before.entries if before else {}), **one.entries})
    complete = [one for one in there.values() if one is not None]
    names = set.intersection(*(set(one.entries) for one in complete))
    order = [name for name in digests if name in names]
    if left := [name for name in digests if name not in names]:
        sys.stderr.write(
            f"bench {suite.name}: not ranked, for want of results on all problems: {', '.join(left)}; "
            f"`{suite.command}` runs them\n"
        )
    every = [Results(one.facts, {name: one.entries[name] for name in order}) for one in complete]
    return every, sum(len(some) for _, some in missing)


def _missing(problem: Problem, one: Results | None, wanted: Wanted) -> list[Entrant]:
    """The rules without a result, and those that were refused and are so no longer: what refused them may be mended."""
    if one is None:
        return list(wanted.rules)
    kept = [rule for rule in wanted.rules if rule.name in one.entries and not one.entries[rule.name].ran]
    again = kept and set(trials.runnable(problem, kept, wanted.modules))
    return [rule for rule in wanted.rules if rule.name not in one.entries or rule.name in again]


def _without(one: Results | None, rules: set[str]) -> Results | None:
    return one and Results(one.facts, {name: entry for name, entry in one.entries.items() if name not in rules})


def _kept(suite: Suite, problem: Problem) -> Results | None:
    found, wrong = results.kept(suite.name, problem)
    if wrong:
        sys.stderr.write(f"bench {suite.name}: {wrong}\n")
    return found


def _committed(suite: Suite, *, refuse: bool) -> Mapping[str, Results]:
    """The committed results; what is wrong with them is a message, unless there is nothing else to rank against."""
    try:
        return results.committed_of(suite)
    except SettingError as error:
        if refuse:
            raise
        sys.stderr.write(f"bench {suite.name}: {error.admissible}\n")
        return {}


# --- in processes -------------------------------------------------------------------------------------------------


def _run(
    suite: Suite,
    missing: Sequence[tuple[Problem, list[Entrant]]],
    wanted: Wanted,
    known: Mapping[str, dict[str, Any]],
    n_workers: int | None,
) -> dict[str, Results]:
    """Run rules on problems; what each problem then has is written, and returned by its name. known: facts, by name."""
    if not missing:
        return {}
    missing = sorted(missing, key=lambda one: -_seconds(*one))  # so that the processes end together
    seconds = sum(_seconds(*one) for one in missing)
    work = {problem.name: _seconds(problem, some) for problem, some in missing}
    objects = any(rule.made is not None for _, some in missing for rule in some)  # of a notebook, say: they stay here
    side_by_side = 1 if objects or seconds < _ALONE else min(n_workers or cores(), len(missing))
    sys.stderr.write(
        f"bench {suite.name}: {len(missing)} of {len(suite.problems)} problems to run, about "
        f"{duration(seconds / side_by_side)}, {COMPILING}\n"
    )
    jobs = [(suite.name, problem, some, wanted.modules, known.get(problem.name)) for problem, some in missing]
    done: dict[str, Results] = {}
    started = time.monotonic()
    if side_by_side == 1:
        with processes.ending_promptly(lambda: None):
            for job in jobs:
                done[job[1].name] = _job(*job)
                _tell(suite.name, job[1].name, done, work, started)
        return done
    with processes.pool(side_by_side, processes.begin, os.getpid()) as pool:
        futures = {pool.submit(_job, *job): job[1].name for job in jobs}
        for future in as_completed(futures):
            done[futures[future]] = future.result()
            _tell(suite.name, futures[future], done, work, started)
    return done


def _seconds(problem: Problem, some: Sequence[Entrant]) -> float:
    """About how long rules take on a problem, on one core, to a factor of a few."""
    square = _SQUARE * problem.pairs if problem.pairs <= MOST_PAIRS else 0.0
    each = problem.pairs if problem.synchronous else 1
    return _FIXED + len(some) / _RULES * problem.budget * (_ITERATION / each + square / max(1, problem.pairs // each))


def _tell(suite: str, problem: str, done: Mapping[str, Any], work: Mapping[str, float], started: float) -> None:
    elapsed, share = time.monotonic() - started, sum(work[name] for name in done) / sum(work.values())
    number, total = len(done), len(work)
    left = f", about {duration(elapsed * (1 / share - 1))} left" if number < total else ""
    text = f"bench {suite} {number}/{total} {problem}: done, {duration(elapsed)} elapsed{left}"
    live = sys.stderr.isatty()
    sys.stderr.write(f"\r\033[K{text[:150]}{chr(10) if number == total else ''}" if live else f"{text}\n")
    sys.stderr.flush()


def _job(
    suite: str, problem: Problem, some: Sequence[Entrant], modules: Sequence[str], known: dict[str, Any] | None
) -> Results:
    """Run rules on a problem, and write its file with what it had already. known: its facts, if they are there."""
    plugins.search(problem.config_dir)
    plugins.load(list(modules))
    with (
        processes.busy,
        plugins.own_code(),
        locks.claimed(locks.folder(outputs_folder()), "bench", suite, problem.name),
    ):
        made = trials.entries(problem, some, modules)
        kept_rules = {rule.name: made[rule.name] for rule in some if rule.made is None}
        before, _ = results.kept(suite, problem)
        told = {**(known or {}), **(before.facts if before else {})} or facts(problem)
        if "certainty" in told:  # results of before have nothing of it
            compared = [*some, *rules.entrants([BASELINE] * all(rule.name != BASELINE for rule in some))]
            told = references.merged(told, references.costs(problem, trials.defaults(problem, compared, modules)))
        if kept_rules:
            results.write(
                results.place(suite, problem), [Results(told, {**(before.entries if before else {}), **kept_rules})]
            )
    return Results(told, made)
