"""Every pair in every iteration: against C, and against NumPy."""

from collections.abc import Iterator

import numpy as np

import mqlearn as mq
from mqlearn import kernels
from mqlearn.learners.synchronous import synchronous_model

from .measuring import Row, fastest
from .starting import SEEDS, start
from .yardstick import Yardstick, aligned, same


def synchronous(c: Yardstick) -> Iterator[Row]:
    mdp, rule, iterations = mq.frozen_lake("8x8", discount=0.9), mq.MomentumQ(m=2), 100_000
    if c.missing_avx512:
        yield Row("synchronous", None, "", c.missing_avx512, None, 2)
        return
    results, tables = [], []

    def ours() -> None:
        results[:] = [mq.run(mdp, rule, iterations=iterations, n_seeds=len(SEEDS), n_workers=1)]

    def theirs() -> None:
        tables[:] = [synchronous_in_c(c, mdp, rule, iterations)]

    seconds = fastest({"ours": ours, "theirs": theirs}, turns=3)
    x, u = mdp.pairs.T
    same("synchronous", (results[0].q[:, x, u].T, tables[0]))
    each = seconds["ours"] / (iterations * len(mdp.pairs) * len(SEEDS)) * 1e9
    ratio = seconds["ours"] / seconds["theirs"]
    yield Row("synchronous", each, "ns a pair and seed", "time of AVX-512 C", ratio, 2)


def synchronous_in_c(c: Yardstick, mdp: mq.FiniteMDP, rule: mq.Rule, iterations: int) -> np.ndarray:
    """(pairs, 20): the last tables of 20 seeds, as the C computes them."""
    offsets, successors, rewards, _, reuse, _ = synchronous_model(mdp, mean_reward=True)
    padded = -(-len(SEEDS) // 8) * 8
    q, q_prev = aligned((len(mdp.pairs), padded)), aligned((len(mdp.pairs), padded))
    c.call(
        "synchronous", q, q_prev, len(mdp.pairs), mdp.n_states, padded, offsets.astype(np.int64), successors, rewards,
        reuse, rule.weights(0, iterations), iterations, mdp.discount, np.uint32(0),
        np.uint32(kernels.STREAMS["synchronous"]),
    )  # fmt: skip
    return q[:, : len(SEEDS)]


def synchronous_numpy(_: Yardstick) -> Iterator[Row]:
    """Two rivals: the equation of the rule on arrays, as it is written; and in this package's own form of it."""
    mdp, rule, iterations, few = mq.frozen_lake("8x8", discount=0.9), mq.MomentumQ(m=2), 2_000, 100
    weights = rule.weights(0, iterations)
    x, u = mdp.pairs.T
    successors, rewards = mdp.successors[x, u], mdp.mean_rewards[x, u][:, None]
    open_states, rows, lanes = np.flatnonzero(~mdp.terminal), np.arange(len(x))[:, None], np.arange(len(SEEDS))
    learner = start(mdp, mq.Synchronous(), None)

    def largest(q: np.ndarray, v: np.ndarray) -> np.ndarray:
        v = v.copy()
        v[open_states] = q.reshape(len(open_states), mdp.n_actions, -1).max(axis=1)
        return v

    def equation() -> None:
        rng = np.random.default_rng(0)
        q = np.zeros((len(x), len(SEEDS)))
        q_prev, v = q.copy(), np.zeros((mdp.n_states, len(SEEDS)))
        for k in range(few):
            v_prev, v = v, largest(q, v)
            y = successors[rows, rng.integers(mdp.n_successors, size=q.shape)]
            target, target_prev = rewards + mdp.discount * v[y, lanes], rewards + mdp.discount * v_prev[y, lanes]
            q, q_prev = rule.update(np.array(float(k)), q, q_prev, target, target_prev), q

    def one_look_up() -> None:
        rng = np.random.default_rng(0)
        q = np.zeros((len(x), len(SEEDS)))
        q_prev, v = q.copy(), np.zeros((mdp.n_states, len(SEEDS)))
        for now, prev, s, t in weights[:few]:
            v_prev, v = v, largest(q, v)
            w = mdp.discount * (s * v + t * v_prev)
            y = successors[rows, rng.integers(mdp.n_successors, size=q.shape)]
            q, q_prev = now * q + prev * q_prev + (s + t) * rewards + w[y, lanes], q

    rivals = {"NumPy, the rule as written": equation, "NumPy, one look-up a sample": one_look_up}
    seconds = fastest({"ours": lambda: learner.advance(0, iterations, weights), **rivals})
    each = seconds["ours"] / (iterations * len(x) * len(SEEDS)) * 1e9
    for rival in rivals:
        ratio = seconds[rival] / few / (seconds["ours"] / iterations)
        yield Row("synchronous_numpy", each, "ns a pair and seed", f"speed of {rival}", ratio, 30, faster=True)
