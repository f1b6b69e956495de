"""One problem of a suite: the cells of its rules, tuned on some seeds and reported on others, side by side.

Rules that learn from the same samples are advanced together, so that a synchronous draw is made once for all of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mqlearn.errors import SettingError
from mqlearn.experiments.settings import compose
from mqlearn.experiments.settings.cell import Cell, build, run_cells
from mqlearn.experiments.suite.definition import ALIKE, CHECKPOINTS, Problem
from mqlearn.experiments.suite.results import Entry
from mqlearn.experiments.suite.rules import Entrant, over_budget, settings_of
from mqlearn.experiments.suite.scores import log_errors, scores


@dataclass(frozen=True, eq=False)
class Seeds:
    """Errors (n_seeds, K) after `samples` (K,) of a cell, or why it could not be run."""

    samples: np.ndarray
    errors: np.ndarray
    reason: str | None = None


def entries(problem: Problem, rules: Sequence[Entrant], modules: Sequence[str] = ()) -> dict[str, Entry]:
    """Run rules on a problem, by name; one that cannot be run is told with the reason."""
    found: dict[str, Entry] = {}
    listed = _cells(problem, rules, modules, found)
    seeds = problem.seeds
    tried = run([[_on(one, seeds.tuning_seed, seeds.tuning) for one in cells] for _, _, cells in listed], problem.metric)
    chosen, final = [], []
    for (rule, _, cells), outcome in zip(listed, tried, strict=True):
        areas = [np.full(seeds.tuning, np.inf) if one.reason else _scores(problem, one)[0] for one in outcome]
        best = int(np.argmin([area.mean() for area in areas]))
        chosen.append((best, areas))
        final.append([_on(cells[i], seeds.reporting_seed, seeds.reporting) for i in dict.fromkeys((0, best))])
    reported = run(final, problem.metric)
    for (rule, settings, cells), (best, areas), outcome in zip(listed, chosen, reported, strict=True):
        reason = next((one.reason for one in outcome if one.reason), None)
        found[rule.name] = Entry(rule.digest, reason=reason) if reason else Entry(
            rule.digest, _chosen_by(rule, modules), cells[0].settings["iterations"], tuple(settings), best, np.array(areas, np.float32),
            np.stack([_scores(problem, one) for one in (outcome[0], outcome[-1])]).astype(np.float32),
            np.stack([_curve(problem, one) for one in (outcome[0], outcome[-1])]).astype(np.float32),
        )  # fmt: skip
    return {rule.name: found[rule.name] for rule in rules}


def _scores(problem: Problem, one: Seeds) -> np.ndarray:
    return scores(one.samples, one.errors, problem.axis)


def _curve(problem: Problem, one: Seeds) -> np.ndarray:
    return log_errors(one.samples, one.errors, problem.axis).mean(0)


def _cells(
    problem: Problem, rules: Sequence[Entrant], modules: Sequence[str], refused: dict[str, Entry]
) -> list[tuple[Entrant, list[tuple[str, ...]], list[Cell]]]:
    """The rules that can be run, with their five settings and cells; the others go to `refused`."""
    base = [overrides_of(problem, rule, (), modules) for rule in rules]
    possible: list[tuple[Entrant, list[tuple[str, ...]], int]] = []
    for rule, settings in zip(rules, compose.compose_all(base, problem.config_dir), strict=True):
        try:
            cell = build(settings)
            made = cell.run_arguments["rule"]
            ready = made.at(cell.settings["discount"]) if hasattr(made, "at") else made
            reason = over_budget(ready, problem.pairs if cell.run_arguments["features"] is None else 0)
            own = cell.settings["step_size"]
        except SettingError as error:
            reason, own, made = " ".join(str(error).split()), {}, None
        if reason is not None:
            refused[rule.name] = Entry(rule.digest, reason=reason)
        else:
            possible.append((rule, settings_of(rule, own), problem.samples_each(made)))
    lists = [
        overrides_of(problem, rule, setting, modules) for rule, settings, _ in possible for setting in settings
    ]
    composed = iter(compose.compose_all(lists, problem.config_dir))
    return [
        (rule, settings, [build({**next(composed), "iterations": max(1, problem.budget // each)}) for _ in settings])
        for rule, settings, each in possible
    ]


def overrides_of(
    problem: Problem, rule: Entrant, setting: Sequence[str], modules: Sequence[str] = ()
) -> list[str]:
    """What composes the cell of a rule with a setting, but for its length and seeds."""
    fixed = [*ALIKE, f"n_checkpoints={CHECKPOINTS + 1}", "n_workers=1"]
    return [*problem.overrides, *_chosen_by(rule, modules), *setting, *fixed]


def _chosen_by(rule: Entrant, modules: Sequence[str]) -> tuple[str, ...]:
    own = [f"plugins=[{','.join(modules)}]"] if rule.own and modules else []
    return (*own, *rule.overrides)


def _on(cell: Cell, seed: int, n_seeds: int) -> Cell:
    return build({**cell.settings, "seed": seed, "n_seeds": n_seeds})


def run(lists: Sequence[Sequence[Cell]], metric: str) -> list[list[Seeds]]:
    """The errors of lists of cells; cells of the same samples are run together."""
    groups: dict[Any, list[Cell]] = {}
    for cells in lists:
        for cell in cells:
            groups.setdefault(cell.samples_key or cell.digest, []).append(cell)
    done: dict[str, Seeds] = {}
    for group in groups.values():
        unique = list({cell.digest: cell for cell in group}.values())
        done |= dict(zip([cell.digest for cell in unique], _together(unique, metric), strict=True))
    return [[done[cell.digest] for cell in cells] for cells in lists]


def _together(group: Sequence[Cell], metric: str) -> list[Seeds]:
    try:
        results = run_cells(group)
    except SettingError as error:
        if len(group) == 1:
            return [Seeds(np.empty(0), np.empty((0, 0)), " ".join(str(error).split()))]
        return [_together([cell], metric)[0] for cell in group]  # one that fails must not cost the others
    if metric not in results[0].curves:
        known = ", ".join(results[0].curves)
        raise SettingError("metric", metric, f"is not measured here; {known} are")
    return [Seeds(result.samples, result.curves[metric]) for result in results]
