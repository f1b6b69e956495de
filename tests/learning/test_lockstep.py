"""Rules side by side: a seed that diverges is found where it does, by itself, and costs no other seed or rule."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import twins
from twins import assert_same, run

from mqlearn.algorithms import MomentumQLinear, QLearning, Rule
from mqlearn.algorithms.step_sizes import Constant, Harmonic, InverseSqrt
from mqlearn.learning.lockstep import DIVERGED
from mqlearn.learning.loop import run_together
from mqlearn.problems.classic import garnet
from mqlearn.problems.environments import frozen_lake, frozen_lake_blocks
from mqlearn.problems.features import aggregation, from_matrix, one_hot
from mqlearn.problems.mdp import FiniteMDP
from mqlearn.sampling.evaluation import Evaluation
from mqlearn.sampling.modes import Markovian, Replay, Synchronous

LAKE = frozen_lake("4x4", discount=0.9)


def wild_features():
    matrix = np.random.default_rng(5).normal(size=(16, 4, 6))
    return from_matrix(LAKE, matrix, norm="none")


WILD = {
    "synchronous": {"sampling": Synchronous(), "step": 3.0},
    "table": {"sampling": Markovian(start="uniform"), "step": 3.0},
    "local clock": {"sampling": Replay(capacity=500, start="uniform", clock="local"), "step": 3.0},
    "linear": {"sampling": Markovian(start="uniform"), "step": 0.8, "features": wild_features()},
    "momentum": {"sampling": Markovian(start="uniform"), "step": 0.4, "features": wild_features(), "beta": 0.5},
}


@pytest.mark.parametrize("kind", WILD)
def test_divergence_ends_the_seed_at_the_exact_step_and_no_other(kind):
    """Against learners that go one step at a time; the run ends when half of the seeds have diverged."""
    settings = WILD[kind]
    rule = MomentumQLinear(beta=settings.get("beta", 0.0), lam=0.9999).with_step_size(Constant(settings["step"]))
    features, n_seeds, weights = settings.get("features"), 6, rule.weights(0, 30_000)
    initial = (0.5, 1.0)
    steps, before = {}, {}
    for lane in range(n_seeds):
        learner = twins.learner(
            LAKE, settings["sampling"], [lane], features=features, initial=initial, mean_reward=kind == "synchronous"
        )
        k, table = 0, learner.tables()[0]
        while learner.largest()[0] <= DIVERGED:
            table = learner.tables()[0] if learner.largest()[0] > 1e90 else table
            learner.advance(k, 1, weights[learner.rows(k, 1)[0] :])
            k += 1
        steps[lane], before[lane] = k, table
    iterations = int(np.median(list(steps.values())))
    expected = {lane: step for lane, step in steps.items() if step <= iterations}
    results = [
        run(
            LAKE, rule, iterations=iterations, n_seeds=n_seeds, sampling=settings["sampling"], features=features,
            q0=initial, theta0=initial, n_checkpoints=30, evaluation=Evaluation(episodes=0), n_workers=n_workers,
        )
        for n_workers in (1, 2)
    ]  # fmt: skip
    result = results[0]
    assert_same(result, results[1])
    assert result.diverged == expected
    assert 0 < len(expected) < n_seeds or len(set(steps.values())) < n_seeds
    assert result.status == "diverged"
    for lane in range(n_seeds):
        over = result.iteration >= steps[lane]
        for name in ("q_error", "q_error_l2", "bellman_error", "policy_value"):
            np.testing.assert_array_equal(np.isnan(result.curves[name][lane]), over, err_msg=name)
        if lane in expected:
            np.testing.assert_allclose(result.q[lane], before[lane], rtol=1e-9)
        else:
            alone = twins.learner(
                LAKE, settings["sampling"], [lane], features=features, initial=initial,
                mean_reward=kind == "synchronous",
            )  # fmt: skip
            twins.advance(alone, rule, iterations)
            np.testing.assert_allclose(result.q[lane], alone.tables()[0], rtol=1e-9)
    assert np.isfinite(result.q).all() and np.abs(result.q).max() > 1e50


def test_a_rule_that_diverges_changes_nothing_for_those_beside_it():
    """They go on with the samples of its lost seeds; and of these what the chain saw counts up to the divergence."""
    wild = QLearning().with_step_size(Constant(0.8))
    tame = QLearning().with_step_size(Constant(0.001))
    sampling = Markovian(start="uniform")
    arguments: dict[str, Any] = {
        "iterations": 6000, "n_seeds": 4, "sampling": sampling, "features": wild_features(), "theta0": (0.5, 1.0),
        "n_checkpoints": 5, "evaluation": Evaluation(episodes=0),
    }  # fmt: skip
    results = run_together(LAKE, [wild, tame, wild], **arguments)
    assert results[0].diverged and not results[1].diverged
    for rule, result in zip((wild, tame, wild), results, strict=True):
        alone = run(LAKE, rule, **arguments)
        assert_same(result, alone)
        np.testing.assert_array_equal(result.visits, alone.visits)
        counted = np.zeros(len(LAKE.pairs))
        for lane in range(4):
            pairs, _ = twins.drawn(LAKE, sampling, result.diverged.get(lane, 6001) - 1, lane)
            counted += np.bincount(pairs, minlength=len(counted))
        assert result.visits is not None
        np.testing.assert_array_equal(result.visits[*LAKE.pairs.T], counted)


@pytest.mark.parametrize("n_rules", [2, 4, 6])
def test_rules_that_one_loop_moves_have_the_numbers_of_each_alone(n_rules):
    """Six without momentum, one with, and one that diverges; over blocks of an odd length, and several checkpoints."""
    blocks = frozen_lake_blocks(2, "4x4", discount=0.9, rewards=(1, -0.5, -0.01))
    steps = [Constant(0.1), Harmonic(3), Constant(0.2), InverseSqrt(0.5, 100), Constant(3.0), Harmonic(50)][:n_rules]
    rules: list[Rule] = [QLearning().with_step_size(step) for step in steps]
    rules.insert(1, MomentumQLinear(beta=0.8).with_step_size(Constant(0.1)))
    arguments: dict[str, Any] = {
        "iterations": 9001, "n_seeds": 3, "sampling": Replay(capacity=500, start="uniform"), "theta0": (0.0, 0.1),
        "features": aggregation(blocks, tile=2), "n_checkpoints": 4, "evaluation": Evaluation(episodes=3),
    }  # fmt: skip
    results = run_together(blocks, rules, **arguments)
    assert sum(result.diverged != {} for result in results) == (n_rules > 4)
    for rule, result in zip(rules, results, strict=True):
        assert_same(result, run(blocks, rule, **arguments))


@dataclasses.dataclass(frozen=True)
class StepThatCalmsDown:
    """Far too large at first: parameters pass 1e100 and come back, long before the next checkpoint."""

    def __call__(self, k: np.ndarray) -> np.ndarray:
        return np.where(np.asarray(k) < 5500, 3.0, 0.02)


@pytest.mark.parametrize(
    ("mdp", "reward"),
    [
        (LAKE, "mean"),
        (frozen_lake("4x4", success_rate=0.8, discount=0.9), "sampled"),
        (garnet(6, 2, 4), "mean"),
        (frozen_lake("4x4", slippery=False), "sampled"),
    ],
    ids=["ice", "words of unequal shares", "four successors", "nothing random"],
)
def test_rules_of_all_pairs_that_one_loop_moves_have_the_numbers_of_each_alone(mdp, reward):
    """More than one loop takes, of seeds that fill no vector; one rule diverges, and leaves the loop."""
    rules: list[Rule] = [MomentumQLinear(beta=0.1 * i, lam=0.99).with_step_size(Harmonic()) for i in range(8)]
    rules += [QLearning().with_step_size(Constant(3.0)), QLearning().with_step_size(Constant(0.3))]
    arguments: dict[str, Any] = {"iterations": 501, "n_checkpoints": 4, "n_seeds": 9, "reward": reward}
    results = run_together(mdp, rules, **arguments)
    assert results[8].diverged
    for rule, result in zip(rules, results, strict=True):
        assert_same(result, run(mdp, rule, **arguments))


@pytest.mark.parametrize("features", [None, one_hot(LAKE)], ids=["table", "one-hot"])
def test_whether_a_seed_diverges_depends_on_that_seed_alone(features):
    arguments: dict[str, Any] = {
        "iterations": 400_000, "n_checkpoints": 2, "step_size": StepThatCalmsDown(), "sampling": Markovian(),
        "features": features, "q0": 1.0, "theta0": 1.0, "evaluation": Evaluation(episodes=0),
    }  # fmt: skip
    diverged = run(LAKE, QLearning(), n_seeds=4, **arguments).diverged
    assert diverged == run(LAKE, QLearning(), n_seeds=4, progress=lambda k, error: None, **arguments).diverged
    many = run(LAKE, QLearning(), n_seeds=70, n_workers=1, **arguments).diverged
    assert diverged == {seed: step for seed, step in many.items() if seed < 4}
    assert many


def test_a_run_of_which_every_seed_diverges_is_complete():
    result = run(LAKE, QLearning(), iterations=2000, n_seeds=5, step_size=Constant(3.0), q0=1.0, n_checkpoints=20)
    assert sorted(result.diverged) == [0, 1, 2, 3, 4]
    assert np.isnan(result.curves["q_error"][:, -1]).all()
    assert np.isfinite(result.q).all()
    assert result.iteration[-1] == 2000
    assert np.isnan(result.error_tables[-1]).all()


def bairds_star() -> tuple[FiniteMDP, np.ndarray]:
    """Seven states that all lead to the last, no reward; 8 weights with 2 e_i + e_8 and, for the last, e_7 + 2 e_8."""
    phi = np.zeros((7, 1, 8))
    phi[np.arange(6), 0, np.arange(6)] = 2
    phi[:6, 0, 7] = 1
    phi[6, 0, 6], phi[6, 0, 7] = 1, 2
    mdp = FiniteMDP(
        successors=np.full((7, 1, 1), 6),
        probabilities=np.ones((7, 1, 1)),
        rewards=np.zeros((7, 1, 1)),
        terminal=np.zeros(7, bool),
        admissible=np.ones((7, 1), bool),
        start=np.full(7, 1 / 7),
        discount=0.99,
        goal=np.zeros(7, bool),
        name="Baird's star",
    )
    return mdp, phi


@pytest.mark.parametrize("rule", [QLearning(), MomentumQLinear(beta=0.5, lam=0.9999)], ids=repr)
def test_bairds_star_diverges_as_it_should(rule):
    """All states are updated equally often, which no policy of the star does: a limit of one move an episode."""
    mdp, phi = bairds_star()
    result = run(
        mdp, rule, iterations=40_000, n_seeds=4, step_size=Constant(0.1), theta0=1.0, n_checkpoints=10,
        sampling=Markovian(start="uniform", time_limit=1), features=from_matrix(mdp, phi, norm="none"),
        evaluation=Evaluation(episodes=2),
    )  # fmt: skip
    assert len(result.diverged) == 4
    assert all(100 < k < 40_000 for k in result.diverged.values())
    assert result.theta is not None and np.isfinite(result.theta).all()
    assert (np.abs(result.theta).max(axis=1) > 1e90).all()


def test_the_star_is_stable_with_a_table():
    mdp, _ = bairds_star()
    result = run(mdp, QLearning(), iterations=5000, n_seeds=2, step_size=Constant(0.1), q0=1.0, n_checkpoints=3)
    assert not result.diverged
    assert result.curves["q_error"][:, -1].max() < 0.01
