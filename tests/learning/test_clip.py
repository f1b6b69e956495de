"""Tables that are cut to a range after each iteration, against literal loops; what is refused, and what is said."""

from typing import Any

import numpy as np
import pytest
import twins

import mqlearn as mq
from mqlearn.algorithms.rule import replaced
from mqlearn.experiments.settings import cell, compose
from mqlearn.theory import named_rules

LAKE = mq.frozen_lake("4x4", discount=0.9, rewards=(1, -1, -0.1))
LOW, HIGH = -0.4, 0.3
ONCE = {"evaluation": mq.Evaluation(episodes=0), "n_checkpoints": 4, "n_seeds": 2, "q0": (-0.2, 0.2)}
RULES = [mq.QLearning(), mq.SpeedyQ(), mq.NeSA(), mq.MomentumQ(m=2)]


def clipped(rule: Any, compiled: bool = True) -> Any:
    rule = mq.clipped(rule, LOW, HIGH)
    return rule if compiled else replaced(rule, compiled=False)


def start(lane: int) -> np.ndarray:
    return twins.initial_values(len(LAKE.pairs), -0.2, 0.2, 0, lane)


def cut(q: np.ndarray) -> np.ndarray:
    return np.minimum(np.maximum(q, LOW), HIGH)


@pytest.mark.parametrize("reward", ["mean", "sampled"])
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_all_pairs_are_cut_before_they_are_the_previous_iterate(rule, reward):
    n = 200
    found = twins.run(LAKE, clipped(rule), iterations=n, reward=reward, **ONCE)
    outcomes = twins.synchronous_outcomes(LAKE, 0, np.arange(2), n)
    q = last = np.stack([start(0), start(1)], axis=1)
    touched = False
    for k, (a, b, s, t) in enumerate(rule.weights(0, n)):
        now, before = (twins.sampled_operator(LAKE, one, outcomes[k], reward == "mean") for one in (q, last))
        free = a * q + b * last + s * now + t * before
        q, last = cut(free), q
        touched |= bool((free != q).any())
    assert touched
    np.testing.assert_allclose(found.q[:, LAKE.learned], q.T, rtol=0, atol=1e-11)


CHAINS = {
    "markovian": mq.Markovian(start="uniform", clock="global"),
    "epsilon-greedy": mq.Markovian(start="uniform", behaviour="epsilon_greedy", epsilon=0.3),
    "replay": mq.Replay(start="uniform", capacity=50, draws=2),
    "iid": mq.IID(start="uniform"),
}


@pytest.mark.parametrize("mode", CHAINS)
@pytest.mark.parametrize("rule", RULES[:2], ids=lambda rule: type(rule).__name__)
def test_the_visited_pair_is_cut_before_the_table_is_the_previous_one(rule, mode):
    """And the mean of the iterates is that of cut ones, for which one mode keeps their sum."""
    n = 400
    step = mq.Constant(0.6)
    asked = mq.averaged(clipped(rule)) if mode == "markovian" else clipped(rule)
    found = twins.run(LAKE, asked, iterations=n, sampling=CHAINS[mode], step_size=step, **ONCE)
    weights = rule.with_step_size(step).weights(0, n)
    for lane in range(2):
        chain = twins.ChainTwin(LAKE, CHAINS[mode], lane, 0, n)
        q = last = start(lane)
        total, touched = np.zeros(len(q)), False
        for k in range(n):
            pair, y, reward = twins.outcome_of(LAKE, chain.next(k, q), False)
            a, b, s, t = weights[k]
            now, before = (reward + LAKE.discount * twins.value(LAKE, one, y) for one in (q, last))
            new = q.copy()
            new[pair] = a * q[pair] + b * last[pair] + s * now + t * before
            touched |= bool((new != cut(new)).any())
            q, last = cut(new), q
            total += q
        assert touched
        if mode == "markovian":
            errors = np.abs(total / n - mq.optimal(LAKE).q[LAKE.learned])[LAKE.counted[LAKE.learned]]
            np.testing.assert_allclose(found.curves["q_error_average"][lane, -1], errors.max(), rtol=0, atol=1e-11)
        np.testing.assert_allclose(found.q[lane][LAKE.learned], q, rtol=0, atol=1e-11)


@pytest.mark.parametrize("mode", ["synchronous", "markovian", "replay"])
@pytest.mark.parametrize("rule", [mq.DoubleQ(), mq.AveragingQ()], ids=lambda rule: type(rule).__name__)
def test_rules_with_state_are_cut_compiled_as_plain(rule, mode):
    sampling = mq.Synchronous() if mode == "synchronous" else CHAINS[mode]
    settings = {"iterations": 300, "sampling": sampling, "step_size": mq.Constant(0.5), **ONCE}
    compiled, plain = (twins.run(LAKE, clipped(rule, choice), **settings) for choice in (True, False))
    assert np.array_equal(compiled.q, plain.q)
    assert compiled.q.min() >= LOW and compiled.q.max() <= HIGH
    free = twins.run(LAKE, replaced(rule, compiled=False), **settings)
    assert free.q.min() < LOW or free.q.max() > HIGH
    wide = twins.run(LAKE, replaced(mq.clipped(rule, -1e9, 1e9), compiled=False), **settings)
    assert np.array_equal(wide.q, free.q)


@pytest.mark.parametrize(
    ("rule", "settings", "said"),
    [
        (clipped(mq.SpeedyQ()), {"q0": 1.0}, r"^algorithm\.clip=.*must hold Q_0"),
        (clipped(mq.SpeedyQ()), {"features": mq.one_hot(LAKE), "sampling": CHAINS["iid"]}, "is for tables"),
        (clipped(mq.CertaintyEquivalence()), {}, r"^algorithm\.clip"),
    ],
)
def test_what_cannot_be_cut_is_refused(rule, settings, said):
    with pytest.raises(mq.SettingError, match=said):
        twins.run(LAKE, rule, iterations=5, n_seeds=1, **settings)


@pytest.mark.parametrize("wrong", [(1, 1), (2, 1), (float("nan"), 1), ("a", 1)])
def test_what_is_no_range_is_refused(wrong):
    with pytest.raises(mq.SettingError, match=r"^algorithm\.clip="):
        mq.clipped(mq.QLearning(), *wrong)


def test_a_clip_is_a_setting_and_theory_says_nothing_of_it(work):
    def built(*overrides: str) -> cell.Cell:
        return cell.build(compose.compose(["algorithm=speedy_q", *overrides, "iterations=10", "tracking=none"]))

    usual, written, other = built(), built("algorithm.clip=null"), built("algorithm.clip=[-1000,1000]")
    assert usual.digest == written.digest != other.digest
    assert other.run_arguments["rule"].clip == (-1000, 1000)
    assert cell.rebuild(other.settings).digest == other.digest
    with pytest.raises(mq.SettingError, match=r"^algorithm\.clip=\[1, -1\]"):
        built("algorithm.clip=[1,-1]")
    found = named_rules.predicted(LAKE, mq.clipped(mq.SpeedyQ(), -9, 9))
    assert np.isnan(found.sigma).all() and "clipped" in str(found.reason)
