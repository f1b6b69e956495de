"""One problem of a suite: its rules, tuned on some seeds and reported on others, side by side.

Rules that learn from the same samples are advanced together, so that a synchronous draw is made once for all of them.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mqlearn.errors import SettingError
from mqlearn.experiments.settings import compose, own_step_size
from mqlearn.experiments.settings.cell import build
from mqlearn.experiments.suite.definition import Problem
from mqlearn.experiments.suite.results import Entry
from mqlearn.experiments.suite.rules import Entrant, over_budget, scaled
from mqlearn.experiments.suite.scores import SCORES, log_errors, scores


@dataclass(frozen=True, eq=False)
class Outcome:
    """Errors (n_seeds, K) after `samples` (K,) of a rule, or why it could not be run."""

    samples: np.ndarray
    errors: np.ndarray
    reason: str | None = None


@dataclass(frozen=True, eq=False)
class Contest:
    """A rule that can be run on a problem.   settings: as overrides.

    made: for each, the rule with its step size, or a text that says why it is refused.
    """

    rule: Entrant
    settings: list[tuple[str, ...]]
    made: list[Any]


def entries(problem: Problem, rules: Sequence[Entrant], modules: Sequence[str] = ()) -> dict[str, Entry]:
    """Run rules on a problem, by name; one that cannot be run is told with the reason."""
    found: dict[str, Entry] = {}
    able = [*_composed(problem, [rule for rule in rules if rule.made is None], modules, found),
            *_given(problem, [rule for rule in rules if rule.made is not None], found)]  # fmt: skip
    seeds, chosen = problem.seeds, []
    tried = run(problem, [one.made for one in able], seeds.tuning_seed, seeds.tuning)
    for outcome in tried:
        areas = [np.full(seeds.tuning, np.inf) if one.reason else _scores(problem, one)[0] for one in outcome]
        chosen.append((int(np.argmin([area.mean() for area in areas])), areas))
    final = [[one.made[i] for i in (0, best)] for one, (best, _) in zip(able, chosen, strict=True)]
    reported = run(problem, final, seeds.reporting_seed, seeds.reporting)
    for one, (best, areas), outcome in zip(able, chosen, reported, strict=True):
        default, tuned = (part.reason for part in outcome)
        found[one.rule.name] = Entry(one.rule.digest, reasons=(default, tuned)) if default and tuned else Entry(
            digest=one.rule.digest,
            rule=_chosen_by(one.rule, modules),
            iterations=problem.iterations(one.made[best]),
            settings=tuple(one.settings),
            chosen=best,
            tuning=np.array(areas, np.float32),
            scores=_narrow(np.stack([_scores(problem, part) for part in outcome])),
            curve=_narrow(np.stack([_curve(problem, part) for part in outcome])),
            reasons=(default, tuned),
        )  # fmt: skip
    return {rule.name: found[rule.name] for rule in rules}


def runnable(problem: Problem, rules: Sequence[Entrant], modules: Sequence[str] = ()) -> list[str]:
    """The names of the rules, of yaml files, that nothing refuses before they are run."""
    return [one.rule.name for one in _composed(problem, rules, modules, {})]


def _narrow(values: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):  # a last error of a rule that grows without end
        return values.astype(np.float32)


def _scores(problem: Problem, one: Outcome) -> np.ndarray:
    if one.reason is not None:
        return np.full((len(SCORES), problem.seeds.reporting), np.nan)
    return scores(one.samples, one.errors, problem.axis)


def _curve(problem: Problem, one: Outcome) -> np.ndarray:
    if one.reason is not None:
        return np.full(len(problem.axis), np.nan)
    return log_errors(one.samples, one.errors, problem.axis).mean(0)


# --- which rules, in which settings -------------------------------------------------------------------------------


def _composed(
    problem: Problem, rules: Sequence[Entrant], modules: Sequence[str], refused: dict[str, Entry]
) -> list[Contest]:
    """The rules of yaml files of which a setting can be run; the others go to `refused`."""
    base = _settings(problem, [(rule, ()) for rule in rules], modules)
    lists = [[(), *_tuned(rule, settings)] for rule, settings in zip(rules, base, strict=True)]
    each = [(rule, setting) for rule, some in zip(rules, lists, strict=True) for setting in some]
    composed = iter(_settings(problem, each, modules))
    contests = [
        Contest(rule, some, [_made(problem, next(composed)) for _ in some])
        for rule, some in zip(rules, lists, strict=True)
    ]
    refused |= {
        one.rule.name: Entry.refused(one.rule.digest, one.made[0])
        for one in contests
        if all(isinstance(made, str) for made in one.made)
    }
    return [one for one in contests if one.rule.name not in refused]


def _tuned(rule: Entrant, settings: dict[str, Any]) -> Sequence[tuple[str, ...]]:
    """The settings beside the default; none for one whose default has no step size to scale."""
    if rule.tuning is not None:
        return rule.tuning
    try:
        return scaled(build(settings).settings["step_size"])
    except SettingError:
        return ()


def _settings(
    problem: Problem, each: Sequence[tuple[Entrant, tuple[str, ...]]], modules: Sequence[str]
) -> list[dict[str, Any]]:
    """The settings of cells. Only rules are composed, which Hydra then does once for all problems of a discount."""
    discount = f"discount={problem.settings['discount']}"
    lists = [[discount, *_chosen_by(rule, modules), *setting] for rule, setting in each]
    # A rule of the package is that of the package, whatever the user's folder has of that name.
    composed: dict[int, dict[str, Any]] = {}
    for own, folder in ((True, problem.config_dir), (False, None)):
        numbers = [number for number, (rule, _) in enumerate(each) if rule.own is own]
        if numbers:
            made = compose.compose_all([lists[number] for number in numbers], folder)
            composed |= dict(zip(numbers, made, strict=True))
    return [
        {**problem.settings, **{key: one[key] for key in ("algorithm", "step_size", "plugins")}}
        for _, one in sorted(composed.items())
    ]


def _chosen_by(rule: Entrant, modules: Sequence[str]) -> tuple[str, ...]:
    own = [f"plugins=[{','.join(modules)}]"] if rule.own and modules else []
    return (*own, *rule.overrides)


def _made(problem: Problem, settings: dict[str, Any]) -> Any:
    """The rule of a setting, or why it is refused."""
    try:
        arguments = build(settings).run_arguments
    except SettingError as error:
        if error.__cause__ is not None:  # an exception of the user's own code, to be mended and not ranked
            raise
        return _told(error)
    return _too_much(problem, arguments["rule"]) or arguments["rule"].with_step_size(arguments["step_size"])


def _given(problem: Problem, rules: Sequence[Entrant], refused: dict[str, Entry]) -> list[Contest]:
    """The rules that are objects; they are tuned by their step size, if settings describe it."""
    able, discount = [], problem.cell.settings["discount"]
    for rule in rules:
        reason = _too_much(problem, rule.made)
        if reason is not None:
            refused[rule.name] = Entry.refused(rule.digest, reason)
            continue
        step_size = vars(rule.made).get("step_size") or rule.made.own_step_size(discount)
        settings: list[tuple[str, ...]] = [()]
        made = [rule.made.with_step_size(step_size)]
        for changes in _changes(step_size, rule.name):
            settings.append(changes)
            values = {text.partition("=")[0].partition(".")[2]: float(text.partition("=")[2]) for text in changes}
            made.append(rule.made.with_step_size(dataclasses.replace(step_size, **values)))
        able.append(Contest(rule, settings, made))
    return able


def _changes(step_size: Any, rule: str) -> list[tuple[str, ...]]:
    try:
        lists = scaled(own_step_size.described(step_size, rule))
    except SettingError:  # a plain function: nothing to tune
        return []
    return [tuple(text for text in one if "." in text.partition("=")[0]) for one in lists]


def _too_much(problem: Problem, rule: Any) -> str | None:
    rule = rule.at(problem.cell.settings["discount"]) if hasattr(rule, "at") else rule
    features = problem.cell.run_arguments["features"]
    return over_budget(rule, problem.pairs if features is None else features.n_features, problem.iterations(rule))


# --- runs ---------------------------------------------------------------------------------------------------------


def run(problem: Problem, lists: Sequence[Sequence[Any]], seed: int, n_seeds: int) -> list[list[Outcome]]:
    """The errors of lists of rules with their step sizes; those of as many iterations are run together.

    A text in place of a rule is why it is not run. One that is there twice is run once.
    """
    by_length: dict[int, list[Any]] = {}
    done: dict[int, Outcome] = {}
    for rule in {id(rule): rule for some in lists for rule in some}.values():
        if isinstance(rule, str):
            done[id(rule)] = _not_run(rule)
            continue
        by_length.setdefault(problem.iterations(rule), []).append(rule)
    for iterations, rules in by_length.items():
        made = _together(problem, rules, {"iterations": iterations, "seed": seed, "n_seeds": n_seeds})
        done |= dict(zip(map(id, rules), made, strict=True))
    return [[done[id(rule)] for rule in some] for some in lists]


def _together(problem: Problem, rules: Sequence[Any], length: dict[str, int]) -> list[Outcome]:
    from mqlearn.learning.loop import run_together

    arguments = {**problem.cell.run_arguments, **length}
    del arguments["rule"], arguments["step_size"]
    try:
        results = run_together(problem.cell.mdp, rules, **arguments)
    except SettingError as error:
        if len(rules) == 1:
            return [_not_run(_told(error))]
        return [_together(problem, [rule], length)[0] for rule in rules]  # one that fails must not cost the others
    if problem.metric not in results[0].curves:
        known = ", ".join(results[0].curves)
        raise SettingError(f"{problem.name}.metric", problem.metric, f"is not measured here; {known} are")
    return [Outcome(result.samples, result.curves[problem.metric]) for result in results]


def _not_run(reason: str) -> Outcome:
    return Outcome(np.empty(0), np.empty((0, 0)), reason)


def _told(error: SettingError) -> str:
    return " ".join(str(error).split())
