"""One sample an iteration: tables, features, and simulators."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import mqlearn as mq
from mqlearn.simulators.linear import SimulatedLearner

from .measuring import Row, fastest
from .starting import SEEDS, restart, start
from .yardstick import Yardstick, chain_arguments, same

_ITERATIONS = 50_000  # of a table and of one-hot features


def asynchronous_table(c: Yardstick) -> Iterator[Row]:
    mdp = mq.frozen_lake("8x8", discount=0.9)
    weights = mq.MomentumQ(m=2).weights(0, _ITERATIONS)

    def in_c(one: Any, model: Any) -> None:
        c.call(
            "asynchronous_table", one.q, one.last, len(mdp.pairs), model, one.chain.states, one.chain.visits,
            one.counts, weights, mdp.discount, _ITERATIONS, len(SEEDS), one.chain.seed, one.chain.streams.moves,
        )  # fmt: skip

    yield from _steps("asynchronous_table", c, mdp, None, weights, in_c, ("q", "counts"))


def asynchronous_one_hot(c: Yardstick) -> Iterator[Row]:
    mdp = mq.frozen_lake("8x8", discount=0.9)
    rule, features = mq.MomentumQLinear(beta=0.8, lam=1 - 1e-6), mq.one_hot(mdp)
    weights = rule.with_step_size(mq.Constant(0.1)).weights(0, _ITERATIONS)

    def in_c(one: Any, model: Any) -> None:
        c.call(
            "one_hot_momentum", one.theta, one.v, one.sums, one.last, len(mdp.pairs), features.n_features,
            model, features.active, one.chain.states, one.chain.visits, weights, mdp.discount,
            _ITERATIONS, len(SEEDS), one.chain.seed, one.chain.streams.moves,
        )  # fmt: skip

    yield from _steps("asynchronous_one_hot", c, mdp, features, weights, in_c, ("theta", "sums"))


def _steps(
    name: str,
    c: Yardstick,
    mdp: mq.FiniteMDP,
    features: Any,
    weights: np.ndarray,
    call: Callable[[Any, Any], None],
    parts: tuple[str, ...],
) -> Iterator[Row]:
    """Our kernel beside Gymnasium and C, which `call` (learner, model) runs; `parts` of both learners are the same."""
    fresh, ours, theirs = (start(mdp, mq.Markovian(start="uniform"), features) for _ in range(3))
    gymnasium = partial(_gymnasium, mdp, weights, features is not None)

    def in_c() -> None:
        restart(theirs, fresh)
        model, _alive = chain_arguments(theirs.chain)
        call(theirs, model)

    contenders: dict[str, Callable[[], Any]] = {"ours": _advancing(ours, fresh, weights), "gymnasium": gymnasium}
    if not c.missing:
        contenders["c"] = in_c
    seconds = fastest(contenders)
    each, slow = seconds["ours"] / (len(weights) * len(SEEDS)) * 1e9, seconds["gymnasium"] / gymnasium() * 1e9
    if c.missing:
        yield Row(name, None, "", c.missing, None, 1.3)
    else:
        yield Row(name, each, "ns an iteration", "time of C", seconds["ours"] / seconds["c"], 1.3)
    yield Row(name, each, "ns an iteration", "speed of a loop over Gymnasium's step()", slow / each, 500, faster=True)
    if not c.missing:
        chains = [(getattr(ours.chain, part), getattr(theirs.chain, part)) for part in ("states", "visits")]
        same(name, *((getattr(ours, part), getattr(theirs, part)) for part in parts), *chains)


def _advancing(learner: Any, fresh: Any, weights: np.ndarray) -> Callable[[], None]:
    """What makes all iterations from the start."""

    def advance() -> None:
        restart(learner, fresh)
        learner.advance(0, len(weights), weights)

    return advance


def _gymnasium(mdp: mq.FiniteMDP, weights: np.ndarray, one_hot_features: bool) -> int:
    """The same rule for one seed on Gymnasium's environment, in Python with NumPy; returns the iterations."""
    import gymnasium

    env = gymnasium.make("FrozenLake-v1", map_name="8x8", max_episode_steps=10**9)
    n, n_actions, discount = 5_000, mdp.n_actions, mdp.discount
    actions = np.random.default_rng(0).integers(n_actions, size=n).tolist()
    q = np.zeros((mdp.n_states, n_actions))
    q_prev, total = q.copy(), q.copy()
    last, last_difference = (0, 0), 0.0
    x, _ = env.reset(seed=0)
    for (now, prev, s, t), u in zip(weights[:n].tolist(), actions, strict=True):
        y, reward, terminated, _, _ = env.step(u)
        pair, ahead = (x, u), 0.0 if terminated else q[y].max()
        if one_hot_features:
            difference = q[pair] - float(reward) - discount * ahead
            v = -(prev + t) * (q - q_prev)
            v[last] -= t * last_difference
            v[pair] -= s * difference
            q_prev, q = q, q + v
            total += q
            last_difference = difference
        else:
            target = (s + t) * float(reward) + discount * (s * ahead + t * (0.0 if terminated else q_prev[y].max()))
            value, value_prev = q[pair], q_prev[pair]
            q_prev[last] = q[last]
            q_prev[pair] = value
            q[pair] = now * value + prev * value_prev + target
        last = pair
        x = env.reset()[0] if terminated else y
    return n


def linear_momentum(_: Yardstick) -> Iterator[Row]:
    mdp, iterations, few = mq.frozen_lake_blocks(16, success_rate=0.8, discount=0.99), 200_000, 2_000
    features = mq.aggregation(mdp, tile=4)
    weights = mq.MomentumQLinear(beta=0.8, lam=1 - 2.5e-7).with_step_size(mq.Constant(0.1)).weights(0, iterations)
    sampling = mq.Markovian(start="uniform")
    lazy = start(mdp, sampling, features, n=2)
    dense = start(mdp, sampling, features, mq.Linear(projection=None), n=2)
    ours, theirs = lazy.copy(), dense.copy()

    contenders = {"ours": _advancing(ours, lazy, weights), "theirs": _advancing(theirs, dense, weights[:few])}
    seconds = fastest(contenders, turns=5)
    each, other = seconds["ours"] / (2 * iterations) * 1e9, seconds["theirs"] / (2 * few) * 1e9
    _advancing(ours, lazy, weights[:few])()
    if not np.allclose(ours.theta, theirs.theta, rtol=1e-12, atol=0):
        raise SystemExit("linear_momentum: the two forms differ")
    against = f"speed of the dense update of {features.n_features} parameters"
    yield Row("linear_momentum", each, "ns an iteration", against, other / each, 40, faster=True)


def box_step(_: Yardstick) -> Iterator[Row]:
    env, iterations = mq.simulator("CartPole-v1", discount=0.99), 20_000
    features = mq.tile_coding(env)
    weights = mq.MomentumQLinear(beta=0.8, lam=1 - 2.5e-7).with_step_size(mq.Constant(0.1)).weights(0, iterations)

    def ours(behaviour: str) -> None:
        sampling = mq.Markovian(behaviour=behaviour)
        SimulatedLearner(env, sampling, features, mq.Linear(), SEEDS[:1], 0, 0.0).advance(0, iterations, weights)

    def bare() -> None:
        walk = env.make()
        walk.action_space.seed(0)
        walk.reset(seed=0)
        for _ in range(iterations):
            _, _, terminated, truncated, _ = walk.step(walk.action_space.sample())
            if terminated or truncated:
                walk.reset()

    behaviours = ("epsilon_greedy", "uniform")
    seconds = fastest({"bare": bare, **{name: partial(ours, name) for name in behaviours}})
    for name in behaviours:
        each, ratio = seconds[name] / iterations * 1e6, seconds[name] / seconds["bare"]
        yield Row(f"box_step_{name}", each, "us an iteration", "time of a bare loop over Gymnasium's step()", ratio, 2)
