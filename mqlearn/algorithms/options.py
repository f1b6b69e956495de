"""What any rule can be asked for beside its own settings: a minibatch, and the average of its iterates."""

from typing import TypeVar

from mqlearn.algorithms.rule import Rule, replaced
from mqlearn.algorithms.stateful import Stateful
from mqlearn.checks import check_int

AnyRule = TypeVar("AnyRule", bound=Rule | Stateful)


def minibatch(rule: AnyRule, n: int) -> AnyRule:
    """The same rule with T_k the mean of n independent draws of each pair that it learns from.

    The first draw is the one that all rules share, the others come from a stream of their own. An iteration counts as
    n times as many samples. Raises SettingError unless n is a whole number, at least 1.

    >>> mq.run(mq.two_state(), mq.minibatch(mq.QLearning(), 4), iterations=10, n_seeds=2).samples[-1].item()
    120
    """
    return replaced(rule, batch=check_int("algorithm.batch", n, 1, of="draws"))


def averaged(rule: AnyRule) -> AnyRule:
    """The same rule, of which the mean of Q_1, ..., Q_k (Polyak, Juditsky 1992) is measured beside Q_k.

    With features it is the mean of theta_1, ..., theta_k. Its curves have the names of those of Q_k, with `_average`.

    >>> rule = mq.averaged(mq.QLearning())
    >>> result = mq.run(mq.two_state(), rule, iterations=100, n_seeds=2)
    >>> [name for name in result.curves if name.startswith("q_error_a")]
    ['q_error_average']
    """
    return replaced(rule, averaged=True)
