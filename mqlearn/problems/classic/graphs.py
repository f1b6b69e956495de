"""Small graphs: the six states of Zap Q-learning, and the four on which a lower bound rests.

V is V*, the value under the best actions, at the usual discount, which is the default.
"""

import numpy as np

from mqlearn.checks import check_bool
from mqlearn.errors import SettingError
from mqlearn.problems.classic.building import Outcomes, finite_mdp
from mqlearn.problems.mdp import FiniteMDP, check_discount

_EDGES = ((0, 4), (1, 3), (1, 5), (2, 3), (3, 4), (4, 5))
_NODES = 6
_TARGETS = [sorted({x} | {y for edge in _EDGES if x in edge for y in edge}) for x in range(_NODES)]
_PAID = {(1, 5): 100.0, (4, 5): 100.0, (5, 5): 100.0, (3, 4): -100.0}


def six_state(*, discount: float = 0.8) -> FiniteMDP:
    """The six-state graph of Zap Q-learning (Devraj, Meyn 2017), 18 pairs.

    Action u chooses node u as the target, itself or a neighbour by the undirected edges 04, 13, 15, 23, 34, 45. The
    step goes there with probability .8, and with .2 to a uniformly drawn one of these nodes, the target included. The
    reward is that of the target: +100 for 1-5, 4-5, 5-5, -100 for 3-4, 0 for other targets that are the node itself,
    -5 otherwise. The first state is uniform. max Q* = 495.9317454937; the best targets are 4, 5, 3, 1, 5, 5.
    discount: in (0, 1). Raises SettingError for a value that is not admissible.
    """

    def outcomes(x: int, u: int) -> Outcomes:
        if u not in _TARGETS[x]:
            return []
        reward = _PAID.get((x, u), 0.0 if x == u else -5.0)
        slip = 0.2 / len(_TARGETS[x])
        return [(slip + 0.8 * (y == u), y, reward) for y in _TARGETS[x]]

    return finite_mdp("six_state", _NODES, _NODES, outcomes, discount=discount, start=np.full(_NODES, 1 / _NODES))


def lower_bound(*, tied: bool = True, discount: float = 0.9) -> FiniteMDP:
    """Four states on which Q-learning needs (1 - g)^-4 samples (Li et al. 2021; p as in Azar et al. 2013).

    State 0 is absorbing and pays 0. In state 1 two identical actions, in state 2 one action: stay with probability
    p = (4g - 1) / (3g), else to 0, paying 1 on every departure. State 3 is absorbing and pays 1. It starts in 1. The
    model depends on the discount, which must be above 1/4: `with_discount` does not change p.
    V = 0, 3 / (4 (1 - g)), 3 / (4 (1 - g)), 1 / (1 - g). The tie in state 1 is by construction: what is learned there
    is an overestimate and nothing else; with tied=False state 1 has one action, and there is none.
    Raises SettingError for a discount that is not in (1/4, 1).
    """
    discount, tied = check_discount(discount), check_bool("env.tied", tied)
    if discount <= 0.25:
        raise SettingError("discount", discount, "must be above 1/4 for lower_bound: p = (4g - 1) / (3g) is positive")
    p = (4 * discount - 1) / (3 * discount)

    def outcomes(x: int, u: int) -> Outcomes:
        if u == 1 and x != 1:
            return []
        return [(p, x, 1.0), (1 - p, 0, 1.0)] if x in (1, 2) else [(1.0, x, float(x == 3))]

    return finite_mdp("lower_bound", 4, 2 if tied else 1, outcomes, discount=discount, start=1)
