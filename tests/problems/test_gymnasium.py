"""Models read from Gymnasium's tables: what is read, guessed, normalised, checked by stepping, and refused."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Discrete
from gymnasium.wrappers import (
    RecordEpisodeStatistics,
    TimeLimit,
    TransformAction,
    TransformObservation,
    TransformReward,
)
from hidden_state import HiddenState

from mqlearn.errors import SettingError
from mqlearn.problems.environments import from_gymnasium
from mqlearn.problems.solvers import optimal


class Line(gymnasium.Env):
    """Five states in a row, the last terminal; action 1 goes right, 0 left; a reward for reaching the end."""

    def __init__(self, n: int = 5, **attributes: Any) -> None:
        self.observation_space, self.action_space = Discrete(n), Discrete(2)
        self.P: Any = {
            x: {0: [(1.0, max(x - 1, 0), 0.0, False)], 1: [(1.0, x + 1, float(x == n - 2), x == n - 2)]}
            for x in range(n - 1)
        }
        self.P[n - 1] = {u: [(1.0, n - 1, 0.0, True)] for u in (0, 1)}
        self.first = [0]
        vars(self).update(attributes)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.s = int(self.np_random.choice(self.first))
        return self.s, {}

    def step(self, action: Any) -> Any:
        outcomes = self.P[self.s][action]
        shares = np.array([p for p, *_ in outcomes], float)
        _, self.s, reward, done = outcomes[self.np_random.choice(len(outcomes), p=shares / shares.sum())]
        return self.s, reward, done, False, {}


def refusal(env: gymnasium.Env, **settings: Any) -> str:
    with pytest.raises(SettingError) as refused:
        from_gymnasium(env, **settings)
    assert "\n" not in str(refused.value)
    return str(refused.value)


# --- the start distribution and the terminal states -------------------------------------------------------------------


@pytest.mark.parametrize("attribute", ["isd", "initial_state_distrib"])
def test_the_start_distribution_that_an_environment_states_is_read(attribute):
    env = Line(first=[1, 3])
    setattr(env, attribute, [0, 0.9, 0, 0.1, 0])
    mdp = from_gymnasium(env)
    assert mdp.start.tolist() == [0, 0.9, 0, 0.1, 0]
    assert optimal(mdp).start_value == pytest.approx(0.9 * 0.9**2 + 0.1)
    assert mdp.notes == ()


def test_a_guessed_start_distribution_is_said_and_can_be_given():
    guessed = from_gymnasium(Line(401, first=range(400)))
    seen = np.count_nonzero(guessed.start)
    assert 50 < seen < 100
    assert f"a guess ({seen} states in 100 resets, taken as equally likely)" in guessed.notes[0]
    assert "env.start_distribution=[...] sets it" in guessed.notes[0]
    given = from_gymnasium(Line(401, first=range(400)), start_distribution=[1 / 400] * 400 + [0])
    assert given.start.max() == pytest.approx(1 / 400)
    assert given.notes == ()
    assert from_gymnasium(Line(), start_distribution={1: 0.25, 0: 0.75}).start.tolist() == [0.75, 0.25, 0, 0, 0]


@pytest.mark.parametrize("wrong", [[1, 0], [0.5, 0.4, 0, 0, 0], [1.5, -0.5, 0, 0, 0], "uniform", {9: 1.0}, {0: "x"}, 3])
def test_a_wrong_start_distribution_is_refused(wrong):
    assert "must be 5 probabilities that sum to 1" in refusal(Line(), start_distribution=wrong)


def test_no_episode_starts_where_every_episode_is_over():
    assert "must be 0 in state 4, which is terminal" in refusal(Line(), start_distribution=[0.5, 0, 0, 0, 0.5])
    mdp = from_gymnasium(Line(first=[0, 4]))
    assert mdp.n_states == 5
    assert mdp.terminal.tolist() == [False] * 4 + [True]
    assert mdp.start.tolist() == [1, 0, 0, 0, 0]
    uniform = from_gymnasium(Line(first=range(5), isd=[0.2] * 5))
    assert uniform.start.tolist() == [0.25] * 4 + [0]
    assert "its isd starts 0.2 of the episodes in terminal states" in uniform.notes[0]


def test_what_was_guessed_is_a_warning_of_every_run():
    from mqlearn import QLearning, run

    mdp = from_gymnasium(Line())
    assert set(mdp.notes) <= set(run(mdp, QLearning(), iterations=1, n_seeds=1).warnings)


# --- whether the table is true ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [10.0, 1 + 1e-3])
@pytest.mark.parametrize("name", ["FrozenLake-v1", "FrozenLake8x8-v1"])
def test_a_wrapper_that_changes_a_rare_reward_is_refused(name, scale):
    env = TransformReward(gymnasium.make(name), lambda reward: scale * float(reward))
    assert "does a wrapper change rewards" in refusal(env)


def test_a_wrapper_that_changes_actions_is_refused():
    turned = TransformAction(Line(), lambda action: 1 - action, Discrete(2))
    assert "does a wrapper change rewards, states or actions" in refusal(turned)
    one_way = TransformAction(Line(), lambda _: 1, Discrete(1))
    assert "a wrapper changes its actions" in refusal(one_way)


def test_an_entry_of_the_table_that_no_episode_of_300_steps_meets_is_checked():
    class Wrong(Line):
        def step(self, action: Any) -> Any:
            state, reward, *rest = super().step(action)
            return (state, reward + (state == 39), *rest)

    message = refusal(Wrong(41, isd=np.eye(41)[0]))
    assert "state 38, action 1, next state 39" in message


def test_wrappers_that_change_nothing_are_accepted():
    class Logged(gymnasium.Wrapper):
        def step(self, action: Any) -> Any:
            return super().step(action)

    env = RecordEpisodeStatistics(Logged(TimeLimit(Line(isd=np.eye(5)[0]), 3)))
    assert from_gymnasium(env).notes == ()
    hidden = TransformObservation(Line(isd=np.eye(5)[0]), lambda x: x, Discrete(9))
    assert from_gymnasium(hidden).n_states == 5


class Hidden(HiddenState, Line):
    """Its state is no attribute that could be set."""


def test_where_the_state_cannot_be_set_episodes_are_compared_and_that_is_said():
    assert "its state cannot be set" in from_gymnasium(Hidden(isd=np.eye(5)[0])).notes[0]
    message = refusal(TransformReward(Hidden(), float))
    assert "its wrapper TransformReward overrides step or reward" in message


# --- sums of probabilities --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shares", [np.array([0.1, 0.2, 0.7], np.float32), [0.333333333] * 3, [1 / 3 + 3e-7] * 3])
def test_sums_that_rounding_put_off_are_normalised_and_said(shares):
    env = Line(isd=np.eye(5)[0])
    env.P[1][0] = [(p, y, 0.0, False) for p, y in zip(shares, (0, 1, 2), strict=True)]
    mdp = from_gymnasium(env)
    assert mdp.probabilities[1, 0].sum() == pytest.approx(1, abs=1e-15)
    assert mdp.probabilities[1, 0] == pytest.approx(np.array(shares, float), abs=4e-7)
    assert "probabilities of 1 pairs were divided by their sums, off 1 by" in mdp.notes[0]


def test_sums_that_are_wrong_are_refused_with_a_remedy():
    env = Line()
    env.P[1][0] = [(0.49999, 0, 0.0, False), (0.49999, 1, 0.0, False)]
    message = refusal(env)
    assert message.startswith("P[1][0]=0.99998: the probabilities of Line in state 1, action 0 sum to 0.99998")
    assert "divide them by their sum, or add the outcome that is missing" in message


# --- the form of the table --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ((1.0, 0, 0.0), "P[1][0][0]=(1.0, 0, 0.0): must be (probability, state, reward, terminated)"),
        (None, "P[1][0][0]=None: must be (probability"),
        ("over", "P[1][0][0]='over': must be (probability"),
        ((-0.1, 0, 0.0, False), "its probability, -0.1, must be a number from 0 to 1"),
        ((np.nan, 0, 0.0, False), "its probability, nan, must be"),
        ((1.0, 7, 0.0, False), "its state, 7, must be one of its states, 0 to 4"),
        ((1.0, 1.5, 0.0, False), "its state, 1.5, must be"),
        ((1.0, (0, 1), 0.0, False), "its state, (0, 1), must be"),
        ((1.0, 0, np.inf, False), "its reward, inf, must be a finite number"),
        ((1.0, 0, "1", False), "its reward, '1', must be a finite number"),
        ((1.0, 0, 0.0, "no"), "its terminated, 'no', must be true or false"),
        ((1.0, 0, 0.0, 2), "its terminated, 2, must be true or false"),
    ],
)
def test_a_wrong_entry_is_named_by_state_action_and_outcome(entry, message):
    env = Line()
    env.P[1][0] = [entry]
    assert message in refusal(env)
    assert refusal(env).startswith("P[1][0][0]=")


def changed(change: Any) -> gymnasium.Env:
    env = Line()
    env.P = change(env.P)
    return env


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda P: {(x, 0): row for x, row in P.items()}, "P, key=(0, 0): must be numbered from 0 to 4, as its states"),
        (lambda P: {f"tile {x}": row for x, row in P.items()}, "P, key='tile 0': must be numbered from 0 to 4"),
        (lambda P: {(x, u): P[x][u] for x in P for u in (0, 1)}, "must be nested, P[state][action]"),
        (lambda P: {**P, 2: {"left": P[2][0], "right": P[2][1]}}, "P[2], key='left': must be numbered from 0 to 1"),
        (lambda P: {**P, 9: P[0]}, "P=[0, 1, 2, 3, 4, 9]: must be numbered from 0 to 4"),
        (lambda P: {**P, 2: None}, "P[2]=None: must be a dict or a list"),
        (lambda P: {**P, 2: {0: None}}, "P[2][0]=None: must be a list of outcomes"),
        (lambda _: 3, "P=3: must be a dict or a list"),
        (lambda _: {}, "its P is empty"),
    ],
)
def test_keys_that_are_no_numbers_of_states_and_actions_are_answered(change, message):
    assert message in refusal(changed(change))


def test_tables_as_lists_and_with_numpy_numbers_are_read():
    plain = from_gymnasium(Line())
    lists = changed(lambda P: [[P[x][u] for u in (0, 1)] for x in range(5)])
    numpy = changed(lambda P: {np.int64(x): {np.int32(u): P[x][u] for u in P[x]} for x in P})
    assert from_gymnasium(lists).digest() == from_gymnasium(numpy).digest() == plain.digest()
