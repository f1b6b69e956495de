"""All that is said before a run: of its problem, its rule and its start, settings without effect, and what to expect.

What a run refuses stands in `combinations.py`, what is said after it in `diagnostics.py`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from mqlearn import source_text
from mqlearn.algorithms.rule import Rule
from mqlearn.algorithms.stateful import Stateful
from mqlearn.algorithms.step_sizes import own_of
from mqlearn.checks import PlainNumbers
from mqlearn.errors import asked, user_code
from mqlearn.finding import Finding, each_once, no_effect, worded
from mqlearn.learners.initial import Initial
from mqlearn.learners.operators import BoundOperator
from mqlearn.learning.setup import AnyRule, Setup
from mqlearn.problems.mdp import FiniteMDP
from mqlearn.problems.solvers import shortest_path
from mqlearn.sampling.evaluation import Evaluation
from mqlearn.stateful.step_size import uses_step_size

NEGLIGIBLE_VALUE = 1e-6  # of the largest reward: below this, errors and returns tell rules apart no more
NEGLIGIBLE_SUCCESS = 1e-3
_NEVER = 1e-60  # as small a value is beyond what is computed


def before_run(setup: Setup, rule: AnyRule) -> list[Finding]:
    """Of a run of a rule that `setup` has made ready, each once."""
    mdp = setup.mdp
    found = [
        *of_rule(setup, rule),
        *setup.start_findings,
        *without_effect(setup, rule),
        *worded("problem", getattr(mdp, "notes", ())),
    ]
    if isinstance(mdp, FiniteMDP):
        found += short_episodes(mdp, setup.evaluation)
        found += [] if setup.features is None else worded("dependent_features", setup.features.warnings())
    behaviour = getattr(setup.sampling, "behaviour", None)
    of_user = [rule, rule.step_size, setup.sampling, behaviour, setup.operator.operator, *setup.metrics.values()]
    return each_once([*found, *changed_sources(of_user)])


# --- what a run is about ------------------------------------------------------------------------------------------


def of_problem(mdp: FiniteMDP, best: Mapping[str, Any]) -> list[Finding]:
    """What a problem says of itself, and where the best that can be reached tells rules apart no more.

    best: of `attainable_values`.
    """
    found = worded("problem", mdp.notes)
    value, error, success = (best[key] for key in ("start_value", "certified_error", "success_probability"))
    numbers = {"start_value": value, "certified_error": error}
    known = "" if abs(value) > error else f", certified to {error:.2g} only"
    if abs(value) < _NEVER:
        text = f"the optimal value at the start is below {_NEVER:g} (computed: {value:.3g}{known})"
        found.append(Finding("negligible_value", text, numbers))
    elif abs(value) < NEGLIGIBLE_VALUE * mdp.max_reward:
        text = f"the optimal value at the start is negligible ({value:.3g}{known})"
        found.append(Finding("negligible_value", text, numbers))
    if success is not None and success < NEGLIGIBLE_SUCCESS:
        text = f"even the best policy reaches the goal with probability {success:.3g} only"
        found.append(Finding("negligible_success", text, {"success_probability": success}))
    return found


def of_operator(operator: BoundOperator) -> list[Finding]:
    """What an operator says of itself on its problem."""
    return worded("operator", operator.warnings())


def of_rule(setup: Setup, rule: AnyRule) -> list[Finding]:
    """A rule outside its theory, a start that ties, an operator that may not contract, unstable steps."""
    discount, operator = setup.mdp.discount, setup.operator
    found = [
        *worded("rule", asked("algorithm", rule, "warnings", discount)),
        *tied_start(rule, setup.initial),
        *of_operator(operator),
        *cut_off(setup, rule),
    ]
    if isinstance(rule, Stateful) or not operator.plain:  # `unstable_step` is of Bellman's operator
        return found
    sampling = setup.sampling_of(rule)
    clocks = 1
    if isinstance(setup.mdp, FiniteMDP):
        if sampling.clock == "local" or sampling.update == "rounds":
            clocks = len(setup.mdp.pairs)
        elif sampling.clock == "state":
            clocks = int((~setup.mdp.terminal).sum())
    return found + unstable_step(rule, discount, setup.iterations // clocks)


def cut_off(setup: Setup, rule: AnyRule) -> list[Finding]:
    """If a clip leaves out values of the fixed point."""
    if rule.clip is None or not isinstance(setup.mdp, FiniteMDP):
        return []
    values = setup.operator.fixed_point(setup.mdp)[setup.mdp.counted]
    least, largest = float(values.min()), float(values.max())
    if rule.clip[0] <= least and largest <= rule.clip[1]:
        return []
    text = (
        f"algorithm.clip=[{rule.clip[0]:g}, {rule.clip[1]:g}] leaves out part of the fixed point, whose values go from "
        f"{least:.4g} to {largest:.4g}: no table within comes to it"
    )
    return [Finding("clip", text, {"least": least, "largest": largest})]


def tied_start(rule: AnyRule, initial: Initial | None) -> list[Finding]:
    """If all actions tie at the start and the rule leaves it to rounding which of them is greedy."""
    if not isinstance(initial, int | float) or not getattr(rule, "rounds_ties", False):
        return []
    text = (
        f"all actions tie in Q_0 = {initial:g}, and rounding decides which of them is greedy: another correct program "
        "may give other numbers; q0=[low,high] starts at random"
    )
    return [Finding("tied_start", text, {"q0": initial})]


def unstable_step(rule: Rule, discount: float, iterations: int) -> list[Finding]:
    """If the four numbers (p, q, s, t) of the last iteration let errors grow.

    Along an eigenvector of the greedy policy's transitions with eigenvalue e, the error obeys the recursion of
    [[p + l s, q + l t], [1, 0]], l = discount e. Looked at are e = 0, 1, -1; a spectral radius above 1 is growth.
    With Q-learning that is a constant step outside (0, 2 / (1 + discount)), and outside (0, 2) for e = 0.
    """
    if iterations < 1:
        return []
    k = iterations - 1
    p, q, s, t = rule.weights(k, k + 1)[0]

    def radius(factor: float) -> float:
        return float(np.abs(np.linalg.eigvals([[p + factor * s, q + factor * t], [1.0, 0.0]])).max())

    worst = max((0.0, discount, -discount), key=radius)
    if radius(worst) <= 1 + 1e-9:
        return []
    with user_code("step_size", rule.step_size):
        alpha = float(np.ravel(rule.step_size(np.array([float(k)])))[0])
    text = (
        f"errors may grow {radius(worst):.3g} times an iteration at the end (k = {k}): the spectral radius of "
        f"[[p + l s, q + l t], [1, 0]] for the rule's weights and l = {worst:g}; the step size is {alpha:.3g}"
    )
    numbers = {"growth": radius(worst), "iteration": k, "factor": worst, "step_size": alpha}
    return [Finding("unstable_step", text, numbers)]


def short_episodes(mdp: FiniteMDP, evaluation: Evaluation) -> list[Finding]:
    """If episodes end before the goal can be reached, which makes their return 0."""
    path, limit = shortest_path(mdp), evaluation.limit(mdp)
    if path is None or limit >= path or not (evaluation.episodes or evaluation.time_limit is not None):
        return []
    text = f"evaluation.time_limit={limit} is below the shortest path from the start, {path} moves"
    return [Finding("short_episodes", text, {"time_limit": limit, "shortest_path": path})]


def changed_sources(things: Sequence[Any]) -> list[Finding]:
    """For each file of the user's that objects, classes, functions or modules come from and that has changed since."""
    return worded("source", source_text.changed(things))


# --- settings without effect --------------------------------------------------------------------------------------


def without_effect(setup: Setup, rule: AnyRule) -> list[Finding]:
    """For each setting of a run that was changed and has no effect beside the others."""
    linear, evaluation, sampling = setup.linear, setup.evaluation, setup.sampling
    tabular, with_features = setup.features is None, setup.features is not None
    unplayed = isinstance(setup.mdp, FiniteMDP) and not evaluation.episodes
    no_features, no_table = "there are no linear features", "features are learned, and no table"
    no_episodes = "no episodes are played (evaluation.episodes=0)"
    refactor, usual = (getattr(one, "refactor", 0) for one in (rule, type(rule)))  # of Zap
    solved = sampling.all_pairs and refactor > 0
    clock = getattr(sampling, "clock", "global").replace("auto", "global")  # what auto comes to in both cases
    rounds = tabular and getattr(sampling, "update", "pair") == "rounds"
    settings: Sequence[tuple[str, Any, Any, bool, str]] = (
        ("sampling.clock", clock, "global", with_features, no_table),
        ("sampling.clock", clock, "global", rounds, "a step size counts the rounds"),
        ("sampling.update", getattr(sampling, "update", "pair"), "pair", with_features, no_table),
        ("linear.previous_gradient", linear.previous_gradient, "stored", tabular, no_features),
        ("linear.first_gradient", linear.first_gradient, "same", tabular, no_features),
        ("linear.projection", linear.projection, None, tabular, no_features),
        ("theta0", setup.theta0, 0, tabular, no_features),
        ("q0", setup.q0, 0, with_features, no_table),
        ("evaluation.start", evaluation.start, "both", unplayed, no_episodes),
        ("algorithm.refactor", refactor, usual, solved, "with samples of all pairs each step is a solve"),
    )
    return [
        *idle_step_size(rule, setup.step_size),
        *idle("algorithm", rule),
        *idle("step_size", rule.step_size),
        *idle("sampling", sampling),
        *(
            no_effect(name, f"array of shape {value.shape}" if isinstance(value, np.ndarray) else value, reason)
            for name, value, plain, idle, reason in settings
            if idle and not _equal(value, plain)
        ),
    ]


def idle_step_size(rule: AnyRule, given: Any = None) -> list[Finding]:
    """If a rule does not use the step size that was given, or of one with state, one that is not its own."""
    reason = rule.without_effect().get("step_size")
    if reason is None and uses_step_size(rule):
        return []
    chosen = given
    if given is None and isinstance(rule, Stateful) and rule.step_size != own_of(rule, rule.discount):
        chosen = rule.step_size
    reason = reason or f"{type(rule).__name__} does not use it"
    return [] if chosen is None else [no_effect("step_size", chosen, reason)]


def idle(group: str, settings: Any) -> list[Finding]:
    """For each setting of an object that is not its default and has no effect beside the others."""
    if not (isinstance(settings, PlainNumbers) and is_dataclass(settings)):
        return []
    with user_code(group, type(settings).__name__):
        reasons = settings.without_effect()
    plain = {field.name: field.default for field in fields(settings)}
    changed = {name: value for name in plain if not _equal(value := getattr(settings, name), plain[name])}
    return [no_effect(f"{group}.{name}", changed[name], why) for name, why in reasons.items() if name in changed]


def _equal(value: Any, other: Any) -> bool:
    """Whether two settings are the same; a table is so only if all of it is."""
    return value is other or bool(np.array_equal(value, other))
