"""The bias of Markovian sampling: exact at the first iteration, none of independent samples; the memory of replay."""

import numpy as np

import mqlearn as mq
from mqlearn.learning.bias import measured_bias, replay_distance
from mqlearn.problems.fixed_points import theta_star
from mqlearn.sampling.modes import stationary

MDP = mq.river_swim(discount=0.5)
FEATURES = mq.one_hot(MDP)
RULE = mq.MomentumQLinear(0.8).with_step_size(mq.Constant(0.05))


def measured(sampling, iteration, n_seeds, theta0=0.3):
    mu = stationary(sampling, MDP)
    assert mu is not None
    root = theta_star(MDP, FEATURES, mu).theta
    given = (MDP, FEATURES, mq.Linear(), sampling, RULE, mu, root, np.array(iteration))
    return measured_bias(*given, n_seeds=n_seeds, theta0=theta0), mu, root


def test_at_the_first_iteration_the_bias_is_that_of_the_start():
    found, mu, root = measured(mq.Markovian(restart_probability=0.02), [0], 4000)
    away, expected = 0.3 - root, 0.0
    for i, (x, u) in enumerate(MDP.pairs):  # theta_0 = 0.3 everywhere, so every value is 0.3
        error = 0.3 - MDP.mean_rewards[x, u] - 0.5 * 0.3
        expected += (MDP.start[x] / 2 - mu[x, u]) * error * away[i]
    assert abs(found.mean() - expected) < 5 * found.std() / np.sqrt(4000)
    assert abs(expected) > 10 * found.std() / np.sqrt(4000)


def test_independent_samples_have_no_bias_and_those_of_a_slow_chain_have():
    at = [0, 1, 30, 100]
    free, _, _ = measured(mq.IID(restart_probability=0.02), at, 4000)
    assert (np.abs(free.mean(0)) < 4.5 * free.std(0) / np.sqrt(4000)).all()
    chained, _, _ = measured(mq.Markovian(restart_probability=0.02), at, 4000)
    assert (np.abs(chained.mean(0)) > 4.5 * chained.std(0) / np.sqrt(4000)).any()


def test_the_iterates_and_gradients_are_those_of_a_run():
    """The update of plain Q-learning is the gradient itself; gbar from the exact model, written out."""
    sampling, plain, step = mq.Markovian(restart_probability=0.02), mq.QLearning(), mq.Constant(0.05)
    before, after = (
        np.asarray(mq.run(
            MDP, plain, iterations=n, n_seeds=3, sampling=sampling, features=FEATURES, theta0=0.3, step_size=step,
            evaluation=mq.Evaluation(episodes=0),
        ).theta)
        for n in (100, 101)
    )  # fmt: skip
    mu = stationary(sampling, MDP)
    assert mu is not None
    root, mean = theta_star(MDP, FEATURES, mu).theta, []
    for theta in before:
        q = theta.reshape(MDP.n_states, MDP.n_actions)
        target = MDP.mean_rewards + 0.5 * (MDP.probabilities * q.max(1)[MDP.successors]).sum(2)
        mean.append((mu * (q - target)).ravel())
    expected = (((before - after) / 0.05 - np.array(mean)) * (before - root)).sum(1)
    given = (MDP, FEATURES, mq.Linear(), sampling, plain.with_step_size(step), mu, root, np.array([100]))
    np.testing.assert_allclose(measured_bias(*given, n_seeds=3, theta0=0.3)[:, 0], expected, rtol=1e-9, atol=1e-12)


def test_the_memory_of_replay_comes_near_the_stationary_distribution():
    sampling = mq.Replay(capacity=20_000, restart_probability=0.02)
    mu = stationary(sampling, MDP)
    assert mu is not None
    found = replay_distance(MDP, sampling, mu, np.array([0, 10, 1000, 20_000]), n_seeds=20)
    assert np.isnan(found[:, 0]).all() and (np.diff(found[:, 1:].mean(0)) < 0).all()
    assert found[:, 3].mean() < 0.1
    first = replay_distance(MDP, sampling, mu, np.array([1]), n_seeds=50)  # one pair: 1 - mu of it
    likely = {round(1 - float(value), 12) for value in mu[MDP.pairs[:, 0], MDP.pairs[:, 1]]}
    assert {round(float(value), 12) for value in first[:, 0]} <= likely
