"""Learners of rules with state of their own: what is remembered of each seed, and how samples reach the step."""

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any, Self

import numpy as np

from mqlearn.algorithms.stateful import Stateful
from mqlearn.learners.clock import OnClock
from mqlearn.learners.initial import Initial, initial_values
from mqlearn.learners.operators import BELLMAN, BoundOperator
from mqlearn.learners.sources import FromSamples, OnChain
from mqlearn.problems.mdp import FiniteMDP, table_of_pairs
from mqlearn.sampling.chains import Chain, Samples
from mqlearn.sampling.sample_numbers import unpack
from mqlearn.stateful.module import Compiled, compiled_step
from mqlearn.stateful.pairs import ModelPairs
from mqlearn.stateful.reference import Transition, measured, project
from mqlearn.stateful.values import Layout

_NO_FEATURES = np.zeros(1, np.uint32), np.zeros(1), np.uint64(1)


class StatefulLearner:
    """State of L seeds, name -> (L, ...) float64. Abstract; the methods are those of `learners.Learner`.

    A compiled rule is run by the loop of `module`, any other by its own `step`: both from the same samples.
    """

    lanes: Any
    left_out = 0

    def __init__(
        self,
        rule: Stateful,
        mdp: FiniteMDP,
        features: Any,
        lanes: np.ndarray,
        seed: int,
        initial: Initial,
        operator: BoundOperator,
    ) -> None:
        self.operator = operator
        self.rule, self.mdp, self.features, self.seed = rule, mdp, features, np.uint32(seed)
        self.names: tuple[str, ...] = rule.number_names
        n = len(mdp.pairs) if features is None else features.n_features
        states = [rule.init(q0) for q0 in initial_values(n, initial, lanes, seed)]
        made = {name: np.array([state[name] for state in states], np.float64) for name in states[0]}
        self.layout = Layout({name: array.shape[1:] for name, array in made.items()}, n)
        tables = [made[name] for name in self.layout.tables]
        z = np.stack(tables, axis=1) if tables else np.empty((len(lanes), 0, n))
        sums = (np.zeros_like(z),) if rule.averaged else ()
        self._hold(z, (*(made[name] for name in self.layout.others), *sums))
        self.k = 0
        self.compiled: Compiled | None = None
        self.cut: list[str] = measured(rule, vars(self.of_seed(0))) if rule.clip is not None else []
        entries = None if features is None else (features.active, features.values)
        self.pairs = ModelPairs(mdp.pair_offsets, mdp.discount, entries, operator.operator)

    def _hold(self, z: np.ndarray, others: tuple[np.ndarray, ...]) -> None:
        """Take arrays as the state: z (L, tables, n), others (L, ...), and the sums of z if an average is kept."""
        self.z, self.others = z, others
        names = [*self.layout.tables, *self.layout.others]
        self.state = dict(zip(names, [*np.moveaxis(z, 1, 0), *others], strict=False))

    def rows(self, k: int, n: int) -> tuple[int, int]:
        return k, k + n

    def of_seed(self, row: int) -> SimpleNamespace:
        """The state of one seed: z."""
        return SimpleNamespace(**{name: array[row] for name, array in self.state.items()})

    def _of_all(self, function: Any) -> np.ndarray:
        """(L, n) or (L, d): `estimate` or `acting` of each seed."""
        return np.stack([function(self.of_seed(row)) for row in range(len(self.lanes))])

    def _tables(self, function: Any) -> np.ndarray:
        return self._as_tables(self._of_all(function))

    def _as_tables(self, made: np.ndarray) -> np.ndarray:
        return table_of_pairs(self.mdp, made) if self.features is None else self.features.table(self.mdp, made)

    def tables(self) -> np.ndarray:
        return self._tables(self.rule.estimate)

    @property
    def _acts_on_its_own(self) -> bool:
        return type(self.rule).acting is not Stateful.acting

    def acting_tables(self) -> np.ndarray | None:
        return self._tables(self.rule.acting) if self._acts_on_its_own else None

    @property
    def theta_acting(self) -> np.ndarray | None:
        """(L, d): the parameter whose greedy actions are taken; None for tables, and where that is `theta`."""
        return self._of_all(self.rule.acting) if self.features is not None and self._acts_on_its_own else None

    @property
    def theta(self) -> np.ndarray | None:
        """(L, d): the parameter that is compared with theta*; None for tables."""
        return None if self.features is None else self._of_all(self.rule.estimate)

    @property
    def average(self) -> np.ndarray | None:
        """(L, n) or (L, d): mean of what the iterations made but for those left out, if it is kept; before, the last.

        The measured table is linear in the state, so that it is had from the means of the tables.
        """
        if not self.rule.averaged:
            return None
        n = self.k - self.left_out
        if n <= 0:
            return self._of_all(self.rule.estimate)
        means = self.others[-1] / n
        for row in self._lazy:  # whose sums lack k times the table
            means[:, row] += self.k / n * self.z[:, row]
        names = self.layout.tables
        return np.stack([self.rule.estimate(SimpleNamespace(**dict(zip(names, one, strict=True)))) for one in means])

    @property
    def _lazy(self) -> Sequence[int]:
        return () if self.compiled is None else self.compiled.lazy

    def begin_average(self) -> None:
        if self.rule.averaged:
            self.others[-1][:] = 0.0
            for row in self._lazy:
                self.others[-1][:, row] = -float(self.k) * self.z[:, row]

    def average_tables(self) -> np.ndarray | None:
        average = self.average
        return None if average is None else self._as_tables(average)

    def largest(self) -> np.ndarray:
        return np.max([np.abs(array.reshape(len(array), -1)).max(axis=1) for array in self.state.values()], axis=0)

    def _clip(self, z: SimpleNamespace) -> None:
        """Cut the measured tables of a seed, if that is asked for."""
        for name in self.cut:
            table = getattr(z, name)
            np.clip(table, *self.rule.clip, out=table)  # type: ignore[misc]  # there is one

    def _sum(self, row: int) -> None:
        """Add the tables of a seed to their sums, if they are kept."""
        if self.rule.averaged:
            self.others[-1][row] += self.z[row]

    def _numbers(self, weights: np.ndarray) -> list[SimpleNamespace]:
        """The numbers of each iteration: c."""
        return [SimpleNamespace(**dict(zip(self.names, row, strict=True))) for row in weights.tolist()]

    def _copy_state(self, other: "StatefulLearner") -> None:
        other._hold(self.z.copy(), tuple(array.copy() for array in self.others))

    def _keep_state(self, mask: np.ndarray) -> None:
        self._hold(*(np.ascontiguousarray(self.z[mask]), tuple(np.ascontiguousarray(one[mask]) for one in self.others)))

    def _uniform(self, k: int, lane: int) -> np.ndarray | None:
        return own_uniforms(self.rule, k, lane, self.seed)


class _OneTransition(OnClock, StatefulLearner):
    """One transition an iteration. Abstract."""

    chain: Chain
    radius = np.inf  # of the ball
    kept: Sequence[str] = ()  # in which these are kept, see `measured`

    def _compiled(self, source: str) -> Any:
        mode = "asynchronous" if self.features is None else "linear"
        own = self.operator.operator
        return compiled_step(self.rule, mode, self.layout, source, own, self.local) if self.rule.compiled else None

    @property
    def _entries(self) -> tuple[np.ndarray, np.ndarray, np.uint64]:
        """The features as the loops read them: columns and values in one row, and how many a pair."""
        if self.features is None:
            return _NO_FEATURES
        active, values = self.features.active, self.features.values
        return active.reshape(-1), values.reshape(-1), np.uint64(active.shape[1])

    def _learn(self, k: int, lanes: np.ndarray, samples: np.ndarray, numbers: list[SimpleNamespace]) -> None:
        """Iterations k, k + 1, ... from samples (L, n); numbers: of each, or where visits are counted of each count."""
        for row, lane in enumerate(lanes.tolist()):
            z = self.of_seed(row)
            pairs = unpack(samples[row], self.chain.model.shift).pair.tolist()
            transitions = self._transitions(k, lane, samples[row])
            for i, (pair, sample) in enumerate(zip(pairs, transitions, strict=True)):
                self.rule.step(z, sample, numbers[self.count(row, pair) if self.local else i])
                for name in self.kept:
                    project(getattr(z, name), self.radius)
                self._clip(z)
                self._sum(row)

    def _transitions(self, k: int, lane: int, samples: np.ndarray) -> Iterator[Transition]:
        model = self.chain.model
        numbers = unpack(samples, model.shift)
        for i, (pair, outcome, first) in enumerate(zip(*(part.tolist() for part in numbers[:3]), strict=True)):
            rewards, y = [model.rewards[pair, outcome]], [first]
            others, paid = self._further(pair, k + i, lane, "batch", self.rule.batch - 1)
            y, rewards = [*y, *others], [*rewards, *paid]
            again = Transition(self.pairs, pair, rewards, self._further(pair, k + i, lane, "again", len(y))[0])
            yield Transition(self.pairs, pair, rewards, y, self._uniform(k + i, lane), again)

    def _further(self, pair: int, k: int, lane: int, stream: str, n: int) -> tuple[np.ndarray, np.ndarray]:
        kernels = _kernels()
        y, r = np.empty(n, np.int64), np.empty(n)
        kernels.further_successors(self.chain.model, pair, k, np.uint32(lane), self.seed, _stream(stream), y, r)
        return y, r


class ChainStateful(OnChain, _OneTransition):
    """From chains of its own: tables or linear features."""

    arrays: tuple[str, ...] = ("counts",)

    def __init__(
        self,
        rule: Stateful,
        chain: Chain,
        features: Any,
        initial: Initial,
        radius: float | None = None,
        operator: BoundOperator = BELLMAN,
        clock: str = "global",
    ) -> None:
        _OneTransition.__init__(self, rule, chain.mdp, features, chain.lanes, int(chain.seed), initial, operator)
        self.chain = chain
        self.begin_clock(clock)
        if radius is not None:
            self.radius, self.kept = float(radius), measured(rule, vars(self.of_seed(0)))
        self.greedy: Any = chain.tables.behaviour == _kernels().EPSILON_GREEDY
        self.compiled = self._compiled("greedy chain" if self.greedy else "chain")

    def advance(self, k: int, n: int, weights: np.ndarray) -> None:
        kernels, c = _kernels(), self.chain
        weights = weights if self.local else weights[:n]
        self.k: int = k + n
        if self.compiled is not None:
            moved = c.model, c.tables, c.walks, self._entries, self.radius, weights
            targets = self.operator.compiled, self.counting
            self.compiled(self.z, self.others, *moved, self.mdp.discount, k, n, *targets)
            return
        numbers = self._numbers(weights)
        if not self.greedy:
            samples = np.empty((len(c.lanes), n), np.uint64)
            kernels.samples(c.model, c.tables, c.walks, k, samples)
            self._learn(k, c.lanes, samples, numbers)
            return
        samples = np.empty((len(c.lanes), 1), np.uint64)
        for i in range(n):
            kernels.sample_greedily(c.model, c.tables, c.walks, self._greedy(k + i), k + i, samples)
            self._learn(k + i, c.lanes, samples, numbers if self.local else numbers[i : i + 1])

    def _greedy(self, k: int) -> np.ndarray:
        """(L,) the greedy pairs in the states of the chains, see `greedy_pair`."""
        from mqlearn.kernels.asynchronous import greedy_pair

        c, pairs = self.chain, []
        for row, table in enumerate(self._of_all(self.rule.acting)):
            x = int(c.states[row, 0])
            values = np.zeros(len(self.mdp.pairs))
            for pair in range(self.pairs.offsets[x], self.pairs.offsets[x + 1]):
                values[pair] = self.pairs.value(table, pair)
            place = np.uint64(x), k, c.lanes[row], c.seed, c.streams.ties
            pairs.append(greedy_pair(values, c.model.offsets, *place, c.tables.temperature))
        return np.array(pairs, np.uint64)

    def copy(self) -> Self:
        other = super().copy()
        self._copy_state(other)
        return other

    def keep(self, mask: np.ndarray) -> None:
        super().keep(mask)
        self._keep_state(mask)


class SharedStateful(FromSamples, _OneTransition):
    """From samples that other learners share: tables or linear features, under a non-adaptive behaviour."""

    arrays: tuple[str, ...] = ("counts",)

    def __init__(
        self,
        rule: Stateful,
        samples: Samples,
        features: Any,
        initial: Initial,
        operator: BoundOperator = BELLMAN,
        clock: str = "global",
    ) -> None:
        FromSamples.__init__(self, samples)
        chain = samples.chain
        _OneTransition.__init__(self, rule, chain.mdp, features, chain.lanes, int(chain.seed), initial, operator)
        self.begin_clock(clock)
        self.compiled = self._compiled("samples")

    def advance(self, k: int, n: int, weights: np.ndarray) -> None:
        drawn = self.samples.block(k, n, self.places)
        weights = weights if self.local else weights[:n]
        self.k: int = k + n
        if self.compiled is not None:
            place = self.mdp.discount, k, self.lanes, self.seed, self.operator.compiled, self.counting
            self.compiled(self.z, self.others, self.chain.model, drawn, self._entries, weights, *place)
            return
        self._learn(k, self.lanes, drawn, self._numbers(weights))

    def copy(self) -> Self:
        other = super().copy()
        self._copy_state(other)
        return other

    def keep(self, mask: np.ndarray) -> None:
        super().keep(mask)
        self._keep_state(mask)


def own_uniforms(rule: Stateful, k: int, lane: int, seed: np.uint32) -> np.ndarray | None:
    """(4,) numbers in [0, 1) of iteration k, if the rule draws some of its own."""
    if not rule.draws_own:
        return None
    return _kernels().lane_words(k, 1, np.uint32(lane), seed, _stream("own"))[:, 0] / 2.0**32


def _kernels() -> Any:
    from mqlearn import kernels

    return kernels


def _stream(name: str) -> np.uint32:
    return np.uint32(_kernels().STREAMS[name])
