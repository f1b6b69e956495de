"""What is being learned, and how it moves from iteration k to k + n: the state of a run behind the kernels.

A learner holds some lanes (seeds) of a run. All learners have the same few methods, so that the loop of
`mqlearn.experiment` knows nothing about sampling or features:

rows(k, n): the range of the weights' rows that iterations k .. k + n - 1 read;
advance(k, n, weights): those iterations, with these rows;   tables(): (lanes, S, A) estimates of Q*, measured;
acting_tables(): (lanes, S, A), of which greedy actions are taken, None if of `tables()`;
average_tables(): (lanes, S, A), mean of the tables that iterations 0 .. k - 1 made, None if it is not asked for;
largest(): (lanes,) largest absolute parameter;   copy();   keep(mask): forget the other lanes;
chain_state(): states (lanes, 6) and visits (lanes, pairs) of their chains, or None.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from mqlearn.algorithms.four_numbers import FourNumbers, FourNumbersLinear
from mqlearn.algorithms.rule import Rule, changed
from mqlearn.algorithms.stateful import Stateful
from mqlearn.checks import choice
from mqlearn.errors import SettingError
from mqlearn.learning.chains import Chain, Samples, copied, drop_lanes
from mqlearn.learning.initial import Initial, initial_values
from mqlearn.learning.sampling import Sampling, Synchronous, digits_of_words, outcome_tables
from mqlearn.learning.stateful.learners import ChainStateful, SharedStateful, SynchronousStateful
from mqlearn.problems.features import Features
from mqlearn.problems.mdp import FiniteMDP, table_of_pairs

if TYPE_CHECKING:
    from mqlearn.learning import kernels


class Learner(Protocol):
    """The methods that the loop calls; see the module's docstring."""

    @property
    def lanes(self) -> np.ndarray: ...
    def rows(self, k: int, n: int) -> tuple[int, int]: ...
    def advance(self, k: int, n: int, weights: np.ndarray) -> None: ...
    def tables(self) -> np.ndarray: ...
    def acting_tables(self) -> np.ndarray | None: ...
    def average_tables(self) -> np.ndarray | None: ...
    def largest(self) -> np.ndarray: ...
    def chain_state(self) -> tuple[np.ndarray, np.ndarray] | None: ...
    def copy(self) -> Self: ...
    def keep(self, mask: np.ndarray) -> None: ...


@dataclass(frozen=True)
class Linear:
    """How rules act on linear features (Algorithm 2 of the paper).

    previous_gradient: "stored", g_{k-1} of the old sample and parameter, as printed, or "same_sample", g at
    theta_{k-1} on the current sample.   first_gradient: g_{-1} is "same" as g_0, or "zero".   projection: radius of
    the ball that theta is kept in (Assumption 3), None for none; it costs O(d) an iteration.
    """

    previous_gradient: str = "stored"
    first_gradient: str = "same"
    projection: float | None = None

    def __post_init__(self) -> None:
        choice("linear.previous_gradient", self.previous_gradient, ("stored", "same_sample"))
        choice("linear.first_gradient", self.first_gradient, ("same", "zero"))
        if self.projection is not None and not self.projection > 0:
            raise SettingError("linear.projection", self.projection, "must be a positive radius, or null for none")


def start(
    mdp: FiniteMDP,
    sampling: Sampling,
    features: Any,
    linear: Linear,
    seed: int,
    initial: Initial,
    mean_reward: bool,
    lanes: np.ndarray,
    samples: Samples | None = None,
    rule: Any = None,
) -> Learner:
    """A fresh learner for the seed indices `lanes` (L,) uint32: Q_0 or theta_0 is `initial`.

    samples: of these very lanes and this sampling, if the learner is to share them: `shared_samples`.   rule: that it
    is to follow; one of four numbers needs not be named, its numbers are all that a learner has to know.
    """
    rule = with_state(rule, features, linear)
    if isinstance(sampling, Synchronous):
        if isinstance(rule, Stateful):
            return SynchronousStateful(rule, mdp, lanes, seed, initial, mean_reward)
        return SynchronousTable(mdp, lanes, seed, initial, mean_reward)
    if samples is None and features is not None:
        samples = shared_samples(mdp, sampling, features, linear, seed, mean_reward, lanes)
    if isinstance(rule, Stateful):
        if samples is not None:
            return SharedStateful(rule, samples, features, initial)
        return ChainStateful(rule, Chain(mdp, sampling, lanes, seed, mean_reward), features, initial, linear.projection)
    if samples is not None:
        if features is None:
            return SharedTable(samples, initial, sampling.clock == "local")
        return _averaged(LinearLearner(samples, features, linear, initial), rule)
    chain = Chain(mdp, sampling, lanes, seed, mean_reward)
    if features is not None:
        return _averaged(OwnChainLinearLearner(chain, features, linear, initial), rule)
    if sampling.update == "rounds":
        return RoundsTable(chain, initial)
    return AsynchronousTable(chain, initial, sampling.clock == "local")


def with_state(rule: Any, features: Any, linear: Linear) -> Any:
    """The rule that is run: one of four numbers as one with state, where a minibatch or an average asks for that."""
    if not isinstance(rule, Rule) or (rule.batch == 1 and not (rule.averaged and features is None)):
        return rule
    made = FourNumbers(rule)
    if features is not None:
        same_sample, zero_first = linear.previous_gradient == "same_sample", linear.first_gradient == "zero"
        made = FourNumbersLinear(rule, same_sample, zero_first)
    return changed(made, batch=rule.batch, averaged=rule.averaged)


def _averaged(learner: Any, rule: Any) -> Any:
    """A linear learner, which has the mean of its parameters in any case, with the word whether its table counts."""
    learner.averaged = rule is not None and rule.averaged
    return learner


def can_share(sampling: Any, features: Any, linear: Linear) -> bool:
    """Whether rules can learn from the same samples, drawn beforehand: on chains that do not see what is learned.

    With a projection every iteration takes so long that drawing is nothing beside it.
    """
    if isinstance(sampling, Synchronous) or sampling.adaptive:
        return False
    if features is None:
        return sampling.update == "pair"
    return isinstance(features, Features) and linear.projection is None


def shared_samples(
    mdp: FiniteMDP,
    sampling: Sampling,
    features: Any,
    linear: Linear,
    seed: int,
    mean_reward: bool,
    lanes: np.ndarray,
) -> Samples | None:
    """The samples of some lanes, for learners of any rule; None where learners draw their own."""
    return Samples(Chain(mdp, sampling, lanes, seed, mean_reward)) if can_share(sampling, features, linear) else None


class _FourNumbers:
    """A learner of a rule of four numbers. Abstract."""

    def acting_tables(self) -> None:
        return None

    def average_tables(self) -> np.ndarray | None:
        return None


class SynchronousTable(_FourNumbers):
    """One table a lane; every iteration draws a successor of every pair (the paper's Algorithm 1)."""

    arrays = ("lanes", "q", "q_prev")

    def __init__(self, mdp: FiniteMDP, lanes: np.ndarray, seed: int, initial: Initial, mean_reward: bool) -> None:
        self.mdp = mdp
        self.lanes = lanes
        self.seed = np.uint32(seed)
        self.model = synchronous_model(mdp, mean_reward)
        self.q = initial_values(len(mdp.pairs), initial, lanes, seed)
        self.q_prev = self.q.copy()

    def rows(self, k: int, n: int) -> tuple[int, int]:
        return k, k + n

    def advance(self, k: int, n: int, weights: np.ndarray) -> None:
        from mqlearn.learning import kernels

        stream = np.uint32(kernels.STREAMS["synchronous"])
        discount = self.mdp.discount
        kernels.synchronous(self.q, self.q_prev, self.model, weights[:n], discount, k, self.lanes, self.seed, stream)

    def tables(self) -> np.ndarray:
        return table_of_pairs(self.mdp, self.q)

    def largest(self) -> np.ndarray:
        return np.abs(self.q).max(axis=1)

    def chain_state(self) -> None:
        return None

    def copy(self) -> Self:
        return copied(self)

    def keep(self, mask: np.ndarray) -> None:
        drop_lanes(self, mask)


class _OnChain(_FourNumbers):
    """A learner that is fed by chains. Abstract."""

    arrays: tuple[str, ...] = ()
    chain: Chain

    @property
    def lanes(self) -> np.ndarray:
        return self.chain.lanes

    def chain_state(self) -> tuple[np.ndarray, np.ndarray]:
        return self.chain.states, self.chain.visits

    def copy(self) -> Self:
        other = copied(self)
        other.chain = copied(self.chain)
        return other

    def keep(self, mask: np.ndarray) -> None:
        drop_lanes(self, mask)
        drop_lanes(self.chain, mask)


class AsynchronousTable(_OnChain):
    """One table a lane of which the visited pair moves: the template at that pair, Q_{k-1} the previous table."""

    arrays = ("q", "last", "counts")

    def __init__(self, chain: Chain, initial: Initial, local: bool) -> None:
        self.chain = chain
        self.local = local
        self.q = initial_values(len(chain.mdp.pairs), initial, chain.lanes, int(chain.seed))
        self.last = np.stack([np.zeros(len(self.q)), self.q[:, 0]], axis=1)
        self.counts = np.zeros(self.q.shape, np.int64)

    def rows(self, k: int, n: int) -> tuple[int, int]:
        return (0, int(self.counts.max()) + n) if self.local else (k, k + n)

    def advance(self, k: int, n: int, weights: np.ndarray) -> None:
        from mqlearn.learning import kernels

        c = self.chain
        tables = kernels.Tables(self.q, self.last, self.counts)
        kernels.asynchronous_table(
            tables, c.model, c.tables, c.walks, weights, self.local, c.mdp.discount, k, n
        )  # fmt: skip

    def tables(self) -> np.ndarray:
        return table_of_pairs(self.chain.mdp, self.q)

    def largest(self) -> np.ndarray:
        return np.abs(self.q).max(axis=1)


class _FromSamples:
    """A learner that is fed by samples which others may share: its chains do not see what is learned. Abstract."""

    arrays: tuple[str, ...] = ()

    def __init__(self, samples: Samples) -> None:
        self.samples = samples
        self.places = np.arange(len(samples.chain.lanes))  # of its lanes among those of the samples
        self.k = 0

    @property
    def lanes(self) -> np.ndarray:
        return self.chain.lanes[self.places]

    @property
    def chain(self) -> Chain:
        """Of all lanes of the samples, where the last block ends."""
        return self.samples.chain

    def chain_state(self) -> tuple[np.ndarray, np.ndarray]:
        return self.samples.chain_state(self.k, self.places)

    def copy(self) -> Self:
        """A copy that learns from the same samples: the two must stay within one block."""
        return copied(self)

    def keep(self, mask: np.ndarray) -> None:
        drop_lanes(self, mask)
        self.places = self.places[mask]


class SharedTable(_FromSamples, _FourNumbers):
    """`AsynchronousTable` from samples that rules share."""

    arrays = ("q", "last", "counts")

    def __init__(self, samples: Samples, initial: Initial, local: bool) -> None:
        super().__init__(samples)
        self.local = local
        self.q = initial_values(len(self.chain.mdp.pairs), initial, self.chain.lanes, int(self.chain.seed))
        self.last = np.stack([np.zeros(len(self.q)), self.q[:, 0]], axis=1)
        self.counts = np.zeros(self.q.shape, np.int64)

    def rows(self, k: int, n: int) -> tuple[int, int]:
        return (0, int(self.counts.max()) + n) if self.local else (k, k + n)

    def advance(self, k: int, n: int, weights: np.ndarray) -> None:
        from mqlearn.learning import kernels

        drawn = self.samples.block(k, n, self.places)
        tables = kernels.Tables(self.q, self.last, self.counts)
        kernels.table_from_samples(tables, self.chain.model, drawn, weights, self.local, self.chain.mdp.discount)
        self.k = k + n

    def tables(self) -> np.ndarray:
        return table_of_pairs(self.chain.mdp, self.q)

    def largest(self) -> np.ndarray:
        return np.abs(self.q).max(axis=1)


class RoundsTable(_OnChain):
    """Tables that move in rounds, when every reachable pair has been visited (Azar et al. 2011, asynchronous)."""

    arrays = ("q", "q_prev", "sums", "counts", "rounds")

    def __init__(self, chain: Chain, initial: Initial) -> None:
        self.chain = chain
        self.q = initial_values(len(chain.mdp.pairs), initial, chain.lanes, int(chain.seed))
        self.q_prev = self.q.copy()
        self.sums = np.zeros((len(self.q), 2, self.q.shape[1]))
        self.counts = np.zeros(self.q.shape, np.int64)
        x, u = chain.mdp.pairs.T
        self.wanted = chain.mdp.counted[x, u]
        self.rounds = np.tile(np.array([0, self.wanted.sum()], np.int64), (len(self.q), 1))

    def rows(self, k: int, n: int) -> tuple[int, int]:
        return 0, int(self.rounds[:, 0].max()) + n // max(1, int(self.wanted.sum())) + 2

    def advance(self, k: int, n: int, weights: np.ndarray) -> None:
        from mqlearn.learning import kernels

        c = self.chain
        tables = kernels.Rounds(self.q, self.q_prev, self.sums, self.counts, self.rounds)
        kernels.asynchronous_rounds(
            tables, self.wanted, c.model, c.tables, c.walks, weights, c.mdp.discount, k, n
        )  # fmt: skip

    def tables(self) -> np.ndarray:
        return table_of_pairs(self.chain.mdp, self.q)

    def largest(self) -> np.ndarray:
        return np.abs(self.q).max(axis=1)


class _LinearParameters(_FourNumbers):
    """Parameters theta (L, d) of linear features, v = theta_k - theta_{k-1}, sum of theta_1 .. theta_k. Abstract."""

    arrays = ("theta", "v", "sums", "last")
    averaged = False

    def __init__(self, chain: Chain, features: Any, linear: Linear, initial: Initial) -> None:
        self.mdp = chain.mdp
        self.features = features
        from mqlearn.learning import kernels

        self.active = kernels.Features(features.active, features.values)
        self.options = kernels.Options(linear.previous_gradient == "same_sample", linear.first_gradient == "zero")
        self.k = 0
        self.theta = initial_values(features.n_features, initial, chain.lanes, int(chain.seed))
        self.v = np.zeros_like(self.theta)
        self.sums = np.zeros_like(self.theta)
        self.last = np.tile([-1.0, 0.0], (len(self.theta), 1))

    def rows(self, k: int, n: int) -> tuple[int, int]:
        return k, k + n

    @property
    def average(self) -> np.ndarray:
        """(L, d): mean of theta_1 .. theta_k, the output of Theorem 2; theta_0 at k = 0."""
        return self.sums / self.k if self.k else self.theta.copy()

    def tables(self) -> np.ndarray:
        return self.features.table(self.mdp, self.theta)

    def average_tables(self) -> np.ndarray | None:
        return self.features.table(self.mdp, self.average) if self.averaged else None

    def largest(self) -> np.ndarray:
        return np.abs(self.theta).max(axis=1)


class LinearLearner(_FromSamples, _LinearParameters):
    """Linear features, learned from samples that other learners may share."""

    arrays = _LinearParameters.arrays

    def __init__(self, samples: Samples, features: Any, linear: Linear, initial: Initial) -> None:
        _FromSamples.__init__(self, samples)
        _LinearParameters.__init__(self, samples.chain, features, linear, initial)

    def advance(self, k: int, n: int, weights: np.ndarray) -> None:
        from mqlearn.learning import kernels

        drawn = self.samples.block(k, n, self.places)
        parameters = kernels.Parameters(self.theta, self.v, self.sums, self.last)
        kernels.linear_from_samples(
            parameters, self.chain.model, self.active, drawn, weights[:n], self.options, self.mdp.discount
        )
        self.k = k + n


class OwnChainLinearLearner(_LinearParameters, _OnChain):
    """Linear features on chains that see what is learned, or with a projection (see `can_share`)."""

    def __init__(self, chain: Chain, features: Any, linear: Linear, initial: Initial) -> None:
        super().__init__(chain, features, linear, initial)
        self.chain = chain
        self.projection = linear.projection

    def advance(self, k: int, n: int, weights: np.ndarray) -> None:
        from mqlearn.learning import kernels

        c = self.chain
        parameters = kernels.Parameters(self.theta, self.v, self.sums, self.last)
        what = (parameters, c.model, c.tables, self.active, c.walks, weights[:n], self.options)
        if self.projection is None:
            kernels.linear_adaptive(*what, c.mdp.discount, k)
        else:
            kernels.linear_dense(*what, self.projection, c.mdp.discount, k)
        self.k = k + n


def synchronous_model(mdp: FiniteMDP, mean_reward: bool) -> "kernels.AllPairs":
    """The model as `kernels.synchronous` reads it, over the learned pairs."""
    from mqlearn.learning import kernels

    y, r, edges = outcome_tables(mdp, mean_reward)
    reuse, base = digits_of_words(mdp)
    return kernels.AllPairs(mdp.pair_offsets.astype(np.uint64), y, r, edges, reuse, np.uint32(base))
