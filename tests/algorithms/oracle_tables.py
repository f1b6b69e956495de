"""Which oracle every shipped rule is compared with, in each mode that it has; `test_completeness` demands it.

A rule of four numbers needs one in FOUR_NUMBERS: its modes follow from its numbers, and are tested with any numbers. A
rule with state of its own needs one in the table of each of its modes.
"""

from functools import partial
from typing import Any

import oracles
import oracles_adaptive as adaptive
import oracles_following as following
import oracles_linear as linear
import oracles_state as table
import twins

import mqlearn as mq

DISCOUNT = 0.8
rescaled = oracles.wainwright(oracles.Problem([], [], DISCOUNT))
Table = dict[str, tuple[Any, Any]]  # label: the rule, and its oracle

FOUR_NUMBERS: Table = {
    "q_learning": (mq.QLearning(), oracles.q_learning),
    "expected_sarsa": (mq.ExpectedSarsa(), oracles.q_learning),
    "speedy_q": (mq.SpeedyQ(), oracles.speedy_q),
    "speedy_q, printed": (mq.SpeedyQ(form="printed"), partial(oracles.speedy_q, form="printed")),
    "speedy_q_printed": (mq.SpeedyQPrinted(), partial(oracles.speedy_q, form="printed")),
    "nesa": (mq.NeSA(), oracles.nesa),
    "momentum_q": (mq.MomentumQ(), oracles.momentum_q),
    "momentum_q, shifted": (mq.MomentumQ(m=20), partial(oracles.momentum_q, m=20, shifted=True)),
    "momentum_q_linear": (mq.MomentumQLinear(beta=0.8), oracles.momentum_q_linear),
    "root_sa": (mq.RootSA(), oracles.root_sa),
    "root_sa, 0.5": (mq.RootSA(eta=0.5), partial(oracles.root_sa, eta=0.5)),
    "halpern": (mq.Halpern().with_step_size(mq.Polynomial(1, 1, 0)), oracles.halpern_difference),
    "halpern, 2": (mq.Halpern().with_step_size(mq.Polynomial(1, 2, 1)),
                   partial(oracles.halpern_difference, be=lambda k: 2 / (k + 2))),
}  # fmt: skip
SYNCHRONOUS: Table = {
    "double": (mq.DoubleQ(), table.double_q),
    "double, own clock": (mq.DoubleQ(clock="own"), partial(table.double_q, clock="own")),
    "double, plain step": (mq.DoubleQ(factor=1), partial(table.double_q, clock="global", step=rescaled)),
    "maxmin": (mq.Maxmin(), table.maxmin),
    "maxmin, 8": (mq.Maxmin(n=8, factor=1), partial(table.maxmin, n=8, factor=1)),
    "maxmin, 5": (mq.Maxmin(n=5).with_step_size(mq.Constant(0.05)), partial(table.maxmin, n=5, step=lambda k: 0.05)),
    "zap": (mq.Zap(), partial(table.zap, start=10.0, shift=2)),
    "zap from I": (mq.Zap(start=1, shift=1, rho=1), partial(table.zap, rho=1)),
    "polsa": (mq.PolSA(), table.polsa),
    "polsa 1": (mq.PolSA(zeta=1), partial(table.polsa, zeta=1)),
    "residual": (mq.Residual(), table.residual_gradient),
    "residual .5": (mq.Residual(w=0.5), partial(table.residual_gradient, w=0.5)),
    "phased, growing": (mq.Phased(), table.phased),
    "phased, fixed": (mq.Phased(draws=7), partial(table.phased, phase_draws=lambda _: 7)),
    "periodic": (mq.Periodic(period=20), partial(table.periodic, period=20)),
    "variance reduced": (mq.VarianceReduced(first=2, steps=5), partial(table.variance_reduced, first=2, steps=5)),
    "variance reduced, K": (mq.VarianceReduced(first=1), partial(table.variance_reduced, first=1)),
    "movi": (mq.MoVI(), table.movi),
    "movi, rescaled": (mq.MoVI(keep_start=False).with_step_size(mq.RescaledLinear(DISCOUNT)),
                       partial(table.movi, step=rescaled, keep_start=False)),
    "nesterov": (mq.Nesterov(), table.nesterov),
    "nesterov, a": (mq.Nesterov(a=1 / (1 + DISCOUNT)), partial(table.nesterov, a=1 / (1 + DISCOUNT))),
    "adam": (mq.Adam(), adaptive.adam),
    "amsgrad": (mq.AMSGrad(), adaptive.amsgrad),
    "amsgrad, decay": (mq.AMSGrad(decay=0.99, restart=7), partial(adaptive.amsgrad, decay=0.99, restart=7)),
    "amsgrad, no restart": (mq.AMSGrad(restart=None), partial(adaptive.amsgrad, restart=10**9)),
    "averaging": (mq.AveragingQ(), table.averaging_q),
    "averaging, d": (mq.AveragingQ(d=0.5), partial(table.averaging_q, d=0.5)),
    "pid": (mq.PID(eta=0, ki=0.25, kd=0.25), partial(adaptive.pid, gains=adaptive.Gains(1, 0.25, 0.25))),
    "pid, adaptive": (mq.PID(eta=0.01, lam=0.001), partial(adaptive.pid_adaptive, eta=0.01, lam=0.001)),
    "pid, previous draw": (mq.PID(eta=0.01, previous_draw=True),
                           partial(adaptive.pid_adaptive, eta=0.01, previous_draw=True)),
    "halpern": (mq.HalpernDirect(), oracles.halpern_direct),
}  # fmt: skip
_SAME = (
    "maxmin", "maxmin, 8", "maxmin, 5",
    "double", "double, own clock", "polsa", "residual", "periodic", "movi", "nesterov", "adam", "amsgrad",
    "amsgrad, decay", "averaging", "pid", "pid, adaptive", "pid, previous draw", "halpern",
)  # fmt: skip
ASYNCHRONOUS: Table = {name: SYNCHRONOUS[name] for name in _SAME} | {
    "zap": (mq.Zap(), table.zap_asynchronous),
    "zap, inverted often": (mq.Zap(refactor=40), table.zap_asynchronous),
    "zap, solved": (mq.Zap(refactor=0), table.zap_asynchronous),
    "pid, common": (mq.PID(eta=0.01, lam=0.001, gains="common"),
                    partial(adaptive.pid_adaptive, eta=0.01, lam=0.001, common=True)),
    "weighted": (mq.WeightedQ(), following.weighted_q),
    "sarsa": (mq.Sarsa(), following.sarsa),
    "two step": (mq.TwoStep(), following.two_step),
    "two step, signed": (mq.TwoStep(weight=-0.5, horizon=10.0).with_step_size(mq.Constant(0.2)),
                         partial(following.two_step, weight=-0.5, horizon=10.0, step=lambda k: 0.2)),
}  # fmt: skip
LINEAR: Table = {
    "double": (mq.DoubleQ(), linear.double_linear),
    "zap": (mq.Zap(), linear.zap_linear),
    "zap, inverted often": (mq.Zap(refactor=40), linear.zap_linear),
    "zap, solved": (mq.Zap(refactor=0), linear.zap_linear),
    "polsa": (mq.PolSA(), linear.polsa_linear),
    "residual": (mq.Residual(), linear.residual_linear),
    "periodic": (mq.Periodic(period=20), partial(linear.periodic_linear, period=20)),
    "movi": (mq.MoVI().with_step_size(mq.Constant(0.3)), partial(linear.movi_linear, step=lambda k: 0.3)),
    "nesterov": (mq.Nesterov(), linear.nesterov_linear),
    "adam": (mq.Adam(), linear.adam_linear),
    "amsgrad": (mq.AMSGrad(), linear.amsgrad_linear),
    "averaging": (mq.AveragingQ(), linear.averaging_linear),
}
# Rules that plan on counts have no step: they are compared as whole runs, in learning/test_certainty_equivalence.py.
PLANNED: Table = {"certainty equivalence": (mq.CertaintyEquivalence(), twins.plan_twin)}
MODES = {"synchronous": SYNCHRONOUS, "asynchronous": ASYNCHRONOUS, "linear": LINEAR}


def without_oracle(rule: Any) -> list[str]:
    """The modes of a rule in which no oracle is compared with it."""
    if isinstance(rule, mq.Rule):
        return [] if _compared(rule, FOUR_NUMBERS) else ["four numbers"]
    if rule.plans:
        return [] if _compared(rule, PLANNED) else list(rule.modes)
    return [mode for mode in rule.modes if not _compared(rule, MODES[mode])]


def _compared(rule: Any, oracle_of: Table) -> bool:
    return any(type(other) is type(rule) for other, _ in oracle_of.values())
