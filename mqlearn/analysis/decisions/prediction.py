"""How many seeds a question should need, by theory, before the first run."""

import math
from collections.abc import Sequence
from typing import Any

from mqlearn.algorithms.rule import Rule
from mqlearn.learning.setup import Setup
from mqlearn.problems.mdp import FiniteMDP

MOST_PAIRS = 300  # state-action pairs: on more, it would take longer than a look
_DRAWS = 4000


def errors(setup: Setup, rules: Sequence[Any]) -> list[tuple[float, float] | None]:
    """Mean and standard deviation over seeds of the sup error at the last iteration, of each rule; None if unknown.

    Of four-number rules with tables and all pairs sampled, by the normal limit of sqrt(k) (Q_k - Q*).
    """
    from mqlearn.theory.asymptotic import covariance
    from mqlearn.theory.sup import expected_sup

    mdp = setup.mdp
    fits = isinstance(mdp, FiniteMDP) and setup.synchronous and setup.features is None and setup.operator.plain
    fits = fits and mdp.discount < 1
    if not (fits and isinstance(mdp, FiniteMDP) and int(mdp.counted.sum()) <= MOST_PAIRS and setup.iterations > 0):
        return [None] * len(rules)
    found: list[tuple[float, float] | None] = []
    for rule in rules:
        known = None
        if isinstance(rule, Rule) and not rule.averaged and rule.clip is None:
            limit = covariance(mdp, rule, setup.reward, rule.batch)
            if limit.reason is None:
                mean, standard_error = expected_sup(limit.sigma, _DRAWS)
                if mean > 0:
                    known = mean / math.sqrt(setup.iterations), standard_error * math.sqrt(_DRAWS / setup.iterations)
        found.append(known)
    return found


def seeds(a: tuple[float, float], b: tuple[float, float], level: float) -> int | None:
    """Pairs of seeds that a test at `level` needs for power 0.8 if the errors of two rules were independent.

    On common seeds they rise and fall together, and fewer are enough. None where theory expects the same error.
    """
    from scipy import stats

    difference, variance = a[0] - b[0], a[1] ** 2 + b[1] ** 2
    if abs(difference) <= 1e-9 * abs(a[0]):
        return None
    z = stats.norm.isf(level / 2) + stats.norm.isf(0.2)
    return max(2, math.ceil(variance * (z / difference) ** 2))


def words(a: str, b: str, first: tuple[float, float], second: tuple[float, float], needed: int | None) -> str:
    """The prediction for one pair, in a sentence."""
    expected = f"Theory expects errors of {first[0]:.3g} ({a}) and {second[0]:.3g} ({b})"
    if needed is None:
        return f"{expected}, the same for large k: it does not say how many seeds a difference needs."
    return f"{expected}: a fixed design needs at most about {needed} seeds, fewer as samples are common."
