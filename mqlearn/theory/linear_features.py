"""What theorems say of a case with linear features: Assumptions 1 to 4, bounds of theta, its rate, the lemma's bias."""

from contextlib import suppress
from functools import cached_property
from typing import Any

import numpy as np

from mqlearn.algorithms import MomentumQLinear, QLearning
from mqlearn.algorithms.step_sizes import Constant, InverseSqrt
from mqlearn.errors import SettingError
from mqlearn.problems.fixed_points import theta_star
from mqlearn.sampling.protocol import stationary
from mqlearn.theory import assumptions, bounds
from mqlearn.theory.assumptions import Check
from mqlearn.theory.bounds import Bound, Slope
from mqlearn.theory.case import Case, mixing_check, mixing_of
from mqlearn.theory.mixing import Mixing


def _falls_as_asked(step: Any) -> bool:
    return isinstance(step, InverseSqrt) and step.h == 1


class LinearFeatures:
    """theta*, Assumption 2 and mixing of a case with features, and what theorems then say.

    Raises SettingError where there is no theta*: synchronous sampling, a behaviour that depends on what is learned.
    """

    def __init__(self, case: Case) -> None:
        sampling, self.case, self.mdp, self.rule = case.sampling, case, case.mdp, case.rule
        self.features, self.projection = case.features, case.projection
        self.start: float = float(case.theta0) if isinstance(case.theta0, int | float) else 0.0
        if sampling.all_pairs:
            raise SettingError("sampling", sampling.name, "linear features learn from chains")
        mu = stationary(sampling, self.mdp)
        if mu is None:
            reason = "must be fixed: mu, and with it theta*, depends on what is learned otherwise"
            raise SettingError("sampling.behaviour", getattr(sampling, "behaviour", None), reason)
        self.mu = mu
        self.root = theta_star(self.mdp, self.features, mu, theta0=self.start)
        self.r_max: float = case.largest_reward

    @cached_property
    def found(self) -> assumptions.Monotone | None:
        """Assumption 2."""
        return assumptions.monotone(self.mdp, self.features, self.mu, self.root)

    @property
    def may_hold(self) -> bool:
        """Whether nothing is known against Assumption 2."""
        return assumptions.unique_root(self.mdp, self.features, self.root, self.found).verdict != assumptions.FAILS

    @property
    def remembers(self) -> bool:
        """Whether samples come from a memory of replay: the theorems are of the trajectory itself."""
        return self.case.sampling.capacity > 0

    @cached_property
    def mixing(self) -> Mixing | str:
        return mixing_of(self.mdp, self.case.sampling)

    @property
    def length(self) -> float:
        """|theta*| over the columns that are sampled: the metric theta_error is relative to it; 1 where it is 0."""
        return float(np.linalg.norm(self.root.theta[self.root.used])) or 1.0

    @property
    def contraction(self) -> float | None:
        return self.found.low if self.found is not None and self.found.low > 0 else None

    def checks(self) -> list[Check]:
        """Assumptions 1 to 4, and which theorem covers the rule with its step size."""
        return [
            assumptions.independent_features(self.features),
            assumptions.unique_root(self.mdp, self.features, self.root, self.found),
            assumptions.bounded_domain(self.root.theta, self.projection, self.r_max),
            mixing_check(self.mixing, self.case.last_step),
            assumptions.schedule(self.rule, self.mdp.discount, False, self.contraction),
        ]

    def constants(self, kappa: float) -> bounds.Constants | None:
        """None where Assumption 2 or 4 is not known to hold, or samples are no trajectory's."""
        if self.remembers or self.contraction is None or isinstance(self.mixing, str) or not self.mixing.certified:
            return None
        away = float(np.linalg.norm(self.root.theta[self.root.used] - self.start))
        d_max = 2 * self.projection if self.projection else 2 * max(float(np.linalg.norm(self.root.theta)), away)
        tau = self.mixing.tau(kappa)
        return bounds.Constants(self.mdp.discount, self.contraction, d_max, self.r_max, kappa, tau)

    def no_bound(self) -> str | None:
        """Why no theorem bounds theta with known constants; None where one does."""
        rule, step = self.rule, self.case.step_size
        if not isinstance(rule, MomentumQLinear | QLearning):
            return f"no theorem of the paper covers {type(rule).__name__} with linear features"
        if isinstance(rule, MomentumQLinear) and not (0 < rule.beta < 1 and 0 < rule.lam < 1):
            return "the theorems ask for 0 < beta, lambda < 1"
        if self.remembers:
            return "the theorems are of one trajectory, and replay draws from a memory of it"
        if self.contraction is None:
            return "Assumption 2 is not known to hold"
        if isinstance(self.mixing, str):
            return self.mixing
        if not self.mixing.certified:
            return "Assumption 4 is not known to hold"
        if not isinstance(step, Constant) and not _falls_as_asked(step):
            return "Theorem 1 asks for a constant step, Theorem 2 for alpha/sqrt(k)"
        return None

    def bounds(self, iteration: np.ndarray) -> list[Bound]:
        """Of E |theta - theta*|^2 after some iterations T (C,), kappa = a_T; trivial: D_max^2.

        Theorem 2 is of the mean of theta_1 .. theta_T, the others are of theta_T.
        """
        if not iteration[-1] or self.no_bound() is not None:
            return []
        rule, step = self.rule, self.case.step_size
        kappas = np.asarray(step(iteration.astype(float))) + np.zeros(len(iteration))
        known = [self.constants(float(kappa)) for kappa in kappas]
        last = known[-1]
        assert last is not None
        beta, lam, phi = (rule.beta, rule.lam, rule.phi) if isinstance(rule, MomentumQLinear) else (0.0, 0.5, 0.5)
        origin = f"delta {last.contraction:.4g}, D_max {last.d_max:.4g}, tau {last.tau}"
        if not self.projection:
            origin += "; D_max from theta* and theta_0, no projection holds it"
        away = float(np.linalg.norm(self.root.theta[self.root.used] - self.start))
        named: dict[str, np.ndarray] = {}
        if isinstance(step, Constant):
            given = {"alpha": step.alpha, "start": away}
            if assumptions.schedule(rule, self.mdp.discount, False, self.contraction).verdict == assumptions.HOLDS:
                with suppress(SettingError):  # a step that is too long for its discussion, 1/(2 delta (1 + b_0))
                    named["Theorem 1"] = bounds.theorem_1(iteration, last, **given, beta=beta, lam=lam, phi=phi)
            named["vanilla, same proof"] = bounds.vanilla(iteration, last, **given)
        else:
            given = {"alpha": step.alpha, "beta": beta, "lam": lam}
            each = [bounds.theorem_2(iteration[i : i + 1], one, **given)[0] for i, one in enumerate(known) if one]
            named["Theorem 2"] = np.array(each)
        metric = "theta_error" if isinstance(step, Constant) else "theta_error_average"
        return [Bound(name, values, last.d_max**2, origin, metric) for name, values in named.items()]

    def own_bounds(self, iteration: np.ndarray) -> list[Bound]:
        """`bounds` without that of plain Q-learning beside a rule with momentum."""
        plain = isinstance(self.rule, QLearning)
        return [one for one in self.bounds(iteration) if plain or not one.name.startswith("vanilla")]

    def slope(self) -> Slope | None:
        """Of the error of the mean of theta, where constants are missing; None where no theorem gives a rate."""
        mixes = not isinstance(self.mixing, str) and self.mixing.certified
        return bounds.slope_of_features(self.rule) if self.root.exists and self.may_hold and mixes else None

    def no_bias(self) -> str | None:
        """Why the lemma speaks of no bias; None where it does."""
        if self.case.sampling.recorded:
            return "recorded transitions are the same for every seed, and it is a mean over seeds"
        if not isinstance(self.rule, MomentumQLinear | QLearning) or self.rule.batch > 1:
            return "the lemma is of Q-learning and of MomentumQ with linear features, one sample an iteration"
        if not self.root.exists:
            return "there is no theta*"
        return None if self.case.iterations else "there is no iteration"

    def bias_bounds(self, iteration: np.ndarray) -> np.ndarray | None:
        """(C,): the lemma's bound of the bias at some iterations, kappa = a_T; None without known constants."""
        known, rule = self.constants(self.case.last_step), self.rule
        if known is None:
            return None
        beta, lam = (rule.beta, rule.lam) if isinstance(rule, MomentumQLinear) else (0.0, 0.5)
        return bounds.bias(iteration, known, step_size=self.case.step_size, beta=beta, lam=lam)
