"""Environments with finitely many observations and no table P: learned from step by step, or their table estimated."""

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Discrete, MultiDiscrete, Tuple

import mqlearn as mq
from mqlearn.errors import SettingError
from mqlearn.problems.environments.gymnasium import by_id
from mqlearn.problems.environments.numbered import number
from mqlearn.problems.solvers import optimal, policy_value


class Walk(gymnasium.Env):
    """Places 0 .. 4 from the middle; each move goes astray one time in four; the right end pays 1, both ends end."""

    def __init__(self, first: int = 0) -> None:
        self.observation_space, self.action_space = Discrete(5, start=first), Discrete(2)
        self.first = first

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 2
        return self.place + self.first, {}

    def step(self, action):
        way = 2 * int(action) - 1
        self.place += way if self.np_random.random() < 0.75 else -way
        over = self.place in (0, 4)
        return self.place + self.first, float(self.place == 4), over, False, {}


@pytest.mark.parametrize("first", [0, 3])
def test_an_estimate_has_the_frequencies_of_the_steps_and_says_what_it_is(first):
    mdp = mq.from_gymnasium(Walk(first), estimate=40_000)
    assert mdp.terminal.tolist() == [True, False, False, False, True]
    assert mdp.start.tolist() == [0, 0, 1, 0, 0]
    right = mdp.probabilities[2, 1][mdp.successors[2, 1] == 3].sum()
    assert right == pytest.approx(0.75, abs=0.02)
    assert mdp.rewards[3, 1].max() == 1
    assert "the model is an estimate from 40000 steps under uniformly random actions" in mdp.notes[0]
    assert "0 of its 6 pairs were tried fewer than 10 times, 0 of 5 states were never seen" in mdp.notes[0]
    assert mdp.name == "Walk estimated from 40000 steps"
    assert mdp.digest() == mq.from_gymnasium(Walk(first), estimate=40_000).digest()


def test_an_estimate_comes_near_the_table_where_there_is_one():
    exact, guess = mq.frozen_lake(), mq.from_gymnasium("FrozenLake-v1", estimate=100_000)
    assert guess.terminal.tolist() == exact.terminal.tolist()
    assert np.count_nonzero(guess.goal) == 5  # all ends: which of them is the aim, steps do not tell
    policy = optimal(guess).q.argmax(axis=1)
    value = exact.start @ policy_value(exact, np.where(exact.admissible.any(1), policy, 0))
    assert value > 0.9 * optimal(exact).start_value


def test_few_steps_give_a_model_of_what_was_seen_and_say_how_little_that_is():
    mdp = mq.from_gymnasium("Blackjack-v1", estimate=50)
    assert mdp.learned.sum() < 50
    assert mdp.notes[0].endswith("of 704 states were never seen")
    assert np.isfinite(optimal(mdp).start_value)


@pytest.mark.parametrize("steps", [0, -5, 2.5, True, "many", 10**9])
def test_a_number_of_steps_that_cannot_be_is_refused(steps):
    with pytest.raises(SettingError, match=r"env.estimate=.*: must be a whole number of steps"):
        mq.from_gymnasium(Walk(), estimate=steps)


def test_an_estimate_needs_finitely_many_observations():
    with pytest.raises(SettingError, match="needs Discrete observations and actions; CartPole-v1 has Box"):
        mq.from_gymnasium("CartPole-v1", estimate=10)


def test_observations_of_several_parts_are_numbered():
    space = Tuple((Discrete(3), Discrete(4, start=1)))
    assert [number((i, j), space) for i in range(3) for j in range(1, 5)] == list(range(12))
    assert [number(np.array([i, j]), MultiDiscrete([2, 3])) for i in range(2) for j in range(3)] == list(range(6))


def test_one_learns_from_steps_with_a_feature_for_each_observation_and_action():
    env = mq.simulator(Walk())
    result = mq.run(
        env, mq.QLearning(), iterations=4000, n_seeds=3, sampling=mq.Markovian(), features=mq.one_hot(env),
        step_size=mq.Constant(0.05), evaluation=mq.Evaluation(episodes=100), n_checkpoints=3,
    )  # fmt: skip
    assert (env.n_observations, result.theta.shape) == (5, (3, 12))  # type: ignore[union-attr]  # with features
    assert set(result.curves) == {"expected_return", "return_start"}
    exact = 0.75**2 / (0.75**2 + 0.25**2)  # of always going right
    assert result.curves["expected_return"][:, -1].mean() == pytest.approx(exact, abs=0.1)
    exact_model = optimal(mq.from_gymnasium(Walk(), estimate=100_000))
    learned = result.theta.reshape(3, -1, 2).mean(axis=0)  # type: ignore[union-attr]  # there are features
    assert learned[1:4].argmax(axis=1).tolist() == exact_model.q[1:4].argmax(axis=1).tolist() == [1, 1, 1]


def test_the_message_names_both_ways_out(mqlearn, work):
    with pytest.raises(SettingError) as refused:
        mq.from_gymnasium("Blackjack-v1")
    for way in ("mq.simulator", "features=one_hot", "env.estimate=STEPS"):
        assert way in str(refused.value)
    with pytest.raises(SettingError, match=r"use one_hot .with sampling=markovian., or env.estimate=STEPS"):
        mq.run(mq.simulator(Walk()), mq.QLearning(), iterations=1, features=tabular(Walk()))
    arguments = ("run", "env=gymnasium", "env.id=Blackjack-v1", "iterations=50", "n_seeds=1", "tracking=none")
    assert "use one_hot" in mqlearn(*arguments).err
    assert mqlearn(*arguments, "env.estimate=2000").code == 0
    done = mqlearn(*arguments, "sampling=markovian", "features=one_hot", "experiment.name=steps")
    assert done.code == 0 and "expected_return" in done.out


def tabular(env: gymnasium.Env) -> None:
    from mqlearn.problems.features import tabular

    tabular(mq.simulator(env))  # pyright: ignore[reportArgumentType]  # wrong on purpose


def test_a_configuration_gets_the_same_estimate_once():
    one, two = (by_id("FrozenLake-v1", {"is_slippery": True}, None, 3000, discount=g) for g in (0.9, 0.5))
    assert (one.discount, two.discount) == (0.9, 0.5)
    assert np.array_equal(one.probabilities, two.probabilities)  # type: ignore[union-attr]  # with a model
