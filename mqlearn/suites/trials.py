"""One problem of a suite: its rules, tuned on some seeds and reported on others, side by side (see `search`).

Rules that learn from the same samples are advanced together, so that a synchronous draw is made once for all of them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mqlearn.algorithms import Rule, Stateful
from mqlearn.algorithms.step_sizes import own_of
from mqlearn.errors import SettingError
from mqlearn.experiments.settings import compose, instantiate
from mqlearn.experiments.settings.cell import build
from mqlearn.stateful.step_size import uses_step_size
from mqlearn.suites import axes
from mqlearn.suites.axes import Form
from mqlearn.suites.definition import Problem
from mqlearn.suites.results import Entry
from mqlearn.suites.rules import Entrant, over_budget
from mqlearn.suites.scores import SCORES, log_errors, scores
from mqlearn.suites.search import Point, Search


@dataclass(frozen=True, eq=False)
class Outcome:
    """Errors (n_seeds, K) after `samples` (K,) of a rule, or why it could not be run."""

    samples: np.ndarray
    errors: np.ndarray
    reason: str | None = None


@dataclass(frozen=True, eq=False)
class Contest:
    """A rule on a problem.   settings: of the cell with its default, empty for a rule that is an object.

    default: the rule with its step size, or a text that says why it is refused.   form: of its step size, if it is of
    ours.   areas: of each point that was tried, on the tuning seeds.
    """

    rule: Entrant
    settings: dict[str, Any]
    default: Any
    form: Form | None
    search: Search
    areas: dict[Point, np.ndarray] = field(default_factory=dict)

    @classmethod
    def of(cls, problem: Problem, rule: Entrant, settings: dict[str, Any], default: Any, step_size: Any) -> "Contest":
        discount = problem.settings["discount"]
        named = axes.of_rule(rule.tuning, step_size)
        if isinstance(default, Rule | Stateful) and not uses_step_size(default):  # all trials would be the same
            named = tuple(axis for axis in named if axis.setting.startswith("algorithm."))
        tuned = tuple(axis.at(discount) for axis in named)
        form = Form.of(step_size)
        search = Search(tuned, tuple(_start(rule, settings, form, axis) for axis in tuned))
        return cls(rule, settings, default, form, search)

    def refused(self, problem: Problem) -> bool:
        """Whether nothing of it can be run: neither the default nor what is a step away from it."""
        near = (self.made(problem, point) for point in self.search.near())
        return isinstance(self.default, str) and all(isinstance(one, str) for one in near)

    def overrides(self, point: Point) -> tuple[str, ...]:
        """What chooses a point; nothing for the default."""
        if point == self.search.start:
            return ()
        numbers = {axis.setting: value for axis, value in zip(self.search.axes, point, strict=True)}
        start = dict(zip(numbers, self.search.start, strict=True))
        moved = {name: value for name, value in numbers.items() if value != start[name]}
        own = tuple(f"{name}={value:.12g}" for name, value in moved.items() if name.startswith("algorithm."))
        step = {name: value for name, value in moved.items() if name.startswith("step_size.")}
        return (*own, *(self.form.with_numbers(step).overrides() if step and self.form else ()))

    def made(self, problem: Problem, point: Point) -> Any:
        """The rule at a point, or why it is refused."""
        changes = [text.partition("=")[::2] for text in self.overrides(point)]
        if not changes:
            return self.default
        own = {name.partition(".")[2]: _number(text) for name, text in changes if name.startswith("algorithm.")}
        step = {name.partition(".")[2]: float(text) for name, text in changes if name.startswith("step_size.")}
        node = {"_target_": "mqlearn.Polynomial", "name": "polynomial", **step}
        if self.rule.made is not None:
            return self.rule.made.with_step_size(instantiate.make("step_size", node, {}))
        algorithm = {**self.settings["algorithm"], **own}
        return _made(problem, {**self.settings, "algorithm": algorithm, **({"step_size": node} if step else {})})


def entries(problem: Problem, rules: Sequence[Entrant], modules: Sequence[str] = ()) -> dict[str, Entry]:
    """Run rules on a problem, by name; one that cannot be run is told with the reason."""
    found: dict[str, Entry] = {}
    able = [*_composed(problem, [rule for rule in rules if rule.made is None], modules, found),
            *_given(problem, [rule for rule in rules if rule.made is not None], found)]  # fmt: skip
    _tune(problem, able)
    seeds = problem.seeds
    final = [[one.default, one.made(problem, one.search.best)] for one in able]
    reported = run(problem, final, seeds.reporting_seed, seeds.reporting)
    for one, (_, best), outcome in zip(able, final, reported, strict=True):
        default, tuned = (part.reason for part in outcome)
        points = list(one.areas)
        found[one.rule.name] = Entry(one.rule.digest, reasons=(default, tuned)) if default and tuned else Entry(
            digest=one.rule.digest,
            rule=_chosen_by(one.rule, modules),
            iterations=problem.iterations(best),
            settings=tuple(map(one.overrides, points)),
            chosen=points.index(one.search.best),
            tuned=tuple(axis.setting for axis in one.search.axes),
            ends=tuple(one.search.ends()),
            tuning=np.array([one.areas[point] for point in points], np.float32),
            scores=_narrow(np.stack([_scores(problem, part) for part in outcome])),
            curve=_narrow(np.stack([_curve(problem, part) for part in outcome])),
            reasons=(default, tuned),
        )  # fmt: skip
    return {rule.name: found[rule.name] for rule in rules}


def _tune(problem: Problem, contests: Sequence[Contest]) -> None:
    """Search for the best setting of each rule on the tuning seeds, those of all rules side by side."""
    seeds, shorter = problem.seeds, problem.for_tuning()
    asked = [one.search.ask() for one in contests]
    while any(asked):
        lists = [[one.made(problem, point) for point in points] for one, points in zip(contests, asked, strict=True)]
        tried = run(shorter, lists, seeds.tuning_seed, seeds.tuning)
        for one, points, outcomes in zip(contests, asked, tried, strict=True):
            areas = [np.full(seeds.tuning, np.inf) if part.reason else _scores(shorter, part)[0] for part in outcomes]
            one.areas.update(zip(points, areas, strict=True))
            one.search.tell(points, [float(area.mean()) for area in areas])
        asked = [one.search.ask() for one in contests]


def runnable(problem: Problem, rules: Sequence[Entrant], modules: Sequence[str] = ()) -> list[str]:
    """The names of the rules, of yaml files, that nothing refuses before they are run."""
    return [one.rule.name for one in _composed(problem, rules, modules, {})]


def defaults(problem: Problem, rules: Sequence[Entrant], modules: Sequence[str] = ()) -> dict[str, Any]:
    """The rules with their default settings and step sizes, by name, but for those whose default is refused."""
    able = [*_composed(problem, [rule for rule in rules if rule.made is None], modules, {}),
            *_given(problem, [rule for rule in rules if rule.made is not None], {})]  # fmt: skip
    return {one.rule.name: one.default for one in able if not isinstance(one.default, str)}


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
    """The rules of yaml files of which a setting can be run; the others go to `refused`.

    Only rules are composed, which Hydra then does once for all problems of a discount.
    """
    discount = f"discount={problem.settings['discount']}"
    # A rule of the package is that of the package, whatever the user's folder has of that name.
    composed: dict[str, dict[str, Any]] = {}
    for own, folder in ((True, problem.config_dir), (False, None)):
        asked = [rule for rule in rules if rule.own is own]
        if asked:
            made = compose.compose_all([[discount, *_chosen_by(rule, modules)] for rule in asked], folder)
            composed |= {rule.name: settings for rule, settings in zip(asked, made, strict=True)}
    contests = []
    for rule in rules:
        one = composed[rule.name]
        settings = {**problem.settings, **{key: one[key] for key in ("algorithm", "step_size", "plugins")}}
        default = _made(problem, settings)
        step_size = None if isinstance(default, str) else default.step_size
        contest = Contest.of(problem, rule, settings, default, step_size)
        if contest.refused(problem):
            refused[rule.name] = Entry.refused(rule.digest, default)
        else:
            contests.append(contest)
    return contests


def _start(rule: Entrant, settings: Mapping[str, Any], form: Form | None, axis: axes.Axis) -> float:
    """Where the search begins along an axis: what the rule has by default. Raises SettingError if that is no number."""
    group, _, name = axis.setting.partition(".")
    if group == "step_size":
        assert form is not None  # only these have such axes
        return axis.start or getattr(form, "horizon" if name == "offset" else name)
    value = settings["algorithm"].get(name) if axis.start is None else axis.start
    if not isinstance(value, int | float) or (axis.scale == "log" and value <= 0):
        expected = "must be set: a number, above 0 on a logarithmic scale, as the algorithm's own is none"
        raise SettingError(f"{rule.name}.tuning.{axis.setting}.start", value, expected)
    return float(value)


def _chosen_by(rule: Entrant, modules: Sequence[str]) -> tuple[str, ...]:
    own = [f"plugins=[{','.join(modules)}]"] if rule.own and modules else []
    return (*own, *rule.overrides)


def _number(text: str) -> float:
    value = float(text)
    return int(value) if value.is_integer() else value


def _made(problem: Problem, settings: dict[str, Any]) -> Any:
    """The rule of a setting, or why it is refused."""
    try:
        arguments = build(settings).run_arguments
    except SettingError as error:
        if error.__cause__ is not None:  # an exception of the user's own code, to be mended and not ranked
            raise
        return _told(error)
    return _too_much(problem, arguments["rule"]) or arguments["rule"].with_step_size(arguments["step_size"])


def _given(problem: Problem, rules: Iterable[Entrant], refused: dict[str, Entry]) -> list[Contest]:
    """The rules that are objects; they are tuned by their step size, if it is of ours."""
    able, discount = [], problem.cell.settings["discount"]
    for rule in rules:
        reason = _too_much(problem, rule.made)
        if reason is not None:
            refused[rule.name] = Entry.refused(rule.digest, reason)
            continue
        step_size = vars(rule.made).get("step_size") or own_of(rule.made, discount)
        able.append(Contest.of(problem, rule, {}, rule.made.with_step_size(step_size), step_size))
    return able


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
