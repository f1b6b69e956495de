"""The kernels' mathematics once more, in plain Python and NumPy, one lane and one step at a time, from the equations.

Everything follows from the settings and from Philox4x32-10 alone, so a twin shares no code with what it checks,
but for the alias tables, which have a test of their own.
"""

from typing import Any

import numpy as np

from mqlearn import kernels
from mqlearn.learners import Linear, start
from mqlearn.learning import loop
from mqlearn.problems.mdp import FiniteMDP
from mqlearn.sampling.chains import Chain, Samples
from mqlearn.sampling.modes import IID, Replay, stationary
from mqlearn.sampling.tables import alias_table

WORD = 2**32
run: Any = loop.run  # on a model a result has tables: no need to ask each time
_LOW, _HALF = np.uint64(WORD - 1), np.uint64(32)


def philox(counter: tuple, key: tuple[int, int]) -> np.ndarray:
    """(4, ...) words of Philox4x32-10 as uint64, for a counter of four numbers or arrays."""
    c0, c1, c2, c3 = (np.asarray(c, np.uint64) for c in counter)
    key0, key1 = key
    for _ in range(10):
        first, second = np.uint64(0xD2511F53) * c0, np.uint64(0xCD9E8D57) * c2
        c0, c1 = second >> _HALF ^ c1 ^ np.uint64(key0), second & _LOW
        c2, c3 = first >> _HALF ^ c3 ^ np.uint64(key1), first & _LOW
        key0, key1 = (key0 + 0x9E3779B9) % WORD, (key1 + 0xBB67AE85) % WORD
    return np.stack(np.broadcast_arrays(c0, c1, c2, c3))


def words(stream: str, seed: int, lane: Any, k: Any, word: Any = 0) -> np.ndarray:
    """(4, ...) words of a named stream; lane, k and word may be arrays."""
    k = np.asarray(k, np.uint64)
    return philox((word, k & _LOW, k >> _HALF, lane), (seed, kernels.STREAMS[stream]))


def success_within(mdp: FiniteMDP, policy: np.ndarray, steps: int) -> np.ndarray:
    """(S,): the probability that a policy, actions (S,) or shares (S, A), reaches a goal in at most `steps` moves."""
    share = np.eye(mdp.n_actions)[policy] if policy.ndim == 1 else policy
    share = np.where(mdp.learned, share, 0.0)
    reached = mdp.goal.astype(float)
    for _ in range(steps):
        ahead = (mdp.probabilities * reached[mdp.successors]).sum(axis=2)
        reached = np.where(mdp.goal, 1.0, (share * ahead).sum(axis=1))
    return reached


def below(word, n: int) -> int:
    """The uniform whole number below n of a 32-bit word."""
    return int(word) * n // WORD


def chosen(probabilities: list[float], word: int) -> int:
    """The outcome whose share of [0, 1) holds word / 2^32."""
    total = 0.0
    for b, share in enumerate(probabilities):
        total += share
        if word < total * WORD:
            return b
    return max(b for b, share in enumerate(probabilities) if share > 0)


def value(mdp: FiniteMDP, table: np.ndarray, y: int) -> float:
    """max_v q(y, v) of a table over the pairs (n,), 0 at a terminal state."""
    return table[mdp.pair_offsets[y] : mdp.pair_offsets[y + 1]].max(initial=-np.inf) if not mdp.terminal[y] else 0.0


def initial_values(n: int, low: float, high: float, seed: int, lane: int) -> np.ndarray:
    """(n,) uniform values of a lane in [low, high)."""
    four = words("initial", seed, lane, 2**40, np.arange(-(-n // 4)))
    return low + (high - low) * (four.T.ravel()[:n] / WORD)


# --- synchronous ----------------------------------------------------------------------------------------------------


def synchronous_outcomes(
    mdp: FiniteMDP, seed: int, lanes: np.ndarray, n: int, stream: str = "synchronous"
) -> np.ndarray:
    """(n, pairs, L): the outcome of each pair and lane in iterations 0 .. n - 1."""
    x, u = mdp.pairs.T
    p, base = mdp.probabilities[x, u], mdp.n_successors
    if base == 1:
        return np.zeros((n, len(x), len(lanes)), int)
    equal = np.allclose(p, 1 / base, rtol=0, atol=1e-12)
    pairs_of_a_word = max(1, int(16 / np.log2(base))) if equal else 1
    number, digit = np.arange(len(x)) // pairs_of_a_word, np.arange(len(x)) % pairs_of_a_word
    four = words(stream, seed, lanes, np.arange(n)[:, None, None], (number // 4)[:, None])
    word = np.stack([four[i % 4, :, pair] for pair, i in enumerate(number)], axis=1)
    if equal:
        moved = word * np.uint64(base) ** digit.astype(np.uint64)[:, None] & _LOW
        return (moved * np.uint64(base) >> _HALF).astype(int)
    shares = np.cumsum(p, axis=1)
    last = p.shape[1] - 1 - (p[:, ::-1] > 0).argmax(axis=1)
    outcome = (word[..., None] / WORD >= shares[:, None, :]).sum(axis=-1)
    return np.minimum(outcome, last[:, None])


def sampled_operator(mdp: FiniteMDP, q: np.ndarray, outcomes: np.ndarray, mean_reward: bool) -> np.ndarray:
    """T_k q (n, L) for tables q (n, L) and outcomes (n, L)."""
    x, u = mdp.pairs.T
    y = mdp.successors[x[:, None], u[:, None], outcomes]
    r = mdp.mean_rewards[x, u][:, None] if mean_reward else mdp.rewards[x[:, None], u[:, None], outcomes]
    v = np.zeros((mdp.n_states, q.shape[1]))
    v[~mdp.terminal] = np.maximum.reduceat(q, mdp.pair_offsets[:-1][~mdp.terminal])  # over the pairs of each state
    return r + mdp.discount * v[y, np.arange(q.shape[1])]


def exact_operator(mdp: FiniteMDP, q: np.ndarray) -> np.ndarray:
    """T q (n, L), expectations from the model."""
    x, u = mdp.pairs.T
    total = np.zeros_like(q)
    for b in range(mdp.n_successors):
        share = mdp.probabilities[x, u, b][:, None]
        total += share * sampled_operator(mdp, q, np.full(q.shape, b), mean_reward=False)
    return total


# --- one sample an iteration ----------------------------------------------------------------------------------------


class ChainTwin:
    """One lane's sampling chain: `next` returns the pair and the outcome that iteration k learns from."""

    def __init__(self, mdp: FiniteMDP, sampling: Any, lane: int, seed: int, n: int) -> None:
        self.mdp, self.sampling, self.n = mdp, sampling, n
        policy = sampling.policy(mdp)
        self.policy = [] if policy is None else policy[mdp.learned].tolist()
        self.outcomes = mdp.probabilities[mdp.learned].tolist()
        self.starts = np.flatnonzero(sampling.episode_starts(mdp))
        self.start_alias = alias_table(sampling.episode_starts(mdp)[self.starts])
        x, u = mdp.pairs.T
        if isinstance(sampling, IID):
            mu = stationary(sampling, mdp)
            assert mu is not None
            self.pair_alias = alias_table(mu[x, u])
        self.words, self.choices, self.ties = (
            words(stream, seed, lane, np.arange(n)).T.tolist() for stream in ("chain", "choices", "ties")
        )
        self.state = self.first_state(*words("warm_up_choices", seed, lane, 2**40)[:2])
        self.moves = self.steps = self.episodes = self.goals = 0
        self.visits = np.zeros(len(x), int)
        self.buffer: list[tuple[int, int]] = []
        if isinstance(sampling, Replay) and sampling.warm_up:
            k = np.arange(sampling.warm_up)
            streams = (words(stream, seed, lane, k).T.tolist() for stream in ("warm_up", "warm_up_choices"))
            for main, choices in zip(*streams, strict=True):
                self.push(self.step(main, choices, None))

    def first_state(self, index, coin) -> int:
        keep, alias = self.start_alias
        j = below(index, len(self.starts))
        return int(self.starts[j if int(coin) < int(keep[j]) else alias[j]])

    def greedy(self, table: np.ndarray, word) -> int:
        first, end = self.mdp.pair_offsets[self.state : self.state + 2]
        best = np.flatnonzero(table[first:end] == table[first:end].max())
        return int(first + best[below(word, len(best))])

    def boltzmann(self, table: np.ndarray, k: int) -> int:
        """By the probabilities exp(q/T) over their sum, and the word that would decide a tie."""
        given = self.sampling.temperature
        first, last, span = given if isinstance(given, tuple) else (given, given, 1)
        begin, end = self.mdp.pair_offsets[self.state : self.state + 2]
        odds = np.exp(table[begin:end] / np.interp(k, (0, span), (first, last)))
        return int(begin) + chosen((odds / odds.sum()).tolist(), self.ties[k][2])

    def explores(self, k: int, choices: list[int]) -> bool:
        """Whether an epsilon-greedy behaviour takes any action."""
        if self.sampling.epsilon == "visits":
            begin, end = self.mdp.pair_offsets[self.state : self.state + 2]
            epsilon = (self.visits[begin:end].sum() + 1.0) ** -self.sampling.power
        else:
            first, last, span = self.sampling.exploration
            epsilon = first + (last - first) * min(1, k / span)
        return choices[0] / WORD < epsilon

    def step(self, main: list[int], choices: list[int], greedy: int | None) -> tuple[int, int]:
        """One step of the chain; `greedy` is what a greedy behaviour does, None for a uniform one."""
        mdp, sampling = self.mdp, self.sampling
        first, end = (int(edge) for edge in mdp.pair_offsets[self.state : self.state + 2])
        if isinstance(sampling, IID):
            keep, alias = self.pair_alias
            j = below(main[0], len(mdp.pairs))
            pair = j if main[3] < int(keep[j]) else int(alias[j])
        elif greedy is not None:
            pair = greedy
        elif isinstance(sampling.behaviour, str):
            pair = first + below(main[0], end - first)
        else:
            pair = first + chosen(self.policy[first:end], main[0])
        x, u = mdp.pairs[pair]
        b = chosen(self.outcomes[pair], main[1])
        y = int(mdp.successors[x, u, b])
        self.visits[pair] += 1
        self.steps += 1
        self.goals += int(mdp.terminal[y] and mdp.goal[y])
        ended = bool(mdp.terminal[y])
        if not ended:
            self.moves += 1
            restarts = choices[1] < sampling.restart_probability * WORD
            ended = restarts or self.moves == sampling.time_limit
        if ended:
            self.episodes += 1
            self.moves = 0
            y = self.first_state(main[2], main[3])
        self.state = y
        return pair, b

    def push(self, transition: tuple[int, int]) -> None:
        place = (self.steps - 1) % self.sampling.capacity
        self.buffer[place : place + 1] = [transition]

    def next(self, k: int, table: np.ndarray) -> tuple[int, int]:
        """table (n,): the estimates that a behaviour looks at, if it does."""
        main, choices = self.words[k], self.choices[k]
        replay = isinstance(self.sampling, Replay)
        transition = None
        if not replay or k % self.sampling.draws == 0:
            greedy = None
            if self.sampling.adaptive and self.sampling.behaviour == "boltzmann":
                greedy = self.boltzmann(table, k)
            elif self.sampling.adaptive and not self.explores(k, choices):
                greedy = self.greedy(table, self.ties[k][2])
            transition = self.step(main, choices, greedy)
            if replay:
                self.push(transition)
        if replay:
            return self.buffer[below(choices[3], len(self.buffer))]
        assert transition is not None
        return transition


def outcome_of(mdp: FiniteMDP, transition: tuple[int, int], mean_reward: bool) -> tuple[int, int, float]:
    """Pair, successor and reward."""
    pair, b = transition
    x, u = mdp.pairs[pair]
    reward = mdp.mean_rewards[x, u] if mean_reward else mdp.rewards[x, u, b]
    return pair, int(mdp.successors[x, u, b]), float(reward)


def table_twin(mdp: FiniteMDP, chain: ChainTwin, rule, q0: np.ndarray, mean_reward: bool = False) -> np.ndarray:
    """The `pair` form with Q_{k-1} a full copy of the table before."""
    q, q_prev = q0.copy(), q0.copy()
    count = np.zeros(len(q), int)
    weights = rule.weights(0, chain.n)
    states = mdp.pairs[:, 0]
    for k in range(chain.n):
        pair, y, reward = outcome_of(mdp, chain.next(k, q), mean_reward)
        clocks = {"local": count[pair], "state": count[states == states[pair]].sum(), "global": k}
        a, b, s, t = weights[clocks.get(chain.sampling.clock, k)]
        target, target_prev = (reward + mdp.discount * value(mdp, table, y) for table in (q, q_prev))
        new = q.copy()
        new[pair] = a * q[pair] + b * q_prev[pair] + s * target + t * target_prev
        q, q_prev = new, q
        count[pair] += 1
    return q


def rounds_twin(mdp: FiniteMDP, chain: ChainTwin, rule, q0: np.ndarray) -> tuple[np.ndarray, int]:
    """The table, and the number of rounds that ended: both tables rest while the targets of a round are collected."""
    q, q_prev = q0.copy(), q0.copy()
    x, u = mdp.pairs.T
    wanted = set(np.flatnonzero(mdp.counted[x, u]).tolist())
    targets: dict[int, list[tuple[float, float]]] = {}
    n_rounds = 0
    for k in range(chain.n):
        pair, y, reward = outcome_of(mdp, chain.next(k, q), False)
        both = reward + mdp.discount * value(mdp, q, y), reward + mdp.discount * value(mdp, q_prev, y)
        targets.setdefault(pair, []).append(both)
        if wanted <= targets.keys():
            a, b, s, t = rule.weights(n_rounds, n_rounds + 1)[0]
            new = q.copy()
            for j, seen in targets.items():
                mean, mean_prev = np.mean(seen, axis=0)
                new[j] = a * q[j] + b * q_prev[j] + s * mean + t * mean_prev
            q, q_prev, targets = new, q, {}
            n_rounds += 1
    return q, n_rounds


def linear_twin(
    mdp: FiniteMDP, chain: ChainTwin, rule, phi: np.ndarray, theta0: np.ndarray, linear: Linear, mean_reward=False
) -> tuple[np.ndarray, np.ndarray]:
    """theta_T and the mean of theta_1 .. theta_T of Algorithm 2, dense; phi (n, d).

    theta_k - theta_{k-1} is carried along: formed anew at each step it would lose digits to cancellation.
    """

    def gradient(at: np.ndarray, pair: int, y: int, reward: float) -> np.ndarray:
        return (phi[pair] @ at - reward - mdp.discount * value(mdp, phi @ at, y)) * phi[pair]

    theta, theta_prev, change, total = theta0.copy(), theta0.copy(), 0 * theta0, 0 * theta0
    g_prev = None
    for k, (_, q, s, t) in enumerate(rule.weights(0, chain.n)):
        pair, y, reward = outcome_of(mdp, chain.next(k, phi @ theta), mean_reward)
        g = gradient(theta, pair, y, reward)
        if linear.previous_gradient == "same_sample":
            g_prev = gradient(theta_prev, pair, y, reward)
        elif g_prev is None:
            g_prev = g if linear.first_gradient == "same" else 0 * g
        change = -(q + t) * change - s * g - t * g_prev
        new = theta + change
        if linear.projection is not None and np.linalg.norm(new) > linear.projection:
            new *= linear.projection / np.linalg.norm(new)
            change = new - theta
        theta, theta_prev, g_prev = new, theta, g
        total += theta
    return theta, total / max(chain.n, 1)


def plan_twin(mdp: FiniteMDP, seen: list[tuple[int, int]], q0: np.ndarray, mean_reward: bool = False) -> np.ndarray:
    """(n,): the fixed point of the model that transitions (pair, outcome) make, by value iteration; q0 where unseen."""
    targets: dict[int, list[tuple[float, int]]] = {}
    for transition in seen:
        pair, y, reward = outcome_of(mdp, transition, mean_reward)
        targets.setdefault(pair, []).append((reward, y))
    q, change = q0.copy(), np.inf
    while change > 1e-14 * max(1, np.abs(q).max()):
        v = np.array([value(mdp, q, y) for y in range(mdp.n_states)])
        new = q.copy()
        for pair, own in targets.items():
            new[pair] = np.mean([reward for reward, _ in own]) + mdp.discount * np.mean([v[y] for _, y in own])
        change, q = np.abs(new - q).max(), new
    return q


class NumberedChain(ChainTwin):
    """A chain whose buffer remembers which step each transition was."""

    def push(self, transition: tuple[int, ...]) -> None:
        super().push((*transition, self.steps))  # type: ignore[arg-type]  # longer ones


# --- which pairs a mode draws ---------------------------------------------------------------------------------------


def chain_draws(mdp: FiniteMDP, sampling: Any, n: int, lane: int, seed: int) -> np.ndarray:
    """(n,) pairs of a lane of chains under a behaviour that does not depend on what is learned."""
    chain, rest = ChainTwin(mdp, sampling, lane, seed, n), np.zeros(len(mdp.pairs))
    return np.array([chain.next(k, rest)[0] for k in range(n)])


def recorded_draws(mdp: FiniteMDP, sampling: Any, n: int, lane: int, seed: int) -> np.ndarray:
    """(n,) pairs of recorded transitions in their order."""
    number = {(int(x), int(u)): i for i, (x, u) in enumerate(mdp.pairs)}
    return np.array([number[x, u] for x, u in zip(sampling.path["x"][:n], sampling.path["u"][:n], strict=True)])


def uniform_draws(mdp: FiniteMDP, sampling: Any, n: int, lane: int, seed: int) -> np.ndarray:
    """(n,) pairs of a lane, each of those that count as likely as any other."""
    x, u = mdp.pairs.T
    keep, alias = alias_table(mdp.counted[x, u] / mdp.counted.sum())
    main = words("chain", seed, lane, np.arange(n)).T.tolist()
    drawn = [(below(word, len(x)), coin) for word, _, _, coin in main]
    return np.array([j if coin < int(keep[j]) else int(alias[j]) for j, coin in drawn])


def synchronous_draws(mdp: FiniteMDP, sampling: Any, n: int, lane: int, seed: int) -> np.ndarray:
    """(n, pairs): all of them; their outcomes: `synchronous_outcomes`."""
    return np.tile(np.arange(len(mdp.pairs)), (n, 1))


# Name in conf/sampling -> its pairs.
TWINS = {
    "synchronous": synchronous_draws,
    "markovian": chain_draws,
    "replay": chain_draws,
    "iid": chain_draws,
    "pairs": uniform_draws,
    "recorded": recorded_draws,
}


# --- driving the learners ---------------------------------------------------------------------------------------------


def learner(mdp, sampling, lanes, *, seed=0, features=None, linear=None, initial: Any = 0.0, mean_reward=False) -> Any:
    """A fresh learner for some lanes."""
    lanes = np.asarray(lanes, np.uint32)
    return start(mdp, sampling, features, linear or Linear(), seed, initial, mean_reward, lanes)


def advance(learner, rule, *blocks: int):
    """Advance by blocks of iterations, from iteration 0; returns the learner."""
    k = 0
    for n in blocks:
        learner.advance(k, n, rule.weights(*learner.rows(k, n)))
        k += n
    return learner


def assert_same(one: Any, other: Any, seeds: slice = slice(None)) -> None:
    """The same bits, in the first of two results for some of its seeds."""
    np.testing.assert_array_equal(one.iteration, other.iteration)
    assert one.curves.keys() == other.curves.keys()
    for name, curve in other.curves.items():
        np.testing.assert_array_equal(one.curves[name][seeds], curve, err_msg=name)
    for name in ("q", "theta", "theta_average"):
        a, b = getattr(one, name), getattr(other, name)
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_array_equal(a[seeds], b)
    assert {seed: k for seed, k in one.diverged.items() if seed in range(len(other.q))} == other.diverged


def drawn(mdp: FiniteMDP, sampling, n: int, lane: int = 0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Pairs and outcomes (n,) that the kernel draws in iterations 0 .. n - 1; not for epsilon-greedy behaviour."""
    chain = Chain(mdp, sampling, np.array([lane], np.uint32), seed, False)
    transitions = Samples(chain).block(0, n, np.array([0]))[0].astype(np.int64) >> 32
    shift = int(chain.model[4])
    return transitions >> shift, transitions & ((1 << shift) - 1)
