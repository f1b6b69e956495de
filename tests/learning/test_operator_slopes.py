"""Rules that follow the derivative of an operator's target: Zap, PolSA and residual against literal loops."""

from typing import Any

import numpy as np
import operators_by_hand as by_hand
import pytest
import twins

import mqlearn as mq
from mqlearn.algorithms.rule import replaced
from mqlearn.learners import Linear, start, with_state
from mqlearn.learners.operators import on_problem
from mqlearn.problems.features import from_matrix

LANES = np.array([0, 5], np.uint32)
OPERATORS = [name for name in by_hand.TABLE if name != "bellman"]
CHAIN = mq.Markovian(restart_probability=0.1)
RULES = {"zap": mq.Zap(refactor=12), "polsa": mq.PolSA(), "residual": mq.Residual(w=0.7)}
# A loop that follows slopes is compiled for operators with a common s, and once more for all others. Each rule is
# compiled for both, each operator in both ways of sampling, but not every pair of them: the plain form has these.
COMMON = ("relative", "robust", "robust, living")
OTHERS = tuple(name for name in OPERATORS if name not in COMMON)
PLAIN = [(name, rule, False) for rule in RULES for name in OPERATORS]


def compiled(**operators: tuple[str, ...]) -> list[tuple[str, str, bool]]:
    return [(name, rule, True) for rule, names in operators.items() for name in names]


def learner(name: str, rule: Any, sampling: Any, compiled: bool, features=None) -> Any:
    mdp = by_hand.model(name)
    rule = replaced(with_state(rule, None, Linear()), compiled=compiled).at(0.9)
    made: Any = start(
        mdp, sampling, features, Linear(), 7, (-0.5, 0.5), False, LANES, None, rule,
        on_problem(by_hand.TABLE[name][0], mdp, features),
    )  # fmt: skip
    return rule, made


def literal(rule: Any, q: np.ndarray, drawn: list) -> np.ndarray:
    """Tables by the equations of the rule; each iteration draws the sums over its pairs of psi d, of the matrices
    psi (dT/dQ - psi)', and of d dT'/dQ with a second successor."""
    n = len(q)
    gain, move = -(10.0 if isinstance(rule, mq.Zap) else 1.0) * np.eye(n), np.zeros(n)
    for k, draw in enumerate(drawn):
        delta, matrix, second = draw(k, q)
        c = {one: values[0] for one, values in rule.numbers(np.array([float(k)])).items() if np.ndim(values)}
        if isinstance(rule, mq.Residual):
            q = q + c["alpha"] * delta - rule.w * c["alpha"] * second
            continue
        gain = gain + c["gamma"] * (matrix - gain)
        if isinstance(rule, mq.Zap):
            q = q - c["alpha"] * np.linalg.solve(gain, delta)
        else:
            move = move + rule.zeta * gain @ move + rule.zeta * c["alpha"] * delta
            q = q + move
    return q


def test_the_derivative_by_hand_is_the_quotient_of_differences():
    for name in by_hand.TABLE:
        mdp = by_hand.model(name)
        q, step = np.random.default_rng(1).uniform(-0.5, 0.5, len(mdp.pairs)), 1e-6
        for pair, y in ((0, 3), (4, 0), (9, 8)):
            ways = [step * way for way in np.eye(len(q))]
            up, down = (
                np.array([by_hand.target(mdp, name, q + sign * way, pair, y, 0.0) for way in ways]) for sign in (1, -1)
            )
            quotient = (up - down) / (2 * step)
            np.testing.assert_allclose(by_hand.derivative(mdp, name, q, pair, y), quotient, rtol=0, atol=1e-8)


@pytest.mark.parametrize(("name", "rule", "compiled"), PLAIN + compiled(zap=OTHERS, polsa=COMMON, residual=COMMON))
def test_all_pairs_at_once_are_the_literal_loop(name, rule, compiled):
    n = 8
    own, made = learner(name, RULES[rule], mq.Synchronous(), compiled)
    mdp = by_hand.model(name)
    x, u = mdp.pairs.T
    made.advance(0, n, own.weights(0, n))
    for row, lane in enumerate(LANES.tolist()):
        samples, others = (
            twins.synchronous_outcomes(mdp, 7, LANES, n, stream)[..., row] for stream in ("synchronous", "again")
        )

        def draw(k, q, samples=samples, others=others):
            size = len(q)
            delta, matrix, second = np.zeros(size), np.zeros((size, size)), np.zeros(size)
            again = mdp.successors[x, u, others[k]]
            for pair, b in enumerate(samples[k]):
                y, r = mdp.successors[x[pair], u[pair], b], mdp.rewards[x[pair], u[pair], b]
                delta[pair] = by_hand.target(mdp, name, q, pair, y, r) - q[pair]
                matrix[pair] = by_hand.derivative(mdp, name, q, pair, y) - np.eye(size)[pair]
                second += delta[pair] * by_hand.derivative(mdp, name, q, pair, again[pair])
            return delta, matrix, second

        expected = literal(own, twins.initial_values(len(x), -0.5, 0.5, 7, lane), [draw] * n)
        np.testing.assert_allclose(made.state["q"][row], expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize(
    ("name", "rule", "compiled"),
    [
        *PLAIN,
        *[("features", rule, False) for rule in RULES],
        *compiled(zap=(*COMMON, "features"), polsa=OTHERS, residual=(*OTHERS, "features")),
    ],
)
def test_one_transition_is_the_literal_loop(name, rule, compiled):
    """`features`: mellowmax with four features of which every pair has all; there psi is a row of Phi."""
    n, with_features = 40, name == "features"
    name = "mellowmax" if with_features else name
    mdp = by_hand.model(name)
    rows = np.random.default_rng(0).uniform(-1, 1, (mdp.n_states, mdp.n_actions, 4))
    features = from_matrix(mdp, rows) if with_features else None
    phi = features.matrix().toarray() if features else np.eye(len(mdp.pairs))
    own, made = learner(name, RULES[rule], CHAIN, compiled, features)
    made.advance(0, n, own.weights(0, n))
    for row, lane in enumerate(LANES.tolist()):
        chain = twins.ChainTwin(mdp, CHAIN, lane, 7, n)

        def draw(k, theta, chain=chain, lane=lane):
            q = phi @ theta
            pair, y, r = twins.outcome_of(mdp, chain.next(k, q), False)
            d = by_hand.target(mdp, name, q, pair, y, r) - q[pair]
            again, _ = made._further(pair, k, lane, "again", 1)
            slopes, others = (by_hand.derivative(mdp, name, q, pair, after) @ phi for after in (y, again[0]))
            return d * phi[pair], np.outer(phi[pair], slopes - phi[pair]), d * others

        expected = literal(own, twins.initial_values(phi.shape[1], -0.5, 0.5, 7, lane), [draw] * n)
        np.testing.assert_allclose(made.state["q"][row], expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize(
    ("rule", "operators", "iterations", "largest"),
    [
        (mq.Zap(start=1.0, refactor=12), OTHERS, 6000, 0.06),
        (mq.PolSA(zeta=1.0), COMMON, 6000, 0.06),
        (mq.Residual(w=0.2), COMMON, 20_000, 0.2),
        (mq.DoubleQ(), (*OTHERS, *COMMON), 20_000, 0.04),
        (mq.MoVI(), (*OTHERS, *COMMON), 20_000, 0.04),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, mq.Stateful) else "",
)
def test_a_rule_comes_to_the_fixed_point_of_its_operator(rule, operators, iterations, largest):
    """Those that follow slopes: of the operators that the test of all pairs at once compiles."""
    tried = {"relaxed", "relative", "robust", "advantage", "mellowmax", "soft", "truncated"} & {*operators}
    for name in tried:
        found = mq.run(
            by_hand.model(name), rule, operator=by_hand.TABLE[name][0], iterations=iterations, n_seeds=2,
            n_checkpoints=2,
        )  # fmt: skip
        assert found.curves["q_error"][:, -1].max() < largest, name
