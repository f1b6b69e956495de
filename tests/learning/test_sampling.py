"""What the sampling modes draw: episodes, restarts, behaviour, replay, and the shares of the pairs in the long run."""

import math

import numpy as np
import pytest
import twins
from random_mdps import random_mdp
from scipy.stats import chisquare
from twins import run

from mqlearn.algorithms import QLearning
from mqlearn.algorithms.step_sizes import Constant, Polynomial
from mqlearn.errors import SettingError
from mqlearn.learning.chains import Chain, Samples
from mqlearn.learning.draw_tables import alias_table
from mqlearn.learning.learners import AsynchronousTable
from mqlearn.learning.metrics import Evaluation, greedy_policies
from mqlearn.learning.sampling import IID, Markovian, Replay, Synchronous, stationary
from mqlearn.problems.environments import cliff_walking, frozen_lake
from mqlearn.problems.features import one_hot
from mqlearn.problems.fixed_points import stationary_distribution
from mqlearn.problems.mdp import FiniteMDP
from mqlearn.problems.solvers import optimal

LAKE = frozen_lake("4x4")
MIXED = random_mdp(12, 8, 3, 4, 0.9, "mixed")
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


# --- behaviour --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("features", [None, one_hot], ids=["table", "one-hot"])
def test_greedy_behaviour_breaks_ties_at_random(features):
    mdp = frozen_lake("4x4", slippery=False)
    sampling = Markovian(behaviour="epsilon_greedy", epsilon=0.0, time_limit=1)
    learner = twins.learner(mdp, sampling, [0, 1], features=features and features(mdp))
    twins.advance(learner, QLearning(), 1000)
    assert not learner.tables().any()
    first = learner.chain.visits[:, :4]
    assert first.sum() == 2000
    for counts in first:
        assert chisquare(counts).pvalue > 0.001
    assert (first[0] != first[1]).any()


def test_ties_among_some_actions_exclude_the_others():
    mdp = frozen_lake("4x4", slippery=False)
    learner = twins.learner(mdp, Markovian(behaviour="epsilon_greedy", epsilon=0.0, time_limit=1), [0])
    learner.q[0, :4] = [0.0, 0.5, 0.0, 0.5]
    learner.advance(0, 400, np.tile([1.0, 0, 0, 0], (400, 1)))
    left, down, right, up = learner.chain.visits[0, :4]
    assert left == right == 0
    assert chisquare([down, up]).pvalue > 0.001


def test_exploration_falls_linearly_and_then_stays():
    """Share of the greedy action at the start tile, whose table is kept as it is."""
    sampling = Markovian(behaviour="epsilon_greedy", epsilon=(1.0, 0.2, 4000), time_limit=1)
    learner = twins.learner(LAKE, sampling, range(30))
    learner.q[:, 2] = 1.0
    shares = []
    for block in range(6):
        before = learner.chain.visits[:, 2].sum()
        learner.advance(1000 * block, 1000, np.tile([1.0, 0, 0, 0], (1000, 1)))
        shares.append((learner.chain.visits[:, 2].sum() - before) / 30_000)
    epsilon = np.array([0.9, 0.7, 0.5, 0.3, 0.2, 0.2])
    assert shares == pytest.approx(1 - epsilon * 3 / 4, abs=0.015)


def test_an_all_zero_table_is_not_evaluated_as_always_left():
    policies = greedy_policies(LAKE, np.zeros((1, 16, 4)))
    np.testing.assert_array_equal(policies[0][~LAKE.terminal], 0.25)
    np.testing.assert_array_equal(policies[0][LAKE.terminal], 0)


def test_a_table_that_never_saw_a_reward_says_so():
    result = run(
        frozen_lake("8x8"), QLearning(), iterations=2000, n_seeds=1, seed=1,
        sampling=Markovian(behaviour="epsilon_greedy", epsilon=0.0),
    )  # fmt: skip
    assert not result.q.any()
    text = next(text for text in result.warnings if "reward" in text)
    assert "goal reached 0 times in 2000 steps" in text
    assert "of the pairs visited" in text
    assert result.facts["goals"] == result.facts["rewards_seen"] == 0
    assert 0 < result.facts["pairs_visited"] < 1
    assert result.facts["exploration"] == 0
    assert "not the trajectory" in result.facts["common_random_numbers"]


def test_a_run_that_learned_something_has_no_such_warning():
    result = run(LAKE, QLearning(), iterations=20_000, n_seeds=2, sampling=Markovian(), n_checkpoints=3)
    assert result.warnings == ()
    assert result.facts["goals"] == result.facts["rewards_seen"] > 0
    assert result.facts["chain_steps"] == 40_000
    assert result.visits is not None and result.visits.sum() == 40_000


# --- replay -----------------------------------------------------------------------------------------------------------


def test_replay_draws_hold_what_was_pushed_and_is_still_there():
    """Every draw is one of the last `capacity` transitions of the chain, which is the Markovian one."""
    n, capacity = 3000, 40
    drawn = np.stack(twins.drawn(LAKE, Replay(capacity=capacity), n))
    pushed = np.stack(twins.drawn(LAKE, Markovian(), n))
    ages = []
    for i in range(n):
        held = pushed[:, max(0, i + 1 - capacity) : i + 1]
        same = (held == drawn[:, i : i + 1]).all(axis=0)
        assert same.any()
        ages.append(same)
    assert (drawn[:, 0] == pushed[:, 0]).all()  # there was no other
    assert np.mean([same[-1] for same in ages[capacity:]]) < 0.3  # not always the newest


def test_replay_draws_are_uniform_over_the_buffer():
    """40 different transitions in a buffer of 40: each is drawn as often as any other."""
    capacity = 40
    chain = Chain(LAKE, Replay(capacity=capacity, draws=capacity), np.array([3], np.uint32), 0, False)
    learner = AsynchronousTable(chain, 0.0, False)
    chain.states[0, 2] = capacity * 1000  # the buffer is full
    _, successors, rewards, _, shift = chain.model
    first = np.arange(capacity, dtype=np.uint64)  # the first outcome of the pairs 0 .. 39, as the ring keeps it
    leads_to = 2 * successors[:capacity, 0].astype(np.uint64) + (rewards[:capacity, 0] != 0)
    chain.buffers[0] = first << np.uint64(shift + 32) | leads_to
    weights = np.tile([1.0, 0.0, 0.0, 0.0], (1, 1))
    for k in range(1, 39 * 500):
        if k % capacity:  # at the others the chain would push
            learner.advance(k, 1, weights)
    assert chisquare(learner.counts[0, :capacity]).pvalue > 0.001


def test_warm_up_fills_the_buffer_and_is_counted():
    sampling = Replay(capacity=500, warm_up=200, draws=10)
    learner = twins.learner(LAKE, sampling, range(3))
    assert (learner.chain.states[:, 2] == 200).all()
    assert (learner.chain.visits.sum(axis=1) == 200).all()
    twins.advance(learner, QLearning(), 95)
    assert (learner.chain.states[:, 2] == 210).all()
    assert (learner.counts.sum(axis=1) == 95).all()
    result = run(LAKE, QLearning(), iterations=95, n_seeds=3, sampling=sampling, n_checkpoints=3)
    assert result.facts["chain_steps"] == 630


def test_without_warm_up_the_first_draw_is_the_first_transition():
    sampling = Replay(capacity=50)
    pairs, b = twins.drawn(LAKE, sampling, 1, lane=4)
    chain_pairs, chain_b = twins.drawn(LAKE, Markovian(), 1, lane=4)
    assert (pairs[0], b[0]) == (chain_pairs[0], chain_b[0])


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "setting"),
    [
        (lambda: Replay(capacity=50, draws=64), "draws"),
        (lambda: Replay(draws=0), "draws"),
        (lambda: Replay(capacity=0), "capacity"),
        (lambda: Replay(warm_up=-1), "warm_up"),
        (lambda: Markovian(behaviour="greedy"), "behaviour"),
        (lambda: Markovian(start="anywhere"), "start"),
        (lambda: Markovian(clock="wall"), "clock"),
        (lambda: Markovian(update="sometimes"), "update"),
        (lambda: Markovian(restart_probability=1), "restart_probability"),
        (lambda: Markovian(restart_probability=math.nan), "restart_probability"),
        (lambda: Markovian(time_limit=0), "time_limit"),
        (lambda: Markovian(epsilon=1.5), "epsilon"),
        (lambda: Markovian(epsilon=math.nan), "epsilon"),
        (lambda: Markovian(epsilon=(0.1, 0.5, 100)), "epsilon"),
        (lambda: Markovian(epsilon=(0.5, 0.1, 0)), "epsilon"),
        (lambda: Markovian(epsilon=(0.5, 0.1)), "epsilon"),  # pyright: ignore  # wrong on purpose
        (lambda: IID(behaviour="epsilon_greedy"), "behaviour"),
    ],
)
def test_bad_settings_are_refused_by_name(make, setting):
    with pytest.raises(SettingError, match=rf"^sampling\.{setting}="):
        make()


def test_policies_that_are_none_are_refused():
    for policy in (np.ones((16, 4)), np.full((16, 3), 1 / 3), np.full((16, 4), np.nan)):
        with pytest.raises(SettingError, match=r"^sampling\.behaviour="):
            run(LAKE, QLearning(), iterations=10, sampling=Markovian(behaviour=policy))


def test_an_inadmissible_action_is_refused():
    mdp = random_mdp(12, 8, 3, 4, 0.9, "mixed")
    assert not mdp.admissible[~mdp.terminal].all()
    with pytest.raises(SettingError, match=r"^sampling\.behaviour="):
        run(mdp, QLearning(), iterations=10, sampling=Markovian(behaviour=np.full((8, 3), 1 / 3)))


def test_synchronous_sampling_has_no_features():
    with pytest.raises(SettingError, match="sampling"):
        run(LAKE, QLearning(), iterations=10, sampling=Synchronous(), features=one_hot(LAKE))


# --- samples that rules share -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampling", [Markovian(restart_probability=0.1), Replay(capacity=30, warm_up=7)], ids=repr)
def test_samples_are_drawn_once_and_given_again(sampling):
    lanes, every = np.arange(3, dtype=np.uint32), np.arange(3)
    samples = Samples(Chain(LAKE, sampling, lanes, 0, False))
    samples.draw(60)
    first = samples.block(0, 60, every)
    assert samples.block(0, 60, every) is first
    first = first.copy()
    np.testing.assert_array_equal(samples.block(0, 25, np.array([0, 2])), first[[0, 2], :25])
    second = samples.block(60, 40, every).copy()
    whole = Samples(Chain(LAKE, sampling, lanes, 0, False))
    np.testing.assert_array_equal(np.hstack([first, second]), whole.block(0, 100, every))
    for k, n in ((0, 60), (60, 41), (70, 10), (101, 1)):  # forgotten, not drawn so far, in the middle, ahead
        with pytest.raises(ValueError, match=r"were asked for, 60 \.\. 99 are there"):
            samples.block(k, n, every)
    samples.forget()
    with pytest.raises(ValueError, match=r"60 \.\. 99 were asked for"):
        samples.block(60, 40, every)
    assert samples.block(100, 1, every).shape == (3, 1)


@pytest.mark.parametrize("k", [60, 75, 100])
@pytest.mark.parametrize("rows", [[0, 1, 2], [2], [0, 2]])
def test_the_chains_of_samples_are_known_at_every_iteration_of_the_last_block(k, rows):
    sampling = Replay(capacity=30, start="uniform", warm_up=9, draws=2, restart_probability=0.1)
    samples = Samples(Chain(LAKE, sampling, np.arange(3, dtype=np.uint32), 0, False))
    for n in (60, 40):
        samples.draw(n)
    states, visits = samples.chain_state(k, np.array(rows))
    alone = Samples(Chain(LAKE, sampling, np.array(rows, np.uint32), 0, False))
    alone.draw(k)
    np.testing.assert_array_equal(states, alone.chain.states)
    np.testing.assert_array_equal(visits, alone.chain.visits)
    assert (samples.k, samples.chain.visits.sum()) == (100, 3 * (100 // 2 + sampling.warm_up))
