"""What changes no number of a run without a model: workers, other seeds, evaluation, blocks, momentum 0."""

import itertools

import numpy as np
import pytest
from simulated_cases import ONE, box, coded, momentum, run, theta

import mqlearn as mq
from mqlearn.simulators.linear import SimulatedLearner


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
