"""Runs whose outcome was known beforehand, and a rule and an environment of one's own."""

import math

import numpy as np
import pytest
from loop_cases import LAKE
from twins import assert_same, run

from mqlearn.algorithms import MomentumQ, NeSA, QLearning, Rule, SpeedyQ
from mqlearn.algorithms.step_sizes import Polynomial, RescaledLinear
from mqlearn.problems.environments import frozen_lake
from mqlearn.problems.mdp import FiniteMDP, greedy
from mqlearn.problems.solvers import optimal
from mqlearn.sampling.modes import Markovian, Replay, Synchronous

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
