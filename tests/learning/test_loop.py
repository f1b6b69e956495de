"""The loop: what does not change a number, checkpoints, and rules side by side."""

import inspect
import itertools

import numpy as np
import pytest
import twins
from hypothesis import given, settings
from hypothesis import strategies as st
from loop_cases import COSTLY, KINDS, LAKE, learn
from twins import assert_same, run

from mqlearn import kernels
from mqlearn.algorithms import MomentumQ, MomentumQLinear, NeSA, QLearning, SpeedyQ
from mqlearn.algorithms.step_sizes import Constant
from mqlearn.errors import SettingError
from mqlearn.learning import loop
from mqlearn.learning.loop import run_together
from mqlearn.learning.setup import checkpoint_iterations
from mqlearn.problems.solvers import optimal
from mqlearn.sampling.evaluation import Evaluation

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
