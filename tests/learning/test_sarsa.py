"""Sarsa and expected Sarsa as whole runs: whose operator they have, and where they are refused."""

from typing import Any

import numpy as np
import pytest

import mqlearn as mq
from mqlearn.errors import SettingError

GREEDY = mq.Markovian(behaviour="epsilon_greedy", epsilon=0.3)
FALLING = mq.Markovian(behaviour="epsilon_greedy", epsilon="log")
SOME: Any = {"iterations": 300, "n_seeds": 3}


def test_expected_sarsa_is_q_learning_with_the_operator_of_its_behaviour():
    grid = mq.noisy_grid()
    ours, plain = mq.run_together(grid, [mq.ExpectedSarsa(), mq.QLearning()], sampling=GREEDY, **SOME)
    theirs = mq.run(grid, mq.QLearning(), sampling=GREEDY, operator=mq.Expected(0.3), **SOME)
    np.testing.assert_array_equal(ours.q, theirs.q)
    np.testing.assert_array_equal(ours.curves["q_error"], theirs.curves["q_error"])
    alone = mq.run(grid, mq.QLearning(), sampling=GREEDY, **SOME)
    np.testing.assert_array_equal(plain.curves["q_error"], alone.curves["q_error"])  # it keeps its own


def test_under_a_boltzmann_behaviour_their_operator_is_that_of_its_temperature():
    grid, hot = mq.noisy_grid(), mq.Markovian(behaviour="boltzmann", temperature=0.3)
    ours, theirs = (
        mq.run(grid, rule, sampling=hot, operator=operator, **SOME)
        for rule, operator in ((mq.ExpectedSarsa(), None), (mq.QLearning(), mq.Boltzmann(0.3)))
    )
    np.testing.assert_array_equal(ours.q, theirs.q)
    np.testing.assert_array_equal(ours.curves["q_error"], theirs.curves["q_error"])
    cooling = mq.Markovian(behaviour="boltzmann", temperature=(2.0, 0.3, 100))
    found = mq.run(grid, mq.Sarsa(), sampling=cooling, **SOME)
    assert found.curves["q_error"][0, 0] == ours.curves["q_error"][0, 0]  # the same fixed point from Q_0 = 0
    with pytest.raises(SettingError, match=r"^sampling.temperature="):
        mq.run(grid, mq.ExpectedSarsa(), sampling=cooling, **SOME)


def test_sarsa_finds_the_values_of_the_uniform_policy():
    """By the equation of the uniform policy, written down."""
    mdp = mq.garnet_fixed(4, 2, discount=0.5)
    q = np.zeros((4, 2))
    for _ in range(100):
        v = np.array([row[allowed].mean() for row, allowed in zip(q, mdp.learned, strict=True)])
        q = np.where(mdp.learned, mdp.mean_rewards + 0.5 * (mdp.probabilities * v[mdp.successors]).sum(2), 0.0)
    result: Any = mq.run(
        mdp, mq.Sarsa(), iterations=20_000, n_seeds=4, sampling=mq.Markovian(), step_size=mq.Constant(0.01)
    )
    assert np.abs(result.q.mean(0) - q)[mdp.counted].max() < 0.1
    errors = np.abs(result.q - q)[:, mdp.counted].max(1)
    np.testing.assert_allclose(result.curves["q_error"][:, -1], errors, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    "rule, settings, message",
    [
        (mq.ExpectedSarsa(), {}, "sampling='synchronous': has no behaviour of its own"),
        (
            mq.ExpectedSarsa(),
            {"sampling": mq.Markovian(behaviour="epsilon_greedy", epsilon="log")},
            "sampling.epsilon=",
        ),
        (mq.Sarsa(), {"sampling": mq.Markovian(behaviour=np.full((10, 4), 0.25))}, "sampling.behaviour='a policy'"),
        (mq.ExpectedSarsa(), {"sampling": GREEDY, "operator": mq.Soft()}, "operator='soft': must be bellman"),
        (mq.Sarsa(), {"sampling": mq.Replay()}, "sampling='replay': has no consecutive samples"),
        (mq.Sarsa(), {"sampling": mq.Markovian(time_limit=5)}, "sampling.time_limit=5: breaks an episode off"),
        (mq.TwoStep(), {"sampling": mq.Markovian(restart_probability=0.1)}, "sampling.restart_probability=0.1: breaks"),
        (mq.TwoStep(), {"sampling": mq.IID(restart_probability=0.1)}, "sampling='iid': has no consecutive"),
    ],
)
def test_what_they_are_refused_with(rule, settings, message):
    with pytest.raises(SettingError, match=message):
        mq.run(mq.noisy_grid(), rule, iterations=10, n_seeds=2, **settings)


def test_the_reward_of_a_step_is_that_of_the_visited_pairs():
    mdp = mq.forest()
    settings: Any = {"sampling": mq.Markovian(), "metrics": {"paid": mq.reward_a_step}, "seed": 2}
    result: Any = mq.run(mdp, mq.QLearning(), **SOME, **settings)
    x, u = mdp.pairs.T
    assert result.curves["paid"][:, 0].tolist() == [0.0] * 3
    total = sum(int(n) * mdp.mean_rewards[x[i], u[i]] for i, n in enumerate(result.visits[*mdp.pairs.T]))
    assert result.curves["paid"][:, -1].mean() == pytest.approx(total / (3 * 300), abs=1e-12)
    with pytest.raises(SettingError, match="metrics='paid': is of a behaviour"):
        mq.run(mdp, mq.QLearning(), **SOME, metrics={"paid": mq.reward_a_step})
