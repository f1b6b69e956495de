"""Where the samples come from: sampling modes as immutable settings, and the tables that the kernels draw from."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from mqlearn.checks import are_distributions, choice, finite_number, whole
from mqlearn.errors import SettingError, user_code
from mqlearn.problems.mdp import FiniteMDP

if TYPE_CHECKING:
    from mqlearn.learning import kernels

_WORD = 2**32
Policy = np.ndarray | Callable[[FiniteMDP], np.ndarray]
_Kind = TypeVar("_Kind")


@dataclass(frozen=True)
class Synchronous:
    """Every iteration draws an independent successor of every pair (generative model; the paper's Algorithm 1)."""

    name: ClassVar[str] = "synchronous"
    adaptive: ClassVar[bool] = False


_PARAMETERS = """
    behaviour: "uniform" over admissible actions, "epsilon_greedy" in the current estimate (ties uniformly at random),
        or a stochastic policy (S, A), as an array or as a function of the MDP.
    epsilon: exploration rate of epsilon_greedy, a number or (first, last, iterations), linear in the iteration k and
        constant afterwards.
    start: of an episode, "start" (the MDP's distribution) or "uniform" over non-terminal states.
    restart_probability: of ending an episode after any step, in [0, 1).
    time_limit: moves of an episode, None for no limit. Neither it nor a restart is a terminal state: the target
        bootstraps.
    clock: the k of a table's step size, "global" iterations or "local" visits of the pair.
    update: of a table, "pair", the visited pair moves at once, or "rounds", all pairs move when each was visited
        (Azar et al. 2011).

    Raises SettingError for a value that is not admissible.
    """


def _explained(kind: type[_Kind]) -> type[_Kind]:
    """The class with the parameters of its chain in its docstring."""
    kind.__doc__ = (kind.__doc__ or "").rstrip() + "\n" + _PARAMETERS
    return kind


@dataclass(frozen=True, kw_only=True)
class _Chain:
    """The sampling chain: episodes under a behaviour policy, with restarts. Abstract; `_PARAMETERS` explains it."""

    behaviour: str | Policy = "uniform"
    epsilon: float | tuple[float, float, float] = 0.1
    start: str = "start"
    restart_probability: float = 0.0
    time_limit: int | None = None
    clock: str = "global"
    update: str = "pair"

    def __post_init__(self) -> None:
        if isinstance(self.behaviour, str):
            more = ", or a policy (S, A) of one of your plugins"
            choice("sampling.behaviour", self.behaviour, ("uniform", "epsilon_greedy"), more)
        choice("sampling.start", self.start, ("start", "uniform"))
        choice("sampling.clock", self.clock, ("global", "local"))
        choice("sampling.update", self.update, ("pair", "rounds"))
        probability = finite_number(self.restart_probability)
        if probability is None or not 0 <= probability < 1:
            raise SettingError("sampling.restart_probability", self.restart_probability, "must lie in [0, 1)")
        whole("sampling.time_limit", self.time_limit, 1, of="moves", null="none")
        first, last, span = self.exploration
        if not (0 <= last <= first <= 1 and span > 0):
            expected = "must be a number in [0, 1], or [first, last, iterations] with 1 >= first >= last >= 0"
            raise SettingError("sampling.epsilon", self.epsilon, expected)

    @property
    def exploration(self) -> tuple[float, float, float]:
        """(first, last, iterations) of the exploration rate."""
        if isinstance(self.epsilon, int | float):
            return float(self.epsilon), float(self.epsilon), 1.0
        values = tuple(self.epsilon)
        if len(values) != 3 or not all(isinstance(value, int | float) for value in values):
            return math.nan, math.nan, math.nan
        return float(values[0]), float(values[1]), float(values[2])

    @property
    def adaptive(self) -> bool:
        """Whether the trajectory depends on what is learned: then only its uniforms are common to all rules."""
        return isinstance(self.behaviour, str) and self.behaviour == "epsilon_greedy"

    def policy(self, mdp: FiniteMDP) -> np.ndarray | None:
        """The behaviour as probabilities (S, A), None for epsilon_greedy. Raises SettingError."""
        if isinstance(self.behaviour, str):
            if self.adaptive:
                return None
            return mdp.learned / np.maximum(mdp.learned.sum(axis=1, keepdims=True), 1)
        table: Any = self.behaviour
        if callable(table):
            with user_code("sampling.behaviour", getattr(table, "__name__", "policy")):
                table = table(mdp)
        try:
            table = np.asarray(table, dtype=np.float64)
        except (TypeError, ValueError):
            raise SettingError("sampling.behaviour", table, "must be an array of probabilities (S, A)") from None
        shape = (mdp.n_states, mdp.n_actions)
        if table.shape != shape:
            raise SettingError("sampling.behaviour", f"array of shape {table.shape}", f"must have the shape {shape}")
        share = np.where(mdp.learned, table, 0.0)
        if not (are_distributions(share, rounding=1e-5) | mdp.terminal).all():  # a table may be of float32
            expected = "must be probabilities of admissible actions that sum to 1 in each non-terminal state"
            raise SettingError("sampling.behaviour", "table", expected)
        return share

    def episode_starts(self, mdp: FiniteMDP) -> np.ndarray:
        """(S,): distribution of the first state of an episode."""
        if self.start == "start":
            return mdp.start
        return ~mdp.terminal / (~mdp.terminal).sum()


@_explained
@dataclass(frozen=True, kw_only=True)
class Markovian(_Chain):
    """One trajectory a seed; each of its transitions is learned from once, in order (Algorithm 2 of the paper).

    >>> sampling = mq.Markovian(behaviour="epsilon_greedy", epsilon=(1.0, 0.1, 5000), time_limit=200)
    >>> lake = mq.frozen_lake("4x4")
    >>> mq.run(lake, mq.QLearning(), iterations=1000, n_seeds=5, sampling=sampling).facts["chain_steps"]
    5000
    """

    name: ClassVar[str] = "markovian"


@_explained
@dataclass(frozen=True, kw_only=True)
class Replay(_Chain):
    """The trajectory feeds a ring buffer; every iteration learns from a uniform draw of it (the paper's "i.i.d.").

    >>> sampling = mq.Replay(capacity=10_000, warm_up=500, draws=4, start="uniform")
    >>> lake = mq.frozen_lake("4x4")
    >>> mq.run(lake, mq.QLearning(), iterations=1000, n_seeds=2, sampling=sampling).facts["chain_steps"]
    1500

    capacity: transitions that the buffer holds.
    warm_up: steps of the chain before iteration 0, acting uniformly under epsilon_greedy.
    draws: iterations for each further step of the chain.
    """

    name: ClassVar[str] = "replay"
    capacity: int = 100_000
    warm_up: int = 0
    draws: int = 1

    def __post_init__(self) -> None:
        _Chain.__post_init__(self)
        whole("sampling.capacity", self.capacity, 1, of="transitions")
        whole("sampling.warm_up", self.warm_up, 0, of="steps")
        if whole("sampling.draws", self.draws, 1, of="transitions") > self.capacity:
            expected = f"must be at most the capacity of the buffer, {self.capacity}: it never holds more"
            raise SettingError("sampling.draws", self.draws, expected)


@_explained
@dataclass(frozen=True, kw_only=True)
class IID(_Chain):
    """Independent transitions from the exact stationary distribution of the chain, restarts included.

    The behaviour must be uniform or a fixed policy: epsilon_greedy has no stationary chain.

    >>> cautious = np.full((16, 4), [0.1, 0.4, 0.4, 0.1])
    >>> sampling = mq.IID(behaviour=cautious, restart_probability=0.01)
    >>> lake = mq.frozen_lake("4x4")
    >>> mq.run(lake, mq.QLearning(), iterations=1000, n_seeds=5, sampling=sampling).status
    'finished'
    """

    name: ClassVar[str] = "iid"

    def __post_init__(self) -> None:
        _Chain.__post_init__(self)
        if self.adaptive:
            expected = "has no stationary chain to draw from; use uniform or a fixed policy, or sampling=replay"
            raise SettingError("sampling.behaviour", self.behaviour, expected)


Sampling = Synchronous | Markovian | Replay | IID


def stationary(sampling: Any, mdp: FiniteMDP) -> np.ndarray | None:
    """(S, A): stationary distribution of the pairs of a chain, None when it depends on what is learned."""
    from mqlearn.problems.fixed_points import stationary_distribution

    policy = sampling.policy(mdp)
    if policy is None:
        return None
    return stationary_distribution(
        mdp,
        policy,
        start=sampling.episode_starts(mdp),
        restart_probability=sampling.restart_probability,
        time_limit=sampling.time_limit,
    )


def _fixed(distribution: np.ndarray | None) -> np.ndarray:
    assert distribution is not None  # IID refuses the behaviour that has none
    return distribution


def transition_model(mdp: FiniteMDP, mean_reward: bool) -> "kernels.Model":
    """The model as the kernels of sampling chains read it, over the learned pairs."""
    from mqlearn.learning import kernels

    y, r, edges = outcome_tables(mdp, mean_reward)
    shift = np.uint64(max(1, mdp.n_successors - 1).bit_length())
    if len(mdp.pairs) << int(shift) >= _WORD:
        raise SettingError("env", mdp.name, "has too many pairs and successors for one 32-bit number of a transition")
    return kernels.Model(mdp.pair_offsets.astype(np.uint64), y, r, edges, shift)


def outcome_tables(mdp: FiniteMDP, mean_reward: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Successors (n, B) uint32, rewards (n, B) and 32-bit lower edges (n, B) of the outcomes of the learned pairs."""
    x, u = mdp.pairs.T
    p, y = mdp.probabilities[x, u], mdp.successors[x, u].astype(np.uint32)
    r = mdp.rewards[x, u].copy()
    last = p.shape[1] - 1 - (p[:, ::-1] > 0).argmax(axis=1)
    for b in range(p.shape[1]):  # outcomes after the last possible one repeat it: a word at the edge must not leave
        beyond = b > last
        y[beyond, b], r[beyond, b] = y[beyond, last[beyond]], r[beyond, last[beyond]]
    if mean_reward:
        r[:] = mdp.mean_rewards[x, u][:, None]
    # Sums of the outcomes before: a difference like cumsum(p) - p rounds, and opens a gap of one word for p = 0.
    before = np.cumsum(np.pad(p[:, :-1], ((0, 0), (1, 0))), axis=1)
    share = np.arange(p.shape[1]) / p.shape[1] if equally_likely(mdp) else before
    edges = np.minimum(np.ceil(np.broadcast_to(share, p.shape) * _WORD), _WORD - 1)
    return y, r, edges.astype(np.uint32)


def digits_of_words(mdp: FiniteMDP) -> tuple[int, int]:
    """How many pairs one 32-bit word of synchronous sampling serves, and the base B of its digits.

    Where all B successors of every pair have probability 1/B, one word serves several pairs by its base-B digits: each
    digit is uniform to 2^-32, and the digits of one word are jointly uniform to a relative 2^-16. With 0 nothing is
    random.
    """
    n = mdp.n_successors
    if n == 1:
        return 0, 1
    return (max(1, int(16 / np.log2(n))), n) if equally_likely(mdp) else (1, 1)


def equally_likely(mdp: FiniteMDP) -> bool:
    """Whether every learned pair has B successors of probability 1/B."""
    x, u = mdp.pairs.T
    return bool(np.abs(mdp.probabilities[x, u] - 1 / mdp.n_successors).max() < 1e-12)


def chain_tables(sampling: Any, mdp: FiniteMDP, mode: int) -> "kernels.ChainTables":
    """How chains of this sampling mode move, as the kernels read it."""
    from mqlearn.learning import kernels

    policy = sampling.policy(mdp)
    x, u = mdp.pairs.T
    edges = np.zeros(len(x), np.uint64)
    if policy is None:
        behaviour = kernels.EPSILON_GREEDY
    elif isinstance(sampling.behaviour, str):
        behaviour = kernels.UNIFORM
    else:
        behaviour = kernels.TABLE
        edges = _behaviour_edges(mdp, policy)
    distribution = sampling.episode_starts(mdp)
    starts = np.flatnonzero(distribution > 0)
    keep, alias = alias_table(distribution[starts])
    pair_keep, pair_alias = np.zeros(1, np.uint64), np.zeros(1, np.uint32)
    if mode == kernels.IID:
        pair_keep, pair_alias = alias_table(_fixed(stationary(sampling, mdp))[x, u])
    return kernels.ChainTables(
        mode=mode,
        period=getattr(sampling, "draws", 1),
        behaviour=behaviour,
        edges=edges,
        starts=starts.astype(np.int64),
        keep=keep,
        alias=alias,
        restart=round(sampling.restart_probability * _WORD),
        limit=0 if sampling.time_limit is None else int(sampling.time_limit),
        epsilon=sampling.exploration,
        goal=mdp.goal.astype(np.uint8),
        pair_keep=pair_keep,
        pair_alias=pair_alias,
    )


def _behaviour_edges(mdp: FiniteMDP, policy: np.ndarray) -> np.ndarray:
    """(n,) uint64 lower edges of the pairs' shares of a 32-bit word."""
    x, u = mdp.pairs.T
    share = policy[x, u]
    before = np.concatenate([[0.0], np.cumsum(share)])[:-1]
    before -= before[mdp.pair_offsets[x]]
    # The edge of an impossible action at the end of a state's list lies beyond every word, whatever was rounded.
    return np.where(before < 1 - 1e-9, np.ceil(before * _WORD), _WORD).astype(np.uint64)


def alias_table(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Vose's alias method: draw j uniformly, take it when a 32-bit word is below keep[j] (uint64), else alias[j]."""
    n = len(weights)
    scaled = np.asarray(weights, dtype=np.float64) * (n / weights.sum())
    keep, alias = np.ones(n), np.arange(n)
    if np.abs(scaled - 1).max() > 1e-12:
        small = [j for j in range(n) if scaled[j] < 1]
        large = [j for j in range(n) if scaled[j] >= 1]
        while small and large:
            low, high = small.pop(), large[-1]
            keep[low], alias[low] = scaled[low], high
            scaled[high] -= 1 - scaled[low]
            if scaled[high] < 1:
                small.append(large.pop())
        for j in small:  # rounding has left them just below 1
            if weights[j] == 0:
                keep[j], alias[j] = 0.0, int(np.argmax(weights))
    return np.round(keep * _WORD).astype(np.uint64), alias.astype(np.uint32)
