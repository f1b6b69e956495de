"""Rules with operators: every kernel and every verb against literal loops (operators_by_hand), and what is refused."""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import operators_by_hand as by_hand
import pytest
import twins

import mqlearn as mq
from mqlearn.algorithms.operators import Numbers as Five
from mqlearn.algorithms.operators import Operator
from mqlearn.algorithms.rule import Rule, changed
from mqlearn.algorithms.stateful import Stateful
from mqlearn.learning.learners import Linear, shared_samples, start, with_state
from mqlearn.learning.operators import on_problem
from mqlearn.problems.features import from_matrix

N, LANES = 60, np.array([0, 5], np.uint32)
OPERATORS = list(by_hand.TABLE)
PLACES: dict[str, Any] = {
    "markovian": mq.Markovian(restart_probability=0.1),
    "local clock": mq.Markovian(restart_probability=0.1, clock="local"),
    "epsilon-greedy": mq.Markovian(behaviour="epsilon_greedy", epsilon=0.4, restart_probability=0.1),
    "replay": mq.Replay(warm_up=20, draws=2, capacity=15, restart_probability=0.1),
    "iid": mq.IID(restart_probability=0.1),
}


class Numbers(Rule):
    """Four numbers that change with k, none of them 0."""

    def update(self, k, q, q_prev, target, target_prev):
        a = 0.3 + 0.4 / (k + 1)
        return (1.2 - a) * q - 0.1 * q_prev + 0.8 * a * target + (0.2 * a - 0.1) * target_prev


@dataclass(frozen=True)
class TwoTables(Stateful):
    """Two tables, of which one chooses for the other, or neither."""

    other: bool = True
    compiled: bool = True  # type: ignore  # a setting here, a constant of the class elsewhere

    def init(self, q0):
        return {"a": q0, "b": 0.5 * q0}

    def step(self, z, s, c):
        if self.other:
            s.move(z.a, s.target(z.b, z.a), c.alpha)
        else:
            s.move(z.a, s.target(z.b) + 0.1 * s.best(z.b), c.alpha)
        s.move(z.b, s.target(z.a), c.alpha)


def learner(name: str, sampling: Any, rule: Any, *, features=None, linear=None, shared=False) -> Any:
    mdp, operator = by_hand.model(name), by_hand.TABLE[name][0]
    common = (mdp, sampling, features, linear or Linear(), 7)
    samples = shared_samples(*common, False, LANES) if shared else None
    made = start(*common, (-0.5, 0.5), False, LANES, samples, rule, on_problem(operator, mdp, features))
    weights = rule.weights(*made.rows(0, N))
    if samples is not None:
        samples.draw(N)
    made.advance(0, N, weights)
    return made


def start_of(n: int, lane: int) -> np.ndarray:
    return twins.initial_values(n, -0.5, 0.5, 7, lane)


def some_features(mdp) -> Any:
    """Four of them, of which every pair has all."""
    return from_matrix(mdp, np.random.default_rng(0).uniform(-1, 1, (mdp.n_states, mdp.n_actions, 4)))


def close(found: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


# --- four numbers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("rule", [Numbers(), mq.SpeedyQ(), mq.QLearning()], ids=lambda rule: type(rule).__name__)
def test_all_pairs_at_once_are_the_literal_loop(name, rule):
    mdp, n = by_hand.model(name), 20
    made: Any = start(
        mdp, mq.Synchronous(), None, Linear(), 7, (-0.5, 0.5), False, LANES, None, rule,
        on_problem(by_hand.TABLE[name][0], mdp),
    )  # fmt: skip
    made.advance(0, n, rule.weights(0, n))
    outcomes = twins.synchronous_outcomes(mdp, 7, LANES, n)
    x, u = mdp.pairs.T
    for row, lane in enumerate(LANES):
        q = q_prev = start_of(len(x), int(lane))
        for k, (p, old, s, t) in enumerate(rule.weights(0, n)):
            new = np.empty_like(q)
            for pair, b in enumerate(outcomes[k, :, row]):
                y, r = mdp.successors[x[pair], u[pair], b], mdp.rewards[x[pair], u[pair], b]
                now, before = (by_hand.target(mdp, name, table, pair, y, r) for table in (q, q_prev))
                new[pair] = p * q[pair] + old * q_prev[pair] + s * now + t * before
            q, q_prev = new, q
        close(made.q[row], q)


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("place", [*PLACES, "shared samples"])
def test_the_visited_pair_is_the_literal_loop(name, place):
    mdp, rule, shared = by_hand.model(name), Numbers(), place == "shared samples"
    sampling = PLACES["markovian" if shared else place]
    made = learner(name, sampling, rule, shared=shared)
    for row, lane in enumerate(LANES.tolist()):
        chain, q = twins.ChainTwin(mdp, sampling, lane, 7, N), start_of(len(mdp.pairs), lane)
        q_prev, count = q.copy(), np.zeros(len(q), int)
        for k in range(N):
            pair, y, r = twins.outcome_of(mdp, chain.next(k, q), False)
            p, old, s, t = rule.weights(0, N)[count[pair] if sampling.clock == "local" else k]
            now, before = (by_hand.target(mdp, name, table, pair, y, r) for table in (q, q_prev))
            new = q.copy()
            new[pair] = p * q[pair] + old * q_prev[pair] + s * now + t * before
            q, q_prev = new, q
            count[pair] += 1
        close(made.q[row], q)


@pytest.mark.parametrize("name", ["relaxed", "relative", "robust", "mellowmax"])
def test_rounds_are_the_literal_loop(name):
    mdp, rule, n = by_hand.model(name), Numbers(), 1500
    sampling = mq.IID(restart_probability=0.1, update="rounds")
    made: Any = start(
        mdp, sampling, None, Linear(), 7, (-0.5, 0.5), False, LANES[:1], None, rule,
        on_problem(by_hand.TABLE[name][0], mdp),
    )  # fmt: skip
    made.advance(0, n, rule.weights(*made.rows(0, n)))
    chain, q = twins.ChainTwin(mdp, sampling, 0, 7, n), start_of(len(mdp.pairs), 0)
    q_prev, seen, rounds = q.copy(), {}, 0
    wanted = set(np.flatnonzero(mdp.counted[*mdp.pairs.T]).tolist())
    for k in range(n):
        pair, y, r = twins.outcome_of(mdp, chain.next(k, q), False)
        seen.setdefault(pair, []).append([by_hand.target(mdp, name, table, pair, y, r) for table in (q, q_prev)])
        if wanted <= seen.keys():
            p, old, s, t = rule.weights(rounds, rounds + 1)[0]
            new = q.copy()
            for j, both in seen.items():
                now, before = np.mean(both, axis=0)
                new[j] = p * q[j] + old * q_prev[j] + s * now + t * before
            q, q_prev, seen, rounds = new, q, {}, rounds + 1
    assert rounds > 1
    close(made.q[0], q)


@pytest.mark.parametrize("name", by_hand.LINEAR)
@pytest.mark.parametrize("linear", [Linear(), Linear("same_sample"), Linear(projection=0.8)])
@pytest.mark.parametrize("place", ["markovian", "epsilon-greedy"])
def test_linear_features_are_the_literal_loop(name, linear, place):
    mdp, rule, sampling = by_hand.model(name), Numbers(), PLACES[place]
    features = some_features(mdp)
    phi = features.matrix().toarray()
    made = learner(name, sampling, rule, features=features, linear=linear)
    for row, lane in enumerate(LANES.tolist()):
        chain, theta = twins.ChainTwin(mdp, sampling, lane, 7, N), start_of(4, lane)
        change, g_prev = 0 * theta, None
        for k, (_, old, s, t) in enumerate(rule.weights(0, N)):
            pair, y, r = twins.outcome_of(mdp, chain.next(k, phi @ theta), False)

            def gradient(at, pair=pair, y=y, r=r):
                return (phi[pair] @ at - by_hand.target(mdp, name, phi @ at, pair, y, r)) * phi[pair]

            g = gradient(theta)
            before = gradient(theta - change) if linear.previous_gradient == "same_sample" else g_prev
            before = g if before is None else before
            change = -(old + t) * change - s * g - t * before
            new = theta + change
            if linear.projection is not None and np.linalg.norm(new) > linear.projection:
                new *= linear.projection / np.linalg.norm(new)
                change = new - theta
            theta, g_prev = new, g
        close(made.theta[row], theta)


# --- rules with state of their own ----------------------------------------------------------------------------------


def two_tables(mdp, name: str, rule: TwoTables, a, b, pair: int, y: int, r: float, alpha: float) -> float:
    """What table a moves to."""
    if rule.other:
        return by_hand.target(mdp, name, b, pair, y, r, by=a)
    edges = mdp.pair_offsets
    v = by_hand.TABLE[name][1].v(b[edges[y] : edges[y + 1]].tolist()) if edges[y] < edges[y + 1] else 0.0
    return by_hand.target(mdp, name, b, pair, y, r) + 0.1 * v


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("other", [True, False])
@pytest.mark.parametrize("compiled", [True, False])
def test_verbs_of_one_transition_are_the_literal_loop(name, compiled, other):
    mdp, rule = by_hand.model(name), TwoTables(other, compiled).at(0.9)
    sampling = PLACES["markovian"]
    made = learner(name, sampling, rule)
    for row, lane in enumerate(LANES.tolist()):
        chain, a = twins.ChainTwin(mdp, sampling, lane, 7, N), start_of(len(mdp.pairs), lane)
        b = 0.5 * a
        for k in range(N):
            pair, y, r = twins.outcome_of(mdp, chain.next(k, a), False)
            alpha = 1 / (k + 1)
            a[pair] += alpha * (two_tables(mdp, name, rule, a, b, pair, y, r, alpha) - a[pair])
            b[pair] += alpha * (by_hand.target(mdp, name, a, pair, y, r) - b[pair])
        close(made.state["a"][row], a)
        close(made.state["b"][row], b)


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("other", [True, False])
@pytest.mark.parametrize("compiled", [True, False])
def test_verbs_of_all_pairs_are_the_literal_loop(name, compiled, other):
    mdp, n = by_hand.model(name), 12
    rule = TwoTables(other, compiled).at(0.9)
    made: Any = start(
        mdp, mq.Synchronous(), None, Linear(), 7, (-0.5, 0.5), False, LANES[:1], None, rule,
        on_problem(by_hand.TABLE[name][0], mdp),
    )  # fmt: skip
    made.advance(0, n, rule.weights(0, n))
    outcomes = twins.synchronous_outcomes(mdp, 7, LANES[:1], n)[..., 0]
    x, u = mdp.pairs.T
    a = start_of(len(x), 0)
    b = 0.5 * a
    for k in range(n):
        alpha, ahead = 1 / (k + 1), mdp.successors[x, u, outcomes[k]]
        paid, pairs = mdp.rewards[x, u, outcomes[k]], range(len(x))
        to = np.array([two_tables(mdp, name, rule, a, b, j, ahead[j], paid[j], alpha) for j in pairs])
        a = a + alpha * (to - a)
        b = b + alpha * (np.array([by_hand.target(mdp, name, a, j, ahead[j], paid[j]) for j in pairs]) - b)
    close(made.state["a"][0], a)
    close(made.state["b"][0], b)


@pytest.mark.parametrize("name", by_hand.LINEAR)
@pytest.mark.parametrize("other", [True, False])
@pytest.mark.parametrize("compiled", [True, False])
def test_verbs_with_linear_features_are_the_literal_loop(name, compiled, other):
    mdp, rule = by_hand.model(name), TwoTables(other, compiled).at(0.9)
    sampling = PLACES["markovian"]
    features = some_features(mdp)
    phi = features.matrix().toarray()
    made = learner(name, sampling, rule, features=features)
    chain, a = twins.ChainTwin(mdp, sampling, 0, 7, N), start_of(4, 0)
    b = 0.5 * a
    for k in range(N):
        pair, y, r = twins.outcome_of(mdp, chain.next(k, phi @ a), False)
        alpha = 1 / (k + 1)
        to = two_tables(mdp, name, rule, phi @ a, phi @ b, pair, y, r, alpha)
        a = a + alpha * (to - phi[pair] @ a) * phi[pair]
        b = b + alpha * (by_hand.target(mdp, name, phi @ a, pair, y, r) - phi[pair] @ b) * phi[pair]
    close(made.state["a"][0], a)


@pytest.mark.parametrize("name", [name for name in OPERATORS if name != "bellman"])
@pytest.mark.parametrize("place", ["synchronous", "markovian"])
def test_the_mean_of_a_minibatch_is_the_same_compiled_and_plain(name, place):
    """Of three draws at a time: the compiled form adds them in the order of the plain one."""
    rule = mq.minibatch(mq.SpeedyQ(), 3)
    sampling, made = PLACES.get(place, mq.Synchronous()), []
    for compiled in (True, False):
        own = changed(with_state(rule, None, Linear()), compiled=compiled).at(0.9)
        mdp = by_hand.model(name)
        one: Any = start(
            mdp, sampling, None, Linear(), 7, (-0.5, 0.5), False, LANES, None, own,
            on_problem(by_hand.TABLE[name][0], mdp),
        )  # fmt: skip
        one.advance(0, 20, own.weights(0, 20))
        made.append(one.state["q"])
    close(*made)


class Plain(Stateful):
    """Q-learning, as a rule with state."""

    def init(self, q0):
        return {"q": q0}

    def step(self, z, s, c):
        s.move(z.q, s.target(z.q), c.alpha)


@pytest.mark.parametrize("name", [name for name in OPERATORS if name != "relative"])
@pytest.mark.parametrize("place", ["synchronous", "epsilon-greedy", "replay"])
def test_q_learning_with_state_is_that_of_four_numbers(name, place):
    settings: dict[str, Any] = {
        "operator": by_hand.TABLE[name][0], "iterations": 200, "n_seeds": 3, "seed": 5, "n_checkpoints": 6,
        "sampling": PLACES.get(place), "q0": (0, 0.1), "n_workers": 1,
    }  # fmt: skip
    four, own = (mq.run(by_hand.model(name), rule, **settings) for rule in (mq.QLearning(), Plain()))
    close(own.q, four.q)  # type: ignore  # tables: there are no features
    close(own.curves["q_error"], four.curves["q_error"])


# --- what is measured, and what is refused --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["relaxed", "robust", "advantage", "mellowmax", "truncated"])
def test_the_error_against_its_own_fixed_point_falls(name):
    found = mq.run(
        by_hand.model(name), mq.QLearning(), operator=by_hand.TABLE[name][0], iterations=30_000, n_seeds=4,
        step_size=mq.Polynomial(0.7), n_checkpoints=5,
    )  # fmt: skip
    point = found.facts["operator"]
    assert found.curves["q_error"][:, -1].max() < 0.1 < 0.2 < point["distance_to_q_star"]
    assert found.curves["bellman_error"][:, -1].max() < 0.1


def test_the_error_is_zero_where_a_run_starts_at_a_fixed_point_that_is_a_constant():
    """Two actions that stay and pay 1: values of Bellman's are 10, of log sum exp more, and a run may begin there."""
    mdp = mq.from_arrays(np.ones((1, 2, 1)), np.ones((1, 2)), discount=0.9)
    omega = 2.0
    value = (1 + 0.9 * np.log(2) / omega) / 0.1
    soft = mq.run(mdp, mq.QLearning(), operator=mq.Soft(omega), iterations=0, n_seeds=1, q0=value)
    mellow = mq.run(mdp, mq.QLearning(), operator=mq.Mellowmax(omega), iterations=0, n_seeds=1, q0=10.0)
    for found in (soft, mellow):
        assert found.curves["q_error"][0, 0] == pytest.approx(0, abs=1e-12)
        assert found.curves["bellman_error"][0, 0] == pytest.approx(0, abs=1e-12)
        assert found.curves["value_gap"][0, 0] == pytest.approx(0, abs=1e-12)


LAKE = mq.frozen_lake("4x4", discount=0.9)


@pytest.mark.parametrize(
    ("operator", "settings", "words"),
    [
        (mq.Relative(0.5), {}, "has no such fixed point where states are terminal"),
        (mq.Robust(0.1), {"features": mq.one_hot(LAKE)}, "has no certified fixed point with features"),
        (mq.Advantage(0.5), {"features": mq.one_hot(LAKE)}, "use bellman, relaxed, truncated, mellowmax, soft, or"),
        ("relaxed", {}, "must be an operator, such as mq.Relaxed"),
    ],
)
def test_what_has_no_fixed_point_is_refused_by_name(operator, settings, words):
    sampling = mq.Markovian() if settings else None
    with pytest.raises(mq.SettingError, match="operator.*" + words):
        mq.run(LAKE, mq.QLearning(), operator=operator, iterations=10, sampling=sampling, **settings)


@pytest.mark.parametrize(
    ("scalar", "numbers"), [("none", Five(ahead=0.8, own=0.1)), ("mean", Five(ahead=0.8, common=0.1))]
)
def test_an_operator_with_more_than_features_can_learn_is_refused_with_them(scalar, numbers):
    class Own(Operator):
        with_features = True

        def numbers(self, discount):
            return numbers

    Own.scalar = scalar
    settings = {"operator": Own(), "iterations": 10, "n_seeds": 1, "sampling": mq.Markovian()}
    assert mq.run(LAKE, mq.QLearning(), **settings).status == "finished"
    with pytest.raises(mq.SettingError, match=r"operator='own': has s or Q\(x, u\) in its target"):
        mq.run(LAKE, mq.QLearning(), features=mq.one_hot(LAKE), **settings)


class WritesAhead(Plain):
    """Writes where Bellman's target has its greedy action."""

    def step(self, z, s, c):
        s.add_best(z.q, c.alpha)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("sampling", [None, mq.Markovian()])
def test_a_rule_that_writes_at_the_greedy_action_ahead_is_refused(compiled, sampling):
    rule = changed(WritesAhead(), compiled=compiled)
    with pytest.raises(
        mq.SettingError, match=r"operator='relaxed': .* s.add_best .* s.add_gradient is of any operator"
    ):
        mq.run(LAKE, rule, operator=mq.Relaxed(), iterations=10, sampling=sampling)


@pytest.mark.parametrize(
    ("operator", "words"),
    [
        (mq.Relaxed(1.5), r"w\* = 1 "),
        (mq.Advantage(0.5), "no contraction is proven"),
        (mq.Robust(0.1), "discount 0.81"),
        (mq.Truncated(0.01), r"below .* the largest \|V\*\|"),
        (mq.Relaxed(0.5), None),
        (mq.Robust(0.1, terminals=False), None),
        (mq.Truncated(), None),
    ],
)
def test_a_run_warns_of_what_an_operator_does_there(operator, words):
    found = mq.run(LAKE, mq.QLearning(), operator=operator, iterations=10, n_seeds=1)
    if words is None:
        assert not found.warnings
    else:
        assert any(re.search(words, text) for text in found.warnings)


@pytest.mark.parametrize(
    "make",
    [
        lambda: mq.Relaxed(w=0), lambda: mq.Relative(kappa=float("nan")), lambda: mq.Robust(radius=1),
        lambda: mq.Advantage(a=1), lambda: mq.Mellowmax(omega=0), lambda: mq.Truncated(bound=-1),
    ],
)  # fmt: skip
def test_a_number_outside_its_range_is_refused(make):
    with pytest.raises(mq.SettingError, match="operator"):
        make()


def test_rules_share_samples_under_an_operator():
    settings = {"operator": mq.Relaxed(0.8), "iterations": 300, "n_seeds": 2, "sampling": mq.Markovian()}
    rules = [mq.QLearning(), mq.SpeedyQ()]
    for together, alone in zip(mq.run_together(LAKE, rules, **settings), rules, strict=True):
        twins.assert_same(together, mq.run(LAKE, alone, **settings))
