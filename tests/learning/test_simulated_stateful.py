"""Rules with state of their own on environments without a model: against the kernel, a table, and a literal loop."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from simulated_cases import Broken, Line, box, coded
from stateful_rules import UNCOMPILED, Double, Plain

import mqlearn as mq
from mqlearn import kernels
from mqlearn.algorithms.four_numbers import FourNumbersLinear
from mqlearn.problems.encodings import fourier
from mqlearn.problems.environments import simulator
from mqlearn.problems.features import one_hot

PLAIN, *_ = UNCOMPILED
SAMPLING = {
    "uniform": mq.Markovian(),
    "epsilon-greedy": mq.Markovian(behaviour="epsilon_greedy", epsilon=0.2),
    "replay": mq.Replay(capacity=50, draws=2, behaviour="epsilon_greedy"),
    "boltzmann": mq.Markovian(behaviour="boltzmann", temperature=(0.5, 0.1, 200)),
}


def nine_points(env) -> Any:
    return mq.tile_coding(env, tilings=1, tiles=9, low=[0.0], high=[9 / 8])


def run(env, rule, features, sampling: Any, **settings) -> Any:
    usual = {"iterations": 300, "n_seeds": 2, "n_checkpoints": 3, "step_size": mq.Constant(0.2), "theta0": (0, 0.1)}
    usual["evaluation"] = mq.Evaluation(episodes=2)
    return mq.run(env, rule, features=features, sampling=sampling, **usual | settings)


@pytest.mark.parametrize("sampling", SAMPLING.values(), ids=SAMPLING)
@pytest.mark.parametrize("radius", [None, 1.0])
def test_q_learning_with_state_is_that_of_the_kernel(sampling, radius):
    env, features, linear = box("CartPole-v1"), coded("CartPole-v1"), mq.Linear(projection=radius)
    expected, found = (run(env, rule, features, sampling, linear=linear) for rule in (mq.QLearning(), PLAIN))
    np.testing.assert_allclose(found.theta, expected.theta, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(found.curves["return_start"], expected.curves["return_start"])
    assert radius is None or np.linalg.norm(found.theta, axis=1).max() <= radius * (1 + 1e-12)


def test_momentum_written_with_a_state_is_that_of_the_kernel():
    env, rule = box("MountainCar-v0"), mq.MomentumQLinear(beta=0.8, phi=0.3).with_step_size(mq.Constant(0.2))
    made = FourNumbersLinear(rule, same_sample=False, zero_first=False)
    expected, found = (run(env, one, fourier(env, order=2), mq.Markovian()) for one in (rule, made))
    np.testing.assert_allclose(found.theta, expected.theta, rtol=1e-12, atol=1e-12)


class Told(Line):
    """A line that keeps what has happened on it and on its copies."""

    happened: ClassVar[list[tuple[int, int, int, bool]]] = []

    def step(self, action):
        before = self.x
        observation, reward, terminated, *more = super().step(action)
        self.happened.append((before, action - 3, self.x, terminated))
        return observation, reward, terminated, *more


@pytest.mark.parametrize("radius", [None, 2.0])
def test_double_q_on_a_line_is_its_literal_loop(radius):
    """Nine points as their own features: theta is a table over points and actions. A ball is for each of two tables."""
    env, n = simulator(Told(), discount=0.9), 120
    features = nine_points(env)
    Told.happened.clear()
    result = run(env, Double(), features, mq.Markovian(), iterations=n, n_seeds=1, n_checkpoints=1, theta0=0.0,
                 linear=mq.Linear(projection=radius), evaluation=mq.Evaluation(episodes=0))  # fmt: skip
    assert len(Told.happened) == n
    a, b = np.zeros((9, 2)), np.zeros((9, 2))
    stream, zero = np.uint32(kernels.STREAMS["own"]), np.uint32(0)
    for k, (x, u, y, over) in enumerate(Told.happened):
        heads = kernels.lane_words(k, 1, zero, zero, stream)[0, 0] < 2**31
        mine, other = (a, b) if heads else (b, a)
        ahead = 0.0 if over else other[y][np.argmax(mine[y])]
        mine[x, u] += 0.2 * (1.0 + 0.9 * ahead - mine[x, u])
        if radius is not None:
            mine *= min(1.0, radius / np.linalg.norm(mine))
    columns = [features(np.array([x / 8]))[0][0] for x in range(9)]
    np.testing.assert_allclose(result.theta[0].reshape(-1, 2)[columns], (a + b) / 2, rtol=0, atol=1e-12)
    assert np.ptp(a - b) > 0.1


def test_a_numbered_environment_learns_the_table_of_its_model():
    """Without chance the start is worth g^5, six moves from the goal, and greedy episodes follow what acts there."""
    env = mq.simulator("FrozenLake-v1", discount=0.9, is_slippery=False)
    settings = {"iterations": 20_000, "n_seeds": 1, "step_size": mq.Constant(0.5), "theta0": 0.0}
    result = run(env, Double(), one_hot(env), mq.Markovian(), **settings)
    best = result.theta[0].reshape(-1, 4).max(axis=1)[0]
    assert best == pytest.approx(0.9**5, abs=1e-3)
    assert result.curves["expected_return"][0, -1] == 1


def test_a_seed_that_sees_no_number_has_diverged():
    env = simulator(Broken(), discount=0.9)
    result = run(env, PLAIN, nine_points(env), mq.Markovian(), iterations=20, n_seeds=1)
    assert result.diverged == {0: 3}


@dataclass(frozen=True)
class Twice(Plain):
    """A rule that asks for a second successor, and forgets to say so."""

    def step(self, z, s, c):
        s.move(z.q, s.again.target(z.q), c.alpha)


@pytest.mark.parametrize(
    ("rule", "settings", "said"),
    [
        (mq.Residual(), {}, r"algorithm='Residual': reads s.again"),
        (Twice(), {}, r"algorithm='Twice': reads s.again"),
        (mq.Phased(), {}, r"algorithm='Phased'"),
        (mq.minibatch(PLAIN, 2), {}, r"algorithm\.batch=2"),
        (mq.averaged(PLAIN), {}, r"algorithm\.averaged"),
        (mq.PolSA(), {"sampling": SAMPLING["epsilon-greedy"]}, r"sampling\.behaviour"),
        (PLAIN, {"linear": mq.Linear("same_sample")}, r"linear\.previous_gradient"),
    ],
)
def test_what_a_simulator_cannot_give_is_refused_by_name(rule, settings, said):
    settings = {"sampling": mq.Markovian()} | settings
    with pytest.raises(mq.SettingError, match=said):
        run(box("CartPole-v1"), rule, coded("CartPole-v1"), **settings)
