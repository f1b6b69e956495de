"""What a run without a model comes to: values, returns, what it lacks, where it diverges."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from scipy import stats
from simulated_cases import Broken, Line, box, box_map, coded, momentum, run, theta

import mqlearn as mq
from mqlearn.problems.encodings import BoxMap, fourier, tile_coding
from mqlearn.problems.environments import simulator

# --- the bootstrap ------------------------------------------------------------------------------------------------


def line(first: int = 4) -> tuple[Any, BoxMap]:
    """The line with a column for each point and action."""
    env = simulator(Line(first), discount=0.9)
    return env, box_map(tile_coding(env, tilings=1, tiles=9, low=[-1 / 16], high=[17 / 16]))


def optimum() -> np.ndarray:
    """(8, 2): the values of the line, by iteration. Every step pays 1, so it is best never to reach the end."""
    q = np.zeros((9, 2))
    for _ in range(2000):
        v = q.max(axis=1)
        v[8] = 0.0
        q[:8, 0] = 1 + 0.9 * v[1:]
        q[:8, 1] = 1 + 0.9 * np.concatenate([v[:1], v[:7]])
    return q[:8]


@pytest.mark.parametrize("how", ["ours", "gymnasium"])
def test_a_time_limit_bootstraps_and_a_terminal_state_never_does(how):
    wrapped = Line(6) if how == "ours" else gymnasium.wrappers.TimeLimit(Line(6), 5)
    env = simulator(wrapped, discount=0.9)
    features = box_map(tile_coding(env, tilings=1, tiles=9, low=[-1 / 16], high=[17 / 16]))
    sampling = mq.Markovian(time_limit=5 if how == "ours" else None)
    rule = mq.QLearning().with_step_size(mq.Constant(0.5))
    result = run(env, features, rule, sampling=sampling, iterations=20_000, theta0=5.0)
    index = [int(features(np.array([x / 8]))[0][0]) for x in range(8)]
    for row in theta(result):
        learned = row.reshape(-1, 2)[index]
        # With 5 moves from point 6, point 1 is never acted from: it keeps theta_0, and so does the terminal point 8.
        inner = np.full((8, 2), 5.0)
        for _ in range(2000):
            v = np.append(inner.max(axis=1), 0.0)
            inner[2:, 0] = 1 + 0.9 * v[3:]
            inner[2:, 1] = 1 + 0.9 * v[1:7]
        assert np.abs(learned[2:] - inner[2:]).max() < 1e-9
        assert learned[7, 0] == pytest.approx(1.0, abs=1e-12)  # into the terminal state: its reward and no more
        assert learned[2, 1] == pytest.approx(1 + 0.9 * 5.0)  # the last move before the limit


def test_without_a_limit_the_values_are_those_of_the_line():
    env, features = line()
    rule = mq.QLearning().with_step_size(mq.Constant(1.0))
    result = run(env, features, rule, sampling=mq.Markovian(), iterations=60_000, n_seeds=1, theta0=5.0)
    index = [int(features(np.array([x / 8]))[0][0]) for x in range(8)]
    assert np.abs(theta(result)[0].reshape(-1, 2)[index] - optimum()).max() < 1e-6


# --- what is absent, what diverges -----------------------------------------------------------------------------------


def test_errors_against_the_optimum_are_absent():
    result = run(box("CartPole-v1"), coded("CartPole-v1"), evaluation=mq.Evaluation(episodes=1))
    assert set(result.curves) == {"expected_return", "return_start"}
    assert result.q is None
    assert result.error_tables is None
    assert result.visits is None
    assert result.facts["chain_steps"] == 2 * 600
    assert 0 < result.facts["episodes_terminated"] <= result.facts["episodes"]


def test_a_seed_that_diverges_is_recorded_with_its_step_and_its_last_parameters():
    result = run(
        box("CartPole-v1"), box_map(fourier(box("CartPole-v1"), norm="none")), momentum(step=0.5), iterations=2000,
        n_checkpoints=4,
    )  # fmt: skip
    assert result.status == "diverged"
    assert set(result.diverged) == {0, 1}
    assert np.isfinite(theta(result)).all()
    for seed, step in result.diverged.items():
        assert 0 < step <= 2000
        before = run(
            box("CartPole-v1"), box_map(fourier(box("CartPole-v1"), norm="none")), momentum(step=0.5),
            iterations=step - 1, n_checkpoints=1, checkpoints="linear",
        )  # fmt: skip
        assert seed not in before.diverged
        assert np.abs(theta(before)[seed]).max() > 1e80


@pytest.mark.parametrize("build", [tile_coding, fourier])
def test_an_observation_that_is_no_number_is_divergence_and_no_crash(build):
    env = simulator(Broken(), discount=0.9)
    result = run(env, build(env), sampling=mq.Markovian(), iterations=50)
    assert result.diverged == {0: 3, 1: 3}


# --- it learns -------------------------------------------------------------------------------------------------------


def returns(name: str, features: BoxMap, rule: mq.Rule, iterations: int, n_seeds: int, epsilon: float) -> np.ndarray:
    """(n_seeds, 4): mean return of 4 greedy episodes at 0, T/4, T/2 and T."""
    result = run(
        box(name), features, rule, sampling=mq.Markovian(behaviour="epsilon_greedy", epsilon=epsilon),
        iterations=iterations, n_seeds=n_seeds, evaluation=mq.Evaluation(episodes=4), checkpoints="linear",
    )  # fmt: skip
    assert not result.diverged
    return result.curves["return_start"] / 4


@pytest.mark.parametrize(
    "rule", [mq.QLearning(), mq.MomentumQLinear(beta=0.5, lam=0.9999)], ids=["q_learning", "momentum_q"]
)
def test_cart_pole_is_learned(rule):
    mean = returns("CartPole-v1", coded("CartPole-v1"), rule.with_step_size(mq.Constant(0.2)), 15_000, 5, 0.1)
    # At theta = 0 all actions tie: the first column is a uniformly random policy.
    assert mean[:, 0].mean() < 40
    assert stats.ttest_rel(mean[:, -1], mean[:, 0], alternative="greater").pvalue < 1e-2
    assert mean[:, -1].min() > 2 * mean[:, 0].max()


@pytest.mark.integration
def test_mountain_car_reaches_the_goal():
    rule = mq.QLearning().with_step_size(mq.Constant(0.3))
    mean = returns("MountainCar-v0", coded("MountainCar-v0", 8), rule, 30_000, 4, 0.1)
    assert np.all(mean[:, 0] == -200)
    assert np.all(mean[:, -1] > -200)


@pytest.mark.integration
def test_acrobot_swings_up():
    features = box_map(tile_coding(box("Acrobot-v1"), tilings=16, tiles=3))
    mean = returns("Acrobot-v1", features, momentum(0.5, 0.9999, 0.2), 12_000, 3, 0.05)
    assert mean[:, 0].mean() < -480
    assert np.all(mean[:, -1] > -400)


# --- bad input --------------------------------------------------------------------------------------------------------


def test_without_any_limit_an_evaluation_episode_ends_after_1000_moves():
    env = simulator(gymnasium.make("MountainCar-v0", max_episode_steps=-1).unwrapped, discount=0.9)
    evaluated = run(env, coded("MountainCar-v0"), iterations=0, n_seeds=1, evaluation=mq.Evaluation(episodes=2))
    assert evaluated.curves["return_start"][0, 0] == -2000
