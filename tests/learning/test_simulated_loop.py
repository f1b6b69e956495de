"""Learning without a model is Algorithm 2 on the transitions that were made."""

import itertools
from typing import Any

import numpy as np
import pytest
import twins
from scipy import stats
from simulated_cases import ONE, box, box_map, coded, momentum

import mqlearn as mq
from mqlearn.problems.encodings import BoxMap, fourier, rbf, tile_coding
from mqlearn.simulators.linear import SimulatedLearner


class Recorded:
    """A learner of one lane, advanced by single iterations, and the transitions that its walk made."""

    def __init__(self, env: Any, sampling: Any, features: Any, linear: mq.Linear, theta0: float = 0.3) -> None:
        self.learner = SimulatedLearner(env, sampling, features, linear, ONE, 3, theta0)
        self.walk = self.learner.walks[0]
        self.transitions: list[np.ndarray] = []
        step = self.walk.step

        def recorded(action: int, row: np.ndarray) -> None:
            step(action, row)
            self.transitions.append(row.copy())

        self.walk.step = recorded


def dense(
    transitions: list[np.ndarray],
    features: BoxMap,
    weights: np.ndarray,
    discount: float,
    linear: mq.Linear,
    theta0: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Algorithm 2 as it is printed, with every vector written out: theta_n and theta_1 + ... + theta_n."""
    d, n_axes, n_actions = features.n_features, len(features.low), features.n_actions

    def phi(x: np.ndarray, u: int) -> np.ndarray:
        row = np.zeros(d)
        index, value = features(x)
        row[index * n_actions + u] = value
        return row

    def gradient(theta: np.ndarray, row: np.ndarray) -> np.ndarray:
        x, y = row[:n_axes], row[n_axes : 2 * n_axes]
        u, reward, terminal = row[2 * n_axes :]
        ahead = 0.0 if terminal else max(phi(y, v) @ theta for v in range(n_actions))
        return (phi(x, int(u)) @ theta - reward - discount * ahead) * phi(x, int(u))

    theta = np.full(d, theta0)
    theta_prev, total, g_prev = theta.copy(), np.zeros(d), None
    for (_, q, s, t), row in zip(weights, transitions, strict=True):
        g = gradient(theta, row)
        if linear.previous_gradient == "same_sample":
            g_prev = gradient(theta_prev, row)
        elif g_prev is None:
            g_prev = g if linear.first_gradient == "same" else np.zeros(d)
        new = theta - (q + t) * (theta - theta_prev) - s * g - t * g_prev
        if linear.projection is not None:
            new *= min(1.0, linear.projection / np.linalg.norm(new))
        theta_prev, theta, g_prev = theta, new, g
        total += theta
    return theta, total


MAPS = {
    "tiles": lambda env: tile_coding(env, tilings=4, tiles=3),
    "tiles, not scaled": lambda env: tile_coding(env, tilings=3, tiles=2, norm="none"),
    "rbf": lambda env: rbf(env, centres=2),
    "fourier": lambda env: fourier(env, order=1),
}
LINEAR = [
    mq.Linear(),
    mq.Linear(first_gradient="zero"),
    mq.Linear(previous_gradient="same_sample"),
    mq.Linear(projection=3.0),
    mq.Linear(previous_gradient="same_sample", projection=3.0),
]


@pytest.mark.parametrize("linear", LINEAR, ids=str)
@pytest.mark.parametrize("behaviour", ["uniform", "epsilon_greedy"])
@pytest.mark.parametrize("kind", MAPS)
def test_a_run_is_algorithm_2_on_the_transitions_that_were_made(kind, behaviour, linear):
    env, n = box("CartPole-v1"), 300
    features = box_map(MAPS[kind](env))
    made = Recorded(env, mq.Markovian(behaviour=behaviour, epsilon=0.3), features, linear)
    weights = momentum(beta=0.9, lam=0.98, step=0.3).weights(0, n)
    for first, stop in itertools.pairwise((0, 1, 120, n)):
        made.learner.advance(first, stop - first, weights[first:stop])
    theta, total = dense(made.transitions, features, weights, env.discount, linear, 0.3)
    assert np.abs(theta - 0.3).max() > 0.1
    assert np.abs(made.learner.theta[0] - theta).max() < 1e-12 * np.abs(theta).max()
    assert np.abs(made.learner.average[0] * n - total).max() < 1e-12 * np.abs(total).max()


@pytest.mark.parametrize("kind", ["tiles", "fourier"])
def test_a_boltzmann_behaviour_draws_from_the_exponentials_of_its_estimates(kind):
    env, n = box("CartPole-v1"), 200
    features = box_map(MAPS[kind](env))
    made = Recorded(env, mq.Markovian(behaviour="boltzmann", temperature=(3.0, 0.3, 150)), features, mq.Linear())
    weights, chosen = momentum(beta=0.5, lam=0.98, step=0.3).weights(0, n), []
    for k in range(n):
        index, value = features(made.walk.place[0])
        q = [made.learner.theta[0][index * features.n_actions + u] @ value for u in range(features.n_actions)]
        odds = np.exp(np.array(q) / np.interp(k, (0, 150), (3.0, 0.3)))
        chosen.append(twins.chosen((odds / odds.sum()).tolist(), int(twins.words("ties", 3, int(ONE[0]), k)[2])))
        made.learner.advance(k, 1, weights[k : k + 1])
    taken = [int(row[-3]) for row in made.transitions]
    assert taken == chosen and 0.05 < np.mean(taken) < 0.95


def test_momentum_of_any_size_and_many_segments_agree_with_the_dense_form():
    env, n = box("MountainCar-v0"), 700
    features = box_map(tile_coding(env, tilings=4, tiles=3))
    for beta, lam in ((0.01, 0.9999), (0.5, 0.9), (0.95, 0.9999), (0.0, 0.5)):
        made = Recorded(env, mq.Markovian(behaviour="epsilon_greedy"), features, mq.Linear())
        weights = momentum(beta, lam, 0.1).weights(0, n)
        made.learner.advance(0, n, weights)
        theta, _ = dense(made.transitions, features, weights, env.discount, mq.Linear(), 0.3)
        assert np.abs(made.learner.theta[0] - theta).max() < 1e-12 * np.abs(theta).max()


@pytest.mark.parametrize("behaviour", ["uniform", "epsilon_greedy"])
def test_replay_learns_from_what_its_buffer_can_hold(behaviour):
    env, n, draws, capacity = box("CartPole-v1"), 400, 2, 50
    features = box_map(tile_coding(env, tilings=4, tiles=3))
    sampling = mq.Replay(behaviour=behaviour, capacity=capacity, draws=draws)
    made = Recorded(env, sampling, features, mq.Linear())
    recalled, ages = [], []
    recall = made.walk.recall

    def remembered(word: int) -> np.ndarray:
        row = recall(word)
        recalled.append(row.copy())
        same = [j for j, other in enumerate(made.transitions) if np.array_equal(other, row)]
        ages.append(len(made.transitions) - 1 - same[-1])
        return row

    made.walk.recall = remembered
    weights = momentum(step=0.1).weights(0, n)
    made.learner.advance(0, n, weights)
    assert len(made.transitions) == n // draws
    assert max(ages) < capacity
    late = np.array(ages[draws * capacity :])
    assert stats.kstest(late / capacity, "uniform", args=(0, 1)).pvalue > 1e-3
    theta, _ = dense(recalled, features, weights, env.discount, mq.Linear(), 0.3)
    assert np.abs(made.learner.theta[0] - theta).max() < 1e-12 * np.abs(theta).max()


@pytest.mark.parametrize("name", ["CartPole-v1", "MountainCar-v0", "Acrobot-v1"])
def test_transitions_join_within_an_episode_and_never_across(name):
    made = Recorded(box(name), mq.Markovian(time_limit=40), coded(name, 2), mq.Linear())
    made.learner.advance(0, 500, momentum().weights(0, 500))
    k = len(coded(name, 2).low)
    moves = 0
    for now, after in itertools.pairwise(made.transitions):
        moves += 1
        over = bool(now[-1]) or moves == 40
        assert np.array_equal(now[k : 2 * k], after[:k]) != over
        moves = 0 if over else moves
    steps, episodes, terminated = made.learner.seen()
    assert steps == 500
    assert terminated == sum(row[-1] for row in made.transitions)
    assert (episodes > terminated) or name == "CartPole-v1"


def test_the_actions_of_a_uniform_behaviour_are_uniform_and_episodes_differ():
    made = Recorded(box("MountainCar-v0"), mq.Markovian(time_limit=10), coded("MountainCar-v0"), mq.Linear())
    made.learner.advance(0, 3000, momentum().weights(0, 3000))
    table = np.array(made.transitions)
    assert stats.chisquare(np.bincount(table[:, 4].astype(int), minlength=3)).pvalue > 1e-3
    assert len(np.unique(table[::10, 0])) == 300  # seeded once, not at every episode
