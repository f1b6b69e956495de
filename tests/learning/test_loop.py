"""The loop: what does not change a number, checkpoints, metrics, and values that were known beforehand."""

import dataclasses
import inspect
import itertools
import math
from typing import Any

import numpy as np
import pytest
import twins
from hypothesis import given, settings
from hypothesis import strategies as st
from random_mdps import random_mdp
from twins import assert_same, run, success_within

from mqlearn.algorithms import MomentumQ, MomentumQLinear, NeSA, QLearning, Rule, SpeedyQ
from mqlearn.algorithms.step_sizes import Constant, Polynomial, RescaledLinear
from mqlearn.errors import SettingError
from mqlearn.learning import kernels, loop
from mqlearn.learning.learners import Linear
from mqlearn.learning.loop import run_together
from mqlearn.learning.metrics import Evaluation, Measure, greedy_policies
from mqlearn.learning.sampling import IID, Markovian, Replay, Synchronous, stationary
from mqlearn.learning.setup import checkpoint_iterations
from mqlearn.problems.environments import frozen_lake, frozen_lake_blocks
from mqlearn.problems.features import aggregation, one_hot
from mqlearn.problems.fixed_points import theta_star
from mqlearn.problems.mdp import FiniteMDP, bellman, greedy
from mqlearn.problems.solvers import optimal, policy_value

LAKE = frozen_lake("4x4", discount=0.9)
# With a cost of every move a table shows all that was sampled.
COSTLY = frozen_lake("4x4", discount=0.9, rewards=(1, -0.5, -0.01))
BLOCKS = frozen_lake_blocks(2, "4x4", discount=0.9, rewards=(1, -0.5, -0.01))

KINDS = {
    "synchronous": {"mdp": COSTLY, "rule": MomentumQ()},
    "markovian": {"mdp": COSTLY, "rule": SpeedyQ(), "sampling": Markovian(clock="local")},
    "epsilon-greedy": {"mdp": COSTLY, "rule": QLearning(), "sampling": Markovian(behaviour="epsilon_greedy")},
    "rounds": {"mdp": COSTLY, "rule": SpeedyQ(), "sampling": Markovian(update="rounds", start="uniform")},
    "replay": {"mdp": COSTLY, "rule": QLearning(), "sampling": Replay(capacity=100, warm_up=30, draws=2)},
    "iid": {"mdp": COSTLY, "rule": MomentumQLinear(beta=0.5), "sampling": IID(start="uniform")},
    "linear": {
        "mdp": BLOCKS,
        "rule": MomentumQLinear(beta=0.8).with_step_size(Constant(0.1)),
        "sampling": Replay(capacity=1000, start="uniform"),
        "features": aggregation(BLOCKS, tile=2),
        "theta0": (0.0, 0.1),
    },
    "linear, markovian": {
        "mdp": COSTLY,
        "rule": MomentumQLinear(beta=0.8).with_step_size(Constant(0.1)),
        "sampling": Markovian(),
        "features": one_hot(COSTLY),
        "linear": Linear("same_sample"),
        "theta0": 0.05,
    },
}  # fmt: skip


def learn(kind: str, **more: Any) -> Any:
    arguments: dict[str, Any] = (
        {"iterations": 3000, "n_checkpoints": 8, "evaluation": Evaluation(episodes=4)} | KINDS[kind] | more
    )
    mdp, rule = arguments.pop("mdp"), arguments.pop("rule")
    return run(mdp, rule, **arguments)


# --- what changes no number -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_results_do_not_depend_on_workers_nor_on_the_number_of_seeds(kind):
    one, two, three, again = (learn(kind, n_workers=n) for n in (1, 2, 3, 3))
    assert np.isfinite(one.curves["q_error"]).all()
    assert one.q is not None and len(np.unique(one.q.reshape(20, -1), axis=0)) == 20  # no two seeds are the same
    for other in (two, three, again):
        assert_same(one, other)
        np.testing.assert_array_equal(one.error_tables, other.error_tables)
        if one.visits is not None:
            np.testing.assert_array_equal(one.visits, other.visits)
    assert_same(one, learn(kind, n_seeds=5), slice(5))


@pytest.mark.parametrize("kind", KINDS)
def test_results_do_not_depend_on_the_checkpoints(kind):
    """Blocks between checkpoints are no part of the rule: the same bits for tables, and for features to rounding."""
    many, few = (learn(kind, n_seeds=3, n_checkpoints=n) for n in (40, 3))
    if many.theta is None:
        np.testing.assert_array_equal(many.q, few.q)
    else:
        np.testing.assert_allclose(many.q, few.q, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("kind", ["markovian", "epsilon-greedy", "replay", "linear", "linear, markovian"])
def test_evaluation_never_disturbs_learning(kind):
    results = [learn(kind, n_seeds=3, evaluation=Evaluation(episodes=n)) for n in (0, 10, 150)]
    for other in results[1:]:
        np.testing.assert_array_equal(results[0].q, other.q)
        np.testing.assert_array_equal(results[0].curves["q_error"], other.curves["q_error"])
    assert "return_start" not in results[0].curves
    assert results[2].curves["return_start"].max() <= 150


def test_seeds_share_no_random_block():
    """Every (seed, stream, k, lane) has words of its own, so that run 0 and run 1 overlap nowhere, not even shifted."""
    blocks = [
        twins.words(stream, seed, np.arange(20)[:, None], np.arange(60)).reshape(4, -1)
        for seed, stream in itertools.product(range(4), kernels.STREAMS)
    ]
    every = np.concatenate(blocks, axis=1)
    assert len(np.unique(every, axis=1).T) == every.shape[1] == 4 * len(kernels.STREAMS) * 20 * 60


@pytest.mark.parametrize("kind", ["synchronous", "markovian", "replay", "linear"])
def test_runs_of_different_seeds_have_different_tables(kind):
    tables = np.concatenate([learn(kind, seed=seed, iterations=500).q for seed in (0, 1)])
    assert len(np.unique(tables.reshape(40, -1), axis=0)) == 40


def test_all_rules_see_the_same_samples():
    """With the same first target, Q-learning and SpeedyQ (printed) agree after one step, whatever was drawn."""
    one, other = (run(LAKE, rule, iterations=1, q0=(0.0, 1.0)).q for rule in (QLearning(), SpeedyQ("printed")))
    np.testing.assert_array_equal(one, other)
    visits = [learn("markovian", rule=rule).visits for rule in (QLearning(), MomentumQ())]
    np.testing.assert_array_equal(*visits)


# --- checkpoints ------------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=300)
@given(st.integers(0, 10**7), st.sampled_from(["log", "linear"]), st.integers(1, 300), st.booleans())
def test_checkpoints_increase_and_end_at_the_last_iteration(iterations, spacing, n, quarters):
    points = checkpoint_iterations(iterations, spacing, n, quarters=quarters)
    assert points.dtype == np.int64
    assert points[-1] == iterations
    assert (np.diff(points) > 0).all()
    assert 1 <= len(points) <= n + 2 * quarters
    if n > 1:
        assert points[0] == 0
        if quarters:
            assert {iterations // 4, iterations // 2} <= set(points.tolist())


def test_checkpoints_are_spaced_as_asked():
    assert checkpoint_iterations(1000, "linear", 5).tolist() == [0, 250, 500, 750, 1000]
    assert checkpoint_iterations(10_000, "log", 6).tolist() == [0, 1, 10, 100, 1000, 10_000]
    assert checkpoint_iterations(0, "log", 200).tolist() == [0]


@pytest.mark.parametrize("kind", ["synchronous", "markovian", "linear"])
@pytest.mark.parametrize("spacing", ["log", "linear"])
@pytest.mark.parametrize("n", [1, 2])
def test_few_checkpoints_measure_the_end_of_the_run(kind, spacing, n):
    few = learn(kind, n_seeds=3, checkpoints=spacing, n_checkpoints=n)
    many = learn(kind, n_seeds=3)
    assert few.iteration[-1] == 3000
    np.testing.assert_allclose(few.q, many.q, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(few.curves["q_error"][:, -1], many.curves["q_error"][:, -1], rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_no_iteration_is_a_valid_run(kind):
    result = learn(kind, iterations=0, n_seeds=3)
    assert result.iteration.tolist() == [0]
    assert result.status == "finished"
    assert result.curves["q_error"].shape == (3, 1)
    if "theta0" not in KINDS[kind]:
        assert not result.q.any()
        assert result.curves["q_error"][:, 0] == pytest.approx(np.abs(optimal(COSTLY).q[COSTLY.counted]).max())


def test_progress_is_told_of_every_checkpoint():
    told = []
    result = run(LAKE, QLearning(), iterations=500, n_seeds=4, progress=lambda k, error: told.append((k, error)))
    at = dict(told)
    assert [k for k, _ in told] == sorted(at)
    assert [at[k] for k in result.iteration.tolist()] == pytest.approx(result.curves["q_error"].mean(axis=0))


@pytest.mark.parametrize("n_checkpoints", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_progress_is_told_between_checkpoints_and_changes_nothing(kind, n_checkpoints):
    told = []
    more = {"iterations": 20_000, "n_checkpoints": n_checkpoints}
    result = learn(kind, **more, progress=lambda k, _: told.append(k))
    if "features" not in KINDS[kind]:
        assert max(k - before for before, k in itertools.pairwise([0, *told])) <= 20_000 / 16
    silent = learn(kind, **more)
    for name, curve in silent.curves.items():
        np.testing.assert_array_equal(result.curves[name], curve)
    np.testing.assert_array_equal(result.q, silent.q)


def test_with_features_too_progress_is_told_between_distant_checkpoints_and_changes_no_bit():
    told = []
    more = {"iterations": 300_000, "n_checkpoints": 2, "n_seeds": 2}
    result = learn("linear", **more, progress=lambda k, _: told.append(k))
    assert max(k - before for before, k in itertools.pairwise(told)) <= 2**16 < 300_000 / 4
    assert_same(result, learn("linear", **more))


OTHER_RULES = (QLearning(), SpeedyQ(), MomentumQLinear(beta=0.5, lam=0.9999))


@pytest.mark.parametrize("n_workers", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_rules_that_run_together_give_the_results_of_each_alone(kind, n_workers):
    arguments = {"iterations": 3000, "n_checkpoints": 8, "n_seeds": 5, "n_workers": n_workers} | KINDS[kind]
    mdp, rule = arguments.pop("mdp"), arguments.pop("rule")
    rules = [rule, *(other.with_step_size(Constant(0.1)) for other in OTHER_RULES)]
    if arguments.get("features") is not None:
        del rules[2]  # made for tables: it soon grows out of hand here
    together = run_together(mdp, rules, **arguments)
    for one, own in zip(together, rules, strict=True):
        alone = run(mdp, own, **arguments)
        assert_same(one, alone)
        np.testing.assert_array_equal(one.visits, alone.visits)
        assert (one.facts, one.warnings, one.status) == (alone.facts, alone.warnings, "finished")
        assert one.seconds > 0
    tables = [one.q.tobytes() for one in together if one.q is not None]
    assert len(set(tables)) == len(rules)


def test_settings_of_several_rules_are_those_of_one():
    one, several = (list(inspect.signature(function).parameters.values()) for function in (loop.run, run_together))
    assert one[2:] == several[2:]  # with their defaults
    assert run_together(LAKE, [], iterations=10) == []
    with pytest.raises(TypeError, match="n_sedes"):
        run_together(LAKE, [QLearning()], iterations=10, n_sedes=3)  # type: ignore  # as a user may
    assert len(run_together(LAKE, (rule for rule in (QLearning(), NeSA())), iterations=10)) == 2
    with pytest.raises(SettingError, match=r"rules=.*must be a list of rules"):
        run_together(LAKE, QLearning(), iterations=10)  # type: ignore  # as a user may
    with pytest.raises(SettingError, match=r"algorithm='SpeedyQ': must be a rule"):
        run_together(LAKE, [QLearning(), "SpeedyQ"], iterations=10)  # type: ignore  # what a user may write


# --- metrics ----------------------------------------------------------------------------------------------------------


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


# --- known values -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "step_size", "expected"),
    [
        (QLearning(), None, (0.112, 0.069, 0.048)),
        (QLearning(), RescaledLinear(0.9), (0.150, 0.035, 0.0106)),
        (SpeedyQ(), None, (0.082, 0.027, 0.0090)),
        (SpeedyQ("printed"), None, (0.121, 0.028, 0.0089)),
        (NeSA(), None, (0.581, 0.032, 0.0063)),
        (MomentumQ(m=2), None, (0.074, 0.027, 0.0090)),
        (MomentumQ(m=10), None, (0.127, 0.030, 0.0090)),
        (MomentumQ(m=100), None, (0.435, 0.143, 0.0224)),
    ],
    ids=["q", "q rescaled", "azar", "printed", "nesa", "m=2", "m=10", "m=100"],
)
def test_errors_on_slippery_ice(rule, step_size, expected):
    """Means over 200 seeds at k = 100, 1000, 10000, 4x4 and discount 0.9, found before with independent code."""
    result = run(LAKE, rule, iterations=10_000, n_seeds=200, step_size=step_size, n_checkpoints=6)
    assert result.reward == "mean"
    columns = np.searchsorted(result.iteration, [100, 1000, 10_000])
    for error, value in zip(result.curves["q_error"][:, columns].T, expected, strict=True):
        rounding = 0.5e-3 if value > 0.02 else 0.5e-4
        assert abs(error.mean() - value) < 4 * math.sqrt(2) * error.std(ddof=1) / math.sqrt(200) + rounding


def test_a_step_size_that_decays_too_fast_is_a_plateau():
    mdp = LAKE.with_discount(0.99)
    result = run(mdp, QLearning(), iterations=3000, n_seeds=20, checkpoints="linear", n_checkpoints=4)
    for k, mean, deviation in ((1000, 0.507, 0.007), (3000, 0.495, 0.008)):
        error = result.curves["q_error"][:, result.iteration == k]
        assert error.mean() == pytest.approx(mean, abs=4 * deviation * math.sqrt(2 / 20) + 0.0005)
        assert deviation / 2 < error.std(ddof=1) < deviation * 2


def test_the_reward_in_the_target_is_a_choice_that_matters():
    mdp = LAKE.with_discount(0.99)
    for reward, value in (("mean", 0.117), ("sampled", 0.064)):
        result = run(mdp, MomentumQ(m=2), iterations=1000, n_seeds=200, reward=reward, n_checkpoints=3)
        error = result.curves["q_error"][:, -1]
        assert result.reward == reward
        assert abs(error.mean() - value) < 4 * error.std(ddof=1) * math.sqrt(1 / 200 + 1 / 20) + 0.0005


def test_the_printed_speedy_q_overshoots():
    mdp = frozen_lake("8x8", discount=0.99)
    for rule, value in ((SpeedyQ("printed"), 4.3), (SpeedyQ("azar"), 0.31)):
        result = run(mdp, rule, iterations=100, n_seeds=60, n_checkpoints=3)
        error = result.curves["q_error"][:, -1]
        assert abs(error.mean() - value) < 4 * error.std(ddof=1) * math.sqrt(1 / 60 + 1 / 20) + 0.02 * value


def test_averaged_noise_shrinks_as_it_should():
    """SpeedyQ's bound 2 R/(1-g)^2 [g/T + sqrt(2 log(2 n/delta)/T)], with delta = 0.1 for all seeds of the run."""
    iterations, delta = 10_000, 0.1
    result = run(LAKE, SpeedyQ(), iterations=iterations, n_seeds=20, reward="sampled", n_checkpoints=3)
    n = int(LAKE.counted.sum())
    bound = 2 / 0.1**2 * (0.9 / iterations + math.sqrt(2 * math.log(2 * n / delta) / iterations))
    assert result.curves["q_error"][:, -1].max() < bound


# --- one's own rule and environment -----------------------------------------------------------------------------------


class Halfway(Rule):
    """Q-learning that looks at the mean of both targets."""

    def update(self, k, q, q_prev, target, target_prev):
        a = self.step_size(k)
        return q + a * ((target + target_prev) / 2 - q)


class MyQLearning(Rule):
    def update(self, k, q, q_prev, target, target_prev):
        a = self.step_size(k)
        return (1 - a) * q + a * target


def corridor(n: int = 5) -> FiniteMDP:
    """States 0 .. n - 1, left and right; the move succeeds with probability 0.9; reward 1 for entering the last."""
    x = np.arange(n)
    successors = np.stack([np.maximum(x - 1, 0), np.minimum(x + 1, n - 1)], axis=1)
    successors = np.stack([successors, np.repeat(x[:, None], 2, axis=1)], axis=2)
    successors[-1] = n - 1
    rewards = (successors == n - 1) * 1.0
    rewards[-1] = 0
    terminal = x == n - 1
    return FiniteMDP(
        successors, np.tile([0.9, 0.1], (n, 2, 1)), rewards, terminal, np.ones((n, 2), bool), np.eye(n)[0], 0.8,
        terminal, "corridor",
    )  # fmt: skip


@pytest.mark.parametrize("sampling", [Synchronous(), Markovian(clock="local"), Replay(clock="local")], ids=repr)
def test_a_rule_and_an_environment_of_ones_own(sampling):
    mdp = corridor()
    assert (greedy(mdp, optimal(mdp).q)[:-1] == 1).all()
    arguments = {
        "iterations": 4000,
        "n_seeds": 6,
        "sampling": sampling,
        "step_size": Polynomial(0.7),
        "n_checkpoints": 9,
    }
    mine, own = run(mdp, MyQLearning(), **arguments), run(mdp, QLearning(), **arguments)
    assert_same(mine, own)
    other = run(mdp, Halfway(), **arguments)
    assert np.abs(other.q - own.q).max() > 1e-6
    for result in (own, other):
        assert result.curves["q_error"][:, -1].mean() < 0.15 * result.curves["q_error"][:, 0].mean()


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad",
    [
        {"iterations": -5}, {"iterations": 2.5}, {"iterations": True}, {"iterations": "many"},
        {"n_seeds": 0}, {"n_seeds": 1.0}, {"seed": -1}, {"seed": 2**32}, {"n_checkpoints": 0}, {"n_workers": 0},
        {"checkpoints": "cubic"}, {"reward": "best"},
    ],
    ids=str,
)  # fmt: skip
def test_bad_settings_are_refused_by_name(bad):
    name = next(iter(bad))
    with pytest.raises(SettingError, match=f"^{name}="):
        run(LAKE, QLearning(), **({"iterations": 10} | bad))


def test_the_initial_table_is_a_constant_or_a_range():
    constant = run(LAKE, QLearning(), iterations=0, n_seeds=2, q0=0.25)
    np.testing.assert_array_equal(constant.q[:, LAKE.learned], 0.25)
    np.testing.assert_array_equal(constant.q[:, ~LAKE.learned], 0)
    drawn = run(LAKE, QLearning(), iterations=0, n_seeds=40, q0=(-2.0, 3.0)).q[:, LAKE.learned]
    assert drawn.min() >= -2 and drawn.max() < 3
    assert drawn.mean() == pytest.approx(0.5, abs=4 * 5 / math.sqrt(12 * drawn.size))
    x, u = LAKE.pairs.T
    expected = twins.initial_values(len(x), -2.0, 3.0, 0, 7)
    np.testing.assert_array_equal(run(LAKE, QLearning(), iterations=0, n_seeds=8, q0=(-2.0, 3.0)).q[7, x, u], expected)


def test_rewards_are_resolved_and_recorded():
    assert run(LAKE, QLearning(), iterations=1, n_seeds=1).reward == "mean"
    assert run(LAKE, QLearning(), iterations=1, n_seeds=1, sampling=Markovian()).reward == "sampled"
    mean = run(LAKE, QLearning(), iterations=500, n_seeds=1, sampling=Markovian(), reward="mean")
    assert mean.reward == "mean"
    twin = dataclasses.replace(LAKE, rewards=np.repeat(LAKE.mean_rewards[..., None], 3, axis=2))
    np.testing.assert_array_equal(mean.q, run(twin, QLearning(), iterations=500, n_seeds=1, sampling=Markovian()).q)


def test_a_schedule_that_ends_on_a_plateau_is_told():
    """NU-06: with 1/(k + 1) and discount 0.99 plain Q-learning stands still; the schedule says so, not the error."""

    def ran(rule, discount=0.99, **settings):
        return run(LAKE.with_discount(discount), rule, **{"iterations": 3000, "n_seeds": 2, **settings})

    slow = ran(QLearning())
    assert slow.facts["effective_horizon"] == pytest.approx(sum(1 / k for k in range(1, 3001)))
    assert any("sum to 8.58 only" in text and "= 100 steps" in text for text in slow.warnings)
    for other in (
        ran(SpeedyQ()),
        ran(QLearning(), step_size=Constant(0.1)),
        ran(QLearning(), discount=0.9),
        ran(QLearning(), step_size=RescaledLinear(0.99)),
    ):
        assert not any("plateau" in text for text in other.warnings)
    n = int(LAKE.learned.sum())
    chain = Markovian(clock="local")
    assert ran(QLearning(), sampling=chain).facts["effective_horizon"] == pytest.approx(
        sum(1 / k for k in range(1, 3000 // n + 1))
    )


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"rule": QLearning}, "algorithm="),
        ({"rule": "q_learning"}, "algorithm='q_learning'"),
        ({"mdp": "4x4"}, "env='4x4'"),
        ({"step_size": 0.1}, "step_size=0.1"),
        ({"sampling": "markovian"}, "sampling='markovian'"),
        ({"sampling": Markovian}, "sampling="),
        ({"linear": "stored"}, "linear='stored'"),
        ({"evaluation": 10}, "evaluation=10"),
        ({"metrics": len}, "metrics="),
        ({"q0": math.nan}, "q0=nan"),
        ({"q0": (1, 0)}, "q0=(1, 0)"),
        ({"theta0": "0"}, "theta0='0'"),
        ({"sampling": Markovian(), "features": "one_hot"}, "features='one_hot'"),
        ({"sampling": Markovian(), "features": aggregation(BLOCKS, tile=2)}, "features='aggregation'"),
    ],
    ids=str,
)
def test_what_is_no_part_of_a_run_is_refused_by_its_name(wrong, named):
    with pytest.raises(SettingError) as refused:
        run(**{"mdp": LAKE, "rule": QLearning(), "iterations": 3, "n_seeds": 2, **wrong})
    assert str(refused.value).startswith(named)


@pytest.mark.parametrize("field", ["time_limit", "capacity", "warm_up", "draws"])
def test_numbers_of_steps_are_whole(field):
    for value in (2.5, "2", True):
        with pytest.raises(SettingError, match=f"sampling.{field}="):
            Replay(**dict[str, Any]({field: value}))


@pytest.mark.parametrize("field", ["episodes", "time_limit"])
def test_numbers_of_an_evaluation_are_whole(field):
    for value in (2.5, "2", True):
        with pytest.raises(SettingError, match=f"evaluation.{field}="):
            Evaluation(**dict[str, Any]({field: value}))


def test_a_range_may_be_a_list():
    one, other = (run(LAKE, QLearning(), iterations=3, n_seeds=2, q0=q0) for q0 in ([-1, 1], (-1, 1)))
    assert np.array_equal(one.q, other.q)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["sampling=markovian"],
        ["sampling=markovian", "evaluation.start=start", "features=one_hot"],
        ["evaluation.episodes=3", "evaluation.start=uniform"],
    ],
)
def test_the_metrics_that_are_said_to_be_recorded_are(words):
    from mqlearn.experiments.settings import cell, compose

    made = cell.build(compose.compose([*words, "iterations=8", "n_seeds=2", "n_checkpoints=4"]))
    (result,) = cell.run_cells([made])
    assert sorted(result.curves) == sorted(cell.measured_by(made))


def test_one_rule_and_several_are_run_with_the_same_keywords():
    one, several = (list(inspect.signature(function).parameters.values()) for function in (loop.run, run_together))
    assert [p.name for p in one[:2]] == ["mdp", "rule"] and [p.name for p in several[:2]] == ["mdp", "rules"]
    assert one[2:] == several[2:] and all(p.kind is p.KEYWORD_ONLY for p in one[2:])
    defaults = {p.name: p.default for p in one[2:]}
    assert (defaults["n_seeds"], defaults["n_checkpoints"], defaults["sampling"]) == (20, 200, None)
    with pytest.raises(TypeError, match="n_seed"):
        loop.run(LAKE, QLearning(), iterations=1, n_seed=3)  # type: ignore[call-arg]
