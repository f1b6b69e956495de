"""Metrics of tables that papers draw, and that no run has unless asked: `metrics={NAME: mqlearn.NAME}`."""

import numpy as np

from mqlearn.problems.mdp import FiniteMDP
from mqlearn.problems.solvers import optimal


def first_action_greedy(q: np.ndarray, mdp: FiniteMDP) -> np.ndarray:
    """How likely a greedy policy takes action 0 where episodes of mdp start: (n_seeds,), of tables q (n_seeds, S, A).

    Equal best actions share it; a mean over the start distribution. In `mqlearn.bias` action 0 is left. An
    epsilon-greedy behaviour takes it with epsilon/A, A the number of actions, and 1 - epsilon times this. No run has it
    unless asked:
    `metrics={first_action_greedy: mqlearn.first_action_greedy}`.

    >>> float(mq.first_action_greedy(np.zeros((1, 3, 10)), mq.bias())[0])
    0.5
    """
    states = np.flatnonzero(mdp.start > 0)
    values = np.where(mdp.learned[states], q[:, states], -np.inf)
    best = values == values.max(axis=2, keepdims=True)
    return (best[:, :, 0] / best.sum(axis=2)) @ mdp.start[states]


def first_at_start(q: np.ndarray, mdp: FiniteMDP) -> np.ndarray:
    """Q(x, 0) where episodes of mdp start, a mean over the start distribution: (n_seeds,), of tables q (n_seeds, S, A).

    0 where action 0 is none that is learned of. No run has it unless asked:
    `metrics={first_at_start: mqlearn.first_at_start}`.

    >>> float(mq.first_at_start(np.arange(5.0, 23.0).reshape(1, 9, 2), mq.double_chain())[0])
    5.0
    """
    states = np.flatnonzero(mdp.start > 0)
    return np.where(mdp.learned[states, 0], q[:, states, 0], 0.0) @ mdp.start[states]


def largest_at_start(q: np.ndarray, mdp: FiniteMDP) -> np.ndarray:
    """max_u Q(x, u) where episodes start, a mean over the start distribution: (n_seeds,), of tables q (n_seeds, S, A).

    What a rule believes its start to be worth, right or wrong. No run has it unless asked:
    `metrics={largest_at_start: mqlearn.largest_at_start}`.

    >>> mdp = mq.noisy_grid()
    >>> bool(abs(mq.largest_at_start(mq.optimal(mdp).q[None], mdp)[0] - mq.optimal(mdp).start_value) < 1e-9)
    True
    """
    states = np.flatnonzero(mdp.start > 0)
    values = np.where(mdp.learned[states], q[:, states], -np.inf).max(axis=2)
    return np.where(np.isfinite(values), values, 0.0) @ mdp.start[states]


def span_error(q: np.ndarray, mdp: FiniteMDP) -> np.ndarray:
    """Half the span of Q - Q* over the counted pairs: (n_seeds,), of tables q (n_seeds, S, A).

    It is the least sup error that Q plus a constant can have: greedy policies do not see the constant. No run has it
    unless asked: `metrics={span_error: mqlearn.span_error}`.

    >>> mdp = mq.two_state()
    >>> bool(mq.span_error(mq.optimal(mdp).q[None] + 7, mdp)[0] < 1e-9)
    True
    """
    x, u = np.nonzero(mdp.counted)
    errors = q[:, x, u] - optimal(mdp).q[x, u]
    return (errors.max(axis=1) - errors.min(axis=1)) / 2


def q_bias(q: np.ndarray, mdp: FiniteMDP) -> np.ndarray:
    """The mean over the counted pairs of Q - Q*: (n_seeds,), of tables q (n_seeds, S, A).

    Above 0 values are overestimated, below 0 underestimated; errors of both signs cancel. No run has it unless asked:
    `metrics={q_bias: mqlearn.q_bias}`.

    >>> mdp = mq.two_state()
    >>> round(float(mq.q_bias(mq.optimal(mdp).q[None] + 7, mdp)[0]), 9)
    7.0
    """
    x, u = np.nonzero(mdp.counted)
    errors = np.ascontiguousarray(q[:, x, u] - optimal(mdp).q[x, u])  # seeds as rows, each summed alone
    return errors.mean(axis=1)


def reward_a_step(visits: np.ndarray, mdp: FiniteMDP) -> np.ndarray:
    """Mean reward of a step of the behaviour since iteration 0: (n_seeds,), of visits (n_seeds, pairs) of mdp.

    Each visit counts with the mean reward R(x, u) of its pair: the same mean as that of the rewards, with less noise; 0
    before the first step. Refused with synchronous sampling. No run has it unless asked:
    `metrics={reward_a_step: mqlearn.reward_a_step}`.

    >>> forest = mq.forest()
    >>> result = mq.run(forest, mq.QLearning(), iterations=9, n_seeds=2, sampling=mq.Markovian(),
    ...                 metrics={"paid": mq.reward_a_step})
    >>> result.curves["paid"].shape == result.curves["q_error"].shape
    True
    """
    x, u = mdp.pairs.T
    counts = np.ascontiguousarray(visits, np.float64)
    return (counts * mdp.mean_rewards[x, u]).sum(axis=1) / np.maximum(counts.sum(axis=1), 1.0)


reward_a_step.of_behaviour = True  # type: ignore[attr-defined]  # it is not of tables
