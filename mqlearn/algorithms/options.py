"""What any rule can be asked for beside its own settings: a minibatch, the average of its iterates, a clip of them."""

import math
from typing import Any, TypeVar

from mqlearn.algorithms.rule import Rule, replaced
from mqlearn.algorithms.stateful import Stateful
from mqlearn.checks import check_int, finite_number
from mqlearn.errors import SettingError

AnyRule = TypeVar("AnyRule", bound=Rule | Stateful)


def minibatch(rule: AnyRule, n: int) -> AnyRule:
    """The same rule with T_k the mean of n independent draws of each pair that it learns from.

    The first draw is the one that all rules share, the others come from a stream of their own. An iteration counts as
    n times as many samples. Raises SettingError unless n is a whole number, at least 1.

    >>> mq.run(mq.two_state(), mq.minibatch(mq.QLearning(), 3), iterations=10, n_seeds=2).samples[-1].item()
    90
    """
    return replaced(rule, batch=check_int("algorithm.batch", n, 1, of="draws"))


def averaged(rule: AnyRule, burn_in: float = 0.0) -> AnyRule:
    """The same rule, of which the mean of Q_1, ..., Q_k (Polyak, Juditsky 1992) is measured beside Q_k.

    With features it is the mean of theta_1, ..., theta_k. Its curves have the names of those of Q_k, with `_average`.
    burn_in: the share of all T iterations whose iterates are left out: with n the whole part of burn_in T it is the
    mean of Q_{n+1}, ..., Q_k, and up to iteration n Q_k itself. Raises SettingError unless 0 <= burn_in < 1.

    >>> rule = mq.averaged(mq.QLearning())
    >>> result = mq.run(mq.two_state(), rule, iterations=100, n_seeds=2)
    >>> [name for name in result.curves if name.startswith("q_error_a")]
    ['q_error_average']
    """
    share = checked_burn_in(burn_in)
    return replaced(rule, averaged=True, **({"burn_in": share} if share else {}))


def checked_burn_in(value: Any) -> float:
    """What `algorithm.burn_in` says. Raises SettingError for what is no share."""
    share = finite_number(value)
    if share is None or not 0 <= share < 1:
        raise SettingError("algorithm.burn_in", value, "must be a share of the iterations, at least 0 and below 1")
    return share


def left_out(burn_in: float, iterations: int) -> int:
    """How many of the first iterates the mean of a rule leaves out in a run of so many iterations."""
    return math.floor(round(burn_in * iterations, 9))  # 0.07 100 is 7, without the rounding error


def clipped(rule: AnyRule, low: float, high: float) -> AnyRule:
    """The same rule, whose measured tables are cut to [low, high] after each iteration (a projection onto a box).

    The new iterate is cut alone, before it becomes the previous one; what else a rule remembers is left as it is. For
    tables; Q_0 must lie within. Step sizes count iterations, as of all rules with state. Theory says nothing of it.
    Raises SettingError unless both are numbers, and low < high.

    >>> result = mq.run(mq.two_state(), mq.clipped(mq.QLearning(), -0.5, 9), iterations=500, n_seeds=2)
    >>> bool(result.q.min() == -0.5)
    True
    """
    return replaced(rule, clip=checked_clip([low, high]))


def checked_clip(value: Any) -> tuple[float, float] | None:
    """What `algorithm.clip` says. Raises SettingError for what is no range."""
    if value is None:
        return None
    ends = [finite_number(end) for end in value] if isinstance(value, list | tuple) else []
    low, high = ends if len(ends) == 2 else (None, None)
    if low is None or high is None or not low < high:
        raise SettingError("algorithm.clip", value, "must be [low, high] with low < high, or null for no clip")
    return low, high
