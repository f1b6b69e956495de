"""Learning on environments that can only be stepped: Gymnasium's CartPole, MountainCar, Acrobot, and small own ones."""

import itertools
import json
from functools import cache
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from scipy import stats

import mqlearn as mq
from mqlearn.learning.simulation import SimulatedLearner
from mqlearn.problems.encodings import BoxMap, fourier, rbf, tile_coding
from mqlearn.problems.environments import simulator
from mqlearn.problems.features import one_hot

ONE = np.zeros(1, np.uint32)


class Line(gymnasium.Env):
    """Points 0, 1/8, ..., 1: action 3 goes up, 4 goes down, 0 is a wall and 1 a terminal state; every step pays 1."""

    observation_space, action_space = Box(0.0, 1.0, (1,), np.float32), Discrete(2, start=3)

    def __init__(self, first: int = 4) -> None:
        self.first = self.x = first

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = self.first
        return np.array([self.x / 8], np.float32), {}

    def step(self, action):
        assert action in (3, 4)
        self.x = max(0, self.x + (1 if action == 3 else -1))
        return np.array([self.x / 8], np.float32), 1.0, self.x == 8, False, {}


class Broken(Line):
    """An environment whose third observation is no number."""

    def reset(self, *, seed=None, options=None):
        self.moves = 0
        return super().reset(seed=seed)

    def step(self, action):
        self.moves += 1
        observation, *more = super().step(action)
        return (observation * np.nan if self.moves == 3 else observation), *more


@cache
def box(name: str, **more: Any) -> Any:
    return simulator(name, discount=0.99, **more)


def box_map(made: Any) -> BoxMap:
    assert isinstance(made, BoxMap)
    return made


@cache
def coded(name: str, tiles: int = 4) -> BoxMap:
    return box_map(tile_coding(box(name), tiles=tiles))


def momentum(beta: float = 0.8, lam: float = 0.999, step: float = 0.2) -> mq.Rule:
    return mq.MomentumQLinear(beta=beta, lam=lam).with_step_size(mq.Constant(step))


def run(env: Any, features: Any, rule: mq.Rule | None = None, **more: Any) -> mq.Result:
    options = {
        "sampling": mq.Markovian(behaviour="epsilon_greedy"),
        "iterations": 600,
        "n_seeds": 2,
        "n_checkpoints": 2,
        "evaluation": mq.Evaluation(episodes=0),
    }
    return mq.run(env, rule or momentum(), features=features, **options | more)


def theta(result: mq.Result) -> np.ndarray:
    assert result.theta is not None
    return result.theta


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


# --- same numbers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("behaviour", ["uniform", "epsilon_greedy"])
@pytest.mark.parametrize("mode", [mq.Markovian, mq.Replay])
def test_numbers_do_not_depend_on_workers_repeats_or_other_seeds(mode, behaviour):
    def learned(n_workers: int, n_seeds: int) -> mq.Result:
        sampling = mode(behaviour=behaviour)
        evaluation = mq.Evaluation(episodes=2)
        return run(
            box("CartPole-v1"), coded("CartPole-v1"), sampling=sampling, n_seeds=n_seeds, n_workers=n_workers,
            evaluation=evaluation, theta0=(-1.0, 1.0),
        )  # fmt: skip

    one, three, fewer = learned(1, 4), learned(3, 4), learned(2, 2)
    assert np.array_equal(theta(one), theta(three))
    assert one.theta_average is not None
    assert three.theta_average is not None
    assert np.array_equal(one.theta_average, three.theta_average)
    assert np.array_equal(one.curves["return_start"], three.curves["return_start"])
    assert np.array_equal(theta(one)[:2], theta(fewer))
    assert len({row.tobytes() for row in theta(one)}) == 4


def test_evaluation_never_disturbs_learning():
    for behaviour in ("uniform", "epsilon_greedy"):
        sampling = mq.Markovian(behaviour=behaviour)
        thetas = []
        for episodes in (0, 1, 10):
            evaluation = mq.Evaluation(episodes=episodes, time_limit=30)
            result = run(
                box("CartPole-v1"), coded("CartPole-v1"), sampling=sampling, evaluation=evaluation, n_checkpoints=6
            )
            thetas.append(theta(result))
            assert ("return_start" in result.curves) == (episodes > 0)
        assert np.array_equal(thetas[0], thetas[1])
        assert np.array_equal(thetas[0], thetas[2])


def test_an_evaluation_episode_depends_on_its_number_and_its_seed_alone():
    learner = SimulatedLearner(
        box("CartPole-v1"), mq.Markovian(), coded("CartPole-v1"), mq.Linear(), np.arange(3, dtype=np.uint32), 0, 0.0
    )
    totals = [learner.returns(n, None)["return_start"] for n in (1, 2, 4)]
    assert all(np.all(few < more) for few, more in itertools.pairwise(totals))
    assert np.array_equal(totals[2], learner.returns(4, None)["return_start"])
    learner.keep(np.array([False, False, True]))
    assert learner.returns(4, None)["return_start"][0] == totals[2][2]


def test_counters_go_on_where_a_block_ended():
    env, features, n = box("CartPole-v1"), coded("CartPole-v1"), 500
    weights = momentum(lam=0.99).weights(0, n)
    whole, parts = (SimulatedLearner(env, mq.Replay(capacity=40), features, mq.Linear(), ONE, 0, 0.0) for _ in range(2))
    whole.advance(0, n, weights)
    for first, stop in itertools.pairwise((0, 1, 7, 100, 499, n)):
        parts.advance(first, stop - first, weights[first:stop])
        parts = parts.copy()
    assert np.array_equal(whole.seen(), parts.seen())
    assert np.array_equal(whole.walks[0].place, parts.walks[0].place)
    assert np.allclose(whole.theta, parts.theta, rtol=0, atol=1e-12)


def test_momentum_zero_is_q_learning():
    for behaviour in ("uniform", "epsilon_greedy"):
        sampling = mq.Markovian(behaviour=behaviour)
        vanilla, none = (
            run(box("Acrobot-v1"), coded("Acrobot-v1", 2), rule, sampling=sampling, step_size=mq.Constant(0.3))
            for rule in (mq.QLearning(), mq.MomentumQLinear(beta=0.0, lam=0.5))
        )
        assert np.array_equal(theta(vanilla), theta(none))
        assert np.abs(theta(vanilla)).max() > 0.1


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


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"sampling": mq.Synchronous()}, "sampling='synchronous': needs an exact model, and CartPole-v1 has none"),
        ({"sampling": mq.IID()}, "sampling='iid': needs an exact model, and CartPole-v1 has none"),
        ({"sampling": mq.Markovian(start="uniform")}, "sampling.start='uniform'"),
        ({"sampling": mq.Markovian(restart_probability=0.1)}, "sampling.restart_probability=0.1"),
        ({"sampling": mq.Markovian(behaviour=np.ones((2, 2)) / 2)}, "sampling.behaviour='table'"),
        ({"sampling": mq.Replay(warm_up=3)}, "sampling.warm_up=3"),
        ({"features": None}, "features='tabular'"),
        ({"features": one_hot(mq.frozen_lake())}, "features='one_hot'"),
        ({"reward": "mean"}, "reward='mean'"),
        ({"metrics": {"mine": lambda q, mdp: q}}, "metrics="),
        ({"evaluation": mq.Evaluation(start="uniform")}, "evaluation.start='uniform'"),
    ],
)
def test_what_needs_a_model_is_refused(more, message):
    with pytest.raises(mq.SettingError) as refused:
        run(box("CartPole-v1"), **{"features": coded("CartPole-v1"), **more})
    assert message in str(refused.value)


class Sealed(Line):
    """An environment that cannot be copied, as those behind a C++ library."""

    def __deepcopy__(self, memo):
        raise TypeError("cannot pickle 'SwigPyObject' object")


def test_an_environment_that_cannot_be_copied_is_refused():
    with pytest.raises(mq.SettingError, match=r"env\.id='Sealed': cannot be copied"):
        run(simulator(Sealed(), discount=0.9), coded("CartPole-v1"))


def test_without_any_limit_an_evaluation_episode_ends_after_1000_moves():
    env = simulator(gymnasium.make("MountainCar-v0", max_episode_steps=-1).unwrapped, discount=0.9)
    evaluated = run(env, coded("MountainCar-v0"), iterations=0, n_seeds=1, evaluation=mq.Evaluation(episodes=2))
    assert evaluated.curves["return_start"][0, 0] == -2000


BOX = (
    "env=gymnasium", "env.id=CartPole-v1", "features=tile_coding", "sampling=markovian", "tracking=none", "n_seeds=2",
    "sampling.behaviour=epsilon_greedy", "iterations=300", "evaluation.episodes=2",
)  # fmt: skip


def test_a_run_from_the_command_line_and_the_same_again(mqlearn, outputs):
    done = mqlearn("run", *BOX, "algorithm=momentum_q", "algorithm.beta=0.5", "discount=0.99")
    assert done.code == 0
    (summary,) = outputs.rglob("summary.json")
    record = json.loads(summary.read_text(encoding="utf-8"))
    assert set(record["final"]) == {"expected_return", "return_start"}
    assert record["chain_steps"] == 600
    assert "bit for bit" in mqlearn("rerun", summary.parent).out
    assert mqlearn("run", *BOX, "algorithm=momentum_q", "algorithm.beta=0.5", "discount=0.98").code == 0
    assert len(list(outputs.rglob("summary.json"))) == 2


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["features=one_hot"], "features='one_hot': needs an exact model"),
        (["features=aggregation"], "features='aggregation': needs an exact model"),
        (["sampling=iid", "sampling.behaviour=uniform"], "sampling='iid': needs an exact model"),
        (["env.id=CartPol-v1"], "did you mean 'CartPole-v1'"),
        (
            ["env.id=Pendulum-v1"],
            "env.id='Pendulum-v1': must have a Box or finitely many observations, and Discrete actions",
        ),
        (["features.low=[1,2]"], "features.low=[1, 2]: must be 4 finite numbers"),
        (["features.tiles=200"], "at most 1048576"),
        (["sampling.start=uniform"], "only start is possible"),
    ],
)
def test_wrong_settings_are_one_message(mqlearn, outputs, wrong, said):
    given = {setting.split("=")[0] for setting in wrong}
    done = mqlearn("run", *(setting for setting in BOX if setting.split("=")[0] not in given), *wrong)
    assert done.code == 2
    assert said in done.err
    assert len(done.err.strip().splitlines()) == 1
    assert not list(outputs.rglob("*.json"))
