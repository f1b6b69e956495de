"""Exact values of large models, against modified policy iteration of QuantEcon, and how they grow."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import mqlearn as mq
from mqlearn.problems import fixed_points, solvers
from mqlearn.theory import asymptotic

from .measuring import Row, fastest
from .yardstick import Yardstick

_EPSILON = 1e-8  # QuantEcon's; ours end at roundings
_WANTED = {"garnet_1000": 60.0, "garnet_5000": 2.0, "garnet_100000": 2.0, "lake_128x128": 2.0}  # 1,000 states: by LU,
# twice, as always, for the sake of their bits


def large(_: Yardstick) -> Iterator[Row]:
    """Q* and the value of the optimal policy of garnets (where sparse LU fills up) and of a lake (where it does not).

    QuantEcon is no dependency: without it there are growth ratios alone, and a line says so.
    """
    theirs = _quantecon()
    if theirs is None:
        yield Row("large", None, "", "quantecon is not installed: growth alone is measured", None, 1)
    garnets = {n: mq.garnet(n, discount=0.99) for n in (1_000, 5_000, 100_000)}
    lake = mq.frozen_lake_blocks(16, discount=0.99)
    seconds = {}
    for name, mdp in {**{f"garnet_{n}": one for n, one in garnets.items()}, "lake_128x128": lake}.items():
        contenders: dict[str, Callable[[], Any]] = {"ours": partial(solvers._solve_optimum, mdp)}
        if theirs is not None:
            contenders["theirs"] = theirs(mdp)
        taken = fastest(contenders, turns=3)
        seconds[name] = taken["ours"]
        if theirs is not None:
            against = f"time of QuantEcon to {_EPSILON:g}"
            yield Row(f"large_{name}", taken["ours"], "CPU s", against, taken["ours"] / taken["theirs"], _WANTED[name])
    growth = seconds["garnet_100000"] / seconds["garnet_5000"]
    yield Row("large_garnet_growth", seconds["garnet_100000"], "CPU s", "time of 5,000 states", growth, 40.0)
    yield from _policies(garnets)
    yield from _stationary(garnets)
    yield from _covariances()


def _policies(garnets: dict[int, mq.FiniteMDP]) -> Iterator[Row]:
    """Exact values of the uniform policy."""
    taken = {}
    for n in (5_000, 100_000):
        policy = np.full((n, garnets[n].n_actions), 1 / garnets[n].n_actions)
        value = partial(solvers.policy_value, garnets[n], policy)
        taken[n] = fastest({"ours": value}, turns=3)["ours"]
    ratio = taken[100_000] / taken[5_000]
    yield Row("large_policy_growth", taken[100_000], "CPU s", "time of 5,000 states", ratio, 40.0)


def _stationary(garnets: dict[int, mq.FiniteMDP]) -> Iterator[Row]:
    """Where an endless walk of random actions spends its time."""
    taken = {}
    for n in (5_000, 100_000):
        policy = np.full((n, garnets[n].n_actions), 1 / garnets[n].n_actions)
        found = partial(fixed_points.stationary_distribution, garnets[n], policy, start=garnets[n].start)
        taken[n] = fastest({"ours": found}, turns=3)["ours"]
    ratio = taken[100_000] / taken[5_000]
    yield Row("large_stationary_growth", taken[100_000], "CPU s", "time of 5,000 states", ratio, 40.0)


def _covariances() -> Iterator[Row]:
    """Of SpeedyQ and NeSA on random lakes: between the square and the cube of the states that are left."""
    taken = {}
    for size in (12, 24):
        lake = mq.frozen_lake_random(size, discount=0.9)
        mq.optimal(lake)
        rules = [rule.with_step_size(mq.Harmonic()) for rule in (mq.SpeedyQ(), mq.NeSA())]
        found = partial(lambda lake, rules: [asymptotic.covariance(lake, rule).sigma for rule in rules], lake, rules)
        taken[size] = fastest({"ours": found}, turns=3)["ours"]
    yield Row("large_covariances_growth", taken[24], "CPU s", "time of a lake of 12x12", taken[24] / taken[12], 64.0)


def _quantecon() -> Callable[[mq.FiniteMDP], Callable[[], Any]] | None:
    """How QuantEcon solves a model, its pairs as sparse rows; None where it is not installed."""
    try:
        from quantecon.markov import DiscreteDP  # type: ignore  # no dependency
    except ImportError:
        return None
    from scipy import sparse

    def made(mdp: mq.FiniteMDP) -> Callable[[], Any]:
        kept = mdp.admissible & (mdp.learned | (mdp.terminal[:, None] & (np.arange(mdp.n_actions) == 0)))
        x, u = np.nonzero(kept)
        rows = np.arange(len(x) + 1) * mdp.n_successors
        entries = mdp.probabilities[x, u].ravel(), mdp.successors[x, u].ravel(), rows
        q = sparse.csr_matrix(entries, shape=(len(x), mdp.n_states))
        q.sum_duplicates()
        problem = DiscreteDP(mdp.mean_rewards[x, u], q, mdp.discount, x, u)
        return partial(problem.solve, method="modified_policy_iteration", epsilon=_EPSILON, max_iter=100_000)

    return made
