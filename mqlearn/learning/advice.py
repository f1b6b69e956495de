"""What a user should know beside the numbers: of settings before a run, of what came of it afterwards."""

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from mqlearn.algorithms.rule import Rule
from mqlearn.algorithms.stateful import Stateful
from mqlearn.checks import PlainNumbers
from mqlearn.errors import no_effect, user_code
from mqlearn.learning.initial import Initial
from mqlearn.learning.learners import Linear
from mqlearn.learning.metrics import Evaluation
from mqlearn.learning.operators import BELLMAN, OnModel
from mqlearn.learning.stateful.step_size import uses_step_size
from mqlearn.problems.environments.simulator import Simulator
from mqlearn.problems.mdp import FiniteMDP

_GROWN = 10.0  # times its start: an error that ends there has not come down


def foreseen(
    mdp: FiniteMDP | Simulator,
    rule: Rule | Stateful,
    sampling: Any,
    iterations: int,
    operator: OnModel = BELLMAN,
    initial: Initial | None = None,
) -> list[str]:
    """Warnings of a rule with its step size, known before the run: outside its theorem, from a Q_0 that ties, unstable.

    initial: Q_0 or theta_0, if known.
    """
    known = [*rule.warnings(mdp.discount), *tied_start(rule, initial), *operator.warnings(), *idle_step_size(rule)]
    known += [*idle("algorithm", rule), *idle("step_size", rule.step_size)]
    if isinstance(rule, Stateful) or not operator.plain:  # `unstable` is of Bellman's operator
        return known
    local = sampling.clock == "local" or sampling.update == "rounds"
    pairs = len(mdp.pairs) if local and isinstance(mdp, FiniteMDP) else 1
    return known + unstable(rule, mdp.discount, iterations // pairs)


def idle_step_size(rule: Rule | Stateful, given: Any = None) -> list[str]:
    """A warning if a rule does not use the step size that it has, and that is not its own, or was given."""
    if not isinstance(rule, Stateful):
        return []
    reason = rule.without_effect().get("step_size")
    if reason is None and uses_step_size(rule):
        return []
    chosen = rule.step_size if given is None and rule.step_size != rule.own_step_size(rule.discount) else given
    reason = reason or f"{type(rule).__name__} does not use it"
    return [] if chosen is None else [no_effect("step_size", chosen, reason)]


def idle(group: str, settings: Any) -> list[str]:
    """A warning for each setting of an object that is not its default and has no effect beside the others."""
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


def tied_start(rule: Rule | Stateful, initial: Initial | None) -> list[str]:
    """A warning if all actions tie at the start and the rule leaves it to rounding which of them is greedy."""
    if initial is None or isinstance(initial, tuple) or not getattr(rule, "rounds_ties", False):
        return []
    return [
        f"all actions tie in Q_0 = {initial:g}: which of them is greedy is decided by rounding, so that another right "
        "program may part from these numbers; q0=[low,high] starts at random"
    ]


def unstable(rule: Rule, discount: float, iterations: int) -> list[str]:
    """A warning if the four numbers (p, q, s, t) of the last iteration let errors grow.

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
    return [
        f"errors may grow {radius(worst):.3g} times an iteration at the end (k = {k}): the spectral radius of "
        f"[[p + l s, q + l t], [1, 0]] for the rule's weights and l = {worst:g}; the step size is {alpha:.3g}"
    ]


def without_effect(
    mdp: FiniteMDP | Simulator,
    sampling: Any,
    features: Any,
    linear: Linear,
    evaluation: Evaluation,
    q0: Any,
    theta0: Any,
) -> list[str]:
    """A warning for each setting that was changed and has no effect beside the others. Episodes are resolved."""
    tabular, linear_too = features is None, features is not None
    quiet = isinstance(mdp, FiniteMDP) and not evaluation.episodes
    no_features, no_table = "there are no linear features", "features are learned, and no table"
    checks: Sequence[tuple[str, Any, Any, bool, str]] = (
        # What auto came to with features is global.
        (
            "sampling.clock",
            getattr(sampling, "clock", "global").replace("auto", "global"),
            "global",
            linear_too,
            no_table,
        ),
        ("sampling.update", getattr(sampling, "update", "pair"), "pair", linear_too, no_table),
        ("linear.previous_gradient", linear.previous_gradient, "stored", tabular, no_features),
        ("linear.first_gradient", linear.first_gradient, "same", tabular, no_features),
        ("linear.projection", linear.projection, None, tabular, no_features),
        ("theta0", theta0, 0, tabular, no_features),
        ("q0", q0, 0, linear_too, no_table),
        ("evaluation.start", evaluation.start, "both", quiet, "no episodes are played (evaluation.episodes=0)"),
    )
    rest = [no_effect(name, value, reason) for name, value, plain, vain, reason in checks if vain and value != plain]
    return [*idle("sampling", sampling), *rest]


def grown(q_error: np.ndarray) -> list[str]:
    """A warning if the error of some seeds ends far above its start. q_error: (n_seeds, C)."""
    first, last = q_error[:, 0], q_error[:, -1]
    there = np.isfinite(last) & (first > 0)
    times = last[there] / first[there]
    above = times[times > _GROWN]
    if not above.size:
        return []
    return [
        f"{above.size} of {len(q_error)} seeds end with an error more than {_GROWN:g} times its start "
        f"(median of these: {np.median(above):.3g} times): the rule does not converge with these settings"
    ]
