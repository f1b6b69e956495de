"""Which arrays of a run are the same bits on every machine, and how far the others may lie apart (`mqlearn.rounding`).

Derived from the objects of a run, without running it: what its rule, operator and features call decides how its tables
are rounded; the kind of a metric says which exact solution it is measured against; a metric has both roundings.
"""

from functools import partial
from typing import Any

import numpy as np

from mqlearn.algorithms.rule import Rule
from mqlearn.learners import with_state
from mqlearn.learning.diagnostics import fixed_point
from mqlearn.learning.metric_kinds import KINDS
from mqlearn.learning.metrics import recorded
from mqlearn.learning.record import ERROR_TABLES, LEARNED_TABLES
from mqlearn.learning.setup import AnyRule, Environment, Setup, validated
from mqlearn.problems import solvers
from mqlearn.problems.mdp import FiniteMDP
from mqlearn.rounding import OWN_CODE, POWERS, Rounding, has_powers, joined, of_discount
from mqlearn.sampling.protocol import BY_VISITS, LOGARITHMIC
from mqlearn.stateful.source import inexact, inexact_value

_PROBED = np.concatenate([np.arange(20.0), [1e3, 1e6]])


def of_run(mdp: Environment, rule: AnyRule, **settings: Any) -> dict[str, Rounding]:
    """`curve NAME` or `table NAME` -> how it is rounded, of the arrays of `mqlearn.run` with these arguments that are
    not the same bits everywhere. A metric of the user is none of these, unless its function has `exact = True`.
    """
    setup = validated(mdp, **settings).of_rule(rule)
    rule = setup.ready(rule)
    learned = of_learning(setup, rule)
    against = _of_solutions(setup)
    names = recorded(mdp, setup.features, setup.evaluation, setup.metrics, rule.averaged)
    found = {f"curve {name}": _of_metric(name, setup, learned, against) for name in names}
    found |= {f"table {name}": learned for name in LEARNED_TABLES}
    found[f"table {ERROR_TABLES}"] = joined([learned, against.get("fixed point")])
    return {name: rounding for name, rounding in found.items() if rounding is not None}


def of_learning(setup: Setup, rule: AnyRule) -> Rounding | None:
    """How the tables are rounded that a rule, with its step size, learns. They may differ by more where a greedy action
    turns with the last bits: of an adaptive behaviour, or of a rule that begins with ties."""
    through = []
    own = with_state(rule, setup.features, setup.linear)
    if isinstance(own, Rule):
        powers = any(has_powers(partial(_weight, own, unit), _PROBED) for unit in np.eye(4))
    else:
        powers = has_powers(own.numbers, _PROBED) or inexact(own)
    if powers or _acts_by_powers(setup.sampling) or inexact_value(setup.operator.operator):
        through.append(POWERS)
    through += filter(None, [getattr(setup.features, "through", "")])
    if not isinstance(setup.mdp, FiniteMDP):
        through.append(OWN_CODE)
    if not through:
        return None
    mdp = setup.mdp
    condition = solvers.condition(mdp) if isinstance(mdp, FiniteMDP) else of_discount(mdp.discount)
    return Rounding((*dict.fromkeys(through),), condition)


def _acts_by_powers(sampling: Any) -> bool:
    """Whether a behaviour comes through exp, log, or another power than the root."""
    if not sampling.adaptive:
        return False
    power, _, iterations = sampling.exploration
    by_power = iterations == BY_VISITS and power != 0.5
    return sampling.cooling is not None or iterations == LOGARITHMIC or by_power


def _weight(rule: Rule, unit: np.ndarray, k: np.ndarray) -> np.ndarray:
    return rule.update(k, *unit)


def _of_solutions(setup: Setup) -> dict[str, Rounding | None]:
    """The exact solutions that metrics are measured against, by the names that their kinds use."""
    mdp, operator = setup.mdp, setup.operator
    if not isinstance(mdp, FiniteMDP):
        return {"": None}
    found = {"": None, "policy": solvers.rounding(mdp), "fixed point": operator.rounding(mdp)}
    if setup.features is not None:
        point, _ = fixed_point(mdp, setup.features, setup.sampling, setup.theta0, operator)
        found["theta*"] = None if point is None else point.rounding
    return found


def _of_metric(
    name: str, setup: Setup, learned: Rounding | None, against: dict[str, Rounding | None]
) -> Rounding | None:
    if name in setup.metrics:
        exact = getattr(setup.metrics[name], "exact", False)
        return learned if exact else joined([learned, Rounding((OWN_CODE,))])
    return joined([learned, against.get(KINDS[name].against)])
