"""Certainty equivalence: counts and plans against literal loops over the same samples, in every mode with tables."""

import math
from typing import Any

import numpy as np
import pytest
import twins
from random_mdps import random_mdp

import mqlearn as mq
from mqlearn.algorithms.rule import replaced
from mqlearn.errors import SettingError
from mqlearn.sampling.protocol import Sampling
from mqlearn.theory import named_rules

PLAN = mq.CertaintyEquivalence()
LAKE = mq.frozen_lake("4x4", discount=0.9)
UNEQUAL = mq.garnet_fixed(n_states=6, n_actions=2, discount=0.9)
RAGGED = random_mdp(4, 7, 3, 3, 0.9, "mixed")
RANDOM_START: dict[str, Any] = {"q0": (-1.0, 1.0)}
_ONCE = {"evaluation": mq.Evaluation(episodes=0)}


def planned(mdp, iterations, n_seeds=3, **settings) -> Any:
    return twins.run(mdp, PLAN, iterations=iterations, n_seeds=n_seeds, **_ONCE, **{"n_checkpoints": 6, **settings})


def of_pairs(mdp, result) -> np.ndarray:
    """(n_seeds, n): the tables."""
    return result.q[:, mdp.learned]


def starts(mdp, q0, lane, seed=0) -> np.ndarray:
    low, high = q0 if isinstance(q0, tuple) else (q0, q0)
    return twins.initial_values(len(mdp.pairs), low, high, seed, lane)


@pytest.mark.parametrize("reward", ["mean", "sampled"])
@pytest.mark.parametrize("n", [1, 7, 40])
@pytest.mark.parametrize(
    "mdp", [LAKE, UNEQUAL, RAGGED, mq.frozen_lake("4x4", slippery=False)], ids=lambda one: one.name
)
def test_synchronous_plans_are_the_fixed_points_of_the_counts(mdp, n, reward):
    found = of_pairs(mdp, planned(mdp, n, reward=reward, **RANDOM_START))
    outcomes = twins.synchronous_outcomes(mdp, 0, np.arange(3), n)
    for lane in range(3):
        seen = [(pair, int(b)) for row in outcomes[:, :, lane] for pair, b in enumerate(row)]
        expected = twins.plan_twin(mdp, seen, starts(mdp, (-1.0, 1.0), lane), mean_reward=reward == "mean")
        np.testing.assert_allclose(found[lane], expected, rtol=0, atol=1e-12)


CHAINS: dict[str, Any] = {
    "markovian": mq.Markovian(start="uniform", restart_probability=0.1),
    "own policy": mq.Markovian(behaviour=np.full((16, 4), [0.1, 0.4, 0.4, 0.1])),
    "iid": mq.IID(start="uniform", restart_probability=0.1),
    "pairs": mq.Pairs(),
    "replay": mq.Replay(start="uniform", restart_probability=0.1),
    "replay, small buffer": mq.Replay(capacity=20, warm_up=7, start="uniform", restart_probability=0.1),
    "replay, several draws": mq.Replay(capacity=30, draws=3, warm_up=50, start="uniform", restart_probability=0.1),
}


def drawn_by(sampling: Any, n: int, lane: int) -> list[tuple[int, ...]]:
    """The transitions of n iterations, (pair, outcome), and of a buffer the step of the chain that each was."""
    if isinstance(sampling, mq.Pairs):
        pairs = twins.uniform_draws(LAKE, sampling, n, lane, 0)
        words = twins.words("chain", 0, lane, np.arange(n))[1].tolist()
        outcomes = LAKE.probabilities[LAKE.learned].tolist()
        return [(int(pair), twins.chosen(outcomes[pair], word)) for pair, word in zip(pairs, words, strict=True)]
    chain = twins.NumberedChain(LAKE, sampling, lane, 0, n)
    return [chain.next(k, np.zeros(len(LAKE.pairs))) for k in range(n)]


@pytest.mark.parametrize(("n", "q0"), [(1, (-1.0, 1.0)), (40, 0.0), (400, (-1.0, 1.0))])  # Q_0 stays where nothing was
@pytest.mark.parametrize("mode", CHAINS)
def test_plans_on_chains_are_the_fixed_points_of_the_distinct_transitions(mode, n, q0):
    sampling = CHAINS[mode]
    found = of_pairs(LAKE, planned(LAKE, n, sampling=sampling, q0=q0))
    for lane in range(3):
        drawn: Any = drawn_by(sampling, n, lane)
        if sampling.capacity:
            assert n < 40 or len({*drawn}) < n  # some transition is drawn twice
            drawn = [transition[:2] for transition in {*drawn}]
        expected = twins.plan_twin(LAKE, drawn, starts(LAKE, q0, lane))
        np.testing.assert_allclose(found[lane], expected, rtol=0, atol=1e-12)
        unseen = np.setdiff1d(np.arange(len(LAKE.pairs)), [pair for pair, _ in drawn])
        assert np.array_equal(found[lane][unseen], starts(LAKE, q0, lane)[unseen])


class EachState(Sampling):
    """A mode of the user's."""

    all_pairs = False
    independent = True

    def distribution(self, mdp):
        return mdp.learned / mdp.learned.sum(axis=1, keepdims=True) / mdp.n_states


def test_a_mode_of_the_users_own_works():
    result = planned(UNEQUAL, 5000, sampling=EachState())
    assert result.curves["q_error"][:, -1].max() < 0.1 * result.curves["q_error"][:, 0].min()


def test_recorded_transitions_count_once_and_of_a_bootstrap_as_often_as_they_are_drawn():
    rng = np.random.default_rng(0)
    x, u = rng.integers(2, size=(2, 30))
    seen = {"x": x, "u": u, "y": rng.integers(2, size=30), "r": rng.normal(size=30)}
    p, r = np.full((2, 2, 2), 0.5), np.zeros((2, 2))
    mdp = mq.from_arrays(p, r, axes="xuy", discount=0.9, name="small")

    def expected(rows) -> np.ndarray:
        """By value iteration on what was recorded, its own rewards too."""
        q = np.zeros((2, 2))
        for _ in range(400):
            new = q.copy()
            for pair in {*zip(x[rows], u[rows], strict=True)}:
                own = [i for i in rows if (x[i], u[i]) == pair]
                new[pair] = np.mean([seen["r"][i] + 0.9 * q[seen["y"][i]].max() for i in own])
            q = new
        return q

    once, again = (planned(mdp, n, 1, sampling=mq.Recorded(seen, passes=3), reward="sampled") for n in (20, 73))
    np.testing.assert_allclose(once.q[0], expected(range(20)), rtol=0, atol=1e-12)
    np.testing.assert_allclose(again.q[0], expected(range(30)), rtol=0, atol=1e-12)
    resampled = planned(mdp, 30, 2, sampling=mq.Recorded(seen, resample="bootstrap"), reward="sampled")
    for lane in range(2):
        drawn = (twins.words("choices", 0, lane, np.arange(30))[0].astype(object) * 30 // twins.WORD).astype(int)
        np.testing.assert_allclose(resampled.q[lane], expected(drawn.tolist()), rtol=0, atol=1e-12)


@pytest.mark.parametrize("sampling", [mq.Synchronous(), CHAINS["replay, small buffer"]], ids=lambda one: one.name)
def test_the_bits_depend_neither_on_checkpoints_nor_on_workers_nor_on_rules_beside_it(sampling):
    settings = {"iterations": 3000, "n_seeds": 9, "sampling": sampling, **_ONCE}
    one = twins.run(LAKE, PLAN, n_checkpoints=3, n_workers=1, **settings)
    together: Any = mq.run_together(LAKE, [PLAN, mq.QLearning()], n_checkpoints=50, n_workers=3, **settings)
    assert np.array_equal(one.q, together[0].q)
    fewer = twins.run(LAKE, PLAN, **{**settings, "n_seeds": 4})
    assert np.array_equal(one.q[:4], fewer.q)


def test_facts_say_what_the_plans_are_worth_and_that_no_step_size_is_used():
    result = planned(LAKE, 200)
    assert 0 < result.facts["plan_certified_error"] < 1e-11
    assert result.facts["step_size_used"] is False
    stepped = planned(LAKE, 20, step_size=mq.Constant(0.1))
    assert any("does not use it" in text for text in stepped.warnings)


MARKOVIAN = mq.Markovian()
REFUSED: list[tuple[str, Any, dict[str, Any]]] = [
    ("^algorithm='CertaintyEquivalence'", LAKE, {"features": mq.one_hot(LAKE), "sampling": MARKOVIAN}),
    ("^operator='relaxed'", mq.garnet_fixed(5), {"operator": mq.Relaxed(1.1)}),
    ("^algorithm='CertaintyEquivalence'", mq.garnet_fixed(n_states=1251, n_actions=4, n_successors=1), {}),
    (r"^sampling\.behaviour='epsilon_greedy'", LAKE, {"sampling": mq.Markovian(behaviour="epsilon_greedy")}),
    (r"^sampling\.clock='local'", LAKE, {"sampling": mq.Markovian(clock="local")}),
    (r"^sampling\.update='rounds'", LAKE, {"sampling": mq.Markovian(update="rounds")}),
]


@pytest.mark.parametrize(("named", "mdp", "settings"), REFUSED, ids=[case[0] for case in REFUSED])
def test_what_has_no_counts_or_no_plan_is_refused_by_name(named, mdp, settings):
    with pytest.raises(SettingError, match=named):
        mq.run(mdp, PLAN, iterations=10, n_seeds=1, **settings)


@pytest.mark.parametrize("option", [{"batch": 2}, {"averaged": True}], ids=str)
def test_minibatches_and_means_are_refused_by_name(option):
    (name,) = option
    with pytest.raises(SettingError, match=rf"^algorithm\.{name}="):
        mq.run(LAKE, replaced(PLAN, **option), iterations=10, n_seeds=1)


def test_it_has_the_errors_of_others_on_the_instance_of_the_lower_bound():
    """Means over 400 seeds of |max Q - V*| at k = 20,000, by the program of a third party (1000 seeds)."""
    theirs = {0.9: 0.055, 0.95: 0.159, 0.98: 0.650, 0.99: 1.881, 0.995: 5.562}
    for discount, value in theirs.items():
        result = planned(mq.lower_bound(discount=discount), 20_000, 400, reward="sampled", n_checkpoints=2)
        error = result.curves["q_error"][:, -1]
        away = abs(error.mean() - value) / (error.std(ddof=1) * math.sqrt(1 / 400 + 1 / 1000))
        assert away < 4, f"{error.mean():.4f} at {discount}, theirs {value}"


def test_many_plans_have_the_least_covariance():
    """sqrt(k) times the root mean square error over pairs and seeds, against the floor, on a problem without ties."""
    mdp, k, n = mq.garnet_fixed(n_states=8, n_actions=2, discount=0.9), 20_000, 400
    result = planned(mdp, k, n, reward="sampled", n_checkpoints=2)
    squares = k * result.curves["q_error_l2"][:, -1] ** 2 / len(mdp.pairs)
    predicted = named_rules.predicted(mdp, PLAN, "sampled").rms_sqrt_k ** 2
    assert abs(squares.mean() - predicted) < 4 * squares.std(ddof=1) / math.sqrt(n)
