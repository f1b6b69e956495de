"""The rules, each its equation in a file of its own."""

from mqlearn.algorithms.momentum_q import MomentumQ
from mqlearn.algorithms.momentum_q_linear import MomentumQLinear
from mqlearn.algorithms.nesa import NeSA
from mqlearn.algorithms.options import averaged, minibatch
from mqlearn.algorithms.q_learning import QLearning
from mqlearn.algorithms.rule import Rule, check_rule
from mqlearn.algorithms.speedy_q import SpeedyQ
from mqlearn.algorithms.stateful import Stateful

__all__ = [
    "MomentumQ",
    "MomentumQLinear",
    "NeSA",
    "QLearning",
    "Rule",
    "SpeedyQ",
    "Stateful",
    "averaged",
    "check_rule",
    "minibatch",
]
