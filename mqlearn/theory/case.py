"""What theorems are asked about: a rule with its step size on a problem, as objects."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mqlearn.algorithms import Rule, Stateful
from mqlearn.algorithms.operators import Operator
from mqlearn.problems.mdp import FiniteMDP
from mqlearn.sampling.protocol import Sampling, stationary
from mqlearn.theory import assumptions
from mqlearn.theory.assumptions import Check
from mqlearn.theory.mixing import Mixing, chain, mixing


@dataclass(frozen=True, eq=False, kw_only=True)
class Case:
    """A rule on a problem.

    rule: with its step size, at the discount.   step_size: that step size.   sampling: on the clock of the run.
    features: None for tables.   projection: radius of theta, or None.   reward: "mean" or "sampled", in the target.
    q0, theta0: where learning starts; theorems speak of a number alone.   iterations: T.
    """

    mdp: FiniteMDP
    rule: Rule | Stateful
    step_size: Any
    sampling: Sampling
    operator: Operator
    features: Any
    projection: float | None
    reward: str
    q0: Any
    theta0: Any
    iterations: int

    @property
    def largest_reward(self) -> float:
        """R, the largest size of a reward in the target over the learned pairs."""
        rewards = self.mdp.mean_rewards if self.reward == "mean" else self.mdp.rewards
        return float(np.abs(rewards[self.mdp.learned]).max())

    @property
    def last_step(self) -> float:
        """kappa = a_T, the step size at the last iteration."""
        return float(np.asarray(self.step_size(np.array([float(self.iterations)])))[0])


def mixing_of(mdp: FiniteMDP, sampling: Sampling) -> Mixing | str:
    """Of the sampling chain, or why it has none. Raises SettingError where i.i.d. samples have no distribution."""
    if sampling.independent:  # a chain that forgets at once
        mu = stationary(sampling, mdp)
        assert mu is not None
        share = mu.sum(1)[mu.sum(1) > 0]
        return mixing(np.tile(share, (len(share), 1)))
    walk = sampling.trajectory(mdp)
    return walk if isinstance(walk, str) else mixing(chain(mdp, walk.policy, walk.starts, walk.restart_probability))


def mixing_check(found: Mixing | str, kappa: float) -> Check:
    """Assumption 4 of a chain, or why it is not known."""
    if isinstance(found, str):
        return Check("Assumption 4", assumptions.UNKNOWN, None, found)
    return assumptions.ergodic_chain(found, kappa)
