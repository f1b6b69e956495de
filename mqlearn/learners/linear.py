"""Parameters of linear features, and how rules act on them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mqlearn.checks import PlainNumbers, choice, finite_number
from mqlearn.errors import SettingError
from mqlearn.learners.initial import Initial, initial_values
from mqlearn.learners.learner import FourNumbersLearner
from mqlearn.learners.operators import BELLMAN, BoundOperator
from mqlearn.learners.sources import FromSamples, OnChain
from mqlearn.sampling.chains import Chain, Samples


@dataclass(frozen=True)
class Linear(PlainNumbers):
    """How rules act on linear features (Algorithm 2 of the paper).

    previous_gradient: "stored", g_{k-1} of the old sample and parameter, as printed, or "same_sample", g at
    theta_{k-1} on the current sample.   first_gradient: g_{-1} is "same" as g_0, or "zero".   projection: radius of
    the ball that theta is kept in (Assumption 3), None for none; it costs O(d) an iteration. Of a rule with state of
    its own, each table that the estimate is made of is kept in it.

    Raises SettingError for values that are not admissible.
    """

    previous_gradient: str = "stored"
    first_gradient: str = "same"
    projection: float | None = None

    def __post_init__(self) -> None:
        choice("linear.previous_gradient", self.previous_gradient, ("stored", "same_sample"))
        choice("linear.first_gradient", self.first_gradient, ("same", "zero"))
        radius = finite_number(self.projection)
        if self.projection is not None and not (radius is not None and radius > 0):
            raise SettingError("linear.projection", self.projection, "must be a positive radius, or null for none")


class _LinearParameters(FourNumbersLearner):
    """Parameters theta (L, d) of linear features, v = theta_k - theta_{k-1}, sum of theta_1 .. theta_k. Abstract."""

    arrays: tuple[str, ...] = ("theta", "v", "sums", "last")
    averaged = False

    def __init__(
        self, chain: Chain, features: Any, linear: Linear, initial: Initial, operator: BoundOperator = BELLMAN
    ) -> None:
        self.mdp, self.operator = chain.mdp, operator
        self.features = features
        from mqlearn import kernels

        self.active = kernels.Features(features.active, features.values)
        self.options = kernels.Options(linear.previous_gradient == "same_sample", linear.first_gradient == "zero")
        self.k = 0
        self.theta: np.ndarray = initial_values(features.n_features, initial, chain.lanes, int(chain.seed))
        self.v: np.ndarray = np.zeros_like(self.theta)
        self.sums: np.ndarray = np.zeros_like(self.theta)
        self.last: np.ndarray = np.tile([-1.0, 0.0], (len(self.theta), 1))

    def rows(self, k: int, n: int) -> tuple[int, int]:
        return k, k + n

    @property
    def average(self) -> np.ndarray:
        """(L, d): mean of theta_1 .. theta_k, the output of Theorem 2, without those left out; before, theta_k."""
        n = self.k - self.left_out
        return self.sums / n if n > 0 else self.theta.copy()

    def begin_average(self) -> None:
        self.sums[:] = 0.0

    def tables(self) -> np.ndarray:
        return self.features.table(self.mdp, self.theta)

    def average_tables(self) -> np.ndarray | None:
        return self.features.table(self.mdp, self.average) if self.averaged else None

    def largest(self) -> np.ndarray:
        return np.abs(self.theta).max(axis=1)


class LinearLearner(FromSamples, _LinearParameters):
    """Linear features, learned from samples that other learners may share."""

    arrays: tuple[str, ...] = _LinearParameters.arrays

    def __init__(
        self, samples: Samples, features: Any, linear: Linear, initial: Initial, operator: BoundOperator = BELLMAN
    ) -> None:
        FromSamples.__init__(self, samples)
        _LinearParameters.__init__(self, samples.chain, features, linear, initial, operator)

    def advance(self, k: int, n: int, weights: np.ndarray) -> None:
        from mqlearn import kernels

        drawn = self.samples.block(k, n, self.places)
        parameters = kernels.Parameters(self.theta, self.v, self.sums, self.last)
        kernels.linear_from_samples(
            parameters,
            self.chain.model,
            self.active,
            drawn,
            weights[:n],
            self.options,
            self.mdp.discount,
            self.operator.compiled,
        )
        self.k: int = k + n


class OwnChainLinearLearner(_LinearParameters, OnChain):
    """Linear features under an adaptive behaviour, or with a projection (see `can_share`)."""

    def __init__(
        self, chain: Chain, features: Any, linear: Linear, initial: Initial, operator: BoundOperator = BELLMAN
    ) -> None:
        super().__init__(chain, features, linear, initial, operator)
        self.chain = chain
        self.projection = linear.projection

    def advance(self, k: int, n: int, weights: np.ndarray) -> None:
        from mqlearn import kernels

        c = self.chain
        parameters = kernels.Parameters(self.theta, self.v, self.sums, self.last)
        what = (parameters, c.model, c.tables, self.active, c.walks, weights[:n], self.options)
        if self.projection is None:
            kernels.linear_adaptive(*what, c.mdp.discount, k, self.operator.compiled)
        else:
            kernels.linear_dense(*what, self.projection, c.mdp.discount, k, self.operator.compiled)
        self.k: int = k + n
