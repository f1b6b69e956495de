"""What the sampling modes draw: starts, episodes, and the shares of the pairs in the long run."""

import math

import numpy as np
import pytest
import twins
from kernel_cases import LAKE, MIXED
from random_mdps import random_mdp
from scipy.stats import chisquare
from twins import run

from mqlearn.algorithms import QLearning
from mqlearn.algorithms.step_sizes import Constant, Polynomial
from mqlearn.problems.environments import cliff_walking
from mqlearn.problems.fixed_points import stationary_distribution
from mqlearn.problems.mdp import FiniteMDP
from mqlearn.problems.solvers import optimal
from mqlearn.sampling.chains import Chain
from mqlearn.sampling.evaluation import Evaluation
from mqlearn.sampling.modes import IID, Markovian, Replay, stationary
from mqlearn.sampling.tables import alias_table

NO_EPISODES = Evaluation(episodes=0)


def prefer_right(mdp: FiniteMDP) -> np.ndarray:
    policy = np.full(mdp.learned.shape, 0.1)
    policy[:, 2] = 0.7
    return policy * mdp.learned


def always_right(mdp: FiniteMDP) -> np.ndarray:
    policy = np.zeros(mdp.learned.shape)
    policy[:, 2] = 1.0
    return policy * mdp.learned


def first_two(mdp: FiniteMDP) -> np.ndarray:
    """0.25 and 0.75 on the first two admissible actions, all on the only one, nothing on a third."""
    policy = np.zeros(mdp.learned.shape)
    for x in np.flatnonzero(~mdp.terminal):
        actions = np.flatnonzero(mdp.learned[x])
        policy[x, actions[0]] = 1.0 if len(actions) == 1 else 0.25
        policy[x, actions[1:2]] = 0.75
    return policy


# --- the long run -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mdp", "sampling"),
    [
        (LAKE, Markovian()),
        (LAKE, Markovian(start="uniform", restart_probability=0.05)),
        (LAKE, Markovian(start="uniform", time_limit=4)),
        (LAKE, Markovian(behaviour=prefer_right, time_limit=30, restart_probability=0.02)),
        (MIXED, Markovian(behaviour=first_two, start="uniform", restart_probability=0.1)),
        (MIXED, Replay(restart_probability=0.25, capacity=7)),
    ],
    ids=["start", "restarts", "time limit", "a policy", "few actions", "replay"],
)
def test_visits_of_a_long_chain_are_the_stationary_distribution(mdp, sampling):
    """Lanes are independent, so the spread of their shares gives each pair its standard error."""
    n = 40_000
    learner = twins.advance(twins.learner(mdp, sampling, range(48)), QLearning(), n)
    assert (learner.chain.visits.sum(axis=1) == n).all()
    share = learner.chain.visits / n
    x, u = mdp.pairs.T
    mu = stationary_distribution(
        mdp,
        sampling.policy(mdp),
        start=sampling.episode_starts(mdp),
        restart_probability=sampling.restart_probability,
        time_limit=sampling.time_limit,
    )
    np.testing.assert_array_equal(mu, stationary(sampling, mdp))
    assert mu.sum() == pytest.approx(1)
    assert (share[:, mu[x, u] == 0] == 0).all()
    possible = mu[x, u] * n > 5
    assert possible.sum() > 5
    error = share.std(axis=0, ddof=1) / math.sqrt(len(share))
    z = (share.mean(axis=0) - mu[x, u])[possible] / error[possible]
    assert np.abs(z).max() < 5
    assert np.abs(z).mean() < 1.5


@pytest.mark.parametrize(
    ("mdp", "sampling"),
    [
        (LAKE, IID(start="uniform", restart_probability=0.05)),
        (LAKE, IID(behaviour=prefer_right, time_limit=9)),
        (MIXED, IID(behaviour=first_two, start="uniform", restart_probability=0.1)),
    ],
    ids=["restarts", "time limit", "few actions"],
)
def test_iid_draws_are_independent_and_stationary(mdp, sampling):
    pairs, b = twins.drawn(mdp, sampling, 60_000)
    x, u = mdp.pairs.T
    mu = stationary(sampling, mdp)
    assert mu is not None
    mu = mu[x, u]
    counts = np.bincount(pairs, minlength=len(mu))
    assert (counts[mu == 0] == 0).all()
    kept = mu * len(pairs) > 10
    assert chisquare(counts[kept], mu[kept] / mu[kept].sum() * counts[kept].sum()).pvalue > 1e-4
    top = int(mu.argmax())  # outcomes of the commonest pair, and what follows it
    p = mdp.probabilities[x[top], u[top]]
    outcomes = np.bincount(b[pairs == top], minlength=len(p))
    assert chisquare(outcomes[p > 0], p[p > 0] * outcomes.sum()).pvalue > 1e-4
    following = np.bincount(pairs[1:][pairs[:-1] == top], minlength=len(mu))[kept]
    assert chisquare(following, mu[kept] / mu[kept].sum() * following.sum()).pvalue > 1e-4


@pytest.mark.parametrize(
    "weights",
    [
        [1.0],
        [1.0, 1.0, 1.0],
        [0.0, 3.0, 0.0],
        [0.0, 0.2, 0.5, 0.3, 0.0],
        [1e-12, 1.0],
        np.random.default_rng(0).exponential(size=1000) * (np.random.default_rng(1).random(1000) < 0.5),
    ],
    ids=["one", "equal", "one of three", "zeros", "tiny", "many"],
)
def test_alias_tables_hold_the_distribution(weights):
    weights = np.asarray(weights)
    keep, alias = alias_table(weights)
    held = keep / 2.0**32
    share = held.copy()
    np.add.at(share, alias, 1 - held)
    np.testing.assert_allclose(share / len(weights), weights / weights.sum(), atol=2e-10)
    assert (keep[weights == 0] == 0).all() and (weights[alias] > 0)[keep < 2**32].all()


def test_episodes_start_where_they_should():
    """A time limit of one move makes every step the first of an episode."""
    mdp = random_mdp(8, 7, 2, 2, 0.9, "mixed")
    for start, expected in (("start", mdp.start), ("uniform", ~mdp.terminal / (~mdp.terminal).sum())):
        pairs, _ = twins.drawn(mdp, Markovian(start=start, time_limit=1), 30_000)
        counts = np.bincount(mdp.pairs[pairs, 0], minlength=mdp.n_states)
        assert counts[expected == 0].sum() == 0
        assert chisquare(counts[expected > 0], expected[expected > 0] * counts.sum()).pvalue > 1e-4
        lanes = Chain(mdp, Markovian(start=start), np.arange(4000, dtype=np.uint32), 0, False).states[:, 0]
        first = np.bincount(lanes, minlength=mdp.n_states)
        assert chisquare(first[expected > 0], expected[expected > 0] * first.sum()).pvalue > 1e-4


# --- episodes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sampling",
    [
        Markovian(),
        Markovian(start="uniform"),
        Markovian(start="uniform", time_limit=3),
        Markovian(restart_probability=0.2),
        Markovian(behaviour=prefer_right, time_limit=11),
    ],
    ids=["start", "uniform", "time limit", "restarts", "a policy"],
)
def test_no_transition_joins_two_episodes(sampling):
    """The successor of a transition is where the next one begins, unless the episode ended: then that is a start."""
    pairs, b = twins.drawn(LAKE, sampling, 6000)
    x, u = LAKE.pairs[pairs].T
    y = LAKE.successors[x, u, b]
    starts = sampling.episode_starts(LAKE) > 0
    moves = restarts = chances = 0
    for i in range(len(pairs) - 1):
        moves += 1
        ended = LAKE.terminal[y[i]] or moves == sampling.time_limit
        chances += not ended and y[i] != 0  # where a restart shows
        if ended:
            assert starts[x[i + 1]]
            moves = 0
        elif x[i + 1] != y[i]:
            assert sampling.restart_probability > 0
            assert starts[x[i + 1]]
            moves, restarts = 0, restarts + 1
    if sampling.restart_probability:
        assert restarts / chances == pytest.approx(0.2, abs=0.03)


def test_a_time_limit_is_not_a_terminal_state():
    """With 5 moves an episode the error goes to 0 as with 1000. Were the limit an end, a fifth of the targets or more
    would not bootstrap, which acts like a discount of 0.72 at most: a plateau at the difference of the two optima."""
    plateau = np.abs(optimal(LAKE).q - optimal(LAKE.with_discount(0.72)).q).max()
    for limit in (5, 1000):
        result = run(
            LAKE, QLearning(), iterations=1_000_000, n_seeds=2, step_size=Polynomial(0.8), n_checkpoints=4,
            sampling=Markovian(start="uniform", time_limit=limit, clock="local"), evaluation=NO_EPISODES,
        )  # fmt: skip
        assert result.curves["q_error"][:, -1].max() < min(0.02, plateau / 5)
        assert result.q[:, 0].max(axis=1) == pytest.approx(0.0688909049, abs=0.005)


def test_every_way_of_sampling_learns_cliff_walking():
    """The table holds cells that can never be occupied; they do not count."""
    mdp = cliff_walking(discount=0.9)
    for sampling in (
        Markovian(behaviour="epsilon_greedy", epsilon=1.0, clock="local"),
        Replay(capacity=10_000, clock="local", restart_probability=0.01),
        IID(clock="local", restart_probability=0.01),
    ):
        result = run(
            mdp, QLearning(), iterations=300_000, n_seeds=2, sampling=sampling, step_size=Constant(1.0),
            n_checkpoints=3, evaluation=NO_EPISODES,
        )  # fmt: skip
        assert result.curves["q_error"][:, -1].max() < 1e-6
        assert result.visits is not None and result.visits[~mdp.counted].sum() == 0
        assert result.curves["policy_value"][:, -1] == pytest.approx(-7.458134, abs=1e-5)


def test_the_same_action_meets_every_outcome_over_many_episodes():
    """Always right from the start tile of slippery ice: its right, lower and own tile, a third each."""
    pairs, b = twins.drawn(LAKE, Markovian(behaviour=always_right, time_limit=1), 1000)
    x, u = LAKE.pairs[pairs].T
    assert (x == 0).all() and (u == 2).all()
    second, counts = np.unique(LAKE.successors[x, u, b], return_counts=True)
    assert second.tolist() == [0, 1, 4]
    assert chisquare(counts).pvalue > 0.01
