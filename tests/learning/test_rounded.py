"""Which curves are bits on every machine: what is declared is what depends on a library, no more and no less."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import mqlearn as mq
from mqlearn import kernels, rounding
from mqlearn.learning import diagnostics, rounded
from mqlearn.learning.metric_kinds import KINDS
from mqlearn.learning.setup import validated
from mqlearn.problems import solvers

LAKE = mq.frozen_lake("4x4", rewards=(1, -0.5, -0.01))
SMALL: dict[str, Any] = {"iterations": 60, "n_seeds": 2, "n_checkpoints": 5}
LINEAR: dict[str, Any] = {
    "sampling": mq.Markovian(start="uniform"),
    "features": mq.aggregation(LAKE, tile=2),
    "evaluation": mq.Evaluation(episodes=2, time_limit=20),
}


def learned(rule: Any, **settings: Any) -> tuple[str, ...]:
    setup = validated(LAKE, **SMALL, **settings)
    found = rounded.of_learning(setup, setup.ready(rule))
    return () if found is None else found.through


def curves_of(rule: Any, settings: dict[str, Any]) -> dict[str, np.ndarray]:
    diagnostics._fixed_points.clear()
    return mq.run(mq.frozen_lake("4x4", rewards=(1, -0.5, -0.01)), rule, **SMALL, **settings).curves


@pytest.mark.parametrize("settings", [{}, LINEAR], ids=["tables", "features"])
def test_what_a_solve_moves_is_declared_and_nothing_else(settings, monkeypatch):
    """Each exact solution in turn is moved by 1e-9; the curves that notice are those of the kinds that name it."""
    rule = mq.averaged(mq.SpeedyQ())
    plain = curves_of(rule, settings)
    solve, roots, values = solvers._solve_optimum, diagnostics.fixed_point, kernels.policy_values

    def optimum(mdp):
        found = solve(mdp)
        return replace(found, q=found.q * (1 + 1e-9))

    def root(*arguments):
        point, known = roots(*arguments)
        return point and replace(point, theta=point.theta * (1 + 1e-9)), known

    changes = {
        "fixed point": (solvers, "_solve_optimum", optimum),
        "policy": (kernels, "policy_values", lambda *some: values(*some) * (1 + 1e-9)),
        "theta*": ("mqlearn.learning.run_state.fixed_point", root),
    }
    for against, change in changes.items():
        with monkeypatch.context() as patch:
            patch.setattr(*change)
            moved = curves_of(rule, settings)
        noticed = {name for name, curve in moved.items() if not np.array_equal(curve, plain[name], equal_nan=True)}
        assert noticed == {name for name in plain if KINDS[name].against == against}
    declared = rounded.of_run(LAKE, rule, **SMALL, **settings)
    assert {name.removeprefix("curve ") for name in declared if name.startswith("curve ")} == {
        name for name in plain if KINDS[name].against
    }
    assert "table error_tables" in declared and "table q" not in declared


def test_rules_are_bits_unless_they_call_more_than_ieee_754_fixes():
    class Own(mq.Rule):
        def __init__(self, function):
            self.function = function

        def update(self, k, q, q_prev, target, target_prev):
            a = self.function(k)
            return (1 - a) * q + a * target

    for rule in (mq.QLearning(), mq.SpeedyQ(), mq.MomentumQ(m=20), mq.NeSA(), mq.PID(), mq.Phased(),
                 mq.VarianceReduced(), mq.QLearning().with_step_size(mq.InverseSqrt(0.5)),
                 mq.minibatch(mq.QLearning(), 2), mq.averaged(mq.MomentumQ())):  # fmt: skip
        assert learned(rule) == (), rule
    for rule in (mq.MomentumQLinear(beta=0.5), mq.Zap(), mq.PolSA(), mq.DoubleQ(), mq.Adam(),
                 mq.QLearning().with_step_size(mq.Polynomial()),
                 mq.minibatch(mq.MomentumQLinear(beta=0.5), 2)):  # fmt: skip
        assert learned(rule) == (rounding.POWERS,), rule
    exact = [lambda k: 1 / (k + 1), lambda k: np.where(k < 5, 0.5, 1 / np.sqrt(k + 1)), lambda k: 1 / (k + 1) ** 2]
    assert [learned(Own(function)) for function in exact] == [()] * 3
    for function in (lambda k: (k + 1) ** -0.6, lambda k: np.exp(-k), lambda k: np.vectorize(lambda j: 0.5)(k)):
        assert learned(Own(function)) == (rounding.POWERS,)


def test_behaviours_are_bits_unless_they_come_through_more():
    for power, through in ((0.5, ()), (1, (rounding.POWERS,))):
        sampling = mq.Markovian(behaviour="epsilon_greedy", epsilon="visits", power=power)
        assert learned(mq.QLearning(), sampling=sampling) == through
    for sampling, through in (
        (mq.Markovian(behaviour="boltzmann"), (rounding.POWERS,)),
        (mq.Replay(behaviour="epsilon_greedy", epsilon="log"), (rounding.POWERS,)),
        (mq.Markovian(epsilon="log"), ()),
    ):
        assert learned(mq.QLearning(), sampling=sampling) == through, sampling


def test_operators_and_features_bring_theirs():
    sampled = {"sampling": mq.Markovian()}
    assert learned(mq.QLearning(), operator=mq.Relaxed(1.1)) == ()
    assert learned(mq.QLearning(), operator=mq.Mellowmax(5.0)) == (rounding.POWERS,)
    assert learned(mq.QLearning(), operator=mq.Boltzmann(0.5)) == (rounding.POWERS,)
    for features, through in (
        (mq.one_hot(LAKE), ()),
        (mq.tile_coding(LAKE), ()),
        (mq.rbf(LAKE, centres=3), (rounding.POWERS,)),
        (mq.fourier(LAKE, order=2), (rounding.POWERS,)),
        (mq.from_function(LAKE, lambda x, u: np.array([1.0, x])), (rounding.OWN_CODE,)),
    ):
        assert learned(mq.QLearning(), features=features, **sampled) == through, features


def test_a_metric_of_the_user_is_a_number_unless_it_says_that_it_is_exact():
    def largest(q, mdp):
        return q.max(axis=(1, 2))

    def of(rule) -> Any:
        return rounded.of_run(LAKE, rule, metrics={"largest": largest}, **SMALL).get("curve largest")

    assert of(mq.QLearning()).through == (rounding.OWN_CODE,)
    largest.exact = True
    assert of(mq.QLearning()) is None
    assert of(mq.MomentumQLinear(beta=0.5)).through == (rounding.POWERS,)  # its tables are not


def test_a_condition_is_that_of_the_matrix():
    random = np.random.default_rng(3)
    for n in (2, 7, 30):
        a = random.standard_normal((n, n))
        largest = np.abs(np.linalg.inv(a)).sum(0).max()
        found = rounding.inverse_norm(lambda b, way="N", a=a: np.linalg.solve(a.T if way == "T" else a, b), n)
        assert largest / 3 <= found <= largest * (1 + 1e-9)
    gamma = LAKE.discount
    chain = np.linalg.inv(np.eye(2) - gamma * np.array([[0.0, 1.0], [1.0, 0.0]]))
    matrix = np.eye(2) - gamma * np.array([[0.0, 1.0], [1.0, 0.0]])
    condition = np.abs(matrix).sum(1).max() * np.abs(chain).sum(1).max()
    assert rounding.of_discount(gamma) == pytest.approx(condition)
