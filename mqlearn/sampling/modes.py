"""Sampling modes as immutable settings. What they draw from: `tables`."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np

from mqlearn.checks import are_distributions, check_int, choice, differ, finite_number, within
from mqlearn.errors import SettingError, user_code
from mqlearn.problems.mdp import FiniteMDP
from mqlearn.sampling.protocol import (
    ADAPTIVE,
    BY_VISITS,
    CLOCKS,
    LOGARITHMIC,
    Line,
    Sampling,
    Walk,
    of_walk,
    stationary,
)

__all__ = ["IID", "Markovian", "Pairs", "Replay", "Sampling", "Synchronous", "stationary"]

Policy = np.ndarray | Callable[[FiniteMDP], np.ndarray]
_Kind = TypeVar("_Kind")


@dataclass(frozen=True)
class Synchronous(Sampling):
    """Every iteration draws an independent successor of every pair (generative model; the paper's Algorithm 1).

    It has no settings, and counts a sample a pair and iteration.

    >>> result = mq.run(mq.two_state(), mq.QLearning(), iterations=10, n_seeds=2, sampling=mq.Synchronous())
    >>> result.samples[-1].item()  # three pairs
    30
    """

    name: ClassVar[str] = "synchronous"
    all_pairs: ClassVar[bool] = True
    independent: ClassVar[bool] = True

    def distribution(self, mdp: FiniteMDP) -> np.ndarray:
        """(S, A): of each learned pair the same."""
        return mdp.learned / mdp.learned.sum()


_PARAMETERS = """
    behaviour: "uniform" over admissible actions, "epsilon_greedy" in the current estimate (ties uniformly at random),
        "boltzmann", P(u | x) proportional to exp(Q(x, u)/temperature) in the current estimate Q, or a stochastic
        policy (S, A), as an array or as a function of the MDP.
    epsilon: exploration rate of epsilon_greedy, a number; (first, last, iterations), linear in the iteration k and
        constant afterwards; "log", 1/log(k + 2), at most 1; or "visits", 1/n^power, n how often the chain was in its
        state by then, now included.
    power: of epsilon="visits", in (0, 1].
    temperature: of boltzmann, a number above 0, or (first, last, iterations), linear in k and constant afterwards.
    start: of an episode, "start" (the MDP's distribution) or "uniform" over non-terminal states.
    restart_probability: of ending an episode after any step, in [0, 1).
    time_limit: moves of an episode, None for no limit. Neither it nor a restart is a terminal state: the target
        bootstraps.
    clock: the k of a table's step size, "global" iterations, "local" visits of the pair or "state" visits of its
        state; "auto" is local for rules of four numbers where the visited pair moves, else global.
    update: of a table, "pair", the visited pair moves at once, or "rounds", all pairs move when each was visited
        (Azar et al. 2011).

    Raises SettingError for a value that is not admissible.
    """


def _line(given: Any) -> Line:
    """(first, last, iterations) of a number or of three; NaN of all else."""
    alone = finite_number(given)
    if alone is not None:
        return alone, alone, 1.0
    several = isinstance(given, list | tuple) or (isinstance(given, np.ndarray) and given.ndim == 1)
    values = [math.nan if (number := finite_number(one)) is None else number for one in (given if several else ())]
    first, last, span = values if len(values) == 3 else [math.nan] * 3
    return first, last, span


def _explained(kind: type[_Kind]) -> type[_Kind]:
    """The class with the parameters of its chain in its docstring."""
    kind.__doc__ = (kind.__doc__ or "").rstrip() + "\n" + _PARAMETERS
    return kind


@dataclass(frozen=True, kw_only=True)
class _Chain(Sampling):
    """The sampling chain: episodes under a behaviour policy, with restarts. Abstract; `_PARAMETERS` explains it."""

    all_pairs: ClassVar[bool] = False
    independent: ClassVar[bool] = False
    consecutive: ClassVar[bool] = False
    recorded: ClassVar[bool] = False
    one_seed: ClassVar[bool] = False
    needs_model: ClassVar[bool] = False
    behaviour: str | Policy = "uniform"
    epsilon: float | Line | str = 0.1
    power: float = 0.5
    temperature: float | Line = 1.0
    start: str = "start"
    restart_probability: float = 0.0
    time_limit: int | None = None
    clock: str = "auto"
    update: str = "pair"

    def __post_init__(self) -> None:
        for name in ("epsilon", "temperature"):  # an array is the same line as a list: one digest for both
            if isinstance(line := getattr(self, name), np.ndarray):
                object.__setattr__(self, name, line.tolist())
        if isinstance(self.behaviour, str):
            more = ", or a policy (S, A) of one of your plugins"
            choice("sampling.behaviour", self.behaviour, ("uniform", *ADAPTIVE), more)
        choice("sampling.start", self.start, ("start", "uniform"))
        choice("sampling.clock", self.clock, CLOCKS)
        choice("sampling.update", self.update, ("pair", "rounds"))
        probability = finite_number(self.restart_probability)
        if probability is None or not 0 <= probability < 1:
            raise SettingError("sampling.restart_probability", self.restart_probability, "must lie in [0, 1)")
        check_int("sampling.time_limit", self.time_limit, 1, of="moves", null="none")
        within("sampling.power", self.power, 0.0, 1.0, ends="(]")
        first, last, span = _line(self.epsilon)
        if self._word is None and not (0 <= last <= first <= 1 and span > 0):
            expected = (
                "must be a number in [0, 1], [first, last, iterations] with 1 >= first >= last >= 0, log or visits"
            )
            raise SettingError("sampling.epsilon", self.epsilon, expected)
        first, last, span = _line(self.temperature)
        if not (0 < last <= first and span > 0):
            expected = "must be a number above 0, or [first, last, iterations] with first >= last > 0"
            raise SettingError("sampling.temperature", self.temperature, expected)

    @property
    def _word(self) -> str | None:
        return self.epsilon if isinstance(self.epsilon, str) and self.epsilon in ("log", "visits") else None

    @property
    def exploration(self) -> Line:
        """(first, last, iterations) of the exploration rate, see `protocol`; 0 of boltzmann, which needs none."""
        if self.cooling is not None:
            return 0.0, 0.0, 1.0
        words = {"log": (1.0, 0.0, LOGARITHMIC), "visits": (self.power, 0.0, BY_VISITS)}
        return _line(self.epsilon) if self._word is None else words[self._word]

    @property
    def cooling(self) -> Line | None:
        """(first, last, iterations) of the temperature; None but for boltzmann."""
        return _line(self.temperature) if self._acts("boltzmann") else None

    def without_effect(self) -> dict[str, str]:
        idle = {} if self._acts("boltzmann") else {"temperature": "the behaviour is not boltzmann"}
        if not self._acts("epsilon_greedy"):
            return dict.fromkeys(("epsilon", "power"), "the behaviour is not epsilon_greedy") | idle
        return idle if self._word == "visits" else idle | {"power": "epsilon is not visits"}

    def _acts(self, *names: str) -> bool:
        return isinstance(self.behaviour, str) and self.behaviour in names

    @property
    def adaptive(self) -> bool:
        """Whether the trajectory depends on what is learned: then only its uniforms are common to all rules."""
        return self._acts(*ADAPTIVE)

    def policy(self, mdp: FiniteMDP) -> np.ndarray | None:
        """The behaviour as probabilities (S, A), None if it depends on what is learned. Raises SettingError."""
        if isinstance(self.behaviour, str):
            if self.adaptive:
                return None
            return mdp.learned / np.maximum(mdp.learned.sum(axis=1, keepdims=True), 1)
        table: Any = self.behaviour
        if callable(table):
            name = getattr(table, "__name__", "policy")
            with user_code("sampling.behaviour", name):
                table, again = table(mdp), table(mdp)
            if differ(table, again):
                expected = "gives other numbers when it is called again: a policy must follow from the model"
                raise SettingError("sampling.behaviour", name, expected)
        shape = (mdp.n_states, mdp.n_actions)
        if np.ndim(table) == 0:
            raise SettingError("sampling.behaviour", table, f"must be an array of probabilities (S, A), here {shape}")
        try:
            table = np.asarray(table, dtype=np.float64)
        except (TypeError, ValueError):
            raise SettingError("sampling.behaviour", table, "must be an array of probabilities (S, A)") from None
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

    def walk(self, mdp: FiniteMDP) -> Walk:
        uniform = isinstance(self.behaviour, str) and not self.adaptive
        episodes = self.episode_starts(mdp), self.restart_probability, self.time_limit
        return Walk(self.policy(mdp), uniform, *episodes, self.exploration, self.cooling)

    def trajectory(self, mdp: FiniteMDP) -> Walk | str:
        """The walk, if its states are a Markov chain; else why they are none."""
        if self.adaptive:
            return "the behaviour depends on what is learned"
        return self.walk(mdp) if self.time_limit is None else "with a time limit the state alone is no Markov chain"

    def distribution(self, mdp: FiniteMDP) -> np.ndarray | None:
        """(S, A): the stationary distribution, None when it depends on what is learned. Raises SettingError."""
        walk = self.walk(mdp)
        return None if walk.policy is None else of_walk(mdp, walk)

    def check(self, mdp: FiniteMDP, iterations: int, n_seeds: int) -> None:
        self.policy(mdp)


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
    consecutive: ClassVar[bool] = True
    capacity: ClassVar[int] = 0


@_explained
@dataclass(frozen=True, kw_only=True)
class Replay(_Chain):
    """The trajectory feeds a ring buffer; every iteration learns from a uniform draw of it (the paper's "i.i.d.").

    >>> sampling = mq.Replay(capacity=10_000, warm_up=500, draws=4, start="uniform")
    >>> lake = mq.frozen_lake("4x4")
    >>> mq.run(lake, mq.QLearning(), iterations=1000, n_seeds=2, sampling=sampling).facts["chain_steps"]
    1500

    capacity: transitions that the buffer holds.
    warm_up: steps of the chain before iteration 0, acting uniformly where the behaviour sees what is learned.
    draws: iterations for each further step of the chain.
    """

    name: ClassVar[str] = "replay"
    capacity: int = 100_000
    warm_up: int = 0
    draws: int = 1

    def __post_init__(self) -> None:
        _Chain.__post_init__(self)
        check_int("sampling.capacity", self.capacity, 1, of="transitions")
        check_int("sampling.warm_up", self.warm_up, 0, of="steps")
        if check_int("sampling.draws", self.draws, 1, of="transitions") > self.capacity:
            expected = f"must be at most the capacity of the buffer, {self.capacity}: it never holds more"
            raise SettingError("sampling.draws", self.draws, expected)


@_explained
@dataclass(frozen=True, kw_only=True)
class IID(_Chain):
    """Independent transitions from the exact stationary distribution of the chain, restarts included.

    The behaviour must be uniform or a fixed policy: one that sees what is learned has no stationary chain.

    >>> cautious = np.full((16, 4), [0.1, 0.4, 0.4, 0.1])
    >>> sampling = mq.IID(behaviour=cautious, restart_probability=0.01)
    >>> lake = mq.frozen_lake("4x4")
    >>> mq.run(lake, mq.QLearning(), iterations=1000, n_seeds=5, sampling=sampling).status
    'finished'
    """

    name: ClassVar[str] = "iid"
    independent: ClassVar[bool] = True
    needs_model: ClassVar[bool] = True
    capacity: ClassVar[int] = 0

    def __post_init__(self) -> None:
        _Chain.__post_init__(self)
        if self.adaptive:
            expected = "has no stationary chain to draw from; use uniform or a fixed policy, or sampling=replay"
            raise SettingError("sampling.behaviour", self.behaviour, expected)


@dataclass(frozen=True, kw_only=True)
class Pairs(Sampling):
    """Each iteration draws one pair uniformly among those that count, and its successor from the model: independent.

    What generative-model papers call asynchronous or random sampling: no chain, one pair an iteration. Pairs that
    cannot be reached from the start are never drawn.

    clock: the k of a table's step size, "local" visits of the pair, "state" visits of its state or "global"
        iterations; "auto" is local for rules of four numbers.

    Raises SettingError for another clock.

    >>> result = mq.run(mq.two_state(), mq.QLearning(), iterations=300, n_seeds=2, sampling=mq.Pairs())
    >>> result.samples[-1].item(), int(result.visits.sum())
    (300, 600)
    """

    name: ClassVar[str] = "pairs"
    all_pairs: ClassVar[bool] = False
    independent: ClassVar[bool] = True
    clock: str = "auto"

    def __post_init__(self) -> None:
        choice("sampling.clock", self.clock, CLOCKS)

    def distribution(self, mdp: FiniteMDP) -> np.ndarray:
        """(S, A): of each counted pair the same."""
        return mdp.counted / mdp.counted.sum()
