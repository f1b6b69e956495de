"""What theory predicts for a cell with linear features, and what is measured of its samples: bias, memory of replay."""

import math
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mqlearn.algorithms import MomentumQLinear, QLearning, Rule, Stateful
from mqlearn.algorithms.step_sizes import Constant, InverseSqrt
from mqlearn.errors import SettingError
from mqlearn.experiments.settings.cell import Cell
from mqlearn.learners.initial import of_all_seeds
from mqlearn.theory import assumptions, bounds
from mqlearn.theory.assumptions import Check
from mqlearn.theory.bounds import Slope
from mqlearn.theory.mixing import Mixing, chain, mixing

_SEEDS = 100  # of what is measured on fresh samples: the bias, the memory of replay,
_BIASED = 100_000  # up to so many iterations,
_TIMES = 13  # at so many of them,
_REMEMBERED = 4e6  # with so many stored transitions


@dataclass(frozen=True, eq=False)
class Bound:
    """A theorem's bound: values (C,) at some iterations, vacuous (C,) where they are not below the trivial one or NaN.

    trivial: what is known without the bound.   assumes: what it takes for granted, in words.   metric: the curve that
    it is of, theta as a mean square and not relative to theta*.
    """

    name: str
    values: np.ndarray
    trivial: float
    assumes: str
    metric: str = "q_error"

    @property
    def vacuous(self) -> np.ndarray:
        return ~np.less(self.values, self.trivial)  # NaN bounds nothing

    def row(self) -> dict[str, Any]:
        """At the last of its iterations, for JSON."""
        return {
            "name": self.name, "value": float(self.values[-1]), "vacuous": bool(self.vacuous[-1]),
            "trivial": self.trivial, "assumes": self.assumes,
        }  # fmt: skip


def largest_reward(cell: Cell) -> float:
    """R, the largest size of a reward in the target over the learned pairs."""
    mdp = cell.mdp
    rewards = mdp.mean_rewards if cell.settings["reward"] == "mean" else mdp.rewards
    return float(np.abs(rewards[mdp.learned]).max())


def last_step(cell: Cell) -> float:
    """kappa = a_T, the step size at the last iteration."""
    return float(np.asarray(cell.run_arguments["step_size"](np.array([float(cell.settings["iterations"])])))[0])


def mixing_of(cell: Cell) -> Mixing | str:
    """Of the sampling chain, or why it has none. Raises SettingError where i.i.d. samples have no distribution."""
    from mqlearn.sampling.modes import stationary

    sampling = cell.run_arguments["sampling"]
    if sampling.independent:  # a chain that forgets at once
        mu = stationary(sampling, cell.mdp)
        assert mu is not None
        share = mu.sum(1)[mu.sum(1) > 0]
        return mixing(np.tile(share, (len(share), 1)))
    walk = sampling.trajectory(cell.mdp)
    return (
        walk if isinstance(walk, str) else mixing(chain(cell.mdp, walk.policy, walk.starts, walk.restart_probability))
    )


def mixing_check(found: Mixing | str, kappa: float) -> Check:
    if isinstance(found, str):
        return Check("Assumption 4", assumptions.UNKNOWN, None, found)
    return assumptions.ergodic_chain(found, kappa)


def _falls_as_asked(step: Any) -> bool:
    return isinstance(step, InverseSqrt) and step.h == 1


class LinearFeatures:
    """theta*, Assumption 2 and mixing of a cell with features.

    Raises SettingError where there is no theta*: synchronous sampling, a behaviour that depends on what is learned.
    """

    def __init__(self, cell: Cell, rule: Rule | Stateful) -> None:
        from mqlearn.problems.fixed_points import theta_star
        from mqlearn.sampling.modes import stationary

        sampling, self.cell, self.mdp = cell.run_arguments["sampling"], cell, cell.mdp
        self.features, self.projection = cell.run_arguments["features"], cell.run_arguments["linear"].projection
        theta0 = cell.run_arguments["theta0"]
        self.start: float = float(theta0) if isinstance(theta0, int | float) else 0.0
        if sampling.all_pairs:
            raise SettingError("sampling", sampling.name, "linear features learn from chains")
        mu = stationary(sampling, self.mdp)
        if mu is None:
            reason = "must be fixed: mu, and with it theta*, depends on what is learned otherwise"
            raise SettingError("sampling.behaviour", sampling.behaviour, reason)
        self.mu = mu
        self.root = theta_star(self.mdp, self.features, mu, theta0=self.start)
        self.r_max: float = largest_reward(cell)

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
        return self.cell.run_arguments["sampling"].capacity > 0

    @cached_property
    def mixing(self) -> Mixing | str:
        return mixing_of(self.cell)

    @property
    def length(self) -> float:
        """|theta*| over the columns that are sampled: the metric theta_error is relative to it; 1 where it is 0."""
        return float(np.linalg.norm(self.root.theta[self.root.used])) or 1.0

    @property
    def contraction(self) -> float | None:
        return self.found.low if self.found is not None and self.found.low > 0 else None

    def checks(self, kappa: float) -> list[Check]:
        return [
            assumptions.independent_features(self.features),
            assumptions.unique_root(self.mdp, self.features, self.root, self.found),
            assumptions.bounded_domain(self.root.theta, self.projection, self.r_max),
            mixing_check(self.mixing, kappa),
        ]

    def constants(self, kappa: float) -> bounds.Constants | None:
        """None where Assumption 2 or 4 is not known to hold, or samples are no trajectory's."""
        if self.remembers or self.contraction is None or isinstance(self.mixing, str) or not self.mixing.certified:
            return None
        away = float(np.linalg.norm(self.root.theta[self.root.used] - self.start))
        d_max = 2 * self.projection if self.projection else 2 * max(float(np.linalg.norm(self.root.theta)), away)
        tau = self.mixing.tau(kappa)
        return bounds.Constants(self.mdp.discount, self.contraction, d_max, self.r_max, kappa, tau)

    def no_bound(self, rule: Rule | Stateful) -> str | None:
        """Why no theorem bounds theta with known constants; None where one does."""
        step = self.cell.run_arguments["step_size"]
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

    def bounds(self, rule: Rule | Stateful, iteration: np.ndarray) -> list[Bound]:
        """Of E |theta - theta*|^2 after some iterations T (C,), kappa = a_T; trivial: D_max^2.

        Theorem 2 is of the mean of theta_1 .. theta_T, the others are of theta_T.
        """
        if not iteration[-1] or self.no_bound(rule) is not None:
            return []
        step = self.cell.run_arguments["step_size"]
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

    def own_bounds(self, rule: Rule | Stateful, iteration: np.ndarray) -> list[Bound]:
        """`bounds` without that of plain Q-learning beside a rule with momentum."""
        plain = isinstance(rule, QLearning)
        return [one for one in self.bounds(rule, iteration) if plain or not one.name.startswith("vanilla")]

    def slope(self, rule: Rule | Stateful) -> Slope | None:
        """Of the error of the mean of theta, where constants are missing; None where no theorem gives a rate."""
        mixes = not isinstance(self.mixing, str) and self.mixing.certified
        return bounds.slope_of_features(rule) if self.root.exists and self.may_hold and mixes else None

    def no_bias(self, rule: Rule | Stateful) -> str | None:
        """Why there is no bias to measure; None where there is."""
        if self.cell.run_arguments["sampling"].recorded:
            return "recorded transitions are the same for every seed, and it is a mean over seeds"
        if not isinstance(rule, MomentumQLinear | QLearning) or rule.batch > 1:
            return "the lemma is of Q-learning and of MomentumQ with linear features, one sample an iteration"
        if not self.root.exists:
            return "there is no theta*"
        return None if self.cell.settings["iterations"] else "there is no iteration"

    def bias(self, rule: Rule | Stateful) -> dict[str, Any] | None:
        """The lemma's bound at the last iteration, kappa = a_T, and the bias as measured over seeds."""
        if self.no_bias(rule) or not isinstance(rule, Rule):
            return None
        last, step = int(self.cell.settings["iterations"]), self.cell.run_arguments["step_size"]
        beta, lam = (rule.beta, rule.lam) if isinstance(rule, MomentumQLinear) else (0.0, 0.5)
        k = np.unique(np.geomspace(1, min(last, _BIASED), _TIMES).astype(int))
        known = self.constants(last_step(self.cell))
        at: list[float | None] = [None] * (len(k) + 1)
        if known is not None:
            given = {"step_size": step, "beta": beta, "lam": lam}
            at = bounds.bias(np.append(k, last), known, **given).tolist()
        seen = self.measured_bias(rule, k)
        measured = {
            "iteration": k.tolist(), "seeds": len(seen), "mean": seen.mean(0).tolist(),
            "standard_error": (seen.std(0, ddof=1) / math.sqrt(len(seen))).tolist(), "bound": at[:-1],
        }  # fmt: skip
        return {"iteration": last, "bound": at[-1], "tau": known.tau if known else None, "measured": measured}

    def measured_bias(self, rule: Rule, iteration: np.ndarray) -> np.ndarray:
        """(seeds, C)."""
        from mqlearn.learning.bias import measured_bias

        given = self.cell.run_arguments
        return measured_bias(
            self.mdp, self.features, given["linear"], given["sampling"], rule, self.mu, self.root.theta, iteration,
            n_seeds=_SEEDS, seed=int(given["seed"]), theta0=of_all_seeds(given["theta0"]),
            mean_reward=given["reward"] == "mean",
        )  # fmt: skip


def memory_of(cell: Cell) -> dict[str, Any] | None:
    """Total variation between the memory of replay and mu over time; None for other samplings, or without mu."""
    from mqlearn.learning.bias import replay_distance
    from mqlearn.sampling.modes import stationary

    sampling, last = cell.run_arguments["sampling"], int(cell.settings["iterations"])
    if not sampling.capacity or not last or sampling.adaptive:
        return None
    mu = stationary(sampling, cell.mdp)
    if mu is None:
        return None
    k = np.unique(np.geomspace(1, min(last, _BIASED), _TIMES).astype(int))
    n_seeds = max(1, min(_SEEDS, int(_REMEMBERED / sampling.capacity)))
    found = replay_distance(cell.mdp, sampling, mu, k, n_seeds=n_seeds, seed=int(cell.run_arguments["seed"]))
    return {"iteration": k.tolist(), "mean": found.mean(0).tolist(), "seeds": n_seeds, "capacity": sampling.capacity}
