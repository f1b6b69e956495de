"""What theory predicts for a cell with linear features, and what is measured of its samples: bias, memory of replay."""

import math
from typing import Any

import numpy as np

from mqlearn.algorithms import MomentumQLinear, QLearning, Rule, Stateful
from mqlearn.errors import SettingError
from mqlearn.experiments.settings.cell import Cell
from mqlearn.theory import assumptions, bounds
from mqlearn.theory.assumptions import Check
from mqlearn.theory.mixing import Mixing, chain, mixing

_SEEDS = 100  # of what is measured on fresh samples: the bias, the memory of replay,
_BIASED = 100_000  # up to so many iterations,
_TIMES = 13  # at so many of them,
_REMEMBERED = 4e6  # with so many stored transitions


def vacuous(values: Any, trivial: float) -> Any:
    """Where bounds say no more than what is known without them: not below it, or NaN, which bounds nothing."""
    return ~np.less(values, trivial)


def as_row(name: str, value: float, trivial: float, assumes: str) -> dict[str, Any]:
    """trivial: what is known without the bound."""
    return {
        "name": name,
        "value": value,
        "vacuous": bool(vacuous(value, trivial)),
        "trivial": trivial,
        "assumes": assumes,
    }


def largest_reward(cell: Cell) -> float:
    """R, the largest size of a reward in the target over the learned pairs."""
    mdp = cell.mdp
    rewards = mdp.mean_rewards if cell.settings["reward"] == "mean" else mdp.rewards
    return float(np.abs(rewards[mdp.learned]).max())


def last_step(cell: Cell) -> float:
    """kappa = a_T, the step size at the last iteration."""
    return float(np.asarray(cell.run_arguments["step_size"](np.array([float(cell.settings["iterations"])])))[0])


def mixing_of(cell: Cell) -> Mixing | str:
    """Of the sampling chain, or why it has none."""
    sampling = cell.run_arguments["sampling"]
    if sampling.name == "recorded":
        return "nobody knows by which chain recorded transitions were made"
    if sampling.adaptive:
        return "the behaviour depends on what is learned"
    if sampling.time_limit is not None:
        return "with a time limit the state alone is no Markov chain"
    behaviour, start = sampling.policy(cell.mdp), sampling.episode_starts(cell.mdp)
    return mixing(chain(cell.mdp, behaviour, start, sampling.restart_probability))


def mixing_check(found: Mixing | str, kappa: float) -> Check:
    if isinstance(found, str):
        return Check("Assumption 4", assumptions.UNKNOWN, None, found)
    return assumptions.ergodic_chain(found, kappa)


class LinearFeatures:
    """theta*, Assumption 2 and mixing of a cell with features."""

    def __init__(self, cell: Cell, rule: Rule | Stateful) -> None:
        from mqlearn.learning.sampling import Synchronous, stationary
        from mqlearn.problems.fixed_points import theta_star

        sampling, self.cell, self.mdp = cell.run_arguments["sampling"], cell, cell.mdp
        self.features, self.projection = cell.run_arguments["features"], cell.run_arguments["linear"].projection
        theta0 = cell.run_arguments["theta0"]
        self.start = float(theta0) if isinstance(theta0, int | float) else 0.0
        if isinstance(sampling, Synchronous):
            raise SettingError("sampling", sampling.name, "linear features learn from chains")
        mu = stationary(sampling, self.mdp)
        if mu is None:
            reason = "must be fixed: mu, and with it theta*, depends on what is learned otherwise"
            raise SettingError("sampling.behaviour", sampling.behaviour, reason)
        self.mu = mu
        self.root = theta_star(self.mdp, self.features, mu, theta0=self.start)
        self.found = assumptions.monotone(self.mdp, self.features, mu, self.root)
        self.mixing = mixing_of(cell)
        self.r_max = largest_reward(cell)

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
        """None where Assumption 2 or 4 is not known to hold."""
        if self.contraction is None or isinstance(self.mixing, str) or not self.mixing.certified:
            return None
        away = float(np.linalg.norm(self.root.theta[self.root.used] - self.start))
        d_max = 2 * self.projection if self.projection else 2 * max(float(np.linalg.norm(self.root.theta)), away)
        tau = self.mixing.tau(kappa)
        return bounds.Constants(self.mdp.discount, self.contraction, d_max, self.r_max, kappa, tau)

    def bounds(self, rule: Rule | Stateful) -> list[dict[str, Any]]:
        """Of E |theta - theta*|^2 at the last iteration, kappa = a_T; trivial: D_max^2."""
        from mqlearn.algorithms.step_sizes import Constant, InverseSqrt

        last, step = np.array([self.cell.settings["iterations"]]), self.cell.run_arguments["step_size"]
        if not last[0] or not isinstance(rule, MomentumQLinear | QLearning):
            return []
        known = self.constants(last_step(self.cell))
        if known is None:
            return []
        beta, lam, phi = (rule.beta, rule.lam, rule.phi) if isinstance(rule, MomentumQLinear) else (0.0, 0.5, 0.5)
        away = float(np.linalg.norm(self.root.theta[self.root.used] - self.start))
        origin = f"delta {known.contraction:.4g}, D_max {known.d_max:.4g}, tau {known.tau}"
        if not self.projection:
            origin += "; D_max from theta* and theta_0, no projection holds it"
        named: dict[str, float] = {}
        if isinstance(step, Constant):
            named["vanilla, same proof"] = float(bounds.vanilla(last, known, alpha=step.alpha, start=away)[0])
            schedule = assumptions.schedule(rule, self.mdp.discount, False, self.contraction)
            if schedule.verdict == assumptions.HOLDS:
                given = {"alpha": step.alpha, "beta": beta, "lam": lam, "phi": phi, "start": away}
                named = {"Theorem 1": float(bounds.theorem_1(last, known, **given)[0]), **named}
        if isinstance(step, InverseSqrt) and step.h == 1:
            named["Theorem 2"] = float(bounds.theorem_2(last, known, alpha=step.alpha, beta=beta, lam=lam)[0])
        return [as_row(name, value, known.d_max**2, origin) for name, value in named.items()]

    def no_bias(self, rule: Rule | Stateful) -> str | None:
        """Why there is no bias to measure; None where there is."""
        if self.cell.run_arguments["sampling"].name == "recorded":
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
            n_seeds=_SEEDS, seed=int(given["seed"]), theta0=given["theta0"], mean_reward=given["reward"] == "mean",
        )  # fmt: skip


def memory_of(cell: Cell) -> dict[str, Any] | None:
    """Total variation between the memory of replay and mu over time; None for other samplings, or without mu."""
    from mqlearn.learning.bias import replay_distance
    from mqlearn.learning.sampling import Replay, stationary

    sampling, last = cell.run_arguments["sampling"], int(cell.settings["iterations"])
    if not isinstance(sampling, Replay) or not last or sampling.adaptive:
        return None
    mu = stationary(sampling, cell.mdp)
    if mu is None:
        return None
    k = np.unique(np.geomspace(1, min(last, _BIASED), _TIMES).astype(int))
    n_seeds = max(1, min(_SEEDS, int(_REMEMBERED / sampling.capacity)))
    found = replay_distance(cell.mdp, sampling, mu, k, n_seeds=n_seeds, seed=int(cell.run_arguments["seed"]))
    return {"iteration": k.tolist(), "mean": found.mean(0).tolist(), "seeds": n_seeds, "capacity": sampling.capacity}
