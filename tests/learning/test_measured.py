"""What a run measures: errors, averages, returns, and metrics of one's own."""

import math
from pathlib import Path

import numpy as np
import pytest
import twins
from loop_cases import COSTLY, LAKE, learn
from random_mdps import random_mdp
from twins import run, success_within

import mqlearn as mq
from mqlearn.algorithms import MomentumQLinear, QLearning
from mqlearn.algorithms.step_sizes import Constant
from mqlearn.errors import SettingError
from mqlearn.learning.metrics import Measure, greedy_policies, recorded
from mqlearn.problems.environments import frozen_lake, frozen_lake_blocks
from mqlearn.problems.features import aggregation, one_hot
from mqlearn.problems.fixed_points import theta_star
from mqlearn.problems.mdp import FiniteMDP, bellman
from mqlearn.problems.solvers import optimal, policy_value
from mqlearn.sampling.evaluation import Evaluation
from mqlearn.sampling.modes import Markovian, stationary
from mqlearn.storage.array_comparison import of_run
from mqlearn.storage.runs import Run


@pytest.mark.parametrize("kind", ["synchronous", "markovian", "linear, markovian"])
def test_the_last_values_are_those_of_the_last_table(kind):
    result = learn(kind, n_seeds=4)
    q_star, counted = optimal(COSTLY).q, COSTLY.counted
    for seed, q in enumerate(result.q):
        last = {name: curve[seed, -1] for name, curve in result.curves.items()}
        assert last["q_error"] == np.abs(q - q_star)[counted].max()
        assert last["q_error_l2"] == pytest.approx(np.linalg.norm((q - q_star)[counted]))
        assert last["bellman_error"] == pytest.approx(np.abs(bellman(COSTLY, q) - q)[counted].max(), abs=1e-15)
        value = policy_value(COSTLY, greedy_policies(COSTLY, q)) @ COSTLY.start
        assert last["policy_value"] == pytest.approx(value)
        assert last["value_gap"] == pytest.approx(optimal(COSTLY).start_value - value, abs=1e-12)
        assert last["value_gap"] > -1e-12


def test_error_tables_are_means_over_seeds():
    result = learn("synchronous", n_checkpoints=50)
    assert len(result.error_iteration) == len(result.error_tables) <= 20
    assert result.error_iteration[0] == 0 and result.error_iteration[-1] == 3000
    assert set(result.error_iteration.tolist()) <= set(result.iteration.tolist())
    np.testing.assert_allclose(result.error_tables[-1], np.abs(result.q - optimal(COSTLY).q).mean(axis=0), rtol=1e-12)


def test_theta_error_is_relative_to_the_root_of_the_chain():
    result = learn("linear, markovian", theta0=0.0, n_seeds=3)
    mu = stationary(Markovian(), COSTLY)
    assert mu is not None
    root = theta_star(COSTLY, one_hot(COSTLY), mu).theta
    assert result.theta is not None and result.theta_average is not None
    size = np.linalg.norm(root)
    assert result.curves["theta_error"][:, 0] == pytest.approx(1.0)
    last = np.linalg.norm(result.theta - root, axis=1) / size
    assert result.curves["theta_error"][:, -1] == pytest.approx(last)
    average = np.linalg.norm(result.theta_average - root, axis=1) / size
    assert result.curves["theta_error_average"][:, -1] == pytest.approx(average)


def test_the_average_is_the_mean_of_the_iterates_after_the_start():
    rule = MomentumQLinear(beta=0.8).with_step_size(Constant(0.1))
    learner = twins.learner(COSTLY, Markovian(), range(4), features=one_hot(COSTLY), initial=0.05)
    np.testing.assert_array_equal(learner.average, learner.theta)
    total = 0
    for k in range(300):
        learner.advance(k, 1, rule.weights(k, k + 1))
        total = total + learner.theta
    result = learn("linear, markovian", iterations=300, n_seeds=4, linear=None)
    np.testing.assert_allclose(result.theta_average, total / 300, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize(("n_actions", "n_successors"), [(1, 3), (3, 3), (3, 2)])
def test_success_within_the_step_limit_where_pairs_have_shares_of_their_own(n_actions, n_successors):
    mdp = random_mdp(4, 12, n_actions, n_successors, 0.9, "mixed")
    measure = Measure(mdp, optimal(mdp), evaluation=Evaluation(episodes=1, time_limit=7))
    q = np.random.default_rng(0).integers(2, size=(5, 12, n_actions)).astype(float)  # with ties
    reached = np.stack([success_within(mdp, policy, 7) for policy in greedy_policies(mdp, q)])
    assert 0.01 < (reached @ mdp.start).min() < 0.99
    assert measure.success(q)["success_probability"] == pytest.approx(reached @ mdp.start, rel=1e-12)
    assert measure.success(q)["success_uniform"] == pytest.approx(reached[:, ~mdp.terminal].mean(axis=1), rel=1e-12)


def test_large_tables_are_measured_alike_together_and_alone():
    mdp = frozen_lake_blocks(8, discount=0.9)  # 64x64: not all seeds are worked on at a time
    features = aggregation(mdp, tile=4)
    theta = np.random.default_rng(0).random((5, features.n_features))
    tables, measure = features.table(mdp, theta), Measure(mdp, optimal(mdp))
    errors = measure.errors(tables)
    for i, table in enumerate(tables):
        np.testing.assert_array_equal(table, features.table(mdp, theta[i]))
        error = np.abs(table - optimal(mdp).q)[mdp.counted]
        assert errors["q_error"][i] == error.max()
        assert errors["q_error_l2"][i] == measure.errors(tables[i : i + 1])["q_error_l2"][0]
        assert errors["q_error_l2"][i] == pytest.approx(np.linalg.norm(error))


def test_the_bias_is_the_mean_over_the_counted_pairs_of_each_seed():
    mdp = mq.six_state()  # 18 of 36 pairs are admissible
    tables = np.random.default_rng(5).normal(400, 90, (3, *mdp.counted.shape))
    star = optimal(mdp).q
    for found, q in zip(mq.q_bias(tables, mdp), tables, strict=True):
        away = [q[x, u] - star[x, u] for x, u in mdp.pairs]
        assert found == pytest.approx(sum(away) / 18, rel=1e-12)


def test_metrics_of_ones_own():
    def smallest(tables: np.ndarray, mdp: FiniteMDP) -> np.ndarray:
        return tables[:, mdp.learned].min(axis=1)

    result = run(LAKE, QLearning(), iterations=20, n_seeds=3, q0=(0.0, 1.0), metrics={"smallest": smallest})
    np.testing.assert_array_equal(result.curves["smallest"][:, -1], result.q[:, LAKE.learned].min(axis=1))
    with pytest.raises(SettingError, match="q_error"):
        run(LAKE, QLearning(), iterations=20, metrics={"q_error": smallest})
    with pytest.raises(SettingError, match="shape"):
        run(LAKE, QLearning(), iterations=20, metrics={"mean": lambda tables, _: tables.mean()})


@pytest.mark.parametrize("limit", [6, 20, 300])
@pytest.mark.parametrize("table", ["optimum", "zeros", "noise"])
def test_greedy_returns_agree_with_the_exact_success_probability(table, limit):
    """The reward is 1 at the goal alone, so that the return counts the episodes that end there."""
    episodes = 3000
    measure = Measure(LAKE, optimal(LAKE), evaluation=Evaluation(episodes=episodes, time_limit=limit))
    noise = np.random.default_rng(2).random((16, 4))
    q = np.stack([{"optimum": optimal(LAKE).q, "zeros": np.zeros((16, 4)), "noise": noise}[table]] * 4)
    reached = success_within(LAKE, greedy_policies(LAKE, q[0]), limit)
    exact = {"start": reached @ LAKE.start, "uniform": reached[~LAKE.terminal].mean()}
    measured = measure.success(q)
    assert measured["success_probability"] == pytest.approx(exact["start"], abs=1e-11)
    assert measured["success_uniform"] == pytest.approx(exact["uniform"], abs=1e-11)
    returns = measure.returns(q, np.arange(4, dtype=np.uint32))
    for kind, p in exact.items():
        totals = returns[f"return_{kind}"]
        error = math.sqrt(p * (1 - p) / episodes / 4)
        assert abs(totals.mean() / episodes - p) < 4 * error + 1e-12
        if p > 0.05:
            assert len(set(totals.tolist())) > 1  # lanes have episodes of their own


def test_returns_add_all_rewards_of_an_episode():
    """Deterministic ice with a cost of 0.25 a move: the optimal way has 6, of which the last enters the goal."""
    mdp = frozen_lake("4x4", slippery=False, rewards=(1, 0, -0.25))
    measure = Measure(mdp, optimal(mdp), evaluation=Evaluation(episodes=10, start="start"))
    returns = measure.returns(optimal(mdp).q[None], np.arange(1, dtype=np.uint32))
    assert returns.keys() == {"return_start"}
    assert returns["return_start"][0] == 10 * (1 - 5 * 0.25)


def test_there_is_no_probability_of_success_without_a_goal():
    """What is recorded and what is named as recorded go together."""
    for mdp, has_goal in ((mq.frozen_lake("4x4"), True), (mq.garnet_fixed(5, 2, 2), False)):
        ten = mq.Evaluation(episodes=10)
        result = mq.run(mdp, mq.QLearning(), iterations=20, n_seeds=2, evaluation=ten)
        assert ("success_probability" in result.curves) == ("success_uniform" in result.curves) == has_goal
        assert {*result.curves} == {*recorded(mdp, None, ten)}


def test_a_run_of_old_with_zeros_for_success_without_a_goal_is_repeated():
    """An older run on a problem without a goal has the two curves; a repeat has not, and is no other run."""
    zeros = {name: np.zeros((2, 3)) for name in ("success_probability", "success_uniform")}
    curves = {"iteration": np.arange(3), "q_error": np.ones((2, 3))}

    def run_of(curves, success):
        run = Run(Path(), {"optimum": {"success_probability": success}})
        run.__dict__.update(curves=curves, tables={})
        return run

    old, new = run_of(curves | zeros, None), run_of(curves, None)
    assert of_run(old).keys() == of_run(new).keys()
    assert "curve success_uniform" in of_run(run_of(curves | zeros, 0.8))
