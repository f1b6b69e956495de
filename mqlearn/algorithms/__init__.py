"""The rules, each its equation in a file of its own."""

from mqlearn.algorithms.adam import Adam
from mqlearn.algorithms.amsgrad import AMSGrad
from mqlearn.algorithms.averaging_q import AveragingQ
from mqlearn.algorithms.certainty_equivalence import CertaintyEquivalence
from mqlearn.algorithms.double_q import DoubleQ
from mqlearn.algorithms.halpern import Halpern, HalpernDirect
from mqlearn.algorithms.maxmin import Maxmin
from mqlearn.algorithms.momentum_q import MomentumQ
from mqlearn.algorithms.momentum_q_linear import MomentumQLinear
from mqlearn.algorithms.movi import MoVI
from mqlearn.algorithms.nesa import NeSA
from mqlearn.algorithms.nesterov import Nesterov
from mqlearn.algorithms.options import averaged, clipped, minibatch
from mqlearn.algorithms.periodic import Periodic
from mqlearn.algorithms.phased import Phased
from mqlearn.algorithms.pid import PID
from mqlearn.algorithms.polsa import PolSA
from mqlearn.algorithms.q_learning import QLearning
from mqlearn.algorithms.residual import Residual
from mqlearn.algorithms.root_sa import RootSA
from mqlearn.algorithms.rule import Rule, check_rule
from mqlearn.algorithms.sarsa import ExpectedSarsa, Sarsa
from mqlearn.algorithms.speedy_q import SpeedyQ, SpeedyQPrinted
from mqlearn.algorithms.stateful import Stateful
from mqlearn.algorithms.two_step import TwoStep
from mqlearn.algorithms.variance_reduced import VarianceReduced
from mqlearn.algorithms.weighted_q import WeightedQ
from mqlearn.algorithms.zap import Zap
from mqlearn.linear_solves import solve, times

__all__ = [
    "PID",
    "AMSGrad",
    "Adam",
    "AveragingQ",
    "CertaintyEquivalence",
    "DoubleQ",
    "ExpectedSarsa",
    "Halpern",
    "HalpernDirect",
    "Maxmin",
    "MoVI",
    "MomentumQ",
    "MomentumQLinear",
    "NeSA",
    "Nesterov",
    "Periodic",
    "Phased",
    "PolSA",
    "QLearning",
    "Residual",
    "RootSA",
    "Rule",
    "Sarsa",
    "SpeedyQ",
    "SpeedyQPrinted",
    "Stateful",
    "TwoStep",
    "VarianceReduced",
    "WeightedQ",
    "Zap",
    "averaged",
    "check_rule",
    "clipped",
    "minibatch",
    "solve",
    "times",
]
