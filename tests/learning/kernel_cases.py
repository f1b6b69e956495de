"""Models, chains and rules on which the compiled loops are compared with their twins."""

import numpy as np
import twins
from random_mdps import random_mdp

from mqlearn.algorithms import Rule
from mqlearn.problems.environments import frozen_lake
from mqlearn.problems.mdp import FiniteMDP
from mqlearn.sampling.modes import IID, Markovian, Replay


def lottery(base: int, probabilities: np.ndarray | None = None, n_pairs: int = 23) -> FiniteMDP:
    """One state with `n_pairs` actions, each of which ends the episode with reward b at its outcome b."""
    shape = (2, n_pairs, base)
    p = np.full(base, 1 / base) if probabilities is None else probabilities
    rewards = np.zeros(shape)
    rewards[0] = np.arange(base)
    return FiniteMDP(
        successors=np.ones(shape, int),
        probabilities=np.broadcast_to(p, shape),
        rewards=rewards,
        terminal=np.array([False, True]),
        admissible=np.ones(shape[:2], bool),
        start=np.array([1.0, 0.0]),
        discount=0.5,
        goal=np.array([False, True]),
        name="lottery",
    )


class Numbers(Rule):
    """Four numbers that change with k, none of them 0."""

    def __repr__(self):
        return "Numbers()"

    def update(self, k, q, q_prev, target, target_prev):
        a = 1 / (k + 2)
        return 0.5 * q + (0.2 - a) * q_prev + 0.4 * target + (a - 0.1) * target_prev


def uneven(mdp: FiniteMDP) -> np.ndarray:
    """A stochastic policy with impossible actions first, in the middle and last."""
    share = np.random.default_rng(0).random(mdp.learned.shape) * mdp.learned
    for x in np.flatnonzero(mdp.learned.sum(axis=1) > 1):
        share[x, np.flatnonzero(mdp.learned[x])[x % mdp.learned[x].sum()]] = 0
    return share / np.maximum(share.sum(axis=1, keepdims=True), 1e-300)


LAKE = frozen_lake("4x4")
MIXED = random_mdp(12, 8, 3, 4, 0.9, "mixed")
N = 4300  # more than one chunk of random words
CHAINS = {
    "uniform": (LAKE, Markovian()),
    "uniform starts": (LAKE, Markovian(start="uniform")),
    "time limit": (LAKE, Markovian(start="uniform", time_limit=3)),
    "restarts": (MIXED, Markovian(restart_probability=0.3)),
    "a policy": (MIXED, Markovian(behaviour=uneven, start="uniform", restart_probability=0.05)),
    "greedy": (MIXED, Markovian(behaviour="epsilon_greedy", epsilon=0.0, restart_probability=0.1)),
    "epsilon-greedy": (LAKE, Markovian(behaviour="epsilon_greedy", epsilon=(1.0, 0.1, 3000))),
    "by visits": (MIXED, Markovian(behaviour="epsilon_greedy", epsilon="visits", restart_probability=0.1)),
    "by visits, a power": (
        MIXED,
        Markovian(behaviour="epsilon_greedy", epsilon="visits", power=0.8, restart_probability=0.1),
    ),
    "boltzmann": (MIXED, Markovian(behaviour="boltzmann", temperature=(2.0, 0.1, 3000), restart_probability=0.1)),
    "replay, boltzmann": (LAKE, Replay(capacity=50, warm_up=30, draws=2, behaviour="boltzmann", temperature=0.1)),
    "replay": (LAKE, Replay(capacity=100)),
    "replay, draws": (LAKE, Replay(capacity=64, warm_up=200, draws=3, time_limit=20)),
    "replay, greedy": (
        LAKE,
        Replay(
            capacity=50, warm_up=30, behaviour="epsilon_greedy", epsilon=0.3, start="uniform", restart_probability=0.1
        ),
    ),
    "iid": (LAKE, IID(start="uniform")),
    "iid, restarts": (MIXED, IID(behaviour=uneven, start="uniform", restart_probability=0.05)),
}


def relative(a: np.ndarray, b: np.ndarray) -> float:
    assert np.isfinite(a).all()
    return float(np.abs(a - b).max() / np.abs(b).max())


def assert_same_chain(learner, lane: int, chain: twins.ChainTwin) -> None:
    np.testing.assert_array_equal(learner.chain.visits[lane], chain.visits)
    seen = chain.state, chain.moves, chain.steps, chain.episodes, chain.goals
    assert tuple(learner.chain.states[lane][:5].tolist()) == seen
